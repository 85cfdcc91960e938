"""The private folder of a command: gone at its end, also if the command is killed, with all that was started for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cs_input_analyzer.engines import scratch
from cs_input_analyzer.engines.scratch import OWNER, PREFIX, Scratch
from tests.waiting import PATIENCE_S, comes, is_running

Owner = tuple[psutil.Process, Path, psutil.Process, psutil.Process]

# Starts what user code may: a program in a session of its own, and one more whose parent has ended.
OWN = """
import os, subprocess, sys, time
from pathlib import Path
from cs_input_analyzer.engines.bootstrap import environment
from cs_input_analyzer.engines.scratch import Scratch
from cs_input_analyzer.worker.isolation import AWAY
made = Scratch(Path(sys.argv[1]))
orphan = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session=True, stdout=subprocess.DEVNULL).pid)"
pid = subprocess.check_output([sys.executable, "-c", orphan], env=environment(made.folder), text=True).strip()
(made.folder / "worker").mkdir()
away = Path(sys.argv[1], AWAY + "1")  # what a worker keeps on another file system
away.mkdir()
(made.folder / "worker" / away.name).symlink_to(away)
print(made.folder, made._guard.pid, pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    """A process with a folder, the folder, its guard, and an orphan that was started for it."""
    with subprocess.Popen([sys.executable, "-c", OWN, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        folder, guard, orphan = process.stdout.readline().split()
        found = psutil.Process(int(orphan))
        yield psutil.Process(process.pid), Path(folder), psutil.Process(int(guard)), found
        process.kill()
    if is_running(found):
        found.kill()


def test_an_owner_that_is_killed_leaves_no_folder_and_no_process(owner: Owner) -> None:
    process, folder, _, orphan = owner
    assert folder.is_dir()
    assert is_running(orphan)
    process.kill()
    assert comes(lambda: not folder.exists())
    assert comes(lambda: not is_running(orphan))


def test_the_next_command_tidies_up_where_the_guard_was_killed_too(owner: Owner, tmp_path: Path) -> None:
    process, folder, guard, orphan = owner
    guard.kill()
    process.kill()
    assert comes(lambda: not is_running(process))
    assert folder.is_dir()
    assert is_running(orphan)

    def is_swept() -> bool:  # on a busy host a killed process takes a moment to close its files
        Scratch(tmp_path).close()
        return not folder.exists()

    assert comes(is_swept)
    assert comes(lambda: not is_running(orphan))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_owner_lives_is_left_alone(owner: Owner, tmp_path: Path) -> None:
    _, folder, _, orphan = owner
    Scratch(tmp_path).close()
    assert (folder / "worker").is_dir()
    assert is_running(orphan)


@pytest.mark.parametrize("kind", ["of another host", "without an owner", "a link", "its owner's name is a link"])
def test_what_may_be_in_use_or_is_not_ours_is_left_alone(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / "data"
    folder.mkdir(parents=True)
    own = tmp_path / f"{PREFIX}abcdefgh"
    if kind == "a link":
        (folder / OWNER).write_bytes(scratch._boot_id())
        own.symlink_to(folder)
    else:
        own.mkdir()
    if kind == "of another host":
        (own / OWNER).write_bytes(b"another")
    if kind == "its owner's name is a link":
        (folder / "file").write_bytes(scratch._boot_id())
        (own / OWNER).symlink_to(folder / "file")
    Scratch(tmp_path).close()
    assert own.exists()
    assert folder.is_dir()


def test_closing_ends_what_user_code_has_left_and_removes_the_folder(tmp_path: Path) -> None:
    made = Scratch(tmp_path)
    assert os.stat(made.folder).st_mode & 0o777 == 0o700
    left = subprocess.Popen(["sleep", "60"], env={**os.environ, scratch.MARK: str(made.folder)}, start_new_session=True)
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, scratch.MARK: f"{made.folder}-2"})
    try:
        made.close()
        assert left.wait(PATIENCE_S) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        left.kill()
        other.kill()
        left.wait()
        other.wait()
    assert list(tmp_path.iterdir()) == []
    made.close()


def test_closing_removes_the_folder_where_the_guard_is_gone(tmp_path: Path) -> None:
    made = Scratch(tmp_path)
    made._guard.kill()
    made._guard.wait()
    made.close()
    assert list(tmp_path.iterdir()) == []
