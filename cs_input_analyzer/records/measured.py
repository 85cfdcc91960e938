"""Measured results: the workers of a launch, the costs of ops, the storage, and the limits of a worker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Literal

from cs_input_analyzer.records.machine import Layout
from cs_input_analyzer.units import format_estimate, in_a_line
from wafer_model import Estimate

STRAGGLER_RATIO = 0.9
# Above this share of the files in the page cache, reads come from memory and show nothing about the storage.
CACHED_RATIO = 0.95
# Measurements whose shares of cached files differ by more cannot be compared.
OTHER_CACHE_RATIO = 0.1
# Above this utilization a station holds the worker back. If no station reaches it, the limit is something that was not measured.
BUSY_RATIO = 0.8
CacheChoice = Literal["warm", "cold", "as-is"]
WorkerStatus = Literal["done", "data_error", "deadline", "interrupted", "lost"]
StopReason = Literal["precision", "budget", "data_end", "error"]
StationKind = Literal[
    "CPU", "serial op", "fixed parallelism", "Python (GIL)", "readers", "storage bandwidth", "storage latency", "slowest shard"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchGap:
    """Seconds between two batches in the steady window. Long gaps make the wafer wait, whatever the mean."""

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
    """The steady window of a measurement, and why sampling stopped.

    Attributes:
        transient_s, transient_batches: warm-up cut from the start by MSER-5 (White 1997), first batch included.
        window_s, batches: the rest, which was used.
        blocks: batch means behind the interval.
        lag1_autocorrelation: of the block means; near 0 if the blocks are independent.
        epochs: passes over the data that ended inside the run.
        stopped_by: `precision` reached, `budget` ended, `data_end` (nothing more to read), `error` in the data.
        moved: tunable parameters (`op.parameter`) that AUTOTUNE changed inside the window; None if its model was not read.
        epoch_gap_s: mean time from the last batch of a pass to the first of the next; None if no pass ended inside the run.
        is_filling_cache: a `cache` of the pipeline was not full at the end, so the window shows the slower first pass. None if
            that cannot be seen: TensorFlow showed no model of the iterator, and the graph does not tell how long the pass is.
        pass_elements: elements of the first pass; None if no pass ended inside the run.
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
    is_filling_cache: bool | None = False
    pass_elements: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The influence of other programs during the window.

    Attributes:
        run_queue_wait_ratio: time the worker's threads waited for a CPU over the time they ran (schedstat); None if unreadable.
        steal_ratio: share of CPU time that the hypervisor took; None if unreadable.
        others_ratio: share of the worker's CPUs that other programs or the hypervisor used; None if unreadable, or if it shared
            them with other workers.
        preempted_ratio: the part of `run_queue_wait_ratio` after a thread lost its CPU in the middle of its work. It assumes that
            all waits are equally long, so it is the share of such switches among all. None if unreadable.
    """

    run_queue_wait_ratio: float | None
    steal_ratio: float | None
    preempted_ratio: float | None = None
    others_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredErrors:
    """The errors that an `ignore_errors` hides: of `elements` requests `dropped` raised, the first with `error`."""

    op: str
    elements: int
    dropped: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """The results of one worker process. A number is None if the process did not live to give it.

    Attributes:
        index: TF_CONFIG task index among the streaming workers.
        status: `done`; `data_error` (a record could not be read; measured until there); `deadline` (ended by the parent, its
            numbers kept); `interrupted` (the same, by Ctrl-C); `lost` (died or never delivered).
        message: the error; empty when done.
        cpu_s_per_sample: user + system time over the window. It covers all threads and the processes that the worker started;
            so do bytes and memory.
        processes: the worker and the processes that it started: the most that were alive at one reading.
        first_batch_digest: equal for equal batches; None if all values of the batch are equal.
        bytes_read_per_sample: logical reads (`rchar`).
        physical_bytes_read_per_sample: reads that reached the storage (`read_bytes`).
        bytes_out_per_sample: bytes of the tensors of one sample.
        private_bytes: memory that every further worker needs again.
        shared_bytes: pages of files (libraries) that all workers of a node can share, even if there is only one.
        peak_rss_bytes: high-water mark of both.
        block_samples_per_s: rates of equal blocks of the steady window, in time order.
        batch_gaps_s: seconds between the last batches of that window, in order, at most 512 of them.
        file_count: files in this worker's own pipeline; fewer than in `PipelineGraph.files` if Python code shards the list.
        writes: files that its caches, snapshots and saves would write, named as in the input function; no complete caches.
        pss_bytes: its memory, with shared pages divided among their holders.
        buffered_bytes: elements waiting in the buffers of the pipeline (shuffle, prefetch, interleave) at the end of the window.
        ignored: errors that each `ignore_errors` hides, counted after the window, if the pipeline ends before its time.
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
    first_batch_digest: str | None = None
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
    writes: tuple[str, ...] = ()
    pss_bytes: int | None = None
    buffered_bytes: int | None = None
    ignored: tuple[IgnoredErrors, ...] = ()
    processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measurement:
    """One measured launch.

    Attributes:
        num_workers: the worker count that TF_CONFIG announced; it may exceed the number of started workers.
        why: the purpose of this launch.
        notes: messages of the engine about this launch.
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
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        rate = "no rate" if self.samples_per_s is None else format_estimate(self.samples_per_s)
        return in_a_line(f"Measurement {self.layout}: {rate}, {len(self.measured_workers)} of {len(self.workers)} workers")

    @property
    def measured_workers(self) -> tuple[WorkerResult, ...]:
        """Return the workers that delivered a rate."""
        return tuple(worker for worker in self.workers if worker.samples_per_s is not None)

    @property
    def is_whole(self) -> bool:
        """Return whether all of its workers delivered a rate."""
        return len(self.measured_workers) == len(self.workers)

    @property
    def is_filling_cache(self) -> bool:
        """Return whether a worker was measured in a first pass that was still filling a `cache` of the pipeline."""
        states = [worker.steady_state for worker in self.measured_workers]
        return any(state is not None and state.is_filling_cache for state in states)

    @property
    def stragglers(self) -> tuple[WorkerResult, ...]:
        """Return the workers whose interval ends a tenth or more below the median. A feed in turn waits for them.

        Return nothing for fewer than three workers.
        """
        rates = [worker.samples_per_s.estimate for worker in self.workers if worker.samples_per_s is not None]
        if len(rates) < 3:
            return ()
        bound = STRAGGLER_RATIO * median(rates)
        return tuple(worker for worker in self.workers if worker.samples_per_s is not None and worker.samples_per_s.high < bound)


def others_ratio(measurements: Iterable[Measurement]) -> float | None:
    """Return the mean share of their CPUs that other programs used in all measured windows; None if none has it."""
    noises = [worker.noise for launch in measurements for worker in launch.measured_workers if worker.noise is not None]
    known = [noise.others_ratio for noise in noises if noise.others_ratio is not None]
    return sum(known) / len(known) if known else None


RUNTIME, UNATTRIBUTED, RESTART = "runtime", "unattributed", "restart"
NO_OPS = (RUNTIME, UNATTRIBUTED, RESTART)
"""Names and kinds of the rows of a profile that are no ops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCost:
    """The cost of one op. Each op of the pipeline has a row, and three rows are no ops.

    `runtime` is CPU that belongs to no op (executor, allocation, scheduling). `unattributed` replaces it if the cost of
    some ops could not be told apart, and includes their cost. `restart` is the cost of starting another pass over the
    data.

    Attributes:
        self_cpu_s_per_sample: CPU of the op itself without its inputs; all rows add up to the CPU of the process.
        wait_s_per_sample: time its threads spent in it without running: storage, locks.
        told_apart_cpu_s_per_sample: the part of its CPU that the model of the running pipeline did not show: threads inside the
            op, the executor, iterators that live for milliseconds. It comes from parts of the pipeline that ran alone.
        elements_per_sample: elements it gave for each sample of the output (visit ratio).
        bytes_out_per_sample, bytes_in_per_sample: bytes of those elements, and of the elements it took.
        buffered_elements: elements waiting in its buffer at the end of the window.
        is_serial: it runs on one thread at a time, whatever the CPUs.
        source, library_source: as in `Op`.
        merged_into: the row that holds its cost: the op that TensorFlow merged it into, the op whose function it is part of, or
            `unattributed`. None if it has a cost of its own, or did not run.
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
    is_serial: bool | None = None
    library_source: str | None = None
    merged_into: str | None = None
    told_apart_cpu_s_per_sample: float | None = None

    @property
    def is_op(self) -> bool:
        """Return whether it is an op of the pipeline."""
        return self.kind not in NO_OPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The CPU costs of one worker in one measurement.

    Attributes:
        poll_count: snapshots of the running pipeline behind the costs.
        poll_time_ratio: the share of the time that they took.
    """

    layout: Layout
    harness_us_per_batch: float | None
    cpu_s_per_sample: float | None
    ops: tuple[OpCost, ...]
    poll_count: int | None = None
    poll_time_ratio: float | None = None

    @property
    def is_told_apart(self) -> bool:
        """Return whether parts of the pipeline ran alone, to find costs that no snapshot shows."""
        return any(op.told_apart_cpu_s_per_sample is not None for op in self.ops)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRate:
    """The speed of the file system alone: `streams` readers of the pipeline's own files, without TensorFlow.

    Attributes:
        bytes_per_s: rate of all streams together.
        latency_s: median time of the first reads of stretches, `read_bytes` each. Later reads find data that read-ahead fetched.
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
        file_system: type as the kernel names it (`ext4`, `nfs4`, `lustre`, `fuse.…`); None if unknown.
        is_shared: whether it is a network file system; None if unknown.
        cached_ratio: share of the dataset in this host's page cache before the first measurement; None if unknown.
        evicted: whether `--cache cold` emptied that cache; None if it was not asked for, or the kernel does not say.
        reads: bandwidth and latency by streams, cold reads first.
        source_samples_per_s: ceiling of one worker's readers alone, with the pipeline cut after them; None if not measured.
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
class Station:
    """A resource that every sample of one worker uses, and the rate that it alone would allow (bottleneck law).

    Attributes:
        op: the op that is the station; None for CPU and storage, which are no single op.
        samples_per_s: ceiling of one worker: servers over service demand.
        utilization_ratio: measured rate over that ceiling (utilization law, U = X · D), at most 1; near 1 it is the bottleneck.
        layout: the launch of the worker.
    """

    kind: StationKind
    op: str | None
    source: str | None
    samples_per_s: float
    utilization_ratio: float
    layout: Layout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """The combined rates of launches of one shape over `nodes` nodes.

    Attributes:
        wait_ratio: share of the workers' CPU time in which they neither ran nor waited for a CPU; None if unreadable.
    """

    nodes: int
    workers: int
    samples_per_s: Estimate
    bytes_per_s: Estimate | None
    wait_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The same workers on one node, then on more nodes, which shows the limit of their shared storage.

    Attributes:
        points: sorted by nodes, at least two.
        kept_ratio: rate per node on the most nodes over that on the fewest.
        ceiling_bytes_per_s: rate of the shared storage over all nodes together; None if no ceiling was seen.
        note: the conclusion, one sentence.
    """

    points: tuple[ScalingPoint, ...]
    kept_ratio: Estimate
    ceiling_bytes_per_s: Estimate | None
    note: str

    @property
    def nodes(self) -> int:
        """Return the largest number of nodes that was measured."""
        return self.points[-1].nodes
