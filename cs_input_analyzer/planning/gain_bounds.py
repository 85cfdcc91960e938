"""What a fix can gain at most, by the cost table: a measured gain above that is noise, or not understood. Pure.

A worker with c CPUs gives at most c / D samples/s, D being the CPU time of a sample (bottleneck law): what a fix leaves of D bounds
what it can gain, however much it takes away (Amdahl's law). A serial op that it leaves alone bounds it by 1 / D of that op. And n
reads at a time, each of r seconds, give at most n / r (Little's law).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cs_input_analyzer.pipeline.lineage import upstream
from cs_input_analyzer.pipeline.op_kinds import kinds_with
from cs_input_analyzer.pipeline.op_traits import cost_of, opens_files
from cs_input_analyzer.pipeline.threads import inside
from cs_input_analyzer.planning.evidence import bottleneck
from cs_input_analyzer.records import RUNTIME, Case, Edit, Op, OpCost, Profile

# The row of an op is right to this; a bound that is a little too high declines nothing that is true.
ROW_ERROR_RATIO = 1.15
# Processes of one pipeline differ by this in what they cost and give.
PROCESS_RATIO = 1.05
# A sample costs a worker that mostly waits more than a busy one, as each wakes threads and finds caches cold: where the costs of
# one that used 8 % of a CPU allowed a gain of 24, it was 38. So much less may a sample cost a worker that is always busy.
IDLE_RATIO = 2.0
# What is left of the CPU time, or a row of it, is too little to divide by: a row may be wrong by so much of the whole.
LEAST_LEFT_RATIO = 0.02
# What these change is done side by side, or earlier, and costs what it cost before.
_OVERLAPPING = frozenset({"parallelize", "interleave", "set-cycle-length", "insert-prefetch", "use-private-threads"})


def most_gain(case: Case, edits: Sequence[Edit]) -> float | None:
    """The largest ratio of rates, edited / original, that the costs allow in workers of the profile's size; None where they say
    nothing about it."""
    profile, rate = case.profile, _rate_of(case)
    if profile is None or rate is None or not profile.cpu_s_per_sample:
        return None
    if rate * profile.cpu_s_per_sample > profile.layout.cpus_per_task * ROW_ERROR_RATIO:
        return None  # more CPU than there was: these costs are not those of this rate
    limits = [*_by_computing(case, profile, edits, rate), *_by_waiting(case, edits)]
    return max(1.0, min(limits) / rate) * PROCESS_RATIO if limits else None


def _rate_of(case: Case) -> float | None:
    """Samples/s of one worker of the profile's size, alone on the host: the low end, as the bound is to be safe."""
    alike = [m for m in case.measurements if m.layout.tasks == 1 and case.profile and m.layout == case.profile.layout]
    lows = [worker.samples_per_s.low for m in alike for worker in m.measured_workers if worker.samples_per_s]
    return min((low for low in lows if low > 0), default=None)


def _by_computing(case: Case, profile: Profile, edits: Sequence[Edit], rate: float) -> Iterator[float]:
    """Samples/s that the CPUs, and each serial op alone, allow with what the edits leave of the work."""
    whole_s = profile.cpu_s_per_sample or 0.0
    touched = {op.name for edit in edits for op in _touched(edit, case.pipeline.ops)}
    lessened = {op.name for edit in edits if edit.kind not in _OVERLAPPING for op in _touched(edit, case.pipeline.ops)}
    only_readers = all(_is_reader_buffer(edit, case.pipeline.ops) for edit in edits)
    # The executor's share goes with calls and hand-overs, of which all edits make others but those of a reader's buffer.
    saved = [row for row in profile.ops if row.name in lessened or (row.kind == RUNTIME and not only_readers)]
    saved_s = _cpu_s(saved) * ROW_ERROR_RATIO
    cheaper = IDLE_RATIO - (IDLE_RATIO - 1) * min(1.0, rate * whole_s)  # as far as not even one CPU is busy
    if whole_s - saved_s > LEAST_LEFT_RATIO * whole_s:
        yield profile.layout.cpus_per_task / (whole_s - saved_s) * cheaper
    for row in profile.ops:
        row_s = row.self_cpu_s_per_sample or 0.0
        if row.is_serial and row.name not in touched and row.kind != RUNTIME and row_s > LEAST_LEFT_RATIO * whole_s:
            yield ROW_ERROR_RATIO / row_s * cheaper
    left_s = 1 / rate - sum(_elapsed_s(row, profile) for row in saved) * ROW_ERROR_RATIO
    if only_readers and left_s > LEAST_LEFT_RATIO / rate:  # it overlaps nothing that did not overlap before
        yield 1 / left_s


def _touched(edit: Edit, ops: Sequence[Op]) -> Iterable[Op]:
    """The ops that an edit takes work from, or does otherwise than on the thread where it was done."""
    op = next((one for one in ops if one.name == edit.op), None)
    if op is None:
        return ops  # nothing is known of it
    if edit.kind == "insert-cache":
        return (*upstream(op, ops), *inside(op, ops), op)
    if edit.kind in ("swap", "vectorize"):
        return (op, *(one for one in ops if one.name in op.inputs or op.name in one.inputs))
    return (op, *inside(op, ops))


def _is_reader_buffer(edit: Edit, ops: Sequence[Op]) -> bool:
    return edit.kind == "set-buffer" and any(op.name == edit.op and op.kind in kinds_with("reads") for op in ops)


def _cpu_s(rows: Iterable[OpCost]) -> float:
    return sum(row.self_cpu_s_per_sample or 0.0 for row in rows)


def _elapsed_s(row: OpCost, profile: Profile) -> float:
    """Time that a sample may spend in an op: what it computes and waits, its calls side by side."""
    calls = max(1.0, row.parallelism or 1.0)
    return (row.self_cpu_s_per_sample or 0.0) / min(calls, profile.layout.cpus_per_task) + (row.wait_s_per_sample or 0.0) / calls


def _by_waiting(case: Case, edits: Sequence[Edit]) -> Iterator[float]:
    """Samples/s that so many reads at a time give, where waiting for reads holds the worker back."""
    slow = bottleneck(case, ("storage latency",))
    for edit in edits:
        op = next((one for one in case.pipeline.ops if one.name == edit.op), None)
        if slow is None or op is None or edit.value is None or not opens_files(op, case.pipeline.ops):
            continue
        now = _reads_now(op, case)
        if now is not None and edit.kind in ("interleave", "set-cycle-length", "set-parallelism", "parallelize"):
            yield slow.samples_per_s * max(1.0, edit.value / now) * ROW_ERROR_RATIO


def _reads_now(op: Op, case: Case) -> float | None:
    """Files that are read at a time; None where it is not known."""
    if op.kind != "ParallelInterleave":
        return 1.0
    written = [value for name in ("cycle_length", "num_parallel_calls") if isinstance(value := op.parameters.get(name), int)]
    row = cost_of(op, case.profile)
    seen = [row.parallelism] if row is not None and row.parallelism else []
    return min((float(value) for value in (*written, *seen) if value > 0), default=None)
