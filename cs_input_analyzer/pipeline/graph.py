"""Dataset -> PipelineGraph: every op with its parameters, nested ones too, and the user's line that made it.

TensorFlow serializes a Dataset as a GraphDef (`DatasetToGraph`), which holds everything but where each op came from. So while the
input function runs, `recorded_sources` puts a serial number into the metadata name that every dataset op carries, and remembers the
user's line for it; the number comes back out of the GraphDef, also from inside the functions of `interleave` and `flat_map`.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from cs_input_analyzer.pipeline.op_kinds import is_dataset_op, kind_of, method_of
from cs_input_analyzer.pipeline.samples import samples_per_element_of
from cs_input_analyzer.pipeline.source.statements import code_at, is_installed
from cs_input_analyzer.pipeline.threads import inside, reader_ops
from cs_input_analyzer.records import Component, FileSet, Op, PipelineGraph, SamplesPerElement, Scalar

AUTOTUNE = -1
# Inputs and attributes whose -1 means "TensorFlow chooses".
_AUTOTUNABLE = ("num_parallel_calls", "num_parallel_reads", "buffer_size", "cycle_length")
# Attributes that say what an op does; the rest describe types and plumbing.
_TELLING_ATTRIBUTES = (
    "deterministic",
    "drop_remainder",
    "reshuffle_each_iteration",
    "sloppy",
    "preserve_cardinality",
    "use_inter_op_parallelism",
    "parallel_copy",
)
_WRAPPERS = ("Identity", "_Retval", "WrapDatasetVariant", "UnwrapDatasetVariant")
# What only asks for the shape of a tensor, and what gives one of the same size, pixel by pixel.
_ASKS_SHAPE = frozenset({"Shape", "ShapeN", "Rank", "Size"})
_SAME_SIZE = frozenset({"Cast", "Mul", "Sub", "AddV2", "RealDiv", "Div", "EnsureShape", "Maximum", "Minimum", "Identity"})
# What TensorFlow makes of a host without a device, which `tf.py_function` asks for, where it strips devices: nothing runs there.
_STRIPPED_HOST = "/device::0"
_MAX_FILES = 1_000_000
_MAX_LIST_VALUES = 8
# The name under which a dataset, or its op, keeps its serial number.
SOURCE_NUMBER = "_csia_source"
_TAG = re.compile(r"#csia(\d+)$")
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_TENSORFLOW = ("cs_input_analyzer", "tensorflow")
_LIBRARIES = (*_TENSORFLOW, "keras", "tf_keras", "tensorflow_datasets")


class Source(NamedTuple):
    """Where a dataset was built, as `path:line`: the innermost line of the user's own code (empty where there is none), and that of
    the installed package between it and TensorFlow, None where the user called TensorFlow."""

    line: str
    library: str | None


@dataclass(slots=True)
class SourceLog:
    """Lines seen so far: serial number of a dataset -> where it was built. Filled while the input function runs."""

    lines: dict[int, Source] = field(default_factory=dict)

    def note(self) -> int:
        """Writes down where the running code was called from; gives its number."""
        number = len(self.lines)
        self.lines[number] = where_built()
        return number


@contextmanager
def recorded_sources() -> Iterator[SourceLog]:
    """While open, every Dataset that is built gets a serial number and its user's source line in the log.

    The number is in the metadata of the op. Ops without metadata (legacy ones, `rebatch`, `list_files` and others) have it in an
    attribute of their own inside of functions, and at the top, where TensorFlow drops attributes that it does not know, in the
    Python object.
    """
    import tensorflow as tf
    from tensorflow.core.framework import attr_value_pb2
    from tensorflow.python.data.ops import dataset_ops

    log = SourceLog()
    original, initialize, reduce = dataset_ops.DatasetV2._metadata, dataset_ops.DatasetV2.__init__, dataset_ops.DatasetV2.reduce

    def tagged(dataset: Any) -> Any:
        metadata = original.fget(dataset)
        metadata.name = f"{metadata.name}#csia{log.note()}".encode()
        return metadata

    def number_in_graph(tensor: Any, number: int) -> None:
        operation = None if hasattr(tensor, "numpy") else tensor.op
        if operation is not None and is_dataset_op(operation.type) and SOURCE_NUMBER not in operation.node_def.attr:
            operation._set_attr(SOURCE_NUMBER, attr_value_pb2.AttrValue(i=number))

    def noted(dataset: Any, variant_tensor: Any) -> None:
        initialize(dataset, variant_tensor)
        number = log.note()
        setattr(dataset, SOURCE_NUMBER, number)
        number_in_graph(variant_tensor, number)

    def reduced(dataset: Any, *args: Any, **kwargs: Any) -> Any:  # gives no Dataset, and so has no metadata of one
        result = reduce(dataset, *args, **kwargs)
        for tensor in tf.nest.flatten(result, expand_composites=True)[:1]:
            number_in_graph(tensor, log.note())
        return result

    cls = dataset_ops.DatasetV2
    cls._metadata, cls.__init__, cls.reduce = property(tagged), noted, reduced
    try:
        yield log
    finally:
        cls._metadata, cls.__init__, cls.reduce = original, initialize, reduce


def read_graph(
    dataset: Any,
    log: SourceLog,
    *,
    target: str,
    said: int | None = None,
    params_sizes: Sequence[int] = (),
    demand_size: int | None = None,
    redirected: tuple[str, ...] = (),
) -> PipelineGraph:
    """The graph of `dataset`, a `tf.data.Dataset` built under `recorded_sources`. Iterates nothing, reads file sizes only.

    `said`, `params_sizes`, `demand_size`: of samples, as `samples_per_element_of` takes them.
    """
    import tensorflow as tf

    graph_def = graph_def_of(dataset)
    own = {name: _file_set(sized) for name, sized in files_by_reader(graph_def).items()}
    found = ops_of(graph_def, log.lines, _numbers_at_top(graph_def, dataset, log.lines))
    ops = tuple(replace(op, files=own.get(op.name)) for op in found)
    spec = element_components(dataset.element_spec)
    cardinality = int(dataset.cardinality())
    samples = samples_per_element_of(ops, spec, said=said, params_sizes=params_sizes, demand_size=demand_size)
    return PipelineGraph(
        target=target,
        batch_size=counted_for_each(samples),
        samples_per_element=samples,
        element_spec=spec,
        ops=ops,
        files=files_of(graph_def),
        cardinality=cardinality if cardinality >= 0 else None,
        is_infinite=cardinality == int(tf.data.INFINITE_CARDINALITY),
        redirected=redirected,
    )


def counted_for_each(samples: SamplesPerElement) -> int | None:
    """Samples to count for every element alike; None where each is looked at. Where nobody knows, an element counts as one."""
    return None if samples.counted_in is not None else samples.value or 1


def graph_def_of(dataset: Any, evaluated: Callable[[Any], bytes] = lambda tensor: tensor.numpy()) -> Any:
    """The GraphDef of a dataset. The first version of the op takes stateful functions too, which the second refuses.

    Args:
        evaluated: gives the value of a tensor, where TensorFlow does not execute eagerly: `session.run`.
    """
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.ops import gen_dataset_ops

    serialized = gen_dataset_ops.dataset_to_graph(dataset._variant_tensor, allow_stateful=True, strip_device_assignment=True)
    graph_def = graph_pb2.GraphDef.FromString(evaluated(serialized))
    for function in graph_def.library.function:
        for node in function.node_def:
            if node.device == _STRIPPED_HOST:
                node.device = ""
    return graph_def


def ops_of(graph_def: Any, lines: Mapping[int, Source] | None = None, numbers: Mapping[str, int] | None = None) -> tuple[Op, ...]:
    """All dataset ops of a GraphDef, sources first; nested ones stand before the op whose function holds them.

    `lines` by serial number; `numbers` of nodes at the top that have none in their metadata.

    An op that this TensorFlow does not know (a custom one) is listed by its name, with positional inputs.
    """
    return tuple(_reader_of(graph_def, lines or {}, numbers or {}).ops)


def _reader_of(graph_def: Any, lines: Mapping[int, Source], numbers: Mapping[str, int]) -> _Reader:
    """A reader that has read the whole GraphDef."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    reader = _Reader(functions=functions, lines=lines, numbers=numbers)
    nodes = {node.name: node for node in graph_def.node}
    for node in graph_def.node:
        if node.op == "_Retval":
            reader.read(node.input[0], nodes)
    if not reader.ops:  # a graph without a return node: take whatever dataset ops it has
        for node in graph_def.node:
            if is_dataset_op(node.op):
                reader.read(node.name, nodes)
    return reader


