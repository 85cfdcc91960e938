"""Compute how many elements each op gives for one sample of the output (visit ratios, forced-flow law), and its cost.

The model of a running iterator shows only live nodes. Nodes that `repeat` and `interleave` removed between two polls are lost with
their time *and* their count. So time over count is unbiased, and a sum of times is not. The cost per sample is that quotient times
the visit ratio. The ratio follows from the kinds of the ops or, if they do not tell (filter, the files of an interleave), from the
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.lineage import downstream
from cs_input_analyzer.tfdata.op_kinds import BATCHING, JOINS, KEEPERS, ONE_FOR_ONE
from cs_input_analyzer.tfdata.threads import results_of

# They let the op inside skip elements.
_SKIPS_INSIDE = ("FlatMap", "Interleave")


@dataclass(slots=True)
class OpCounts:
    """Hold the counts that polls saw of one op's nodes.

    Attributes:
        head: the op nearest the consumer that they stand for. Its elements are counted: a fused map-and-batch counts batches.
        merged: other ops whose work they do.
        absent: ops before it that TensorFlow left out.
    """

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
    """Hold one op's share of one output sample. `wall_s` is thread time, waiting included; None if no element of it was seen."""

    wall_s: float | None
    elements: float | None
    bytes_in: float | None
    bytes_out: float | None


def visit_ratios(
    ops: Sequence[Op], seen: Mapping[str, OpCounts], elements_per_sample: float, *, fill_ratio: float = 1.0
) -> dict[str, float]:
    """Return the elements of each op for one output sample.

    Args:
        seen: used if the kind of an op does not decide.
        elements_per_sample: of the last op.
        fill_ratio: samples of a mean last element over those of a full one.
    """
    partial = next((op.name for op in reversed(ops) if op.kind in BATCHING and op.parameters.get("drop_remainder") is False), None)
    ratios: dict[str, float] = {}
    heads = _by_head(seen, ops)
    top = [op for op in ops if op.within is None]
    if top:
        ratios[top[-1].name] = elements_per_sample
    for op in reversed(ops):
        ratio = ratios.get(op.name)
        if ratio is None:
            continue
        results = results_of(op, ops)
        for name in op.inputs:
            known = _taken(op, name, heads, has_nested=bool(results))
            # An interleave takes few files; anything else is taken as one for one.
            taken = (known if known is not None else 0.0 if results else 1.0) * (fill_ratio if op.name == partial else 1.0)
            ratios[name] = ratios.get(name, 0.0) + ratio * taken
        ratios |= {other.name: ratio for other in results}  # their elements are the op's own
    return ratios


# An op amid its first records has given a part of their elements. After this many records that makes little difference.
LEAST_COUNTED = 10


def is_counted(op: Op, ops: Sequence[Op], seen: Mapping[str, OpCounts]) -> bool:
    """Return whether the elements of `op` for one output element are known.

    The kinds of all ops behind it tell how many they take, or ten or more of their elements were counted.
    """
    heads, behind = _by_head(seen, ops), downstream(op, ops)
    passed = {op.name, *(other.name for other in behind)}
    for other in behind:
        results = results_of(other, ops)
        for name in passed.intersection(other.inputs):
            if other.kind in JOINS:
                continue
            if _taken(other, name, heads, has_nested=bool(results)) is None:
                return False
            is_told = _taken(other, name, {}, has_nested=bool(results)) is not None
            if not is_told and any(heads[one].elements < LEAST_COUNTED for one in (other.name, name) if one in heads):
                return False
    return True


