"""The cost of each op, by replacing it: the CPU saved if its elements are ready, without the analyzer's cost table."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.in_process import built
from benchmarks.public_pipelines import targets
from benchmarks.public_pipelines.listed import Listed
from benchmarks.public_pipelines.reading import Reading, settle

# Elements that stand in for an op; of a pass, so many are counted at most.
READY_ELEMENTS, READY_BYTES = 64, 2**26
LONGEST_PASS = 20_000


def savings(
    listed: Listed,
    params: Mapping[str, str],
    seconds: float,
    rounds: int,
    budget_s: float,
    least: int,
    ready_s: float,
) -> dict[str, Any]:
    """Return the CPU seconds per sample that are saved where the op alone is replaced by elements that are ready, round by round.

    That is the CPU of the pipeline whose op's inputs are ready, minus that of the one in which the op's own elements are. Fewer
    rounds where the time is up. What stands before a cache that is full saves nothing.
    """
    from cs_input_analyzer.tfdata.graph import graph_def_of, named_inputs

    dataset, pipeline = built(getattr(targets, listed.name), params)
    graph_def = graph_def_of(dataset)
    nodes = top_nodes(graph_def)
    names = {node: name for name, node in nodes.items()}
    by_name = {node.name: node for node in graph_def.node}
    inputs: dict[str, tuple[str, ...]] = {}
    for name, node in nodes.items():
        sources = [source.split(":")[0] for group in named_inputs(by_name[node]).values() for source in group]
        inputs[name] = tuple(dict.fromkeys(names[source] for source in sources if source in names))
    variants: dict[tuple[str, ...], Reading] = {}
    refused: dict[str, str] = {}
    free: set[str] = set()
    if listed.pass_elements is not None:
        kinds = {op.name: op.kind for op in pipeline.ops}
        for name in [name for name in nodes if kinds.get(name) == "Cache"]:
            free |= _above(name, inputs)
            inputs[name] = ()  # a copy of the graph fills its cache again in each pass: only the original's is full
    costly = [name for name in nodes if name not in free]
    for replaced in dict.fromkeys([(), *(inputs[name] for name in costly), *((name,) for name in costly)]):
        try:
            ready = with_ready(dataset, [nodes[name] for name in replaced], replaced, ready_s) if replaced else dataset
            reading = Reading(ready, listed)
            reading.take(2)
            _fill(reading, seconds / 4)
            variants[replaced] = reading
        except Exception as error:  # one that cannot be replaced says nothing about the others
            refused[", ".join(replaced)] = f"{type(error).__name__}: {str(error)[:200]}"
    costs: dict[tuple[str, ...], list[float]] = {replaced: [] for replaced in variants}
    draw = random.Random(0)
    until_s = time.perf_counter() + budget_s
    for done in range(rounds):
        if done >= least and time.perf_counter() > until_s:
            break
        for replaced in draw.sample(list(variants), len(variants)):
            costs[replaced].append(variants[replaced].cpu_per_sample(seconds))
    saved = {
        name: [one - other for one, other in zip(costs[inputs[name]], costs[(name,)], strict=True)]
        for name in costly
        if inputs[name] in costs and (name,) in costs
    } | {name: [0.0] * len(costs.get((), ())) for name in free}
    return {"savings": saved, "whole": costs.get((), []), "refused": refused}


def _above(op: str, inputs: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the ops that an op's elements come from, near and far."""
    return {above for source in inputs[op] for above in (source, *_above(source, inputs))}


def _fill(reading: Reading, seconds: float) -> None:
    """Read until buffers are full and a chunk is of the length that it will have."""
    reading.for_seconds(seconds)
    settle()
    reading.for_seconds(seconds)


def with_ready(dataset: Any, nodes: Sequence[str], ops: Sequence[str], longest_s: float) -> Any:
    """Return the dataset in which elements of these ops are there from the beginning: the first that each gave, again and again.

    As many to a pass as the op gives, where that ends.
    """
    from cs_input_analyzer.tfdata.graph import graph_def_of

    graph_def = graph_def_of(dataset)
    known = {function.signature.name for function in graph_def.library.function}
    for number, (node, op) in enumerate(zip(nodes, ops, strict=True)):
        cut = cut_after(dataset, op)
        if cut is None:
            raise ValueError(f"{op} cannot be cut")
        ready, stem = graph_def_of(_ready(cut, longest_s)), f"ready_{number}/"
        (result,) = [other.input[0] for other in ready.node if other.op == "_Retval"]
        for other in graph_def.node:
            for position, source in enumerate(other.input):
                if source.removesuffix(":0") == node:
                    other.input[position] = stem + result
        for made in ready.node:
            if made.op != "_Retval":
                copy = graph_def.node.add()
                copy.CopyFrom(made)
                copy.name = stem + made.name
                for position, source in enumerate(copy.input):
                    copy.input[position] = f"^{stem}{source[1:]}" if source.startswith("^") else stem + source
        graph_def.library.function.extend(other for other in ready.library.function if other.signature.name not in known)
        known |= {other.signature.name for other in ready.library.function}
    return _dataset_of(graph_def, dataset)


def top_nodes(graph_def: Any) -> dict[str, str]:
    """Return op name -> name of its node in the GraphDef; the ops at the top of the pipeline only, sources first."""
    from cs_input_analyzer.tfdata.graph import reader_of

    return {op: place.node for op, place in reader_of(graph_def).places.items() if place.function is None and place.within is None}


def cut_after(dataset: Any, op: str) -> Any:
    """Return the pipeline cut after one of its ops, as flat tuples of tensors. It works as long as `dataset` lives.

    Return None for an op inside a function, or one that this TensorFlow does not describe.
    """
    from cs_input_analyzer.tfdata.edits import graph_text
    from cs_input_analyzer.tfdata.graph import graph_def_of

    graph_def = graph_def_of(dataset)
    name = top_nodes(graph_def).get(op)
    text = graph_text.GraphText.of(graph_def)
    node = text.top.nodes.get(name) if name is not None else None
    if node is None or not graph_text.says_elements(node) or not any(other.op == "_Retval" for other in text.top.nodes.values()):
        return None
    text.top.end_at(f"{name}:0")
    return graph_text.dataset_of(text.written(), graph_text.spec_of(graph_text.elements_of(node)), dataset.options())


def _dataset_of(graph_def: Any, like: Any) -> Any:
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    variant = tf.raw_ops.DatasetFromGraph(graph_def=graph_def.SerializeToString())
    made = dataset_ops._VariantDataset(variant, like.element_spec)
    return made if like.options() == tf.data.Options() else made.with_options(like.options())


def _ready(cut: Any, longest_s: float) -> Any:
    """Return a few elements of `cut` in memory."""
    from cs_input_analyzer.worker.sampling import bytes_of

    count, read, seen = 0, 0, 0
    began_s = time.perf_counter()
    for element in cut:
        seen += 1
        if count == seen - 1 and count < READY_ELEMENTS and read < READY_BYTES:
            count, read = seen, read + bytes_of(element)
        if seen >= LONGEST_PASS or time.perf_counter() - began_s > longest_s:
            return cut.take(count).cache().repeat()
    few = cut.take(count).cache()
    return few if count == seen else few.repeat().take(seen)  # a take that stops at the end would never let the cache be full
