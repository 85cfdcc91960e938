"""How many elements each op gives for one sample of the output (visit ratios, forced-flow law), and what that says of its cost.

The model of a running iterator shows only live nodes: what `repeat` and `interleave` threw away between two polls is lost with its
time *and* its count. So time over count is unbiased where a sum of times is not; the cost per sample is that times the visit ratio,
which follows from what the ops are, or, where they do not tell (filter, the files of an interleave), from the counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from cs_input_analyzer.pipeline.op_kinds import BATCHING, KEEPERS, ONE_FOR_ONE
from cs_input_analyzer.pipeline.threads import results_of
from cs_input_analyzer.records import Op


@dataclass(slots=True)
class OpCounts:
    """What the polls counted of one op's nodes. `head`: the op nearest the consumer that they stand for, whose elements are counted
    (a fused map-and-batch counts batches); `merged`: other ops whose work they do; `absent`: ops before it that TensorFlow left
    out."""

    head: str
    merged: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    wall_s: float = 0.0
    elements: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    buffered_elements: int = 0
    buffered_bytes: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the fields. `asdict` copies deeply, which costs a millisecond for a long pipeline."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PerSample:
    """One op's share of one output sample. `wall_s` is thread time, waiting included; None where no element of it was seen."""

    wall_s: float | None
    elements: float | None
    bytes_in: float | None
    bytes_out: float | None


def visit_ratios(
    ops: Sequence[Op], seen: Mapping[str, OpCounts], elements_per_sample: float, *, fill_ratio: float = 1.0
) -> dict[str, float]:
    """Elements of each op for one output sample. `seen` is used where the kind of an op does not decide it; `elements_per_sample`:
    of the last op; `fill_ratio`: samples of a mean last element over those of a full one."""
    given = {counts.head: counts for counts in seen.values()}  # a node counts the elements of the op nearest the consumer
    partial = next((op.name for op in reversed(ops) if op.kind in BATCHING and op.parameters.get("drop_remainder") is False), None)
    ratios: dict[str, float] = {}
    top = [op for op in ops if op.within is None]
    if top:
        ratios[top[-1].name] = elements_per_sample
    for op in reversed(ops):
        ratio = ratios.get(op.name)
        if ratio is None:
            continue
        results = results_of(op, ops)
        for name in op.inputs:
            taken = _taken(op, name, given, has_nested=bool(results)) * (fill_ratio if op.name == partial else 1.0)
            ratios[name] = ratios.get(name, 0.0) + ratio * taken
        ratios |= {other.name: ratio for other in results}  # their elements are the op's own
    return ratios


# Fewer of an op's elements are no fair sample of them.
FEW_RATIO = 0.01


def well_seen(seen: Mapping[str, OpCounts], ratios: Mapping[str, float], samples: float) -> dict[str, OpCounts]:
    """The ops of whose elements a hundredth or more were seen, of those that `samples` samples took. A shuffle that reads its whole
    input in a moment leaves to the polls a few elements, each with the cost of hundreds."""
    return {name: counts for name, counts in seen.items() if counts.elements > FEW_RATIO * ratios.get(counts.head, 0.0) * samples}


def per_sample(seen: Mapping[str, OpCounts], ratios: Mapping[str, float]) -> dict[str, PerSample]:
    """What each op spends on one output sample, by its visit ratio; of one that was not seen, only its elements are known."""
    found = {}
    for name in {**ratios, **seen}:
        counts = seen.get(name)
        visits = ratios.get(counts.head) if counts is not None else None
        if counts is None or visits is None or counts.elements <= 0:
            found[name] = PerSample(wall_s=None, elements=ratios.get(name), bytes_in=None, bytes_out=None)
            continue
        share = visits / counts.elements
        found[name] = PerSample(
            wall_s=counts.wall_s * share,
            elements=ratios.get(name),
            bytes_in=counts.bytes_in * share,
            bytes_out=counts.bytes_out * share,
        )
    return found


def _taken(op: Op, name: str, given: Mapping[str, OpCounts], *, has_nested: bool) -> float:
    """Elements of input `name` that `op` takes for each one it gives. `given`: counts by the op whose elements they are."""
    if op.kind in ONE_FOR_ONE - KEEPERS and not has_nested:
        return 1.0
    size = op.parameters.get("batch_size")
    if op.kind in BATCHING and isinstance(size, int) and size > 0:
        return float(size)
    own, below = given.get(op.name), given.get(name)
    if op.kind in KEEPERS and given and (below is None or (own is not None and own.elements > 0)):  # full, it takes none
        return below.elements / own.elements if below is not None and own is not None else 0.0
    if own is None or below is None or own.elements <= 0:
        return 0.0 if has_nested else 1.0  # an interleave takes few files; anything else is taken as one for one
    return below.elements / own.elements
