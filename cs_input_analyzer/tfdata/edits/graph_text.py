"""Read and change the text of a tf.data graph: nodes, functions, elements, and bodies.

A GraphDef has a body at its top and one in each function. The two name tensors differently (`node:0` and `node:handle:0`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from cs_input_analyzer.tfdata.graph import constant_of, named_inputs, node_name, reached_from, with_called
from cs_input_analyzer.tfdata.op_kinds import FILE_READERS, is_dataset_op, kind_of

# TensorSpecs of an element's tensors, in flattening order.
Elements = tuple[Any, ...]


def rename_functions(node: Any, names: Mapping[str, str]) -> None:
    """Replace names of functions in the attributes of a node."""
    functions = [value.func for value in node.attr.values() if value.HasField("func")]
    for function in (*functions, *(function for value in node.attr.values() for function in value.list.func)):
        function.name = names.get(function.name, function.name)


def elements_of(node: Any) -> Elements:
    """Return the elements that an op declares; one string for readers without a declaration."""
    import tensorflow as tf

    types = next((node.attr[name].list.type for name in ("output_types", "Toutput_types") if name in node.attr), ())
    if not types:
        return (tf.TensorSpec((), tf.string),)
    shapes = node.attr["output_shapes"].list.shape
    return tuple(tf.TensorSpec(shape, dtype) for dtype, shape in zip(types, shapes, strict=True))


def says_elements(node: Any) -> bool:
    """Return whether the types of an op's elements are known. Readers give strings and need not declare it."""
    return bool({"output_types", "Toutput_types"} & set(node.attr)) or kind_of(node.op) in FILE_READERS


def set_elements(node: Any, elements: Elements) -> None:
    """Declare the types and shapes of an op's elements."""
    node.attr.pop("_output_shapes", None)
    set_values(node.attr["output_types"].list.type, [spec.dtype.as_datatype_enum for spec in elements])
    set_values(node.attr["output_shapes"].list.shape, [spec.shape.as_proto() for spec in elements])


def set_values(repeated: Any, values: Iterable[Any]) -> None:
    """Replace the content of a repeated field."""
    del repeated[:]
    repeated.extend(values)


def spec_of(elements: Elements) -> Any:
    """Return the element spec of a dataset of these: a tensor, or a flat tuple of several."""
    return elements[0] if len(elements) == 1 else elements


def dataset_of(graph_def: Any, spec: Any, options: Any) -> Any:
    """Return the dataset that a GraphDef describes."""
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    variant = tf.raw_ops.DatasetFromGraph(graph_def=graph_def.SerializeToString())
    dataset = dataset_ops._VariantDataset(variant, spec)
    return dataset if options == tf.data.Options() else dataset.with_options(options)


