"""The records of the analyzer, in the order in which data flows through them. READ THESE FIRST, then `studies/analyze.py`.

    machine ─▶ pipeline ─▶ measured ─▶ model ─▶ plan ─▶ findings ─▶ run
    (`inspection` and `comparison` are what two other stories give: `inspect-run` and `compare`)

Rules that hold everywhere: frozen and keyword-only; SI floats, units in names, tuples and not lists, `None` for what is missing and
never 0, ratios between 0 and 1. A field that is an `Estimate` carries its 90 % interval. The field names are the keys of the JSON
(docs/interfaces.md), so an `Analysis` that is written out structurally *is* the run file.
"""

# ruff: noqa: F401  (imported for others; a list of the names would say the same twice)

from __future__ import annotations

from cs_input_analyzer.records.comparison import (
    ComparedRun,
    Comparison,
    CostDirection,
    Difference,
    FindingChange,
    MemoryChange,
    MemoryDirection,
    OpChange,
    RateChange,
    RateDirection,
)
from cs_input_analyzer.records.findings import LEAST_GAIN, Case, Finding, Fixes, FunctionUse, Mode, Patch, Severity, Training
from cs_input_analyzer.records.inspection import (
    PhaseSpan,
    PlanChange,
    RunInspection,
    RunPhase,
    RunRates,
    RunSource,
    RunSourceKind,
    Stall,
    StallCause,
    StepWorker,
)
from cs_input_analyzer.records.machine import Cluster, Host, Layout, QuietLoop
from cs_input_analyzer.records.measured import (
    RESTART,
    RUNTIME,
    UNATTRIBUTED,
    BatchGap,
    Budget,
    CacheChoice,
    Decomposition,
    FsspecReads,
    Measurement,
    Noise,
    OpCost,
    Profile,
    ReadRate,
    Scaling,
    ScalingPoint,
    Soak,
    SoakPoint,
    Station,
    StationKind,
    SteadyState,
    StopReason,
    Storage,
    TunedParameter,
    WorkerResult,
    WorkerStatus,
)
from cs_input_analyzer.records.model import CapacityModel, ContentionPoint, Limit, Prediction, WorkerPoint
from cs_input_analyzer.records.pipeline import (
    Component,
    ContextUse,
    Edit,
    EditKind,
    FileSet,
    Op,
    PipelineGraph,
    SamplesPerElement,
    Scalar,
)
from cs_input_analyzer.records.plan import Alternative, LaunchLines, LaunchPlan, StorageBasis, WhatIf
from cs_input_analyzer.records.run import (
    SCHEMA_VERSION,
    START_TIMEOUT_S,
    Analysis,
    Capture,
    CaptureCandidate,
    CaptureKind,
    Feed,
    Options,
    Parent,
    Tool,
    Validation,
    ValidationRow,
    VerdictName,
)
from wafer_model import Consumption, Estimate
