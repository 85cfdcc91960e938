"""One more `prefetch`."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.pipeline.edits.statement import number_text
from cs_input_analyzer.pipeline.edits.work import EditError, Work, insert_after, number_of
from cs_input_analyzer.pipeline.op_kinds import kind_of
from cs_input_analyzer.pipeline.op_traits import call_number, method_of
from cs_input_analyzer.pipeline.source.code import with_call_after
from cs_input_analyzer.records import Edit, Op


def graph(work: Work, edit: Edit) -> None:
    import tensorflow as tf

    body, node = work.find(edit.op)
    if any(kind_of(other.op) == "Prefetch" for other in (node, *body.readers_of(node.name))):
        raise EditError(f"there is a prefetch after {edit.op} already")
    insert_after(body, node, "PrefetchDataset", [body.constant(number_of(edit), tf.int64)])


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    return with_call_after(code, method_of(op), f"prefetch({number_text(edit)})", nth=call_number(op, ops))
