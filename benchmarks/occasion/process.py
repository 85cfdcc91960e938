"""A measured process: one input worker of one launch. It builds its pipeline, then runs a slice each time it is told to.

    python -m benchmarks.occasion.process PIPELINE CPU,CPU… PARAMS.json

Orders are lines on standard input (`slice SECONDS`, anything else ends it), answers lines of JSON on standard output. Between
slices no batches are asked for, so the pipeline stands still with full buffers; the first moments of a slice are therefore not
counted, and it answers only once its buffers are full again, as that takes CPU time from whoever is next. The CPU set is fixed
before TensorFlow is loaded.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from cs_input_analyzer.host.counters import CounterReader
from cs_input_analyzer.worker.noise import noise_between

# Buffers that filled between slices are emptied for so long, before a slice counts.
DRAIN_S = 0.25
# AUTOTUNE and caches find their places for so long, before the first slice.
WARM_S = 1.5
# Idle is who uses less than this part of a CPU for so long; after the patience it answers anyway.
IDLE_RATIO, IDLE_S, IDLE_PATIENCE_S = 0.1, 0.05, 4.0
JIFFY_S = 1 / os.sysconf("SC_CLK_TCK")


def main() -> None:
    pipeline, cpus, params = sys.argv[1:]
    os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(",")])
    began_s = time.monotonic()
    loop, samples = _loop(pipeline, json.loads(params))
    loop(WARM_S)
    _wait_until_idle()
    _tell(ready_s=round(time.monotonic() - began_s, 2))
    for order in sys.stdin:
        word, _, seconds = order.strip().partition(" ")
        if word != "slice":
            break
        answer = one_slice(loop, samples, float(seconds))
        _wait_until_idle()
        _tell(**answer)
    os._exit(0)  # interpreters with a running pipeline are known to hang at shutdown


def one_slice(loop: Callable[[float], int], samples_per_element: int, seconds: float) -> dict[str, Any]:
    """Return what one slice gave: samples and, over the same time, wall, CPU, run-queue wait, and those of the host.

    It counts from one batch to another, so the edges cut no batch in two.
    """
    loop(DRAIN_S)
    counters = CounterReader()
    host_busy_s, host_steal_s = _host()
    before, began_s = counters.read(), time.monotonic()
    batches = loop(seconds)
    wall_s, after = time.monotonic() - began_s, counters.read()
    busy_after_s, steal_after_s = _host()
    noise = noise_between(before, after)
    return {
        "samples": batches * samples_per_element,
        "wall_us": round(wall_s * 1e6),
        "cpu_us": round((after.cpu_s - before.cpu_s) * 1e6),
        "queue_us": round(((after.queued_s or 0.0) - (before.queued_s or 0.0)) * 1e6),
        "host_cpu_ms": round((busy_after_s - host_busy_s) * 1e3),
        "steal_ms": round((steal_after_s - host_steal_s) * 1e3),
        "load": round(os.getloadavg()[0], 1),
        "others_ratio": None if noise.others_ratio is None else round(noise.others_ratio, 3),
    }


def _loop(pipeline: str, params: dict[str, Any]) -> tuple[Callable[[float], int], int]:
    """Return a function that runs the pipeline for some seconds inside the graph, and the samples of each batch.

    The function returns its batches.
    """
    import tensorflow as tf

    from benchmarks.occasion.pipelines import build

    dataset, samples = build(pipeline, params)
    iterator = iter(dataset)

    @tf.function
    def run(until_s: tf.Tensor) -> tf.Tensor:
        batches, now_s = tf.constant(0, tf.int64), tf.constant(0.0, tf.float64)
        while now_s < until_s:
            batch = iterator.get_next()
            with tf.control_dependencies(tf.nest.flatten(batch)):  # a timestamp waits for nothing by itself
                now_s = tf.timestamp()
            batches += 1
        return batches

    return lambda seconds: int(run(tf.constant(time.time() + seconds, tf.float64))), samples


def _wait_until_idle() -> None:
    until_s = time.monotonic() + IDLE_PATIENCE_S
    while time.monotonic() < until_s:
        began_s, cpu_s = time.monotonic(), time.process_time()
        time.sleep(IDLE_S)
        if time.process_time() - cpu_s < IDLE_RATIO * (time.monotonic() - began_s):
            return


def _host() -> tuple[float, float]:
    """Seconds that all CPUs of the host were busy, and seconds that its hypervisor took, since it started (/proc/stat)."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = (int(value) for value in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq) * JIFFY_S, steal * JIFFY_S


def _tell(**answer: object) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
