"""Read the ops of a GraphDef: every dataset op with its parameters, nested ones too, and its source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

from cs_input_analyzer.records import Op, Scalar
from cs_input_analyzer.tfdata.function_ops import does
from cs_input_analyzer.tfdata.graph.lines import SOURCE_NUMBER, Source, number_in_metadata
from cs_input_analyzer.tfdata.graph.nodes import (
    constant_of,
    functions_of,
    named_inputs,
    node_name,
    reached_from,
    sources_of,
    with_called,
)
from cs_input_analyzer.tfdata.op_kinds import is_dataset_op, kind_of, method_of
from cs_input_analyzer.tfdata.source.statements import code_at

AUTOTUNE = -1
# Inputs and attributes whose -1 means "TensorFlow chooses".
_AUTOTUNABLE = ("num_parallel_calls", "num_parallel_reads", "buffer_size", "cycle_length")
# Attributes that describe the work of an op. The others describe types and internals.
_ATTRIBUTES_OF_INTEREST = (
    *("deterministic", "drop_remainder", "reshuffle_each_iteration", "sloppy"),
    *("preserve_cardinality", "use_inter_op_parallelism", "parallel_copy"),
)
_WRAPPERS = ("Identity", "_Retval", "WrapDatasetVariant", "UnwrapDatasetVariant")


def ops_of(graph_def: Any) -> tuple[Op, ...]:
    """Return all dataset ops of a GraphDef, sources first; nested ones stand before the op whose function holds them."""
    return tuple(reader_of(graph_def).ops)


def reader_of(graph_def: Any, lines: Mapping[int, Source] | None = None, numbers: Mapping[str, int] | None = None) -> Reader:
    """Return a reader that has read the whole GraphDef: its `ops`, and their `places`.

    Args:
        lines: by serial number.
        numbers: of nodes at the top that have none in their metadata.
    """
    functions = {function.signature.name: function for function in graph_def.library.function}
    reader = Reader(functions=functions, lines=lines or {}, numbers=numbers or {})
    nodes = reader.top = {node.name: node for node in graph_def.node}
    for node in graph_def.node:
        if node.op == "_Retval":
            reader.read(node.input[0], nodes)
    return reader


class OpPlace(NamedTuple):
    """Hold the place of an op's node: the op whose function holds it, that function (both None at the top), the node's name."""

    within: str | None
    function: str | None
    node: str


# The place of a node: the op whose function holds it (None at the top), and that function's name.
_Scope = tuple[str | None, str]
_TOP: _Scope = (None, "")


@dataclass(slots=True)
class Reader:
    """Walk a GraphDef from its result back to the sources.

    `places` and `nodes` are those of the ops, by name; `top`: all nodes at the top.
    """

    functions: dict[str, Any]
    lines: Mapping[int, Source]
    numbers: Mapping[str, int]
    ops: list[Op] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    names: dict[tuple[_Scope, str], str] = field(default_factory=dict)
    places: dict[str, OpPlace] = field(default_factory=dict)
    nodes: dict[str, Any] = field(default_factory=dict)
    top: dict[str, Any] = field(default_factory=dict)

    def read(self, tensor: str, nodes: Mapping[str, Any], scope: _Scope = _TOP) -> str | None:
        """Read the op behind `tensor` and all its inputs, inputs first.

        Return the name of the op; None if the tensor is no dataset. It uses no recursion, for pipelines of any length.
        """
        pending = [(node_name(tensor), False)]
        while pending:
            key, is_expanded = pending.pop()
            node = nodes.get(key)
            if node is None or (scope, key) in self.names:
                continue
            inputs = sources_of(node)
            if not is_expanded:
                pending.append((key, True))
                if _may_lead_to_dataset(node):
                    pending += [(name, False) for name in reversed(inputs)]
                continue
            name = self._name_of(node, nodes, [self.names[scope, name] for name in inputs if (scope, name) in self.names], scope)
            if name is not None:
                self.names[scope, key] = name
        return self.names.get((scope, node_name(tensor)))

    def _name_of(self, node: Any, nodes: Mapping[str, Any], upstream: list[str], scope: _Scope) -> str | None:
        """Return the op that a node is, or passes on. A call (`tf.function`, `tf.cond`) passes on the result of its function."""
        if is_dataset_op(node.op):
            return self._add(node, nodes, upstream, scope)
        if _is_call(node):
            results = [name for function in self._functions_of(node) if (name := self._read_function(function, scope[0]))]
            return next(iter([*results, *upstream]), None)
        if upstream and _may_lead_to_dataset(node) and node.op not in _WRAPPERS:
            return self._add(node, nodes, upstream, scope)
        return upstream[0] if upstream else None

    def _add(self, node: Any, nodes: Mapping[str, Any], upstream: list[str], scope: _Scope) -> str:
        from tensorflow.core.framework import types_pb2

        method = method_of(kind_of(node.op))
        self.counts[method] = self.counts.get(method, 0) + 1
        name = method if self.counts[method] == 1 else f"{method}_{self.counts[method]}"
        self.places[name] = OpPlace(scope[0], scope[1] or None, node.name)
        self.nodes[name] = node
        functions = self._functions_of(node)
        for function in functions:
            self._read_function(function, name)
        bodies = with_called(functions_of(node), self.functions)
        called = Counter(node.op for body in bodies for node in body.node_def if node.op not in ("Const", "Identity", "NoOp"))
        within = [node for body in bodies for node in body.node_def]
        given = [nodes[key] for key in map(node_name, node.input) if key in nodes]
        # Texts are names of files as a rule.
        numbers = (one for one in (*given, *within) if one.op == "Const" and one.attr["dtype"].type != types_pb2.DT_STRING)
        number = number_in_metadata(node)
        if number is None and SOURCE_NUMBER in node.attr:
            number = node.attr[SOURCE_NUMBER].i
        if number is None and scope == _TOP:
            number = self.numbers.get(node.name)
        built = self.lines.get(number) if number is not None else None
        source = (built.line or None) if built else None
        library = built.library_of(kind_of(node.op)) if built else None
        code, ignored = code_at(source)
        self.ops.append(
            Op(
                name=name,
                kind=kind_of(node.op),
                source=source,
                library_source=library,
                inputs=tuple(upstream),
                parameters=_parameters(node, nodes) | self._key_of(node),
                within=scope[0],
                function_ops=tuple(sorted(called)),
                shared=_shared(functions),
                constant_bytes=sum(len(one.attr["value"].tensor.tensor_content) for one in numbers),
                is_seeded=any(_seed_of(node) for node in within),
                draws_alike=any(map(_draws_alike, bodies)),
                code=None if library else code,  # it holds the call of the library, not of this op
                ignored=ignored,
            )
        )
        return name

    def _key_of(self, node: Any) -> dict[str, Scalar]:
        """Return whether the groups of a `group_by_window` have a component of the element for their key."""
        if kind_of(node.op) != "GroupByWindow" or node.attr["key_func"].func.name not in self.functions:
            return {}
        function = self.functions[node.attr["key_func"].func.name]
        inner = {one.name: one for one in function.node_def}
        (result,) = list(function.ret.values())[:1] or ("",)
        while (one := inner.get(node_name(result))) is not None and one.op in ("Identity", "Cast"):
            result = one.input[0]
        return {"key_is_component": node_name(result) in {argument.name for argument in function.signature.input_arg}}

    def _functions_of(self, node: Any) -> list[Any]:
        return [self.functions[name] for name in functions_of(node) if name in self.functions]

    def _read_function(self, function: Any, within: str | None) -> str | None:
        """Read the dataset ops of a function's body. Return the op of its result; None without one."""
        nodes = {node.name: node for node in function.node_def}
        scope = (within, function.signature.name)
        for node in function.node_def:
            if is_dataset_op(node.op) or _is_call(node):
                self.read(node.name, nodes, scope)
        results = [self.read(tensor, nodes, scope) for tensor in function.ret.values()]
        return next((name for name in results if name is not None), None)


