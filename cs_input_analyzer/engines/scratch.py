"""Create a private folder for one command, and a guard that cleans up if the command is killed.

All processes of the command carry the name of the folder in their environment. So do the processes that user code starts, also in
other sessions. The guard is a shell that waits for the end of a pipe. The pipe ends if the command closes the folder or is killed.
The guard then kills all processes with that mark and removes the folder. If the guard was killed too, the next command of the same
user in the same place cleans up. It knows an abandoned folder by its free lock.
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
# When the guard cancels a job, in seconds between attempts. If Slurm did not answer, it may still queue the job, and the guard also
# uses the second list.
CANCEL_S = "0 2 5"
CANCEL_LATE_S = "10 20 30"

# Arguments: the name of a Slurm job or nothing, the folder, the two lists of seconds, the mark of processes.
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
    """Create a folder in `parent`, private to the user.

    With `job_prefix`, the guard cancels the Slurm job `job_name`: the prefix and the last letters of the folder's name. Raise
    OSError if there can be no folder, and UsageError if its name is not UTF-8.
    """

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
        """End all remaining processes, and remove the folder.

        With `has_job`, Slurm may still have the job: the guard continues to cancel it after this returns.
        """
        assert self._guard.stdin is not None
        with suppress(OSError, ValueError):  # the guard was killed, or this was closed before
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
    """Remove a folder of workers, and their files on other file systems."""
    for place, folders, _ in os.walk(folder):  # it may vanish meanwhile
        remove_away(Path(place))
        folders[:] = [name for name in folders if name.startswith(("launch-", "step-", "worker-"))]
    remove_tree(folder)


def remove_away(folder: Path) -> None:
    """Remove the files of a worker on other file systems of this host."""
    for link in folder.glob(f"{AWAY}*"):
        if link.is_symlink():
            remove_tree(link.readlink())


def _guard(folder: Path, job_name: str, stdin: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "sh", job_name, str(folder), CANCEL_S, CANCEL_LATE_S, f"{MARK}={folder}", AWAY],
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=our_environment(os.environ),
        start_new_session=True,  # Ctrl-C and a closed terminal do not end it
        cwd="/",
    )


def _locked(folder: Path) -> int | None:
    """Return a descriptor that locks the folder while this process lives; None if its file system has no locks.

    The file gets its name after it is locked, so that it is never found without an owner.
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
    """Remove the user's abandoned folders in `parent`, and end their processes.

    A folder is abandoned if its owner was killed on this host.
    """
    for folder in parent.glob(f"{prefix}*"):
        try:
            found = folder.lstat()
            if found.st_uid != os.geteuid() or folder.is_symlink():
                continue
            lock = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            # A lock of another boot or host tells nothing: some shared file systems hide it from other hosts.
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
