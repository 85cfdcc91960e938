"""What edits and advice do to the statement of an op: the call that made the op is found, and changed."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.records import Edit, Op
from cs_input_analyzer.tfdata import op_traits as traits
from cs_input_analyzer.tfdata.lineage import freeing_shuffle
from cs_input_analyzer.tfdata.op_kinds import INTERLEAVES, method_of
from cs_input_analyzer.tfdata.source.code import AUTOTUNE, with_argument, with_calls_swapped


def number_text(edit: Edit) -> str:
    return AUTOTUNE if edit.value is None else str(edit.value)


def argument_set(op: Op, ops: Sequence[Op], name: str, value: str, code: str | None = None) -> str | None:
    """The op's statement, or what was made of it already, with another argument of its call."""
    return with_argument(code or op.code, method_of(op.kind), name, value, nth=traits.call_number(op, ops))


def moved_up(op: Op, ops: Sequence[Op], code: str | None = None) -> str | None:
    """The op's statement with its call before that of the op it reads from; only where both are the only calls of their names."""
    nearest = next(iter(traits.chain_before(op, ops)), None)
    if nearest is None or any(traits.call_number(one, ops) is not None for one in (nearest, op)):
        return None
    return with_calls_swapped(code or op.code, method_of(nearest.kind), method_of(op.kind))


def with_calls(code: str, op: Op, ops: Sequence[Op], number: str) -> str | None:
    """So many parallel calls. None where TensorFlow chooses the cycle of an interleave: the order, which counts, would change."""
    if traits.is_made_by_reader(op, ops):
        return with_reads(code, op, ops, number)
    if op.kind in INTERLEAVES and freeing_shuffle(op, ops) is None and not traits.has_written_cycle(op, ops, code):
        return None
    return argument_set(op, ops, "num_parallel_calls", number, code)


def with_reads(code: str, op: Op, ops: Sequence[Op], number: str) -> str | None:
    """So many reads at a time by the reader that made the op."""
    reader = traits.reader_call(op, ops)
    return with_argument(code, reader, "num_parallel_reads", number) if reader is not None else None
