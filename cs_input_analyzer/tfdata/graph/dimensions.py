"""Follow the dimensions that batching ops make through the functions of a pipeline, by TensorFlow's shape inference.

Each layer (see `tfdata.layers`) gets its own length, a large prime times its real one. So the length of a function's result tells
its layers. A divisor of the real length also divides this one: a function may split a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.function_ops import does
from cs_input_analyzer.tfdata.graph.nodes import functions_of, named_inputs, node_name, reached_from, sources_of, with_called
from cs_input_analyzer.tfdata.graph.ops import Reader
from cs_input_analyzer.tfdata.layers import (
    OWN,
    REST,
    UNKNOWN,
    Element,
    Labels,
    Shape,
    Walk,
    factor_of,
    layers_of,
    side_by_side,
    size_of,
)
from cs_input_analyzer.tfdata.op_kinds import MAPS

_PRIMES = (10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079)
# Real length of a layer if the graph does not tell it. Most numbers that split a batch divide this one.
_OPEN_LENGTH = 5040
# Each gives what a function makes of each element.
_WITH_FUNCTION = MAPS | {"MapAndBatch", "Scan", "ParseExample"}
# A larger function is not looked through.
_MOST_NODES = 20_000


def with_dimensions(reader: Reader) -> tuple[Op, ...]:
    """Return the ops of the reader, with `dimensions` if their functions, or a `zip`, decide which layers show."""
    ops = list(reader.ops)
    walk = Walk(ops)
    for place, op in enumerate(ops):
        found: tuple[Labels | None, ...] | None = None
        given = [walk.given(name) for name in op.inputs if name in walk.passing]
        if op.kind == "Zip" and len(given) == len(op.inputs) and any(element.layers for element in given):
            counts = [len(shapes_of(reader.nodes[name])) for name in op.inputs]
            each = [replace(one, labels=one.labels_of_each(count)) for one, count in zip(given, counts, strict=True)]
            joined = side_by_side(each)
            found = joined if len(set(joined)) > 1 else None
        elif op.kind in ("Tensor", "TensorSlice") and op.within is not None and not op.inputs:
            outer = walk.outer(op)
            if outer is not None and outer.layers and not outer.is_window:
                found = _of_source(op, outer, reader)
        elif op.kind in _WITH_FUNCTION and given and given[0].layers and not given[0].is_window:
            found = _of_function(op, given[0], reader)
        ops[place] = op = op if found is None else replace(op, dimensions=found)
        walk.add(op)
    return tuple(ops)


def _of_function(op: Op, element: Element, reader: Reader) -> tuple[Labels | None, ...]:
    """Return the result of an op's function for an element."""
    node, given = reader.nodes[op.name], shapes_of(reader.nodes[op.inputs[0]])
    shapes = shapes_of(node)
    if op.kind == "ParseExample":
        return (element.labels_of_each(len(given))[0][:1],) * len(shapes)
    called = next((reader.functions[name] for name in functions_of(node) if name in reader.functions), None)
    if called is None:
        return (None,) * len(shapes)
    states = len(node.attr["Tstate"].list.type) if op.kind == "Scan" else 0
    targets = [called.ret[one.name] for one in called.signature.output_arg][states:]
    arguments = [*[None] * states, *_lengthened(element, given)]
    is_batched = op.kind == "MapAndBatch"
    traced = [None if shape is None else shape[1:] for shape in shapes] if is_batched else shapes
    captured: dict[int, Any] = {}  # constants that the function takes besides elements, by their number among these
    for number, tensor in enumerate(named_inputs(node).get("other_arguments", []) if op.within is None else ()):
        constant = reader.top.get(node_name(tensor))
        if constant is not None and constant.op == "Const":
            captured[number] = constant
    found = _looked_through(called, arguments, targets, traced, element, reader.functions, captured)
    return tuple((op.name, *(one or (REST,))) for one in found) if is_batched else tuple(found)


