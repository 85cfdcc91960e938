"""A past run, as its log files show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cs_input_analyzer.records.machine import Layout
from cs_input_analyzer.records.pipeline import Scalar
from cs_input_analyzer.records.run import Tool, VerdictName
from wafer_model import Estimate

RunPhase = Literal["compile", "weights", "programming", "priming", "train", "checkpoint", "evaluation"]
RunSourceKind = Literal["console log", "performance.json", "compile report", "event files", "step journal"]
StallCause = Literal["none known", "checkpoint", "evaluation", "set-up", "read late"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSource:
    """A file that a run left behind.

    Attributes:
        note: a problem with the file, or how much of it was read.
    """

    path: str
    kind: RunSourceKind
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpan:
    """One phase of the run.

    Attributes:
        start_s: seconds since the first time stamp of the run; None if the file has none.
        duration_s: None if its start or its end was not seen.
        step: the step of a checkpoint.
    """

    phase: RunPhase
    start_s: float | None
    duration_s: float | None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A pause: steps that took much longer than most.

    Attributes:
        start_s: seconds since the first time stamp of the run.
        duration_s: seconds from one line of the log to the next.
        lost_s: `duration_s` minus the usual time of that number of steps.
        step: the last step before it.
        cause: the activity of the run in that time.
    """

    start_s: float | None
    duration_s: float
    lost_s: float
    step: int
    cause: StallCause


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpan:
    """Some steps in a row. `step`: the last step before them; `duration_s`: how long they took together."""

    step: int
    steps: float
    duration_s: float

    @property
    def steps_per_s(self) -> float | None:
        """Return the rate of these steps; None if they took no time."""
        return self.steps / self.duration_s if self.duration_s > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWorker:
    """One of the `ordinals` of a performance.json.

    Attributes:
        samples_per_s: the rate at which it took samples itself.
        is_straggler: clearly slower than the median worker.
    """

    name: str
    samples_per_s: float | None
    is_straggler: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRates:
    """Every rate that the files hold, or that their steps and times give; None if it was not seen.

    Attributes:
        rate_samples_per_s, global_rate_samples_per_s: the last `Rate` and `GlobalRate` as logged.
        steady_samples_per_s: rate of training alone, without start, checkpoints and evaluation. Pauses of unknown cause count.
        undisturbed_samples_per_s: rate between the pauses, or within bursts: the accelerator can take at least this.
        average_samples_per_s: rate of the whole run, from its last line or `performance.json`; releases include different phases.
        estimated_samples_per_s: the compiler's estimate.
        steady_steps_per_s: `steady_samples_per_s` in steps.
        batch_size: samples per step, if the files say.
        evaluation_samples_per_s: GlobalRate of the last evaluation.
        worker_steps_per_s: GlobalRate of one input worker, in steps, from its own log.
    """

    rate_samples_per_s: float | None = None
    global_rate_samples_per_s: float | None = None
    steady_samples_per_s: Estimate | None = None
    undisturbed_samples_per_s: float | None = None
    average_samples_per_s: float | None = None
    estimated_samples_per_s: float | None = None
    steady_steps_per_s: Estimate | None = None
    batch_size: float | None = None
    total_samples: float | None = None
    total_time_s: float | None = None
    evaluation_samples_per_s: float | None = None
    worker_steps_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """The advice that a run gives about its launch.

    Attributes:
        demand_samples_per_s: rate that the accelerator would take.
        demand_source: how that rate is known.
        input_factor: the factor by which the input rate must grow for it; None without a demand.
        current: the launch of the run, if it was given.
        layout: the launch to use; None if the run suggests none.
        predicted_samples_per_s: predicted rate of that launch, if there is a capacity model.
        text: the advice, one or two sentences.
    """

    demand_samples_per_s: float | None
    demand_source: str
    input_factor: float | None
    current: Layout | None
    layout: Layout | None
    predicted_samples_per_s: Estimate | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInspection:
    """The result of inspecting the files of a run.

    Attributes:
        confidence: the probability of the verdict; None if it is `unknown`.
        evidence: the numbers behind the verdict, by name.
        reasons: the same in sentences, the strongest first.
        timeline: by start; the phases of the newest run only.
        stalls: the longest pauses, by start.
        stall_count: the number of all pauses.
        spans: all steps in order, at most 120 spans of them.
        runs_found: number of runs in the files; the newest of them is described.
        notes: parts that could not be read or were left out.
    """

    schema_version: int
    tool: Tool
    path: str
    sources: tuple[RunSource, ...]
    verdict: VerdictName
    confidence: float | None
    evidence: Mapping[str, Scalar]
    reasons: tuple[str, ...]
    timeline: tuple[PhaseSpan, ...]
    rates: RunRates
    stalls: tuple[Stall, ...]
    stall_count: int
    workers: tuple[StepWorker, ...]
    change: PlanChange
    runs_found: int
    notes: tuple[str, ...] = ()
    spans: tuple[StepSpan, ...] = ()
