"""An op goes before the one that it reads from."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.records import Edit, Op
from cs_input_analyzer.tfdata.edits.graph_text import elements_of, set_elements
from cs_input_analyzer.tfdata.edits.statement import moved_up
from cs_input_analyzer.tfdata.edits.work import (
    EditError,
    Work,
    elements_before,
    exchange,
    refuse_cycle,
    refuse_several_readers,
    refuse_state,
    refuse_unrepeatable,
)
from cs_input_analyzer.tfdata.lineage import upstream
from cs_input_analyzer.tfdata.op_kinds import MAPS, kind_of
from cs_input_analyzer.tfdata.op_traits import freezes_only_mixing

_PAIRS = (("Map", "Shuffle"), ("Repeat", "Cache"), ("Cache", "Take"), ("Cache", "Map"))


def graph(work: Work, edit: Edit) -> None:
    body, node = work.find(edit.op)
    source = body.input_of(node)
    pair = tuple(kind_of(one.op).removeprefix("Parallel") for one in (source, node)) if source is not None else None
    if pair not in _PAIRS:
        can = ", ".join(f"{second.lower()} before {first.lower()}" for first, second in _PAIRS)
        raise EditError(f"{edit.op} cannot go before what it reads from; what can: {can}")
    refuse_several_readers(body, source)
    if "Cache" in pair:
        if body.argument(source if pair[0] == "Cache" else node, "filename") != b"":
            raise EditError(f"{edit.op} or its neighbour keeps elements in a file, which holds them as they are now")
        # The cache becomes complete where it was not before: all that reaches it must be the same in each pass.
        refuse_unrepeatable(edit.op, upstream(work.op(edit.op), work.ops))
    if "Map" in pair:
        map_, name = (source, f"the map before {edit.op}") if pair[0] == "Map" else (node, edit.op)
        refuse_state(work, name, map_, "change places")
    if pair == ("Cache", "Map"):
        refuse_unrepeatable(edit.op, [work.op(edit.op)])
    try:
        given, made = elements_before(body, source), elements_of(node)
        exchange(body, source, node)
        # At most one of the two changes what an element is, and neither looks into it.
        if kind_of(node.op) in MAPS:
            set_elements(source, made)
        else:
            set_elements(node, given)
        refuse_cycle(body)
    except EditError as error:
        raise EditError(f"{edit.op} cannot go before what it reads from: {error}") from error


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """None where a cache would freeze the only mixing."""
    if op.kind == "Cache" and freezes_only_mixing(op, upstream(op, ops), ops):
        return None
    return moved_up(op, ops, code)
