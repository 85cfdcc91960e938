"""Changes in the CPU of ops and in the findings, beyond the differences of equal processes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from cs_input_analyzer.records import (
    Analysis,
    CostDirection,
    Finding,
    FindingChange,
    OpChange,
    OpCost,
)
from cs_input_analyzer.tfdata.folding import first_name, fold_costs, folding_of
from cs_input_analyzer.workflows.changes.rates import RUN_SPREAD_RATIO, Pair, Spread, disturbance_log, pooled

# Assumption: which op a second of CPU belongs to is known to so much of the process's CPU (one standard deviation).
ATTRIBUTION_RATIO = 0.01

Both = tuple[float | None, float | None]


def op_changes(old_run: Analysis, new_run: Analysis, pairs: Sequence[Pair]) -> tuple[OpChange, ...]:
    """Return the process first, then the ops that either run has costs of, the costliest first; empty if a run has no profile.

    Costs depend on the CPUs of a worker: those of profiles of other layouts are shown, and not compared. An op of both pipelines
    may be without a row in one: what runs inside of others is not always seen.
    """
    old, new = old_run.profile, new_run.profile
    if old is None or new is None:
        return ()
    was_there, is_there = ({op.name for op in run.pipeline.ops} for run in (old_run, new_run))
    before, after = (_rows(run) for run in (old_run, new_run))
    costs = {name: (_cost_s(before.get(name)), _cost_s(after.get(name))) for name in before.keys() | after.keys()}
    names = sorted(costs, key=lambda name: (-max(cost or 0.0 for cost in costs[name]), name))
    sides = [[worker.cpu_s_per_sample for m in side for worker in m.workers] for pair in pairs for side in (pair.old, pair.new)]
    spread = pooled([[math.log(cost) for cost in side if cost is not None and cost > 0] for side in sides], 0.0)
    t, is_alike = spread.t(len(names) + 1), old.layout == new.layout
    whole = (old.cpu_s_per_sample, new.cpu_s_per_sample)
    unsure_s = ATTRIBUTION_RATIO * math.hypot(whole[0] or 0.0, whole[1] or 0.0)
    # A host that is busy with other work makes the same work cost more: caches are cold, threads are moved.
    busy = max((disturbance_log(pair) for pair in pairs if pair.layout == old.layout), default=0.0)
    rows = [_row("process", "process", None, whole, _noise_s(whole, spread, t, 0.0, busy) if is_alike else None)]
    for name in names:
        one, other = before.get(name), after.get(name)
        noise_s = _noise_s(costs[name], spread, t, unsure_s, busy) if is_alike else None
        change: CostDirection | None = None
        if one is None and name not in was_there:
            change = "new"
        elif other is None and name not in is_there:
            change = "gone"
        shown = after.get(name, before.get(name))
        assert shown is not None
        rows.append(_row(shown.name, shown.kind, shown.source, costs[name], noise_s, change))
    return tuple(rows)


def _rows(run: Analysis) -> dict[str, OpCost]:
    """Return the rows with a cost by the name of their op; ops that one line made many times are one, by the name of the first."""
    rows = fold_costs(run.profile.ops, folding_of(run.pipeline.ops)) if run.profile is not None else ()
    return {first_name(row.name): row for row in rows if row.self_cpu_s_per_sample is not None}


def _row(
    name: str, kind: str, source: str | None, both: Both, noise_s: float | None, change: CostDirection | None = None
) -> OpChange:
    old, new = both
    if change is None:
        change = "not comparable"
        if old is not None and new is not None and noise_s is not None:
            change = "no difference seen" if abs(new - old) <= noise_s else "dearer" if new > old else "cheaper"
    return OpChange(
        name=name, kind=kind, source=source, old_cpu_s_per_sample=old, new_cpu_s_per_sample=new, noise_s=noise_s, change=change
    )


def _noise_s(both: Both, spread: Spread, t: float, unsure_s: float, busy: float) -> float | None:
    """Return how far the two may lie apart by chance."""
    old, new = both
    if old is None or new is None:
        return None
    relative = math.sqrt(spread.variance + RUN_SPREAD_RATIO**2)
    noise_s = t * math.hypot(relative * old, relative * new, busy * max(old, new), unsure_s)
    return noise_s if math.isfinite(noise_s) else None


def _cost_s(op: OpCost | None) -> float | None:
    return op.self_cpu_s_per_sample if op is not None else None


def finding_changes(old: Sequence[Finding], new: Sequence[Finding]) -> tuple[FindingChange, ...]:
    """Return the findings that only one run has, by code and op, whatever their numbers. New ones come first.

    Of several equal findings, as many count as one run has more.
    """
    appeared = (FindingChange(change="new", finding=finding) for finding in _beyond(old, new))
    vanished = (FindingChange(change="gone", finding=finding) for finding in _beyond(new, old))
    return (*appeared, *vanished)


def _beyond(known: Sequence[Finding], others: Sequence[Finding]) -> list[Finding]:
    left = Counter((finding.code, finding.op) for finding in known)
    found = []
    for finding in others:
        left[finding.code, finding.op] -= 1
        if left[finding.code, finding.op] < 0:
            found.append(finding)
    return found
