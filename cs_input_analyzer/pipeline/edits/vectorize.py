"""A `map` over samples becomes a `map` over batches: of a map, or of the batch right after it, whichever is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from cs_input_analyzer.pipeline.edits import traits
from cs_input_analyzer.pipeline.edits.graph_text import Body, Elements, elements_of, rename_functions, set_elements
from cs_input_analyzer.pipeline.edits.statement import moved_up
from cs_input_analyzer.pipeline.edits.work import (
    EditError,
    Work,
    elements_before,
    exchange,
    refuse_cycle,
    refuse_several_readers,
    refuse_state,
)
from cs_input_analyzer.pipeline.graph import functions_of, named_inputs, node_name
from cs_input_analyzer.pipeline.op_kinds import MAPS, kind_of
from cs_input_analyzer.pipeline.op_traits import ELEMENTWISE_OF_ONE, ELEMENTWISE_OF_SEVERAL, PARSER, chain_before
from cs_input_analyzer.pipeline.source.code import takes_any_shape
from cs_input_analyzer.records import Edit, Op

_BATCHES = ("Batch", "ParallelBatch")
# In place of a rank: a single number, or an array, that is the same for every sample; the many outputs of a parser.
_SINGLE, _ARRAY, _PARSED = -1, -2, -3


def graph(work: Work, edit: Edit) -> None:
    body, node = work.find(edit.op)
    map_, batch = node, next(iter(body.readers_of(node.name)), None)
    if kind_of(node.op) in _BATCHES:
        map_, batch = body.input_of(node), node
    if map_ is None or batch is None or kind_of(map_.op) not in MAPS or kind_of(batch.op) not in _BATCHES:
        raise EditError(f"{edit.op} is no map right before a batch")
    refuse_several_readers(body, map_)
    drawn = next((one.op for one in traits.user_nodes(work.text, map_) if one.op in traits.DRAWS), None)
    if drawn is not None:
        raise EditError(f"the function of {edit.op} draws random numbers ({drawn}), one draw for each sample")
    refuse_state(work, edit.op, map_, "take a whole batch")
    try:
        _batch_first(work, body, map_, batch)
        refuse_cycle(body)
    except EditError as error:
        raise EditError(f"the function of {edit.op} cannot take a whole batch: {error}") from error


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Only where the function is a lambda that names no shapes, and calls the same of a batch as of a sample."""
    names_shapes = PARSER in op.function_ops or "EnsureShape" in op.function_ops
    batch = next((other for other in ops if other.kind in _BATCHES and chain_before(other, ops)[:1] == (op,)), None)
    if batch is None or batch.code != op.code or names_shapes or not takes_any_shape(code, "map", "map_func"):
        return None
    return moved_up(batch, ops, code)


def _batch_first(work: Work, body: Body, map_: Any, batch: Any) -> None:
    """Where every op of the function does to a batch what it does to one sample."""
    import tensorflow as tf

    given, functions = elements_before(body, map_), work.text.functions
    if not all(spec.shape.is_fully_defined() for spec in given):
        raise EditError("what reaches it has no fixed shape, so it may not fit one batch")
    function = functions[functions_of(map_)[0]]
    copy = deepcopy(function)
    _take_batches(copy, _ranks_of_arguments(copy, given, body, map_))
    copy.signature.name = f"{function.signature.name}_of_batch_{len(functions)}"
    copy.arg_attr.clear()
    functions[copy.signature.name] = copy
    result = elements_of(batch)
    size = result[0].shape[0] if result and result[0].shape.rank else None
    exchange(body, map_, batch)
    set_elements(batch, tuple(tf.TensorSpec(tf.TensorShape([size]).concatenate(spec.shape), spec.dtype) for spec in given))
    set_elements(map_, result)
    rename_functions(map_, {function.signature.name: copy.signature.name})


