"""The bottleneck of one worker: the ceilings of its stations in order, the cause first.

The law is the bottleneck law of operational analysis (Denning & Buzen, "The operational analysis of queueing network models",
ACM Computing Surveys 10(3), 1978): the lowest ceiling is the bottleneck. The utilization law U = X · D / m says how near the worker
comes to it. `worker_ceilings` has the ceilings of one worker. A launch has one more, the slowest of several workers with unequal
shards, if the accelerator takes batches in turn.

No ceiling is below the measured rate. A ceiling a little below it is raised to it. A ceiling far below it is refuted and left
out, and so is one that was not measured. Two ceilings can show the same limit (a slow disk, and the reader that waits for it). Then
the cause comes first, even if its own number is slightly higher.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from cs_input_analyzer.model.capacity.assumptions import UNEVEN_RATIO
from cs_input_analyzer.model.worker_ceilings import Ceiling, Worker, kept_ceilings, worker_of
from cs_input_analyzer.records import (
    CapacityModel,
    Feed,
    Layout,
    Limit,
    Measurement,
    PipelineGraph,
    Profile,
    Station,
    StationKind,
    Storage,
    WorkerResult,
)
from cs_input_analyzer.tfdata.threads import reader_ops

# Ceilings within this ratio can be the same limit. A pipeline reads a little slower than a bare loop of reads.
SAME_LIMIT_RATIO = 1.4
# A shard is heavier if its samples need this many times the CPU or bytes of other shards.
HEAVIER_RATIO = 1.1


def stations_of(
    pipeline: PipelineGraph,
    profile: Profile,
    measurement: Measurement,
    *,
    storage: Storage | None = None,
    capacity: CapacityModel | None = None,
    measurements: Sequence[Measurement] = (),
    feed: Feed = "round-robin",
) -> tuple[Station, ...]:
    """Return the stations of one worker, the bottleneck first. Return nothing if the worker gave no rate.

    Args:
        pipeline: the pipeline of the worker.
        profile: of the first worker of `measurement`.
        measurement: the launch of the worker.
        storage: its `source_samples_per_s` is taken to be of a worker with as many CPUs.
        capacity: gives the distance of the slowest of several workers; None if unknown.
        measurements: all of the run; launches of several workers show whether the slowest has a heavier shard.
        feed: only a feed in turn makes the accelerator wait for the slowest worker.
    """
    worker = worker_of(pipeline, profile, measurement)
    if worker is None:
        return ()
    kept = kept_ceilings(worker, measurement, storage)
    bounds = [*_slowest_shard(worker, capacity, measurements, feed), *_causes_first(kept)]
    return tuple(_station(bound, worker.samples_per_s, profile.layout) for bound in bounds)


# --- several workers ----------------------------------------------------------------------------------------------------------


def _slowest_shard(
    worker: Worker, capacity: CapacityModel | None, measurements: Iterable[Measurement], feed: Feed
) -> Iterator[Ceiling]:
    """Yield the ceiling of a feed that takes batches in turn: the slowest worker's rate from each of them.

    It limits the launch and not the worker, so the rate of one worker alone does not refute it. A slow worker without
    more work was disturbed by a neighbour on the host. So was one that needs more CPU for the same data as the others.
    """
    if capacity is None or feed != "round-robin" or not 0 < capacity.slowest_ratio < UNEVEN_RATIO:
        return
    if any(_is_heavier(measurement, has_shards=capacity.is_sharded) for measurement in measurements):
        yield Ceiling(kind="slowest shard", samples_per_s=worker.samples_per_s * capacity.slowest_ratio)


def _is_heavier(measurement: Measurement, *, has_shards: bool) -> bool:
    """Return whether a sample of the slowest worker costs clearly more bytes, or CPU if it has its own, than one of the others."""
    workers = sorted(measurement.measured_workers, key=lambda worker: worker.samples_per_s.estimate if worker.samples_per_s else 0)
    if len(workers) < 2:
        return False
    slowest, *others = workers

    def is_more(demand: Callable[[WorkerResult], float | None]) -> bool:
        known = [value for other in others if (value := demand(other))]
        return bool(known) and (demand(slowest) or 0.0) >= HEAVIER_RATIO * sum(known) / len(known)

    return (has_shards and is_more(lambda one: one.cpu_s_per_sample)) or is_more(lambda one: one.bytes_read_per_sample)


# --- order ------------------------------------------------------------------------------------------------------------------


def _station(ceiling: Ceiling, samples_per_s: float, layout: Layout) -> Station:
    bound = ceiling.samples_per_s if ceiling.kind == "slowest shard" else max(ceiling.samples_per_s, samples_per_s)
    return Station(
        kind=ceiling.kind,
        op=ceiling.op.name if ceiling.op else None,
        source=ceiling.op.source if ceiling.op else None,
        samples_per_s=bound,
        utilization_ratio=min(1.0, samples_per_s / bound),
        layout=layout,
    )


def _causes_first(ceilings: Iterable[Ceiling]) -> list[Ceiling]:
    """Return the ceilings from the lowest up; if two show the same limit, the cause comes first."""
    order = sorted(ceilings, key=lambda ceiling: ceiling.samples_per_s)
    for explains in _EXPLANATIONS:
        for cause in list(order):
            place = next((index for index, other in enumerate(order) if other is not cause and explains(cause, other)), None)
            here = next(index for index, other in enumerate(order) if other is cause)
            if place is not None and place < here and cause.samples_per_s <= SAME_LIMIT_RATIO * order[place].samples_per_s:
                order.insert(place, order.pop(here))
    return order


def _ops_explain_readers(cause: Ceiling, other: Ceiling) -> bool:
    """Return whether the readers' rate follows from a thread or a fixed number of calls that reads."""
    return other.kind == "readers" and cause.kind in ("serial op", "fixed parallelism") and cause.op in other.members