def _seed_of(node: Any) -> tuple[str, int, int] | None:
    """Return the kind and the seed of a draw that keeps a state; None for other ops and for draws without a seed."""
    if not does(node.op, "draws") or not {"seed", "seed2"} <= set(node.attr):  # asking for one would add it
        return None
    seeds = node.attr["seed"].i, node.attr["seed2"].i
    return (node.op, *seeds) if any(seeds) else None


def _draws_alike(function: Any) -> bool:
    """Return whether two draws by one seed lead to different results of a function, and none of these comes from both."""
    seeds = {node.name: seed for node in function.node_def if (seed := _seed_of(node)) is not None}
    if len(set(seeds.values())) == len(seeds):
        return False
    takers: dict[str, set[str]] = {}
    for node in function.node_def:
        for name in sources_of(node):
            takers.setdefault(name, set()).add(node.name)
    ends: dict[str, set[str]] = {}
    for name in seeds:
        reached = set(reached_from([name], lambda one: takers.get(one, ())))
        ends[name] = {key for key, tensor in function.ret.items() if node_name(tensor) in reached}
    return any(
        bool(ends[one]) and bool(ends[other]) and ends[one].isdisjoint(ends[other])
        for one, other in combinations(seeds, 2)
        if seeds[one] == seeds[other]
    )


