"""What the plan would be if one thing were different: each row is planned anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cs_input_analyzer.planning.recommend.launches import EQUAL_RATIO, Choice, choose, limit_on, on_nodes
from cs_input_analyzer.planning.recommend.problem import PlanningProblem
from cs_input_analyzer.planning.recommend.verdict import chance
from cs_input_analyzer.records import Estimate, WhatIf
from cs_input_analyzer.stats.estimates import product
from cs_input_analyzer.units import counted, format_count, format_ratio

NODE = "one more node"
FILES = "twice the files"
MEMORY = "twice the memory per node"
FIXES = "all fixes applied"


def what_if(problem: PlanningProblem, choice: Choice, *, gain: Estimate | None) -> tuple[WhatIf, ...]:
    """One row for each change that means something here.

    Args:
        gain: rate of one worker with all fixes over the rate without; None leaves that row out.
    """
    problem = replace(problem, options=replace(problem.options, previous=None))
    found = [(NODE, _one_more_node(problem, choice))]
    found += [(name, choose(changed)) for name, changed in _changes(problem, gain)]
    return tuple(_row(name, choice, other) for name, other in found if other is not None)


def _one_more_node(problem: PlanningProblem, choice: Choice) -> Choice | None:
    """What would be used on one node more than the plan's."""
    nodes = choice.best.layout.nodes + 1
    larger = replace(problem, cluster=replace(problem.cluster, nodes=max(problem.cluster.nodes, nodes)))
    best = on_nodes(larger, nodes)
    if best is None:
        return None
    return Choice(best, None if problem.needed is None else chance(best.samples_per_s, problem.needed), limit_on(larger, best))


def _changes(problem: PlanningProblem, gain: Estimate | None) -> Iterator[tuple[str, PlanningProblem]]:
    model, cluster = problem.model, problem.cluster
    if model.is_sharded and model.file_count is not None:
        yield FILES, replace(problem, model=replace(model, file_count=2 * model.file_count))
    if model.private_bytes:
        yield MEMORY, replace(problem, cluster=replace(cluster, memory_bytes_per_node=2 * cluster.memory_bytes_per_node))
    if gain is not None:
        # Every worker `gain` times as fast. The ratio for shards is where a factor on all workers goes.
        lifted = tuple(limit.scaled(gain.estimate) for limit in model.ceilings)
        faster = replace(model, shard_ratio=product(model.shard_ratio, gain), shard_replicates=(), ceilings=lifted)
        yield FIXES, replace(problem, model=faster, worker_rates={})


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
        notes.append(f"{counted(old.nodes, 'node')} -> {format_count(new.nodes)}")
    elif new.cpus != old.cpus:
        notes.append(f"{format_count(old.cpus)} CPUs -> {format_count(new.cpus)}")
    if new.nodes > old.nodes and is_same_rate:
        notes.append(f"no faster: {found.limited_by}")
    elif new.nodes >= old.nodes and not is_same_rate:
        notes.append(f"low end {'+' if grown > 0 else ''}{format_ratio(grown)}")
    return ", ".join(notes) or "changes nothing"
