"""Every pass reads and decodes the same data again, though the result would fit into memory.

What does not change from pass to pass (reading, parsing, decoding, resizing) can be done once: `cache()` keeps the elements of the
first pass in the memory of the worker, and later passes take them from there.

Fix: `.cache()` after the last op whose result is always the same, before anything random and before `repeat`. The message says how
much memory that takes on each node: elements as they are at that place, once for each worker. A cache freezes the order of its
first pass: a shuffle of file names before it, or files read in no order, then mix once and never again. Where no shuffle follows,
no change of your code is shown, as it would take the only mixing there is.

Silent without a measurement, in evaluation, where a cache or snapshot is there, where nothing costly comes before the first random
op (reading alone counts only where the storage holds the worker back: the page cache keeps files as well), where the data are read
once, or what is read inside an `interleave` is repeated without end, where a shuffle is followed by a `take` that would keep the
cache from becoming complete, and where the data take more than half of what the plan leaves of a node's memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import downstream, reads_names_only, upstream, without_end
from cs_input_analyzer.pipeline.op_kinds import KEEPERS, REPEATS, SHUFFLES, WRITERS
from cs_input_analyzer.pipeline.op_traits import draws, freezing, gives_another_order, is_map
from cs_input_analyzer.pipeline.threads import inside, reader_ops
from cs_input_analyzer.planning.evidence import bottleneck, cache_bytes_per_node, free_bytes_per_node, share_of
from cs_input_analyzer.records import Case, Edit, Finding, Op
from cs_input_analyzer.units import format_bytes

# Maps that take this share of the CPU time are worth doing once.
COSTLY_RATIO = 0.2
LARGE_RATIO = 0.4
MEMORY_RATIO = 0.5
_CACHES = KEEPERS | WRITERS | {"Load"}


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    is_reread = case.pipeline.is_infinite or any(op.kind == "Repeat" for op in ops)
    if case.mode == "eval" or case.profile is None or not is_reread or any(op.kind in _CACHES for op in ops):
        return
    op = _last_unchanging(ops)
    up_to_here = (*upstream(op, ops), *inside(op, ops), op) if op is not None else ()
    if op is None or not reader_ops(up_to_here):
        return
    saved = share_of(case, up_to_here)
    maps = share_of(case, [one for one in up_to_here if is_map(one)]) or 0.0
    is_slow = bottleneck(case, ("storage bandwidth", "storage latency")) is not None
    need, room = cache_bytes_per_node(case, op), free_bytes_per_node(case)
    if need is None or need > MEMORY_RATIO * room or (maps < COSTLY_RATIO and not is_slow):
        return
    frozen = [one for one in up_to_here if gives_another_order(one, ops)]
    is_mixed = any(one.kind in SHUFFLES for one in downstream(op, ops))
    yield Finding(
        severity="warning" if is_slow or (saved or 0.0) >= LARGE_RATIO else "info",
        message=f"every pass does again all up to {op.name}; its result would take {format_bytes(need)} of a node's memory",
        op=op.name,
        evidence={"saved_share_ratio": saved, "cache_bytes_per_node": round(need), "free_bytes_per_node": round(room)},
        fix=f"put .cache() after {op.name}{freezing(frozen, is_mixed)}",
        edits=(Edit(kind="insert-cache", op=op.name),),
    )


def _last_unchanging(ops: tuple[Op, ...]) -> Op | None:
    """The last op at the top up to which every pass gives the same elements; None where there is no end of a pass to see."""
    last, endless = None, without_end(ops)
    for op in ops:
        is_of_names = reads_names_only(op, ops) and not is_map(op) and not reader_ops((*inside(op, ops), op))
        if op.within is not None or is_of_names:
            if op.kind == "Repeat" and op.within is None:  # of file names: what is read never ends
                return None
            continue
        is_changing = op.kind in SHUFFLES | REPEATS or any(draws(one) for one in (op, *upstream(op, ops)))
        if is_changing or op.name in endless:
            break
        if op.kind not in ("Prefetch", "Options"):
            last = op
    return None if last is None or _is_cut_short(last, ops) else last


def _is_cut_short(op: Op, ops: tuple[Op, ...]) -> bool:
    """Whether something behind it stops asking before it has ended: a cache there would never become complete."""
    for other in downstream(op, ops):
        if other.kind == "Repeat":
            return False
        is_part = other.kind in ("TakeWhile", "Zip") or (other.kind == "Take" and other.parameters.get("count") != -1)
        if other.within is None and is_part:
            return True
    return False