def top_nodes(graph_def: Any) -> dict[str, str]:
    """Op name, as in `ops_of`, -> name of its node in the GraphDef; the ops at the top of the pipeline only, sources first."""
    reader = _reader_of(graph_def, {}, {})
    names = {node: op for (scope, node), op in reader.names.items() if scope == _TOP}
    kinds = {node.name: node.op for node in graph_def.node}
    return {op: node for node, op in names.items() if is_dataset_op(kinds[node])}


class OpPlace(NamedTuple):
    """Where an op's node stands: the op whose function holds it, that function (both None at the top), the node's name."""

    within: str | None
    function: str | None
    node: str


def op_places(graph_def: Any) -> dict[str, OpPlace]:
    """Op name, as in `ops_of`, -> where its node stands."""
    reader = _reader_of(graph_def, {}, {})
    kinds: dict[tuple[str, str], str] = {("", node.name): node.op for node in graph_def.node}
    for function in reader.functions.values():
        kinds |= {(function.signature.name, node.name): node.op for node in function.node_def}
    return {
        op: OpPlace(within, function or None, node)
        for ((within, function), node), op in reader.names.items()
        if is_dataset_op(kinds[function, node])
    }


def element_components(element_spec: Any) -> tuple[Component, ...]:
    """The tensors of an element in flattening order, named by their path: `features/input_ids`, `0`, `1`."""
    import tensorflow as tf

    found: list[Component] = []

    def visit(spec: Any, path: str) -> None:
        if isinstance(spec, Mapping):
            for key in sorted(spec):
                visit(spec[key], f"{path}/{key}" if path else str(key))
        elif isinstance(spec, tuple | list) and not isinstance(spec, tf.TensorShape):
            for index, part in enumerate(spec):
                visit(part, f"{path}/{index}" if path else str(index))
        else:
            kind = type(spec).__name__.removesuffix("Spec").removesuffix("Tensor").lower() or "tensor"
            dtype = getattr(spec, "dtype", None)
            shape = getattr(spec, "shape", None)
            dims = tuple(shape.as_list()) if shape is not None and shape.rank is not None else None
            found.append(Component(name=path or "element", shape=dims, dtype=dtype.name if dtype is not None else kind, kind=kind))

    visit(element_spec, "")
    return tuple(found)


