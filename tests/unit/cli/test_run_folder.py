"""The check of the folder that a command writes to."""

import errno
import tempfile

import pytest

from multirel.cli._run_folder import file_in_run


def test_a_missing_folder_is_made(tmp_path):
    assert file_in_run(tmp_path / "a" / "b", "c.png") == tmp_path / "a" / "b" / "c.png"
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_an_existing_file_may_be_replaced(tmp_path):
    (tmp_path / "c.png").touch()

    assert file_in_run(tmp_path, "c.png") == tmp_path / "c.png"


@pytest.mark.parametrize("below", [".", "deeper"])
def test_a_file_in_the_way_is_refused(tmp_path, below):
    (tmp_path / "run").touch()

    with pytest.raises(
        ValueError, match=r"must be a folder: got `.*run.*`, where a file is in the"
    ):
        file_in_run(tmp_path / "run" / below, "c.png")


def test_a_folder_where_the_file_should_be_is_refused(tmp_path):
    (tmp_path / "c.png").mkdir()

    with pytest.raises(
        ValueError, match=r"in which `c.png` can be written: got `.*`, where a folder"
    ):
        file_in_run(tmp_path, "c.png")


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    """Permission bits would not stop a superuser, so the refusal is put in place of the system's."""

    def refuse(**_arguments):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(OSError, match=r"can be written: got `.*\(Read-only file system\)\. Choose"):
        file_in_run(tmp_path, "c.png")
