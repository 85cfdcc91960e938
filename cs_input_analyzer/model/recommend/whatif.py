"""The plans for one changed assumption each: each row is planned anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cs_input_analyzer.model.estimates import product
from cs_input_analyzer.model.recommend.launches import EQUAL_RATIO, Choice, choose, limit_on, on_nodes
from cs_input_analyzer.model.recommend.problem import PlanningProblem, predicted_launch
from cs_input_analyzer.model.recommend.verdict import chance
from cs_input_analyzer.records import CapacityModel, Estimate, WhatIf
from cs_input_analyzer.units import counted, format_count, format_ratio

NODE = "one more node"
FILES = "twice the files"
MEMORY = "twice the memory per node"
FIXES, TODAY_FIXED = "all fixes applied", "today's launch, all fixes applied"


def what_if(problem: PlanningProblem, choice: Choice, *, gain: Estimate | None, gain_cpus: int = 1) -> tuple[WhatIf, ...]:
    """Return one row for each change that matters here.

    Args:
        problem: the planning problem.
        gain: rate of one worker with all fixes over the rate without; None leaves that row out.
        gain_cpus: CPUs of that worker. If those of the plan have fewer, only workers of at least as many have the gain: a
            parallel map gains nothing on one CPU.
    """
    problem = replace(problem, kept=None)
    found = [(NODE, _one_more_node(problem, choice))]
    found += [(name, choose(changed)) for name, changed in _changes(problem)]
    if gain is not None:
        found.append((FIXES, _with_fixes(problem, choice, gain, gain_cpus)))
        found.append((TODAY_FIXED, _today_with_fixes(problem, gain, gain_cpus)))
    return tuple(_row(name, choice, other) for name, other in found if other is not None)


def _one_more_node(problem: PlanningProblem, choice: Choice) -> Choice | None:
    """Return the launch on one node more than the plan's."""
    nodes = choice.best.layout.nodes + 1
    larger = replace(problem, cluster=replace(problem.cluster, nodes=max(problem.cluster.nodes, nodes)))
    best = on_nodes(larger, nodes)
    if best is None:
        return None
    return Choice(best, None if problem.needed is None else chance(best.samples_per_s, problem.needed), limit_on(larger, best))


def _changes(problem: PlanningProblem) -> Iterator[tuple[str, PlanningProblem]]:
    model, cluster = problem.model, problem.cluster
    if model.is_sharded and model.file_count is not None:
        yield FILES, replace(problem, model=replace(model, file_count=2 * model.file_count))
    if model.private_bytes:
        yield MEMORY, replace(problem, cluster=replace(cluster, memory_bytes_per_node=2 * cluster.memory_bytes_per_node))


def _with_fixes(problem: PlanningProblem, choice: Choice, gain: Estimate, cpus: int) -> Choice | None:
    """Return the launch with every worker `gain` times as fast.

    If the plan's workers have fewer CPUs than `cpus`, return the better of the two launches.
    """
    is_wider = cpus > choice.best.layout.cpus_per_task
    faster = _faster(problem.model, gain)
    found = choose(replace(problem, model=faster, worker_rates={}, least_cpus=cpus if is_wider else 1))
    return max((found, choice), key=_merit) if found is not None and is_wider else found


def _today_with_fixes(problem: PlanningProblem, gain: Estimate, cpus: int) -> Choice | None:
    """Return the launch in use today with workers `gain` times as fast; None if its tasks have fewer CPUs, or it cannot run."""
    today = problem.options.current
    if today is None or today.cpus_per_task < cpus:
        return None
    wide_enough = replace(problem.cluster, nodes=max(problem.cluster.nodes, today.nodes))
    found = predicted_launch(_faster(problem.model, gain), problem.consumption, wide_enough, problem.options, today)
    if found.problem is not None:
        return None
    return Choice(found, None if problem.needed is None else chance(found.samples_per_s, problem.needed), found.limited_by)


def _faster(model: CapacityModel, gain: Estimate) -> CapacityModel:
    """Return the model of workers that are `gain` times as fast."""
    # The ratio for shards is where a factor on all workers goes.
    lifted = tuple(limit.scaled(gain.estimate) for limit in model.ceilings)
    return replace(model, shard_ratio=product(model.shard_ratio, gain), ceilings=lifted)


def _merit(choice: Choice) -> tuple[bool, int, float]:
    """Orders launches as the plan is chosen: those that feed the accelerator by their nodes, others by their low end."""
    nodes, low = choice.best.layout.nodes, choice.best.samples_per_s.low
    if choice.meets:
        return True, -nodes, low
    return False, 0, low / nodes if choice.meets is None else low


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
    """Return the change against the plan: `8 nodes -> 5`, `meets the demand`, `low end +12 %`."""
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
