"""Intercept the calls of a user's script that consume data. Record each as a candidate; no training gets data.

On private copies the script continues as if the data had been empty. On the user's own files it ends at the first place that is no
mere peek. In a worker it stops and waits at the chosen place. After the first place it may not run a step of a training, start a
process or open a connection: such an attempt ends it, without its exit handlers.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from cs_input_analyzer.records import CaptureCandidate, CaptureKind, Mode
from cs_input_analyzer.tfdata.graph import where_built
from cs_input_analyzer.tfdata.source.statements import code_at
from cs_input_analyzer.worker.process import end_forked_child

# A place that is passed this often is a loop that waits for a number of steps, which it never reaches.
MOST_PASSES = 1000
_ASKING = ("FOR_ITER", "SEND", "YIELD_FROM")
# Audit events of Python (docs.python.org/3/library/audit_events.html).
_PROCESS_EVENTS = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "socket.connect")
)
# Events that change files, with the positions of the changed paths among their arguments. Beside each is the position of the
# descriptor of the folder that a relative path starts in. `open` has none: see `_telling_of_folders`.
_FILE_EVENTS: dict[str, tuple[tuple[int, int | None], ...]] = {
    "open": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((1, 3),),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.removexattr": ((0, None),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.setxattr": ((0, None),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.utime": ((0, 3),),
    "shutil.rmtree": ((0, 1),),
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Hold the source of data of a call: a Dataset, or a function that gives one, with its arguments."""

    subject: Any
    arguments: dict[str, Any]