def files_of(graph_def: Any) -> FileSet | None:
    """The existing files that the graph names in string constants: file lists, `list_files` results, single paths."""
    return _file_set(_sized_files(graph_def))


def _file_set(sized: Sequence[tuple[str, int]]) -> FileSet | None:
    if not sized:
        return None
    sizes = [size for _, size in sized]
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path, _ in sized])
    return FileSet(count=len(sizes), bytes=sum(sizes), largest_bytes=max(sizes), smallest_bytes=min(sizes), directory=folder)


def sized_files_of(dataset: Any) -> tuple[tuple[str, int], ...]:
    """The files behind `files_of` with their sizes, in the order of their paths."""
    return _sized_files(graph_def_of(dataset))


def files_by_reader(graph_def: Any) -> dict[str, tuple[tuple[str, int], ...]]:
    """Name of each op that reads files, as in `ops_of` -> the files that it is told of, with their sizes."""
    reader = _reader_of(graph_def, {}, {})
    readers = reader_ops(reader.ops)
    # The lines of a list of files are no files of who opens them: what is behind another reader is not looked at.
    holding = [op for op in reader.ops if any(one in readers for one in (op, *inside(op, reader.ops)))]
    nodes = {"": {node.name: node for node in graph_def.node}}
    nodes |= {function.signature.name: {node.name: node for node in function.node_def} for function in graph_def.library.function}
    places, found = op_places(graph_def), {}
    ends = {(places[op.name].function or "", places[op.name].node) for op in holding}
    for op in readers:
        behind, place = list[Any](), places.get(op.name)
        while place is not None:  # what its function is called with comes from the op that holds it
            behind += _nodes_behind(place, nodes, ends)
            place = places.get(place.within) if place.within is not None else None
        found[op.name] = _existing(_strings_in(behind))
    return found


