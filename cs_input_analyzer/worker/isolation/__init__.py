"""Run user code on private copies of all files, and among processes of its own: nothing that it does outlives the launch.

Three levels are tried, from best to least. Private copies: an overlay covers each folder that can be written. Read-only: all
files are shown, and only temporary folders can be written. Own files: the kernel, or a container, allows neither.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from cs_input_analyzer.worker.isolation import holder, kernel
from cs_input_analyzer.worker.isolation.folders import AWAY, private_folder, remove_tree
from cs_input_analyzer.worker.isolation.holder import OWN_FILES, Isolation, Wanted

__all__ = [
    "AWAY",
    "NOT_ISOLATED",
    "Isolation",
    "Wanted",
    "folder_beside",
    "here",
    "is_ours",
    "main",
    "read_as_they_are",
    "refusal",
    "remove_tree",
    "run_inside",
]

# The stage of a failure: the user has not said that foreign code may run on their own files.
NOT_ISOLATED = "isolation"

# Of more folders of data their common one is shown.
MOST_FOLDERS = 64
SAMPLES = "sample_pipelines"
_ROOT = Path(__file__).resolve().parents[3]

_here = OWN_FILES
# The connection for requests and the process that may use it; None if each request makes its own.
_asking: tuple[socket.socket, int] | None = None
_asking_lock = threading.Lock()


def here() -> Isolation:
    """Return the isolation of this process."""
    return _here


def refusal() -> str:
    """Return why no foreign code may run in this process; empty if it may."""
    if _here.level != "own files" or not _here.why:
        return ""
    return (
        f"nothing was run: neither private copies nor a read-only view of your files is possible here ({_here.why}); "
        "--on-own-files runs the code on your own files: its writes are real"
    )


def is_ours(target: str) -> bool:
    """Return whether a target is one of the samples that come with this package, which only read."""
    module = target.partition(":")[0]
    if module.partition(".")[0] != SAMPLES:
        return False
    found = importlib.util.find_spec(SAMPLES)
    return found is not None and found.origin is not None and Path(found.origin).parent == _ROOT / SAMPLES


def main(arguments: Sequence[str]) -> None:
    """Call `main` of MODULE with ARGS in the private files of a launch: `LAUNCH PLACE NETWORK PARENT_PID MODULE ARGS…`.

    PLACE is empty if another worker starts the holder; NETWORK is 0 for no network. MODULE is imported inside: its libraries may
    start threads, and a process with threads gets no user namespace.
    """
    launch, place, network, parent_pid, module, *rest = arguments
    wanted = Wanted(launch=Path(launch), place=Path(place) if place else None, has_network=network != "0")
    run_inside(wanted, int(parent_pid), lambda: importlib.import_module(module).main(rest))


def run_inside(wanted: Wanted, parent_pid: int, life: Callable[[], object]) -> NoReturn:
    """Run `life` in the private files of a launch, and end with its status.

    Call it while the process has one thread. If the launch has its own processes, `life` runs in a child: a process cannot change
    its own process namespace.
    """
    global _here, _asking
    had = kernel.capabilities()
    try:
        _here, connection, asking = holder.join(wanted)
    except OSError as error:
        _here, connection, asking = Isolation(level="own files", why=error.strerror or str(error)), None, None
    if _here.level != "own files":
        kernel.be_seen()
    if _here.has_own_processes:
        kernel.die_with(parent_pid)
        child = os.fork()
        if child:
            _end_as(child)
        assert connection is not None
        connection.close()  # the parent's counts: a process that user code forked must not hold the launch
        os.setsid()
    _asking = (asking, os.getpid()) if asking is not None else None
    if _here.level != "own files":
        kernel.drop_capabilities(had & holder.KEPT_CAPABILITIES)
    life()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def folder_beside(path: str, folder: Path) -> Path:
    """Return a private folder on the file system of `path`, whose speed is measured. Return `folder` if there can be none."""
    absolute = Path(path).absolute()
    if not _here.launch:
        return private_folder(absolute, folder)
    try:
        return Path(_ask(beside=str(absolute), folder=str(folder)))
    except (OSError, ValueError):
        return folder


def read_as_they_are(paths: Sequence[str]) -> None:
    """Read the folders of these files from their own file system: opening a file through a layer takes longer.

    Such a folder is read-only from then on. It stays behind the layer if the code has written to it.
    """
    named = {os.path.dirname(os.path.abspath(path)) for path in paths if "://" not in path}
    # Links are followed here, as the code sees them. The holder shows no folder by a path with a link in it.
    folders = sorted(set(map(os.path.realpath, named)))
    if not _here.launch or not folders:
        return
    if len(folders) > MOST_FOLDERS:
        folders = [os.path.commonpath(folders)]
    with suppress(OSError, ValueError):
        _ask(read=folders)


def _ask(**request: Any) -> Any:
    """Return the answer of the launch's holder. A process that user code forked would mix its answers with ours."""
    if _asking is None or _asking[1] != os.getpid():
        return holder.ask(_here.launch, **request)
    with _asking_lock:
        return holder.ask_over(_asking[0], **request)


def _end_as(child: int) -> NoReturn:
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(max(code, 0))
