"""An `interleave` reads from fewer files at a time than would pay.

Each file that is open has one read outstanding. Storage that answers slowly gives more to more readers, and `num_parallel_calls`
cannot make more of them than the cycle is long: with a cycle of 1 a parallel interleave reads one file after the other. What
TensorFlow chooses follows the CPUs of the task and not the storage, which is too few where reads do nothing but wait.

Fix: a longer cycle, and as many calls; where reads only wait and a shuffle of the records without a seed follows, as many files at
once as keep the CPUs busy (Little's law). The order of the elements changes with the cycle, so this needs such a shuffle, or no
need for an order. The gain is the storage's to give: it is measured here and never assumed.

Silent where reading does not hold the worker back (unless the cycle is written, and one file is read at a time), where the storage
is the bottleneck and more readers drew no more from it, where with a written cycle at least a third of the CPUs and four files (or
as many as there are) are read at a time, and where TensorFlow chooses and reads do not wait, or their order counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import freeing_shuffle
from cs_input_analyzer.pipeline.op_traits import cost_of, has_written_cycle, opens_files
from cs_input_analyzer.planning.evidence import READING, bottleneck, files_read, reads_at_once, widest_cpus
from cs_input_analyzer.records import Case, Edit, EditKind, Finding, Op

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
        if not opens_files(op, ops):
            continue
        now = _reads_now(op, cycle, case)
        reads = reads_at_once(case, now) if freeing_shuffle(op, ops) is not None else None
        if reads is not None and reads >= PAYING_RATIO * now:
            yield _waiting(op, now, reads, case)
        elif has_written_cycle(op, ops):
            yield from _fixed(op, cycle, case)


def _fixed(op: Op, cycle: int, case: Case) -> Iterator[Finding]:
    calls = op.parameters.get("num_parallel_calls")
    now = min(cycle, calls) if isinstance(calls, int) and calls > 0 else cycle
    better, drawn = _better(op, now, case)
    station = bottleneck(case, (*READING, "fixed parallelism"))
    if better <= now or (case.stations and station is None and now > 1):
        return
    wanted: list[tuple[EditKind, str]] = []
    if cycle < better:
        wanted.append(("set-cycle-length", "cycle_length"))
    if isinstance(calls, int) and 0 < calls < better:
        wanted.append(("set-parallelism", "num_parallel_calls"))
    yield Finding(
        severity="info",  # until the gain has been measured: on small records a fixed cycle can be the faster one
        message=f"{op.name} reads from {_files(now)} at a time, {better} at a time may draw more",
        op=op.name,
        evidence={"cycle_length": cycle, "reads_at_once_now": now, "files": files_read(case, op), "times": drawn},
        fix=f"give it {' and '.join(f'{argument}={better}' for _, argument in wanted)}"
        + (", if you need no order of its elements" if cycle < better else ""),
        edits=tuple(Edit(kind=kind, op=op.name, value=better) for kind, _ in wanted),
    )


def _waiting(op: Op, now: float, reads: int, case: Case) -> Finding:
    has_calls = "num_parallel_calls" in op.parameters
    calls = (Edit(kind="set-parallelism", op=op.name, value=reads),) if has_calls else ()
    return Finding(
        severity="warning",
        message=f"{op.name} reads from {_files(round(now))} at a time and mostly waits for them; {reads} would keep the CPUs busy",
        op=op.name,
        evidence={"reads_at_once_now": now, "reads_at_once": reads, "files": files_read(case, op)},
        fix=f"read {reads} files at once: the storage answers slowly, and AUTOTUNE stops at the number of CPUs",
        # A reader with `num_parallel_reads` makes as many calls as its cycle is long, and has no number of them.
        edits=(Edit(kind="set-cycle-length", op=op.name, value=reads), *calls),
    )


def _reads_now(op: Op, cycle: int, case: Case) -> float:
    """Reads that are outstanding at a time: as many as there are calls, or open files where those are fewer."""
    calls = op.parameters.get("num_parallel_calls")
    if not isinstance(calls, int) or calls < 1:
        cost = cost_of(op, case.profile)
        calls = cost.parallelism if cost is not None and cost.parallelism else cycle
    return max(1.0, min(cycle, calls) if cycle > 0 else calls)


def _better(op: Op, cycle: int, case: Case) -> tuple[int, float | None]:
    """Files to read at a time instead of `cycle`, and how many times more they drew where that was measured."""
    most = files_read(case, op)
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


def _files(count: int) -> str:
    return f"{count} file{'s' if count > 1 else ''}"