def _the_lock_explains_python_calls(cause: Ceiling, other: Ceiling) -> bool:
    """Return whether calls at a time all wait for the lock."""
    return cause.kind == "Python (GIL)" and other.kind == "fixed parallelism" and other.servers > 1 and other.op in cause.members


def _storage_explains_reading(cause: Ceiling, other: Ceiling) -> bool:
    """Return whether the storage limits the readers, or a thread that mostly reads."""
    if cause.kind not in ("storage bandwidth", "storage latency"):
        return False
    return other.kind == "readers" or (other.costliest is not None and other.costliest in reader_ops(other.members))


_EXPLANATIONS: tuple[Callable[[Ceiling, Ceiling], bool], ...] = (
    _ops_explain_readers,
    _the_lock_explains_python_calls,
    _storage_explains_reading,
)
"""From the least to the most specific: the ceiling that moves last comes first."""


LASTING: tuple[StationKind, ...] = ("serial op", "fixed parallelism", "Python (GIL)", "storage latency")


def ceilings(
    pipeline: PipelineGraph,
    profile: Profile,
    measurement: Measurement,
    idle: WorkerResult,
    *,
    storage: Storage | None = None,
    measurements: Iterable[Measurement] = (),
) -> tuple[Limit, ...]:
    """Return the ceilings that no number of CPUs lifts a worker above, on an idle node.

    Idle CPUs lift a ceiling as they lift the worker, but not above the rate that the CPU time of a station allows.
    Other programs take no CPU time from a sample; they only make it wait. Storage is not faster on an idle node.

    Args:
        pipeline, storage: as for `stations_of`.
        profile, measurement: those of the worker of the stations.
        idle: the same worker as it would be on an idle node.
        measurements: no ceiling is below the rate of any of their workers.
    """
    worker = worker_of(pipeline, profile, measurement)
    if worker is None or idle.samples_per_s is None:
        return ()
    faster = idle.samples_per_s.estimate / worker.samples_per_s
    speed_ratio = (idle.cpu_s_per_sample or worker.cpu_s_per_sample) / worker.cpu_s_per_sample
    rates = [one.samples_per_s.estimate for launch in measurements for one in launch.measured_workers if one.samples_per_s]
    least = max([worker.samples_per_s, *rates])
    limits = []
    for one in _causes_first(kept_ceilings(worker, measurement, storage, has_more_cpus=True)):
        if one.kind not in LASTING or math.isinf(one.growth_ratio):
            continue
        measured = max(one.samples_per_s, least)
        lifted = one.samples_per_s if one.kind == "storage latency" else min(measured * faster, one.cpu_samples_per_s / speed_ratio)
        name = f"{one.kind}{f' {one.op.name}' if one.op else ''}"
        limits.append(Limit(name=name, samples_per_s=max(measured, lifted) * one.growth_ratio))
    return tuple(limits)
