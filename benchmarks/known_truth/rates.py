"""The rate that our worker reports of a pipeline, against a bare loop in the TensorFlow graph: a fresh process for both.

Both read the same running iterator in turns. So they meet the same thread pools, the same choices of AUTOTUNE and the same
neighbours on the host.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.in_process import bare_loop, built, fresh, in_turns, sampled, tell, worker_of
from cs_input_analyzer.records import SamplesPerElement


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Samples per second, pair by pair."""

    reported: tuple[float, ...]
    bare: tuple[float, ...]


def rates_of(target: str, params: Mapping[str, Any], pairs: int, seconds: float) -> Rates:
    """Measure in a fresh process on the CPUs of this one."""
    found = fresh("benchmarks.known_truth.rates", target, json.dumps(params), str(pairs), str(seconds))
    return Rates(reported=tuple(found["reported"]), bare=tuple(found["bare"]))


def _measure(target: str, params: Mapping[str, Any], pairs: int, seconds: float) -> Rates:
    dataset, pipeline = built(target, params)
    samples = pipeline.batch_size
    assert samples is not None
    counted = SamplesPerElement(value=samples, source="made so")
    iterator = iter(dataset)
    loop = bare_loop(iterator)
    loop(2)

    def reported(window_s: float) -> float:
        """Return the samples/s that the analyzer reports for a window."""
        with tempfile.TemporaryDirectory() as folder:
            journal, _ = sampled(Path(folder), dataset, iterator, pipeline.ops, counted, window_s)
        worker = worker_of(journal)
        assert worker.samples_per_s is not None, worker.message
        return worker.samples_per_s.estimate

    # Lets AUTOTUNE settle, and tells how many batches fill a half.
    batches = max(2, int(seconds * reported(2 * seconds) / samples))
    ours, bare = in_turns(lambda: reported(seconds), loop, batches, pairs)
    return Rates(reported=tuple(ours), bare=tuple(samples / wall_s for wall_s, _ in bare))


if __name__ == "__main__":
    target, params, pairs, seconds = sys.argv[1:]
    tell(asdict(_measure(target, json.loads(params), int(pairs), float(seconds))))
    os._exit(0)  # interpreters with Python functions in running pipelines are known to hang at shutdown
