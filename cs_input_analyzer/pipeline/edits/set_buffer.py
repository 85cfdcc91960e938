"""Another buffer of a prefetch, in elements, or of a reader, in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.pipeline.edits.statement import number_text
from cs_input_analyzer.pipeline.edits.work import EditError, Work, number_of, set_number
from cs_input_analyzer.pipeline.op_kinds import FILE_READERS, kind_of, method_of
from cs_input_analyzer.pipeline.op_traits import call_number
from cs_input_analyzer.pipeline.source.code import argument_of, with_argument, without_argument
from cs_input_analyzer.records import Edit, Op

# What TensorFlow's readers take where nothing is said.
DEFAULT_BYTES = 256 * 2**10


def graph(work: Work, edit: Edit) -> None:
    body, node = work.find(edit.op)
    kind = kind_of(node.op)
    if kind != "Prefetch" and kind not in FILE_READERS:
        raise EditError(f"{edit.op} is neither a prefetch nor a reader; the buffer of a shuffle decides the order")
    if body.argument(node, "buffer_size") is None:
        raise EditError(f"{edit.op} has no constant buffer size")
    if kind != "Prefetch" and edit.value is None:
        raise EditError(f"the buffer of {edit.op} is a number of bytes, which TensorFlow cannot tune")
    set_number(body, node, "buffer_size", number_of(edit))


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Of a reader only where the user gave a buffer: one that is the default is left out again."""
    nth, method = call_number(op, ops), method_of(op.kind)
    if op.kind == "Prefetch":
        return with_argument(code, method, "buffer_size", number_text(edit), nth=nth)
    if nth is not None or edit.value is None or argument_of(code, method, "buffer_size") is None:
        return None
    if edit.value == DEFAULT_BYTES:
        return without_argument(code, method, "buffer_size")
    return with_argument(code, method, "buffer_size", f"{edit.value >> 20} << 20")
