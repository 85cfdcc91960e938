"""A `cache` that never becomes complete, or that stands before the costly work it could save.

A cache in memory is used from the moment on at which its input has ended. Behind an endless `repeat` that moment never comes: the
cache grows with every pass and gives nothing back. Before a `take` it does not come either, as nobody asks for the rest; TensorFlow
throws the partial cache away and begins anew in each pass. And where it stands right after the reading, each pass decodes again.

Fix: `cache` before `repeat` (which freezes the order of the first pass: the finding says where nothing else mixes), after `take`,
and after the last costly op that always gives the same.

Silent where the cache sees its input end (behind a `repeat`, too, of which a `take` or a shorter input of a `zip` leaves a part),
where the maps after it are cheap or draw random numbers without decoding anything, and where what they make does not fit into
memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import downstream, upstream, without_end
from cs_input_analyzer.pipeline.op_kinds import SHUFFLES
from cs_input_analyzer.pipeline.op_traits import (
    chain_before,
    decodes,
    draws,
    freezing,
    gives_another_order,
    is_costly,
    is_map,
)
from cs_input_analyzer.planning.evidence import cache_bytes_per_node, free_bytes_per_node, share_of
from cs_input_analyzer.records import Case, Edit, Finding, Op, Severity

COSTLY_RATIO = 0.2
MEMORY_RATIO = 0.5


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    without = without_end(ops)
    for cache in ops:
        if cache.kind != "Cache" or cache.within is not None:
            continue
        endless = without.get(cache.name)
        if endless is not None:
            message = f"{cache.name} never sees the end of {endless.name}: it only grows, and is never read"
            frozen = [op for op in upstream(cache, ops) if gives_another_order(op, ops)]
            is_mixed = any(op.kind in SHUFFLES for op in downstream(cache, ops))
            fix = f"put the cache before {endless.name}{freezing(frozen, is_mixed)}"
            yield _finding(cache, endless, "warning", message, fix, (endless, cache), case)
            continue
        take = _take_after(cache, ops)
        if take is not None:
            severity: Severity = "warning" if case.pipeline.is_infinite else "info"
            message = f"{take.name} stops before {cache.name} is complete, so each pass begins it anew"
            yield _finding(cache, take, severity, message, f"put the cache after {take.name}", (cache, take), case)
            continue
        yield from _too_early(cache, case)


def _take_after(cache: Op, ops: tuple[Op, ...]) -> Op | None:
    """A `take` behind the cache; one behind a `repeat` takes from several passes, of which the first completes the cache."""
    for op in downstream(cache, ops):
        if op.kind == "Repeat":
            return None
        if op.kind == "Take" and op.within is None and (op.parameters.get("count") or 0) != -1:
            return op
    return None


def _too_early(cache: Op, case: Case) -> Iterator[Finding]:
    for op in downstream(cache, case.pipeline.ops):
        is_random = draws(op)
        if not is_map(op) or op.within is not None or (is_random and not decodes(op)):
            continue
        share, need = share_of(case, (op,)), cache_bytes_per_node(case, op) or 0.0
        is_cheap = share < COSTLY_RATIO if share is not None else not is_costly(op)
        if is_cheap or need > MEMORY_RATIO * free_bytes_per_node(case):
            continue
        message = f"{op.name} works after {cache.name}, so each pass does it again" + (", random or not" if is_random else "")
        fix = "split what it decodes from what is random, and put the cache between them" if is_random else "put the cache after it"
        swapped = () if is_random else (cache, op)
        yield _finding(cache, op, "warning" if share is not None and not is_random else "info", message, fix, swapped, case)
        return


def _finding(cache: Op, other: Op, severity: Severity, message: str, fix: str, swapped: tuple[Op, ...], case: Case) -> Finding:
    """`swapped`: the two ops in the order of the pipeline that should change places; an edit only where they are neighbours."""
    is_near = len(swapped) == 2 and next(iter(chain_before(swapped[1], case.pipeline.ops)), None) == swapped[0]
    share = share_of(case, (other,)) if is_map(other) else None
    return Finding(
        severity=severity,
        message=message,
        op=cache.name,
        evidence={"other_op": other.name, "share_ratio": share},
        fix=fix,
        edits=(Edit(kind="swap", op=swapped[1].name),) if is_near else (),
    )
