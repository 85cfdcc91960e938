"""The launch to use: the cheapest that feeds the accelerator, or the best there is.

Cheapest means fewest nodes, then least memory per node, then fewest CPUs per node. A launch counts as feeding when the *low* end of
its predicted interval reaches the demand with headroom. For a given (tasks, CPUs) more streaming nodes are never slower, so the
fewest nodes are found by bisection: planning looks at every (tasks, CPUs), but not at every node count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cs_input_analyzer import capacity
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import (
    Alternative,
    CapacityModel,
    Cluster,
    Consumption,
    Estimate,
    LaunchPlan,
    Layout,
    Options,
    Prediction,
    StorageBasis,
    VerdictName,
)
from cs_input_analyzer.units import format_bytes, format_rate, format_ratio

__all__ = ["THIS_HOST", "check_cluster", "judge", "predict_current", "recommend", "single_task_nodes"]

EQUAL_RATIO = 0.999
"""Where no launch meets the demand, rates within 0.1 % of the best count as equal, and the one with fewer nodes wins."""

MOST_ALTERNATIVES = 12

ROOM = "a launch needs room for the chief and at least one input worker, as two tasks on one node or on more nodes"

THIS_HOST = "this host"
"""`Cluster.source` of the machine that measures."""


class _Question(NamedTuple):
    model: CapacityModel
    consumption: Consumption | None
    cluster: Cluster
    options: Options


def single_task_nodes(nodes: int, consumption: Consumption | None, options: Options) -> int:
    """Nodes that run one task which does not stream: as asked, else 0 on one node, 2 for weight streaming, 1 otherwise."""
    if options.single_task_nodes is not None:
        return options.single_task_nodes
    if nodes == 1:
        return 0
    return 2 if consumption is not None and consumption.mode == "weight_streaming" else 1


def recommend(
    model: CapacityModel,
    consumption: Consumption | None,
    cluster: Cluster,
    options: Options,
    *,
    storage: StorageBasis | None = None,
) -> LaunchPlan:
    """The cheapest launch whose low end reaches the demand × (1 + headroom); without a demand, the highest rate per node.

    Where none reaches it: the one with the highest low end, `meets_demand` False, and `limited_by` names what to add. Never uses
    more CPUs per task than were probed: a plan grows by tasks and nodes.

    Args:
        storage: how the shared file system's ceiling is known; None: `declared` where the cluster states it, `measured` for one
            node that is the measuring host itself (its probes read the same files), else `unverified`.

    Raises:
        UsageError: no launch can run on this cluster at all.
    """
    question = _Question(model, consumption, cluster, options)
    _check(question)
    target = None if consumption is None else consumption.samples_per_s.estimate * (1 + options.headroom_ratio)
    if target is None:
        best = _highest_per_node(question)
        meets: bool | None = None
    else:
        cheapest = _cheapest(question, target)
        meets = cheapest is not None
        best = cheapest if cheapest is not None else _best_possible(question)
    limited_by = _binding(question, best) if meets is False else best.limited_by
    if storage is None:
        is_ours = cluster.source == THIS_HOST and best.layout.nodes == 1
        storage = "declared" if cluster.storage_bytes_per_s is not None else "measured" if is_ours else "unverified"
    return LaunchPlan(
        nodes=best.layout.nodes,
        tasks_per_node=best.layout.tasks_per_node,
        cpus_per_task=best.layout.cpus_per_task,
        single_task_nodes=best.single_task_nodes,
        input_workers=best.input_workers,
        predicted_samples_per_s=best.samples_per_s,
        extrapolation_ratio=best.extrapolation_ratio,
        limited_by=limited_by,
        meets_demand=meets,
        headroom_ratio=None if consumption is None else best.samples_per_s.low / consumption.samples_per_s.estimate - 1,
        memory_bytes_per_node=best.memory_bytes_per_node,
        storage=storage,
        expected_accelerator_utilization=None if consumption is None else _utilization(best.samples_per_s, consumption),
        alternatives=_alternatives(question, best, target),
        why=_why(question, best, target, limited_by),
    )


def predict_current(model: CapacityModel, consumption: Consumption | None, cluster: Cluster, options: Options) -> Prediction:
    """What the launch in use today (`--current`) delivers. It runs, so the cluster has at least its nodes.

    Raises:
        UsageError: no current launch was given.
    """
    current = options.current
    if current is None:
        raise UsageError("no current launch was given: add --current NODESxTASKSxCPUS")
    single = single_task_nodes(current.nodes, consumption, options)
    wide_enough = replace(cluster, nodes=max(cluster.nodes, current.nodes))
    return capacity.predict(model, wide_enough, current, single_task_nodes=single, feed=options.feed)


def judge(
    supply: Prediction | Estimate, consumption: Consumption | None, headroom_ratio: float
) -> tuple[VerdictName, float | None]:
    """The verdict on a supply, and the probability of that statement (0 to 1); (`unknown`, None) without a demand, or for a
    launch that cannot run.

    `input_bound` where the whole interval lies below the demand, `accelerator_bound` where all of it lies at or above the demand
    with headroom, else `balanced`. Supply and demand are taken as independent normals with these 90 % intervals.
    """
    if consumption is None or (isinstance(supply, Prediction) and supply.problem is not None):
        return "unknown", None
    rate = supply.samples_per_s if isinstance(supply, Prediction) else supply
    demand = consumption.samples_per_s
    enough = demand.scaled(1 + headroom_ratio)
    below, below_enough = _probability_below(rate, demand), _probability_below(rate, enough)
    if rate.high < demand.estimate:
        return "input_bound", below
    if rate.low >= enough.estimate:
        return "accelerator_bound", 1 - below_enough
    return "balanced", below_enough - below


def _probability_below(supply: Estimate, threshold: Estimate) -> float:
    """P(supply < threshold). Each side of an uneven interval has its own spread: the side that faces the other number counts."""
    gap = threshold.estimate - supply.estimate
    mine = supply.high - supply.estimate if gap > 0 else supply.estimate - supply.low
    theirs = threshold.estimate - threshold.low if gap > 0 else threshold.high - threshold.estimate
    spread = math.hypot(mine, theirs) / capacity.NORMAL_95
    if spread == 0:
        return 1.0 if gap > 0 else 0.0
    return (1 + math.erf(gap / spread / math.sqrt(2))) / 2


def _utilization(supply: Estimate, consumption: Consumption) -> Estimate:
    demand = consumption.samples_per_s
    return Estimate(
        estimate=min(1.0, supply.estimate / demand.estimate),
        low=min(1.0, supply.low / demand.high),
        high=min(1.0, supply.high / demand.low) if demand.low > 0 else 1.0,
    )


# --- the search -----------------------------------------------------------------------------------------------------------------


def _at(question: _Question, nodes: int, tasks: int, cpus: int) -> Prediction:
    return capacity.predict(
        question.model,
        question.cluster,
        Layout(nodes=nodes, tasks_per_node=tasks, cpus_per_task=cpus),
        single_task_nodes=single_task_nodes(nodes, question.consumption, question.options),
        feed=question.options.feed,
    )


def _tasks_and_cpus(question: _Question) -> Iterator[tuple[int, int]]:
    """Every (tasks, CPUs) that fits a node's CPUs and memory, fullest nodes first: they need the fewest nodes."""
    model, cluster = question.model, question.cluster
    most = cluster.cpus_per_node
    if model.private_bytes:
        most = min(most, (cluster.memory_bytes_per_node - (model.shared_bytes or 0)) // model.private_bytes)
    pairs = [
        (tasks, cpus)
        for cpus in range(1, min(model.largest_cpus_probed, cluster.cpus_per_node) + 1)
        for tasks in range(1, min(most, cluster.cpus_per_node // cpus) + 1)
    ]
    return iter(sorted(pairs, key=lambda pair: (-pair[0] * pair[1], pair[1])))


def _node_range(question: _Question, tasks: int) -> range:
    """Node counts from 2 up at which a launch of `tasks` per node can run: single-task nodes below, nodes and files above.

    Over this range the rate never falls. One node is a case of its own: there the chief takes one of the tasks.
    """
    model, cluster = question.model, question.cluster
    single = single_task_nodes(2, question.consumption, question.options)
    most = cluster.nodes
    if model.is_sharded and model.file_count is not None:
        most = min(most, single + model.file_count // tasks if single else (model.file_count + 1) // tasks)
    return range(max(2, single + 1), most + 1)


def _fewest_nodes(question: _Question, tasks: int, cpus: int, target: float, most: int) -> Prediction | None:
    """The prediction with the fewest nodes, at most `most`, whose low end reaches `target`; None where none does."""
    one = _at(question, 1, tasks, cpus)
    if one.problem is None and one.samples_per_s.low >= target:
        return one
    nodes = _node_range(question, tasks)
    low, high = nodes.start, min(nodes.stop - 1, most)
    if low > high:
        return None
    found = _at(question, high, tasks, cpus)
    if found.samples_per_s.low < target:
        return None
    while low < high:
        middle = (low + high) // 2
        tried = _at(question, middle, tasks, cpus)
        if tried.samples_per_s.low >= target:
            high, found = middle, tried
        else:
            low = middle + 1
    return found


def _price(prediction: Prediction) -> tuple[float, ...]:
    """What a launch costs, dearest resource first; the last two only settle ties, for the faster and for smaller tasks."""
    layout = prediction.layout
    memory = prediction.memory_bytes_per_node or 0
    return (layout.nodes, memory, layout.cpus_per_node, -prediction.samples_per_s.low, layout.cpus_per_task)


def _cheapest(question: _Question, target: float) -> Prediction | None:
    best: Prediction | None = None
    for tasks, cpus in _tasks_and_cpus(question):
        most = question.cluster.nodes if best is None else best.layout.nodes
        found = _fewest_nodes(question, tasks, cpus, target, most)
        if found is not None and (best is None or _price(found) < _price(best)):
            best = found
    return best


def _runnable(question: _Question, node_counts: Iterable[int], tasks: int, cpus: int) -> Iterator[Prediction]:
    for nodes in node_counts:
        prediction = _at(question, nodes, tasks, cpus)
        if prediction.problem is None:
            yield prediction


def _ends(question: _Question, tasks: int) -> list[int]:
    nodes = _node_range(question, tasks)
    return [1, nodes[-1]] if nodes else [1]


def _highest_low(question: _Question) -> float:
    return max(
        prediction.samples_per_s.low
        for tasks, cpus in _tasks_and_cpus(question)
        for prediction in _runnable(question, _ends(question, tasks), tasks, cpus)
    )


def _best_possible(question: _Question) -> Prediction:
    best = _cheapest(question, EQUAL_RATIO * _highest_low(question))
    assert best is not None  # the launch with the highest low end reaches a target below it
    return best


def _highest_per_node(question: _Question) -> Prediction:
    """The launch with the highest low end per node.

    Per (tasks, CPUs) it rises with nodes (the chief's share shrinks) until a shared ceiling is hit, and falls from there: so it is
    highest at an end, where the ceiling is reached, or one node before.
    """
    best: Prediction | None = None
    for tasks, cpus in _tasks_and_cpus(question):
        counts = {*_ends(question, tasks)}
        nodes = _node_range(question, tasks)
        if nodes:
            top = _at(question, nodes[-1], tasks, cpus).samples_per_s.low * (1 - 1e-12)
            first = _fewest_nodes(question, tasks, cpus, top, nodes[-1])
            counts |= {n for n in ((first.layout.nodes, first.layout.nodes - 1) if first is not None else ()) if n in nodes}
        for prediction in _runnable(question, sorted(counts), tasks, cpus):
            if best is None or _per_node(prediction) < _per_node(best):
                best = prediction
    assert best is not None  # _check has seen a launch that runs
    return best


def _per_node(prediction: Prediction) -> tuple[float, ...]:
    return (-prediction.samples_per_s.low / prediction.layout.nodes, *_price(prediction))


def _binding(question: _Question, best: Prediction) -> str:
    """What to add for more than the best possible: the term of the law that binds, or the files or the memory without whose limit
    another launch would be faster."""
    if best.limited_by in (capacity.STORAGE, capacity.NETWORK_IN, capacity.NETWORK_OUT):
        return best.limited_by
    without = {
        capacity.FILES: question._replace(model=replace(question.model, file_count=None)),
        capacity.MEMORY: question._replace(model=replace(question.model, private_bytes=None)),
    }
    name, low = max(((name, _highest_low(relaxed)) for name, relaxed in without.items()), key=lambda pair: pair[1])
    return name if low * EQUAL_RATIO > best.samples_per_s.low else best.limited_by


def check_cluster(cluster: Cluster, consumption: Consumption | None, options: Options) -> None:
    """Raises UsageError for a cluster or options on which no launch of any pipeline can run: worth asking before measuring."""
    for name, value in (
        ("nodes", cluster.nodes),
        ("CPUs per node", cluster.cpus_per_node),
        ("memory", cluster.memory_bytes_per_node),
    ):
        if value < 1:
            raise UsageError(f"the cluster has {value} {name}: give positive numbers by --cluster or by flags")
    if not math.isfinite(options.headroom_ratio) or options.headroom_ratio < 0:
        raise UsageError(f"the headroom must be 0 or more (0.1 is 10 %), got {options.headroom_ratio}")
    single = single_task_nodes(cluster.nodes, consumption, options)
    if single < 0 or (single and single >= cluster.nodes and options.single_task_nodes is not None):
        raise UsageError(
            f"--single-task-nodes {single} must be 0 or more and less than the cluster's {cluster.nodes} nodes: "
            "single-task nodes do not stream, give it more nodes or fewer of them"
        )
    if cluster.nodes == 1 and cluster.cpus_per_node < 2:
        raise UsageError(f"no launch fits one node of one CPU: {ROOM}")


def _check(question: _Question) -> None:
    """Raises UsageError where no launch of this pipeline can run, naming what to change."""
    model, consumption, cluster, options = question
    check_cluster(cluster, consumption, options)
    need, have = (model.private_bytes or 0) + (model.shared_bytes or 0), cluster.memory_bytes_per_node
    if need > have:
        raise UsageError(
            f"one input worker of this pipeline holds {format_bytes(need)}, but a node has {format_bytes(have)}: "
            "use nodes with more memory, or smaller shuffle buffers, caches and prefetches"
        )
    for tasks, cpus in _tasks_and_cpus(question):
        if any(_runnable(question, (1, *_node_range(question, tasks)[:1]), tasks, cpus)):
            return
    fullest = _at(question, cluster.nodes, min(2, cluster.cpus_per_node), 1)
    raise UsageError(
        f"no launch fits {cluster.nodes} node(s) of {cluster.cpus_per_node} CPUs ({fullest.limited_by}: {fullest.problem}): {ROOM}"
    )


# --- the table and the sentence ---------------------------------------------------------------------------------------------------


def _alternatives(question: _Question, best: Prediction, target: float | None) -> tuple[Alternative, ...]:
    """The fastest launch at each node count around the plan, and the launch in use today."""
    nodes, most = best.layout.nodes, question.cluster.nodes
    counts = sorted({nodes - 2, nodes - 1, nodes, nodes + 1, nodes + 2, 2 * nodes, most} & set(range(1, most + 1)))
    fastest = [row for count in counts if (row := _fastest(question, count)) is not None and row.layout != best.layout]
    rows = [_alternative(row, target, _note(row, best, most)) for row in fastest]
    if question.options.current is not None:
        today = predict_current(*question)
        note = "current launch" if today.problem is None else f"current launch: cannot run as given, {today.problem}"
        rows = [row for row in rows if row.layout != today.layout]
        rows.insert(0, _alternative(today, target, note))
    return tuple(rows[:MOST_ALTERNATIVES])


def _note(row: Prediction, best: Prediction, most: int) -> str:
    more = row.layout.nodes - best.layout.nodes
    named = {-1: "one node fewer", 0: "fastest on as many nodes", 1: "one node more"}
    note = named.get(more, "all nodes" if row.layout.nodes == most else "")
    if more > 0 and row.samples_per_s.low * EQUAL_RATIO <= best.samples_per_s.low:
        note += f"{', ' if note else ''}no faster: {row.limited_by}"
    return note


def _fastest(question: _Question, nodes: int) -> Prediction | None:
    runnable = (p for tasks, cpus in _tasks_and_cpus(question) for p in _runnable(question, (nodes,), tasks, cpus))
    return min(runnable, key=lambda p: (-p.samples_per_s.low, *_price(p)), default=None)


def _alternative(prediction: Prediction, target: float | None, note: str) -> Alternative:
    return Alternative(
        layout=prediction.layout,
        input_workers=prediction.input_workers,
        predicted_samples_per_s=prediction.samples_per_s,
        limited_by=prediction.limited_by,
        memory_bytes_per_node=prediction.memory_bytes_per_node,
        meets_demand=None if target is None else prediction.samples_per_s.low >= target,
        note=note,
    )


def _why(question: _Question, best: Prediction, target: float | None, limited_by: str) -> str:
    low, doubts = best.samples_per_s.low, _doubts(question, best)
    if target is None:
        per_node = format_rate(low / best.layout.nodes, "samples/s per node")
        return f"No demand was given: no launch has a higher rate per node, at least {per_node}; {limited_by} limits it.{doubts}"
    wanted = f"{format_rate(target)} (demand with {format_ratio(question.options.headroom_ratio)} headroom)"
    if low < target:
        text = f"No launch on this cluster reaches {wanted}: the best streams at least {format_rate(low)}"
        return f"{text}, {format_ratio(1 - low / target)} short; {limited_by} limits it.{doubts}"
    text = f"The cheapest launch that reaches {wanted}: it streams at least {format_rate(low)}."
    fewer = _fastest(question, best.layout.nodes - 1) if best.layout.nodes > 1 else None
    if fewer is not None:
        text += f" One node fewer would guarantee only {format_rate(fewer.samples_per_s.low)} ({fewer.limited_by})."
    elif best.layout.nodes > 1:
        text += f" No launch runs on {best.layout.nodes - 1} node(s), single-task nodes counted."
    return text + doubts


def _doubts(question: _Question, best: Prediction) -> str:
    """Assumptions that widened the interval of this plan."""
    doubts = []
    if best.extrapolation_ratio > 1:
        doubts.append(f"it lies {best.extrapolation_ratio:.3g} times outside what was probed")
    streaming = best.layout.tasks_per_node - (1 if best.layout.nodes == 1 else 0)
    if capacity.smt_low_ratio(question.model, question.cluster, streaming, best.layout.cpus_per_task) < 1:
        known = question.cluster.threads_per_core is not None
        doubts.append("its tasks share cores by hardware threads" if known else "the nodes' threads per core are unknown")
    return f" The interval is widened: {' and '.join(doubts)}." if doubts else ""
