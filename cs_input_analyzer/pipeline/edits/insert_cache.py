"""One more `cache`, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.pipeline.edits import traits
from cs_input_analyzer.pipeline.edits.work import EditError, Work, insert_after, refuse_shuffle, refuse_unrepeatable
from cs_input_analyzer.pipeline.lineage import upstream
from cs_input_analyzer.pipeline.op_kinds import KEEPERS, REPEATS, kind_of
from cs_input_analyzer.pipeline.op_traits import call_number, freezes_only_mixing, method_of
from cs_input_analyzer.pipeline.source.code import with_call_after
from cs_input_analyzer.pipeline.threads import inside
from cs_input_analyzer.records import Edit, Op


def graph(work: Work, edit: Edit) -> None:
    import tensorflow as tf

    body, node = work.find(edit.op)
    if work.places[edit.op].function is not None:
        raise EditError(f"{edit.op} is inside a function: each of its datasets would fill a cache of its own")
    for other in (node, *body.upstream(node)):
        kind = kind_of(other.op)
        if kind in REPEATS and body.argument(other, "count") != 1:
            raise EditError(f"what reaches a cache after {edit.op} is repeated: it would be kept many times, or without end")
        refuse_shuffle(body, edit.op, other)
        endless = traits.endless_inside(work.text, other)
        if endless is not None:
            raise EditError(f"what reaches a cache after {edit.op} is repeated by {endless} inside a function, maybe without end")
        if kind in KEEPERS and other is node:
            raise EditError(f"{edit.op} keeps its elements already")
        refuse_unrepeatable(work, edit.op, other)
    if any(kind_of(other.op) == "Cache" for other in body.downstream(node)):
        raise EditError(f"there is a cache after {edit.op} already")
    empty = body.constant("", tf.string)
    memory = body.tensor(body.add("DummyMemoryCache", ()).name)
    insert_after(body, node, "CacheDatasetV2", [empty, memory])


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """None where the cache would freeze the only mixing that there is."""
    if freezes_only_mixing(op, (*upstream(op, ops), *inside(op, ops), op), ops):
        return None
    return with_call_after(code, method_of(op), "cache()", nth=call_number(op, ops))