def _shared(functions: list[Any]) -> tuple[str, ...]:
    """Return `Op.shared`. Ops that pass numbers on one by one, such as casts, do not count."""
    found: set[str] = set()
    for function in functions:
        kinds = {node.name: node.op for node in function.node_def} | {one.name: "argument" for one in function.signature.input_arg}
        takers: dict[str, list[str]] = {name: [] for name in kinds}
        for node in function.node_def:
            if not does(node.op, "asks shape"):
                for name in set(sources_of(node)) & takers.keys():
                    takers[name].append(node.name)
        for tensor in function.ret.values():
            takers.setdefault(node_name(tensor), []).append("")
        for name, kind in kinds.items():
            last, seen = name, {name}
            while (
                len(takers[last]) == 1 and (follower := takers[last][0]) not in seen and does(kinds.get(follower, ""), "same size")
            ):
                last = follower
                seen.add(last)
            if len(takers[last]) > 1:
                found.add(kind)
    return tuple(sorted(found - {"Const"}))


def _is_call(node: Any) -> bool:
    """Return whether the op calls functions of the graph and may return a dataset: `PartitionedCall`, `If`, `Case`, `While`."""
    from tensorflow.core.framework import types_pb2

    if is_dataset_op(node.op) or not any(value.HasField("func") or value.list.func for value in node.attr.values()):
        return False
    return any(types_pb2.DT_VARIANT in node.attr[name].list.type for name in ("Tout", "T") if name in node.attr)


def _may_lead_to_dataset(node: Any) -> bool:
    """Return whether the op can carry a dataset: it gives a variant, passes one on, or belongs to an unknown library."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import op_def_registry

    if _is_call(node):
        return True

    definition = op_def_registry.get(node.op)
    is_variant = definition is None or any(output.type == types_pb2.DT_VARIANT for output in definition.output_arg)
    return is_variant or node.op in _WRAPPERS


def _parameters(node: Any, nodes: Mapping[str, Any]) -> dict[str, Scalar | tuple[Scalar, ...]]:
    """Return constants and attributes of an op; of arrays that are sliced, the number of elements."""
    found: dict[str, Scalar | tuple[Scalar, ...]] = {}
    first = next(iter(sources_of(node)), "")
    if kind_of(node.op) == "TensorSlice" and first in nodes and nodes[first].op == "Const":
        dims = nodes[first].attr["value"].tensor.tensor_shape.dim
        found |= {"elements": dims[0].size} if dims else {}
    for argument, tensors in named_inputs(node).items():
        if len(tensors) == 1:
            array = constant_of(nodes.get(node_name(tensors[0])))
            if array is None or array.size == 0:
                continue
            values = tuple(map(_as_scalar, array.ravel().tolist()))
            value = values if array.ndim else values[0]
            found[argument] = "AUTOTUNE" if value == AUTOTUNE and argument in _AUTOTUNABLE else value
    for attribute in _ATTRIBUTES_OF_INTEREST:
        if attribute in node.attr:
            value_of = node.attr[attribute]
            found[attribute] = value_of.s.decode(errors="replace") if value_of.WhichOneof("value") == "s" else bool(value_of.b)
    if "serialized_options" in node.attr:
        found |= _options_set(node.attr["serialized_options"].s)
    return found


def _as_scalar(value: Any) -> Scalar:
    """Return a value of a constant as a report can hold it: one of a rare type, such as a complex number, as text."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str | int | float | bool) else str(value)


def _options_set(serialized: bytes) -> dict[str, Scalar | tuple[Scalar, ...]]:
    """Return the settings of a `tf.data.Options`, named as users write them, such as `threading.private_threadpool_size`."""
    from tensorflow.core.framework import dataset_options_pb2

    def visit(message: Any, path: str) -> Iterator[tuple[str, Scalar]]:
        for field_, value in message.ListFields():  # a field that was set is listed even where its value is 0 or False
            name = f"{path}{field_.name.removesuffix('_options')}"
            if field_.type == field_.TYPE_MESSAGE and hasattr(value, "ListFields"):
                yield from visit(value, f"{name}.")
            elif isinstance(value, str | int | float | bool):
                yield name, value

    return dict(visit(dataset_options_pb2.Options.FromString(serialized), ""))
