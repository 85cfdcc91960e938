"""Cuts the pipeline after its readers, to measure them alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cs_input_analyzer.pipeline.edits import graph_text
from cs_input_analyzer.pipeline.graph import functions_of, graph_def_of, node_name
from cs_input_analyzer.pipeline.op_kinds import FILE_READERS, MAPS, is_dataset_op, kind_of

_READS_WHOLE_FILE = "ReadFile"
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
_PASSES_ON = ("Identity", "WrapDatasetVariant", "UnwrapDatasetVariant")
# Joins of datasets of one type; the second's first input only chooses.
_MERGES = ("Concatenate", "DirectedInterleave")


class _CannotCutError(Exception):
    """The pipeline reads files in a way that the cut does not understand."""


def source_only(dataset: Any) -> Any:
    """The pipeline cut after its readers, as raw records (file contents where a `map` reads whole files); what is before them (of
    file names) stays. None where the graph reads no file, or reads in a way that cannot be cut. Works as long as `dataset`
    lives."""
    text = graph_text.GraphText.of(graph_def_of(dataset))
    cutter = _Cutter(functions=text.functions)
    result = next((node for node in text.top.nodes.values() if node.op == "_Retval"), None)
    if result is None:
        return None
    try:
        cut = cutter.cut(text.top, result.input[0])
    except _CannotCutError:
        return None
    if cut is None:
        return None
    text.top.end_at(cut.tensor)
    text.functions |= {function.signature.name: function for function in cutter.made}
    return graph_text.dataset_of(text.written(), graph_text.spec_of(cut.elements), dataset.options())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """The tensor that a body is to return instead, and what it then gives."""

    tensor: str
    elements: graph_text.Elements


@dataclass(slots=True, kw_only=True)
class _Cutter:
    """Walks from a result back to the readers; `made` are the cut copies of the functions on its way."""

    functions: Mapping[str, Any]
    made: list[Any] = field(default_factory=list)
    cuts: dict[tuple[str, str], _Cut | None] = field(default_factory=dict)

    def cut(self, body: graph_text.Body, tensor: str) -> _Cut | None:
        """The cut for the dataset that `tensor` is; None where nothing before it reads a file. Raises _CannotCutError."""
        name = node_name(tensor)
        if name not in body.nodes:  # an argument of the function
            return None
        key = (body.function.signature.name if body.function is not None else "", name)
        if key not in self.cuts:
            self.cuts[key] = self._cut_node(body, body.nodes[name], tensor)
        return self.cuts[key]

    def _cut_node(self, body: graph_text.Body, node: Any, tensor: str) -> _Cut | None:
        kind = kind_of(node.op)
        if not is_dataset_op(node.op):
            if node.op in _PASSES_ON:
                return self.cut(body, node.input[0])
            return self._cut_inside(body, node, tensor) if node.op in (*_CALLS, *_BRANCHES) else None
        if kind in FILE_READERS:
            return _Cut(tensor=tensor, elements=graph_text.elements_of(node))
        inside = self._cut_inside(body, node, tensor)
        if inside is not None:
            return inside
        if any(self._reads_whole_files(function) for function in functions_of(node)):
            return self._cut_map(body, node, tensor)
        sources = [source for source in node.input if not source.startswith("^")]
        cuts = {index: cut for index, source in enumerate(sources) if (cut := self.cut(body, source)) is not None}
        if not cuts:
            made_of = body.needed([node.name])
            return _Cut(tensor=tensor, elements=graph_text.elements_of(node)) if any(map(self._is_file_read, made_of)) else None
        return next(iter(cuts.values())) if len(cuts) == 1 else self._cut_join(body, node, tensor, sources, cuts)

    def _cut_inside(self, body: graph_text.Body, node: Any, tensor: str) -> _Cut | None:
        """Cuts what the functions of a node return (`interleave`, `flat_map`, a `tf.function`, `tf.cond`), if that reads."""
        names = [name for name in functions_of(node) if _returns_dataset(self.functions[name])]
        made = {name: function for name in names if (function := self._cut_function(name)) is not None}
        if not made:
            return None
        if len(made) != len(names):
            raise _CannotCutError
        elements = _common([elements for _, elements in made.values()])
        copy = body.edited(node.name)
        graph_text.rename_functions(copy, {name: new_name for name, (new_name, _) in made.items()})
        if is_dataset_op(node.op):
            graph_text.set_elements(copy, elements)
        return _Cut(tensor=tensor, elements=elements)

    def _cut_join(self, body: graph_text.Body, node: Any, tensor: str, sources: list[str], cuts: Mapping[int, _Cut]) -> _Cut:
        """Several inputs read: all are cut, and joined as before."""
        kind = kind_of(node.op)
        if kind == "Zip":
            types = tuple(value for cut in cuts.values() for value in cut.elements.types)
            elements = graph_text.Elements(
                types=types, shapes=tuple(shape for cut in cuts.values() for shape in cut.elements.shapes)
            )
        elif kind in _MERGES and len(cuts) == len(sources) - (kind == "DirectedInterleave"):
            elements = _common([cut.elements for cut in cuts.values()])
        else:
            raise _CannotCutError
        copy = body.edited(node.name)
        joined = [cuts[index].tensor if index in cuts else source for index, source in enumerate(sources)]
        if kind == "Zip":
            joined = [cut.tensor for cut in cuts.values()]
            copy.attr["N"].i = len(joined)
        graph_text.set_values(copy.input, joined)
        graph_text.set_elements(copy, elements)
        return _Cut(tensor=tensor, elements=elements)

    def _cut_function(self, name: str) -> tuple[str, graph_text.Elements] | None:
        """A copy of a function that returns the cut dataset: its name and elements. None where it reads nothing."""
        function = self.functions[name]
        body = graph_text.Body(nodes={node.name: node for node in function.node_def}, function=function)
        (key, tensor), *_ = function.ret.items()
        cut = self.cut(body, tensor)
        if cut is None:
            return None
        copy = self._copy_of(function)
        copy.ret[key] = cut.tensor
        copy.node_def.extend(body.needed([node_name(cut.tensor)]))
        return copy.signature.name, cut.elements

    def _cut_map(self, body: graph_text.Body, node: Any, tensor: str) -> _Cut:
        """A `map` that reads whole files gives their contents, and does nothing else."""
        if kind_of(node.op) not in MAPS:
            raise _CannotCutError
        (name,) = functions_of(node)
        new_name, count = self._contents_function(name)
        elements = graph_text.Elements(types=(graph_text.string_type(),) * count, shapes=(graph_text.scalar_shape(),) * count)
        copy = body.edited(node.name)
        graph_text.rename_functions(copy, {name: new_name})
        graph_text.set_elements(copy, elements)
        return _Cut(tensor=tensor, elements=elements)

    def _contents_function(self, name: str) -> tuple[str, int]:
        """A copy of a function that returns what its `ReadFile` ops give, also in functions that it calls; how many those are."""
        function = self.functions[name]
        body = graph_text.Body(nodes={node.name: node for node in function.node_def}, function=function)
        contents: list[str] = []
        calls: set[str] = set()
        for node in function.node_def:
            if node.op == _READS_WHOLE_FILE:
                contents.append(f"{node.name}:contents:0")
            elif self._is_file_read(node):
                if node.op not in _CALLS:
                    raise _CannotCutError
                (called,) = functions_of(node)
                new_name, count = self._contents_function(called)
                copy = body.edited(node.name)
                graph_text.rename_functions(copy, {called: new_name})
                graph_text.set_values(copy.attr["Tout"].list.type, [graph_text.string_type()] * count)
                contents += [f"{node.name}:output:{index}" for index in range(count)]
                calls.add(node.name)
        kept = body.needed(map(node_name, contents))
        if any(node_name(tensor) in calls for node in kept for tensor in node.input if not tensor.startswith("^")):
            raise _CannotCutError
        copy = self._copy_of(function)
        copy.ret.clear()
        graph_text.set_values(copy.signature.output_arg, ())
        for index, tensor in enumerate(contents):
            copy.signature.output_arg.add(name=f"contents_{index}", type=graph_text.string_type())
            copy.ret[f"contents_{index}"] = tensor
        copy.node_def.extend(kept)
        return copy.signature.name, len(contents)

    def _copy_of(self, function: Any) -> Any:
        """A copy without nodes and side effects, under a new name, among those `made`."""
        copy = type(function)()
        copy.CopyFrom(function)
        copy.signature.name = f"{function.signature.name}_source_{len(self.made)}"
        copy.control_ret.clear()
        del copy.signature.control_output[:]
        del copy.node_def[:]
        self.made.append(copy)
        return copy

    def _is_file_read(self, node: Any) -> bool:
        return node.op == _READS_WHOLE_FILE or any(self._reads_whole_files(name) for name in functions_of(node))

    def _reads_whole_files(self, name: str) -> bool:
        """Whether a function, or one that it calls, has a `ReadFile`; what it does to whole datasets does not count."""
        seen, pending = set(), [name]
        while pending:
            function = self.functions.get(pending.pop())
            if function is None or function.signature.name in seen or _returns_dataset(function):
                continue
            seen.add(function.signature.name)
            if any(node.op == _READS_WHOLE_FILE for node in function.node_def):
                return True
            pending += [called for node in function.node_def for called in functions_of(node)]
        return False


def _returns_dataset(function: Any) -> bool:
    from tensorflow.core.framework import types_pb2

    return [argument.type for argument in function.signature.output_arg] == [types_pb2.DT_VARIANT]


def _common(found: Sequence[graph_text.Elements]) -> graph_text.Elements:
    """Elements of one of several datasets: their types must be the same, their shapes are left open where they differ."""
    from tensorflow.core.framework import tensor_shape_pb2

    first = found[0]
    if any(elements.types != first.types for elements in found):
        raise _CannotCutError
    if all(elements.shapes == first.shapes for elements in found):
        return first
    return graph_text.Elements(types=first.types, shapes=(tensor_shape_pb2.TensorShapeProto(unknown_rank=True),) * len(first.types))