def _ranks_of_arguments(function: Any, given: Elements, body: Body, map_: Any) -> dict[str, int]:
    """Of one sample; captured arguments that are neither a table nor a single number are left out."""
    from tensorflow.core.framework import types_pb2

    ranks: dict[str, int] = {}
    captured = named_inputs(map_).get("other_arguments", [])
    for position, argument in enumerate(function.signature.input_arg):
        if position < len(given):
            ranks[argument.name] = given[position].shape.rank
        elif argument.type == types_pb2.DT_RESOURCE or body.value_of(captured[position - len(given)]) is not None:
            ranks[argument.name] = _SINGLE
    return ranks


def _take_batches(function: Any, ranks: Mapping[str, int]) -> None:
    """Changes the function's nodes where a batch needs another op. `ranks`: of its arguments, for one sample."""
    nodes = {node.name: node for node in function.node_def}
    known = dict(ranks)
    pending = [node_name(tensor) for tensor in function.ret.values()]
    while pending:
        node = nodes.get(pending[-1])
        if node is None or node.name in known:
            pending.pop()
            continue
        data = [tensor for tensor in node.input if not tensor.startswith("^")]
        missing = [name for name in map(node_name, data) if name in nodes and name not in known]
        if missing:
            pending += missing
            continue
        known[node.name] = _rank_of(node, [_rank_at(tensor, nodes, known) for tensor in data])
        pending.pop()
    unused = next((node.op for node in function.node_def if node.name not in known and node.op not in ("NoOp", "Const")), None)
    if unused is not None:
        raise EditError(f"it calls {unused}")
    if any(_rank_at(tensor, nodes, known) in (_SINGLE, _ARRAY, None) for tensor in function.ret.values()):
        raise EditError("one of its results is the same for every sample")


def _rank_at(tensor: str, nodes: Mapping[str, Any], known: Mapping[str, int]) -> int | None:
    """Rank of one tensor; a parser's outputs have each their own."""
    node = nodes.get(node_name(tensor))
    if node is not None and node.op == PARSER:
        return len(node.attr["dense_shapes"].list.shape[int(tensor.split(":")[2])].dim)
    return known.get(node_name(tensor))


def _rank_of(node: Any, inputs: list[int | None]) -> int:
    """Rank of what a node makes of one sample, its batch dimension not counted. Raises EditError where it cannot take a batch."""
    from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto

    refused = EditError(f"it calls {node.op}")
    if node.op == "Const":
        return _ARRAY if node.attr["value"].tensor.tensor_shape.dim else _SINGLE
    if node.op == PARSER:
        _refuse_parser(node)
        if inputs[0] != 0:
            raise refused
        return _PARSED
    if None in inputs or _ARRAY in inputs:
        raise EditError(f"{refused} with an array that it made or captured")
    batched = {rank for rank in inputs if rank is not None and rank != _SINGLE}
    first = inputs[0] if inputs and inputs[0] is not None else _SINGLE
    if node.op == "DecodeRaw" and inputs == [0]:
        return 1
    if node.op == "EnsureShape" and batched:
        if not node.attr["shape"].shape.unknown_rank:
            node.attr["shape"].shape.dim.insert(0, TensorShapeProto.Dim(size=-1))
        return first
    if node.op == "LookupTableFindV2" and inputs[0] == inputs[2] == _SINGLE and batched:
        return batched.pop()
    if node.op in ELEMENTWISE_OF_SEVERAL:
        if len(batched) > 1:
            raise EditError(f"{refused} with tensors of different ranks")
        return batched.pop() if batched else _SINGLE
    if node.op in ELEMENTWISE_OF_ONE and len(inputs) == 1:
        return first
    raise refused


def _refuse_parser(node: Any) -> None:
    if node.attr["num_sparse"].i or node.attr["ragged_value_types"].list.type:
        raise EditError("it parses sparse or ragged features")
    shapes = node.attr["dense_shapes"].list.shape
    if any(shape.unknown_rank or any(dim.size < 0 for dim in shape.dim) for shape in shapes):
        raise EditError("it parses features of varying length")
