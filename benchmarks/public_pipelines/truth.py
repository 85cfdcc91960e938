"""Measures one listed pipeline in this process without the analyzer's counting, costs and gains: to judge them by.

    python -m benchmarks.public_pipelines.truth NAME CHECKOUTS DATA STEPS

STEPS is JSON, a list of [label, step, arguments]. The steps are:

- `rates`: a bare loop in the graph that counts samples by itself, against the analyzer's worker;
- `sizes`: samples of the first elements;
- `savings`: CPU that is saved where an op is replaced by elements that are ready;
- `again`: fixes timed anew;
- `runs`: changed source files are loaded, and the first elements read.

What each gives, or why it gave nothing, is printed at once.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.public_pipelines.drawn import DRAWN
from benchmarks.public_pipelines.judging import component_at
from benchmarks.public_pipelines.listed import LISTED, Listed

MARK = "RESULT "
# Elements that stand in for an op; of a pass, so many are counted at most.
READY_ELEMENTS, READY_BYTES = 64, 2**26
LONGEST_PASS = 20_000
# So much CPU in so long is an idle process.
IDLE_CPU_S, IDLE_LOOK_S, LONGEST_SETTLING_S = 0.001, 0.02, 1.0
FILLING_S = 10.0
LEAST_ROUNDS = 5
# A pass that takes longer than this is replaced by elements without an end.
READY_S = 2.0
SIZES_S = 5.0
# So many whole passes fit into a window, where passes are short.
PASSES = 5


@dataclass(slots=True)
class Reading:
    """One running iterator of a dataset; begins again where a pass ends."""

    dataset: Any
    listed: Listed
    iterator: Any = None
    elements: int = 1
    passes: int = 0
    _loop: Any = None
    _total: Any = None
    _taken: Any = None
    _is_fresh: bool = True

    def __post_init__(self) -> None:
        import tensorflow as tf

        self._total, self._taken = (tf.Variable(0, dtype=tf.int64, trainable=False) for _ in range(2))
        self.iterator = iter(self.dataset)

        @tf.function
        def loop(iterator: Any, limit: Any) -> Any:
            def body(index: Any) -> Any:
                element = iterator.get_next()
                counted = component_at(element, self.listed.samples)
                sizes = tf.gather(tf.shape(counted, out_type=tf.int64), self.listed.axes)
                whole = [tensor for tensor in tf.nest.flatten(element, expand_composites=True) if tensor is not None]
                with tf.control_dependencies(whole):
                    done = [self._total.assign_add(tf.reduce_prod(sizes)), self._taken.assign_add(1)]
                with tf.control_dependencies(done):
                    return index + 1

            return tf.while_loop(lambda index: index < limit, body, [tf.constant(0)], parallel_iterations=1)

        self._loop = loop

    def take(self, elements: int) -> None:
        import tensorflow as tf

        wanted = int(self._taken) + elements
        while (missing := wanted - int(self._taken)) > 0:
            before = int(self._taken)
            try:
                self._loop(self.iterator, tf.constant(missing))
            except tf.errors.OutOfRangeError:
                is_empty = int(self._taken) == before and self._is_fresh
                if is_empty:
                    raise RuntimeError("a pass gave no element") from None
                self.iterator, self._is_fresh = iter(self.dataset), True
                self.passes += 1
            else:
                self._is_fresh = False

    def samples(self) -> int:
        return int(self._total)

    def for_seconds(self, seconds: float) -> tuple[float, float]:
        """Samples, and the seconds that they took. Looks at the clock ten times; one element at least is read."""
        before, began_s, left_s = self.samples(), time.perf_counter(), seconds
        while left_s > 0:
            chunk_s = time.perf_counter()
            self.take(self.elements)
            took_s = time.perf_counter() - chunk_s
            left_s = seconds - (time.perf_counter() - began_s)
            next_s = max(0.0, min(left_s, seconds / 10))
            self.elements = max(1, min(4 * self.elements, int(self.elements * next_s / max(took_s, 1e-6))))
        return self.samples() - before, time.perf_counter() - began_s

    def for_passes(self, seconds: float) -> tuple[float, float]:
        """Samples of whole passes, and the seconds that they took: as many as begin within so many seconds, one at least."""
        import tensorflow as tf

        before, began_s = self.samples(), time.perf_counter()
        while True:
            self.iterator = iter(self.dataset)
            with contextlib.suppress(tf.errors.OutOfRangeError):
                self._loop(self.iterator, tf.constant(2**31 - 1))
            took_s = time.perf_counter() - began_s
            if took_s >= seconds:
                self.iterator, self._is_fresh = iter(self.dataset), True
                return self.samples() - before, took_s

    def cpu_per_sample(self, seconds: float) -> float:
        """From an idle process with full buffers to the next: so all CPU is of the samples that were taken.

        By whole passes where the list says so: in one part of a pass, buffers fill, and in the other they are used up.
        """
        settle()
        began_s = time.process_time()
        if self.listed.pass_elements is None:
            samples, _ = self.for_seconds(seconds)
        elif self.listed.pass_elements == 0:
            samples, _ = self.for_passes(seconds)
        else:
            samples = self.for_elements(self.listed.pass_elements, seconds)
        settle()
        return (time.process_time() - began_s) / samples

    def for_elements(self, elements: int, seconds: float) -> int:
        """Return the samples of as many times so many elements as begin within so many seconds."""
        before, began_s = self.samples(), time.perf_counter()
        while True:
            self.take(elements)
            if time.perf_counter() - began_s >= seconds:
                return self.samples() - before


def settle() -> None:
    """Waits until the threads of all pipelines have filled their buffers."""
    until_s = time.perf_counter() + LONGEST_SETTLING_S
    while time.perf_counter() < until_s:
        before_s = time.process_time()
        time.sleep(IDLE_LOOK_S)
        if time.process_time() - before_s < IDLE_CPU_S:
            return


def built(listed: Listed, params: Mapping[str, str]) -> tuple[Any, Any]:
    """The dataset, and what the analyzer reads in its graph."""
    from benchmarks.public_pipelines import targets
    from cs_input_analyzer.pipeline import graph
    from cs_input_analyzer.worker import load

    call = load.Call(params=params, mode="train", num_workers=1, worker_index=0)
    with graph.recorded_sources() as log:
        dataset = load.build_dataset(getattr(targets, listed.name), call)
    return dataset, graph.read_graph(dataset, log, target=listed.name)


# --- rates -------------------------------------------------------------------------------------------------------------------


def rates(listed: Listed, params: Mapping[str, str], pairs: int, seconds: float) -> dict[str, Any]:
    """Samples/s that a worker reports, beside those of the bare loop; of pairs whose order is turned every time.

    Where the analyzer says that it does not know what an element holds, it is told, as its user would have to.
    """
    from dataclasses import replace

    from cs_input_analyzer.pipeline.samples import samples_per_element_of
    from cs_input_analyzer.worker.sampling import shapes_of

    dataset, pipeline = built(listed, params)
    reading = Reading(dataset, listed)
    reading.take(2)
    first = next(iter(dataset))
    true = math.prod(component_at(first, listed.samples).shape[axis] for axis in listed.axes)  # type: ignore[attr-defined]
    said = samples_per_element_of(pipeline.ops, pipeline.element_spec, seen=shapes_of(first))
    counted = replace(said, value=true) if said.is_unknown else said
    reading.for_seconds(2 * seconds)
    # A window that cuts passes in the middle has too many or too few of their beginnings, in which buffers fill.
    is_passes = reading.passes > 1
    if is_passes:
        samples, took_s = reading.for_passes(0.0)
        seconds = max(seconds, PASSES * took_s)
    reported: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    for pair in range(pairs):
        for is_ours in (False, True) if pair % 2 else (True, False):
            reading.for_seconds(seconds / 4)
            if is_ours:
                reported.append(_reported(dataset, pipeline, reading, counted, seconds))
            else:
                began_s = time.process_time()
                samples, took_s = reading.for_passes(seconds) if is_passes else reading.for_seconds(seconds)
                bare.append((samples / took_s, (time.process_time() - began_s) / samples))
    return {
        "reported": [rate for rate, _ in reported],
        "bare": [rate for rate, _ in bare],
        "reported_cpu_s": [cpu_s for _, cpu_s in reported],
        "bare_cpu_s": [cpu_s for _, cpu_s in bare],
        "true_samples": true,
        "said_samples": said.value,
        "counted_in": said.counted_in,
        "said_source": said.source,
        "is_unknown": said.is_unknown,
    }


def _reported(dataset: Any, pipeline: Any, reading: Reading, counted: Any, seconds: float) -> tuple[float, float]:
    """Samples/s that a worker which samples for so long is said to deliver, and CPU seconds of a sample."""
    import tempfile
    from pathlib import Path

    from cs_input_analyzer.worker.journal import JournalWriter, read_journal
    from cs_input_analyzer.worker.sampler import Sampling, sample
    from cs_input_analyzer.worker.summary import Ending, worker_result

    iterator = reading.iterator
    if pipeline.cardinality is not None:  # a pass would end in the middle, and another loop goes on with the iterator
        iterator = iter(dataset)
    with tempfile.TemporaryDirectory() as folder:
        writer = JournalWriter(Path(folder))
        writer.event("first_batch", first_batch_s=0.0, bytes=1, samples=counted.value or 1)
        sampling = Sampling(
            dataset=dataset, iterator=iterator, ops=pipeline.ops, samples=counted, min_window_s=seconds, max_window_s=seconds
        )
        sample(writer, sampling)
        journal = read_journal(Path(folder))
    worker = worker_result(journal, Ending(returncode=0, killed_for=None, output_tail=""), index=0, node="here")
    assert worker.samples_per_s is not None, worker.message
    assert worker.cpu_s_per_sample is not None, worker.message
    return worker.samples_per_s.estimate, worker.cpu_s_per_sample


def sizes(listed: Listed, params: Mapping[str, str], elements: int) -> dict[str, Any]:
    """Samples of each of the first elements: by the shape of the component that the list names. Fewer where the time is up."""
    dataset, _ = built(listed, params)
    samples, until_s = [], time.perf_counter() + SIZES_S
    for element in dataset.take(elements):
        shape = component_at(element, listed.samples).shape  # type: ignore[attr-defined]
        samples.append(math.prod(shape[axis] for axis in listed.axes))
        if time.perf_counter() > until_s:
            break
    return {"samples": samples}


# --- savings -----------------------------------------------------------------------------------------------------------------


def savings(
    listed: Listed,
    params: Mapping[str, str],
    seconds: float,
    rounds: int,
    budget_s: float,
    least: int = LEAST_ROUNDS,
    ready_s: float = READY_S,
) -> dict[str, Any]:
    """CPU seconds per sample that are saved where the op alone is replaced by elements that are ready, round by round.

    That is the CPU of the pipeline whose op's inputs are ready, minus that of the one in which the op's own elements are. Fewer
    rounds where the time is up. What stands before a cache that is full saves nothing.
    """
    from cs_input_analyzer.pipeline.graph import graph_def_of, named_inputs

    dataset, pipeline = built(listed, params)
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
    """Reads until buffers are full and a chunk is of the length that it will have."""
    reading.for_seconds(seconds)
    settle()
    reading.for_seconds(seconds)


def with_ready(dataset: Any, nodes: Sequence[str], ops: Sequence[str], longest_s: float = READY_S) -> Any:
    """The dataset in which elements of these ops are there from the beginning: the first that each gave, again and again.

    As many to a pass as the op gives, where that ends.
    """
    from cs_input_analyzer.pipeline.graph import graph_def_of

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
    """Op name -> name of its node in the GraphDef; the ops at the top of the pipeline only, sources first."""
    from cs_input_analyzer.pipeline.graph import reader_of

    return {op: place.node for op, place in reader_of(graph_def).places.items() if place.function is None and place.within is None}


def cut_after(dataset: Any, op: str) -> Any:
    """The pipeline cut after one of its ops, as flat tuples of tensors. None for an op inside a function, or one that this
    TensorFlow does not describe. Works as long as `dataset` lives."""
    from cs_input_analyzer.pipeline.edits import graph_text
    from cs_input_analyzer.pipeline.graph import graph_def_of

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
    """A few elements of `cut` in memory."""
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


# --- again, runs --------------------------------------------------------------------------------------------------------------


def again(
    listed: Listed, params: Mapping[str, str], fixes: Mapping[str, Sequence[Mapping[str, Any]]], rounds: int, seconds: float
) -> dict[str, Any]:
    """Samples/s of the original and of each fix, by name, of rounds in which each has its turn."""
    from cs_input_analyzer.pipeline.edits import apply
    from cs_input_analyzer.records import Edit

    dataset, _ = built(listed, params)
    readings, refused = {"original": Reading(dataset, listed)}, {}
    for name, edits in fixes.items():
        try:
            readings[name] = Reading(apply(dataset, [Edit(**edit) for edit in edits]), listed)
        except Exception as error:
            refused[name] = f"{type(error).__name__}: {str(error)[:300]}"
    found: dict[str, list[float]] = {name: [] for name in readings}
    for reading in readings.values():
        reading.take(2)
        reading.for_seconds(FILLING_S if len(readings) > 1 else 0.1)  # a cache must be full
    draw = random.Random(0)
    for _ in range(rounds if len(readings) > 1 else 0):
        for name in draw.sample(list(readings), len(readings)):
            settle()
            readings[name].for_seconds(seconds / 3)
            samples, took_s = readings[name].for_seconds(seconds)
            found[name].append(samples / took_s)
    return {"rates": found, "refused": refused}


def runs(listed: Listed, params: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, Any]:
    """Reads two elements with source files that have other texts, by path. What goes wrong is raised."""
    import importlib

    from cs_input_analyzer.worker.patched import patched_sources

    for path, text in texts.items():
        compile(text, path, "exec")
    with patched_sources(texts):
        targets = importlib.import_module("benchmarks.public_pipelines.targets")
        dataset = getattr(targets, listed.name)(params)
        read = sum(1 for _ in dataset.take(2))
    if not read:
        raise ValueError("it gives no element any more")
    return {"elements": read}


def main() -> None:
    name, checkouts, data, steps = sys.argv[1:]
    import tensorflow as tf

    from cs_input_analyzer.worker import capture

    tf.get_logger().setLevel("ERROR")
    listed = next(one for one in (*LISTED, *DRAWN) if one.name == name)
    measures = {"rates": rates, "sizes": sizes, "savings": savings, "again": again, "runs": runs}
    with capture.standing_in(listed.stand_ins, lambda module: None):
        for label, step, arguments in json.loads(steps):
            try:
                said = {"found": measures[step](listed, {"checkouts": checkouts, "data": data}, **arguments)}
            except Exception as error:  # one that fails says nothing about the others
                said = {"problem": f"{type(error).__name__}: {str(error)[:400]}"}
            print(MARK + json.dumps({"label": label, **said}), flush=True)
    os._exit(0)  # interpreters with Python functions in running pipelines are known to hang at shutdown


if __name__ == "__main__":
    main()
