"""What happens when a user's script reaches a place where it takes data: it is written down, and nothing is given.

Looking for candidates, a script goes on after that as if the data had been empty, so that what it would do later is seen too; but
from the first such place on it may write no file, start no process and open no connection, and take no step of a training. What
it tries of that ends it. A worker ends it at the place that was chosen.
"""

from __future__ import annotations

import ctypes
import dis
import os
import re
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from cs_input_analyzer.graph import is_library, users_line
from cs_input_analyzer.records import CaptureCandidate, CaptureKind, Mode
from cs_input_analyzer.statements import code_at

__all__ = ["Gate", "Nothing", "OneLook", "Stopped", "Taken", "scripts_line", "watch_writes"]

# A place that is passed so often is a loop that waits for a number of steps, which will never be reached.
MOST_PASSES = 1000
# A script that has caught what ends it gets it again after this, and then as often.
PATIENCE_S, AGAIN_S = 0.5, 0.1
_ASKING = ("FOR_ITER", "SEND", "YIELD_FROM")
_FILE_EVENTS = ("open", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")
_PROCESS_EVENTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "socket.connect")
_GUARDED = frozenset((*_FILE_EVENTS, *_PROCESS_EVENTS))
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
_STDLIB = sysconfig.get_path("stdlib") + os.sep


class Stopped(BaseException):
    """Ends the user's script. No Exception, so that `except Exception` lets it pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What the script would have taken data from: a Dataset, or a function that gives one, with the arguments it would get."""

    subject: Any
    arguments: dict[str, Any]


class Gate:
    """One run of a script, as far as its data are concerned.

    Args:
        wanted: number of the candidate at which the script ends; None: it goes on.
        told: hears of each candidate as it is found.
    """

    def __init__(self, wanted: int | None = None, told: Callable[[CaptureCandidate], None] = lambda candidate: None) -> None:
        self.candidates: list[CaptureCandidate] = []
        self.refused: list[str] = []
        self.taken: Taken | None = None
        self.why = ""
        self.is_over = False
        self._wanted = wanted
        self._told = told
        self._passes: dict[tuple[str, str], int] = {}
        self._over = threading.Event()
        self._chaser: threading.Thread | None = None

    @property
    def is_closed(self) -> bool:
        """Whether data have been asked for: what the script does now is done without them."""
        return bool(self._passes) and not self.is_over

    def reach(self, kind: CaptureKind, call: str, taken: Taken | str, mode: Mode = "train") -> None:
        """The script would take data here. A text in place of them says why they cannot be analyzed. May raise Stopped."""
        if self.is_over:
            return
        if self.taken is not None:  # it has caught what was to end it
            self.stop(self.why)
        source = scripts_line()
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
        self._told(candidate)
        if candidate.number == self._wanted:
            self.taken = taken
            self.stop("it was captured")

    def stop(self, why: str) -> NoReturn:
        """Ends the script, also one that catches everything: then it gets it again and again."""
        self.why = self.why or why
        if self._chaser is None:
            self._chaser = threading.Thread(target=self._chase, args=(threading.get_ident(),), daemon=True)
            self._chaser.start()
        raise Stopped(self.why)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around the script. What ends it ends here."""
        _guards.append(self)
        try:
            yield
        except Stopped:
            pass
        finally:
            self._quieten()
            _guards.remove(self)

    def guard(self, what: str) -> None:
        """Something that a script may do before it takes data, and not after. Raises Stopped."""
        if self.is_closed:
            self.stop(f"it was about to {what} at {scripts_line() or 'an unknown line'}")

    def _quieten(self) -> None:
        for _ in range(3):  # what chases the script may reach us here
            try:
                self.is_over = True
                self._over.set()
                if self._chaser is not None:
                    self._chaser.join()
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), None)
                return
            except Stopped:
                continue

    def _chase(self, thread: int) -> None:
        wait_s = PATIENCE_S
        while not self._over.wait(wait_s):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Stopped))
            wait_s = AGAIN_S


class Nothing:
    """What a script gets instead of data: an iterator, and an iterable, without elements; all else is the dataset's own.

    A loop over it ends at once. One who asks for an element by name, as `next(iterator)` does, would go on with what it got: there
    the script ends.
    """

    def __init__(self, gate: Gate, dataset: Any) -> None:
        self._gate = gate
        self._dataset = dataset

    def __iter__(self) -> Nothing:
        return self

    def __next__(self) -> Any:
        if _is_asked_by_a_loop(sys._getframe(1)):
            raise StopIteration
        self._gate.guard("take an element")
        raise StopIteration

    def get_next(self, *_: object) -> Any:
        self._gate.guard("take an element")
        raise StopIteration

    get_next_as_optional = get_next

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


class OneLook(Nothing):
    """The first element, and then nothing."""

    def __init__(self, gate: Gate, dataset: Any, first: Callable[[], Any]) -> None:
        super().__init__(gate, dataset)
        self._first: Callable[[], Any] | None = first

    def __next__(self) -> Any:
        first, self._first = self._first, None
        if first is None:
            self._gate.guard("take a second element")
            raise StopIteration
        return first()


def scripts_line() -> str:
    """`path:line` of the innermost frame that is in no package that is installed; where all are, in none of TensorFlow's."""
    from tensorflow.python.util import tf_stack

    for frame in reversed(tf_stack.extract_stack()):
        if not (is_library(frame.filename) or _INSTALLED.search(frame.filename) or frame.filename.startswith(_STDLIB)):
            return f"{frame.filename}:{frame.lineno}"
    return users_line()


def _is_asked_by_a_loop(frame: FrameType) -> bool:
    """Whether the frame is at `for … in`, also where something written in C stands between, as `enumerate` does."""
    opcode = frame.f_code.co_code[frame.f_lasti] if frame.f_lasti >= 0 else 0
    return dis.opname[opcode].startswith(_ASKING)


# The gates of scripts that run now. A hook that was added once stays: it asks these.
_guards: list[Gate] = []
_has_hook = False


def watch_writes() -> None:
    """From now on, what scripts do to files, processes and connections is asked of their gates."""
    global _has_hook
    if not _has_hook:
        _has_hook = True
        sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _guards or event not in _GUARDED or not _guards[-1].is_closed:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, int) or not (isinstance(flags, int) and flags & _WRITES) or _is_free(os.fsdecode(path)):
            return
        _guards[-1].guard(f"write {os.fsdecode(path)}")
    elif not (event in _FILE_EVENTS and isinstance(arguments[0], str | bytes) and _is_free(os.fsdecode(arguments[0]))):
        _guards[-1].guard("change files" if event in _FILE_EVENTS else "start a process or open a connection")


def _is_free(path: str) -> bool:
    """Whether writing there touches nothing of the user's: AutoGraph keeps what it generates in temporary files, and the folder for
    those is private to this process."""
    return path == os.devnull or os.path.abspath(path).startswith(tempfile.gettempdir() + os.sep)
