"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from linrank import DataError
from linrank._files import atomic_write


def test_writes_text_and_bytes(tmp_path):
    with atomic_write(tmp_path / "a", "w") as file:
        file.write("ä\n")
    with atomic_write(tmp_path / "b", "wb") as file:
        file.write(b"\xff")
    assert (tmp_path / "a").read_bytes() == "ä\n".encode()
    assert (tmp_path / "b").read_bytes() == b"\xff"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_old_file_stays_until_all_is_written(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with atomic_write(path, "w") as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError()])
def test_old_file_stays_if_anything_fails(error, tmp_path):
    path = tmp_path / "a"
    path.write_text("old")

    def write():
        with atomic_write(path, "w") as file:
            file.write("new")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_full_disk(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(DataError, match="a: cannot be written: No space left on device"),
        atomic_write(path, "w") as file,
    ):
        file.write("new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_reasons(tmp_path):
    with (
        pytest.raises(DataError, match=r"x/a: cannot be written: there is no folder .*x$"),
        atomic_write(tmp_path / "x" / "a", "w"),
    ):
        pass
    with (
        pytest.raises(DataError, match="cannot be written: Is a directory"),
        atomic_write(tmp_path, "w"),
    ):
        pass
    (tmp_path / "file").touch()
    with (
        pytest.raises(DataError, match="file/a: cannot be written: Not a directory"),
        atomic_write(tmp_path / "file" / "a", "w"),
    ):
        pass


def test_link_and_permissions_stay(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    with atomic_write(link, "w") as file:
        file.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_new_file_has_the_usual_permissions(tmp_path):
    with atomic_write(tmp_path / "a", "w"):
        pass
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_devices_are_written_to_directly():
    with atomic_write("/dev/null", "w") as file:
        file.write("nothing")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with (
        pytest.raises(DataError, match="/dev/full: cannot be written: No space left on device"),
        atomic_write("/dev/full", "w") as file,
    ):
        file.write("x")
