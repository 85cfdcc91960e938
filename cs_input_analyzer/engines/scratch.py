"""Make a private folder for one command, and a guard that tidies up after a command that is killed.

Processes that are started for the command carry the folder's name in their environment, and so does what user code starts, also in
other sessions. The guard is a shell that waits for the end of a pipe: whether the command closes the folder or is killed, the guard
then ends all processes with that mark and removes the folder. Where both were killed, the next command of the same user that makes
a folder at the same place does it: a folder whose lock is free has no owner any more.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from cs_input_analyzer.engines.bootstrap import MARK
from cs_input_analyzer.errors import check_text
from cs_input_analyzer.host.cluster.slurm_commands import our_environment
from cs_input_analyzer.host.counters import read_start
from cs_input_analyzer.worker.isolation import AWAY, remove_tree

PREFIX = "cs_input_analyzer-"
OWNER = "owner"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
GUARD_S = 10.0
# The guard cancels a job after these seconds, one by one; where Slurm did not answer, and may queue the job later than that, also
# after the latter ones.
CANCEL_S = "0 2 5"
CANCEL_LATE_S = "10 20 30"

# Arguments: name of a Slurm job or nothing, folder, when to cancel the job, when also to cancel it, mark of processes.
_GUARD = """
job=$1 waits=$3 away=$6
while read -r word; do
    case "$word" in
        over) job= ;;
        unsure) waits="$3 $4" ;;
    esac
done
exec >/dev/null 2>&1
tidy() {
    for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        marked=$(grep -lzxF -e "$2" /proc/[0-9]*/environ)
        for file in $marked; do
            pid=${file#/proc/}
            kill -9 "${pid%/environ}"
        done
        for link in "$1"/"$away"* "$1"/*/"$away"* "$1"/*/*/"$away"*; do
            [ -h "$link" ] && rm -rf -- "$(readlink -- "$link")"
        done
        rm -rf -- "$1"
        [ -n "$marked" ] || [ -e "$1" ] || return
        sleep 0.1
    done
}
tidy "$2" "$5"
[ -n "$job" ] || exit 0
for wait_s in $waits; do
    sleep "$wait_s"
    scancel --quiet --name="$job" --user="$(id -un)"
done
tidy "$2" "$5"
"""


class Scratch:
    """A new folder in `parent`, private to the user. `job_prefix`: its guard cancels the Slurm job of this name and the folder's
    last letters (`job_name`). Raises OSError where there can be no folder, and UsageError if its name is not UTF-8."""

    def __init__(self, parent: Path, prefix: str = PREFIX, job_prefix: str = "") -> None:
        check_text("the folder for temporary files (TMPDIR),", str(parent.resolve()))
        _sweep(parent, prefix)
        self.folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
        self.job_name = f"{job_prefix}{self.folder.name[-8:]}" if job_prefix else ""
        self._lock: int | None = None
        try:
            self._lock = _locked(self.folder)
            self._guard = _guard(self.folder, self.job_name, subprocess.PIPE)
        except BaseException:
            self._unlock()
            remove(self.folder)
            raise

    def close(self, *, has_job: bool = False) -> None:
        """End what still runs, and remove the folder.

        With `has_job` Slurm may still have the job: the guard goes on to cancel it after this returns.
        """
        assert self._guard.stdin is not None
        with suppress(OSError, ValueError):  # somebody ended the guard, or this was closed before
            self._guard.stdin.write(b"unsure\n" if has_job else b"over\n")
            self._guard.stdin.close()
        if not has_job:
            try:
                self._guard.wait(GUARD_S)
            except subprocess.TimeoutExpired:
                self._guard.kill()
                self._guard.wait()
        remove(self.folder)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove(folder: Path) -> None:
    """Remove a folder of workers, and what they keep on other file systems."""
    for place, folders, names in os.walk(folder):  # it may vanish meanwhile
        for link in (Path(place, name) for name in (*folders, *names) if name.startswith(AWAY)):
            if link.is_symlink():
                remove_tree(link.readlink())
        folders[:] = [name for name in folders if name.startswith(("launch-", "step-", "worker-"))]
    remove_tree(folder)


def _guard(folder: Path, job_name: str, stdin: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "sh", job_name, str(folder), CANCEL_S, CANCEL_LATE_S, f"{MARK}={folder}", AWAY],
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=our_environment(os.environ),
        start_new_session=True,  # neither Ctrl-C nor a closed terminal ends it before its time
        cwd="/",
    )


def _locked(folder: Path) -> int | None:
    """Return a descriptor that locks the folder while this process lives; None if its file system has no locks.

    The file gets its name once it is locked, so that nobody finds it without an owner.
    """
    made = os.open(folder / f"{OWNER}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(made, _boot_id())
        fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(folder / f"{OWNER}.new", folder / OWNER)
    except OSError:
        os.close(made)
        return None
    return made


def _sweep(parent: Path, prefix: str) -> None:
    """Remove the folders of the same user, in `parent`, whose owner was killed on this host, with all that still runs for them."""
    for folder in parent.glob(f"{prefix}*"):
        try:
            found = folder.lstat()
            if found.st_uid != os.geteuid() or folder.is_symlink():
                continue
            lock = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            # Of another boot or host the lock says nothing: not every shared file system has locks that other hosts see.
            if os.read(lock, 64) != _boot_id():
                continue
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _guard(folder.resolve(), "", subprocess.DEVNULL).wait(GUARD_S)
        except (OSError, subprocess.TimeoutExpired):
            continue
        finally:
            os.close(lock)


def _boot_id() -> bytes:
    return read_start(BOOT_ID).strip()
