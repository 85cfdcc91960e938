"""One whole run: its options, measurements, predictions and advice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Literal

from cs_input_analyzer.records.findings import Finding, Fixes, Mode
from cs_input_analyzer.records.machine import THIS_HOST, Cluster, Host, Launcher, Layout
from cs_input_analyzer.records.measured import (
    CacheChoice,
    Measurement,
    Profile,
    Scaling,
    Station,
    Storage,
    others_ratio,
)
from cs_input_analyzer.records.model import CapacityModel
from cs_input_analyzer.records.pipeline import PipelineGraph
from cs_input_analyzer.records.plan import LaunchPlan
from cs_input_analyzer.units import format_estimate, in_a_line
from wafer_model import Consumption, Estimate

SCHEMA_VERSION = 1
# TensorFlow's import takes a minute from a cold network file system, and building a pipeline may list many files.
START_TIMEOUT_S = 300.0
Feed = Literal["round-robin", "first-come"]
VerdictName = Literal["input_bound", "balanced", "accelerator_bound", "unknown"]
CaptureKind = Literal["train", "fit", "distribute", "loop", "peek", "evaluate", "predict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRow:
    """Predicted against measured rate of one layout of one node whose tasks all stream.

    Attributes:
        role: `recommended` for all streaming workers of the plan; `part of the plan` for some of them.
        measured_samples_per_s: rate over `count` fresh launches, combined by the run's feed: `first-come`, the sum of the workers;
            `round-robin`, workers × the slowest, including its sampling noise.
    """

    layout: Layout
    role: Literal["recommended", "part of the plan", "neighbour"]
    predicted_samples_per_s: Estimate
    measured_samples_per_s: Estimate

    @property
    def error_ratio(self) -> float | None:
        """Return (predicted - measured) / measured. Return None if nothing was delivered."""
        measured = self.measured_samples_per_s.estimate
        return self.predicted_samples_per_s.estimate / measured - 1 if measured > 0 else None

    @property
    def is_inside(self) -> bool:
        """Return whether the measured rate lies in the predicted interval."""
        return self.predicted_samples_per_s.low <= self.measured_samples_per_s.estimate <= self.predicted_samples_per_s.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The launches of a run that `validate` tried.

    Attributes:
        notes: differences from the run, and launches that were not measured.
        demand_samples_per_s: demand of the run; None without one.
        is_alike: code and machine were those of the run, so that the errors are the model's alone.
        is_on_planned_nodes: it was launched on nodes like those of the plan, so that it says whether the plan holds.
    """

    rows: tuple[ValidationRow, ...]
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    demand_samples_per_s: float | None = None
    is_alike: bool = True
    is_on_planned_nodes: bool = True

    @property
    def median_error_ratio(self) -> float | None:
        """Return the median of the absolute errors. Return None if there are none."""
        errors = [abs(row.error_ratio) for row in self.rows if row.error_ratio is not None]
        return median(errors) if errors else None

    @property
    def errors_log(self) -> tuple[float, ...]:
        """Return the natural logarithms of measured over predicted rates."""
        rates = [(row.measured_samples_per_s.estimate, row.predicted_samples_per_s.estimate) for row in self.rows]
        return tuple(math.log(measured / predicted) for measured, predicted in rates if measured > 0 and predicted > 0)

    @property
    def inside_count(self) -> int:
        """Return the number of rows inside their predicted interval."""
        return sum(row.is_inside for row in self.rows)

    @property
    def of_plan(self) -> ValidationRow | None:
        """Return the row of all workers of the plan. Return None if they did not fit, or did not all deliver."""
        return next((row for row in self.rows if row.role == "recommended"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Every choice that can change the answer; stored in the run.

    Attributes:
        params_json: the params of the input function.
    """

    params_json: str | None = None
    mode: Mode = "train"
    input_context: bool = False
    demand_samples_per_s: float | None = None
    step_time_s: float | None = None
    batch_size: int | None = None
    samples_per_element: int | None = None
    wafer: str | None = None
    system: str | None = None
    wafer_mode: str | None = None
    sequence_length: int | None = None
    compile_report: str | None = None
    performance_json: str | None = None
    cluster: str | None = None
    nodes: int | None = None
    cpus_per_node: int | None = None
    memory_bytes_per_node: int | None = None
    storage_bytes_per_s: float | None = None
    node_speed_ratio: Estimate | None = None
    current: Layout | None = None
    fresh: bool = False
    shared_nodes: bool = False
    single_task_nodes: int | None = None
    cyclic: bool = False
    feed: Feed = "round-robin"
    headroom_ratio: float = 0.1
    max_seconds: float = 60.0
    start_timeout_s: float = START_TIMEOUT_S
    target_error_ratio: float = 0.02
    probe_layouts: tuple[Layout, ...] = ()
    cpus: int | None = None
    cache: CacheChoice = "as-is"
    launcher: Launcher = "local"
    worker_memory_bytes: int | None = None
    measure_fixes: bool = True
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    seed: int = 0
    train_command: str | None = None
    srun_args: str | None = None
    sbatch_args: str | None = None
    container: str | None = None
    mount_dirs: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()
    on_own_files: bool = False
    no_network: bool = False
    partition: str | None = None
    exclude_nodes: tuple[str, ...] = ()
    slurm_nodes: int | None = None
    queue_timeout_s: float = 600.0
    shared_dir: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The seconds that each part of this run took. A part that did not fit is named in `not_measured`, never guessed.

    Attributes:
        import_s: time until the workers of the first launch had imported TensorFlow and built their pipelines. For a script it
            includes the search for the places where it takes data. It is no part of `--max-seconds`.
        total_s: time of the whole run, `import_s` included.
        cut_short: the failure that ended the measuring early: of Slurm, of the disk; empty without one.
    """

    import_s: float = 0.0
    transient_s: float = 0.0
    probes_s: float = 0.0
    storage_s: float = 0.0
    fixes_s: float = 0.0
    total_s: float = 0.0
    not_measured: tuple[str, ...] = ()
    cut_short: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """The program that wrote a record."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureCandidate:
    """A place where the user's script would have taken data.

    Attributes:
        number: as in `--capture`.
        call: the called function, `CerebrasEstimator.train`.
        code: the user's statement.
        source: `path:line` of that statement.
        ends_epochs: the call takes the data anew for each epoch, as Keras' `fit` without `steps_per_epoch`, or a `for` that goes on
            until the data end.
    """

    number: int
    kind: CaptureKind
    call: str
    source: str
    code: str | None
    mode: Mode
    ends_epochs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """The input that was captured from the user's own script. Its training never ran.

    Attributes:
        command: the script as it was run, up to the candidate `picked`.
        stand_ins: missing modules that were replaced by stand-ins.
        notes: places that take no tf.data input, and the reason why the search ended.
        runs: how often the script ran to that place: in the search, and in each worker. None in runs saved by older versions.
    """

    command: str
    picked: int
    candidates: tuple[CaptureCandidate, ...]
    stand_ins: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    runs: int | None = None

    @property
    def ends_epochs(self) -> bool:
        """Return whether the picked call takes the data anew for each epoch."""
        return any(one.ends_epochs for one in self.candidates if one.number == self.picked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The saved run that this one was planned from.

    Attributes:
        path: the file that it was read from; None if there was none.
    """

    path: str | None
    created_at: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Analysis:
    """One run: its request, measurements, predictions and advice. Every report is a rendering of this record.

    Attributes:
        verdict: judges `verdict_layout`: `input_bound` if it supplies less than the demand, `accelerator_bound` if it supplies the
            demand with headroom, each at a probability of 0.9; else `balanced`; `unknown` without a demand.
        confidence: the probability of the verdict (0 to 1).
        supply: the judged rate of `verdict_layout`: predicted, or measured if there is no plan; None if there is no rate.
        ignored_count: findings left out because a comment in the user's code says so.
        left_out: parts that an excerpt shortens (the page of a huge run does); empty for the run itself.
        no_plan: why there is no recommendation, and what to type for one; None if there is one.
        capture: the place of the input in the user's own script; None if the input function was named.
        parent: the run that holds these measurements; None if this run measured.
    """

    schema_version: int
    tool: Tool
    created_at: str
    command: str
    options: Options
    host: Host
    budget: Budget
    pipeline: PipelineGraph
    measurements: tuple[Measurement, ...]
    profile: Profile | None
    stations: tuple[Station, ...] = ()
    storage: Storage | None = None
    capacity: CapacityModel | None = None
    consumption: Consumption | None
    cluster: Cluster
    recommendation: LaunchPlan | None
    no_plan: str | None = None
    findings: tuple[Finding, ...]
    fixes: Fixes | None = None
    verdict: VerdictName
    verdict_layout: Layout | None
    confidence: float | None
    supply: Estimate | None = None
    validation: Validation | None = None
    interrupted: bool = False
    ignored_count: int = 0
    left_out: tuple[str, ...] = ()
    scaling: Scaling | None = None
    capture: Capture | None = None
    parent: Parent | None = None

    def __repr__(self) -> str:
        plan = "no plan" if self.recommendation is None else f"plan {self.recommendation.layout}"
        rate = "" if self.supply is None else f", supply {format_estimate(self.supply)}"
        return in_a_line(f"Analysis {self.verdict}, {plan}{rate}, {self.created_at[:10]}")

    @property
    def cannot_run(self) -> str:
        """Return why the judged launch cannot run; empty if it can."""
        rows = () if self.recommendation is None else self.recommendation.alternatives
        return next((row.problem for row in rows if row.is_current and row.problem and row.layout == self.verdict_layout), "")

    @property
    def judged_layout(self) -> Layout | None:
        """Return the launch that the verdict judged; that of the plan if no launch was judged."""
        plan = self.recommendation
        return self.verdict_layout or (None if plan is None else plan.layout)

    @property
    def judged_samples_per_s(self) -> Estimate | None:
        """Return the rate that the verdict judged; that of the plan in runs that do not hold it, or if no launch was judged."""
        plan = self.recommendation
        if plan is not None and (self.verdict_layout is None or (self.supply is None and self.verdict_layout == plan.layout)):
            return plan.predicted_samples_per_s
        return self.supply

    def covered_by(self, rate: Estimate | None) -> Estimate | None:
        """Return a rate over the demand, with the errors of both; None if one of them is not known."""
        demand = None if self.consumption is None else self.consumption.samples_per_s
        if rate is None or demand is None or demand.low <= 0 or rate.low < 0 or not math.isfinite(rate.high / demand.low):
            return None
        return Estimate(estimate=rate.estimate / demand.estimate, low=rate.low / demand.high, high=rate.high / demand.low)

    @property
    def is_planned_as_measured(self) -> bool:
        """Return whether the rates of the plan are as measured, on this host as busy as it was.

        Other plans are for an idle node.
        """
        return self.cluster.source == THIS_HOST

    @property
    def idle_factor(self) -> float:
        """Return the rate on an idle node over the measured rate: of a plan that is as measured, else of all launches.

        Return 1 if nothing was seen to slow the launches down.
        """
        plan = self.recommendation
        if self.is_planned_as_measured and plan is not None and plan.quiet_samples_per_s is not None:
            idle, measured = plan.quiet_samples_per_s.estimate, plan.predicted_samples_per_s.estimate
        else:
            idle, measured = 1.0, 1.0 if self.capacity is None else self.capacity.host_ratio.estimate
        factor = idle / measured if measured > 0 else 1.0
        return factor if math.isfinite(factor) else 1.0  # a run that was edited by hand

    @property
    def others_ratio(self) -> float | None:
        """Return the share of the CPUs that other programs used while workers were measured; None if unknown."""
        return others_ratio(launch for launch in self.measurements if launch.role == "probe")