@dataclass(slots=True, kw_only=True)
class Body:
    """Hold the nodes of the graph's top, or of one private function; changed in place. `function` is None at the top."""

    nodes: dict[str, Any]
    function: Any = None

    def tensor(self, name: str, output: str = "handle") -> str:
        """Return the name by which an input refers to the (first) output of a node here."""
        return name if self.function is None else f"{name}:{output}:0"

    def needed(self, names: Iterable[str]) -> list[Any]:
        """Return the nodes of these names and all that they depend on, in the body's order."""

        def before(name: str) -> list[str]:
            return [source for source in map(node_name, self.nodes[name].input) if source in self.nodes]

        found = set(reached_from((name for name in names if name in self.nodes), before))
        return [node for name, node in self.nodes.items() if name in found]

    def end_at(self, tensor: str) -> None:
        """Make a tensor the result of the graph's top. Remove nodes that it does not need."""
        result = next(node for node in self.nodes.values() if node.op == "_Retval")
        result.input[0] = tensor
        self.nodes = {node.name: node for node in self.needed([result.name])}

    def add(self, op: str, inputs: Iterable[str], attributes: Mapping[str, Any] | None = None) -> Any:
        """Return a new node under a new name."""
        from tensorflow.core.framework import node_def_pb2

        name = next(name for number in count() if (name := f"csia_{op}_{number}") not in self.nodes)
        node = node_def_pb2.NodeDef(name=name, op=op, input=list(inputs))
        for key, value in (attributes or {}).items():
            node.attr[key].CopyFrom(value)
        self.nodes[name] = node
        return node

    def constant(self, value: object, dtype: Any = "int64") -> str:
        """Add a Const, and return its tensor."""
        import tensorflow as tf
        from tensorflow.core.framework import attr_value_pb2

        attributes = {
            "dtype": attr_value_pb2.AttrValue(type=tf.dtypes.as_dtype(dtype).as_datatype_enum),
            "value": attr_value_pb2.AttrValue(tensor=tf.make_tensor_proto(value, tf.dtypes.as_dtype(dtype))),
        }
        return self.tensor(self.add("Const", (), attributes).name, "output")

    def value_of(self, tensor: str) -> Any:
        """Return the Python value of a scalar constant (bytes for a string), through identities; None for anything else."""
        array = constant_of(self._behind_identities(tensor))
        return array.item() if array is not None and array.ndim == 0 else None

    def argument(self, node: Any, name: str) -> Any:
        """Return the constant argument of an op; None if it is no constant, or the op has no such input."""
        given = named_inputs(node).get(name, [])
        return self.value_of(given[0]) if len(given) == 1 else None

    def set_argument(self, node: Any, name: str, tensor: str) -> None:
        """Give an op another input."""
        position = 0
        for argument, tensors in named_inputs(node).items():
            if argument == name:
                node.input[position] = tensor
                return
            position += len(tensors)
        raise KeyError(f"{node.op} has no input {name}")

    def input_of(self, node: Any) -> Any:
        """Return the node of the dataset that an op reads first, through identities. None if it comes from outside."""
        found = self._behind_identities(node.input[0]) if node.input else None
        return found if found is not None and is_dataset_op(found.op) else None

    def datasets_of(self, node: Any) -> list[Any]:
        """Return the nodes of all datasets that an op reads, through identities. Leave out those that come from outside."""
        sources = [self._behind_identities(given) for given in node.input if not given.startswith("^")]
        return [source for source in sources if source is not None and is_dataset_op(source.op)]

    def _behind_identities(self, tensor: str) -> Any:
        node = self.nodes.get(node_name(tensor))
        while node is not None and node.op == "Identity":
            node = self.nodes.get(node_name(node.input[0]))
        return node

    def readers_of(self, name: str) -> list[Any]:
        """Return the nodes that take a tensor from a node, not only an order."""
        taken = [(node, tensor) for node in self.nodes.values() for tensor in node.input if not tensor.startswith("^")]
        return [node for node, tensor in taken if node_name(tensor) == name]

    def result(self) -> Any:
        """Return the node whose dataset the graph's top gives; None if that comes from a call."""
        return next(self.input_of(node) for node in self.nodes.values() if node.op == "_Retval")

    def redirect(self, name: str, tensor: str, keep: Iterable[str] = ()) -> None:
        """Replace node `name` by `tensor` for all that take a tensor from it, also the body's result. Leave out those in `keep`."""
        for node in self.nodes.values():
            if node.name in keep:
                continue
            for index, given in enumerate(node.input):
                if not given.startswith("^") and node_name(given) == name:
                    node.input[index] = tensor
        if self.function is not None:
            for key, given in self.function.ret.items():
                if node_name(given) == name:
                    self.function.ret[key] = tensor


@dataclass(slots=True, kw_only=True)
class GraphText:
    """Hold a GraphDef with its top and its functions as bodies.

    `functions`: the original ones; changed copies are added when it is written.
    """

    graph_def: Any
    top: Body
    functions: dict[str, Any]
    own: dict[str, Body] = field(default_factory=dict)

    @classmethod
    def of(cls, graph_def: Any) -> GraphText:
        """Read a GraphDef."""
        functions = {function.signature.name: function for function in graph_def.library.function}
        nodes = {node.name: deepcopy(node) for node in graph_def.node}
        return cls(graph_def=graph_def, top=Body(nodes=nodes), functions=functions)

    def own_copy(self, function: str) -> Body:
        """Return a copy of a function for one caller, as a body under a new name."""
        copy = deepcopy(self.functions[function])
        copy.signature.name = f"{function}_edited_{len(self.functions)}"
        self.functions[copy.signature.name] = copy
        return self.open(copy.signature.name)

    def open(self, function: str) -> Body:
        """Return a function's nodes, to be changed for all callers."""
        definition = self.functions[function]
        return self.own.setdefault(function, Body(nodes={node.name: node for node in definition.node_def}, function=definition))

    def called_by(self, functions: Iterable[str]) -> Iterator[Any]:
        """Yield every node of these functions and of all that they call, also of datasets inside them."""
        for function in with_called(functions, self.functions):
            yield from function.node_def

    def written(self) -> Any:
        """Return the GraphDef with all changes."""
        for body in self.own.values():
            set_values(body.function.node_def, [deepcopy(node) for node in body.nodes.values()])
        written = deepcopy(self.graph_def)
        set_values(written.node, self.top.nodes.values())
        set_values(written.library.function, self.functions.values())
        return written
