"""Every noun of the analyzer. READ THIS FIRST, then `analysis.py`.

Frozen, keyword-only records, in the order in which data flows through them:

    PipelineGraph ─▶ Measurement, Profile ─▶ CapacityModel ─▶ Prediction ─▶ LaunchPlan ─▶ Analysis
    Consumption (from `wafer_model`) and Cluster join at the LaunchPlan; Findings at the Analysis.

Rules that hold everywhere: SI floats, units in names, tuples and not lists, `None` for what is missing and never 0, ratios between
0 and 1. A field that is an `Estimate` carries its 90 % interval. The field names are the keys of the JSON (docs/interfaces.md), so
`Analysis` written out structurally *is* the run file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from cs_input_analyzer.errors import UsageError
from wafer_model import Consumption, Estimate

__all__ = [
    "Alternative",
    "Analysis",
    "BatchGap",
    "Budget",
    "CapacityModel",
    "Case",
    "Cluster",
    "ComparedRun",
    "Comparison",
    "Component",
    "Consumption",
    "ContentionPoint",
    "Decomposition",
    "Difference",
    "Edit",
    "Estimate",
    "FileSet",
    "Finding",
    "FindingChange",
    "Fixes",
    "Host",
    "LaunchLines",
    "LaunchPlan",
    "Layout",
    "Limit",
    "Measurement",
    "MemoryChange",
    "Noise",
    "Op",
    "OpChange",
    "OpCost",
    "Options",
    "Parent",
    "Patch",
    "PhaseSpan",
    "PipelineGraph",
    "PlanChange",
    "Prediction",
    "Profile",
    "RateChange",
    "ReadRate",
    "RunInspection",
    "RunRates",
    "RunSource",
    "Scaling",
    "ScalingPoint",
    "SerialStation",
    "Stall",
    "Station",
    "SteadyState",
    "StepWorker",
    "Storage",
    "Tool",
    "TunedParameter",
    "Validation",
    "ValidationRow",
    "WhatIf",
    "WorkerPoint",
    "WorkerResult",
]

SCHEMA_VERSION = 1
STRAGGLER_RATIO = 0.9
# Beyond these it is a typing error: no machine has a quarter of these nodes, the widest single systems that were sold had 4,096
# hardware threads, and an exbibyte is more memory than all nodes of any machine have together; the least memory is a hundredth of
# what TensorFlow takes. (Planning for the widest takes ten seconds, and grows faster than their width.)
MOST_NODES = 1_000_000
MOST_CPUS_PER_NODE = 1 << 12
LEAST_MEMORY_BYTES_PER_NODE = 1 << 20
MOST_MEMORY_BYTES_PER_NODE = 1 << 60
# TensorFlow's import takes a minute from a cold network file system, and building may list many files.
START_TIMEOUT_S = 300.0

Scalar = str | int | float | bool | None
Mode = Literal["train", "eval"]
ContextUse = Literal["given", "left"]
Feed = Literal["round-robin", "first-come"]
CacheChoice = Literal["warm", "cold", "as-is"]
Launcher = Literal["local", "slurm"]
Severity = Literal["info", "warning", "error"]
VerdictName = Literal["input_bound", "balanced", "accelerator_bound", "unknown"]
StorageBasis = Literal["measured", "declared", "unverified"]
SpeedBasis = Literal["this host", "stated", "reference loop"]
WorkerStatus = Literal["done", "data_error", "deadline", "interrupted", "lost"]
StopReason = Literal["precision", "budget", "data_end", "error"]
RunPhase = Literal["compile", "weights", "programming", "priming", "train", "checkpoint", "evaluation"]
RunSourceKind = Literal[
    "console log", "performance.json", "performance summary", "compile report", "event files", "step journal", "parameters"
]
CaptureKind = Literal["train", "fit", "distribute", "loop", "peek", "evaluate", "predict"]
StallCause = Literal["none known", "checkpoint", "evaluation", "set-up", "read late"]
EditKind = Literal[
    "set-parallelism",  # num_parallel_calls of a parallel map, interleave or batch
    "set-cycle-length",
    "set-buffer",  # of a prefetch, or of a TFRecord reader (bytes)
    "parallelize",  # a serial map or batch becomes a parallel one
    "interleave",  # a flat_map over files becomes a parallel, deterministic interleave (cycle length 1 unless order is moot)
    "insert-prefetch",
    "insert-cache",  # in memory
    "remove",  # a prefetch, or a cache that is never read again
    "vectorize",  # map before batch becomes a map over the batch
    "swap",  # with the op before it, where legal
    "use-private-threads",
]
RateDirection = Literal["faster", "slower", "no difference seen"]
CostDirection = Literal["dearer", "cheaper", "no difference seen", "new", "gone", "not comparable"]
MemoryDirection = Literal["more", "less", "no difference seen"]
StationKind = Literal[
    "CPU", "serial op", "fixed parallelism", "Python (GIL)", "readers", "storage bandwidth", "storage latency", "slowest shard"
]


# --- where workers run ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A launch: `nodes` × `tasks_per_node` × `cpus_per_task`, written `NxTxC`."""

    nodes: int
    tasks_per_node: int
    cpus_per_task: int

    def __str__(self) -> str:
        return f"{self.nodes}x{self.tasks_per_node}x{self.cpus_per_task}"

    @classmethod
    def parse(cls, text: str) -> Layout:
        """`"2x8x4"` -> 2 nodes, 8 tasks per node, 4 CPUs per task. Raises UsageError."""
        match = re.fullmatch(r"\s*([1-9]\d{0,6})x([1-9]\d{0,6})x([1-9]\d{0,6})\s*", text)
        if match is None:
            raise UsageError(f"a layout is written NODESxTASKSxCPUS with positive whole numbers, for example 2x8x4; got {text!r}")
        nodes, tasks, cpus = map(int, match.groups())
        return cls(nodes=nodes, tasks_per_node=tasks, cpus_per_task=cpus)

    @property
    def tasks(self) -> int:
        return self.nodes * self.tasks_per_node

    @property
    def cpus(self) -> int:
        """CPUs of all nodes together."""
        return self.nodes * self.cpus_per_node

    @property
    def cpus_per_node(self) -> int:
        return self.tasks_per_node * self.cpus_per_task


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The CPU nodes that will feed the accelerator.

    Attributes:
        cpus_per_node: CPUs as Slurm counts them (hardware threads where SMT is on).
        threads_per_core: 1 without SMT; None where unknown.
        network_bytes_per_s_per_node: what one node can move in each direction; None where unknown.
        storage_bytes_per_s: ceiling of the shared file system over all nodes; None where neither declared nor measured.
        speed_ratio: speed of one CPU of a node over one of the measuring host; None where unknown.
        speed_basis: how that ratio is known; says nothing where it is None.
        memory_bandwidth_bytes_per_s_per_node: None where unknown.
        source: where these numbers come from: `this host`, `flags`, a file, a preset and its citation.
        measured_storage_bytes_per_s: `storage_bytes_per_s` with its interval, where several nodes showed it; None elsewhere.
        partition: of Slurm, that these nodes are in; None where Slurm was not asked.
        excluded_nodes: names of those nodes of the partition that a launch must not get: the accelerator's, of another kind.
        is_measured: whether the workers ran on nodes of this cluster, as tasks of Slurm: what those share (the storage) was seen.
    """

    nodes: int
    cpus_per_node: int
    memory_bytes_per_node: int
    name: str = "cluster"
    threads_per_core: int | None = None
    cpu_model: str | None = None
    network_bytes_per_s_per_node: float | None = None
    storage_bytes_per_s: float | None = None
    speed_ratio: Estimate | None = None
    speed_basis: SpeedBasis = "stated"
    memory_bandwidth_bytes_per_s_per_node: float | None = None
    source: str = "declared"
    measured_storage_bytes_per_s: Estimate | None = None
    partition: str | None = None
    excluded_nodes: tuple[str, ...] = ()
    is_measured: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError for numbers that no cluster has."""
        threads = 1 if self.threads_per_core is None else self.threads_per_core
        counts: tuple[tuple[str, Any, int, int], ...] = (
            ("nodes", self.nodes, 1, MOST_NODES),
            ("CPUs per node", self.cpus_per_node, 1, MOST_CPUS_PER_NODE),
            ("bytes of memory per node", self.memory_bytes_per_node, LEAST_MEMORY_BYTES_PER_NODE, MOST_MEMORY_BYTES_PER_NODE),
            ("threads per core", threads, 1, MOST_CPUS_PER_NODE),
        )
        for name, count, least, most in counts:
            if not isinstance(count, int) or isinstance(count, bool):
                raise UsageError(f"a cluster has a whole number of {name}, got {count!r} ({self.source})")
            if count < least:
                unit = "" if count < 1 else "; sizes take a unit, for example 128GiB"
                raise UsageError(f"a cluster cannot have {count:,} {name} ({self.source}){unit}")
            if count > most:
                raise UsageError(f"a cluster cannot have more than {most:,} {name} ({self.source})")
        rates: tuple[tuple[str, Any], ...] = (
            ("storage", self.storage_bytes_per_s),
            ("network", self.network_bytes_per_s_per_node),
            ("memory", self.memory_bandwidth_bytes_per_s_per_node),
        )
        for name, rate in rates:
            if rate is not None and not (isinstance(rate, (int, float)) and 0 < rate < math.inf):
                said = f"{rate!r} ({self.source})"
                raise UsageError(f"the {name} bandwidth must be a positive number of bytes per second, got {said}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine that measured.

    `threads_per_core`: how many of the CPUs that may be used share a core, 1 where each has one of its own; None where unknown.
    """

    hostname: str
    cpus: int
    cpu_model: str | None
    memory_bytes: int
    cpu_budget: int
    cpu_budget_source: str
    python_version: str
    tensorflow_version: str | None
    threads_per_core: int | None = None


# --- the pipeline ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One tensor of an element. `shape` is None at unknown rank, a dimension is None where it varies."""

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str
    kind: str = "tensor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One dataset op of the pipeline.

    Attributes:
        name: unique in the pipeline, the tf.data method's name with a number where it repeats: `map`, `map_2`.
        kind: TensorFlow's op without `Dataset` and version: `ParallelMap`, `TFRecord`, `Shuffle`.
        source: `path:line` of the user's call; None where TensorFlow made the op itself. Of an op that an installed package built,
            the line that called the package.
        library_source: `path:line` in that package; None where the user's own code built the op.
        inputs: names of the ops it reads from.
        parameters: `num_parallel_calls`, `buffer_size`, `cycle_length`, … ; the string `AUTOTUNE` where TensorFlow chooses.
        within: name of the op whose function holds this one (`interleave`, `flat_map`); None at the top.
        function_ops: kinds of the TensorFlow ops that its user function calls, sorted.
        function_op_count: how many TensorFlow ops stand in that function and those that it calls, each function once.
        shared: kinds of those among them whose result several others take, or the function gives back besides; `argument` where
            that is so of what the function is given. Questions for a shape do not count.
        code: the user's statement at `source` as written, line breaks included; None where the file cannot be read, or a package
            built the op.
        ignored: codes, or prefixes of codes, of the rules that a comment in that statement switches off.
        files: those that it reads; None where it reads none, or the graph does not name them.
    """

    name: str
    kind: str
    source: str | None = None
    library_source: str | None = None
    inputs: tuple[str, ...] = ()
    parameters: Mapping[str, Scalar | tuple[Scalar, ...]]
    within: str | None = None
    function_ops: tuple[str, ...] = ()
    function_op_count: int = 0
    shared: tuple[str, ...] = ()
    code: str | None = None
    ignored: tuple[str, ...] = ()
    files: FileSet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSet:
    """The files that the pipeline reads, as one unsharded worker sees them."""

    count: int
    bytes: int
    largest_bytes: int
    smallest_bytes: int
    directory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesPerElement:
    """How many samples one element of a pipeline holds.

    Attributes:
        value: in a full element; None where the graph does not tell.
        source: why that is so, in words.
        counted_in: component, in flattening order, whose first dimension is counted in each element; None where all hold `value`.
        rows: samples of each unit of that dimension: the batches inside a batch.
        readings: what `value` may be, where that is not clear.
    """

    value: int | None
    source: str
    counted_in: int | None = None
    rows: int = 1
    readings: tuple[int, ...] = ()

    @property
    def is_unknown(self) -> bool:
        """Whether nothing tells: then elements are counted, one for one sample."""
        return self.value is None and self.counted_in is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineGraph:
    """The pipeline as TensorFlow holds it.

    Attributes:
        batch_size: samples counted for each element; None where they are counted in each. 1 where nobody knows.
        samples_per_element: how many those are, and why; None in runs saved before that was asked.
        cardinality: elements per pass; None where infinite or unknown (`is_infinite` tells which).
        ops: sources first, the op that the consumer reads last; nested ones before the op that holds them.
        redirected: file caches, snapshots and saves that were moved to a private folder for measuring.
        input_context: whether the input function was `given` the `tf.distribute.InputContext` that it takes, or that was `left` at
            its default; None where it takes none.
        stand_ins: modules that are not installed and were stood in for while it was built.
    """

    target: str
    batch_size: int | None
    element_spec: tuple[Component, ...]
    ops: tuple[Op, ...]
    files: FileSet | None
    cardinality: int | None = None
    is_infinite: bool = False
    redirected: tuple[str, ...] = ()
    input_context: ContextUse | None = None
    stand_ins: tuple[str, ...] = ()
    samples_per_element: SamplesPerElement | None = None

    @property
    def is_sharded(self) -> bool:
        """Whether a `shard` op is in the graph (sharding done in Python before the graph is not seen here)."""
        return any(op.kind == "Shard" for op in self.ops)


# --- measured ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchGap:
    """Seconds between two batches in the steady window: a wafer stalls on the tail, not on the mean."""

    p50: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedParameter:
    """A value that AUTOTUNE had chosen at the end of the window."""

    op: str
    parameter: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """How the window was cut out of the run, and why sampling stopped.

    Attributes:
        transient_s, transient_batches: cut from the start by MSER-5 (White 1997), first batch included.
        window_s, batches: what is left and was used.
        blocks: batch means behind the interval.
        lag1_autocorrelation: of the block means; near 0 where the blocks are independent.
        epochs: passes over the data that ended inside the run.
        stopped_by: `precision` reached, `budget` ended, `data_end` (nothing more to read), `error` in the data.
        moved: tunable parameters (`op.parameter`) that AUTOTUNE changed inside the window; None where its model was not read.
        epoch_gap_s: mean time from the last batch of a pass to the first of the next; None where no pass ended inside the run.
        outliers: gaps in the window beyond three interquartile ranges (Tukey's far fence); reported, never dropped.
        is_filling_cache: a `cache` of the pipeline was not full at the end: the window is of the first pass, which is slower.
    """

    transient_s: float
    transient_batches: int
    window_s: float
    batches: int
    blocks: int
    lag1_autocorrelation: float | None
    epochs: int
    stopped_by: StopReason
    moved: tuple[str, ...] | None = None
    epoch_gap_s: float | None = None
    outliers: int | None = None
    is_filling_cache: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How quiet the host was during the window.

    Attributes:
        run_queue_wait_ratio: time the worker's threads waited for a CPU over the time they ran (schedstat); None if unreadable.
        steal_ratio: share of CPU time that the hypervisor took; None if unreadable.
        pressure_ratio: share of the window in which some task of the host waited for a CPU (PSI `some`); None if unreadable.
        reference_ratio: speed of a fixed loop during the window over its speed at the start of the run; None if not run.
        between_processes_ratio: standard deviation over mean of the rates of fresh processes of one layout; None for one process.
        preempted_ratio: the part of `run_queue_wait_ratio` that threads waited after they had lost their CPU in the middle of their
            work: waits taken alike, it is the share of such switches among all; None if unreadable.
    """

    run_queue_wait_ratio: float | None
    steal_ratio: float | None
    pressure_ratio: float | None = None
    reference_ratio: float | None = None
    between_processes_ratio: float | None = None
    preempted_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """What one worker process delivered. Numbers are None where it did not live to give them.

    Attributes:
        index: TF_CONFIG task index among the streaming workers.
        status: `done`; `data_error` (a record could not be read; measured until there); `deadline` (ended by the parent, its
            numbers kept); `interrupted` (the same, by Ctrl-C); `lost` (died or never delivered).
        message: what went wrong; empty when done.
        cpu_s_per_sample: user + system of all threads and live child processes over the window.
        bytes_read_per_sample: logical (`rchar`), `physical_…`: what reached the storage (`read_bytes`).
        bytes_out_per_sample: bytes of the tensors of one sample.
        private_bytes: memory that every further worker needs again; `shared_bytes`: pages of files (libraries) that all workers
            of a node can share, whether or not another is there; `peak_rss_bytes`: high-water mark of both.
        block_samples_per_s: rates of equal blocks of the steady window, in time order.
        batch_gaps_s: seconds between the last batches of that window, in order, at most 512 of them: to replay the worker.
        file_count: files in this worker's own pipeline; fewer than in `PipelineGraph.files` where Python code shards the list.
        pss_bytes: its memory with shared pages divided among their holders.
        rss_growth_bytes_per_min: slope of its memory; None for windows under a minute, where it would be the fill of buffers.
        buffered_bytes: elements that wait in the buffers of the pipeline (shuffle, prefetch, interleave), at the end of the window.
        clock_ahead_s: the clock of its node minus the launcher's, where they are on different machines and it was measured.
    """

    index: int
    node: str
    status: WorkerStatus
    message: str = ""
    samples_per_s: Estimate | None = None
    batches_per_s: float | None = None
    cpu_s_per_sample: float | None = None
    import_s: float | None = None
    build_s: float | None = None
    first_batch_s: float | None = None
    batch_gap_s: BatchGap | None = None
    bytes_read_per_sample: float | None = None
    physical_bytes_read_per_sample: float | None = None
    bytes_out_per_sample: float | None = None
    private_bytes: int | None = None
    shared_bytes: int | None = None
    peak_rss_bytes: int | None = None
    steady_state: SteadyState | None = None
    noise: Noise | None = None
    tuned: tuple[TunedParameter, ...] = ()
    block_samples_per_s: tuple[float, ...] = ()
    batch_gaps_s: tuple[float, ...] = ()
    file_count: int | None = None
    pss_bytes: int | None = None
    rss_growth_bytes_per_min: float | None = None
    buffered_bytes: int | None = None
    clock_ahead_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One layout, run. `num_workers` is the worker count that TF_CONFIG announced, which may exceed the workers started; `why` says
    what this layout was to tell.

    `start_skew_s`: from the first worker's first look to the last one's, clocks of nodes made equal; None where they do not begin
    together. `notes`: what the engine had to say of this launch.
    """

    layout: Layout
    num_workers: int
    cache_state: CacheChoice
    role: Literal["probe", "validate"]
    isolation: Literal["process", "none"]
    workers: tuple[WorkerResult, ...]
    samples_per_s: Estimate | None
    shared_bytes: int | None = None
    page_cache_ratio: float | None = None
    noise: Noise | None = None
    steady_state: SteadyState | None = None
    why: str = ""
    start_skew_s: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def measured_workers(self) -> tuple[WorkerResult, ...]:
        """The workers that delivered a rate."""
        return tuple(worker for worker in self.workers if worker.samples_per_s is not None)

    @property
    def is_filling_cache(self) -> bool:
        """Whether a worker's window is of a first pass that was still filling a `cache` of the pipeline."""
        states = [worker.steady_state for worker in self.measured_workers]
        return any(state is not None and state.is_filling_cache for state in states)

    @property
    def stragglers(self) -> tuple[WorkerResult, ...]:
        """Workers whose whole interval lies a tenth or more below the median: a feed in turn waits for them. Of three or more."""
        rates = [worker.samples_per_s.estimate for worker in self.workers if worker.samples_per_s is not None]
        if len(rates) < 3:
            return ()
        bound = STRAGGLER_RATIO * median(rates)
        return tuple(worker for worker in self.workers if worker.samples_per_s is not None and worker.samples_per_s.high < bound)


RUNTIME, UNATTRIBUTED, RESTART = "runtime", "unattributed", "restart"
NO_OPS = (RUNTIME, UNATTRIBUTED, RESTART)
"""Names and kinds of the rows of a profile that are no ops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCost:
    """What one op costs. Each op of the pipeline has a row, and three rows are no ops:

    `runtime` is the CPU that belongs to no op (executor, allocation, scheduling); `unattributed` stands in its place where ops
    worked that could not be seen at it, and holds what they cost, too; `restart` is what it takes to begin another pass over the
    data.

    Attributes:
        self_cpu_s_per_sample: CPU of the op itself, its inputs excluded; all rows add up to the process's CPU.
        wait_s_per_sample: time its threads spent in it without running: storage, locks.
        elements_per_sample: elements it gave for each sample of the output (visit ratio).
        bytes_out_per_sample, bytes_in_per_sample: bytes of those elements, and of the elements it took.
        buffered_elements: elements waiting in its buffer at the end of the window.
        prefix_cpu_s_per_sample: CPU of the pipeline cut after this op minus that of the one cut before it. Another view: such
            differences are not additive, because a shorter pipeline also overlaps differently.
        is_serial: it runs on one thread at a time, whatever the CPUs.
        source, library_source: as of the op.
        merged_into: the row that holds its cost: of the op that TensorFlow merged it into, of the op whose function it is part of,
            or `unattributed`. None where it has a cost of its own, or nothing of it ran.
        is_marginal: the running pipeline did not show it all, so that its CPU is that of `prefix_cpu_s_per_sample`, as far as the
            process's CPU has room for it.
    """

    name: str
    kind: str
    self_cpu_s_per_sample: float | None
    wait_s_per_sample: float | None
    share_ratio: float | None
    parallelism: float | None
    source: str | None
    elements_per_sample: float | None = None
    bytes_in_per_sample: float | None = None
    bytes_out_per_sample: float | None = None
    buffered_elements: float | None = None
    prefix_cpu_s_per_sample: float | None = None
    is_serial: bool | None = None
    library_source: str | None = None
    merged_into: str | None = None
    is_marginal: bool = False

    @property
    def is_op(self) -> bool:
        """Whether it is an op of the pipeline."""
        return self.kind not in NO_OPS


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialStation:
    """An op that keeps one thread busy while other CPUs idle: more CPUs cannot help it.

    Attributes:
        op: its name; `GIL` where all Python functions of the pipeline share the interpreter's lock.
        busy_ratio: share of the window in which its one thread ran or was in it.
        idle_cpus: CPUs of the worker that were idle on average.
    """

    op: str
    busy_ratio: float
    idle_cpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The one-worker view of one measurement: where its CPU went, and which op is serial."""

    layout: Layout
    harness_us_per_batch: float | None
    cpu_s_per_sample: float | None
    ops: tuple[OpCost, ...]
    serial: SerialStation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRate:
    """The file system alone: `streams` readers of the pipeline's own files, without TensorFlow.

    `bytes_per_s` of all streams together; `latency_s` is the median of the first reads of stretches, of `read_bytes` each: later
    ones find what read-ahead fetched.
    """

    streams: int
    cache_state: CacheChoice
    bytes_per_s: float
    latency_s: float
    read_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The file system under the pipeline, as seen from this host.

    Attributes:
        file_system: type as the kernel names it (`ext4`, `nfs4`, `lustre`, `fuse.…`); None where unknown.
        is_shared: a network file system; None where unknown.
        cached_ratio: share of the dataset in this host's page cache before anything was measured; None where not told.
        evicted: whether `--cache cold` emptied that cache; None where it was not asked for, or the kernel does not tell.
        reads: bandwidth and latency by streams, cold ones first.
        source_samples_per_s: ceiling of one worker's readers alone, the pipeline cut after them; None where not measured.
    """

    directory: str
    file_system: str | None
    is_shared: bool | None
    dataset_bytes: int
    cached_ratio: float | None
    evicted: bool | None
    reads: tuple[ReadRate, ...]
    source_samples_per_s: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    """Why a sample takes the time it takes, by differential runs: shares of the time per sample that add up to 1.

    Attributes:
        consumer_ratio: the hand-over alone (one ready element again and again).
        prep_ratio: what is added with the data in the cache: CPU of the pipeline.
        fetch_ratio: what is added by reading cold, at the bandwidth of the storage.
        latency_ratio: what is added by reading cold beyond that: waiting for single reads.
    """

    consumer_ratio: float
    prep_ratio: float
    fetch_ratio: float | None
    latency_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """A resource that every sample of one worker passes, and the rate that it alone would allow (bottleneck law).

    Attributes:
        op: the op that is the station; None where it is no single op (CPU, storage).
        samples_per_s: ceiling of one worker: servers over service demand.
        utilization_ratio: measured rate over that ceiling (utilization law, U = X · D), at most 1: near 1 is the bottleneck.
        layout: that of the worker.
    """

    kind: StationKind
    op: str | None
    source: str | None
    samples_per_s: float
    utilization_ratio: float
    layout: Layout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Where the seconds of this run went. What did not fit is named, never guessed.

    Attributes:
        import_s: until the workers of the first launch had imported TensorFlow and built their pipelines, and, for a script, until
            the places were found where it takes data; no part of `--max-seconds`.
        total_s: of the whole run, `import_s` included.
    """

    import_s: float = 0.0
    transient_s: float = 0.0
    probes_s: float = 0.0
    storage_s: float = 0.0
    fixes_s: float = 0.0
    total_s: float = 0.0
    not_measured: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """Launches of one shape over `nodes` nodes: what all of their workers delivered, and read, together.

    `wait_ratio`: share of the workers' CPU time in which they neither ran nor waited for a CPU; None where it could not be read.
    """

    nodes: int
    workers: int
    samples_per_s: Estimate
    bytes_per_s: Estimate | None
    wait_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The same workers on one node, then on more: what the storage that they share still gives.

    Attributes:
        points: by rising nodes, at least two.
        kept_ratio: of the rate per node on the fewest nodes, what is left on the most.
        ceiling_bytes_per_s: what the shared storage gives to all nodes together; None where none was seen.
        note: what follows, one sentence.
    """

    points: tuple[ScalingPoint, ...]
    kept_ratio: Estimate
    ceiling_bytes_per_s: Estimate | None
    note: str

    @property
    def nodes(self) -> int:
        """The most that were measured."""
        return self.points[-1].nodes


# --- predicted ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPoint:
    """Rate of one worker alone on the host at `cpus` CPUs, over all its fresh processes.

    `replicates`: that rate in each resampling of processes and blocks (two-level bootstrap); the n-th of all points belong
    together. `waits_in_pool`: calls that wait may hold threads of TensorFlow's pool, which has one for each CPU: then a worker that
    waits, too, is slower with fewer CPUs.
    """

    cpus: int
    samples_per_s: Estimate
    cpu_s_per_sample: float | None
    replicates: tuple[float, ...] = ()
    waits_in_pool: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentionPoint:
    """How much of its lone rate a worker keeps when `tasks` of them run together. `busy_ratio`: their CPUs over the host's."""

    tasks: int
    cpus: int
    busy_ratio: float
    kept_ratio: Estimate
    replicates: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One term of the bottleneck law: the rate that `name` alone would allow."""

    name: str
    samples_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityModel:
    """What the measurements say about any layout: everything `capacity.predict` needs, and nothing of the host it came from.

    Attributes:
        workers: by rising `cpus`, at least one.
        contention: measured points; empty where only lone workers ran.
        shard_ratio: rate of a worker that reads its shard of the planned launch over that of one that reads what the probes read;
            exactly 1 where no difference was seen; `shard_replicates` by resampling.
        slowest_ratio: slowest over mean of the *persistent* rates of workers that ran together, those of the largest and the
            smallest
            shard among them; 1 where no difference was seen.
        spread_ratio: standard deviation over mean of the persistent rates of fresh processes alike (where AUTOTUNE landed),
            sampling
            noise removed; 0 where no difference was seen.
        ceilings: rates that no number of CPUs lifts a worker above: serial ops, the GIL, fixed parallelism, the readers.
        host_read_bytes_per_s: what the file system gives one host; None where unknown, or where the files are cached.
        moved_bytes_per_sample: bytes that the ops take and give for one sample, all together; None where unknown.
        host_cpus: CPUs of the measuring host that the workers could use.
        private_bytes: per worker; `shared_bytes`: once per node.
        is_sharded: the pipeline divides files among workers, so a worker without a file has nothing to stream.
        host_threads_per_core: of the measuring host; None where unknown.
        whole_slowest_ratio: `slowest_ratio` by workers that were told of no more than ran, without the shards of the plan; None in
            runs of versions that did not keep it apart.
        launch_spread_ratio: standard deviation over mean of the rates of fresh launches of one layout: what a host's mood, which
            all workers of a launch share, makes of one look. 0 in runs of versions that did not know it.
    """

    workers: tuple[WorkerPoint, ...]
    contention: tuple[ContentionPoint, ...]
    shard_ratio: Estimate
    slowest_ratio: float
    host_cpus: int
    private_bytes: int | None
    shared_bytes: int | None
    bytes_read_per_sample: float | None
    bytes_out_per_sample: float | None
    is_sharded: bool
    file_count: int | None
    spread_ratio: float = 0.0
    shard_replicates: tuple[float, ...] = ()
    ceilings: tuple[Limit, ...] = ()
    host_read_bytes_per_s: float | None = None
    moved_bytes_per_sample: float | None = None
    host_threads_per_core: int | None = None
    whole_slowest_ratio: float | None = None
    launch_spread_ratio: float = 0.0

    @property
    def largest_cpus_probed(self) -> int:
        return self.workers[-1].cpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a layout would deliver to the accelerator.

    Attributes:
        input_workers: tasks that stream (chief and single-task nodes do not).
        limited_by: name of the smallest limit.
        limits: all terms, smallest first.
        extrapolation_ratio: how far the layout lies outside what was probed; 1 inside.
        problem: why the layout cannot run at all; None when it can.
    """

    layout: Layout
    single_task_nodes: int
    input_workers: int
    samples_per_s: Estimate
    limited_by: str
    limits: tuple[Limit, ...]
    extrapolation_ratio: float
    memory_bytes_per_node: int | None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another layout, for comparison with the recommended one."""

    layout: Layout
    input_workers: int
    predicted_samples_per_s: Estimate
    limited_by: str
    memory_bytes_per_node: int | None
    meets_demand: bool | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The launch that would be recommended if one thing, `name`, were different. `note`: what that changes."""

    name: str
    layout: Layout
    input_workers: int
    predicted_samples_per_s: Estimate
    limited_by: str
    meets_demand: bool | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchLines:
    """Text to paste. `defaults` is the three-line form of the original tool; `sbatch` a whole file; `csrun_cpu` compiles before the
    launch, and is None where there is no compiling without the wafer."""

    defaults: str
    csrun_wse: str
    srun: str
    sbatch: str
    csrun_cpu: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """The recommendation.

    Attributes:
        meets_demand: at the low end of the interval, headroom included; None without a demand.
        headroom_ratio: predicted low end over demand, minus 1 (negative: short by that much); None without a demand.
        storage: whether the shared file system's ceiling was `measured`, `declared`, or is `unverified`.
        cache_state: which measurements the plan rests on: `cold` where a node cannot hold its part of the dataset in memory.
        alternatives: the launch in use today, if any, then launches that none is better than: none has at most as many nodes and
            CPUs and at least the rate (its low end). Few of them, around the plan.
        why: one or two sentences: what decided, and why not one node fewer.
        what_if: the plans under one change each.
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
    why: str
    launch: LaunchLines | None = None
    confirmed_by: int | None = None
    cache_state: CacheChoice = "as-is"
    what_if: tuple[WhatIf, ...] = ()

    @property
    def layout(self) -> Layout:
        return Layout(nodes=self.nodes, tasks_per_node=self.tasks_per_node, cpus_per_task=self.cpus_per_task)

    @property
    def streaming(self) -> Layout:
        """The tasks that stream, without the single-task nodes, and on a plan of one node without the chief."""
        tasks = max(1, min(self.tasks_per_node, self.input_workers))
        return Layout(
            nodes=max(1, self.nodes - self.single_task_nodes), tasks_per_node=tasks, cpus_per_task=max(1, self.cpus_per_task)
        )

    @property
    def variables(self) -> str:
        """The plan as what the vendor's launcher takes for its defaults, each on a line for a shell."""
        return f"DEF_NODES={self.nodes}\nDEF_TASKS={self.tasks_per_node}\nDEF_CPUS={self.cpus_per_task}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a rule may look at. `is_sharded`: each worker reads its own files, by a `shard` op or by Python code."""

    pipeline: PipelineGraph
    mode: Mode
    is_sharded: bool
    measurements: tuple[Measurement, ...]
    profile: Profile | None
    plan: LaunchPlan | None
    cluster: Cluster
    host: Host | None = None
    storage: Storage | None = None
    stations: tuple[Station, ...] = ()
    capacity: CapacityModel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of the graph, as a rule proposes it and `rewrite.apply` carries it out.

    Attributes:
        op: name of the op that is changed, removed, or after which one is inserted.
        value: the new number of parallel calls, cycle length or buffer size; None is AUTOTUNE where the kind has a number.
    """

    kind: EditKind
    op: str
    value: int | None = None


# A fix is kept where the low end of its gain lies above this: less is not worth another line, and near what noise shows.
LEAST_GAIN = 1.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something the user should know or change.

    Attributes:
        fix: what to do, one sentence.
        before: the user's code that the fix changes; None where it is not known.
        after: that code, changed.
        edits: the same change of the graph; empty where the fix is advice only.
        source_check: why `after` is not given although the rule has one (it fails, or is no Python), or why it was not run; empty
            where it was run on a copy, or is not there.
        proven: the edited pipeline gave the same elements, as far as the original promises any order.
        verified_elements: how many were compared; `pass_elements`: of how many, None where a pass has no end or none was seen.
        measured_gain: ratio of rates, fixed / original, of this fix alone; None where it was not measured.
        most_gain: the largest such ratio that the costs of the ops allow; None where they tell nothing of it.
        unproven_because: why a fix with edits was not proven, not measured, or declined; empty otherwise.
    """

    code: str
    severity: Severity
    message: str
    op: str | None = None
    source: str | None = None
    evidence: Mapping[str, Scalar]
    fix: str | None = None
    before: str | None = None
    after: str | None = None
    edits: tuple[Edit, ...] = ()
    measured_gain: Estimate | None = None
    proven: bool = False
    unproven_because: str = ""
    verified_elements: int = 0
    pass_elements: int | None = None
    most_gain: float | None = None
    source_check: str = ""

    @property
    def is_gain(self) -> bool:
        """Whether it gives the same elements, and for sure clearly faster."""
        return self.proven and self.measured_gain is not None and self.measured_gain.low > LEAST_GAIN and not self.unproven_because


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Kept fixes as a change of the user's source files, which themselves are never written.

    Attributes:
        diff: unified, for `patch -p0` or `git apply` in `folder`; empty where no fix could be put into it.
        codes: rules whose fixes are in it.
        by_hand: what is not in it, a sentence each: the rule, the place, what to do, why it is not in it.
        proven: the patched copy gave the same elements as the original.
        verified_elements: how many were compared; `pass_elements`: of how many, None where a pass has no end or none was seen.
        measured_gain: ratio of rates, patched / original, in the same worker; None where it was not measured.
        unproven_because: why it was not proven or not measured; empty otherwise.
    """

    diff: str
    folder: str
    codes: tuple[str, ...]
    by_hand: tuple[str, ...] = ()
    proven: bool = False
    measured_gain: Estimate | None = None
    unproven_because: str = ""
    verified_elements: int = 0
    pass_elements: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixes:
    """What all kept fixes do together: proven as one pipeline, measured against the original side by side.

    Attributes:
        codes: rules whose fixes were kept, in the order in which they were added (greedily, the largest gain first).
        edits: all of them, in order.
        measured_gain: ratio of rates, fixed / original; None where none was kept.
        layout: the launch in whose worker it was measured.
        plan: the launch that would feed the accelerator then; None without a plan or a kept fix.
        elements: how many elements were compared; `pass_elements`: of how many, None where a pass has no end or none was seen.
        most_gain: the largest ratio that the costs of the ops allow; None where they tell nothing of it.
        none_because: why none was kept, where they did gain; empty otherwise.
        patch: the same as a change of the source; None where only the graph was edited.
    """

    codes: tuple[str, ...]
    edits: tuple[Edit, ...]
    measured_gain: Estimate | None
    layout: Layout
    plan: Alternative | None = None
    elements: int = 0
    patch: Patch | None = None
    pass_elements: int | None = None
    most_gain: float | None = None
    none_because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRow:
    """Predicted against measured, one layout of one node whose tasks all stream.

    Attributes:
        role: `recommended` where these are all workers of the plan that stream; `part of the plan` where they are some of them.
        measured_samples_per_s: over fresh launches (its `count`), each taken as the run's feed has it: `first-come`, the sum of its
            workers; `round-robin`, workers × the slowest of them, the sampling noise of that one included.
    """

    layout: Layout
    role: Literal["recommended", "part of the plan", "neighbour"]
    predicted_samples_per_s: Estimate
    measured_samples_per_s: Estimate

    @property
    def error_ratio(self) -> float | None:
        """(predicted - measured) / measured; None where nothing was delivered, so that there is nothing to compare with."""
        measured = self.measured_samples_per_s.estimate
        return self.predicted_samples_per_s.estimate / measured - 1 if measured > 0 else None

    @property
    def is_inside(self) -> bool:
        """Whether the measured rate lies in the predicted interval."""
        return self.predicted_samples_per_s.low <= self.measured_samples_per_s.estimate <= self.predicted_samples_per_s.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Launches of this run that were tried. `notes`: where they differ from the run, and what was not measured."""

    rows: tuple[ValidationRow, ...]
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def median_error_ratio(self) -> float | None:
        """Median of the absolute errors; None without any."""
        errors = [abs(row.error_ratio) for row in self.rows if row.error_ratio is not None]
        return median(errors) if errors else None

    @property
    def inside_count(self) -> int:
        return sum(row.is_inside for row in self.rows)


# --- the whole run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Every choice that can change the answer; stored in the run. `params_json` is the params given to the input function."""

    params_json: str | None = None
    mode: Mode = "train"
    input_context: bool = False
    demand_samples_per_s: float | None = None
    step_time_s: float | None = None
    batch_size: int | None = None
    samples_per_element: int | None = None
    wafer: str | None = None
    system: str | None = None
    system_file: str | None = None
    wafer_mode: str | None = None
    sequence_length: int | None = None
    systems: int = 1
    dtype: str = "fp16"
    calibrate_samples_per_s: float | None = None
    compile_report: str | None = None
    performance_json: str | None = None
    cluster: str | None = None
    nodes: int | None = None
    cpus_per_node: int | None = None
    memory_bytes_per_node: int | None = None
    storage_bytes_per_s: float | None = None
    network_bytes_per_s_per_node: float | None = None
    threads_per_core: int | None = None
    node_speed_ratio: Estimate | None = None
    node_reference: str | None = None
    memory_bandwidth_bytes_per_s_per_node: float | None = None
    current: Layout | None = None
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
    partition: str | None = None
    exclude_nodes: tuple[str, ...] = ()
    slurm_nodes: int | None = None
    queue_timeout_s: float = 600.0
    shared_dir: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureCandidate:
    """A place where the user's script would have taken data.

    Attributes:
        number: as `--capture` takes it.
        call: what was called there, `CerebrasEstimator.train`; `code` is the user's statement.
        source: `path:line` of the user's.
    """

    number: int
    kind: CaptureKind
    call: str
    source: str
    code: str | None
    mode: Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What was captured of the user's own script, whose training never ran.

    Attributes:
        command: the script as it was run, up to the candidate `picked`.
        stand_ins: modules that are not installed and were stood in for.
        notes: places that take no tf.data input, and what ended the search for more.
    """

    command: str
    picked: int
    candidates: tuple[CaptureCandidate, ...]
    stand_ins: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The saved run that another one was planned from. `path`: the file that it was read from; None where there was none."""

    path: str | None
    created_at: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One run: all that was asked, measured, predicted and advised. Every report is a rendering of this record.

    `verdict` judges `verdict_layout`: `input_bound` (supply.high < demand), `accelerator_bound` (supply.low >= demand with
    headroom), else `balanced`; `unknown` without a demand. `confidence` is the probability of that statement (0 to 1).
    `ignored_count`: findings left out because a comment in the user's code says so.
    `left_out`: what an excerpt holds less of than the run it is of (the page of a huge run does); empty for the run itself.
    `no_plan`: why there is no recommendation, and what to type for one; None where there is one.
    `capture`: where the input was found, of a run of the user's own script; None where the input function was named.
    `parent`: the run whose measurements these are, where nothing was measured for this one; None where it measured.
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
    decomposition: Decomposition | None = None
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
    validation: Validation | None = None
    interrupted: bool = False
    ignored_count: int = 0
    left_out: tuple[str, ...] = ()
    scaling: Scaling | None = None
    capture: Capture | None = None
    parent: Parent | None = None


# --- a run that already happened ---------------------------------------------------------------------------------------------


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
class StepWorker:
    """One of several workers, or ranks, that wrote of the same run.

    Attributes:
        samples_per_s: what it took itself (step journals, `ordinals`), or where `is_whole_job` the job's rate as it saw it.
        wait_ratio: share of its time that it waited for input; None where not known.
        is_straggler: clearly slower than the middle one of them.
    """

    name: str
    samples_per_s: float | None
    steps_per_s: float | None
    last_step: int | None
    wait_ratio: float | None
    is_straggler: bool
    is_whole_job: bool = False


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
        batch_size: samples of a step, where the files tell.
        evaluation_samples_per_s: GlobalRate of the last evaluation.
        printed_steps_per_s: of a log that prints rates and no steps.
        worker_steps_per_s: GlobalRate of one input worker, in steps, as its own log has it.
        rate_error_ratio: largest difference of `Rate` as logged from the same worked out of steps and times (0.6 of the local rate
            and 0.4 of the Rate before); over `rate_lines` lines whose stamps are fine enough. Large where the run sampled its Rate
            more often than it logged.
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
    printed_steps_per_s: float | None = None
    worker_steps_per_s: float | None = None
    rate_error_ratio: float | None = None
    rate_lines: int = 0


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
        runs_found: runs that the files hold; the newest of them is told of.
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


# --- two runs beside each other ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """What stands at the top of each side. `path`: the file that it was read from."""

    path: str
    target: str
    created_at: str
    hostname: str
    tensorflow_version: str | None
    verdict: VerdictName
    confidence: float | None
    verdict_layout: Layout | None
    demand_samples_per_s: Estimate | None
    plan: Layout | None
    predicted_samples_per_s: Estimate | None
    meets_demand: bool | None
    memory_bytes_per_node: int | None
    bottleneck: Station | None
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RateChange:
    """One launch that both runs measured: the same layout, worker count and state of the page cache.

    Attributes:
        old_samples_per_s, new_samples_per_s: geometric mean over the fresh launches, how many of them is its `count`; the interval
            is of that run's launches alone.
        ratio: new over old; its intervals hold for all rows of a comparison together with 90 % probability.
        change: `no difference seen` unless the whole interval lies on one side of 1.
        old_cpu_s_per_sample, new_cpu_s_per_sample: mean over the processes; None where it was not read.
    """

    layout: Layout
    num_workers: int
    old_cache_state: CacheChoice
    new_cache_state: CacheChoice
    old_samples_per_s: Estimate
    new_samples_per_s: Estimate
    ratio: Estimate
    change: RateDirection
    old_cpu_s_per_sample: float | None = None
    new_cpu_s_per_sample: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpChange:
    """CPU of one op for one sample, by its name; of kind `process` the sum of all.

    `noise_s`: how far the two may lie apart by chance, with 90 % probability for all ops together; None where that cannot be said.
    `not comparable`: the two profiles are of other launches, or one has no number for the op.
    """

    name: str
    kind: str
    source: str | None
    old_cpu_s_per_sample: float | None
    new_cpu_s_per_sample: float | None
    noise_s: float | None
    change: CostDirection


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """Memory that one worker of a launch holds alone, the largest of them."""

    layout: Layout
    num_workers: int
    old_bytes: int
    new_bytes: int
    change: MemoryDirection


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChange:
    """A finding that only one of the runs has, by its code and op."""

    change: Literal["new", "gone"]
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something other than the pipeline in which the runs differ, or that was not quiet; `old` and `new` as text."""

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs of one input function, beside each other.

    Attributes:
        rates: by rising tasks and CPUs.
        spread_ratio: standard deviation of the rates of fresh launches alike, relative, in both runs together: what the intervals
            of `rates` rest on, the error of each rate and what is assumed included.
        ops: the dearest first; the first is the whole process.
        findings: new ones first.
        doubts: what makes the comparison doubtful; empty where nothing does.
        not_compared: launches that only one of the runs holds, a sentence each.
    """

    schema_version: int
    tool: Tool
    old: ComparedRun
    new: ComparedRun
    rates: tuple[RateChange, ...]
    spread_ratio: float
    ops: tuple[OpChange, ...]
    memory: tuple[MemoryChange, ...]
    findings: tuple[FindingChange, ...]
    doubts: tuple[Difference, ...]
    not_compared: tuple[str, ...] = ()

    @property
    def smallest_slowdown_ratio(self) -> float:
        """Below about this, a slowdown would not be seen even in the row that is known best: a gate is as good as that."""
        return min(1 - row.ratio.low / row.ratio.estimate for row in self.rates)

    @property
    def slower(self) -> tuple[RateChange, ...]:
        return tuple(row for row in self.rates if row.change == "slower")

    @property
    def faster(self) -> tuple[RateChange, ...]:
        return tuple(row for row in self.rates if row.change == "faster")