def _of_source(op: Op, outer: Element, reader: Reader) -> tuple[Labels | None, ...]:
    """Return the result of a `from_tensor_slices` or `from_tensors` in a function, for the tensors of the function."""
    shapes = shapes_of(reader.nodes[op.name])
    place = reader.places[op.name]
    function = reader.functions.get(place.function or "")
    holder = reader.nodes.get(op.within or "")
    inputs = [name for one in reader.ops if one.name == op.within for name in one.inputs]
    given = next((reader.nodes[name] for name in inputs if name in reader.nodes), None)
    if function is None or holder is None or given is None or functions_of(holder)[:1] != [place.function]:
        return (None,) * len(shapes)
    targets = named_inputs(reader.nodes[op.name]).get("components", [])
    sliced = 1 if op.kind == "TensorSlice" else 0
    wanted: list[Shape] = [None if shape is None else ((None,) * sliced + shape) for shape in shapes]
    arguments = _lengthened(outer, shapes_of(given))
    labels = _looked_through(function, arguments, targets, wanted, outer, reader.functions, {})
    return tuple(one if one is None or one[:1] == (REST,) else one[sliced:] for one in labels)


def shapes_of(node: Any) -> list[Shape]:
    """Return static shapes of the tensors of a dataset's elements."""
    return [
        None if shape.unknown_rank else tuple(None if dim.size < 0 else dim.size for dim in shape.dim)
        for shape in node.attr["output_shapes"].list.shape
    ]


def _lengths(element: Element) -> dict[str, tuple[int, int]]:
    """Return each layer's prime and real length."""
    named = {name for labels in element.labels for label in labels for name in layers_of(label)}
    ops = [op for op in reversed(element.layers) if op.name in named]
    return {op.name: (prime, size_of(op) or _OPEN_LENGTH) for op, prime in zip(ops, _PRIMES, strict=False)}


