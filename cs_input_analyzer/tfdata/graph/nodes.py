"""Serialize a dataset by TensorFlow, and read its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

# TensorFlow's name for a host without a device. `tf.py_function` asks for it if devices are stripped; nothing runs there.
_STRIPPED_HOST = "/device::0"
_MAX_LIST_VALUES = 8


def graph_def_of(dataset: Any) -> Any:
    """Return the GraphDef of a dataset. The first version of the op takes stateful functions too, which the second refuses."""
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.ops import gen_dataset_ops

    serialized = gen_dataset_ops.dataset_to_graph(dataset._variant_tensor, allow_stateful=True, strip_device_assignment=True)
    graph_def = graph_pb2.GraphDef.FromString(serialized.numpy())
    for function in graph_def.library.function:
        for node in function.node_def:
            if node.device == _STRIPPED_HOST:
                node.device = ""
    return graph_def


def node_name(tensor: str) -> str:
    """Return the node of a tensor."""
    return tensor.split(":")[0].lstrip("^")


def sources_of(node: Any) -> list[str]:
    """Return the names of the nodes that a node gets data from; a control input carries none."""
    return [node_name(tensor) for tensor in node.input if not tensor.startswith("^")]


def reached_from(names: Iterable[str], following: Callable[[str], Iterable[str]]) -> list[str]:
    """Return these names, and all that follow from them, each once."""
    found: dict[str, None] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = None
            pending += following(name)
    return list(found)


def constant_of(node: Any) -> Any:
    """Return the array of a Const node, a number or a short list; None for anything else."""
    import tensorflow as tf

    if node is None or node.op != "Const":
        return None
    value = node.attr["value"].tensor
    if len(value.tensor_shape.dim) > 1 or any(dim.size > _MAX_LIST_VALUES for dim in value.tensor_shape.dim):
        return None
    try:
        return tf.make_ndarray(value)
    except (KeyError, TypeError, ValueError):  # resources and variants have no value to show
        return None


def functions_of(node: Any) -> list[str]:
    """Return the names of the functions that a node calls."""
    names = [value.func.name for value in node.attr.values() if value.HasField("func")]
    return names + [function.name for value in node.attr.values() for function in value.list.func]


def with_called(names: Iterable[str], functions: Mapping[str, Any]) -> list[Any]:
    """Return the functions of these names, and those that they call, each once."""

    def called_in(name: str) -> list[str]:
        return [called for node in functions[name].node_def for called in functions_of(node) if called in functions]

    return [functions[name] for name in reached_from((name for name in names if name in functions), called_in)]


def named_inputs(node: Any) -> dict[str, list[str]]:
    """Return input tensors by the argument names of the op's definition; by position where the op is unknown."""
    from tensorflow.python.framework import op_def_registry

    given = [name for name in node.input if not name.startswith("^")]
    definition = op_def_registry.get(node.op)
    if definition is None:
        return {f"input_{index}": [name] for index, name in enumerate(given)}
    named: dict[str, list[str]] = {}
    position = 0
    for argument in definition.input_arg:
        count = 1
        if argument.number_attr:
            count = int(node.attr[argument.number_attr].i)
        elif argument.type_list_attr:
            count = len(node.attr[argument.type_list_attr].list.type)
        named[argument.name] = given[position : position + count]
        position += count
    return named
