"""Group the ops that one call of the user makes: in a loop, or in a function that is called several times."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cs_input_analyzer.records import Op, OpCost

# Fewer ops of one call stay as they are: each has a row of its own.
LEAST_ALIKE = 8
_TIMES = " ×"


def call_of(op: Op) -> Hashable:
    """Return the same value for all ops of one call of the user. Return the op's name if its statement is not known."""
    return (op.source, op.kind, op.code, op.function_ops) if op.code else op.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """Hold the groups of a pipeline.

    Attributes:
        groups: the ops of each group, in the order of the pipeline, by the name of the first.
        firsts: the name of the first op of its group, by the name of each op that is in a group.
    """

    groups: Mapping[str, tuple[Op, ...]]
    firsts: Mapping[str, str]

    def label(self, name: str) -> str:
        """Return `map ×150` for an op of a group; for any other op or row its name."""
        first = self.firsts.get(name)
        return name if first is None else f"{first}{_TIMES}{len(self.groups[first])}"


def first_name(label: str) -> str:
    """Return the name of the first op of a group from its label."""
    return label.partition(_TIMES)[0]


def folding_of(ops: Sequence[Op]) -> Folding:
    """Return the groups of at least `LEAST_ALIKE` ops: same line, kind and calls, parameters of the same names, same depth."""
    holders, found = {op.name: op.within for op in ops}, dict[Hashable, list[Op]]()
    for op in ops:
        depth, holder = 0, op.within
        while holder in holders and depth < len(ops):  # a run that was made by hand may hold a circle
            depth, holder = depth + 1, holders[holder]
        if op.source is not None:
            made_by = (op.source, op.library_source, op.kind, op.function_ops)
            found.setdefault((*made_by, frozenset(op.parameters), depth), []).append(op)
    groups = {alike[0].name: tuple(alike) for alike in found.values() if len(alike) >= LEAST_ALIKE}
    return Folding(groups=groups, firsts={op.name: first for first, alike in groups.items() for op in alike})


def joint_of(ops: Sequence[Op]) -> Op | None:
    """Return the last op at the top that joins similar branches: itself or its inputs are a group. Return None without one."""
    folding = folding_of(ops)
    joins = [op for op in ops if op.within is None and len(op.inputs) > 1]
    found = [op for op in joins if op.name in folding.firsts or sum(name in folding.firsts for name in op.inputs) >= LEAST_ALIKE]
    return found[-1] if found else None


def costliest(members: Sequence[Op], seconds: Mapping[str, float]) -> Op:
    """Return the op with most of the time. Count the ops of a group together, then choose the costliest of the group."""
    firsts, of_group = folding_of(members).firsts, dict[str, float]()
    for op in members:
        first = firsts.get(op.name, op.name)
        of_group[first] = of_group.get(first, 0.0) + seconds.get(op.name, 0.0)
    return max(members, key=lambda op: (of_group[firsts.get(op.name, op.name)], seconds.get(op.name, 0.0)))


def fold_ops(ops: Sequence[Op], folding: Folding) -> tuple[Op, ...]:
    """Return one op for each group, in the place of its first; parameters that differ in the group are left out."""
    folded = []
    for op in ops:
        if folding.firsts.get(op.name, op.name) != op.name:
            continue
        alike, label = folding.groups.get(op.name, (op,)), folding.label(op.name)
        inputs = dict.fromkeys(folding.label(name) for one in alike for name in one.inputs)
        shared = {key: value for key, value in op.parameters.items() if all(one.parameters.get(key) == value for one in alike)}
        folded.append(
            replace(
                op,
                name=label,
                inputs=tuple(name for name in inputs if name != label),
                within=op.within and folding.label(op.within),
                parameters=shared,
                constant_bytes=sum(one.constant_bytes for one in alike),
            )
        )
    return tuple(folded)


def fold_costs(rows: Sequence[OpCost], folding: Folding) -> tuple[OpCost, ...]:
    """Return one row for each group, in the place of its first: the sums of the costs, elements and bytes of its ops.

    A group may have both a cost and `merged_into`: the cost of some of its ops is in another row.
    """
    members: dict[str, list[OpCost]] = {}
    for row in rows:
        members.setdefault(folding.label(row.name), []).append(row)
    return tuple(_folded_cost(label, alike, folding) for label, alike in members.items())


def _folded_cost(label: str, alike: Sequence[OpCost], folding: Folding) -> OpCost:
    cpu_s, parallel = _sum(row.self_cpu_s_per_sample for row in alike), [row.parallelism for row in alike if row.parallelism]
    held_by = {folding.label(row.merged_into): None for row in alike if row.merged_into is not None}
    serial = {row.is_serial for row in alike} - {None}
    if len(alike) == 1:
        return replace(alike[0], merged_into=next(iter(held_by), None))
    return replace(
        alike[0],
        name=label,
        self_cpu_s_per_sample=cpu_s,
        told_apart_cpu_s_per_sample=_sum(row.told_apart_cpu_s_per_sample for row in alike),
        wait_s_per_sample=_sum(row.wait_s_per_sample for row in alike),
        share_ratio=_sum(row.share_ratio for row in alike),
        parallelism=max(parallel, default=None),
        elements_per_sample=_sum(row.elements_per_sample for row in alike),
        bytes_in_per_sample=_sum(row.bytes_in_per_sample for row in alike),
        bytes_out_per_sample=_sum(row.bytes_out_per_sample for row in alike),
        buffered_elements=_sum(row.buffered_elements for row in alike),
        is_serial=all(serial) if serial else None,
        merged_into=next((name for name in held_by if name != label), None),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
