"""One pipeline in a process of its own: start the process, build the pipeline, read it by a bare loop or as a worker does."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cs_input_analyzer.records import PipelineGraph, SamplesPerElement, WorkerResult

MARK = "RESULT "
Bare = Callable[[int], tuple[float, float]]


class FreshError(RuntimeError):
    """A fresh process failed; the message is its end and its last words."""


def fresh(
    function: Callable[..., Any],
    *arguments: Any,
    cpus: str | None = None,
    environment: Mapping[str, str] = os.environ,
    patience_s: float | None = None,
) -> Any:
    """Call a function of a module in a fresh process, and return its result. Arguments and result are carried as JSON.

    Args:
        cpus: the process has these; None for those of this one.

    Raises:
        FreshError: there is no result, or not within `patience_s`.
    """
    pinned = () if cpus is None else ("taskset", "-c", cpus)
    module = sys.modules[function.__module__].__spec__
    assert module is not None  # its name is not `__main__`, also where it is the command that runs
    command = [*pinned, sys.executable, "-m", __name__, f"{module.name}:{function.__name__}", json.dumps(arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=patience_s)
    except subprocess.TimeoutExpired as error:
        raise FreshError(f"not done after {error.timeout:.0f} s") from error
    told = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode != 0 or not told:
        raise FreshError(f"exit {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(told[-1])


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


def sampled(folder: Path, dataset: Any, iterator: Any, ops: Any, samples: int, seconds: float) -> Any:
    """Sample a running iterator for so long, as a worker does that writes into `folder`; return the journal and its writer."""
    from cs_input_analyzer.worker.journal import JournalWriter, read_journal
    from cs_input_analyzer.worker.sampler import sample
    from cs_input_analyzer.worker.side_thread import Sampling

    writer = JournalWriter(folder)
    writer.event("first_batch", first_batch_s=0.0, bytes=1, samples=samples)
    counted = SamplesPerElement(value=samples, source="made so")
    window = {"min_window_s": seconds, "max_window_s": seconds}
    sample(writer, Sampling(dataset=dataset, iterator=iterator, ops=ops, samples=counted, **window))
    return read_journal(folder), writer


def worker_of(journal: Any) -> WorkerResult:
    """Return the result of the worker that wrote a journal."""
    from cs_input_analyzer.worker.summary import Ending, worker_result

    return worker_result(journal, Ending(returncode=0, killed_for=None, output_tail=""), index=0, node="here")


if __name__ == "__main__":
    name, _, function = sys.argv[1].partition(":")
    code = 1
    try:
        print(MARK + json.dumps(getattr(importlib.import_module(name), function)(*json.loads(sys.argv[2]))), flush=True)
        code = 0
    except Exception:
        traceback.print_exc()
    os._exit(code)  # interpreters with Python functions in running pipelines are known to hang at shutdown
