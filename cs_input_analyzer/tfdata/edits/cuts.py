"""Cut the pipeline behind its readers, or behind any op at its top, to measure a part of it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from cs_input_analyzer.tfdata.edits.graph_text import (
    Body,
    Elements,
    GraphText,
    dataset_of,
    elements_of,
    rename_functions,
    set_elements,
    set_values,
    spec_of,
)
from cs_input_analyzer.tfdata.function_ops import does
from cs_input_analyzer.tfdata.graph import functions_of, graph_def_of, node_name, reader_of
from cs_input_analyzer.tfdata.op_kinds import FILE_READERS, KEEPERS, MAPS, OPENS, WRITERS, is_dataset_op, kind_of

# Joins of datasets of one type; the second's first input only chooses.
_MERGES = ("Concatenate", "DirectedInterleave")


# What a prefix leaves out: it gives the elements that it gets.
FILLED = KEEPERS | WRITERS | {"Shuffle"}


class _CannotCutError(Exception):
    """Report that the pipeline reads files in a way that the cut does not understand."""


class _Cut(NamedTuple):
    """Hold the tensor that a body returns instead, and its elements."""

    tensor: str
    elements: Elements


def source_only(dataset: Any) -> Any:
    """Return the pipeline cut after its readers, as raw records (file contents if a `map` reads whole files).

    Ops on file names before the readers stay. Return None if the graph reads no file, or reads in a way that cannot be cut. Works
    as long as `dataset` lives.
    """
    text = GraphText.of(graph_def_of(dataset))
    (result,) = (node.input[0] for node in text.top.nodes.values() if node.op == "_Retval")
    try:
        cut = _cut(text, text.top, result)
    except _CannotCutError:
        return None
    if cut is None:
        return None
    text.top.end_at(cut.tensor)
    return dataset_of(text.written(), spec_of(cut.elements), dataset.options())


def prefix_of(dataset: Any, op: str) -> Any:
    """Return the pipeline up to and with an op at its top, without shuffles and caches: they would be filled first.

    Works as long as `dataset` lives. Raise KeyError for an op that is not at the top.
    """
    text, node, _ = _ended_at(dataset, op)
    return dataset_of(text.written(), spec_of(elements_of(node)), dataset.options())


def counting(dataset: Any, op: str) -> tuple[Any, Callable[[], dict[str, int]]]:
    """Return the same as `prefix_of`, and a function that tells how many elements each op at its top has given so far."""
    import tensorflow as tf
    from tensorflow.core.framework import summary_pb2
    from tensorflow.python.data.ops import dataset_ops

    text, node, names = _ended_at(dataset, op)
    elements = elements_of(node)
    for counted, name in names.items():
        if counted in text.top.nodes:
            _count(text, text.top.nodes[counted], name)
    spec = spec_of(elements)
    aggregator = tf.raw_ops.StatsAggregatorHandle(container="", shared_name="")
    variant = tf.raw_ops.SetStatsAggregatorDataset(
        input_dataset=dataset_of(text.written(), spec, dataset.options())._variant_tensor,
        stats_aggregator=aggregator,
        tag="",
        counter_prefix="",
        output_types=[one.dtype for one in elements],
        output_shapes=[one.shape for one in elements],
    )

    def counts() -> dict[str, int]:
        summary = summary_pb2.Summary.FromString(tf.raw_ops.StatsAggregatorSummary(iterator=aggregator).numpy())
        found = {value.tag: int(value.histo.num) for value in summary.value}
        return {name: found[_COUNTED + name] for name in names.values() if _COUNTED + name in found}

    return dataset_ops._VariantDataset(variant, spec), counts


# Before the name of an op: TensorFlow counts under names of its own, too.
_COUNTED = "csia:"


def _count(text: GraphText, node: Any, name: str) -> None:
    """Let TensorFlow count the elements that an op at the top gives."""
    stats = text.top.add("LatencyStatsDataset", ())
    text.top.redirect(node.name, text.top.tensor(stats.name))
    stats.input.extend([text.top.tensor(node.name), text.top.constant(_COUNTED + name, "string")])
    set_elements(stats, elements_of(node))


def _ended_at(dataset: Any, op: str) -> tuple[GraphText, Any, dict[str, str]]:
    """Return the text of `prefix_of`, its last node, and the names of the ops at its top by node."""
    graph_def = graph_def_of(dataset)
    text, places = GraphText.of(graph_def), reader_of(graph_def).places
    if places[op].function is not None:
        raise KeyError(op)
    node = text.top.nodes[places[op].node]
    for filled in [one for one in text.top.nodes.values() if kind_of(one.op) in FILLED and one is not node]:
        text.top.redirect(filled.name, filled.input[0])
    text.top.end_at(text.top.tensor(node.name))
    return text, node, {place.node: name for name, place in places.items() if place.function is None}


def _cut(text: GraphText, body: Body, tensor: str) -> _Cut | None:
    """Return the cut for the dataset that `tensor` is, made in the body; None if nothing before it reads a file."""
    node = body.nodes.get(node_name(tensor))
    if node is None:  # an argument of the function
        return None
    kind = kind_of(node.op)
    if kind in FILE_READERS:
        return _Cut(tensor, elements_of(node))
    reading = [name for name in functions_of(node) if _reads(text, [name])]
    if len(reading) == 1 and kind in OPENS:
        return _cut_inside(text, node, tensor, reading[0])
    if len(reading) == 1 and kind in MAPS:
        return _cut_map(text, node, tensor, reading[0])
    if reading:
        raise _CannotCutError
    if not is_dataset_op(node.op):
        return _cut(text, body, node.input[0]) if node.op == "Identity" else None
    sources = [source for source in node.input if not source.startswith("^")]
    cuts = {index: cut for index, source in enumerate(sources) if (cut := _cut(text, body, source)) is not None}
    if not cuts:
        is_read = any(does(one.op, "reads") for one in body.needed([node.name]))
        return _Cut(tensor, elements_of(node)) if is_read else None
    return next(iter(cuts.values())) if len(cuts) == 1 else _cut_join(node, tensor, sources, cuts)


def _reads(text: GraphText, functions: Iterable[str]) -> bool:
    """Return whether functions, or those that they call, read files, whole or by a reader."""
    return any(does(node.op, "reads") or kind_of(node.op) in FILE_READERS for node in text.called_by(functions))


def _cut_inside(text: GraphText, node: Any, tensor: str, function: str) -> _Cut:
    """Cut the results of the function of an `interleave` or `flat_map` returns."""
    inner = text.own_copy(function)
    ((key, result),) = inner.function.ret.items()
    cut = _cut(text, inner, result)
    if cut is None:
        raise _CannotCutError
    _end(inner, {key: cut.tensor})
    return _calling(node, tensor, function, inner, cut.elements)


def _cut_map(text: GraphText, node: Any, tensor: str, function: str) -> _Cut:
    """Let a `map` that reads whole files give their contents, and do nothing else."""
    import tensorflow as tf

    inner = text.own_copy(function)
    names = [one.name for one in inner.nodes.values() if does(one.op, "reads")]
    if not names or any(_reads(text, functions_of(one)) for one in inner.nodes.values()):
        raise _CannotCutError
    results = {f"contents_{index}": f"{name}:contents:0" for index, name in enumerate(names)}
    set_values(inner.function.signature.output_arg, ())
    for result in results:
        inner.function.signature.output_arg.add(name=result, type=tf.string.as_datatype_enum)
    _end(inner, results)
    return _calling(node, tensor, function, inner, (tf.TensorSpec((), tf.string),) * len(names))


def _end(inner: Body, results: Mapping[str, str]) -> None:
    """Make these the results of a function; nodes that they do not need, and side effects, go."""
    inner.nodes = {node.name: node for node in inner.needed(map(node_name, results.values()))}
    inner.function.ret.clear()
    inner.function.ret.update(results)
    inner.function.control_ret.clear()
    del inner.function.signature.control_output[:]


def _calling(node: Any, tensor: str, function: str, inner: Body, elements: Elements) -> _Cut:
    """Return the op with another function, which makes it give these elements."""
    rename_functions(node, {function: inner.function.signature.name})
    set_elements(node, elements)
    return _Cut(tensor, elements)


def _cut_join(node: Any, tensor: str, sources: list[str], cuts: Mapping[int, _Cut]) -> _Cut:
    """Cut all inputs that read, and join them as before."""
    import tensorflow as tf

    kind = kind_of(node.op)
    joined = [cuts[index].tensor if index in cuts else source for index, source in enumerate(sources)]
    if kind == "Zip":
        elements = tuple(spec for cut in cuts.values() for spec in cut.elements)
        joined = [cut.tensor for cut in cuts.values()]
        node.attr["N"].i = len(joined)
    elif kind in _MERGES and len(cuts) == len(sources) - (kind == "DirectedInterleave"):
        found = {cut.elements for cut in cuts.values()}
        types = {tuple(spec.dtype for spec in elements) for elements in found}
        if len(types) > 1:
            raise _CannotCutError
        # The shapes are left open where they differ.
        elements = found.pop() if len(found) == 1 else tuple(tf.TensorSpec(None, dtype) for dtype in types.pop())
    else:
        raise _CannotCutError
    set_values(node.input, joined)
    set_elements(node, elements)
    return _Cut(tensor, elements)
