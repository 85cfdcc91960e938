"""The plan, and the launch in use today, with all kept fixes. Pure."""

from __future__ import annotations

from dataclasses import replace

from cs_input_analyzer.model.estimates import product
from cs_input_analyzer.model.recommend.alternatives import alternative
from cs_input_analyzer.model.recommend.launches import choose
from cs_input_analyzer.model.recommend.problem import PlanningProblem, predict_current
from cs_input_analyzer.records import Alternative, CapacityModel, Cluster, Consumption, Estimate, LaunchPlan, Options


def with_gain(
    model: CapacityModel,
    consumption: Consumption | None,
    cluster: Cluster,
    options: Options,
    *,
    plan: LaunchPlan,
    gain: Estimate,
    gain_cpus: int,
) -> tuple[Alternative | None, Alternative | None]:
    """Return the plan and the launch in use today with workers that are `gain` times as fast.

    The first is None if no launch fits, the second if there is none, if it cannot run, or if its tasks have fewer CPUs than the
    gain was measured with. The memory that caches and buffers of the fixes take is not known.

    Args:
        plan: the plan without fixes.
        gain: rate of one worker with all fixes over the rate without.
        gain_cpus: CPUs of that worker. If those of the plan have fewer, only workers of at least as many have the gain: a
            parallel map gains nothing on one CPU.
    """
    # The ratio for shards is where a factor on all workers goes.
    lifted = tuple(limit.scaled(gain.estimate) for limit in model.ceilings)
    faster = replace(model, shard_ratio=product(model.shard_ratio, gain), ceilings=lifted)
    is_wider = gain_cpus > plan.cpus_per_task
    problem = PlanningProblem(
        model=faster, consumption=consumption, cluster=cluster, options=options, least_cpus=gain_cpus if is_wider else 1
    )
    choice, after = choose(problem), None
    if choice is not None:
        after = replace(alternative(problem, choice.best), memory_bytes_per_node=None)
        if is_wider:
            after = max(after, Alternative.of(plan, memory_bytes_per_node=None), key=_merit)
    current = options.current
    if current is None or current.cpus_per_task < gain_cpus:
        return after, None
    today = predict_current(faster, consumption, cluster, options, current)
    if today.problem is not None:
        return after, None
    return after, replace(alternative(problem, today), memory_bytes_per_node=None)


def _merit(launch: Alternative) -> tuple[bool, int, float]:
    """Order launches as the plan is chosen: those that feed the accelerator by their nodes, others by their low end."""
    nodes, low = launch.layout.nodes, launch.predicted_samples_per_s.low
    if launch.meets_demand:
        return True, -nodes, low
    return False, 0, low / nodes if launch.meets_demand is None else low
