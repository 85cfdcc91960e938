"""Two neighbouring ops that change places, where the functions between them allow it. Each says why not, instead of doing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cs_input_analyzer.pipeline.edits.graph_text import (
    READERS,
    Body,
    Elements,
    GraphText,
    elements_of,
    functions_of,
    node_name,
    rename_functions,
    set_elements,
    set_values,
)
from cs_input_analyzer.pipeline.graph import named_inputs
from cs_input_analyzer.pipeline.op_kinds import MAPS, kind_of

# Ops that do to each number of a batch what they do to it alone.
_OF_ONE = frozenset(
    (
        *("Abs", "BitwiseNot", "Cast", "Ceil", "Cos", "Exp", "Expm1", "Floor", "Identity", "Invert", "IsFinite", "IsInf", "IsNan"),
        *(
            "Log",
            "Log1p",
            "LogicalNot",
            "Neg",
            "OnesLike",
            "Reciprocal",
            "Relu",
            "Rint",
            "Round",
            "Rsqrt",
            "Sigmoid",
            "Sign",
            "Sin",
        ),
        *("Sqrt", "Square", "StringLength", "StringLower", "StringStrip", "StringToHashBucketFast", "StringToHashBucketStrong"),
        *("StringToNumber", "StringUpper", "Tan", "Tanh", "ZerosLike", "AsString", "StaticRegexReplace", "StaticRegexFullMatch"),
    )
)
# Of two tensors of one rank (a batch dimension before both keeps them aligned), or of one tensor and a single number.
_OF_SEVERAL = frozenset(
    (
        *("Add", "AddV2", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "DivNoNan", "Equal", "FloorDiv", "FloorMod", "Greater"),
        *(
            "GreaterEqual",
            "Less",
            "LessEqual",
            "LogicalAnd",
            "LogicalOr",
            "Maximum",
            "Minimum",
            "Mul",
            "MulNoNan",
            "NotEqual",
            "Pow",
        ),
        *("RealDiv", "SelectV2", "SquaredDifference", "Sub", "TruncateDiv", "TruncateMod", "ClipByValue"),
    )
)
# In place of a rank: a single number, or an array, that is the same for every sample; the many outputs of a parser.
_SINGLE, _ARRAY, _PARSED = -1, -2, -3
_PARSER = "ParseExampleV2"  # takes one serialized example, or a vector of them


def put_first(body: Body, first: Any, second: Any) -> str | None:
    """first, second -> second, first: two ops of which at most one changes what an element is, and neither looks into it."""
    given = _elements_before(body, first)
    if isinstance(given, str):
        return given
    is_map = kind_of(second.op) in MAPS
    made = elements_of(second)
    _exchange(body, first, second)
    if is_map:
        set_elements(first, made)
    else:
        set_elements(second, given)
    return _cycle(body)


def put_filter_first(text: GraphText, body: Body, map_: Any, filter_: Any) -> str | None:
    """map, filter -> filter, map: where the predicate looks only at what the map passes on as it is."""
    given = _elements_before(body, map_)
    if isinstance(given, str):
        return given
    mapped, predicate = (text.functions[functions_of(node)[0]] for node in (map_, filter_))
    passed = _passed_on(mapped)
    arguments = [argument.name for argument in predicate.signature.input_arg]
    results = [mapped.ret[argument.name] for argument in mapped.signature.output_arg]
    used = _names_used(predicate)
    renamed: dict[str, str] = {}
    for position, argument in enumerate(arguments[: len(results)]):
        if argument in used:
            if position not in passed:
                return f"its predicate looks at component {position}, which the map makes"
            renamed[argument] = f"csia_element_{passed[position]}"
    copy = type(predicate)()
    copy.CopyFrom(predicate)
    copy.signature.name = f"{predicate.signature.name}_first_{len(text.functions)}"
    captured = list(predicate.signature.input_arg[len(results) :])
    del copy.signature.input_arg[:]
    for position, dtype in enumerate(given.types):
        copy.signature.input_arg.add(name=f"csia_element_{position}", type=dtype)
    copy.signature.input_arg.extend(captured)
    copy.arg_attr.clear()
    for node in copy.node_def:
        set_values(node.input, [_renamed(name, renamed) for name in node.input])
    for key, tensor in list(copy.ret.items()):
        copy.ret[key] = _renamed(tensor, renamed)
    text.functions[copy.signature.name] = copy
    _exchange(body, map_, filter_)
    rename_functions(filter_, {predicate.signature.name: copy.signature.name})
    set_elements(filter_, given)
    return _cycle(body)


def vectorized(text: GraphText, body: Body, map_: Any, batch: Any) -> str | None:
    """map, batch -> batch, map over the batch: where every op of the function does to a batch what it does to one sample."""
    given = _elements_before(body, map_)
    if isinstance(given, str):
        return given
    if any(shape.unknown_rank or any(dim.size < 0 for dim in shape.dim) for shape in given.shapes):
        return "what reaches it has no fixed shape, so it may not fit one batch"
    function = text.functions[functions_of(map_)[0]]
    copy = type(function)()
    copy.CopyFrom(function)
    ranks: dict[str, int] = {}
    captured = named_inputs(map_).get("other_arguments", [])
    for position, argument in enumerate(copy.signature.input_arg):
        if position < len(given.shapes):
            ranks[argument.name] = len(given.shapes[position].dim)
        elif argument.type == _resource() or body.value_of(captured[position - len(given.shapes)]) is not None:
            ranks[argument.name] = _SINGLE
    problem = _over_batches(copy, ranks)
    if problem is not None:
        return problem
    copy.signature.name = f"{function.signature.name}_of_batch_{len(text.functions)}"
    copy.arg_attr.clear()
    text.functions[copy.signature.name] = copy
    result = elements_of(batch)
    size = result.shapes[0].dim[0].size if result.shapes and result.shapes[0].dim else -1
    _exchange(body, map_, batch)
    set_elements(batch, Elements(types=given.types, shapes=tuple(_with_batch(shape, size) for shape in given.shapes)))
    set_elements(map_, result)
    rename_functions(map_, {function.signature.name: copy.signature.name})
    return _cycle(body)


def _over_batches(function: Any, ranks: Mapping[str, int]) -> str | None:
    """Changes the function's nodes where a batch needs another op; why it cannot be done, where it cannot.

    `ranks`: of its arguments, for one sample; those that are neither part of it nor a single number are left out.
    """
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
        rank = _rank_of(node, [_rank_at(tensor, nodes, known) for tensor in data])
        if isinstance(rank, str):
            return rank
        known[node.name] = rank
        pending.pop()
    unused = next((node.op for node in function.node_def if node.name not in known and node.op not in ("NoOp", "Const")), None)
    if unused is not None:
        return f"it calls {unused}"
    if any(_rank_at(tensor, nodes, known) in (_SINGLE, _ARRAY, None) for tensor in function.ret.values()):
        return "one of its results is the same for every sample"
    return None


def _rank_at(tensor: str, nodes: Mapping[str, Any], known: Mapping[str, int]) -> int | None:
    """Rank of one tensor; a parser's outputs have each their own."""
    node = nodes.get(node_name(tensor))
    if node is not None and node.op == _PARSER:
        return len(node.attr["dense_shapes"].list.shape[int(tensor.split(":")[2])].dim)
    return known.get(node_name(tensor))


