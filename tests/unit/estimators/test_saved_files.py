"""The files of a model are replaced together, at whatever moment the process ends."""

import json
import os
from hashlib import sha256

import pytest
import torch

from multirel.estimators import _saved_files
from multirel.estimators._saved_files import read_files, write_files
from multirel.exceptions import SavedModelError


def write(folder, value):
    write_files(folder, {"a": torch.full((3,), float(value))}, {"value": value})


def read(folder):
    tensors, description = read_files(folder)
    assert tensors["a"].tolist() == [float(description["value"])] * 3
    return description["value"]


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def steps(monkeypatch):
    """Ends the process before the step with a number."""
    made = {"until": None, "count": 0}

    def counted(function):
        def call(*args, **kwargs):
            if made["count"] == made["until"]:
                raise Killed
            made["count"] += 1
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(_saved_files, "save_file", counted(_saved_files.save_file))
    monkeypatch.setattr(_saved_files, "flush", counted(_saved_files.flush))
    monkeypatch.setattr(_saved_files.os, "replace", counted(os.replace))
    return made


def test_what_is_written_is_read(tmp_path):
    write(tmp_path / "new" / "model", 1)
    assert read(tmp_path / "new" / "model") == 1
    assert sorted(os.listdir(tmp_path / "new" / "model")) == ["model.json", "model.safetensors"]


@pytest.mark.parametrize("until", range(6))
def test_a_folder_holds_the_old_model_or_the_new_one(tmp_path, steps, until: int):
    write(tmp_path, 1)
    steps.update(until=until, count=0)
    with pytest.raises(Killed):
        write(tmp_path, 2)
    steps["until"] = None
    assert read(tmp_path) == (1 if until < 4 else 2)
    # Whatever was left behind is no obstacle.
    write(tmp_path, 3)
    assert read(tmp_path) == 3
    assert sorted(os.listdir(tmp_path)) == ["model.json", "model.safetensors"]


@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize("second", range(8))
def test_two_ends_in_a_row_are_no_worse(tmp_path, steps, first: int, second: int):
    write(tmp_path, 1)
    for value, until in ((2, first), (3, second)):
        steps.update(until=until, count=0)
        try:
            write(tmp_path, value)
        except Killed:
            pass
    steps["until"] = None
    assert read(tmp_path) in (1, 2, 3)


@pytest.mark.parametrize("until", [4, 5])
def test_a_first_model_is_whole_once_its_tensors_are_in_place(tmp_path, steps, until: int):
    steps.update(until=until, count=0)
    with pytest.raises(Killed):
        write(tmp_path, 1)
    assert read(tmp_path) == 1


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "model").write_text("something else")
    with pytest.raises(NotADirectoryError, match="`path` must be a folder: .* is a file."):
        write(tmp_path / "model", 1)
    assert (tmp_path / "model").read_text() == "something else"


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_missing_file_says_so(tmp_path, name: str):
    write(tmp_path, 1)
    (tmp_path / name).unlink()
    with pytest.raises(
        SavedModelError, match="`path` must be a folder that `save` has written, with"
    ):
        read_files(tmp_path)


def test_a_missing_folder_says_so(tmp_path):
    with pytest.raises(SavedModelError, match="cannot be read .*No such file"):
        read_files(tmp_path / "nowhere")


def test_tensors_that_were_changed_are_refused(tmp_path):
    write(tmp_path, 1)
    path = tmp_path / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(
        SavedModelError, match="model.safetensors is not the one that model.json des"
    ):
        read_files(tmp_path)


def test_a_description_that_was_changed_is_refused(tmp_path):
    write(tmp_path, 1)
    path = tmp_path / "model.json"
    path.write_text(path.read_text().replace('"value": 1', '"value": 2'))
    with pytest.raises(SavedModelError, match="is damaged .model.json was changed."):
        read_files(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_a_description_that_is_none_is_refused(tmp_path, text: str):
    write(tmp_path, 1)
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(SavedModelError, match="model.json is no"):
        read_files(tmp_path)


def test_another_format_says_which(tmp_path):
    write(tmp_path, 1)
    path = tmp_path / "model.json"
    path.write_text(path.read_text().replace("multirel-estimator-1", "multirel-estimator-0"))
    with pytest.raises(SavedModelError, match="expected the format .*-1', got .*-0' in .* again"):
        read_files(tmp_path)


def test_tensors_that_are_none_are_refused(tmp_path):
    write(tmp_path, 1)
    data = b"no tensors at all"
    (tmp_path / "model.safetensors").write_bytes(data)
    path = tmp_path / "model.json"
    content = json.loads(path.read_text())
    content.pop("checksum")
    content["tensors"] = sha256(data).hexdigest()
    path.write_text(json.dumps({**content, "checksum": _saved_files._checksum(content)}))
    with pytest.raises(SavedModelError, match="model.safetensors holds no tensors"):
        read_files(tmp_path)
