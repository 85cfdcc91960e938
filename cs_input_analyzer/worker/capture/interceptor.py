"""Intercept the calls of a user's script that consume data. Record each as a candidate; no training gets data.

On private copies the script continues as if the data had been empty. On the user's own files it ends at the first place that is no
mere peek. In a worker it stops and waits at the chosen place. After the first place it may not run a step of a training, start a
process or open a connection: such an attempt ends it, without its exit handlers. On private copies it may start processes and open
connections after mere peeks, as before them.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
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
        tell: gets each `candidate`, and as `refused` each place whose data cannot be analyzed.
    """

    def __init__(
        self,
        leave: Callable[[str], NoReturn],
        wanted: int | None = None,
        tell: Callable[..., None] = lambda event, **fields: None,
        *,
        is_isolated: bool = True,
    ) -> None:
        self.candidates: list[CaptureCandidate] = []
        self.taken: Taken | None = None
        self.why = ""
        self.is_over = False
        self.on_estimator: Callable[[Any, str, Any, Mode], None] | None = None
        self._wanted = wanted
        self._tell = tell
        self._is_isolated = is_isolated
        self._pid = os.getpid()
        self._leave = leave
        self._passes: dict[tuple[str, str], int] = {}
        self._is_past_peeks = False

    def reach(self, kind: CaptureKind, call: str, taken: Taken | str, mode: Mode = "train", *, ends_epochs: bool = False) -> None:
        """Record that the script would take data here, and end it if due.

        A text in `taken` tells why the data cannot be analyzed. `ends_epochs` is as in `CaptureCandidate`.
        """
        end_forked_child(self._pid)
        if self.is_over:
            return
        source = where_built().line
        where = (kind, source)
        self._passes[where] = self._passes.get(where, 0) + 1
        self._is_past_peeks = self._is_past_peeks or kind != "peek"
        if self._passes[where] > MOST_PASSES:
            self.stop(f"{call} at {source} was reached {MOST_PASSES} times")
        if self._passes[where] > 1:
            return
        if isinstance(taken, str):
            self._tell("refused", text=f"{call} at {source} takes {taken}")
            return
        code = (code_at(source)[0] or "").strip() or None
        candidate = CaptureCandidate(
            number=len(self.candidates) + 1,
            kind=kind,
            call=call,
            source=source,
            code=code,
            mode=mode,
            ends_epochs=ends_epochs,
        )
        self.candidates.append(candidate)
        self._tell("candidate", **asdict(candidate))
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
            yield
        finally:
            self.is_over = True
            _running.remove(self)

    def guard(self, what: str) -> None:
        """End the script if it does something that it may do only before it takes data."""
        if self._passes and not self.is_over:
            self.stop(f"it was about to {what} at {where_built().line or 'an unknown line'}")

    def guard_processes(self) -> None:
        """End the script if it starts a process or opens a connection. On private copies it may do so after mere peeks."""
        if self._is_past_peeks or not self._is_isolated:
            self.guard("start a process or open a connection")


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


def audit() -> None:
    """Let interceptors see changes of processes and connections from now on."""
    global _has_hook
    if not _has_hook:
        _has_hook = True
        sys.addaudithook(_on_audit_event)


def _on_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    if _running and event in _PROCESS_EVENTS:
        _running[-1].guard_processes()
