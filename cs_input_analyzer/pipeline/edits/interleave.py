"""A `flat_map` becomes an `interleave`, which opens its inputs ahead, and several at a time where their order is moot."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.pipeline.edits.statement import number_text, with_reads
from cs_input_analyzer.pipeline.edits.work import (
    FUNCTION_KEPT,
    ORDER_IS_PROMISED,
    EditError,
    Work,
    become,
    inputs_with,
    number_of,
    refuse_state,
)
from cs_input_analyzer.pipeline.graph import AUTOTUNE
from cs_input_analyzer.pipeline.lineage import freeing_shuffle
from cs_input_analyzer.pipeline.op_kinds import kind_of
from cs_input_analyzer.pipeline.op_traits import call_number, is_made_by_reader
from cs_input_analyzer.pipeline.source.code import count_calls, with_argument, with_method
from cs_input_analyzer.records import Edit, Op


def graph(work: Work, edit: Edit) -> None:
    import tensorflow as tf

    body, node = work.find(edit.op)
    if kind_of(node.op) != "FlatMap":
        raise EditError(f"{edit.op} is no flat_map")
    refuse_state(work, edit.op, node, "run side by side")
    is_moot = work.order_is_moot(body, node)
    if edit.value is not None and edit.value > 1 and not is_moot:
        raise EditError(ORDER_IS_PROMISED.format(edit.op))
    cycle = number_of(edit) if is_moot else 1
    own = [cycle, 1, AUTOTUNE, AUTOTUNE, number_of(edit)]  # cycle, block, two buffers, calls at once
    inputs = inputs_with(node, *(body.constant(value, tf.int64) for value in own))
    become(body, node, "ParallelInterleaveDatasetV4", inputs, FUNCTION_KEPT)


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """A reader of several files takes a number of reads instead, which mixes its files."""
    is_moot = freeing_shuffle(op, ops) is not None
    if is_made_by_reader(op, ops):
        return with_reads(code, op, ops, number_text(edit)) if is_moot else None
    changed = with_method(code, "flat_map", "interleave", nth=call_number(op, ops))
    if changed is None or count_calls(changed, "interleave") != 1:
        return None
    if edit.value is not None or not is_moot:
        changed = with_argument(changed, "interleave", "cycle_length", str(edit.value or 1))
    return with_argument(changed, "interleave", "num_parallel_calls", number_text(edit))
