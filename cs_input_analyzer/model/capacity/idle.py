"""The rates of workers on idle CPUs, which plans for exclusive nodes rest on. Pure.

Other programs used a share of a worker's CPUs (counted by the kernel). A worker that waits for its storage needs little
CPU, and loses nothing to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cs_input_analyzer.model.capacity.assumptions import ASSUMED, assumed_spread
from cs_input_analyzer.model.estimates import NORMAL_95, from_log, total
from cs_input_analyzer.records import Estimate, Layout, Measurement, WorkerResult, others_ratio

MOST_TAKEN_RATIO = 0.9
"""A worker with a smaller share of its CPUs shows nothing about an idle host."""


def on_idle_cpus(launch: Measurement) -> Measurement:
    """Return the launch at the rates on idle CPUs. Return it unchanged if no other programs were seen."""
    workers = tuple(_worker(worker, launch.layout) for worker in launch.workers)
    rates = [worker.samples_per_s for worker in workers if worker.samples_per_s is not None]
    return launch if workers == launch.workers or not rates else replace(launch, workers=workers, samples_per_s=total(rates))


def _worker(worker: WorkerResult, layout: Layout) -> WorkerResult:
    kept = kept_ratio(worker, layout)
    if kept == 1 or worker.samples_per_s is None:
        return worker
    return replace(worker, samples_per_s=worker.samples_per_s.scaled(1 / kept))


def kept_ratio(worker: WorkerResult, layout: Layout) -> float:
    """Return the rate of a worker over that on idle CPUs (Amdahl's law).

    The CPUs affect the part of its time in which it used the CPUs that were left. That part is at most the time it ran,
    queued for a CPU, or lost one to the hypervisor.
    """
    rate, noise = worker.samples_per_s, worker.noise
    if rate is None or rate.estimate <= 0 or noise is None or not noise.others_ratio:
        return 1.0
    used = 1.0 if worker.cpu_s_per_sample is None else rate.estimate * worker.cpu_s_per_sample / layout.cpus_per_task
    left = 1 - min(noise.others_ratio, MOST_TAKEN_RATIO)
    queued = math.inf if noise.run_queue_wait_ratio is None else noise.run_queue_wait_ratio
    busy = min(1.0, used / left, used * (1 + queued) + (noise.steal_ratio or 0.0))
    return 1 - busy + busy * left


def kept_logs(launches: Sequence[Measurement]) -> list[float]:
    """Return the logarithms of the workers' rates over those on an idle host.

    Return nothing if other programs were not recorded.
    """
    return [
        math.log(kept_ratio(worker, launch.layout))
        for launch in launches
        for worker in launch.measured_workers
        if worker.noise is not None and worker.noise.others_ratio is not None
    ]


def host_ratio(measured: Sequence[Measurement]) -> Estimate:
    """Return the rate of launches on this host over that on an idle one; exactly 1 if nothing was seen."""
    logs = kept_logs(measured)
    if not logs:
        return Estimate.exact(1.0)
    mean = math.fsum(logs) / len(logs)
    spread = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / len(logs))
    error = math.hypot(spread, assumed_spread(ASSUMED.host, others_ratio(measured) or 0.0))
    found = from_log(mean, NORMAL_95 * error, len(logs))
    return replace(found, high=max(found.estimate, min(found.high, 1.0)))  # no host gives more than an idle one
