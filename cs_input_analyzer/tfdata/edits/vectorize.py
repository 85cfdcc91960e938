"""Turn a `map` over samples, which is named, into a `map` over batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from cs_input_analyzer.records import Edit, Op
from cs_input_analyzer.tfdata.edits import traits
from cs_input_analyzer.tfdata.edits.graph_text import Body, Elements, elements_of, rename_functions, set_elements
from cs_input_analyzer.tfdata.edits.kinds import moved_up
from cs_input_analyzer.tfdata.edits.work import (
    EditError,
    Work,
    elements_before,
    exchange,
    refuse_cycle,
    refuse_several_readers,
    refuse_state,
)
from cs_input_analyzer.tfdata.function_ops import PARSER, STATELESS_TWINS, does
from cs_input_analyzer.tfdata.graph import functions_of, named_inputs, node_name
from cs_input_analyzer.tfdata.lineage import upstream
from cs_input_analyzer.tfdata.op_kinds import BATCHES, BLIND, HANDS_ON, MAPS, OPENS, kind_of
from cs_input_analyzer.tfdata.op_traits import is_elementwise, to_batch
from cs_input_analyzer.tfdata.source.code import takes_any_shape
from cs_input_analyzer.tfdata.threads import inside

# In place of a rank: a single number, or an array, that is the same for every sample; the many outputs of a parser; sparse ones.
_SINGLE, _ARRAY, _PARSED, _SPARSE = -1, -2, -3, -4

# Between file names and a map, these give the records of FixedLengthRecordDataset as they were read.
_KEEPS_RECORDS = {"FixedLengthRecord", "TensorSlice", "Tensor", "MatchingFiles", "Prefetch", "Cache", "Shard"}


def graph(work: Work, edit: Edit) -> None:
    """Put the batch before the map in the graph."""
    body, map_ = work.find(edit.op)
    between, batch = _path_to_batch(body, map_)
    if batch is None:
        raise EditError(f"{edit.op} is no map right before a batch")
    drawn = next((one.op for one in traits.user_nodes(work.text, map_) if one.op in STATELESS_TWINS), None)
    if drawn is not None:
        raise EditError(f"the function of {edit.op} draws random numbers ({drawn}), one draw for each sample")
    refuse_state(work, edit.op, map_, "take a whole batch")
    try:
        _batch_first(work, body, map_, between, batch)
        refuse_cycle(body)
    except EditError as error:
        raise EditError(f"the function of {edit.op} cannot take a whole batch: {error}") from error


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    """Return None unless the function is a lambda without shapes that makes the same calls for a batch as for a sample."""
    after = to_batch(op, ops)
    if len(after) != 1 or after[0].code != op.code or not is_elementwise(op) or not takes_any_shape(code):
        return None
    return moved_up(after[0], ops, code)


def _path_to_batch(body: Body, node: Any) -> tuple[list[Any], Any]:
    """Return the ops between a map and the batch after it, and the batch; None without one, or if the node is no map."""
    if kind_of(node.op) not in MAPS:
        return [], None
    between: list[Any] = []
    last = node
    while True:
        refuse_several_readers(body, last)
        (last,) = body.readers_of(last.name)
        if kind_of(last.op) in BATCHES:
            return between, last
        if kind_of(last.op) not in BLIND | HANDS_ON:
            return [], None
        between.append(last)


def _batch_first(work: Work, body: Body, map_: Any, between: Sequence[Any], batch: Any) -> None:
    """Put the batch before the map. Raise EditError unless each op of the function takes a batch as it takes a sample."""
    import tensorflow as tf

    given, functions = elements_before(body, map_), work.text.functions
    if not all(spec.shape.is_fully_defined() for spec in given):
        raise EditError("what reaches it has no fixed shape, so it may not fit one batch")
    function = functions[functions_of(map_)[0]]
    copy = deepcopy(function)
    _take_batches(copy, _ranks_of_arguments(copy, given, body, map_), has_equal_records=_has_equal_records(work, body, map_))
    copy.signature.name = f"{function.signature.name}_of_batch_{len(functions)}"
    copy.arg_attr.clear()
    functions[copy.signature.name] = copy
    result = elements_of(batch)
    size = result[0].shape[0] if result and result[0].shape.rank else None
    for one in between:
        set_elements(one, given)
    exchange(body, map_, batch, first_between=between[0] if between else None)
    set_elements(batch, tuple(tf.TensorSpec(tf.TensorShape([size]).concatenate(spec.shape), spec.dtype) for spec in given))
    set_elements(map_, result)
    rename_functions(map_, {function.signature.name: copy.signature.name})


def _has_equal_records(work: Work, body: Body, map_: Any) -> bool:
    """Return whether the map gets records of one length: those of FixedLengthRecordDataset, unchanged."""
    name = next((name for name, place in work.places.items() if place.node == map_.name and place.function is None), None)
    if body.function is not None or name is None:
        return False
    before = upstream(work.op(name), work.ops)
    kinds = {one.kind for top in before for one in (top, *inside(top, work.ops))} - OPENS - BLIND - HANDS_ON
    return "FixedLengthRecord" in kinds and kinds <= _KEEPS_RECORDS


def _ranks_of_arguments(function: Any, given: Elements, body: Body, map_: Any) -> dict[str, int]:
    """Return ranks for one sample. Captured arguments but for tables and single numbers are left out."""
    from tensorflow.core.framework import types_pb2

    ranks: dict[str, int] = {}
    captured = named_inputs(map_).get("other_arguments", [])
    for position, argument in enumerate(function.signature.input_arg):
        if position < len(given):
            ranks[argument.name] = given[position].shape.rank
        elif argument.type == types_pb2.DT_RESOURCE or body.value_of(captured[position - len(given)]) is not None:
            ranks[argument.name] = _SINGLE
    return ranks


def _take_batches(function: Any, ranks: Mapping[str, int], *, has_equal_records: bool) -> None:
    """Change the function's nodes where a batch needs another op. `ranks`: of its arguments, for one sample."""
    nodes = {node.name: node for node in function.node_def}
    known = dict(ranks)
    # Decoded records by name, of each tensor that is as long as they are.
    lengths: dict[str, set[str]] = {}
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
        of_inputs = [_rank_at(tensor, nodes, known) for tensor in data]
        given = [node_name(tensor) for tensor, rank in zip(data, of_inputs, strict=True) if rank != _SINGLE]
        lengths[node.name] = _lengths_shown(node, [lengths.get(name, set()) for name in given])
        known[node.name] = _rank_of(node, of_inputs, function, nodes)
        pending.pop()
    unused = next((node.op for node in nodes.values() if node.name not in known and node.op not in ("NoOp", "Const")), None)
    if unused is not None:
        raise EditError(f"it calls {unused}")
    if any(_rank_at(tensor, nodes, known) in (_SINGLE, _ARRAY, _SPARSE, None) for tensor in function.ret.values()):
        raise EditError("one of its results is the same for every sample")
    shown = set[str]().union(*(lengths.get(node_name(tensor), set()) for tensor in function.ret.values()))
    checked = {name for node in nodes.values() if _names_shape(node) for name in lengths.get(node_name(node.input[0]), set())}
    decoded = {node.name: node_name(node.input[0]) for node in nodes.values() if node.op == "DecodeRaw" and node.name in known}
    equal = {name for name, given in decoded.items() if has_equal_records and given in ranks}
    if decoded.keys() - shown - checked - equal:
        raise EditError("it calls DecodeRaw of records that may differ in length")


