"""A `filter` throws elements away after they have been made at great cost.

What is dropped was read, decoded and resized for nothing. A condition on what stands in the record (a label, a size, a name) can be
tested before the costly part.

Fix: filter first. The analyzer can do that where the condition looks only at what the map passes on as it is; it shows your code
changed where both are lambdas that take and give the same things in the same places, as your condition gets what the map was given.
Where it needs part of what the map makes, split the map: parse what the condition needs, filter, then decode. Better still, write
the dataset without what is never used.

Silent where the maps before it are cheap, where it drops under a tenth, and where a batch stands between: then it is batches that
are filtered.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from cs_input_analyzer.pipeline.op_kinds import BATCHING
from cs_input_analyzer.pipeline.op_traits import chain_before, cost_of, is_costly, is_map
from cs_input_analyzer.planning.evidence import share_of
from cs_input_analyzer.records import Case, Edit, Finding, Op

COSTLY_RATIO = 0.2
DROPPED_RATIO = 0.1
# From this share of the CPU time on the waste is worth a warning.
WASTED_RATIO = 0.1


def find(case: Case) -> Iterator[Finding]:
    for op in case.pipeline.ops:
        if op.kind not in ("Filter", "ParallelFilter"):
            continue
        maps = _maps_before(op, case)
        share = share_of(case, maps)
        if not maps or (share < COSTLY_RATIO if share is not None else not any(is_costly(one) for one in maps)):
            continue
        dropped = _dropped(op, maps[0], case)
        if dropped is not None and dropped < DROPPED_RATIO:
            continue
        wasted = share * dropped if share is not None and dropped is not None else None
        neighbours = list(takewhile(is_map, chain_before(op, case.pipeline.ops)))
        names = " and ".join(one.name for one in reversed(maps))
        how_many = f" {dropped:.0%} of the elements" if dropped is not None else " elements"
        yield Finding(
            severity="warning" if wasted is not None and wasted >= WASTED_RATIO else "info",
            message=f"{op.name} drops{how_many} after {names} worked on them",
            op=op.name,
            evidence={"dropped_ratio": dropped, "maps_share_ratio": share, "wasted_ratio": wasted},
            fix="test what the record itself tells before the costly map, in a filter of its own",
            edits=tuple(Edit(kind="swap", op=op.name) for _ in neighbours),
        )


def _maps_before(op: Op, case: Case) -> tuple[Op, ...]:
    """The maps that an element passes right before the filter, the last one first; none beyond a batch."""
    found = []
    for other in chain_before(op, case.pipeline.ops):
        if other.kind in BATCHING or other.kind == "Unbatch":
            break
        if is_map(other):
            found.append(other)
    return tuple(found)


def _dropped(op: Op, last_map: Op, case: Case) -> float | None:
    kept, given = cost_of(op, case.profile), cost_of(last_map, case.profile)
    if kept is None or given is None or not kept.elements_per_sample or not given.elements_per_sample:
        return None
    return max(0.0, 1 - kept.elements_per_sample / given.elements_per_sample)
