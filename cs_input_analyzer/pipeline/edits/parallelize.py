"""The same op, with several calls at a time."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.pipeline.edits.statement import number_text, with_calls
from cs_input_analyzer.pipeline.edits.work import FUNCTION_KEPT, EditError, Work, become, inputs_with, number_of, refuse_state
from cs_input_analyzer.pipeline.graph import AUTOTUNE
from cs_input_analyzer.pipeline.op_kinds import kind_of
from cs_input_analyzer.records import Edit, Op


def graph(work: Work, edit: Edit) -> None:
    import tensorflow as tf

    body, node = work.find(edit.op)
    kind = kind_of(node.op)
    calls = body.constant(number_of(edit), tf.int64)
    if kind == "Map":
        refuse_state(work, edit.op, node, "run in parallel")
        if node.attr["force_synchronous"].b:
            raise EditError(f"{edit.op} has to stay serial")
        kept = (*FUNCTION_KEPT, "use_inter_op_parallelism", "preserve_cardinality")
        become(body, node, "ParallelMapDatasetV2", inputs_with(node, calls), kept)
    elif kind == "Batch":
        own = ("parallel_copy", "output_types", "output_shapes", "metadata")
        become(body, node, "ParallelBatchDataset", [*node.input[:2], calls, *node.input[2:]], own)
    elif kind == "Interleave":
        refuse_state(work, edit.op, node, "run in parallel")
        cycle = body.argument(node, "cycle_length")
        if edit.value is not None and (cycle is None or 0 < cycle < edit.value):
            raise EditError(f"{edit.op} cannot make {edit.value} calls at once: it opens {cycle} inputs")
        if cycle == AUTOTUNE and not work.order_is_moot(body, node):
            raise EditError(
                f"{edit.op} opens as many inputs as TensorFlow likes, which are others in parallel, and nothing shuffles them"
            )
        tuned = [body.constant(AUTOTUNE, tf.int64), body.constant(AUTOTUNE, tf.int64), calls]
        become(body, node, "ParallelInterleaveDatasetV4", inputs_with(node, *tuned), FUNCTION_KEPT)
    else:
        raise EditError(f"{edit.op} is no serial map, batch or interleave")


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    return with_calls(code, op, ops, number_text(edit))