def _nodes_behind(place: OpPlace, nodes: Mapping[str, Mapping[str, Any]], ends: Set[tuple[str, str]]) -> list[Any]:
    """All nodes that the one at `place` depends on, itself included, up to `ends`; and those of functions called on the way."""
    scope = place.function or ""
    found, pending, seen = [], [place.node], set[str]()
    while pending:
        key = pending.pop()
        node = nodes[scope].get(key)
        if node is None or key in seen or (key != place.node and (scope, key) in ends):
            continue
        seen.add(key)
        found.append(node)
        if not is_dataset_op(node.op):
            called = [value.func.name for value in node.attr.values() if value.HasField("func")]
            found += [inner for name in called for inner in nodes.get(name, {}).values()]
        pending += [_node_name(tensor) for tensor in node.input if not tensor.startswith("^")]
    return found


def _sized_files(graph_def: Any) -> tuple[tuple[str, int], ...]:
    """The existing files that a graph names, but for those that fill lookup tables: a vocabulary is no data."""
    scopes = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
    kept = []
    for scope in scopes:
        tables = {_node_name(name) for node in scope if node.op.startswith("InitializeTable") for name in node.input}
        kept += [node for node in scope if node.name not in tables]
    return _existing(_strings_in(kept))


def _existing(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Regular files among these, with their sizes, by path; one that vanishes meanwhile is none."""
    found = []
    for path in sorted(set(names)):
        try:
            status = os.stat(path)
        except (OSError, ValueError):  # not a path at all, or gone
            continue
        if stat.S_ISREG(status.st_mode):
            found.append((path, status.st_size))
    return tuple(found)


# Where a node stands: the op whose function holds it (None at the top), and that function's name.
_Scope = tuple[str | None, str]
_TOP: _Scope = (None, "")


@dataclass(slots=True)
class _Reader:
    """Walks a GraphDef from its result back to the sources."""

    functions: dict[str, Any]
    lines: Mapping[int, Source]
    numbers: Mapping[str, int]
    ops: list[Op] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    names: dict[tuple[_Scope, str], str] = field(default_factory=dict)
    datasets: set[tuple[_Scope, str]] = field(default_factory=set)

    def read(self, tensor: str, nodes: Mapping[str, Any], scope: _Scope = _TOP) -> str | None:
        """Reads the op behind `tensor` and all it depends on, inputs first; without recursion, for pipelines of any length.

        Gives the name of the op whose dataset the tensor is; None where it is none.
        """
        pending = [(_node_name(tensor), False)]
        while pending:
            key, is_expanded = pending.pop()
            node = nodes.get(key)
            if node is None or (scope, key) in self.names:
                continue
            inputs = [_node_name(name) for name in node.input if not name.startswith("^")]  # a control input carries no data
            if not is_expanded:
                pending.append((key, True))
                self._mark_datasets(node, scope)
                if _may_lead_to_dataset(node):
                    pending += [(name, False) for name in reversed(inputs)]
                continue
            name = self._name_of(node, nodes, [self.names[scope, name] for name in inputs if (scope, name) in self.names], scope)
            if name is not None:
                self.names[scope, key] = name
        return self.names.get((scope, _node_name(tensor)))

    def _name_of(self, node: Any, nodes: Mapping[str, Any], upstream: list[str], scope: _Scope) -> str | None:
        """The op that a node is, or passes on; a call (`tf.function`, `tf.cond`) passes on what the function returns."""
        if is_dataset_op(node.op):
            return self._add(node, nodes, upstream, scope)
        if _is_call(node):
            results = [name for function in self._functions_of(node) if (name := self._read_function(function, scope[0]))]
            return next(iter([*results, *upstream]), None)
        is_dataset = upstream or (scope, node.name) in self.datasets
        if is_dataset and _may_lead_to_dataset(node) and node.op not in _WRAPPERS:
            return self._add(node, nodes, upstream, scope)
        return upstream[0] if upstream else None

    def _mark_datasets(self, node: Any, scope: _Scope) -> None:
        """Notes which inputs are datasets whatever their op is called: what a wrapper wraps, what an argument's name says."""
        passes_on = node.op == "_Retval" or (node.op in _WRAPPERS and (scope, node.name) in self.datasets)
        for argument, tensors in named_inputs(node).items():
            if "dataset" in argument or passes_on:
                self.datasets |= {(scope, _node_name(tensor)) for tensor in tensors}

    def _add(self, node: Any, nodes: Mapping[str, Any], upstream: list[str], scope: _Scope) -> str:
        name = self._fresh_name(node.op)
        functions = self._functions_of(node)
        for function in functions:
            self._read_function(function, name)
        called = self._ops_called(functions)
        built = self._source_of(node, scope)
        source = (built.line or None) if built else None
        library = built.library if built else None
        code, ignored = code_at(source)
        self.ops.append(
            Op(
                name=name,
                kind=kind_of(node.op),
                source=source,
                library_source=library,
                inputs=tuple(upstream),
                parameters=_parameters(node, named_inputs(node), nodes),
                within=scope[0],
                function_ops=tuple(sorted(called)),
                function_op_count=called.total(),
                shared=_shared(functions),
                code=None if library else code,  # it holds the call of the library, not of this op
                ignored=ignored,
            )
        )
        return name

    def _fresh_name(self, op: str) -> str:
        method = method_of(kind_of(op))
        self.counts[method] = self.counts.get(method, 0) + 1
        return method if self.counts[method] == 1 else f"{method}_{self.counts[method]}"

    def _source_of(self, node: Any, scope: _Scope) -> Source | None:
        number = _number_in_metadata(node)
        if number is None and SOURCE_NUMBER in node.attr:
            number = node.attr[SOURCE_NUMBER].i
        if number is None and scope == _TOP:
            number = self.numbers.get(node.name)
        return self.lines.get(number) if number is not None else None

    def _functions_of(self, node: Any) -> list[Any]:
        names = [value.func.name for value in node.attr.values() if value.HasField("func")]
        names += [func.name for value in node.attr.values() for func in value.list.func]
        return [self.functions[name] for name in names if name in self.functions]

    def _read_function(self, function: Any, within: str | None) -> str | None:
        """Reads the dataset ops of a function's body; gives the one that it returns, None where it returns no dataset."""
        nodes = {node.name: node for node in function.node_def}
        scope = (within, function.signature.name)
        for node in function.node_def:
            if is_dataset_op(node.op) or _is_call(node):
                self.read(node.name, nodes, scope)
        results = [self.read(tensor, nodes, scope) for tensor in function.ret.values()]
        return next((name for name in results if name is not None), None)

    def _ops_called(self, functions: list[Any]) -> Counter[str]:
        called: Counter[str] = Counter()
        pending, seen = list(functions), set()
        while pending:
            function = pending.pop()
            if function.signature.name in seen:
                continue
            seen.add(function.signature.name)
            for node in function.node_def:
                called[node.op] += node.op not in ("Const", "Identity", "NoOp")
                pending += self._functions_of(node)
        return +called


def _number_in_metadata(node: Any) -> int | None:
    from tensorflow.core.framework import dataset_metadata_pb2

    if "metadata" not in node.attr:
        return None
    name = dataset_metadata_pb2.Metadata.FromString(node.attr["metadata"].s).name
    match = _TAG.search(name.decode() if isinstance(name, bytes) else name)
    return int(match.group(1)) if match else None


def _numbers_at_top(graph_def: Any, dataset: Any, lines: Mapping[int, Source]) -> dict[str, int]:
    """Serial numbers of the nodes at the top, by the Python objects that they were made of, as far as the two are alike."""
    nodes = {node.name: node for node in graph_def.node}
    result = next((node.input[0] for node in graph_def.node if node.op == "_Retval"), "")
    found: dict[str, int] = {}
    pending = [(_node_name(result), dataset)]
    while pending:
        name, made = pending.pop()
        while (below := made._inputs()) and below[0]._variant_tensor is made._variant_tensor:  # another view of the same node
            made = below[0]
        node, number = nodes.get(name), getattr(made, SOURCE_NUMBER, None)
        if node is None or name in found or number is None or number not in lines:
            continue
        told = _number_in_metadata(node)
        if told is not None and told in lines and lines[told] != lines[number]:
            continue
        found[name] = number
        inputs = [tensor for argument, tensors in named_inputs(node).items() if "dataset" in argument for tensor in tensors]
        if len(inputs) == len(below):
            pending += [(_node_name(tensor), other) for tensor, other in zip(inputs, below, strict=True)]
    return found


def _shared(functions: list[Any]) -> tuple[str, ...]:
    """See `Op.shared`. What an op passes on number by number, as a cast does, is still the same."""
    found: set[str] = set()
    for function in functions:
        kinds = {node.name: node.op for node in function.node_def} | {one.name: "argument" for one in function.signature.input_arg}
        takers: dict[str, list[str]] = {name: [] for name in kinds}
        for node in function.node_def:
            if node.op not in _ASKS_SHAPE:
                for name in {_node_name(tensor) for tensor in node.input if not tensor.startswith("^")} & takers.keys():
                    takers[name].append(node.name)
        for tensor in function.ret.values():
            takers.setdefault(_node_name(tensor), []).append("")
        for name, kind in kinds.items():
            last, seen = name, {name}
            while len(takers[last]) == 1 and (follower := takers[last][0]) not in seen and kinds.get(follower) in _SAME_SIZE:
                last = follower
                seen.add(last)
            if len(takers[last]) > 1:
                found.add(kind)
    return tuple(sorted(found - {"Const"}))


def named_inputs(node: Any) -> dict[str, list[str]]:
    """Input tensors by the argument names of the op's definition; by position where the op is unknown."""
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


def _node_name(tensor: str) -> str:
    return tensor.split(":")[0].lstrip("^")


def _is_call(node: Any) -> bool:
    """Whether the op calls functions of the graph and may give back a dataset: `PartitionedCall`, `If`, `Case`, `While`."""
    from tensorflow.core.framework import types_pb2

    if is_dataset_op(node.op) or not any(value.HasField("func") or value.list.func for value in node.attr.values()):
        return False
    return any(types_pb2.DT_VARIANT in node.attr[name].list.type for name in ("Tout", "T") if name in node.attr)


def _may_lead_to_dataset(node: Any) -> bool:
    """Whether the op can carry a dataset: it gives a variant, passes one on, or is of a library that we do not know."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import op_def_registry

    if _is_call(node):
        return True

    definition = op_def_registry.get(node.op)
    is_variant = definition is None or any(output.type == types_pb2.DT_VARIANT for output in definition.output_arg)
    return is_variant or node.op in _WRAPPERS


def _parameters(node: Any, inputs: Mapping[str, list[str]], nodes: Mapping[str, Any]) -> dict[str, Scalar | tuple[Scalar, ...]]:
    found: dict[str, Scalar | tuple[Scalar, ...]] = {}
    for argument, tensors in inputs.items():
        if len(tensors) == 1:
            value = _constant(nodes.get(_node_name(tensors[0])))
            if value is not None and value != ():
                found[argument] = "AUTOTUNE" if value == AUTOTUNE and argument in _AUTOTUNABLE else value
    for attribute in _TELLING_ATTRIBUTES:
        if attribute in node.attr:
            value_of = node.attr[attribute]
            found[attribute] = value_of.s.decode(errors="replace") if value_of.WhichOneof("value") == "s" else bool(value_of.b)
    if "serialized_options" in node.attr:
        found |= _options_set(node.attr["serialized_options"].s)
    return found


def _options_set(serialized: bytes) -> dict[str, Scalar | tuple[Scalar, ...]]:
    """What a `tf.data.Options` sets, named as users write it: `deterministic`, `threading.private_threadpool_size`, …"""
    from tensorflow.core.framework import dataset_options_pb2

    def visit(message: Any, path: str) -> Iterator[tuple[str, Scalar]]:
        for field_, value in message.ListFields():  # a field that was set is listed even where its value is 0 or False
            name = f"{path}{field_.name.removesuffix('_options')}"
            if field_.type == field_.TYPE_MESSAGE and hasattr(value, "ListFields"):
                yield from visit(value, f"{name}.")
            elif isinstance(value, str | int | float | bool):
                yield name, value

    return dict(visit(dataset_options_pb2.Options.FromString(serialized), ""))


def _constant(node: Any) -> Scalar | tuple[Scalar, ...] | None:
    """The value of a small Const node; None for anything else."""
    if node is None or node.op != "Const":
        return None
    import tensorflow as tf

    proto = node.attr["value"].tensor
    if len(proto.tensor_shape.dim) > 1 or any(dim.size > _MAX_LIST_VALUES for dim in proto.tensor_shape.dim):
        return None
    try:
        array = np.asarray(tf.make_ndarray(proto))
    except (KeyError, TypeError, ValueError):  # resources and variants have no value to show
        return None
    values = array.ravel().tolist()
    plain = tuple(value.decode(errors="replace") if isinstance(value, bytes) else value for value in values)
    if any(not isinstance(value, str | int | float | bool) for value in plain):
        return None
    return plain[0] if array.ndim == 0 else plain


def _strings_in(nodes: Iterable[Any]) -> Iterator[str]:
    """What the string constants among these nodes hold."""
    import tensorflow as tf
    from tensorflow.core.framework import types_pb2

    seen = 0
    for node in nodes:
        if node.op != "Const" or node.attr["dtype"].type != types_pb2.DT_STRING:
            continue
        # C++ packs strings in a way that only TensorFlow's own kernel unpacks.
        for value in np.asarray(tf.io.parse_tensor(node.attr["value"].tensor.SerializeToString(), tf.string).numpy()).ravel():
            seen += 1
            if seen > _MAX_FILES:
                return
            if 0 < len(value) < 4096 and b"\0" not in value:
                yield value.decode(errors="surrogateescape")


def where_built() -> Source:
    """The lines that the running code was called from; empty where TensorFlow acts on its own.

    TensorFlow's own stack is read because it maps the code that AutoGraph generated back to the lines the user wrote.
    """
    from tensorflow.python.util import tf_stack

    library = None
    for frame in reversed(tf_stack.extract_stack()):
        if is_library(frame.filename, _TENSORFLOW) or frame.filename.startswith(_STDLIB):
            continue
        line = f"{frame.filename}:{frame.lineno}"
        if not is_installed(frame.filename):
            return Source(line, library)
        library = library or line
    return Source(library or "", None)  # an input function that is installed itself


def is_users_own(filename: str) -> bool:
    """Whether code is the user's: not ours, not TensorFlow's or Python's own, and of no package that was installed."""
    return not (is_library(filename) or is_installed(filename) or filename.startswith(_STDLIB))


def is_library(filename: str, names: Sequence[str] = _LIBRARIES) -> bool:
    """Whether a frame is of these packages, or Python's own. By the folders of the packages: users have a `tensorflow/`, too."""
    # A file that AutoGraph generated is the user's line only after TensorFlow has mapped it back, which it does not do everywhere.
    if filename.startswith(("<frozen", "<string>", "<__array")) or os.path.basename(filename).startswith("__autograph_generated"):
        return True
    packages = (sys.modules.get(name) for name in names)
    files = (getattr(package, "__file__", None) for package in packages)
    return any(filename.startswith(os.path.dirname(file) + os.sep) for file in files if file)
