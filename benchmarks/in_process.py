"""One pipeline in a process of its own: start the process, build the pipeline, read it by a bare loop or as a worker does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cs_input_analyzer.records import PipelineGraph, SamplesPerElement, WorkerResult

MARK = "RESULT "
Bare = Callable[[int], tuple[float, float]]


def fresh(module: str, *arguments: str, cpus: str | None = None) -> Any:
    """Run a module in a fresh process, on `cpus` or those of this process, and return what it told.

    Raises:
        RuntimeError: it failed; with its exit code and its last words.
    """
    pinned = () if cpus is None else ("taskset", "-c", cpus)
    done = subprocess.run([*pinned, sys.executable, "-m", module, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode}\n{done.stderr[-3000:]}")
    return told(done.stdout)[-1]


def tell(answer: object) -> None:
    """Print an answer for the process that started this one."""
    print(MARK + json.dumps(answer), flush=True)


def told(output: str) -> list[Any]:
    """Return the answers in what a process printed."""
    return [json.loads(line.removeprefix(MARK)) for line in output.splitlines() if line.startswith(MARK)]


def built(make: Callable[..., Any] | str, params: Mapping[str, Any]) -> tuple[Any, PipelineGraph]:
    """Return the dataset of a function, or of a target by name, and what the analyzer reads in its graph."""
    from cs_input_analyzer.tfdata import graph, load

    call = load.Call(params=params, mode="train", num_workers=1, worker_index=0)
    with graph.recorded_sources() as log:
        function = load.find_object(load.parse_target(make)) if isinstance(make, str) else make
        dataset = load.build_dataset(function, call)
    return dataset, graph.read_graph(dataset, log, target=make if isinstance(make, str) else make.__name__)


def bare_loop(iterator: Any) -> Bare:
    """Return a loop in the graph that takes a number of elements and does nothing else; it returns wall and CPU seconds of each."""
    import tensorflow as tf

    @tf.function
    def loop(batches: Any) -> Any:
        def body(index: Any) -> Any:
            element = iterator.get_next()
            with tf.control_dependencies(tf.nest.flatten(element)):
                return index + 1

        return tf.while_loop(lambda index: index < batches, body, [tf.constant(0)], parallel_iterations=1)

    def timed(batches: int) -> tuple[float, float]:
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        loop(tf.constant(batches))
        return (time.perf_counter() - began_s) / batches, (time.process_time() - began_cpu_s) / batches

    return timed


def in_turns(ours: Callable[[], Any], bare: Bare, batches: int, pairs: int) -> tuple[list[Any], list[tuple[float, float]]]:
    """Return the halves of each pair: ours, and the bare loop over `batches`.

    The order is turned every time. Before each half the loop drains what the buffers gathered meanwhile.
    """
    halves: tuple[list[Any], list[tuple[float, float]]] = ([], [])
    for pair in range(pairs):
        for half in (0, 1) if pair % 2 else (1, 0):
            bare(max(2, batches // 3))
            halves[half].append(bare(batches) if half else ours())
    return halves


def sampled(folder: Path, dataset: Any, iterator: Any, ops: Any, counted: SamplesPerElement, seconds: float) -> Any:
    """Sample a running iterator for so long, as a worker does that writes into `folder`; return the journal and its writer."""
    from cs_input_analyzer.worker.journal import JournalWriter, read_journal
    from cs_input_analyzer.worker.sampler import sample
    from cs_input_analyzer.worker.side_thread import Sampling

    writer = JournalWriter(folder)
    writer.event("first_batch", first_batch_s=0.0, bytes=1, samples=counted.value or 1)
    window = {"min_window_s": seconds, "max_window_s": seconds}
    sample(writer, Sampling(dataset=dataset, iterator=iterator, ops=ops, samples=counted, **window))
    return read_journal(folder), writer


def worker_of(journal: Any) -> WorkerResult:
    """Return the result of the worker that wrote a journal."""
    from cs_input_analyzer.worker.summary import Ending, worker_result

    return worker_result(journal, Ending(returncode=0, killed_for=None, output_tail=""), index=0, node="here")
