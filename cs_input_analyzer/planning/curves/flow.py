"""What flows along the edges of the pipeline, and which way the samples take that wait for its bottleneck."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cs_input_analyzer.records import Analysis, Op, OpCost

__all__ = ["FlowRow", "bottleneck_op", "flow_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRow:
    """One op of the pipeline, in the order in which elements pass.

    Attributes:
        lane: which of the strands that run beside each other it is on, 0 the main one.
        lanes: strands that pass this row, its own among them.
        merges: strands that end in this op.
        depth: how many functions of other ops (`interleave`, `flat_map`) it is inside.
        elements_per_s, bytes_per_s: what leaves it, in the worker that was profiled; None where not measured.
        is_bottleneck: it holds the worker back; `waits_for_it`: what it gives passes here, so this runs at its pace.
    """

    op: Op
    cost: OpCost | None
    lane: int
    lanes: tuple[int, ...]
    merges: tuple[int, ...]
    depth: int
    elements_per_s: float | None
    bytes_per_s: float | None
    is_bottleneck: bool
    waits_for_it: bool


def bottleneck_op(analysis: Analysis) -> str | None:
    """The op that holds the worker back: the first station that is one, where it is the first; else the op with the most CPU time.
    None where neither is known."""
    names = {op.name for op in analysis.pipeline.ops}
    first = analysis.stations[0] if analysis.stations else None
    if first is not None and first.op in names:
        return first.op
    costs = [] if analysis.profile is None else [op for op in analysis.profile.ops if op.is_op and op.name in names]
    known = [(op.self_cpu_s_per_sample, op.name) for op in costs if op.self_cpu_s_per_sample is not None]
    return max(known)[1] if known else None


def flow_rows(analysis: Analysis) -> tuple[FlowRow, ...]:
    """Every op, sources first. A circle or an input that is nowhere (an edited file) is left aside."""
    ops = {op.name: op for op in analysis.pipeline.ops}
    costs = {op.name: op for op in analysis.profile.ops} if analysis.profile is not None else {}
    rate = _profiled_rate(analysis)
    bottleneck = bottleneck_op(analysis)
    waiting = {bottleneck}
    open_lanes: dict[str, int] = {}
    rows = []
    for op in analysis.pipeline.ops:
        feeding = _feeding(op, ops, open_lanes)
        taken = sorted(open_lanes.pop(name) for name in feeding)
        lane = taken[0] if taken else _free(set(open_lanes.values()))
        passing = {lane, *taken, *open_lanes.values()}
        open_lanes[op.name] = lane
        waits = op.name != bottleneck and any(name in waiting for name in feeding)
        if waits:
            waiting.add(op.name)
        cost = costs.get(op.name)
        elements = _product(cost.elements_per_sample if cost else None, rate)
        rows.append(
            FlowRow(
                op=op,
                cost=cost,
                lane=lane,
                lanes=tuple(sorted(passing)),
                merges=tuple(other for other in taken if other != lane),
                depth=_depth(op, ops),
                elements_per_s=elements,
                # Bytes of an op are counted for each sample that leaves the pipeline, as its elements are.
                bytes_per_s=_product(cost.bytes_out_per_sample if cost else None, rate),
                is_bottleneck=op.name == bottleneck,
                waits_for_it=waits,
            )
        )
    return tuple(rows)


def _feeding(op: Op, ops: dict[str, Op], open_lanes: dict[str, int]) -> list[str]:
    """Ops whose strand ends here: its inputs, and the last ones of its own function."""
    inside = [name for name in open_lanes if ops[name].within == op.name]
    return [*dict.fromkeys([name for name in op.inputs if name in open_lanes] + inside)]


def _free(taken: set[int]) -> int:
    return next(lane for lane in range(len(taken) + 1) if lane not in taken)


def _depth(op: Op, ops: dict[str, Op]) -> int:
    depth = 0
    while op.within in ops and depth < len(ops):
        op, depth = ops[op.within], depth + 1
    return depth


def _profiled_rate(analysis: Analysis) -> float | None:
    """Samples per second of one worker of the layout that was profiled."""
    profile = analysis.profile
    if profile is None:
        return None
    rates = [
        worker.samples_per_s.estimate
        for measurement in analysis.measurements
        if measurement.layout == profile.layout and measurement.role == "probe"
        for worker in measurement.workers
        if worker.samples_per_s is not None
    ]
    return sum(rates) / len(rates) if rates else None


def _product(one: float | None, other: float | None) -> float | None:
    product = None if one is None or other is None else one * other
    # An edited run may hold numbers whose product is none.
    return product if product is not None and math.isfinite(product) else None
