"""Watch the sampling loop from a thread beside it: counters, snapshots of the iterator's model, journal, precision.

The loop stays inside TensorFlow, which lets go of Python's lock. So nothing here makes a gap between two batches, and work that
begins and ends inside one long `get_next` is seen while it runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.host.counters import CounterReader
from cs_input_analyzer.model.steady_state import steady_window
from cs_input_analyzer.records import Op, SamplesPerElement
from cs_input_analyzer.worker import steady_clock
from cs_input_analyzer.worker.first_pass import FirstPass, first_pass_of
from cs_input_analyzer.worker.journal import JournalWriter
from cs_input_analyzer.worker.meter import CostMeter, model_of, parsed
from cs_input_analyzer.worker.sampling import Arrivals, SamplingLoop

# Windows may be as short as two seconds. The first readings are closer: the start of the window is looked at closely.
FIRST_READING_S, READING_S = 0.02, 0.25
# Times of single threads come from a file for each thread.
THREADS_S = 1.0
# Between two checks whether the rate is precise enough.
STOP_CHECK_S = 0.5
# Costs are written on the way in long windows, and where the loop is not back so long after its window: it hangs, and the parent
# ends such a worker within a second.
COSTS_S, HANG_S = 5.0, 0.1
# Snapshots come closer together where iterators ended since the last one, and slowly further apart where none did: what an iterator
# did after its last snapshot is lost. They never take more CPU than this part of the time: a snapshot costs 0.1 to 0.3 ms.
FIRST_POLL_S, CLOSEST_POLL_S, FURTHEST_POLL_S = 0.1, 0.02, 0.5
FURTHER_FACTOR = 1.2
POLL_RATIO = 0.004
# Snapshots are counted every five seconds and after the window, as that holds Python's lock; of more bytes some are counted before.
KEPT_BYTES = 16 << 20
# An iterator is let go only when no snapshot of it is under way; one that takes longer than this is left to itself.
JOIN_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Hold a snapshot of the model, taken at `at_s` of the steady clock from the iterator of pass `number`."""

    at_s: float
    number: int
    model: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Describe what to sample, and for how long.

    Attributes:
        iterator: its first element may have been taken.
        target_error_ratio: half-width of the rate's interval at which sampling stops.
        files: paths and sizes when the pipeline was built.
    """

    dataset: Any
    iterator: Any
    ops: Sequence[Op]
    samples: SamplesPerElement
    min_window_s: float
    max_window_s: float
    target_error_ratio: float = 0.0
    want_costs: bool = True
    files: Sequence[tuple[str, int]] = ()
    inherited_shared_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class SideThread:
    """Do all work beside the loop. Only its own thread writes the journal between `start` and `end`.

    Attributes:
        polls_costs: whether snapshots are taken all the time; else only while a cache fills.
        is_precise: whether the rate is known well enough; the loop was told to stop then.
        arrivals: stamps of the present state of the pipeline; a full cache begins another state.
        passes: the number of these stamps at the end of each pass.
        polls_s: CPU time of the snapshots; `polls` is their number.
        is_filling: whether a cache fills, or may fill.
        first_pass: when a cache is full, if there are no snapshots.
    """

    journal: JournalWriter
    given: Sampling
    loop: SamplingLoop
    meter: CostMeter = field(init=False)
    iterator: Any = field(init=False)
    polls_costs: bool = field(init=False)
    arrivals: list[npt.NDArray[np.float64]] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)
    batches: int = 0
    is_precise: bool = False
    polls: int = 0
    polls_s: float = 0.0
    is_filling: bool = False
    first_pass: FirstPass | None = None
    _number: int = 0
    _unwritten: list[Arrivals] = field(default_factory=list)
    _notes: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    _kept: list[Poll] = field(default_factory=list)
    _known: dict[str, float] | None = None
    _ids: frozenset[int] = frozenset()
    _failure: BaseException | None = None
    _state_began_s: float = 0.0
    _began_s: float = 0.0
    _counters: CounterReader = field(default_factory=CounterReader)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _polling: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.meter, self.iterator, self.polls_costs = CostMeter(ops=self.given.ops), self.given.iterator, self.given.want_costs
        self._thread = threading.Thread(target=self._watch, name="csia-side", daemon=True)

    # --- for the thread of the loop -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take the first reading and start the thread."""
        self._began_s = self._state_began_s = time.monotonic()
        if (model := model_of(self.iterator)) is not None:
            self.meter.add(model, self._number)
        else:
            self.first_pass = first_pass_of(self.given.dataset, self.given.ops)
        self.is_filling = self.meter.is_filling_cache or self.first_pass is not None
        self.journal.event("sampling", counters=asdict(self._counters.read()), at_s=steady_clock.now_s())
        if self.is_filling:
            self.journal.event("cache_filling", is_seen=self.first_pass is None or self.first_pass.is_seen)
        self._thread.start()

    def take(self, arrived: Arrivals) -> None:
        """Take over the batches that the loop returned. Raise an error of the side thread, such as a JournalError."""
        with self._lock:
            self._add(arrived)
        if self._failure is not None:
            raise self._failure

    def note(self, event: str, **fields: object) -> None:
        """Write an event with the next reading."""
        with self._lock:
            self._notes.append((event, fields))

    def begin_pass(self, make: Callable[[], Any]) -> Any:
        """Return the iterator that `make` gives for the next pass, after no snapshot of the present one is under way."""
        is_free = self._polling.acquire(timeout=JOIN_S)
        kept = self.iterator  # until the new one is there: a snapshot that hangs must not lose it
        try:
            self.iterator = make()
            self._number += 1
        finally:
            if is_free:
                self._polling.release()
        del kept
        with self._lock:
            if self.is_filling and self.first_pass is not None and self.first_pass.ends_with_data:
                self._begin_full_state()
            self.passes.append(sum(map(len, self.arrivals)))
        return self.iterator

    def end(self) -> None:
        """Stop watching, and write the rest. Raise an error of the side thread."""
        self._ended.set()
        self._thread.join(JOIN_S)
        if self._failure is not None:
            raise self._failure
        self._write(with_threads=True)
        if self._polling.acquire(timeout=0):  # else a snapshot hangs: there are no more of them
            try:
                self._keep(self._snapshot())
            finally:
                self._polling.release()
        self.count_polls()

    def count_polls(self) -> None:
        """Count the kept snapshots, and write the parameters that AUTOTUNE changed between them."""
        kept, self._kept = self._kept, []
        for poll in kept:
            self.meter.add(poll.model, poll.number)
            self._write_tuned(poll.at_s)

    # --- in the side thread ---------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        from tensorflow.python.eager import context

        try:
            with context.eager_mode():  # the mode belongs to the thread, and user code may have changed its default
                self._watch_until_ended()
        except BaseException as error:  # for the thread of the loop to raise
            self._failure = error
            self.loop.stop_at(0.0)

    def _watch_until_ended(self) -> None:
        reading_s, poll_s = FIRST_READING_S, FIRST_POLL_S
        now_s = self._began_s
        next_reading_s, next_poll_s = now_s + reading_s, now_s + poll_s
        next_threads_s, next_check_s = now_s, now_s + STOP_CHECK_S
        next_costs_s = now_s + min(COSTS_S, self.given.max_window_s + HANG_S)
        while not self._ended.wait(max(0.0, min(next_reading_s, next_poll_s) - time.monotonic())):
            now_s = time.monotonic()
            if now_s >= next_reading_s:
                self._write(with_threads=now_s >= next_threads_s)
                next_threads_s = now_s + THREADS_S if now_s >= next_threads_s else next_threads_s
                reading_s = min(READING_S, 2 * reading_s)
                next_reading_s = now_s + reading_s
            if now_s >= next_poll_s:
                poll_s = self._poll(poll_s) if self.polls_costs or self.is_filling else FURTHEST_POLL_S
                next_poll_s = time.monotonic() + poll_s
            if now_s >= next_check_s:
                next_check_s = now_s + STOP_CHECK_S
                self._check(now_s)
            if now_s >= next_costs_s and self.polls_costs:  # a worker that is ended must not lose them
                left_s = self._began_s + self.given.max_window_s + HANG_S - now_s
                next_costs_s = now_s + (min(COSTS_S, left_s) if left_s > 0 else COSTS_S)
                self.count_polls()
                self.write_costs(None)

    def _add(self, arrived: Arrivals) -> None:
        if len(arrived.stamps_s):
            self._unwritten.append(arrived)
            self.arrivals.append(arrived.stamps_s)
            self.batches += len(arrived.stamps_s)

    def _write(self, *, with_threads: bool) -> None:
        counters, at_s = self._counters.read(threads=with_threads), steady_clock.now_s()
        with self._lock:
            self._add(self.loop.arrived())
            unwritten, self._unwritten = self._unwritten, []
            notes, self._notes = self._notes, []
        stamps_s = np.concatenate([np.empty(0), *(one.stamps_s for one in unwritten)])
        counted = [one.samples for one in unwritten if one.samples is not None]
        self.journal.chunk(stamps_s, np.concatenate(counted) if counted else None, counters, at_s)
        for event, fields in notes:
            self.journal.event(event, **fields)

    def _poll(self, poll_s: float) -> float:
        """Take a snapshot. Return the seconds until the next one."""
        began_s = time.thread_time()
        with self._polling:
            poll = self._snapshot()
        ids = frozenset(parsed(poll.model).nodes) if poll is not None else frozenset()
        has_lost = not self._ids <= ids
        self._ids = ids
        if self.is_filling and poll is not None:
            self.meter.add(poll.model, poll.number)
        else:
            self._keep(poll)
        self._see_cache()
        taken_s = time.thread_time() - began_s
        self.polls += poll is not None
        self.polls_s += taken_s
        furthest_s = READING_S if self.is_filling else FURTHEST_POLL_S
        wanted_s = max(CLOSEST_POLL_S, poll_s / 2) if has_lost else min(furthest_s, FURTHER_FACTOR * poll_s)
        return max(wanted_s, taken_s / POLL_RATIO)

    def _snapshot(self) -> Poll | None:
        try:
            model = model_of(self.iterator)
        except Exception:  # costs are worth less than the rate, which is measured on
            self.polls_costs = self.is_filling = False
            return None
        return None if model is None else Poll(at_s=steady_clock.now_s(), number=self._number, model=model)

    def _keep(self, poll: Poll | None) -> None:
        if poll is None:
            return
        self._kept.append(poll)
        if sum(len(one.model) for one in self._kept) > KEPT_BYTES:
            self.count_polls()

    def _see_cache(self) -> None:
        """Begin another state of the pipeline if its cache is full: later passes read the cache."""
        if not self.is_filling:
            return
        with self._lock:
            self._add(self.loop.arrived())
            if not self._still_fills():
                self._begin_full_state()

    def _still_fills(self) -> bool:
        if self.first_pass is None:
            return self.meter.is_filling_cache
        last = self.first_pass.elements
        return last is None or self.batches + 1 < last  # one element was taken before

    def _begin_full_state(self) -> None:
        self.is_filling = False
        self._notes.append(("cache_filled", {"batches": self.batches}))
        self.arrivals.clear()
        self.passes.clear()
        self.meter.seen.clear()
        self.meter.start_s = 0.0
        self._state_began_s = time.monotonic()

    def _check(self, now_s: float) -> None:
        """Tell the loop to stop if the rate is precise enough."""
        with self._lock:
            arrivals, passes = list(self.arrivals), list(self.passes)
        if not arrivals or now_s - self._state_began_s < self.given.min_window_s:
            return
        if _is_precise(arrivals, passes, self.given.target_error_ratio, self.given.min_window_s / 2):
            self.is_precise = True
            self.loop.stop_at(0.0)

    def write_costs(self, harness_us: float | None) -> None:
        """Write the costs of the ops so far. The last of these events counts."""
        seen = {name: counts.as_dict() for name, counts in self.meter.seen.items()}
        tuned = [{"op": value.op, "parameter": value.parameter, "value": value.value} for value in self.meter.parameters()]
        polls = {"count": self.polls, "taken_s": self.polls_s, "over_s": time.monotonic() - self._began_s}
        start_s = self.meter.start_s
        self.journal.event("costs", seen=seen, tuned=tuned, harness_us=harness_us, polls=polls, start_s=start_s)

    def _write_tuned(self, at_s: float) -> None:
        """Write the values that AUTOTUNE changed. The first of these events, even if empty, shows that they are read."""
        if not (self.polls_costs and self.meter.has_model):
            return
        values = {f"{tuned.op}.{tuned.parameter}": tuned.value for tuned in self.meter.parameters()}
        known = self._known or {}
        changed = {name: value for name, value in values.items() if known.get(name) != value}
        if self._known is None or changed:
            self.journal.event("tuned", at_s=at_s, values=changed)
        self._known = values


def _is_precise(
    arrivals: Sequence[npt.NDArray[np.float64]], passes: Sequence[int], target_error_ratio: float, least_s: float
) -> bool:
    window = steady_window(np.concatenate(arrivals), passes)
    half_width = window.gap_s.relative_half_width_ratio if window else None
    is_long = window is not None and window.window_s >= least_s
    return half_width is not None and half_width <= target_error_ratio and is_long
