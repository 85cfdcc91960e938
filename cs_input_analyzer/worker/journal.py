"""Write and read the journal by which a worker reports, and the order that it gets.

The journal has one event a line. It may be on a shared file system. A killed worker keeps all events up to its last whole line.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from cs_input_analyzer.host.counters import Counters
from cs_input_analyzer.records import CacheChoice, Candidate, Mode

EVENTS = "events.jsonl"
# The file for the stacks of a script that takes too long.
HUNG = "hung"
# The exit status of a worker whose journal cannot be written (EX_IOERR of sysexits.h), and its message before the reason.
EXIT_UNWRITTEN = 74
UNWRITTEN = "cs_input_analyzer: the journal cannot be written: "


class JournalError(Exception):
    """Report that the journal cannot be written: the disk is full, over quota, or gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPlan:
    """Describe the work of all workers of one launch.

    Attributes:
        target: as the user wrote it; `pickled` is the file that holds the function if it cannot be imported.
        num_workers: worker count announced in TF_CONFIG, at least the number of started workers.
        worker_indices: TF_CONFIG index of each started worker.
        want_source: whether the first worker also runs the readers alone.
        look_s: seconds for which the first worker may run parts of the pipeline, if its window left CPU that belongs to no op.
        candidates: fixes that the first worker tries after its window, in `fixes_s` seconds from the end of its build.
        texts: pairs of a path and the text of the user's file, which the changes of the candidates change.
        input_context: whether a function with a default of None for it gets one.
        stand_ins: packages to replace by stand-ins if they are not installed.
        batch_size: samples of a step of the accelerator, if known; `has_demand`: whether its rate is known.
        role: what the measurement is for; `why`: the question that this launch answers.
        begin_ratio: the share of its lists of files at which the pipeline begins; 0 where a `take` or `skip` picks some of them.
        samples_per_element: the samples of one element, if the user said so.
        searches: whether the worker only runs the script of the target, to find every place where it takes data.
        deadline_s: on the launcher's clock; later workers are ended and keep their measurements. The time to import and to build
            comes on top: the launcher's start timeout limits it.
    """

    target: str
    pickled: str | None = None
    params_json: str | None = None
    mode: Mode = "train"
    batch_size: int | None = None
    num_workers: int = 1
    worker_indices: tuple[int, ...] = (0,)
    target_error_ratio: float = 0.0
    min_window_s: float = 0.0
    max_window_s: float = 0.0
    deadline_s: float = 0.0
    cache: CacheChoice = "as-is"
    want_source: bool = False
    candidates: tuple[Candidate, ...] = ()
    fixes_s: float = 0.0
    texts: tuple[tuple[str, str], ...] = ()
    input_context: bool = False
    begin_ratio: float = 0.0
    stand_ins: tuple[str, ...] = ()
    samples_per_element: int | None = None
    has_demand: bool = False
    role: Literal["probe", "validate"] = "probe"
    why: str = ""
    look_s: float = 0.0
    searches: bool = False

    @property
    def has_more(self) -> bool:
        """Return whether the first worker has work after its window."""
        return self.want_source or bool(self.candidates) or self.look_s > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Hold the order of one worker, which it gets after it has imported TensorFlow.

    Attributes:
        tf_config: with the `worker_index`.
        is_first: whether it also records its graph and costs, and does the other requested work.
        is_alone: whether the launch has no other worker.
        left_s: seconds from now until it is ended. After a slow start it tries fixes for a shorter time.
    """

    plan: WorkPlan
    worker_index: int
    tf_config: str
    is_first: bool
    is_alone: bool
    left_s: float

    @property
    def fixes_s(self) -> float:
        """Return the seconds for fixes that are left."""
        return max(0.0, min(self.plan.fixes_s, self.left_s))

    def to_line(self) -> str:
        """Return the order as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Order:
        """Read the order from one line of JSON."""
        return msgspec.convert(json.loads(line), cls)


