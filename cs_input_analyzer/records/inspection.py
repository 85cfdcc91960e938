"""A run that already happened, as its log files show it."""

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
    """A file that a run left behind, as far as it could be read. `note`: what was wrong with it, or how much of it was read."""

    path: str
    kind: RunSourceKind
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpan:
    """What the run did for a while.

    Attributes:
        start_s: seconds since the first time stamp of the run; None where the file has none.
        duration_s: None where its begin or its end was not seen.
        step: of a checkpoint.
    """

    phase: RunPhase
    start_s: float | None
    duration_s: float | None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Steps that took much longer than most.

    Attributes:
        start_s: seconds since the first time stamp of the run; `duration_s` from one line of the log to the next.
        lost_s: what that is above the usual time of so many steps.
        step: the last step before it.
        cause: what the run was seen to do in that time.
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
        return self.steps / self.duration_s if self.duration_s > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWorker:
    """One of several workers that wrote of the same run (step journals, `ordinals`).

    Attributes:
        samples_per_s: what it took itself.
        wait_ratio: share of its time that it waited for input; None where not known.
        is_straggler: clearly slower than the middle one of them.
    """

    name: str
    samples_per_s: float | None
    steps_per_s: float | None = None
    last_step: int | None = None
    wait_ratio: float | None = None
    is_straggler: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRates:
    """Every rate that the files hold, or that follows from their steps and times; None for one that nobody saw.

    Attributes:
        rate_samples_per_s, global_rate_samples_per_s: the last `Rate` and `GlobalRate` as logged.
        steady_samples_per_s: of training alone: without start, checkpoints and evaluation; stalls without a cause count.
        undisturbed_samples_per_s: between the stalls, or within bursts: what the accelerator showed that it can take.
        average_samples_per_s: of the whole run as its last line or `performance.json` has it; releases differ in what it includes.
        estimated_samples_per_s: what the compiler expected.
        steady_steps_per_s: as `steady_samples_per_s`.
        batch_size: samples of a step, where the files say.
        evaluation_samples_per_s: GlobalRate of the last evaluation.
        worker_steps_per_s: GlobalRate of one input worker, in steps, as its own log has it.
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
    """What the run says about its launch.

    Attributes:
        demand_samples_per_s: what the accelerator would take, and `demand_source` how that is known.
        input_factor: how many times the input rate that asks for; None without a demand.
        current: the launch of the run, where it was given.
        layout: the launch to use; None where none follows.
        predicted_samples_per_s: of that launch, where a capacity model was asked.
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
    """What the files of a run say about its input. `confidence` is the probability of the verdict; None where it is `unknown`.

    Attributes:
        evidence: what the verdict rests on, by name; `reasons`: the same in sentences, the strongest first.
        timeline: by start; the phases of the newest run only.
        stalls: the longest ones, by start; `stall_count` all of them.
        spans: all steps in order, at most 120 spans of them.
        runs_found: runs that the files hold; the newest of them is described.
        notes: what could not be read, or was left aside.
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
