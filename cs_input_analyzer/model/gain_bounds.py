"""The largest possible gain of a fix, by the cost table. A larger measured gain is noise, or not understood. Pure.

A worker with c CPUs gives at most c / D samples/s, D being the CPU time of a sample (bottleneck law). So the rest of D
after a fix bounds its gain (Amdahl's law). A serial op that the fix does not change bounds it by 1 / D of that op.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from cs_input_analyzer.records import RUNTIME, Case, Edit, Op, Profile
from cs_input_analyzer.tfdata.lineage import upstream
from cs_input_analyzer.tfdata.op_traits import to_batch
from cs_input_analyzer.tfdata.threads import inside

# The error of an op's row. A bound that is a little too high declines no true gain.
ROW_ERROR_RATIO = 1.15
# Processes of one pipeline differ by this in cost and rate.
PROCESS_RATIO = 1.05
# A sample costs a worker that mostly waits more than a busy one, because it wakes threads and finds caches cold. The costs of a
# worker that used 8 % of a CPU allowed a gain of 24, and it was 38. A sample may cost a busy worker less by this factor.
IDLE_RATIO = 2.0
# A rest of the CPU time below this share is too small to divide by: a row may be wrong by this share of the whole.
LEAST_LEFT_RATIO = 0.02
# These edits move work side by side, or earlier, and do not change its cost.
_OVERLAPPING = frozenset({"parallelize", "interleave", "set-cycle-length", "insert-prefetch", "use-private-threads"})


def most_gain(case: Case, edits: Sequence[Edit]) -> float | None:
    """Return the largest ratio of rates, edited / original, that the costs allow in workers of the profile's size.

    Return None if the costs set no bound.
    """
    profile = case.profile
    if profile is None or not profile.cpu_s_per_sample:
        return None
    # Of one worker of the profile's size, alone on the host: the low end, as the bound is to be safe.
    alike = [m for m in case.measurements if m.layout.tasks == 1 and m.layout == profile.layout]
    lows = [worker.samples_per_s.low for m in alike for worker in m.measured_workers if worker.samples_per_s]
    rate = min((low for low in lows if low > 0), default=math.inf)
    if rate * profile.cpu_s_per_sample > profile.layout.cpus_per_task * ROW_ERROR_RATIO:
        return None  # no rate is known, or more CPU than there was: these costs are not those of this rate
    limits = list(_by_computing(case, profile, edits, rate))
    return max(1.0, min(limits) / rate) * PROCESS_RATIO if limits else None


def _by_computing(case: Case, profile: Profile, edits: Sequence[Edit], rate: float) -> Iterator[float]:
    """Return the samples/s that the CPUs, and each serial op alone, allow for the work that the edits leave."""
    whole_s = profile.cpu_s_per_sample or 0.0
    touched = {op.name for edit in edits for op in _touched(edit, case.pipeline.ops)}
    lessened = {op.name for edit in edits if edit.kind not in _OVERLAPPING for op in _touched(edit, case.pipeline.ops)}
    # The executor's share goes with calls and hand-overs, of which edits make others.
    saved = [row for row in profile.ops if row.name in lessened or row.kind == RUNTIME]
    saved_s = sum(row.self_cpu_s_per_sample or 0.0 for row in saved) * ROW_ERROR_RATIO
    cheaper = IDLE_RATIO - (IDLE_RATIO - 1) * min(1.0, rate * whole_s)  # as far as not even one CPU is busy
    if whole_s - saved_s > LEAST_LEFT_RATIO * whole_s:
        yield profile.layout.cpus_per_task / (whole_s - saved_s) * cheaper
    # A batch asks for all its elements in one loop: what it reads finds warm caches, as in a worker that is always busy.
    moved = [op for op in case.pipeline.ops for edit in edits if edit.kind == "vectorize" and edit.op == op.name]
    warm = {one.name for op in moved for top in upstream(op, case.pipeline.ops) for one in (top, *inside(top, case.pipeline.ops))}
    for row in profile.ops:
        row_s = row.self_cpu_s_per_sample or 0.0
        if row.is_serial and row.name not in touched and row.kind != RUNTIME and row_s > LEAST_LEFT_RATIO * whole_s:
            yield ROW_ERROR_RATIO / row_s * (IDLE_RATIO if row.name in warm else cheaper)


def _touched(edit: Edit, ops: Sequence[Op]) -> Iterable[Op]:
    """Return the ops that an edit takes work from, or moves to other threads."""
    op = next((one for one in ops if one.name == edit.op), None)
    if op is None:
        return ops  # nothing is known of it
    if edit.kind == "insert-cache":
        return (*upstream(op, ops), *inside(op, ops), op)
    if edit.kind == "vectorize":
        return (op, *(one for one in ops if one.name in op.inputs), *to_batch(op, ops))
    if edit.kind == "swap":
        return (op, *(one for one in ops if one.name in op.inputs or op.name in one.inputs))
    return (op, *inside(op, ops))