class JournalWriter:
    """Write a worker's journal. Each line is flushed, so it outlives the process. The methods raise JournalError."""

    def __init__(self, folder: Path) -> None:
        with _written():
            self._events = (folder / EVENTS).open("ab")

    def event(self, name: str, /, **fields: object) -> None:
        """Write one event."""
        line = json.dumps({"event": name, **fields}) + "\n"
        with _written():
            self._events.write(line.encode())
            self._events.flush()

    def chunk(
        self, stamps_s: npt.NDArray[np.float64], samples: npt.NDArray[np.int64] | None, counters: Counters, at_s: float
    ) -> None:
        """Write the batches that came since the last chunk, and the counters of `at_s`, on the clock of the stamps."""
        arrays = {"stamps_s": _text_of(stamps_s), "samples": None if samples is None else _text_of(samples)}
        self.event("chunk", batches=len(stamps_s), counters=asdict(counters), at_s=at_s, **arrays)


def _text_of(array: npt.NDArray[Any]) -> str:
    """Encode an array. Digits would take too long: a part of the half second between two chunks."""
    return base64.b64encode(array.tobytes()).decode()


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JournalError(error.strerror or str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """Hold the journal of a worker: its events in order, and the arrays of its chunks as one."""

    events: tuple[Mapping[str, Any], ...]
    stamps_s: npt.NDArray[np.float64]
    samples: npt.NDArray[np.int64] | None

    def last(self, kind: str) -> Mapping[str, Any] | None:
        """Return the last event of a kind; None if there is none."""
        return next((event for event in reversed(self.events) if event["event"] == kind), None)

    @property
    def told_s(self) -> float:
        """Return when it was told to sample, on the clock of its stamps. Workers on several nodes share only this moment."""
        told = self.last("go")
        return float(told["at_s"]) if told else 0.0

    @property
    def whole_s(self) -> float | None:
        """Return the seconds from that moment to its last batch; None if it ended early, as that must not limit the others."""
        is_whole = self.last("done") is not None and self.last("data_error") is None and len(self.stamps_s) > 0
        return float(self.stamps_s[-1]) - self.told_s if is_whole else None

    def readings(self) -> tuple[tuple[float, Counters], ...]:
        """Return each reading of the counters with its time, on the clock of the stamps; the first is the start of sampling."""
        found = [event for event in self.events if event["event"] in ("sampling", "chunk")]
        return tuple((float(event["at_s"]), Counters(**event["counters"])) for event in found)

    def said(self, kind: str) -> dict[str, Any]:
        """Return the fields of the last event of a kind; none without one."""
        return {key: value for key, value in (self.last(kind) or {}).items() if key != "event"}


def read_journal(folder: Path) -> Journal:
    """Read a journal. Drop a truncated last line."""
    try:
        events = events_in((folder / EVENTS).read_bytes())
    except OSError:
        events = []
    arrays = [(event.pop("stamps_s"), event.pop("samples")) for event in events if event["event"] == "chunk"]
    stamps_s, samples = (b"".join(base64.b64decode(text or "") for text in texts) for texts in zip(("", ""), *arrays, strict=True))
    return Journal(
        events=tuple(events), stamps_s=np.frombuffer(stamps_s), samples=np.frombuffer(samples, np.int64) if samples else None
    )


def events_in(lines: bytes) -> list[dict[str, Any]]:
    """Return the events of a journal's lines. Leave out lines without one."""
    events = []
    for line in lines.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "event" in event:
            events.append(event)
    return events


class EventTail:
    """Follow the events of one journal. Read only new lines: the reader runs on the measured host."""

    def __init__(self, folder: Path) -> None:
        self.kinds: set[str] = set()
        self._path = folder / EVENTS
        self._read_bytes = 0
        self._lock = threading.Lock()  # several launches may wait for one worker

    def new(self) -> list[str]:
        """Return the kinds of new events, in the order of their arrival, with repeated kinds. A half-written line waits."""
        with self._lock:
            kinds = list(dict.fromkeys(str(event["event"]) for event in events_in(self._new_lines())))
            self.kinds.update(kinds)
        return kinds

    def _new_lines(self) -> bytes:
        try:
            if self._path.stat().st_size <= self._read_bytes:
                return b""
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                whole, end, _ = file.read().rpartition(b"\n")
        except OSError:
            return b""
        self._read_bytes += len(whole) + len(end)
        return whole
