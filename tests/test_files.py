"""A report is on disk whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.files import cache_folder, check_writable, write_text_atomically

is_root = os.geteuid() == 0


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["run.json", "n" * 255])
def test_writes_a_new_file_and_replaces_an_old_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for text, written in (("first \u00e9\n", "first \u00e9\n"), ("caf\udce9", "caf\\udce9")):  # half a surrogate pair
        write_text_atomically(path, text)
        assert path.read_bytes() == written.encode()
    assert entries(tmp_path) == [name]


def test_a_new_file_gets_the_usual_permissions_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    plain, new = tmp_path / "plain", tmp_path / "new"
    plain.write_text("")
    write_text_atomically(new, "x")
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    new.chmod(0o640)
    write_text_atomically(new, "y")
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "there" / "run.json")
    write_text_atomically(link, "x")
    assert link.is_symlink()
    assert (tmp_path / "there" / "run.json").read_text() == "x"


@pytest.mark.parametrize(
    "failure", [KeyboardInterrupt(), *(OSError(n, os.strerror(n)) for n in (errno.ENOSPC, errno.EDQUOT, errno.EIO))]
)
def test_a_full_disk_or_an_interruption_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")

    def fail(_: int) -> None:
        raise failure

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((KeyboardInterrupt, LaunchError)) as caught:
        write_text_atomically(path, "new")
    if isinstance(caught.value, LaunchError):
        assert "nothing was replaced" in str(caught.value)
    assert isinstance(failure, KeyboardInterrupt) == (caught.type is KeyboardInterrupt)
    assert path.read_text() == "old"
    assert entries(tmp_path) == ["run.json"]


def test_a_device_stays_a_device_and_may_be_full() -> None:
    write_text_atomically("/dev/null", "x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(LaunchError, match="no space left"):
        write_text_atomically("/dev/full", "x" * 100_000)


def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text_atomically(pipe, "through")
    reader.join(timeout=60)
    assert read == ["through"]
    assert entries(tmp_path) == ["pipe"]


@pytest.mark.parametrize("ask", [check_writable, lambda path: write_text_atomically(path, "x")], ids=["check", "write"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("", "it is a folder"), ("none/run.json", "there is no folder"), ("file/run.json", "there is no folder"), ("a\0b", "null")],
)
def test_a_path_that_cannot_be_written(tmp_path: Path, ask: object, name: str, expected: str) -> None:
    (tmp_path / "file").write_text("")
    assert callable(ask)
    with pytest.raises(UsageError, match=expected) as caught:
        ask(tmp_path / name)
    assert "cannot write" in str(caught.value)
    assert entries(tmp_path) == ["file"]


@pytest.mark.skipif(is_root, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        for ask in (check_writable, lambda path: write_text_atomically(path, "x")):
            with pytest.raises(UsageError, match="permission denied"):
                ask(tmp_path / "run.json")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(not is_root, reason="only root can make links of other users")
@pytest.mark.parametrize(("mode", "owner", "is_refused"), [(0o1777, 12345, True), (0o1777, 0, False), (0o755, 12345, False)])
def test_a_link_that_somebody_else_made_where_everybody_may_is_refused(
    tmp_path: Path, mode: int, owner: int, is_refused: bool
) -> None:
    victim, shared = tmp_path / "victim", tmp_path / "shared"
    victim.write_text("precious")
    shared.mkdir()
    shared.chmod(mode)
    link = shared / "run.json"
    link.symlink_to(victim)
    os.lchown(link, owner, owner)
    refused = pytest.raises(UsageError, match="a symbolic link that user 12345 has made") if is_refused else nullcontext()
    with refused:
        write_text_atomically(link, "x")
    assert victim.read_text() == ("precious" if is_refused else "x")


# --- the cache folder ---------------------------------------------------------------------------------------------------------


def test_without_a_home_the_cache_is_a_folder_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cache_folder() == tmp_path / "cache" / "cs_input_analyzer"
    assert cache_folder().is_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nothing")
    own = cache_folder()
    assert own.parent == tmp_path
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    (own / "kept").write_text("")
    assert cache_folder() == own


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can run as somebody else")
def test_a_user_without_a_name_has_a_cache_too(tmp_path: Path) -> None:
    """A container that runs as such a user, and with no HOME."""
    code = "from cs_input_analyzer.files import cache_folder; print(cache_folder())"
    tmp_path.chmod(0o777)
    environ = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    for name in ("HOME", "XDG_CACHE_HOME"):
        environ.pop(name, None)
    words = ["setpriv", "--reuid=43210", "--clear-groups", sys.executable, "-c", code]
    run = subprocess.run(words, env=environ, capture_output=True, text=True, cwd="/", check=False)
    if "ermission denied" in run.stderr:
        pytest.skip("others may not read this Python")
    assert Path(run.stdout.strip()).name == "cs_input_analyzer-43210", run.stderr


@pytest.mark.parametrize("trap", ["a link", "a folder that others write to"])
def test_a_cache_among_temporary_files_that_others_can_change_is_not_used(
    trap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nothing")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = tmp_path / f"cs_input_analyzer-{os.getuid()}"
    if trap == "a link":
        (tmp_path / "elsewhere").mkdir()
        own.symlink_to(tmp_path / "elsewhere")
    else:
        own.mkdir()
        own.chmod(0o777)
    assert cache_folder() == Path("/proc/nothing/cs_input_analyzer")
