"""Edits of a single op, and of the ops behind it.

The function of a kind changes the graph, or raises EditError with the reason. Its twin with `_source` returns the changed
statement, or None if it is not sure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cs_input_analyzer.records import Edit, Op
from cs_input_analyzer.tfdata.edits.graph_text import Body, elements_of, set_elements
from cs_input_analyzer.tfdata.edits.traits import state_of
from cs_input_analyzer.tfdata.edits.work import (
    EditError,
    Work,
    elements_before,
    elements_given,
    exchange,
    refuse_cycle,
    refuse_several_readers,
    refuse_state,
)
from cs_input_analyzer.tfdata.function_ops import STATELESS_TWINS
from cs_input_analyzer.tfdata.graph import AUTOTUNE
from cs_input_analyzer.tfdata.lineage import downstream, freeing_shuffle, is_mixed_anew, is_random_order, upstream
from cs_input_analyzer.tfdata.op_kinds import INTERLEAVES, KEEPERS, MAPS, REPEATS, SHUFFLES, kind_of, method_of
from cs_input_analyzer.tfdata.op_traits import (
    call_number,
    chain_before,
    freezes_only_mixing,
    has_written_cycle,
    is_made_by_reader,
    reader_call,
)
from cs_input_analyzer.tfdata.source import code as source_code
from cs_input_analyzer.tfdata.threads import inside

_ORDER_IS_PROMISED = (
    "the order after {} is promised: no shuffle without a seed comes after it, with nothing that shows the order around it"
)
# Attributes that an op with a function keeps when it becomes another such op.
_FUNCTION_KEPT = ("f", "Targuments", "output_types", "output_shapes", "metadata")
# An op, and the one after it that can go before it.
_SWAPS = (("Map", "Shuffle"), ("Repeat", "Cache"), ("Cache", "Take"), ("Cache", "Map"))


def set_parallelism(work: Work, edit: Edit) -> None:
    """Set another number of parallel calls."""
    body, node = work.find(edit.op)
    parallel = body.argument(node, "num_parallel_calls")
    if parallel is None:
        raise EditError(f"{edit.op} has no constant number of parallel calls")
    if parallel == 1:
        refuse_state(work, edit.op, node, "run in parallel")
    if kind_of(node.op) in INTERLEAVES:
        _refuse_calls(work, edit, body.argument(node, "cycle_length"))
    _set_number(body, node, "num_parallel_calls", _number_of(edit))


def _refuse_calls(work: Work, edit: Edit, cycle: int | None) -> None:
    """Refuse more calls than inputs: an interleave opens no more, or opens as many as it has calls if TensorFlow chooses."""
    if edit.value is not None and (cycle is None or 0 < cycle < edit.value):
        raise EditError(f"{edit.op} cannot make {edit.value} calls at once: it opens {cycle} inputs")
    if cycle == AUTOTUNE and not work.order_is_moot(edit.op):
        raise EditError(f"{edit.op} opens as many inputs as TensorFlow likes, by the number of calls, and nothing shuffles them")


def parallelize(work: Work, edit: Edit) -> None:
    """Make the same op run several calls at a time."""
    body, node = work.find(edit.op)
    kind = kind_of(node.op)
    calls = body.constant(_number_of(edit))
    if kind == "Map":
        refuse_state(work, edit.op, node, "run in parallel")
        if node.attr["force_synchronous"].b:
            raise EditError(f"{edit.op} has to stay serial")
        kept = (*_FUNCTION_KEPT, "use_inter_op_parallelism", "preserve_cardinality")
        _become(body, node, "ParallelMapDatasetV2", _inputs_with(node, calls), kept)
    elif kind == "Interleave":
        refuse_state(work, edit.op, node, "run in parallel")
        _refuse_calls(work, edit, body.argument(node, "cycle_length"))
        tuned = [body.constant(AUTOTUNE), body.constant(AUTOTUNE), calls]
        _become(body, node, "ParallelInterleaveDatasetV4", _inputs_with(node, *tuned), _FUNCTION_KEPT)
    else:
        raise EditError(f"{edit.op} is no serial map or interleave")


def calls_source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Return None if TensorFlow chooses the cycle of an interleave: the order, which counts, would change."""
    if is_made_by_reader(op, ops):
        return _with_reads(code, op, ops, edit)
    if op.kind in INTERLEAVES and freeing_shuffle(op, ops) is None and not has_written_cycle(op, ops, code):
        return None
    return argument_set(op, ops, "num_parallel_calls", _number_text(edit), code)


def set_cycle_length(work: Work, edit: Edit) -> None:
    """Set another number of inputs that an interleave reads in turn."""
    body, node = work.find(edit.op)
    if kind_of(node.op) not in INTERLEAVES:
        raise EditError(f"{edit.op} has no cycle length")
    if not work.order_is_moot(edit.op):
        raise EditError(_ORDER_IS_PROMISED.format(edit.op))
    if edit.value is None:
        raise EditError(f"another cycle length of {edit.op} needs a number")
    refuse_state(work, edit.op, node, "run for other inputs at a time")
    parallel = body.argument(node, "num_parallel_calls")
    if parallel is not None and parallel > edit.value:
        raise EditError(f"{edit.op} makes {parallel} calls at once: it must open as many inputs")
    _set_number(body, node, "cycle_length", _number_of(edit))


