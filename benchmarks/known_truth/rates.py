"""The rate that our worker reports of a pipeline, against a bare loop in the TensorFlow graph: a fresh process for both.

Both read the same running iterator, alternately, in pairs whose order is turned every time: so they meet the same thread pools, the
same choices of AUTOTUNE and the same neighbours on the host. Before each half the bare loop drains what the buffers gathered.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MARK = "RESULT "


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Samples per second, pair by pair."""

    reported: tuple[float, ...]
    bare: tuple[float, ...]


def rates_of(target: str, params: Mapping[str, Any], pairs: int, seconds: float) -> Rates:
    """Runs a fresh process on the CPUs of this one."""
    command = [sys.executable, "-m", "benchmarks.known_truth.rates", target, json.dumps(params), str(pairs), str(seconds)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-3000:])
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith(MARK)).removeprefix(MARK))
    return Rates(reported=tuple(found["reported"]), bare=tuple(found["bare"]))


def _measure(target: str, params: Mapping[str, Any], pairs: int, seconds: float) -> Rates:
    import tensorflow as tf

    from benchmarks.measuring_overhead import bare_loop
    from cs_input_analyzer.pipeline import graph
    from cs_input_analyzer.worker import load

    call = load.Call(params=params, mode="train", num_workers=1, worker_index=0)
    with graph.recorded_sources() as log:
        dataset = load.build_dataset(load.find_object(load.parse_target(target)), call)
    pipeline = graph.read_graph(dataset, log, target=target)
    samples = pipeline.batch_size
    assert samples is not None
    iterator = iter(dataset)
    loop = bare_loop(iterator)
    loop(tf.constant(2))
    rate = _reported(dataset, iterator, pipeline.ops, samples, 2 * seconds)  # lets AUTOTUNE settle, and tells how many fill a half
    batches = max(2, int(seconds * rate / samples))
    seen: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs):
        for half in (0, 1) if pair % 2 else (1, 0):
            loop(tf.constant(max(2, batches // 4)))
            if half:
                seen[1].append(_reported(dataset, iterator, pipeline.ops, samples, seconds))
            else:
                began_s = time.perf_counter()
                loop(tf.constant(batches))
                seen[0].append(batches * samples / (time.perf_counter() - began_s))
    return Rates(reported=tuple(seen[1]), bare=tuple(seen[0]))


def _reported(dataset: Any, iterator: Any, ops: Any, samples: int, seconds: float) -> float:
    """What a worker that samples for so long is said to deliver."""
    from cs_input_analyzer.records import SamplesPerElement
    from cs_input_analyzer.worker.journal import JournalWriter, read_journal
    from cs_input_analyzer.worker.sampler import Sampling, sample
    from cs_input_analyzer.worker.summary import Ending, worker_result

    with tempfile.TemporaryDirectory() as folder:
        writer = JournalWriter(Path(folder))
        writer.event("first_batch", first_batch_s=0.0, bytes=1, samples=samples)
        counted = SamplesPerElement(value=samples, source="made so")
        sampling = Sampling(
            dataset=dataset, iterator=iterator, ops=ops, samples=counted, min_window_s=seconds, max_window_s=seconds
        )
        sample(writer, sampling)
        journal = read_journal(Path(folder))
    worker = worker_result(journal, Ending(returncode=0, killed_for=None, output_tail=""), index=0, node="here")
    assert worker.samples_per_s is not None
    return worker.samples_per_s.estimate


if __name__ == "__main__":
    target, params, pairs, seconds = sys.argv[1:]
    found = _measure(target, json.loads(params), int(pairs), float(seconds))
    print(MARK + json.dumps(asdict(found)), flush=True)
    os._exit(0)  # interpreters with Python functions in running pipelines are known to hang at shutdown
