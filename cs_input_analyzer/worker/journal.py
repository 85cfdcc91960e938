"""The file through which a worker reports, over a shared file system too, and the order it gets. It has one event a line: of a
killed worker all is kept up to its last whole one."""

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
# What a worker leaves with when its journal cannot be written (EX_IOERR of sysexits.h), and what it prints before the reason.
EXIT_UNWRITTEN = 74
UNWRITTEN = "cs_input_analyzer: the journal cannot be written: "


class JournalError(Exception):
    """The journal cannot be written: the disk is full, over quota, or gone. There is nothing to report it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPlan:
    """What the workers of one launch are to do.

    Attributes:
        target: as the user wrote it; `pickled` is the file that holds the function where it cannot be imported.
        num_workers: worker count announced in TF_CONFIG, at least as many as are started.
        worker_indices: TF_CONFIG index of each started worker.
        want_source: whether the first worker is to run the readers alone, too.
        look_s: seconds for which the first worker may run parts of the pipeline, where its window left CPU that belongs to no op.
        candidates: fixes that the first worker is to try after its window, in `fixes_s` seconds from when its pipeline is built.
        texts: pairs of a path and the text of the user's file, which the changes of the candidates change.
        input_context: whether one is given to a function that has None for it by default.
        stand_ins: packages to stand in for where they are not installed.
        batch_size: samples of a step of the accelerator, where that was said; `has_demand`: that it takes samples at some rate.
        role, why: of the measurement: what it is for, and what this layout is to show.
        begin_ratio: the share of its lists of files at which the pipeline begins.
        samples_per_element: what the user says that one element holds.
        deadline_s: on the launcher's clock; workers that are not done by then are ended and keep what they measured. What they take
            to import and to build comes on top: for that they have the launcher's start timeout.
    """

    target: str
    pickled: str | None
    params_json: str | None
    mode: Mode
    batch_size: int | None
    num_workers: int
    worker_indices: tuple[int, ...]
    target_error_ratio: float
    min_window_s: float
    max_window_s: float
    deadline_s: float
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

    @property
    def has_more(self) -> bool:
        """Whether the first worker has something to do after its window."""
        return self.want_source or bool(self.candidates) or self.look_s > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a worker is to run, once it has imported TensorFlow. `tf_config`: with its `worker_index`. The first worker of a launch
    records its graph and its costs, and does what else is asked for; `is_alone`: there is no other. `left_s`: from now on until it
    is ended; one that was slow to start tries fixes for a shorter time, rather than being ended amid them."""

    plan: WorkPlan
    worker_index: int
    tf_config: str
    is_first: bool
    is_alone: bool
    left_s: float

    @property
    def fixes_s(self) -> float:
        return max(0.0, min(self.plan.fixes_s, self.left_s))

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Order:
        return msgspec.convert(json.loads(line), cls)


class JournalWriter:
    """A worker's side. Every line is flushed: what has been written outlives the process. Its methods raise JournalError."""

    def __init__(self, folder: Path) -> None:
        with _written():
            self._events = (folder / EVENTS).open("ab")

    def event(self, name: str, /, **fields: object) -> None:
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
    """As digits, writing half a second of small batches would be a part of that half second."""
    return base64.b64encode(array.tobytes()).decode()


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JournalError(error.strerror or str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """All that a worker left: its events in order, and the arrays of its chunks as one."""

    events: tuple[Mapping[str, Any], ...]
    stamps_s: npt.NDArray[np.float64]
    samples: npt.NDArray[np.int64] | None

    def last(self, kind: str) -> Mapping[str, Any] | None:
        return next((event for event in reversed(self.events) if event["event"] == kind), None)

    @property
    def told_s(self) -> float:
        """When it was told to sample, on the clock of its stamps: the one moment that workers on several nodes have in common."""
        told = self.last("go")
        return float(told["at_s"]) if told else 0.0

    @property
    def whole_s(self) -> float | None:
        """Seconds from that to its last batch; None of one that ended early, and says nothing of how long others may be seen."""
        is_whole = self.last("done") is not None and self.last("data_error") is None and len(self.stamps_s) > 0
        return float(self.stamps_s[-1]) - self.told_s if is_whole else None

    def readings(self) -> tuple[tuple[float, Counters], ...]:
        """Return each reading of the counters with its time, on the clock of the stamps; the first is the start of sampling."""
        found = [event for event in self.events if event["event"] in ("sampling", "chunk")]
        return tuple((float(event["at_s"]), Counters(**event["counters"])) for event in found)

    def said(self, kind: str) -> dict[str, Any]:
        """What the last event of a kind says; nothing without one."""
        return {key: value for key, value in (self.last(kind) or {}).items() if key != "event"}


def read_journal(folder: Path) -> Journal:
    """Reads whatever is there. A truncated last line is dropped."""
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
    """The events of a journal's lines; what is none is left out."""
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
    """Follows the events of one journal. Only what is new is read: who watches runs on the host that is measured."""

    def __init__(self, folder: Path) -> None:
        self.kinds: set[str] = set()
        self._path = folder / EVENTS
        self._read_bytes = 0
        self._lock = threading.Lock()  # several launches may wait for one worker

    def new(self) -> list[str]:
        """Kinds of events, in the order in which they came; also kinds that came before. A half-written line waits."""
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