def set_cycle_length_source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Return the statement with another `cycle_length`."""
    if is_made_by_reader(op, ops):
        return _with_reads(code, op, ops, edit)
    return argument_set(op, ops, "cycle_length", _number_text(edit), code)


def set_buffer(work: Work, edit: Edit) -> None:
    """Give a prefetch another buffer, in elements."""
    body, node = work.find(edit.op)
    if kind_of(node.op) != "Prefetch":
        raise EditError(f"{edit.op} is no prefetch; the buffer of a shuffle decides the order")
    if body.argument(node, "buffer_size") is None:
        raise EditError(f"{edit.op} has no constant buffer size")
    _set_number(body, node, "buffer_size", _number_of(edit))


def set_buffer_source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Return the statement with another buffer of the prefetch."""
    return argument_set(op, ops, "buffer_size", _number_text(edit), code)


def interleave(work: Work, edit: Edit) -> None:
    """Turn a `flat_map` into an `interleave`: it opens inputs ahead, and several at a time if any order will do."""
    body, node = work.find(edit.op)
    if kind_of(node.op) != "FlatMap":
        raise EditError(f"{edit.op} is no flat_map")
    refuse_state(work, edit.op, node, "run side by side")
    is_moot = work.order_is_moot(edit.op)
    if edit.value is not None and edit.value > 1 and not is_moot:
        raise EditError(_ORDER_IS_PROMISED.format(edit.op))
    cycle = _number_of(edit) if is_moot else 1
    own = [cycle, 1, AUTOTUNE, AUTOTUNE, _number_of(edit)]  # cycle, block, two buffers, calls at once
    _become(body, node, "ParallelInterleaveDatasetV4", _inputs_with(node, *map(body.constant, own)), _FUNCTION_KEPT)


def interleave_source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Set parallel reads of a reader of several files, which mixes them; else call `interleave` in place of `flat_map`."""
    is_moot = freeing_shuffle(op, ops) is not None
    if is_made_by_reader(op, ops):
        return _with_reads(code, op, ops, edit) if is_moot else None
    changed = source_code.with_method(code, "flat_map", "interleave", nth=call_number(op, ops))
    if changed is None or source_code.count_calls(changed, "interleave") != 1:
        return None
    if edit.value is not None or not is_moot:
        changed = source_code.with_argument(changed, "interleave", "cycle_length", str(edit.value or 1))
    return source_code.with_argument(changed, "interleave", "num_parallel_calls", _number_text(edit))


def insert_prefetch(work: Work, edit: Edit) -> None:
    """Add a `prefetch` after an op."""
    body, node = work.find(edit.op)
    if any(kind_of(other.op) == "Prefetch" for other in (node, *body.readers_of(node.name))):
        raise EditError(f"there is a prefetch after {edit.op} already")
    _insert_after(body, node, "PrefetchDataset", [body.constant(_number_of(edit))])


def insert_prefetch_source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Return the statement with a `prefetch` after the op's call."""
    return source_code.with_call_after(code, method_of(op.kind), f"prefetch({_number_text(edit)})", nth=call_number(op, ops))


def insert_cache(work: Work, edit: Edit) -> None:
    """Add a `cache`, in memory."""
    body, node = work.find(edit.op)
    op = work.op(edit.op)
    if op.within is not None:
        raise EditError(f"{edit.op} is inside a function: each of its datasets would fill a cache of its own")
    if op.kind in KEEPERS:
        raise EditError(f"{edit.op} keeps its elements already")
    before = (op, *inside(op, work.ops), *upstream(op, work.ops))
    for other in before:
        count = other.parameters.get("count") if other.kind in REPEATS else 1
        if count != 1 and not (other.within and isinstance(count, int) and count > 0):
            where = f"{other.name} inside a function" if other.within else other.name
            raise EditError(f"what reaches a cache after {edit.op} is repeated by {where}: it would be kept many times or for ever")
    _refuse_unrepeatable(edit.op, (one for one in before if not (one.kind in SHUFFLES and is_mixed_anew(one, op, work.ops))))
    if any(other.kind == "Cache" for other in downstream(op, work.ops)):
        raise EditError(f"there is a cache after {edit.op} already")
    memory = body.tensor(body.add("DummyMemoryCache", ()).name)
    _insert_after(body, node, "CacheDatasetV2", [body.constant("", "string"), memory])


