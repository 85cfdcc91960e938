"""Intercepts the calls of a user's script that consume data: each is recorded as a candidate, and no training gets any data.

Where the script's files are private copies, it goes on after that as if the data had been empty; where they are its own, it ends at
the first place that is no mere peek. In a worker it stands still at the place that was chosen. From the first place on it may take
no step of a training, start no process and open no connection: what it tries of that ends it, without what it does at its end.
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

# A place that is passed so often is a loop that waits for a number of steps, which will never be reached.
MOST_PASSES = 1000
_ASKING = ("FOR_ITER", "SEND", "YIELD_FROM")
# Audit events of Python (docs.python.org/3/library/audit_events.html).
_PROCESS_EVENTS = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "socket.connect")
)
# Of those that change files: where the paths that they change stand among their arguments, each beside the place of the descriptor
# of the folder that a relative path begins in. `open` tells none: see `_telling_of_folders`.
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
    """What the script would have taken data from: a Dataset, or a function that gives one, with the arguments it would get."""

    subject: Any
    arguments: dict[str, Any]


class Interceptor:
    """Records where one run of a script would consume data, and ends the script there or later. `leave` ends it and must not
    return; `wanted`: number of the candidate at which it ends, None to go on as far as `is_isolated` allows."""

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
        self.written: dict[str, None] = {}  # in the order of the first time, where not isolated
        self._wanted = wanted
        self._on_candidate = on_candidate
        self._is_isolated = is_isolated
        self._pid = os.getpid()
        self._leave = leave
        self._passes: dict[tuple[str, str], int] = {}

    def reach(self, kind: CaptureKind, call: str, taken: Taken | str, mode: Mode = "train") -> None:
        """The script would take data here. A text in place of them says why they cannot be analyzed. May end it."""
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
            self.stop("")  # the listing says why

    def stop(self, why: str) -> NoReturn:
        """Ends the script."""
        end_forked_child(self._pid)
        self.why = self.why or why
        self._leave(self.why)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around the script."""
        _running.append(self)
        try:
            with _telling_of_folders():
                yield
        finally:
            self.is_over = True
            _running.remove(self)

    def guard(self, what: str) -> None:
        """Ends the script where it does something that it may do only before it takes data."""
        if self._passes and not self.is_over:
            self.stop(f"it was about to {what} at {where_built().line or 'an unknown line'}")


class NoData:
    """What a script gets instead of data: an iterator, and an iterable, without elements; all else is the dataset's own. A
    loop over it ends at once; where one element is asked for, as by `next(iterator)`, the script ends."""

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
        self._interceptor.guard("take an element")
        raise StopIteration

    get_next_as_optional = get_next

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


def _is_asked_by_a_loop(frame: FrameType) -> bool:
    """Whether the frame is at `for … in`, also where something written in C stands between, as `enumerate` does."""
    opcode = frame.f_code.co_code[frame.f_lasti] if frame.f_lasti >= 0 else 0
    return dis.opname[opcode].startswith(_ASKING)


# Of the scripts that run now, for what outlives them: an audit hook stays once it was added, and modules keep their Estimators.
_running: list[Interceptor] = []


def report_estimator(estimator: Any, call: str, input_fn: Any, mode: Mode) -> None:
    """An Estimator would take data here."""
    if _running and _running[-1].on_estimator is not None:
        _running[-1].on_estimator(estimator, call, input_fn, mode)


_has_hook = False
# The folder for temporary files, where AutoGraph keeps what it generates. To ask for it inside the hook could wait for ever.
_free = ""


def audit() -> None:
    """From now on, interceptors see what their scripts do to processes, connections and, as far as Python reports it, files."""
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
    """Add the file that is changed to those of the script that runs. An error in a hook would be the script's: nothing raises."""
    try:
        path = _path_of(named, folder)
    except (OSError, TypeError, ValueError):  # a descriptor that is closed: what was asked for will fail, too
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
    """In this thread: the descriptor of the folder that a file is opened in, and the path that the last event has added."""

    folder: int | None = None
    added: str = ""


_opening = _Opening()


@contextmanager
def _telling_of_folders() -> Iterator[None]:
    """While open, `os.open` tells the audit hook of its `dir_fd`, which Python's event does not hold."""
    real = os.open

    @functools.wraps(real)
    def telling(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None and _running and _opening.added and _opening.added == os.path.abspath(os.fsdecode(path)):
            _running[-1].written.pop(_opening.added, None)  # it is called by an opener of `open`, which took it for another file
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
