"""Samples a worker's pipeline in chunks until the rate is precise enough, the time is up, or the data end. All is written as it
happens, as a worker that hangs or is killed does not reach an end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from cs_input_analyzer.machines.counters import CounterReader, read_memory
from cs_input_analyzer.machines.raw_reads import Look, look_into
from cs_input_analyzer.machines.reference import SpeedWatch, undisturbed_s
from cs_input_analyzer.records import Op, SamplesPerElement, StopReason
from cs_input_analyzer.stats.steady_state import steady_window
from cs_input_analyzer.worker.bytes_read import needs_look, reads_of
from cs_input_analyzer.worker.failures import element_error
from cs_input_analyzer.worker.fsspec_watch import FsspecWatch
from cs_input_analyzer.worker.journal import JournalWriter
from cs_input_analyzer.worker.meter import CostMeter
from cs_input_analyzer.worker.sampling import Chunk, Loop, harness_us_per_batch, sampling_loop

# Counters are read, and the journal is written, between two chunks: windows may be as short as two seconds. The first chunks are
# shorter: the start of the window is looked at closely. What the ops have cost takes milliseconds to read, and is read less often.
FIRST_CHUNK_S, CHUNK_S, COSTS_S = 0.02, 0.25, 0.5
# Between two checks whether the rate is precise enough.
STOP_CHECK_S = 0.5
# A window in which fewer came, as each takes so long, goes on until they are there: with one there is no gap, and no rate. The
# parent ends a worker at its deadline all the same.
FEWEST_BATCHES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """What is to be sampled, and for how long. `iterator`: its first element may have been taken; `target_error_ratio`: half-width
    of the rate's interval at which sampling stops; `files`: paths and sizes when the pipeline was built; `fsspec`: what Python
    functions read besides."""

    dataset: Any
    iterator: Any
    ops: Sequence[Op]
    samples: SamplesPerElement
    min_window_s: float
    max_window_s: float
    target_error_ratio: float = 0.0
    want_costs: bool = True
    files: Sequence[tuple[str, int]] = ()
    fsspec: FsspecWatch = field(default_factory=FsspecWatch)
    inherited_shared_bytes: int = 0


def sample(journal: JournalWriter, given: Sampling) -> None:
    """Samples the pipeline; a pass that ends begins again."""
    counted_in, rows = given.samples.counted_in, given.samples.rows
    loop = sampling_loop(counted_in=counted_in, rows=rows)
    loop(given.iterator, 0)  # traces it now: in the window it would be a pause, and a burst after it
    sampler = _Sampler(journal=journal, given=given, loop=loop, iterator=given.iterator)
    sampler.begin()
    stopped_by = None
    while stopped_by is None:
        stopped_by = sampler.step()
    sampler.finish(stopped_by)


@dataclass(slots=True, kw_only=True)
class _Sampler:
    """One run of sampling. `arrivals`: stamps of the present state of the pipeline, which began at `state_began_s` (a full cache
    makes another one); `passes`: how many of them each pass ended with; `unwritten`: chunks that the journal does not have yet;
    `since_epoch`: batches of this pass; `tuned`: last seen values of AUTOTUNE's parameters, None before they were read."""

    journal: JournalWriter
    given: Sampling
    loop: Loop
    iterator: Any
    meter: CostMeter = field(init=False)
    speed: SpeedWatch = field(default_factory=SpeedWatch)
    counters: CounterReader = field(init=False)
    arrivals: list[Any] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)
    unwritten: list[Chunk] = field(default_factory=list)
    written_s: float = 0.0
    costs_s: float = 0.0
    batches: int = 0
    epochs: int = 0
    since_epoch: int = 1
    chunk_s: float = FIRST_CHUNK_S
    tuned: dict[str, float] | None = None
    is_filling: bool = False
    began_s: float = 0.0
    checked_s: float = 0.0
    state_began_s: float = 0.0

    def __post_init__(self) -> None:
        self.meter = CostMeter(ops=self.given.ops)
        self.counters = CounterReader(speed=self.speed)

    def begin(self) -> None:
        self.speed.start()
        self.given.fsspec.restart()
        self.began_s = self.checked_s = self.written_s = self.state_began_s = time.monotonic()
        self.journal.event("sampling", counters=asdict(self.counters.read()), at_s=time.time())
        self.meter.poll(self.iterator)
        self.is_filling = self.meter.is_filling_cache
        if self.is_filling:
            self.journal.event("cache_filling")
        self.journal.event("reads", **asdict(reads_of(self.given.ops, self.meter.passed, {})))
        self._write_tuned()

    def step(self) -> StopReason | None:
        """One chunk, and what follows from it; why sampling stops, or None."""
        chunk = self._take(self.given.max_window_s - (time.monotonic() - self.began_s))
        now_s = time.monotonic()
        # Writing after each pass of a few milliseconds would be a part of the pass.
        is_short_pass = chunk.ended and chunk.error is None and self.epochs > 0 and now_s - self.written_s < COSTS_S
        if self.is_filling or not is_short_pass:
            self._write(now_s, has_ended=chunk.ended or chunk.error is not None)
        if chunk.error is not None:
            message = element_error(chunk.error, self.given.files)
            self.journal.event("data_error", kind=type(chunk.error).__name__, message=message, batches=self.batches)
            return "error"
        if chunk.ended and not self._begin_pass():
            return "data_end"
        if now_s - self.began_s >= self.given.max_window_s and self.batches >= FEWEST_BATCHES:
            return "budget"
        if self._is_precise(now_s):
            return "precision"
        return None

    def finish(self, stopped_by: StopReason) -> None:
        if self.unwritten:
            self._write(time.monotonic(), has_ended=True)
        self.speed.stop()
        self.journal.event("reference", undisturbed_s=undisturbed_s(self.speed.loops_s()))
        if self.batches > 0 and (not self.given.want_costs or stopped_by in ("budget", "precision")):
            self.meter.poll(self.iterator)
        looks = _looks(self.given.dataset, self.given.ops)
        self.journal.event("reads", **asdict(reads_of(self.given.ops, self.meter.passed, looks)))
        if (summary := self.given.fsspec.summary()) is not None:
            self.journal.event("fsspec", **summary)
        self.journal.event("memory", **asdict(read_memory(self.given.inherited_shared_bytes)))
        if self.given.want_costs:
            self._write_costs(harness_us_per_batch() if stopped_by != "error" else None)
        self.journal.event("done", stopped_by=stopped_by, epochs=self.epochs)

    def _take(self, left_s: float) -> Chunk:
        chunk = self.loop(self.iterator, until_s=time.time() + min(self.chunk_s, left_s))
        self.chunk_s = min(CHUNK_S, 2 * self.chunk_s)
        self.unwritten.append(chunk)
        self.arrivals.append(chunk.stamps_s)
        self.batches += len(chunk.stamps_s)
        self.since_epoch += len(chunk.stamps_s)
        return chunk

    def _write(self, now_s: float, *, has_ended: bool) -> None:
        """`has_ended`: this iterator will not be seen again."""
        is_due = self.given.want_costs and (has_ended or now_s - self.costs_s >= COSTS_S)
        if is_due or self.is_filling:
            self.meter.poll(self.iterator)
        if is_due:
            self.costs_s = now_s
            self._write_costs(harness_us=None)
        stamps_s = np.concatenate([chunk.stamps_s for chunk in self.unwritten])
        counted = [chunk.samples for chunk in self.unwritten if chunk.samples is not None]
        self.journal.chunk(stamps_s, np.concatenate(counted) if counted else None, self.counters.read())
        self.unwritten.clear()
        self.written_s = now_s
        if self.is_filling and not self.meter.is_filling_cache:  # later passes read the cache: another pipeline begins here
            self.is_filling = False
            self.journal.event("cache_filled", batches=self.batches)
            self.arrivals.clear()
            self.passes.clear()
            self.meter.seen.clear()  # what came before was another state of the pipeline
            self.state_began_s = now_s
        if is_due:
            self._write_tuned()

    def _begin_pass(self) -> bool:
        """Makes an iterator for the next pass; False where the source can be read only once."""
        self.epochs += 1
        if self.epochs == 1 and not self.given.want_costs:
            self.meter.poll(self.iterator)
        began_cpu_s = time.thread_time()  # threads of the new pass begin their work meanwhile
        self.iterator = iter(self.given.dataset) if self.since_epoch else self.iterator
        self.journal.event("epoch", batches=self.batches, restart_cpu_s=time.thread_time() - began_cpu_s)
        if self.since_epoch == 0:
            return False
        self.since_epoch = 0
        self.passes.append(sum(map(len, self.arrivals)))
        return True

    def _is_precise(self, now_s: float) -> bool:
        is_due = now_s - self.state_began_s >= self.given.min_window_s and now_s - self.checked_s >= STOP_CHECK_S
        if not (self.arrivals and is_due):
            return False
        self.checked_s = now_s
        window = steady_window(np.concatenate(self.arrivals), self.passes)
        half_width = window.gap_s.relative_half_width_ratio if window else None
        is_long = window is not None and window.window_s >= self.given.min_window_s / 2
        return half_width is not None and half_width <= self.given.target_error_ratio and is_long

    def _write_costs(self, harness_us: float | None) -> None:
        """What the ops have cost so far; the last of these events counts."""
        # `asdict` copies deeply, which costs a millisecond for a long pipeline.
        seen = {
            name: {each.name: getattr(counts, each.name) for each in fields(counts)} for name, counts in self.meter.seen.items()
        }
        tuned = [{"op": value.op, "parameter": value.parameter, "value": value.value} for value in self.meter.parameters()]
        self.journal.event("costs", seen=seen, tuned=tuned, harness_us=harness_us)

    def _write_tuned(self) -> None:
        """The values that AUTOTUNE changed since the last of these events; the first one, even if empty, says they are read."""
        if not (self.given.want_costs and self.meter.has_model):
            return
        values = {f"{tuned.op}.{tuned.parameter}": tuned.value for tuned in self.meter.parameters()}
        known = self.tuned or {}
        changed = {name: value for name, value in values.items() if known.get(name) != value}
        if self.tuned is None or changed:
            self.journal.event("tuned", batches=self.batches, values=changed)
        self.tuned = values


def _looks(dataset: Any, ops: Sequence[Op]) -> Mapping[str, Look]:
    """What is in the files of readers whose elements do not show how many bytes were read for them, by op name."""
    from cs_input_analyzer.pipeline import graph

    wanted = [op.name for op in ops if needs_look(op)]
    files = graph.files_by_reader(graph.graph_def_of(dataset)) if wanted else {}
    looks = {name: look_into([path for path, _ in files.get(name, ())]) for name in wanted}
    return {name: look for name, look in looks.items() if look is not None}