def _rank_of(node: Any, inputs: list[int | None]) -> int | str:
    """Rank of what a node makes of one sample, its batch dimension not counted; why not, where it cannot take a batch."""
    refused = f"it calls {node.op}"
    if node.op == "Const":
        return _ARRAY if node.attr["value"].tensor.tensor_shape.dim else _SINGLE
    if node.op == _PARSER:
        return _refuse_parser(node) or (_PARSED if inputs[0] == 0 else refused)
    if None in inputs or _ARRAY in inputs:
        return f"{refused} with an array that it made or captured"
    batched = {rank for rank in inputs if rank is not None and rank != _SINGLE}
    first = inputs[0] if inputs and inputs[0] is not None else _SINGLE
    if node.op in _OF_ONE and len(inputs) == 1:
        return first
    if node.op == "DecodeRaw" and inputs == [0]:
        return 1
    if node.op == "EnsureShape" and batched:
        if not node.attr["shape"].shape.unknown_rank:
            node.attr["shape"].shape.CopyFrom(_with_batch(node.attr["shape"].shape, -1))
        return first
    if node.op == "LookupTableFindV2" and inputs[0] == inputs[2] == _SINGLE and batched:
        return batched.pop()
    if node.op in _OF_SEVERAL:
        return (batched.pop() if batched else _SINGLE) if len(batched) <= 1 else f"{refused} with tensors of different ranks"
    return refused