def _lengths_shown(node: Any, inputs: list[set[str]]) -> set[str]:
    """Return the decoded records whose length a tensor has. A mix of several tensors may hide a length."""
    if node.op == "DecodeRaw":
        return {node.name}
    is_as_long = node.op == "EnsureShape" or does(node.op, "each", "each of several")
    return inputs[0] if is_as_long and inputs and all(one == inputs[0] for one in inputs) else set()


def _names_shape(node: Any) -> bool:
    """Return whether the node fails unless its input has one size. `Reshape` to an open dimension was refused before."""
    if node.op != "EnsureShape":
        return bool(node.op == "Reshape")
    shape = node.attr["shape"].shape
    return not shape.unknown_rank and all(dim.size >= 0 for dim in shape.dim[1:])


def _rank_at(tensor: str, nodes: Mapping[str, Any], known: Mapping[str, int]) -> int | None:
    """Return rank of one tensor; a parser's outputs have each their own."""
    node = nodes.get(node_name(tensor))
    if node is not None and node.op == PARSER:
        if not tensor.split(":")[1].startswith("dense_"):
            return _SPARSE
        return len(node.attr["dense_shapes"].list.shape[int(tensor.split(":")[2])].dim)
    return known.get(node_name(tensor))


def _rank_of(node: Any, inputs: list[int | None], function: Any, nodes: Mapping[str, Any]) -> int:
    """Return the rank of a node's result for one sample. Raise EditError if the node cannot take a batch."""
    from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto

    refused = EditError(f"it calls {node.op}")
    first = inputs[0] if inputs and inputs[0] is not None else _SINGLE
    if node.op == "Const":
        return _ARRAY if node.attr["value"].tensor.tensor_shape.dim else _SINGLE
    if node.op == PARSER:
        _refuse_parser(node)
        if inputs[0] != 0:
            raise refused
        return _PARSED
    if node.op == "SerializeSparse" and set(inputs) == {_SPARSE}:
        node.op = "SerializeManySparse"
        return 1
    if node.op == "DecodeCSV" and first >= 0 and all(one in (_SINGLE, _ARRAY) for one in inputs[1:]):
        return first
    if node.op in _ONE_MORE:
        return _ONE_MORE[node.op](node, inputs, _Constants(function, nodes))
    if None in inputs or _ARRAY in inputs:
        raise EditError(f"{refused} with an array that it made or captured")
    if _SPARSE in inputs and not (does(node.op, "each") and len(inputs) == 1):
        raise EditError(f"{refused} with sparse features")
    batched = {rank for rank in inputs if rank is not None and rank != _SINGLE}
    if node.op == "DecodeRaw" and inputs == [0]:
        return 1
    if node.op == "EnsureShape" and batched:
        if not node.attr["shape"].shape.unknown_rank:
            node.attr["shape"].shape.dim.insert(0, TensorShapeProto.Dim(size=-1))
        return first
    if node.op == "LookupTableFindV2" and inputs[0] == inputs[2] == _SINGLE and batched:
        return batched.pop()
    if does(node.op, "each of several"):
        if len(batched) > 1:
            raise EditError(f"{refused} with tensors of different ranks")
        return batched.pop() if batched else _SINGLE
    if does(node.op, "each") and len(inputs) == 1:
        return first
    raise refused