def records_per_sample(
    ops: Sequence[Op], seen: Mapping[str, OpCounts], ratios: Mapping[str, float], readers: Sequence[Op]
) -> float | None:
    """Return the elements of the readers, as they run alone, for one sample of the output: a `zip` of readers gives one for all.

    Return None if the elements of the ops behind them were not counted.
    """
    by_name, names = {op.name: op for op in ops}, {op.name for op in readers}
    alone: list[Op] = []  # a reader before another one is not among these

    def records(op: Op) -> list[float]:
        if op.name in names:
            alone.append(op)
            return [ratios.get(op.name, 0.0) * passed_ratio(op, ops, seen)]
        before = [found for name in op.inputs if name in by_name for found in records(by_name[name])]
        found = [*before, *(found for one in results_of(op, ops) for found in records(one))]
        return [max(found)] if found and op.kind == "Zip" else found

    top = [op for op in ops if op.within is None]
    found = sum(records(top[-1])) if top else 0.0
    return found if found > 0 and all(is_counted(op, ops, seen) for op in alone) else None


def passed_ratio(reader: Op, ops: Sequence[Op], seen: Mapping[str, OpCounts]) -> float:
    """Return the records that a reader passes for each that is counted: 8 before `shard(8, 0)`, 1 before other ops.

    A `shard` right behind a reader lets it skip the other records, and TensorFlow does not count these.
    """
    op, by_name = reader, {other.name: other for other in ops}
    behind = [other for other in ops if op.name in other.inputs]
    while not behind and op.within in by_name and by_name[op.within].kind in _SKIPS_INSIDE:
        op = by_name[op.within]
        behind = [other for other in ops if op.name in other.inputs]
    shards = behind[0].parameters.get("num_shards") if len(behind) == 1 and behind[0].kind == "Shard" else None
    if not isinstance(shards, int):
        return 1.0
    counted = _taken(behind[0], op.name, _by_head(seen, ops), has_nested=False)
    return max(1.0, shards / counted) if counted else 1.0


# Fewer of an op's elements are no fair sample of them.
FEW_RATIO = 0.01


def well_seen(seen: Mapping[str, OpCounts], ratios: Mapping[str, float], samples: float) -> dict[str, OpCounts]:
    """Return the ops of whose elements at least a hundredth were seen, out of those for this number of samples.

    A shuffle that reads its whole input in a moment leaves only a few elements to the polls, each with the cost of hundreds.
    """
    return {name: counts for name, counts in seen.items() if counts.elements > FEW_RATIO * ratios.get(counts.head, 0.0) * samples}


def per_sample(seen: Mapping[str, OpCounts], ratios: Mapping[str, float]) -> dict[str, PerSample]:
    """Return the share of each op in one output sample, by its visit ratio. For an unseen op only elements are known."""
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


def _by_head(seen: Mapping[str, OpCounts], ops: Sequence[Op]) -> dict[str, OpCounts]:
    """Return the counts by the op whose elements were counted. One that TensorFlow left out gives as many as its input."""
    heads = {counts.head: counts for counts in seen.values()}
    for op in ops:
        below = heads.get(op.inputs[0]) if len(op.inputs) == 1 else None
        if below is not None and op.kind in ONE_FOR_ONE - KEEPERS:
            heads.setdefault(op.name, below)
    return heads


def _taken(op: Op, name: str, seen: Mapping[str, OpCounts], *, has_nested: bool) -> float | None:
    """Return the elements of input `name` that `op` takes for each one it gives; None if neither kind nor counts tell."""
    if op.kind in JOINS:
        joined = op.inputs[1:] if op.kind == "DirectedInterleave" else op.inputs
        if name not in joined:
            return 1.0  # it says which of the others is next
        given = {one: seen[one].elements if one in seen else 0 for one in joined}
        return given[name] / sum(given.values()) if sum(given.values()) > 0 else 1 / len(joined)
    if op.kind in ONE_FOR_ONE - KEEPERS and not has_nested:
        return 1.0
    size = op.parameters.get("batch_size")
    if op.kind in BATCHING and isinstance(size, int) and size > 0:
        return float(size)
    own, below = seen.get(op.name), seen.get(name)
    if op.kind in KEEPERS and seen and (below is None or (own is not None and own.elements > 0)):  # full, it takes none
        return below.elements / own.elements if below is not None and own is not None else 0.0
    if own is None or below is None or own.elements <= 0:
        return None
    return below.elements / own.elements
