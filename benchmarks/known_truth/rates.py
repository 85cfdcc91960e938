"""The rate that our worker reports of a pipeline, against a bare loop in the TensorFlow graph: a fresh process for both.

Both read the same running iterator, alternately, in pairs whose order is turned every time. So they meet the same thread pools, the
same choices of AUTOTUNE and the same neighbours on the host. Before each half the bare loop drains what the buffers gathered.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.in_process import bare_loop, built, fresh, reported, tell
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
    import tensorflow as tf

    dataset, pipeline = built(target, params)
    samples = pipeline.batch_size
    assert samples is not None
    counted = SamplesPerElement(value=samples, source="made so")
    iterator = iter(dataset)
    loop = bare_loop(iterator)
    loop(tf.constant(2))
    # Lets AUTOTUNE settle, and tells how many batches fill a half.
    rate, _ = reported(dataset, iterator, pipeline.ops, counted, 2 * seconds)
    batches = max(2, int(seconds * rate / samples))
    ours: list[float] = []
    bare: list[float] = []
    for pair in range(pairs):
        for is_ours in (False, True) if pair % 2 else (True, False):
            loop(tf.constant(max(2, batches // 4)))
            if is_ours:
                ours.append(reported(dataset, iterator, pipeline.ops, counted, seconds)[0])
            else:
                began_s = time.perf_counter()
                loop(tf.constant(batches))
                bare.append(batches * samples / (time.perf_counter() - began_s))
    return Rates(reported=tuple(ours), bare=tuple(bare))


if __name__ == "__main__":
    target, params, pairs, seconds = sys.argv[1:]
    tell(asdict(_measure(target, json.loads(params), int(pairs), float(seconds))))
    os._exit(0)  # interpreters with Python functions in running pipelines are known to hang at shutdown