@dataclass(frozen=True, slots=True)
class _Constants:
    """Hold the constant numbers that a function's nodes get."""

    function: Any
    nodes: Mapping[str, Any]

    def of(self, node: Any, position: int) -> list[int]:
        """Return the numbers of one input. Raise EditError if it is no constant."""
        import tensorflow as tf

        source = self.nodes.get(node_name(node.input[position]))
        if source is None or source.op != "Const":
            raise EditError(f"it calls {node.op} with numbers that it works out")
        return [int(number) for number in tf.make_ndarray(source.attr["value"].tensor).ravel()]

    def set(self, node: Any, position: int, numbers: list[int] | int) -> None:
        """Give one input other numbers of the same type."""
        import tensorflow as tf

        old = self.nodes[node_name(node.input[position])]
        new = self.function.node_def.add(name=f"{node.name}/csia_{position}", op="Const")
        new.attr["dtype"].type = old.attr["dtype"].type
        new.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(numbers, old.attr["dtype"].type))
        node.input[position] = f"{new.name}:output:0"


def _sliced(node: Any, inputs: list[int | None], constants: _Constants) -> int:
    """Turn `x[...]` into `x[:, ...]`: masks have a bit for each dimension, the first lowest."""
    first = inputs[0]
    if first is None or first < 0:
        raise EditError(f"it calls {node.op} with what is no tensor of the sample")
    for position, more in ((1, 0), (2, 0), (3, 1)):
        constants.set(node, position, [more, *constants.of(node, position)])
    masks = {name: node.attr[f"{name}_mask"].i << 1 for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    for name, mask in masks.items():
        node.attr[f"{name}_mask"].i = mask | (name in ("begin", "end"))
    made, gone = masks["new_axis"], masks["shrink_axis"] & ~masks["new_axis"]
    return int(first + made.bit_count() - gone.bit_count())


def _joined(node: Any, inputs: list[int | None], constants: _Constants) -> int:
    """Give `stack`, which makes a dimension, and `concat`, which does not, one more dimension."""
    parts = inputs if node.op == "Pack" else inputs[:-1]
    rank = parts[0]
    if len(set(parts)) != 1 or rank is None or rank < 0:
        raise EditError(f"it calls {node.op} with tensors of different ranks, or that are the same for every sample")
    if node.op == "Pack":
        node.attr["axis"].i += node.attr["axis"].i >= 0
        return rank + 1
    (axis,) = constants.of(node, len(parts))
    if axis >= 0:
        constants.set(node, len(parts), axis + 1)
    return rank


def _expanded(node: Any, inputs: list[int | None], constants: _Constants) -> int:
    """Give `expand_dims`, and `one_hot` with the same numbers for all samples, one more dimension."""
    first = inputs[0]
    if first is None or first < 0 or any(one != _SINGLE for one in (inputs[1:] if node.op == "OneHot" else ())):
        raise EditError(f"it calls {node.op} with what is no tensor of the sample")
    if node.op == "OneHot":
        node.attr["axis"].i += node.attr["axis"].i >= 0
    else:
        (axis,) = constants.of(node, 1)
        if axis >= 0:
            constants.set(node, 1, axis + 1)
    return first + 1


def _reshaped(node: Any, inputs: list[int | None], constants: _Constants) -> int:
    """Reshape a batch, whose dimension is the open one."""
    shape = constants.of(node, 1)
    if inputs[0] is None or inputs[0] < 0 or -1 in shape:
        raise EditError("it calls Reshape to a shape with an open dimension")
    constants.set(node, 1, [-1, *shape])
    return len(shape)


_ONE_MORE: Mapping[str, Callable[[Any, list[int | None], _Constants], int]] = {
    "ConcatV2": _joined,
    "ExpandDims": _expanded,
    "OneHot": _expanded,
    "Pack": _joined,
    "Reshape": _reshaped,
    "StridedSlice": _sliced,
}


def _refuse_parser(node: Any) -> None:
    if node.attr["ragged_value_types"].list.type:
        raise EditError("it parses ragged features")
    shapes = node.attr["dense_shapes"].list.shape
    if any(shape.unknown_rank or any(dim.size < 0 for dim in shape.dim) for shape in shapes):
        raise EditError("it parses features of varying length")
