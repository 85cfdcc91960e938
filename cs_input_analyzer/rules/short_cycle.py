"""An `interleave` reads from fewer files at a time than would pay.

Each file that is open has one read outstanding. Storage that answers slowly gives more to more readers, and `num_parallel_calls`
cannot make more of them than the cycle is long: with a cycle of 1 a parallel interleave reads one file after the other. What
TensorFlow chooses follows the CPUs of the task and not the storage, which is too few where reads do nothing but wait.

Fix: a longer cycle; where reads only wait and a shuffle without a seed follows, as many files at once as keep the CPUs busy
(Little's law). The order of the elements changes with the cycle, so this needs a shuffle after it, or no wish for an order. The
gain is the storage's to give: it is measured here and never assumed.

Silent where reading does not hold the worker back (unless the cycle is written, and 1), where the storage is the bottleneck and
more readers drew no more from it, where a written cycle is at least a third of the CPUs and four (or as many as there are files),
and where TensorFlow chooses and reads do not wait, or their order counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.evidence import READING, bottleneck, reads_at_once, widest_cpus
from cs_input_analyzer.lineage import after
from cs_input_analyzer.op_traits import READER_CALLS, call_number, cost_of, is_random_order
from cs_input_analyzer.records import Case, Edit, Finding, Op
from cs_input_analyzer.source_code import argument_of, count_calls, with_argument
from cs_input_analyzer.threads import READERS, inside

CODE = "CSI103"
NAME = "short-cycle"

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
        if op.kind != "ParallelInterleave" or not isinstance(cycle, int) or op.within is not None:
            continue
        if READERS.isdisjoint(inner.kind for inner in inside(op, ops)):
            continue
        now = _reads_now(op, cycle, case)
        reads = reads_at_once(case, now) if any(is_random_order(other) for other in after(op, ops)) else None
        if reads is not None and reads >= PAYING_RATIO * now:
            yield _waiting(op, now, reads, case)
        elif _is_fixed(op, case):
            yield from _fixed(op, cycle, case)


def _fixed(op: Op, cycle: int, case: Case) -> Iterator[Finding]:
    better, drawn = _better(cycle, case)
    station = bottleneck(case, (*READING, "fixed parallelism"))
    if better <= cycle or (case.stations and station is None and cycle > 1):
        return
    yield Finding(
        code=CODE,
        severity="info",  # until the gain has been measured: on small records a fixed cycle can be the faster one
        message=f"{op.name} reads from {_files(cycle)} at a time, {better} at a time may draw more",
        op=op.name,
        source=op.source,
        evidence={"cycle_length": cycle, "files": _file_count(case), "times": drawn},
        fix=f"give it cycle_length={better}, if you need no order of its elements",
        before=op.code,
        after=with_argument(op.code, "interleave", "cycle_length", str(better), nth=call_number(op, case.pipeline.ops)),
        edits=(Edit(kind="set-cycle-length", op=op.name, value=better),),
    )


def _waiting(op: Op, now: float, reads: int, case: Case) -> Finding:
    return Finding(
        code=CODE,
        severity="warning",
        message=f"{op.name} reads from {_files(round(now))} at a time and mostly waits for them; {reads} would keep the CPUs busy",
        op=op.name,
        source=op.source,
        evidence={"reads_at_once_now": now, "reads_at_once": reads, "files": _file_count(case)},
        fix=f"read {reads} files at once: the storage answers slowly, and AUTOTUNE stops at the number of CPUs",
        before=op.code,
        after=_with_reads(op, reads, case),
        edits=(
            Edit(kind="set-cycle-length", op=op.name, value=reads),
            Edit(kind="set-parallelism", op=op.name, value=reads),
        ),
    )


def _with_reads(op: Op, reads: int, case: Case) -> str | None:
    reader = next((name for name in READER_CALLS if count_calls(op.code, name) == 1), None)
    if reader is not None and not count_calls(op.code, "interleave"):  # TensorFlow's own interleave, of a reader of many files
        return with_argument(op.code, reader, "num_parallel_reads", str(reads))
    nth = call_number(op, case.pipeline.ops)
    longer = with_argument(op.code, "interleave", "cycle_length", str(reads), nth=nth)
    return with_argument(longer, "interleave", "num_parallel_calls", str(reads), nth=nth)


def _reads_now(op: Op, cycle: int, case: Case) -> float:
    """Reads that are outstanding at a time: as many as there are calls, or open files where those are fewer."""
    calls = op.parameters.get("num_parallel_calls")
    if not isinstance(calls, int) or calls < 1:
        cost = cost_of(op, case.profile)
        calls = cost.parallelism if cost is not None and cost.parallelism else cycle
    return max(1.0, min(cycle, calls) if cycle > 0 else calls)


def _is_fixed(op: Op, case: Case) -> bool:
    """The graph shows the number that TensorFlow chose like one the user wrote; only the code tells them apart."""
    written = argument_of(op.code, "interleave", "cycle_length", nth=call_number(op, case.pipeline.ops))
    return written is not None and "AUTOTUNE" not in written and written != "None"


def _better(cycle: int, case: Case) -> tuple[int, float | None]:
    """Files to read at a time, and how many times more they drew where that was measured."""
    most = _file_count(case)
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


def _file_count(case: Case) -> int | None:
    return case.pipeline.files.count if case.pipeline.files else None


def _files(count: int) -> str:
    return f"{count} file{'s' if count > 1 else ''}"