class Interceptor:
    """Record where one run of a script would consume data, and end the script there or later.

    Args:
        leave: ends the script and never returns.
        wanted: number of the candidate at which it ends; None to continue as far as `is_isolated` allows.
    """

    def __init__(
        self,
        leave: Callable[[str], NoReturn],
        wanted: int | None = None,
        on_candidate: Callable[[CaptureCandidate], None] = lambda candidate: None,
        *,
        is_isolated: bool = True,
    ) -> None:
        self.candidates: list[CaptureCandidate] = []
        self.refused: list[str] = []
        self.taken: Taken | None = None
        self.why = ""
        self.is_over = False
        self.on_estimator: Callable[[Any, str, Any, Mode], None] | None = None
        self.written: dict[str, None] = {}  # in the order of their first change, if not isolated
        self._wanted = wanted
        self._on_candidate = on_candidate
        self._is_isolated = is_isolated
        self._pid = os.getpid()
        self._leave = leave
        self._passes: dict[tuple[str, str], int] = {}

    def reach(self, kind: CaptureKind, call: str, taken: Taken | str, mode: Mode = "train") -> None:
        """Record that the script would take data here, and end it if due.

        A text in `taken` tells why the data cannot be analyzed.
        """
        end_forked_child(self._pid)
        if self.is_over:
            return
        source = where_built().line
        where = (kind, source)
        self._passes[where] = self._passes.get(where, 0) + 1
        if self._passes[where] > MOST_PASSES:
            self.stop(f"{call} at {source} was reached {MOST_PASSES} times")
        if self._passes[where] > 1:
            return
        if isinstance(taken, str):
            self.refused.append(f"{call} at {source} takes {taken}")
            return
        code = (code_at(source)[0] or "").strip() or None
        candidate = CaptureCandidate(number=len(self.candidates) + 1, kind=kind, call=call, source=source, code=code, mode=mode)
        self.candidates.append(candidate)
        self._on_candidate(candidate)
        if candidate.number == self._wanted:
            self.taken = taken
            self.stop("it was captured")
        if self._wanted is None and not self._is_isolated and kind != "peek":
            self.stop("")  # the listing tells why

    def stop(self, why: str) -> NoReturn:
        """End the script."""
        end_forked_child(self._pid)
        self.why = self.why or why
        self._leave(self.why)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Intercept while the script runs."""
        _running.append(self)
        try:
            with _telling_of_folders():
                yield
        finally:
            self.is_over = True
            _running.remove(self)

    def guard(self, what: str) -> None:
        """End the script if it does something that it may do only before it takes data."""
        if self._passes and not self.is_over:
            self.stop(f"it was about to {what} at {where_built().line or 'an unknown line'}")


class NoData:
    """Replace the data of a script: an iterator and iterable without elements, otherwise like the dataset.

    A loop over it ends at once. If one element is asked for, as by `next(iterator)`, the script ends.
    """

    def __init__(self, interceptor: Interceptor, dataset: Any) -> None:
        self._interceptor = interceptor
        self._dataset = dataset

    def __iter__(self) -> NoData:
        return self

    def __next__(self) -> Any:
        if _is_asked_by_a_loop(sys._getframe(1)):
            raise StopIteration
        return self.get_next()

    def get_next(self, *_: object) -> Any:
        """End the script, or the loop if the script may continue."""
        self._interceptor.guard("take an element")
        raise StopIteration

    get_next_as_optional = get_next

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


def _is_asked_by_a_loop(frame: FrameType) -> bool:
    """Return whether the frame is at `for … in`, also through C code such as `enumerate`."""
    opcode = frame.f_code.co_code[frame.f_lasti] if frame.f_lasti >= 0 else 0
    return dis.opname[opcode].startswith(_ASKING)


# The scripts that run now. Audit hooks and the Estimators of modules outlive them, and look here.
_running: list[Interceptor] = []


def report_estimator(estimator: Any, call: str, input_fn: Any, mode: Mode) -> None:
    """Report that an Estimator would take data here."""
    if _running and _running[-1].on_estimator is not None:
        _running[-1].on_estimator(estimator, call, input_fn, mode)


_has_hook = False
# The folder for temporary files, where AutoGraph keeps generated code. Asking for it inside the hook could block for ever.
_free = ""


def audit() -> None:
    """Let interceptors see changes of processes, connections and, as far as Python reports it, files from now on."""
    global _has_hook, _free
    if not _has_hook:
        _has_hook, _free = True, tempfile.gettempdir() + os.sep
        sys.addaudithook(_on_audit_event)


def _on_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    if not _running:
        return
    if event in _PROCESS_EVENTS:
        _running[-1].guard("start a process or open a connection")
    elif event in _FILE_EVENTS and (event != "open" or (isinstance(arguments[2], int) and arguments[2] & _WRITES)):
        for place, of_folder in _FILE_EVENTS[event]:
            folder = _opening.folder if event == "open" else None
            if of_folder is not None and len(arguments) > of_folder:
                folder = arguments[of_folder]
            _note_change(arguments[place], folder)


def _note_change(named: Any, folder: Any) -> None:
    """Note a changed file for the running script. Never raise: an error in a hook would be the script's."""
    try:
        path = _path_of(named, folder)
    except (OSError, TypeError, ValueError):  # a closed descriptor: the script's call will fail too
        return
    written = _running[-1].written
    _opening.added = ""
    if path != os.devnull and not f"{path}{os.sep}".startswith(_free) and path not in written:
        written[path] = None
        _opening.added = path


def _path_of(named: Any, folder: Any) -> str:
    """Return the path of a file, which may be named by its descriptor; `folder`: that of the folder where it begins."""
    if isinstance(named, int):
        return os.readlink(f"/proc/self/fd/{named}")
    name = os.fsdecode(named)
    if isinstance(folder, int) and folder >= 0 and not os.path.isabs(name):
        name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
    return os.path.abspath(name)


class _Opening(threading.local):
    """Hold, for each thread, the folder descriptor of the file being opened, and the path that the last event added."""

    folder: int | None = None
    added: str = ""


_opening = _Opening()


@contextmanager
def _telling_of_folders() -> Iterator[None]:
    """Pass the `dir_fd` of `os.open` to the audit hook while open. Python's event does not hold it."""
    real = os.open

    @functools.wraps(real)
    def telling(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None and _running and _opening.added and _opening.added == os.path.abspath(os.fsdecode(path)):
            _running[-1].written.pop(_opening.added, None)  # `open` called this by its opener, and noted another file
        _opening.folder = dir_fd
        try:
            return real(path, flags, mode, dir_fd=dir_fd)
        finally:
            _opening.folder = None

    os.open = telling
    os.supports_dir_fd.add(telling)
    try:
        yield
    finally:
        os.open = real
        os.supports_dir_fd.discard(telling)
