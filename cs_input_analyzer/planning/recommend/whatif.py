"""What the plan would be if one thing were different: each row is planned anew."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cs_input_analyzer.planning.recommend.launches import EQUAL_RATIO, Choice, choose, limit_on, on_nodes
from cs_input_analyzer.planning.recommend.problem import PlanningProblem
from cs_input_analyzer.planning.recommend.verdict import chance
from cs_input_analyzer.records import CapacityModel, Estimate, Layout, WhatIf
from cs_input_analyzer.stats.estimates import product
from cs_input_analyzer.units import counted, format_count, format_ratio

NODE = "one more node"
STORAGE = "twice the storage bandwidth"
FILES = "twice the files"
MEMORY = "twice the memory per node"
CACHED = "dataset cached on every node"
FIXES = "all fixes applied"

READ_OUT_RATIO = 0.8
"""A worker that reads this share of what its host can read waits for it: another storage would have shown another rate."""


def what_if(problem: PlanningProblem, choice: Choice, *, gain: Estimate | None, cached: Estimate | None) -> tuple[WhatIf, ...]:
    """One row for each change that means something here: nothing can be said of twice a storage bandwidth that is not known, nor of
    workers that waited for it and were not seen without.

    Args:
        gain: rate of one worker with all fixes over the rate without; None leaves that row out.
        cached: rate of a worker whose files are in memory over that of one that reads them; None leaves that row out.
    """
    problem = replace(problem, options=replace(problem.options, previous=None))
    found = [(NODE, _one_more_node(problem, choice))]
    found += [(name, choose(changed)) for name, changed in _changes(problem, gain, cached)]
    return tuple(_row(name, choice, other) for name, other in found if other is not None)


def _one_more_node(problem: PlanningProblem, choice: Choice) -> Choice | None:
    """What would be used on one node more than the plan's."""
    nodes = choice.best.layout.nodes + 1
    larger = replace(problem, cluster=replace(problem.cluster, nodes=max(problem.cluster.nodes, nodes)))
    best = on_nodes(larger, nodes)
    if best is None:
        return None
    return Choice(best, None if problem.needed is None else chance(best.samples_per_s, problem.needed), limit_on(larger, best))


def _changes(problem: PlanningProblem, gain: Estimate | None, cached: Estimate | None) -> Iterator[tuple[str, PlanningProblem]]:
    model, cluster = problem.model, problem.cluster
    faster = _reading_faster(model, cached)
    if faster is not None and (cluster.storage_bytes_per_s is not None or model.host_read_bytes_per_s is not None):
        shared, seen = cluster.storage_bytes_per_s, cluster.measured_storage_bytes_per_s
        doubled = replace(
            cluster,
            storage_bytes_per_s=None if shared is None else 2 * shared,
            measured_storage_bytes_per_s=None if seen is None else seen.scaled(2),
        )
        rates = problem.worker_rates if faster.workers == model.workers else {}
        yield STORAGE, replace(problem, model=faster, cluster=doubled, worker_rates=rates)
    if model.is_sharded and model.file_count is not None:
        yield FILES, replace(problem, model=replace(model, file_count=2 * model.file_count))
    if model.private_bytes:
        yield MEMORY, replace(problem, cluster=replace(cluster, memory_bytes_per_node=2 * cluster.memory_bytes_per_node))
    if cached is not None:
        yield CACHED, replace(problem, model=_unread(model, cached), worker_rates={})
    if gain is not None:
        yield FIXES, replace(problem, model=_faster(model, gain), worker_rates={})


def _reading_faster(model: CapacityModel, cached: Estimate | None) -> CapacityModel | None:
    """Workers whose host reads twice the bytes/s. Of those that waited for that, twice as fast, or as fast as without any reads
    where that is less; None where that was not measured, or what they read is not known."""
    own, read = model.host_read_bytes_per_s, model.bytes_read_per_sample
    if not read:
        return None
    if own is None:
        return model
    doubled = replace(model, host_read_bytes_per_s=2 * own)
    if max(point.samples_per_s.estimate for point in model.workers) * read < READ_OUT_RATIO * own:
        return doubled
    return None if cached is None else _faster_workers(doubled, cached.capped(2.0))


def _unread(model: CapacityModel, gain: Estimate) -> CapacityModel:
    """Workers whose files are in memory. What is in memory is read neither from the storage nor over the network."""
    ceilings = tuple(limit for limit in model.ceilings if not limit.is_storage)
    faster = _faster_workers(model, gain)
    return replace(faster, ceilings=ceilings, bytes_read_per_sample=None, host_read_bytes_per_s=None)


def _faster_workers(model: CapacityModel, gain: Estimate) -> CapacityModel:
    """Workers `gain` times as fast, as one of them was without its reads, but no faster than their CPUs allow (bottleneck law,
    X <= m / D). What they lost to each other they still lose: it was seen with files that were read."""
    points = []
    for point in model.workers:
        cost = point.cpu_s_per_sample
        most = math.inf if not cost else max(point.cpus / cost, point.samples_per_s.high)
        rates = tuple(min(rate * gain.estimate, most) for rate in point.replicates)
        points.append(replace(point, samples_per_s=product(point.samples_per_s, gain).capped(most), replicates=rates))
    return replace(model, workers=tuple(points))


def _faster(model: CapacityModel, gain: Estimate) -> CapacityModel:
    """Every worker `gain` times as fast. The ratio for shards is where a factor on all workers goes."""
    lifted = tuple(replace(limit, samples_per_s=limit.samples_per_s * gain.estimate) for limit in model.ceilings)
    return replace(model, shard_ratio=product(model.shard_ratio, gain), shard_replicates=(), ceilings=lifted)


def _row(name: str, choice: Choice, found: Choice) -> WhatIf:
    best = found.best
    return WhatIf(
        name=name,
        layout=best.layout,
        input_workers=best.input_workers,
        predicted_samples_per_s=best.samples_per_s,
        limited_by=found.limited_by,
        meets_demand=found.meets,
        note=_note(choice, found),
    )


def _note(choice: Choice, found: Choice) -> str:
    """What changes against the plan: `8 nodes -> 5`, `meets the demand`, `low end +12 %`."""
    before, after = choice.best, found.best
    old, new = before.layout, after.layout
    grown = after.samples_per_s.low / before.samples_per_s.low - 1
    is_same_rate = abs(grown) <= 1 - EQUAL_RATIO
    notes = ["meets the demand"] if found.meets and not choice.meets else []
    if new.nodes != old.nodes:
        notes.append(f"{_nodes(old)} -> {format_count(new.nodes)}")
    elif new.cpus != old.cpus:
        notes.append(f"{format_count(old.cpus)} CPUs -> {format_count(new.cpus)}")
    if new.nodes > old.nodes and is_same_rate:
        notes.append(f"no faster: {found.limited_by}")
    elif new.nodes >= old.nodes and not is_same_rate:
        notes.append(f"low end {'+' if grown > 0 else ''}{format_ratio(grown)}")
    return ", ".join(notes) or "changes nothing"


def _nodes(layout: Layout) -> str:
    return counted(layout.nodes, "node")
