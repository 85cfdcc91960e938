"""What the capacity model of a run says about launches that were not asked for: a curve through the plan, a grid around it."""

from __future__ import annotations

from collections.abc import Iterable

from cs_input_analyzer.planning import recommend
from cs_input_analyzer.planning.capacity import predict
from cs_input_analyzer.planning.recommend import single_task_nodes
from cs_input_analyzer.records import Analysis, Layout, Prediction

__all__ = ["current_prediction", "feeds", "launch_grid", "spread", "throughput_curve"]

# How fine the pictures are: enough for the eye, and tenths of a second of predictions at most.
MOST_CURVE_TASKS, MOST_CURVE_NODES = 12, 36
MOST_GRID_NODES, MOST_GRID_TASKS, MOST_GRID_CPUS = 10, 10, 4


def throughput_curve(analysis: Analysis) -> tuple[Prediction, ...]:
    """Launches with the CPUs per task of the plan, from one input worker to all that the cluster holds, by rising input workers.

    First the tasks of one node grow to those of the plan (on a cluster of one node: to all that fit), then the nodes. Launches that
    cannot run are left out; empty without a plan or a capacity model.
    """
    plan, cluster = analysis.recommendation, analysis.cluster
    if plan is None or analysis.capacity is None:
        return ()
    cpus = plan.cpus_per_task
    fitting = max(1, cluster.cpus_per_node // max(cpus, 1))
    tasks = plan.tasks_per_node if cluster.nodes > 1 else max(plan.tasks_per_node, fitting)
    current = analysis.options.current
    nodes_of_interest = {plan.nodes, current.nodes if current is not None else plan.nodes}
    layouts = [
        Layout(nodes=1, tasks_per_node=count, cpus_per_task=cpus)
        for count in spread(1, tasks, MOST_CURVE_TASKS, {plan.tasks_per_node})
    ]
    layouts += [
        Layout(nodes=count, tasks_per_node=tasks, cpus_per_task=cpus)
        for count in spread(2, cluster.nodes, MOST_CURVE_NODES, nodes_of_interest)
    ]
    found = {prediction.input_workers: prediction for prediction in _predicted(analysis, layouts) if prediction.problem is None}
    return tuple(found[workers] for workers in sorted(found))


def launch_grid(analysis: Analysis) -> tuple[Prediction, ...]:
    """Launches over nodes × tasks × CPUs around the plan, those that cannot run included (their `problem` says why).

    CPUs per task go up to the largest that was probed, as in the plan; where there are too many values of one, they are spread
    evenly on a log scale, those of the plan and of the launch in use among them.
    """
    plan, cluster, model = analysis.recommendation, analysis.cluster, analysis.capacity
    if plan is None or model is None:
        return ()
    wanted = [layout for layout in (plan.layout, analysis.options.current) if layout is not None]
    cpus = spread(1, min(model.largest_cpus_probed, cluster.cpus_per_node), MOST_GRID_CPUS, {at.cpus_per_task for at in wanted})
    tasks = spread(1, cluster.cpus_per_node, MOST_GRID_TASKS, {at.tasks_per_node for at in wanted})
    nodes = spread(1, cluster.nodes, MOST_GRID_NODES, {at.nodes for at in wanted})
    layouts = (Layout(nodes=node, tasks_per_node=task, cpus_per_task=cpu) for cpu in cpus for task in tasks for node in nodes)
    return tuple(_predicted(analysis, layouts))


def current_prediction(analysis: Analysis) -> Prediction | None:
    """The launch in use today, as the model sees it; None where none was given, or where it cannot run."""
    if analysis.options.current is None or analysis.capacity is None:
        return None
    (found,) = _predicted(analysis, (analysis.options.current,))
    return found if found.problem is None else None


def feeds(prediction: Prediction, analysis: Analysis) -> bool | None:
    """Whether it reaches the demand with headroom, as plans must; None without a demand."""
    found = recommend.feeds(prediction.samples_per_s, analysis.consumption, analysis.options.headroom_ratio)
    return found if found is None else found and prediction.problem is None


def _predicted(analysis: Analysis, layouts: Iterable[Layout]) -> Iterable[Prediction]:
    assert analysis.capacity is not None
    for layout in layouts:
        yield predict(
            analysis.capacity,
            analysis.cluster,
            layout,
            single_task_nodes=single_task_nodes(layout.nodes, analysis.consumption, analysis.options),
            feed=analysis.options.feed,
        )


def spread(first: int, last: int, most: int, wanted: Iterable[int] = ()) -> tuple[int, ...]:
    """At most about `most` whole numbers from `first` to `last`, evenly spread on a log scale, with the `wanted` ones inside."""
    if last < first:
        return ()
    if last - first < most:
        return tuple(range(first, last + 1))
    ratio = last / first
    steps = {round(first * ratio ** (step / (most - 1))) for step in range(most)}
    return tuple(sorted({first, last} | steps | {number for number in wanted if first <= number <= last}))
