"""The recommended launch, its alternatives and its launch lines."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from cs_input_analyzer.records.machine import Layout
from cs_input_analyzer.records.measured import CacheChoice
from cs_input_analyzer.records.model import Prediction
from cs_input_analyzer.units import format_estimate, format_ratio, in_a_line
from wafer_model import Estimate

StorageBasis = Literal["measured", "declared", "unverified"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Alternative:
    """Another layout, for comparison with the recommended one.

    Attributes:
        is_current: it is the launch in use today.
        probability: probability that it reaches the demand with headroom.
        problem: why it cannot run at all; None if it can.
    """

    layout: Layout
    input_workers: int
    predicted_samples_per_s: Estimate
    limited_by: str
    memory_bytes_per_node: int | None
    meets_demand: bool | None
    note: str = ""
    is_current: bool = False
    probability: float | None = None
    problem: str | None = None

    def __repr__(self) -> str:
        return in_a_line(f"Alternative {self.layout}: {format_estimate(self.predicted_samples_per_s)}")

    @classmethod
    def of(cls, plan: LaunchPlan | Prediction, **given: Any) -> Alternative:
        """Return the launch of a plan, with the fields that are `given` replaced."""
        return cls(**{field.name: getattr(plan, field.name) for field in fields(cls) if hasattr(plan, field.name)} | given)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Surer:
    """The relative half-width of the plan's interval without one of its terms.

    Attributes:
        how: the term: `node` (measure on an idle node of the cluster), `node speed`, `threads per core`, `launches`.
    """

    how: str
    half_width_ratio: float

    def __repr__(self) -> str:
        return in_a_line(f"Surer by {self.how}: ±{format_ratio(self.half_width_ratio)}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KeptPlan:
    """The launch that an earlier run recommended for the same pipeline, files, cluster and demand, and the date of that run."""

    layout: Layout
    created_at: str

    def __repr__(self) -> str:
        return in_a_line(f"KeptPlan {self.layout} of {self.created_at}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LaunchLines:
    """Launch commands to paste.

    Attributes:
        defaults: the three-line form of the original tool.
        sbatch: a whole file.
    """

    defaults: str
    csrun_wse: str
    srun: str
    sbatch: str

    def __repr__(self) -> str:
        return in_a_line(f"LaunchLines {self.srun}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LaunchPlan:
    """The recommendation.

    Attributes:
        meets_demand: whether `probability` is 0.9 or more; None without a demand.
        probability: probability that the supply reaches the demand with headroom, with the errors of both. None without a demand,
            and in runs of versions that judged by the low end alone.
        headroom_ratio: predicted low end over demand, minus 1 (negative: short by that much); None without a demand.
        storage: whether the shared file system's ceiling was `measured`, `declared`, or is `unverified`.
        cache_state: measurements behind the plan: `cold` if a node cannot hold its part of the dataset in memory.
        alternatives: the launch in use today, if any, then launches on more and on fewer nodes, and the smallest launch on the
            plan's nodes that feeds the accelerator.
        quiet_samples_per_s: rate on CPUs without other programs. `predicted_samples_per_s` is for the measuring host as busy as
            it was. Both are equal for other nodes, which are planned as exclusive. None in runs of versions before 0.2.
        launch_note: for a run that was read from a file: why its launch lines differ or are missing; else empty.
        fewest_tasks, most_tasks: range of tasks per node that feed the accelerator; None if none does.
        kept_from: the earlier plan that is kept, as it still feeds the accelerator; None for a fresh plan.
        fresh: the launch that would be recommended without the earlier plan.
        surer: ways to narrow its interval, most effective first.
        confirmed_by: index in `Analysis.measurements` of the run that announced the planned workers, within a tenth; None if none.
    """

    nodes: int
    tasks_per_node: int
    cpus_per_task: int
    single_task_nodes: int
    input_workers: int
    predicted_samples_per_s: Estimate
    extrapolation_ratio: float
    limited_by: str
    meets_demand: bool | None
    headroom_ratio: float | None
    memory_bytes_per_node: int | None
    storage: StorageBasis
    expected_accelerator_utilization: Estimate | None
    alternatives: tuple[Alternative, ...]
    launch: LaunchLines | None = None
    launch_note: str = ""
    confirmed_by: int | None = None
    cache_state: CacheChoice = "as-is"
    probability: float | None = None
    quiet_samples_per_s: Estimate | None = None
    fewest_tasks: int | None = None
    most_tasks: int | None = None
    kept_from: KeptPlan | None = None
    fresh: Layout | None = None
    surer: tuple[Surer, ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid launch, as an edited run may hold."""
        _ = self.layout

    def __repr__(self) -> str:
        said = ", ".join(filter(None, (format_estimate(self.predicted_samples_per_s), feeding(self))))
        return in_a_line(f"LaunchPlan {self.layout}: {said}")

    @property
    def layout(self) -> Layout:
        """Return the whole launch, with the tasks that do not stream."""
        return Layout(nodes=self.nodes, tasks_per_node=self.tasks_per_node, cpus_per_task=self.cpus_per_task)

    @property
    def streaming(self) -> Layout:
        """Return the streaming tasks: without the single-task nodes, and on a plan of one node without the chief."""
        tasks = max(1, min(self.tasks_per_node, self.input_workers))
        return Layout(
            nodes=max(1, self.nodes - self.single_task_nodes), tasks_per_node=tasks, cpus_per_task=max(1, self.cpus_per_task)
        )

    @property
    def variables(self) -> str:
        """Return the defaults of the vendor's launcher as lines of a shell."""
        return f"DEF_NODES={self.nodes}\nDEF_TASKS={self.tasks_per_node}\nDEF_CPUS={self.cpus_per_task}"


def feeding(launch: LaunchPlan | Alternative) -> str:
    """Return `feeds the demand`, or how far that is in doubt; empty without a demand."""
    if launch.meets_demand is None:
        return ""
    if launch.meets_demand:
        return "feeds the demand"
    if launch.probability is None or launch.probability < 0.5:
        return "does NOT feed the demand"
    return f"may not feed the demand ({format_ratio(launch.probability)} sure that it does)"
