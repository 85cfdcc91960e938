"""The rate that our worker reports of a pipeline, against a bare loop in the TensorFlow graph, in one process.

Both read the same running iterator in turns. So they meet the same thread pools, the same choices of AUTOTUNE and the same
neighbours on the host.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.in_process import bare_loop, built, in_turns, sampled, worker_of
from cs_input_analyzer.records import SamplesPerElement


def rates_of(target: str, params: Mapping[str, Any], pairs: int, seconds: float) -> dict[str, list[float]]:
    """Return the samples/s of each pair, `reported` and `bare`."""
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
    return {"reported": ours, "bare": [samples / wall_s for wall_s, _ in bare]}
