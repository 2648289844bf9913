"""Atomic writing of files."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys

import pytest

from commandline import PATIENCE
from linrank import DataError, make_ranking, save_store
from linrank._util import files
from linrank._util.files import atomic_write


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


@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o644, 0o400])
def test_a_file_is_never_more_open_than_the_one_it_replaces(permissions, tmp_path):
    """The file is private while it is written too, whatever the umask."""
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(permissions)
    before = os.umask(0)
    try:
        with atomic_write(path, "w") as file:
            file.write("new")
            (other,) = set(tmp_path.iterdir()) - {path}
            assert stat.S_IMODE(other.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == permissions
    assert path.read_text() == "new"


@pytest.mark.skipif(os.getuid() != 0, reason="only an administrator can give files away")
def test_owner_and_group_stay(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    os.chown(path, 12345, 54321)
    path.chmod(0o660)
    with atomic_write(path, "w"):
        pass
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 54321, 0o660)


def test_another_group_gets_what_everybody_gets(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o664)
    real = os.fstat
    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr(
        os, "fstat", lambda fd: os.stat_result([*real(fd)[:5], 54321, *real(fd)[6:]])
    )
    with atomic_write(path, "w"):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_links_are_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/new")  # The target does not exist yet.
    (tmp_path / "chain").symlink_to("link")
    with atomic_write(tmp_path / "chain", "w") as file:
        file.write("text")
    assert (tmp_path / "folder" / "new").read_text() == "text"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "chain").is_symlink()
    (tmp_path / "loop").symlink_to("loop")
    with (
        pytest.raises(DataError, match="loop: cannot be written: Too many levels of symbolic"),
        atomic_write(tmp_path / "loop", "w"),
    ):
        pass
    (tmp_path / "astray").symlink_to("nowhere/a")
    with (
        pytest.raises(DataError, match=r"astray: cannot be written: there is no folder .*nowhere"),
        atomic_write(tmp_path / "astray", "w"),
    ):
        pass
    assert sorted(os.listdir(tmp_path)) == ["astray", "chain", "folder", "link", "loop"]


KILLED = """
import os, signal, sys
from linrank._util.files import atomic_write
with atomic_write(sys.argv[1], "w") as file:
    file.write("new")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_leaves_is_removed_later(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    (tmp_path / ".linrank-mine.tmp").touch()  # This name is not one of linrank's.
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert path.read_text() == "old"
    assert len(os.listdir(tmp_path)) == 3
    with atomic_write(path, "w") as mine:
        mine.write("mine")
        with atomic_write(tmp_path / "b", "w"):  # A file that is being written is kept.
            pass
    assert path.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == [".linrank-mine.tmp", "a", "b"]


def test_only_own_files_and_folders_are_leftovers(tmp_path, monkeypatch):
    """Opening a pipe must not wait for a writer."""
    pipe, file = (tmp_path / f".linrank-{digit * 16}.tmp" for digit in "01")
    os.mkfifo(pipe)
    file.touch()
    program = (
        "import sys; from pathlib import Path; from linrank._util.files import remove_leftovers; "
    )
    program += "remove_leftovers(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, timeout=PATIENCE)
    assert list(tmp_path.iterdir()) == [pipe]
    file.touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: os.getuid() + 1)
        files.remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == [pipe, file]


def test_a_lock_that_is_never_released(tmp_path, monkeypatch):
    data = make_ranking(2, 3, 4, random_state=0)
    save_store(data, tmp_path / "store")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(files, "_LOCK_SECONDS", 0.05)
    descriptor = os.open(tmp_path / "store", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        message = (
            "store: cannot be written: another process has held its lock for 0.05 seconds; try"
        )
        with pytest.raises(DataError, match=message):
            save_store(data, tmp_path / "store")
    finally:
        os.close(descriptor)
    assert sorted(tmp_path.rglob("*")) == before
    save_store(data, tmp_path / "store")


WRITES = """
import sys
from linrank._util.files import atomic_write
with atomic_write(sys.argv[1], "w") as file:
    file.write("text\\n")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="there is no /proc")
@pytest.mark.parametrize(
    ("place", "n"),
    [
        ("/dev/stdout", 1),
        ("/dev/stderr", 2),
        ("/dev/fd/1", 1),
        ("/proc/self/fd/1", 1),
        ("/proc/thread-self/fd/1", 1),
        ("link", 1),
    ],
)
def test_open_files_are_written_to_where_they_are(place, n, tmp_path):
    (tmp_path / "to").symlink_to("/dev/stdout")
    (tmp_path / "link").symlink_to("to")
    command = f'{{ echo header >&{n}; "$0" -c "$1" {place}; echo trailer >&{n}; }} {n}> out'
    subprocess.run(["sh", "-c", command, sys.executable, WRITES], cwd=tmp_path, check=True)
    assert (tmp_path / "out").read_text() == "header\ntext\ntrailer\n"
    assert sorted(os.listdir(tmp_path)) == ["link", "out", "to"]


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="there is no /proc")
def test_open_files_of_others_and_none(tmp_path):
    with (tmp_path / "out").open("w") as out:
        out.write("header\n")
        out.flush()
        place = f"/proc/{os.getpid()}/fd/{out.fileno()}"
        subprocess.run([sys.executable, "-c", WRITES, place], check=True)
    assert (tmp_path / "out").read_text() == "header\ntext\n"
    with (
        pytest.raises(DataError, match="/dev/fd/987: cannot be written: Bad file descriptor"),
        atomic_write("/dev/fd/987", "w"),
    ):
        pass