def insert_cache_source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Return None if the cache would freeze the only mixing that there is."""
    if freezes_only_mixing(op, (*upstream(op, ops), *inside(op, ops), op), ops):
        return None
    return source_code.with_call_after(code, method_of(op.kind), "cache()", nth=call_number(op, ops))


def swap(work: Work, edit: Edit) -> None:
    """Let the op go before the one that it reads from."""
    body, node = work.find(edit.op)
    source = body.input_of(node)
    pair = tuple(kind_of(one.op).removeprefix("Parallel") for one in (source, node)) if source is not None else None
    if pair not in _SWAPS:
        can = ", ".join(f"{second.lower()} before {first.lower()}" for first, second in _SWAPS)
        raise EditError(f"{edit.op} cannot go before what it reads from; what can: {can}")
    refuse_several_readers(body, source)
    if "Cache" in pair:
        if body.argument(source if pair[0] == "Cache" else node, "filename") != b"":
            raise EditError(f"{edit.op} or its neighbour keeps elements in a file, which holds them as they are now")
        # The cache becomes complete where it was not before: all that reaches it must be the same in each pass.
        _refuse_unrepeatable(edit.op, upstream(work.op(edit.op), work.ops))
    if "Map" in pair:
        map_, name = (source, f"the map before {edit.op}") if pair[0] == "Map" else (node, edit.op)
        refuse_state(work, name, map_, "change places")
    if pair == ("Cache", "Map"):
        _refuse_unrepeatable(edit.op, [work.op(edit.op)])
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


def swap_source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Return None if a cache would freeze the only mixing."""
    if op.kind == "Cache" and freezes_only_mixing(op, upstream(op, ops), ops):
        return None
    return moved_up(op, ops, code)


def use_private_threads(work: Work, edit: Edit) -> None:
    """Give the dataset a private thread pool, with this number of threads."""
    if edit.value is None:
        raise EditError("a private thread pool needs a number of threads")
    work.private_threads = _number_of(edit)


def _number_text(edit: Edit) -> str:
    return source_code.AUTOTUNE if edit.value is None else str(edit.value)


def argument_set(op: Op, ops: Sequence[Op], name: str, value: str, code: str | None = None) -> str | None:
    """Return the op's statement with another argument of its call. `code`: the statement after other edits."""
    return source_code.with_argument(code or op.code, method_of(op.kind), name, value, nth=call_number(op, ops))


def moved_up(op: Op, ops: Sequence[Op], code: str | None = None) -> str | None:
    """Return the op's statement with its call before that of the op it reads from. Return None if it has more such calls."""
    nearest = next(iter(chain_before(op, ops)), None)
    if nearest is None or any(call_number(one, ops) is not None for one in (nearest, op)):
        return None
    return source_code.with_calls_swapped(code or op.code, method_of(nearest.kind), method_of(op.kind))


def _with_reads(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Set the parallel reads of the reader that made the op."""
    reader = reader_call(op, ops)
    return source_code.with_argument(code, reader, "num_parallel_reads", _number_text(edit)) if reader is not None else None


def _number_of(edit: Edit) -> int:
    if edit.value is not None and edit.value < 1:
        raise EditError(f"{edit.kind} needs 1 or more, not {edit.value}")
    return AUTOTUNE if edit.value is None else edit.value


def _set_number(body: Body, node: Any, argument: str, value: int) -> None:
    """Keep the type: old versions of some ops take 32 bits."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import op_def_registry

    types = {given.name: given.type for given in op_def_registry.get(node.op).input_arg}
    body.set_argument(node, argument, body.constant(value, types[argument] or types_pb2.DT_INT64))


def _become(body: Body, node: Any, op: str, inputs: Sequence[str], kept: Sequence[str]) -> None:
    """Turn the node into another op under the same name, which keeps the order."""
    from tensorflow.core.framework import node_def_pb2

    new = node_def_pb2.NodeDef(name=node.name, op=op, input=list(inputs), device=node.device)
    for key in kept:
        if key in node.attr:
            new.attr[key].CopyFrom(node.attr[key])
    new.attr["deterministic"].s = b"true"
    body.nodes[node.name] = new


def _inputs_with(node: Any, *more: str) -> list[str]:
    """Return the inputs and some more. Control inputs stay last, as TensorFlow requires."""
    given = list(node.input)
    return [*(name for name in given if not name.startswith("^")), *more, *(name for name in given if name.startswith("^"))]


def _insert_after(body: Body, node: Any, op: str, inputs: Sequence[str]) -> None:
    """Add an op that passes on the elements of `node` to all its readers."""
    given = elements_given(node)
    new = body.add(op, [body.tensor(node.name), *inputs])
    set_elements(new, given)
    body.redirect(node.name, body.tensor(new.name), keep=[new.name])


def _refuse_unrepeatable(op: str, others: Iterable[Op]) -> None:
    """Refuse a cache behind ops that may give other elements in another pass: it keeps the first pass."""
    for other in others:
        if other.kind.startswith(("DataService", "Random", "Generator")):
            raise EditError(f"a cache after {op} would keep what {other.kind} gave in the first pass; the next may give another")
        drawn = next((name for name in other.function_ops if name in STATELESS_TWINS), None) or state_of(other.function_ops)
        if drawn is not None:
            raise EditError(f"a cache after {op} would freeze what {drawn} gave in the first pass")
        if other.kind in SHUFFLES and (other.within or is_random_order(other) or other.parameters.get("reshuffle_each_iteration")):
            raise EditError(f"a cache after {op} would freeze the order of the shuffle before it")
