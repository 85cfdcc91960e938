"""The planning problem: the demand, the cluster, and the tasks and CPUs per task that fit a node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.capacity.worker import worker_rate
from cs_input_analyzer.model.recommend.verdict import needed_per_s
from cs_input_analyzer.records import CapacityModel, Cluster, Consumption, Estimate, Layout, Options, Prediction

Shape = tuple[int, int]
"""Tasks per node, and CPUs per task."""

STREAMING_SINGLE_TASK_NODES = 2
"""Weight streaming needs so many, at least (quickstart of R1.4: "at least two single task cpu nodes are required")."""


# A worker gets fewer CPUs than its share of a node if it was measured to be faster by this factor with fewer. This happens with
# threads that share an interpreter's lock.
FASTER_RATIO = 1.1


@dataclass(frozen=True, kw_only=True)
class PlanningProblem:
    """The planning problem.

    Attributes:
        least_cpus: launches whose tasks have fewer CPUs are not considered.
        kept: the launch that an earlier run recommended for the same.
    """

    model: CapacityModel
    consumption: Consumption | None
    cluster: Cluster
    options: Options
    least_cpus: int = 1
    kept: Layout | None = None

    @cached_property
    def needed(self) -> Estimate | None:
        """Return the rate that a launch must reach: the demand with headroom; None without a demand."""
        return None if self.consumption is None else needed_per_s(self.consumption, self.options.headroom_ratio)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Return the shapes that fit a node's CPUs and memory, no task with more CPUs than were probed.

        With nodes of its own a launch gives all their CPUs to its tasks; on shared nodes, every shape is considered.
        """
        model, cluster = self.model, self.cluster
        most, largest = cluster.cpus_per_node, min(model.largest_cpus_probed, cluster.cpus_per_node)
        if model.private_bytes:
            most = min(most, (cluster.memory_bytes_per_node - (model.shared_bytes or 0)) // model.private_bytes)
        if self.options.shared_nodes:
            sizes = range(1, largest + 1)
            shapes = [(tasks, cpus) for cpus in sizes for tasks in range(1, min(most, cluster.cpus_per_node // cpus) + 1)]
        else:
            shapes = [(tasks, self._cpus_of(tasks, min(cluster.cpus_per_node // tasks, largest))) for tasks in range(1, most + 1)]
        return tuple((tasks, cpus) for tasks, cpus in shapes if cpus >= self.least_cpus)

    def _cpus_of(self, tasks: int, whole: int) -> int:
        """Return all CPUs that a node has for each of its tasks, or fewer if a probed worker with fewer is clearly faster."""
        probed = {point.cpus for point in self.model.points if self.least_cpus <= point.cpus < whole}
        rates = {cpus: worker_rate(self.model, self.cluster, tasks, cpus)[0].estimate for cpus in (*sorted(probed), whole)}
        faster = max(rates, key=lambda cpus: rates[cpus])
        return faster if rates[faster] > FASTER_RATIO * rates[whole] else whole

    @cached_property
    def first_nodes(self) -> int:
        """Return the fewest nodes, from 2 up, that leave one to stream. On one node the chief takes a task."""
        return max(2, single_task_nodes(2, self.consumption, self.options) + 1)

    def last_nodes(self, tasks: int) -> int:
        """Return the most nodes on which a launch can run: those of the cluster, and no more than there are files for."""
        files, single = self.model.file_count, single_task_nodes(2, self.consumption, self.options)
        if not self.model.is_sharded or files is None:
            return self.cluster.nodes
        return min(single + files // tasks if single else (files + 1) // tasks, self.cluster.nodes)


def predicted(problem: PlanningProblem, nodes: int, tasks: int, cpus: int) -> Prediction:
    """Return the prediction of a launch for this problem."""
    layout = Layout(nodes=nodes, tasks_per_node=tasks, cpus_per_task=cpus)
    return predicted_launch(problem.model, problem.consumption, problem.cluster, problem.options, layout)


def predicted_launch(
    model: CapacityModel, consumption: Consumption | None, cluster: Cluster, options: Options, layout: Layout
) -> Prediction:
    """Return the prediction of a launch with as many single-task nodes as the options and the demand ask for."""
    single = single_task_nodes(layout.nodes, consumption, options)
    return capacity.predict(model, cluster, layout, single_task_nodes=single, feed=options.feed)


def predict_current(
    model: CapacityModel, consumption: Consumption | None, cluster: Cluster, options: Options, current: Layout
) -> Prediction:
    """Return the rate of the launch in use today (`--current`). It runs, so the cluster has at least its nodes."""
    wide_enough = replace(cluster, nodes=max(cluster.nodes, current.nodes))
    return predicted_launch(model, consumption, wide_enough, options, current)


def single_task_nodes(nodes: int, consumption: Consumption | None, options: Options) -> int:
    """Nodes that run one task which does not stream: as asked, else 2 for weight streaming, 0 on one node, 1 otherwise."""
    if options.single_task_nodes is not None:
        return options.single_task_nodes
    if streams_weights(consumption, options):
        return STREAMING_SINGLE_TASK_NODES
    return 0 if nodes == 1 else 1


def streams_weights(consumption: Consumption | None, options: Options) -> bool:
    """Return whether the plan is for weight streaming: by the options, else by the demand.

    Only runs of older versions and tests need the demand.
    """
    mode = options.wafer_mode or (consumption.mode if consumption is not None else None)
    return mode == "weight_streaming"
