"""Another number of inputs that an interleave reads in turn."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.pipeline.edits.statement import number_text, with_reads
from cs_input_analyzer.pipeline.edits.work import ORDER_IS_PROMISED, EditError, Work, number_of, refuse_state, set_number
from cs_input_analyzer.pipeline.op_kinds import INTERLEAVES, kind_of
from cs_input_analyzer.pipeline.op_traits import call_number, is_made_by_reader
from cs_input_analyzer.pipeline.source.code import with_argument
from cs_input_analyzer.records import Edit, Op


def graph(work: Work, edit: Edit) -> None:
    body, node = work.find(edit.op)
    if kind_of(node.op) not in INTERLEAVES:
        raise EditError(f"{edit.op} has no cycle length")
    if not work.order_is_moot(body, node):
        raise EditError(ORDER_IS_PROMISED.format(edit.op))
    if edit.value is None and node.op.startswith("Legacy"):
        raise EditError(f"{edit.op} reads a given number of files at once, which TensorFlow cannot tune")
    refuse_state(work, edit.op, node, "run for other inputs at a time")
    parallel = body.argument(node, "num_parallel_calls")
    if parallel is not None and edit.value is not None and parallel > edit.value:
        raise EditError(f"{edit.op} makes {parallel} calls at once: it must open as many inputs")
    set_number(body, node, "cycle_length", number_of(edit))


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    if is_made_by_reader(op, ops):
        return with_reads(code, op, ops, number_text(edit))
    return with_argument(code, "interleave", "cycle_length", number_text(edit), nth=call_number(op, ops))