def _lengthened(element: Element, shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes, with the length of each labelled dimension set to that of its layers."""
    lengths = _lengths(element)
    found: list[Shape] = []
    for shape, labels in zip(shapes, element.labels_of_each(len(shapes)), strict=True):
        if shape is None:
            found.append(None)
            continue
        dims = list(shape)
        for place, label in enumerate(labels[: len(dims)]):
            names = layers_of(label)
            if label in (UNKNOWN, REST):
                dims[place] = None
            elif names:
                factor = factor_of(label) * prod(prod(lengths[name]) for name in names if name in lengths)
                is_known = all(name in lengths for name in names) and factor.denominator == 1
                dims[place] = int(factor) if is_known else None
        found.append(tuple(dims))
    return found


def _looked_through(
    function: Any,
    arguments: Sequence[Shape],
    targets: Sequence[str],
    traced: Sequence[Shape],
    element: Element,
    functions: Mapping[str, Any],
    captured: Mapping[int, Any],
) -> list[Labels | None]:
    """Return labels of the tensors `targets` in a function that gets `arguments`. `traced`: shapes in the function as it is."""
    try:
        inferred = _inferred(function, arguments, targets, functions, captured)
    except Exception:  # shapes that were fixed when it was traced do not fit: what TensorFlow raises then has many types
        inferred = None
    if inferred is None or len(inferred) != len(traced):
        return [_unknown(shape) for shape in traced]
    lengths = _lengths(element)
    return [
        None if one.is_composite else _labels(one.shape, shape, one.is_opaque, lengths)
        for one, shape in zip(inferred, traced, strict=True)
    ]


def _unknown(traced: Shape) -> Labels | None:
    """Return labels of a tensor of which only the shape in the user's function is known."""
    return None if traced is None else (UNKNOWN,) * len(traced)


def _labels(shape: Shape, traced: Shape, is_opaque: bool, lengths: Mapping[str, tuple[int, int]]) -> Labels | None:
    if shape is None:
        return _unknown(traced)
    whole = (None,) * len(shape) if traced is None or len(traced) != len(shape) else traced
    sizes = {size for _, size in lengths.values()}
    found = [_label(length, was, is_opaque, lengths) for length, was in zip(shape, whole, strict=True)]
    is_part = any("/" in label or label.rpartition("*")[2].isdigit() for label in found)
    fixed = [place for place, label in enumerate(found) if label == OWN and whole[place] in sizes and (whole[place] or 0) > 1]
    if is_part and fixed:  # the length of the batch was written into the function: the other dimension took up the prime
        return _unknown(shape)
    return tuple(found)


def _label(length: int | None, was: int | None, is_opaque: bool, lengths: Mapping[str, tuple[int, int]]) -> str:
    if length is None:
        return UNKNOWN
    names, rest, unit = [], length, 1
    for name, (prime, size) in lengths.items():
        if length and rest % prime == 0:
            names.append(name)
            rest //= prime
            unit *= size
    if not names:
        may_be_layer = is_opaque and any(length % size == 0 or size % max(1, length) == 0 for _, size in lengths.values())
        return OWN if length == was and not (may_be_layer and length > 1) else UNKNOWN
    label = "*".join(names)
    if rest == unit:
        return label
    if rest % unit == 0:
        return f"{label}*{rest // unit}"
    return f"{label}/{unit // rest}" if unit % rest == 0 else UNKNOWN


@dataclass(frozen=True, slots=True)
class _Inferred:
    """Hold the shape of a tensor. `is_composite`: it holds a ragged or sparse one. `is_opaque`: an op before it hides its work."""

    shape: Shape
    is_composite: bool
    is_opaque: bool


def _inferred(
    function: Any,
    arguments: Sequence[Shape],
    targets: Sequence[str],
    functions: Mapping[str, Any],
    captured: Mapping[int, Any],
) -> list[_Inferred]:
    """Return shapes of tensors of a function whose first arguments have these shapes. Raise TensorFlow's errors."""
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.framework import importer

    nodes, flat = _inlined(function, functions)
    names = [one.name for one in function.signature.input_arg]
    for number, name in enumerate(names):
        if number < len(arguments):
            nodes[name].attr["shape"].shape.CopyFrom(tf.TensorShape(arguments[number]).as_proto())
        elif number - len(arguments) in captured:
            constant = captured[number - len(arguments)]
            nodes[name].CopyFrom(constant)
            nodes[name].name = name
        else:
            nodes[name].attr["shape"].shape.unknown_rank = True
    wanted = [flat[target] for target in targets]
    needed = [
        set(reached_from([node_name(one)], lambda name: [source for source in sources_of(nodes[name]) if source in nodes]))
        for one in wanted
    ]
    graph_def = graph_pb2.GraphDef()
    kept = set[str]().union(*needed) if needed else set[str]()
    graph_def.node.extend(node for name, node in nodes.items() if name in kept)
    for node in graph_def.node:
        node.attr.pop("_output_shapes", None)
        node.device = ""
        for place in reversed([place for place, name in enumerate(node.input) if name.startswith("^")]):
            del node.input[place]
    graph_def.library.function.extend(with_called((name for node in graph_def.node for name in functions_of(node)), functions))
    with tf.Graph().as_default():
        tensors = importer.import_graph_def(graph_def, name="", return_elements=wanted)
    return [
        _Inferred(
            None if tensor.shape.rank is None else tuple(tensor.shape.as_list()),
            tensor.dtype == tf.variant,
            any(does(nodes[name].op, "opaque", "calls") for name in behind),
        )
        for tensor, behind in zip(tensors, needed, strict=True)
    ]


def _inlined(
    function: Any, functions: Mapping[str, Any], prefix: str = "", depth: int = 0
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the nodes of a function and of the functions that it calls, by name, and the tensors that its own names mean."""
    from tensorflow.python.framework import function_def_to_graph as converting

    graph_def, flat = converting.function_def_to_graph_def(function)
    nodes: dict[str, Any] = {}
    for node in graph_def.node:
        node.name = prefix + node.name
        for place, name in enumerate(node.input):
            node.input[place] = f"^{prefix}{name[1:]}" if name.startswith("^") else prefix + name
        nodes[node.name] = node
    flat = {own: prefix + tensor for own, tensor in flat.items()}
    moved: dict[str, str] = {}
    for name, node in list(nodes.items()):
        called = functions.get(node.attr["f"].func.name) if does(node.op, "calls") else None
        if called is None or depth > 16 or len(nodes) > _MOST_NODES:
            continue
        inner, results = _inlined(called, functions, f"{name}/", depth + 1)
        for argument, tensor in zip(
            called.signature.input_arg, [one for one in node.input if not one.startswith("^")], strict=True
        ):
            given = inner[f"{name}/{argument.name}"]
            kind = given.attr["dtype"].type
            given.Clear()
            given.name, given.op = f"{name}/{argument.name}", "Identity"
            given.input.append(tensor)
            given.attr["T"].type = kind
        for number, result in enumerate(called.signature.output_arg):
            moved[f"{name}:{number}"] = results[called.ret[result.name]]
            if number == 0:
                moved[name] = moved[f"{name}:0"]
        nodes |= inner
        del nodes[name]
    if moved:
        for node in nodes.values():
            for place, tensor in enumerate(node.input):
                while tensor in moved:
                    tensor = moved[tensor]
                node.input[place] = tensor
        flat = {own: moved.get(tensor, tensor) for own, tensor in flat.items()}
    return nodes, flat
