"""The planning problem: the demand, the cluster, and the tasks and CPUs per task that fit a node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.capacity.prediction import Launches, Rates, memory_bytes
from cs_input_analyzer.model.capacity.worker import worker_rate
from cs_input_analyzer.model.recommend.verdict import needed_per_s
from cs_input_analyzer.records import CapacityModel, Cluster, Consumption, Estimate, Layout, Options, Prediction

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STREAMING_SINGLE_TASK_NODES = 2
"""Weight streaming needs so many, at least (quickstart of R1.4: "at least two single task cpu nodes are required")."""


# A worker gets fewer CPUs than its share of a node if it was measured to be faster by this factor with fewer. This happens with
# threads that share an interpreter's lock.
FASTER_RATIO = 1.1


@dataclass(frozen=True, kw_only=True)
class PlanningProblem:
    """The planning problem. Arrays have a place for each (tasks per node, CPUs per task) that is considered, shape [rows].

    Attributes:
        worker_rates: rates of one worker by how many stream on its node and their CPUs. Problems that differ in nothing that one
            worker feels (number of nodes, memory, files, storage) share it.
        least_cpus: launches whose tasks have fewer CPUs are not considered.
        kept: the launch that an earlier run recommended for the same.
    """

    model: CapacityModel
    consumption: Consumption | None
    cluster: Cluster
    options: Options
    worker_rates: dict[tuple[int, int], Estimate] = field(default_factory=dict, repr=False, compare=False)
    least_cpus: int = 1
    kept: Layout | None = None

    @cached_property
    def needed(self) -> Estimate | None:
        """Return the rate that a launch must reach: the demand with headroom; None without a demand."""
        return None if self.consumption is None else needed_per_s(self.consumption, self.options.headroom_ratio)

    @cached_property
    def rows(self) -> tuple[Ints, Ints]:
        """Return the tasks and CPUs that fit a node's CPUs and memory, no task with more CPUs than were probed.

        With nodes of its own a launch gives all their CPUs to its tasks; on shared nodes, every pair is a row.
        """
        model, cluster = self.model, self.cluster
        most, largest = cluster.cpus_per_node, min(model.largest_cpus_probed, cluster.cpus_per_node)
        if model.private_bytes:
            most = min(most, (cluster.memory_bytes_per_node - (model.shared_bytes or 0)) // model.private_bytes)
        if self.options.shared_nodes:
            sizes = range(1, largest + 1)
            pairs = [(tasks, cpus) for cpus in sizes for tasks in range(1, min(most, cluster.cpus_per_node // cpus) + 1)]
        else:
            pairs = [(tasks, self._cpus_of(tasks, min(cluster.cpus_per_node // tasks, largest))) for tasks in range(1, most + 1)]
        pairs = [(tasks, cpus) for tasks, cpus in pairs if cpus >= self.least_cpus]
        return np.array([tasks for tasks, _ in pairs], dtype=np.int64), np.array([cpus for _, cpus in pairs], dtype=np.int64)

    def _cpus_of(self, tasks: int, whole: int) -> int:
        """Return all CPUs that a node has for each of its tasks, or fewer if a probed worker with fewer is clearly faster."""
        probed = {point.cpus for point in self.model.points if self.least_cpus <= point.cpus < whole}
        rates = {cpus: self._rate(tasks, cpus).estimate for cpus in sorted(probed)}
        faster = max(rates, key=lambda cpus: rates[cpus], default=whole)
        return faster if faster < whole and rates[faster] > FASTER_RATIO * self._rate(tasks, whole).estimate else whole

    @property
    def tasks(self) -> Ints:
        """Return the tasks of each row."""
        return self.rows[0]

    @property
    def cpus(self) -> Ints:
        """Return the CPUs per task of each row."""
        return self.rows[1]

    @cached_property
    def memory_bytes(self) -> Ints:
        """Return the memory per node; 0 if unknown."""
        return np.array([memory_bytes(self.model, int(tasks)) or 0 for tasks in self.tasks], dtype=np.int64)

    @property
    def first_nodes(self) -> int:
        """Return the fewest nodes, from 2 up, that leave one to stream. On one node the chief takes a task."""
        return max(2, single_task_nodes(2, self.consumption, self.options) + 1)

    @cached_property
    def last_nodes(self) -> Ints:
        """Return the most nodes on which a launch can run: those of the cluster, and no more than there are files for."""
        files, single = self.model.file_count, single_task_nodes(2, self.consumption, self.options)
        if not self.model.is_sharded or files is None:
            return np.full(self.tasks.shape, self.cluster.nodes)
        enough: Ints = single + files // self.tasks if single else (files + 1) // self.tasks
        return np.minimum(enough, self.cluster.nodes)

    def launches(self, nodes: Ints | int) -> Launches:
        """Return the launches of all rows on `nodes` nodes; `nodes` broadcasts against shape [rows]."""
        nodes = np.asarray(nodes)
        one, more = (single_task_nodes(count, self.consumption, self.options) for count in (1, 2))
        return Launches(nodes=nodes, tasks=self.tasks, cpus=self.cpus, single_task_nodes=np.where(nodes == 1, one, more))

    def rates_of_workers(self, launches: Launches) -> Rates:
        """Return the rates of one worker of these launches.

        If the chief takes a task of the node, one task fewer streams there.
        """
        beside_chief, whole = self._rates
        is_whole = launches.on_one_node == self.tasks
        return Rates(*(np.where(is_whole, one, other) for one, other in zip(whole, beside_chief, strict=True)))

    @cached_property
    def _rates(self) -> tuple[Rates, Rates]:
        """Return the rates with all tasks of the node streaming, or with one fewer."""
        found = []
        for fewer in (1, 0):
            rates = [self._rate(int(tasks) - fewer, int(cpus)) for tasks, cpus in zip(self.tasks, self.cpus, strict=True)]
            ends = np.array([(rate.estimate, rate.low, rate.high) for rate in rates]).reshape(-1, 3).T
            found.append(Rates(*ends))
        return found[0], found[1]

    def _rate(self, streaming: int, cpus: int) -> Estimate:
        if streaming < 1:
            return Estimate.exact(0.0)
        key = streaming, cpus
        if key not in self.worker_rates:
            self.worker_rates[key] = worker_rate(self.model, self.cluster, streaming, cpus)[0]
        return self.worker_rates[key]


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
