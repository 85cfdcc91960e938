"""The same workers on one node, then on more: the share of the rate that each node keeps, and the ceiling of their storage."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from cs_input_analyzer.model.capacity.assumptions import ASSUMED
from cs_input_analyzer.model.estimates import NORMAL_95, mean_of, product, quotient
from cs_input_analyzer.records import CacheChoice, Estimate, Measurement, Scaling, ScalingPoint, WorkerResult
from cs_input_analyzer.units import format_bytes_per_s, format_ratio

# Nodes that keep at least this part of their rate scale; the loss of others is examined.
SCALES_RATIO = 0.9
# The storage is the cause if at least this part of a sample's extra time is waiting (not CPU, not the run queue).
WAITED_SHARE_RATIO = 0.5


def scaling_of(measurements: Sequence[Measurement], cache: CacheChoice) -> Scaling | None:
    """Return the launches of one shape over different numbers of nodes. Return None without at least two such numbers.

    By the bottleneck law n nodes read n times the rate of one until they reach the rate of the storage. A ceiling is
    reported only if nodes did lose rate, and their workers spent the lost time waiting. A loss to busy CPUs or a slow
    node is no ceiling of the storage.

    Args:
        measurements: the launches.
        cache: launches whose files were in this state count.
    """
    alike = [m for m in measurements if m.cache_state == cache and m.isolation == "process" and m.role == "probe"]
    shape = _widest_shape([m for m in alike if m.layout.tasks == m.num_workers == len(m.measured_workers)])
    if shape is None:
        return None
    by_nodes: dict[int, list[Measurement]] = defaultdict(list)
    for measurement in shape:
        by_nodes[measurement.layout.nodes].append(measurement)
    points = tuple(_point(nodes, launches) for nodes, launches in sorted(by_nodes.items()))
    first, last = points[0], points[-1]
    kept_ratio = quotient(last.samples_per_s, first.samples_per_s).scaled(first.nodes / last.nodes)
    medians = {
        nodes: median(worker.samples_per_s.estimate for m in launches for worker in m.workers if worker.samples_per_s is not None)
        for nodes, launches in by_nodes.items()
    }
    ceiling = None
    if kept_ratio.high < SCALES_RATIO and _is_storage(points, medians):
        # The most that nodes read at once: they waited for it, so more of them would get no more.
        ceiling = max((point.bytes_per_s for point in points if point.bytes_per_s), key=lambda rate: rate.estimate)
    return Scaling(points=points, kept_ratio=kept_ratio, ceiling_bytes_per_s=ceiling, note=_note(points, kept_ratio, ceiling))


def _widest_shape(measurements: Sequence[Measurement]) -> list[Measurement] | None:
    """Return the launches of the tasks and CPUs that ran on the most nodes, and on fewer."""
    shapes: dict[tuple[int, int], list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        shapes[measurement.layout.tasks_per_node, measurement.layout.cpus_per_task].append(measurement)
    several = [launches for launches in shapes.values() if len({m.layout.nodes for m in launches}) > 1]
    return max(several, key=lambda launches: (max(m.layout.nodes for m in launches), len(launches)), default=None)


def _point(nodes: int, launches: Sequence[Measurement]) -> ScalingPoint:
    rates = [m.samples_per_s for m in launches if m.samples_per_s is not None]
    between = NORMAL_95 * ASSUMED.launch / math.sqrt(len(rates))
    fresh_launches = Estimate(estimate=1.0, low=1 - between, high=1 + between)
    rate = replace(product(mean_of(rates), fresh_launches), count=len(rates))
    workers = [worker for m in launches for worker in m.measured_workers]
    read = [worker.bytes_read_per_sample for worker in workers if worker.bytes_read_per_sample is not None]
    waits = [
        wait for m in launches for worker in m.measured_workers if (wait := _wait_ratio(worker, m.layout.cpus_per_task)) is not None
    ]
    return ScalingPoint(
        nodes=nodes,
        workers=launches[0].layout.tasks,
        samples_per_s=rate,
        bytes_per_s=rate.scaled(sum(read) / len(read)) if read and sum(read) > 0 else None,
        wait_ratio=sum(waits) / len(waits) if waits else None,
    )


def _wait_ratio(worker: WorkerResult, cpus: int) -> float | None:
    """Return share of its CPUs' time in which a worker neither ran nor queued for a CPU (utilization law: busy = X · D / m)."""
    queued = worker.noise.run_queue_wait_ratio if worker.noise is not None else None
    if worker.samples_per_s is None or worker.cpu_s_per_sample is None or queued is None:
        return None
    return max(0.0, 1 - worker.samples_per_s.estimate * worker.cpu_s_per_sample * (1 + queued) / cpus)


def _is_storage(points: Sequence[ScalingPoint], medians: Mapping[int, float]) -> bool:
    """Return whether the extra time of a sample is mostly waiting, and all workers lost rate, not only those of a slow node.

    Of T seconds that one worker takes for a sample it waits w·T; the rest it runs, or queues for a CPU.
    """
    first, last = points[0], points[-1]
    if first.wait_ratio is None or last.wait_ratio is None or last.bytes_per_s is None:
        return False
    if medians[last.nodes] >= SCALES_RATIO * medians[first.nodes]:
        return False
    took_s, takes_s = (point.workers / point.samples_per_s.estimate for point in (first, last))
    busier_s = (1 - last.wait_ratio) * takes_s - (1 - first.wait_ratio) * took_s
    return takes_s > took_s and busier_s <= (1 - WAITED_SHARE_RATIO) * (takes_s - took_s)


def _note(points: Sequence[ScalingPoint], kept: Estimate, ceiling: Estimate | None) -> str:
    first, last = points[0], points[-1]
    span = f"from {first.nodes} to {last.nodes} nodes each keeps {format_ratio(kept.estimate)} of its rate"
    if ceiling is not None:
        return f"{span}: the shared storage gives all nodes together about {format_bytes_per_s(ceiling.estimate)}"
    if kept.high >= SCALES_RATIO:
        return f"{span}: the shared storage is not what limits up to {last.nodes} nodes"
    if last.bytes_per_s is None or last.wait_ratio is None:
        return f"{span}; it is not known whether that is the storage"
    return f"{span}, but the workers did not wait for it in the storage: CPUs or slow nodes are behind it"
