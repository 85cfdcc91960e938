"""Another number of parallel calls."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.pipeline.edits.statement import number_text, with_calls
from cs_input_analyzer.pipeline.edits.work import EditError, Work, number_of, refuse_state, set_number
from cs_input_analyzer.pipeline.graph import AUTOTUNE
from cs_input_analyzer.records import Edit, Op


def graph(work: Work, edit: Edit) -> None:
    body, node = work.find(edit.op)
    parallel = body.argument(node, "num_parallel_calls")
    if parallel is None:
        raise EditError(f"{edit.op} has no constant number of parallel calls")
    if parallel == 1:
        refuse_state(work, edit.op, node, "run in parallel")
    cycle = body.argument(node, "cycle_length")
    if cycle is not None and 0 < cycle < number_of(edit):
        raise EditError(f"{edit.op} cannot make {edit.value} calls at once: it opens {cycle} inputs")
    if cycle == AUTOTUNE and not work.order_is_moot(body, node):
        raise EditError(
            f"{edit.op} opens as many inputs as calls are made, and the order, which nothing shuffles, follows from that"
        )
    set_number(body, node, "num_parallel_calls", number_of(edit))


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    return with_calls(code, op, ops, number_text(edit))
