"""An `interleave` has a fixed `cycle_length` that reads from fewer files at a time than would pay.

Each file that is open has one read outstanding. Storage that answers slowly gives more to more readers, and `num_parallel_calls`
cannot make more of them than the cycle is long: with a cycle of 1 a parallel interleave reads one file after the other.

Fix: a longer cycle, or none given, so that TensorFlow chooses: it takes a third of the CPUs, which on a small task is less than
you may want. The order of the elements changes with the cycle, so this needs a shuffle after it, or no wish for an order. The
gain is the storage's to give: it is measured here and never assumed.

Silent where the cycle is at least a third of the CPUs and four (or as many as there are files), where the storage is the bottleneck
and more readers drew no more from it, where reading does not hold the worker back (unless the cycle is 1), and where TensorFlow
chooses.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.evidence import READING, bottleneck, widest_cpus
from cs_input_analyzer.op_traits import call_number
from cs_input_analyzer.records import Case, Edit, Finding, Op
from cs_input_analyzer.source_code import argument_of, with_argument
from cs_input_analyzer.threads import READERS, inside

CODE = "CSI103"
NAME = "fixed-cycle-length"

# Four readers keep a local disk or a page cache busy; beyond that it is the storage that decides.
ENOUGH_READERS = 4
# More readers pay where they draw so many times more.
PAYING_RATIO = 1.2
# What TensorFlow takes by itself: a cycle so long that its threads (one for the file, two for those ahead) are as many as CPUs.
THREADS_PER_FILE = 3


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    for op in ops:
        cycle = op.parameters.get("cycle_length")
        if op.kind != "ParallelInterleave" or not isinstance(cycle, int) or op.within is not None or not _is_fixed(op, case):
            continue
        better, drawn = _better(cycle, case)
        if better <= cycle or READERS.isdisjoint(inner.kind for inner in inside(op, ops)):
            continue
        station = bottleneck(case, (*READING, "fixed parallelism"))
        if case.stations and station is None and cycle > 1:
            continue
        yield Finding(
            code=CODE,
            severity="info",  # until the gain has been measured: on small records a fixed cycle can be the faster one
            message=f"{op.name} reads from {cycle} file{'s' if cycle > 1 else ''} at a time, {better} at a time may draw more",
            op=op.name,
            source=op.source,
            evidence={"cycle_length": cycle, "files": case.pipeline.files.count if case.pipeline.files else None, "times": drawn},
            fix=f"give it cycle_length={better}, if you need no order of its elements",
            before=op.code,
            after=with_argument(op.code, "interleave", "cycle_length", str(better), nth=call_number(op, ops)),
            edits=(Edit(kind="set-cycle-length", op=op.name, value=better),),
        )


def _is_fixed(op: Op, case: Case) -> bool:
    """The graph shows the number that TensorFlow chose like one the user wrote; only the code tells them apart."""
    written = argument_of(op.code, "interleave", "cycle_length", nth=call_number(op, case.pipeline.ops))
    return written is not None and "AUTOTUNE" not in written and written != "None"


def _better(cycle: int, case: Case) -> tuple[int, float | None]:
    """Files to read at a time, and how many times more they drew where that was measured."""
    most = case.pipeline.files.count if case.pipeline.files else None
    is_storage = bottleneck(case, ("storage bandwidth", "storage latency")) is not None
    reads = case.storage.reads if case.storage and is_storage else ()
    drawn = {read.streams: read.bytes_per_s for read in reads if read.cache_state == "cold"}
    drawn = drawn or {read.streams: read.bytes_per_s for read in reads}
    if drawn and min(drawn) <= cycle:
        now = max(rate for streams, rate in drawn.items() if streams <= cycle)
        best = max(drawn, key=lambda streams: drawn[streams])
        if best <= cycle or drawn[best] < PAYING_RATIO * now:
            return cycle, None
        return min(best, most or best), drawn[best] / now
    better = max(ENOUGH_READERS, -(-(widest_cpus(case) or 1) // THREADS_PER_FILE))
    return min(better, most or better), None
