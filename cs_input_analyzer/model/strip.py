"""Lay the ops of a pipeline side by side, in the order of the data, with their shares of the CPU. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cs_input_analyzer.records import UNATTRIBUTED, Analysis, OpCost
from cs_input_analyzer.tfdata.folding import fold_costs, fold_ops, folding_of

# Of more blocks, the largest stay and neighbours among the others become one.
MOST_BLOCKS, LARGEST_KEPT = 16, 8
# Waits below this part of the CPU time of a sample are no gap that the eye should find.
LEAST_WAIT_RATIO = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One part of the strip.

    Attributes:
        names: its ops, in order. Several: TensorFlow cannot tell their times apart, or they are small and were joined.
        row: the row of the table of costs that holds its cost.
        source: the user's line.
        share_ratio: of the CPU; None if it is unknown.
        wait_s: time that its threads waited, for one sample; `wait_ratio` is that over the CPU time of a sample.
        is_limit: it limits the pipeline, or takes most of the CPU.
        is_op: False for the CPU of TensorFlow's runtime.
        is_joined: its ops are small, and were joined to save room.
    """

    names: tuple[str, ...]
    row: str
    source: str | None = None
    share_ratio: float | None = None
    wait_s: float | None = None
    wait_ratio: float = 0.0
    is_limit: bool = False
    is_op: bool = True
    is_joined: bool = False


def strip_of(analysis: Analysis) -> tuple[Block, ...]:
    """Return the blocks of the strip in the order of the data; empty if no cost is known."""
    profile = analysis.profile
    if profile is None:
        return ()
    folding = folding_of(analysis.pipeline.ops)
    costs = {row.name: row for row in fold_costs(profile.ops, folding)}
    held: dict[str, list[str]] = {}
    for op in fold_ops(analysis.pipeline.ops, folding):
        if op.name in costs:
            held.setdefault(_holder(op.name, costs), []).append(op.name)
    for row in costs.values():
        if not row.is_op and row.share_ratio:
            held.setdefault(row.name, [])
    blocks = [_block(costs[name], names, costs, profile.cpu_s_per_sample) for name, names in held.items()]
    if not any(block.share_ratio for block in blocks):
        return ()
    first = analysis.stations[0].op if analysis.stations else None
    return _joined(_with_limit(blocks, first and folding.label(first)))


def _holder(name: str, costs: Mapping[str, OpCost]) -> str:
    """Return the row that holds the cost of an op."""
    for _ in costs:  # a run that was made by hand may hold a circle
        row = costs[name]
        if row.merged_into is None or row.merged_into not in costs or row.share_ratio is not None:
            return name
        name = row.merged_into
    return name


def _block(row: OpCost, names: Sequence[str], costs: Mapping[str, OpCost], cpu_s: float | None) -> Block:
    of_row = [costs[name] for name in names] or [row]
    wait_s = max((each.wait_s_per_sample or 0.0 for each in of_row), default=0.0)
    ratio = wait_s / cpu_s if cpu_s else 0.0
    return Block(
        names=tuple(names) or (row.name,),
        row=row.name,
        source=row.source or next((each.source for each in of_row if each.source), None),
        share_ratio=row.share_ratio,
        wait_s=wait_s or None,
        wait_ratio=ratio if ratio >= LEAST_WAIT_RATIO else 0.0,
        is_op=row.is_op or row.name == UNATTRIBUTED,
    )


def _with_limit(blocks: Sequence[Block], limiting: str | None) -> list[Block]:
    """Return the blocks, that with the limiting op marked; else that with the largest share."""
    place = next((at for at, block in enumerate(blocks) if limiting in block.names), None)
    if place is None:
        ops = [at for at, block in enumerate(blocks) if block.is_op]
        place = max(ops, key=lambda at: blocks[at].share_ratio or 0.0, default=None)
    return [replace(block, is_limit=at == place) for at, block in enumerate(blocks)]


def _joined(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return at most about `MOST_BLOCKS` blocks: neighbours among the small ones become one."""
    if len(blocks) <= MOST_BLOCKS:
        return tuple(blocks)
    by_size = sorted(range(len(blocks)), key=lambda at: (not blocks[at].is_limit, -(blocks[at].share_ratio or 0.0)))
    kept, found = set(by_size[:LARGEST_KEPT]), list[Block]()
    for at, block in enumerate(blocks):
        before = found[-1] if found else None
        if at in kept or not block.is_op or before is None or at - 1 in kept or not before.is_op:
            found.append(block)
            continue
        found[-1] = replace(
            before,
            names=before.names + block.names,
            share_ratio=(before.share_ratio or 0.0) + (block.share_ratio or 0.0),
            wait_s=max(before.wait_s or 0.0, block.wait_s or 0.0) or None,
            wait_ratio=max(before.wait_ratio, block.wait_ratio),
            is_joined=True,
        )
    return tuple(found)
