"""Weight files: what can be read, and what every other file is answered with."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from multirel.networks._weight_file import first_few, read_weights


class RunsCode:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def save(path: Path, found) -> Path:
    torch.save(found, path)
    return path


def test_code_in_a_file_is_never_run(tmp_path: Path):
    trap = tmp_path / "trap"
    path = save(tmp_path / "weights.pth", {"weight": torch.zeros(1), "code": RunsCode(trap)})
    with pytest.raises(
        ValueError, match="`weights` must hold tensors only, .* never run"
    ) as raised:
        read_weights(path)
    assert not trap.exists()
    assert str(path) in str(raised.value)
    # torch's own advice is to run it.
    assert "weights_only" not in str(raised.value)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
@pytest.mark.parametrize("size", [0, 5, 100, -7])
def test_files_cut_short_are_named(suffix: str, size: int, tmp_path: Path):
    path = tmp_path / f"weights{suffix}"
    tensors = {"weight": torch.zeros(100)}
    save_file(tensors, path) if suffix == ".safetensors" else torch.save(tensors, path)
    path.write_bytes(path.read_bytes()[: size or None] if size else b"")
    with pytest.raises(ValueError, match="`weights` must .*weights"):
        read_weights(path)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_pages_that_a_browser_saved_are_no_weights(suffix: str, tmp_path: Path):
    path = tmp_path / f"weights{suffix}"
    path.write_text("<!DOCTYPE html><html>Not found</html>")
    with pytest.raises(ValueError, match="`weights` must .*weights"):
        read_weights(path)


def test_a_whole_file_is_asked_for_with_its_size(tmp_path: Path):
    path = tmp_path / "weights.safetensors"
    save_file({"weight": torch.zeros(100)}, path)
    path.write_bytes(path.read_bytes()[:-1])
    message = r"must be a whole .safetensors file: .* with \d+ bytes, which fails with .* Download"
    with pytest.raises(ValueError, match=message):
        read_weights(path)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of some versions of torch
@pytest.mark.parametrize(
    ("found", "got"),
    [
        (torch.zeros(3), "a Tensor"),
        ([torch.zeros(3)], "a list"),
        ({}, "nothing"),
        (
            {"state_dict": {"a": torch.zeros(1)}, "epoch": 3, "weight": torch.zeros(1)},
            "a dictionary in which state_dict, epoch hold something else",
        ),
        ({"a": torch.ones(2).to_sparse()}, "a dictionary in which a hold something else"),
        ({"a": torch.ones(2, device="meta")}, "a dictionary in which a hold something else"),
    ],
)
def test_anything_but_tensors_by_name_is_refused(found, got: str, tmp_path: Path):
    path = save(tmp_path / "weights.pth", found)
    with pytest.raises(
        ValueError, match=f"tensors by name and nothing else: got {got} in .*pth. Save"
    ):
        read_weights(path)


def test_missing_files_are_named(tmp_path: Path):
    path = tmp_path / "nowhere.safetensors"
    message = r"`weights` must be an existing file: .*nowhere.safetensors, which does not exist"
    with pytest.raises(ValueError, match=message):
        read_weights(path)
    with pytest.raises(ValueError, match="got .*, which is a folder. Check the path."):
        read_weights(tmp_path)


def test_other_endings_are_refused(tmp_path: Path):
    path = tmp_path / "weights.h5"
    path.write_bytes(b"data")
    message = r"a name that ends in .safetensors, .pth, .pt, got .*weights.h5. Save its tensors"
    with pytest.raises(ValueError, match=message):
        read_weights(path)


def test_weights_are_a_path():
    with pytest.raises(TypeError, match="`weights` must be the path of a file: got dict. Save"):
        read_weights({"weight": torch.zeros(1)})


def test_lists_of_names_end_after_a_few():
    assert first_few(["a", "b", "c"]) == "a, b, c"
    assert first_few(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
