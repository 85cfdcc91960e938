"""What is planned for, which launches there are for it, and what none of them can exceed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from cs_input_analyzer.planning import capacity
from cs_input_analyzer.records import CapacityModel, Cluster, Consumption, Layout, Options, Prediction

__all__ = [
    "PER_NODE_LIMITS",
    "ROUNDING_RATIO",
    "STREAMING_SINGLE_TASK_NODES",
    "Pair",
    "Question",
    "ask",
    "at",
    "ceiling",
    "first_runnable",
    "node_ceiling",
    "node_range",
    "pairs",
    "related",
    "rising_ranges",
    "single_task_nodes",
    "streams_weights",
]

ROUNDING_RATIO = 1 + 1e-9
"""A ceiling is worked out in another order than the prediction: rates that differ by less are taken as equal."""

PER_NODE_LIMITS = (capacity.MEMORY_BANDWIDTH, capacity.HOST_STORAGE, capacity.NETWORK_IN, capacity.NETWORK_OUT)
"""What a busy node lets through whoever streams on it."""

STREAMING_SINGLE_TASK_NODES = 2
"""Weight streaming needs so many, at least (quickstart of R1.4: "at least two single task cpu nodes are required")."""

Pair = tuple[int, int]
"""Tasks per node, CPUs per task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is planned for, and what was worked out for it so far.

    Attributes:
        per_node_per_s, shared_per_s: what one node that is kept busy, and the whole cluster, let through whoever streams.
        lows: low end of one worker's rate, by how many stream on its node and their CPUs.
        known: predictions by nodes, tasks and CPUs.
    """

    model: CapacityModel
    consumption: Consumption | None
    cluster: Cluster
    options: Options
    per_node_per_s: float = math.inf
    shared_per_s: float = math.inf
    lows: dict[Pair, float] = field(default_factory=dict, repr=False, compare=False)
    known: dict[tuple[int, int, int], Prediction] = field(default_factory=dict, repr=False, compare=False)


def ask(model: CapacityModel, consumption: Consumption | None, cluster: Cluster, options: Options) -> Question:
    return _with_ceilings(Question(model=model, consumption=consumption, cluster=cluster, options=options))


def related(question: Question, *, model: CapacityModel | None = None, cluster: Cluster | None = None) -> Question:
    """The same question about a cluster or model that differs in nothing that one worker feels (how many nodes, how much memory,
    how many files, how fast the storage): rates of workers that are known stay known."""
    changed = replace(question, model=model or question.model, cluster=cluster or question.cluster, known={})
    return _with_ceilings(replace(changed, per_node_per_s=math.inf, shared_per_s=math.inf))


def _with_ceilings(question: Question) -> Question:
    """The ceilings that are the same for every launch, read off the limits of any one that runs."""
    example = first_runnable(question)
    if example is None:
        return question
    layout = example.layout
    busy = example.input_workers / _together(question, layout.nodes, layout.tasks_per_node)
    limits = {limit.name: limit.samples_per_s for limit in example.limits}
    return replace(
        question,
        per_node_per_s=min((limits[name] / busy for name in PER_NODE_LIMITS if name in limits), default=math.inf),
        shared_per_s=limits.get(capacity.STORAGE, math.inf),
    )


# --- which launches there are ---------------------------------------------------------------------------------------------------


def single_task_nodes(nodes: int, consumption: Consumption | None, options: Options) -> int:
    """Nodes that run one task which does not stream: as asked, else 2 for weight streaming, 0 on one node, 1 otherwise."""
    if options.single_task_nodes is not None:
        return options.single_task_nodes
    if streams_weights(consumption, options):
        return STREAMING_SINGLE_TASK_NODES
    return 0 if nodes == 1 else 1


def streams_weights(consumption: Consumption | None, options: Options) -> bool:
    """Whether the plan is for weight streaming: as the options agree, else as the demand says (in a run of before, or a test)."""
    mode = options.wafer_mode or (consumption.mode if consumption is not None else None)
    return mode == "weight_streaming"


def at(question: Question, nodes: int, tasks: int, cpus: int) -> Prediction:
    key = nodes, tasks, cpus
    if key not in question.known:
        question.known[key] = capacity.predict(
            question.model,
            question.cluster,
            Layout(nodes=nodes, tasks_per_node=tasks, cpus_per_task=cpus),
            single_task_nodes=single_task_nodes(nodes, question.consumption, question.options),
            feed=question.options.feed,
        )
    return question.known[key]


def pairs(question: Question) -> list[Pair]:
    """Every (tasks, CPUs) that fits a node's CPUs and memory, never with more CPUs for a task than were probed."""
    model, cluster = question.model, question.cluster
    most = cluster.cpus_per_node
    if model.private_bytes:
        most = min(most, (cluster.memory_bytes_per_node - (model.shared_bytes or 0)) // model.private_bytes)
    return [
        (tasks, cpus)
        for cpus in range(1, min(model.largest_cpus_probed, cluster.cpus_per_node) + 1)
        for tasks in range(1, min(most, cluster.cpus_per_node // cpus) + 1)
    ]


def node_range(question: Question, tasks: int) -> range:
    """Node counts from 2 up at which a launch of `tasks` per node can run: single-task nodes below, nodes and files above.

    One node is a case of its own: there the chief takes one of the tasks.
    """
    model, cluster = question.model, question.cluster
    single = single_task_nodes(2, question.consumption, question.options)
    most = cluster.nodes
    if model.is_sharded and model.file_count is not None:
        most = min(most, single + model.file_count // tasks if single else (model.file_count + 1) // tasks)
    return range(max(2, single + 1), most + 1)


def rising_ranges(question: Question, tasks: int) -> list[range]:
    """Node counts at which a launch of `tasks` per node may run, rising, in ranges over each of which the rate never falls.

    One worker waits for no other, so a launch of two may be slower; with one task per node the first of several nodes has one.
    """
    nodes = node_range(question, tasks)
    alone = 1 if tasks == 1 else 0
    return [part for part in (range(1, 2), nodes[:alone], nodes[alone:]) if part]


def first_runnable(question: Question) -> Prediction | None:
    """Any launch that can run; None where there is none."""
    for tasks, cpus in pairs(question):
        for nodes in (1, *node_range(question, tasks)[:1]):
            if nodes <= question.cluster.nodes and at(question, nodes, tasks, cpus).problem is None:
                return at(question, nodes, tasks, cpus)
    return None


def ceiling(question: Question, nodes: int, pair: Pair) -> float:
    """A rate that the low end of this launch's prediction does not exceed."""
    tasks, cpus = pair
    single = single_task_nodes(nodes, question.consumption, question.options)
    workers = (nodes - single) * tasks - (0 if single else 1)
    together = _together(question, nodes, tasks)
    if workers < 1 or together < 1:
        return 0.0
    slowest = capacity.slowest_ratio(question.model, workers) if question.options.feed == "round-robin" else 1.0
    streamed = _worker_low(question, together, cpus) * workers * slowest
    return min(streamed, question.per_node_per_s * workers / together, question.shared_per_s) * ROUNDING_RATIO


def node_ceiling(question: Question, pair: Pair) -> float:
    """A rate per node that no launch of these tasks and CPUs on two nodes or more exceeds."""
    tasks, cpus = pair
    return min(_worker_low(question, tasks, cpus) * tasks, question.per_node_per_s) * ROUNDING_RATIO


def _together(question: Question, nodes: int, tasks: int) -> int:
    """Tasks that stream on one node: the chief takes one of a single node's."""
    is_chief_there = nodes == 1 and single_task_nodes(1, question.consumption, question.options) == 0
    return tasks - 1 if is_chief_there else tasks


def _worker_low(question: Question, together: int, cpus: int) -> float:
    key = together, cpus
    if key not in question.lows:
        question.lows[key] = capacity.worker_rate(question.model, question.cluster, together, cpus)[0].low
    return question.lows[key]