def _refuse_parser(node: Any) -> str | None:
    if node.attr["num_sparse"].i or node.attr["ragged_value_types"].list.type:
        return "it parses sparse or ragged features"
    shapes = node.attr["dense_shapes"].list.shape
    if any(shape.unknown_rank or any(dim.size < 0 for dim in shape.dim) for shape in shapes):
        return "it parses features of varying length"
    return None


def _exchange(body: Body, first: Any, second: Any) -> None:
    """first, second -> second, first; who read from the second now reads from the first."""
    second.input[0], source = first.input[0], second.input[0]
    body.redirect(second.name, source, keep=[first.name])
    first.input[0] = body.tensor(second.name)


def _elements_before(body: Body, node: Any) -> Elements | str:
    source = body.input_of(node)
    if source is None:
        return "what the map reads comes from outside its function"
    if not {"output_types", "Toutput_types"} & set(source.attr) and kind_of(source.op) not in READERS:
        return f"TensorFlow does not say what elements {kind_of(source.op)} gives"
    return elements_of(source)


def _passed_on(function: Any) -> dict[int, int]:
    """Position of each result that is an argument as it came -> that argument's position."""
    nodes = {node.name: node for node in function.node_def}
    arguments = [argument.name for argument in function.signature.input_arg]
    found = {}
    for position, argument in enumerate(function.signature.output_arg):
        name = node_name(function.ret[argument.name])
        while name in nodes and nodes[name].op == "Identity":
            name = node_name(nodes[name].input[0])
        if name not in nodes and name in arguments:
            found[position] = arguments.index(name)
    return found


def _names_used(function: Any) -> set[str]:
    given = [tensor for node in function.node_def for tensor in node.input]
    return {node_name(tensor) for tensor in (*given, *function.ret.values())}


def _renamed(tensor: str, names: Mapping[str, str]) -> str:
    name, colon, rest = tensor.partition(":")
    return f"{names[name]}{colon}{rest}" if name in names else tensor


def _resource() -> int:
    from tensorflow.core.framework import types_pb2

    return int(types_pb2.DT_RESOURCE)


def _with_batch(shape: Any, size: int) -> Any:
    from tensorflow.core.framework import tensor_shape_pb2

    dims = [tensor_shape_pb2.TensorShapeProto.Dim(size=size), *shape.dim]
    return tensor_shape_pb2.TensorShapeProto(dim=dims)


def _cycle(body: Body) -> str | None:
    """Says so where TensorFlow's own ordering of stateful ops now contradicts the order of the data."""
    waiting = {name: {node_name(tensor) for tensor in node.input} & set(body.nodes) for name, node in body.nodes.items()}
    while ready := [name for name, needs in waiting.items() if not needs]:
        for name in ready:
            del waiting[name]
        for needs in waiting.values():
            needs.difference_update(ready)
    return "TensorFlow wants them to be made in this order" if waiting else None
