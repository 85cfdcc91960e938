"""Sample a worker's pipeline until the rate is precise enough, the time is up, or the data end.

Write everything as it happens: a worker that hangs or is killed does not reach an end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cs_input_analyzer.host.counters import read_memory
from cs_input_analyzer.host.raw_reads import Look, look_into
from cs_input_analyzer.records import Op, StopReason
from cs_input_analyzer.tfdata.messages import type_of
from cs_input_analyzer.worker.bytes_read import needs_look, reads_of
from cs_input_analyzer.worker.failures import element_error, place_of
from cs_input_analyzer.worker.journal import JournalWriter
from cs_input_analyzer.worker.meter import model_of
from cs_input_analyzer.worker.sampling import SamplingLoop, harness_us_per_batch
from cs_input_analyzer.worker.side_thread import Sampling, SideThread
from cs_input_analyzer.worker.steady_clock import now_s

# A window with fewer slow batches is extended until they are there: with one batch there is no batch gap, and no rate. The
# parent ends a worker at its deadline all the same.
FEWEST_BATCHES = 3


def sample(journal: JournalWriter, given: Sampling) -> None:
    """Sample the pipeline, and begin again when a pass ends. Raise JournalError if the journal cannot be written."""
    loop = SamplingLoop(counted_in=given.samples.counted_in, rows=given.samples.rows)
    loop(given.iterator, 0)  # traces it now: in the window it would be a pause, and a burst after it
    sampler = _Sampler(journal=journal, given=given, loop=loop, side=SideThread(journal=journal, given=given, loop=loop))
    sampler.begin()
    stopped_by = None
    while stopped_by is None:
        stopped_by = sampler.step()
    sampler.finish(stopped_by)


@dataclass(slots=True, kw_only=True)
class _Sampler:
    """Hold the state of one sampling. `pass_began`: batches before this pass; its first one may have been taken before."""

    journal: JournalWriter
    given: Sampling
    loop: SamplingLoop
    side: SideThread
    epochs: int = 0
    pass_began: int = -1
    until_s: float = 0.0

    def begin(self) -> None:
        """Start the side thread, and set the end of the window."""
        self.until_s = now_s() + self.given.max_window_s
        self.loop.stop_at(self.until_s)
        self.side.start()
        self.side.note("reads", **asdict(reads_of(self.given.ops, self.side.meter.passed, {})))

    def step(self) -> StopReason | None:
        """Run the loop once. Return why sampling stops, or None."""
        chunk = self.loop(self.side.iterator, until_s=None, fewest=max(1, FEWEST_BATCHES - self.side.batches))
        self.side.take(chunk)
        if chunk.error is not None:
            where = place_of(chunk.error, self.given.dataset, self.given.ops, self.given.files)
            message, kind = element_error(chunk.error, self.given.files), type_of(chunk.error)
            self.side.note("data_error", kind=kind, where=where, message=message, batches=self.side.batches)
            return "error"
        if chunk.ended and not self._begin_pass():
            return "data_end"
        if self.side.is_precise:
            return "precision"
        if now_s() >= self.until_s and self.side.batches >= FEWEST_BATCHES:
            return "budget"
        return None

    def finish(self, stopped_by: StopReason) -> None:
        """Stop the side thread, and write the costs and the end."""
        self.side.end()
        meter = self.side.meter
        looks = _looks(self.given.dataset, self.given.ops)
        self.journal.event("reads", **asdict(reads_of(self.given.ops, meter.passed, looks)))
        self.journal.event("memory", **asdict(read_memory(self.given.inherited_shared_bytes)))
        if self.given.want_costs:
            self.side.write_costs(harness_us_per_batch() if stopped_by != "error" else None)
        self.journal.event("done", stopped_by=stopped_by, epochs=self.epochs)

    def _begin_pass(self) -> bool:
        """Make an iterator for the next pass. Return False if the source can be read only once."""
        self.epochs += 1
        if self.epochs == 1 and not self.given.want_costs and (model := model_of(self.side.iterator)) is not None:
            self.side.meter.add(model, 0)
        has_given = self.side.batches > self.pass_began  # the side thread may have taken over all that came
        began_cpu_s = time.thread_time()  # threads of the new pass begin their work meanwhile
        if has_given:
            self.side.begin_pass(lambda: iter(self.given.dataset))
        self.side.note("epoch", batches=self.side.batches, restart_cpu_s=time.thread_time() - began_cpu_s)
        self.pass_began = self.side.batches
        return has_given


def _looks(dataset: Any, ops: Sequence[Op]) -> Mapping[str, Look]:
    """Look into the files of readers whose elements do not show their bytes. Return the results by op name."""
    from cs_input_analyzer.tfdata import graph

    wanted = [op.name for op in ops if needs_look(op)]
    files = graph.files_by_reader(graph.graph_def_of(dataset)) if wanted else {}
    looks = {name: look_into([path for path, _ in files.get(name, ())]) for name in wanted}
    return {name: look for name, look in looks.items() if look is not None}
