"""The capacity model of a pipeline, and predictions made with it."""

from __future__ import annotations

from dataclasses import dataclass

from cs_input_analyzer.records.machine import Layout
from wafer_model import Estimate

AS_IDLE = Estimate.exact(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePoint:
    """The rate of one worker of `cpus` CPUs among `tasks` workers on the measuring host, over all launches of that shape."""

    tasks: int
    cpus: int
    samples_per_s: Estimate
    cpu_s_per_sample: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One term of the bottleneck law: the rate that `name` alone would allow."""

    name: str
    samples_per_s: float

    def scaled(self, factor: float) -> Limit:
        """Return the limit with its rate multiplied by a factor."""
        return Limit(name=self.name, samples_per_s=self.samples_per_s * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityModel:
    """The properties of a pipeline and of the measuring host that `capacity.predict` needs. Rates are those of an idle host.

    Attributes:
        points: the measured rates, sorted by tasks and CPUs; at least one of a single worker.
        shard_ratio: rate of a worker that reads its shard of the planned launch over that of one that reads the files of the
            probes; exactly 1 if no difference was seen.
        slowest_ratio: slowest over mean rate of workers that ran together, without the noise of their windows. The workers of the
            largest and the smallest shard are included.
        whole_slowest_ratio: the same without shards of the plan.
        spread_ratio: standard deviation of the log rate between fresh processes of one launch.
        launch_spread_ratio: the same between fresh launches of one shape.
        run_spread_ratio: the same of the host from hour to hour.
        host_ratio: rate of launches on the measuring host over that on an idle one.
        ceilings: rates that no number of CPUs lifts a worker above: serial ops, Python's lock, fixed parallelism, storage latency.
        host_read_bytes_per_s: read rate of one host from the file system; None if unknown, or if the files are cached.
        moved_bytes_per_sample: bytes that all ops together take and give for one sample; None if unknown.
        host_cpus: CPUs of the measuring host that the workers could use.
        host_threads_per_core: None if unknown.
        private_bytes: memory of each worker.
        shared_bytes: memory that each node needs once.
        is_sharded: the pipeline divides files among workers, so a worker without a file has nothing to stream.
    """

    points: tuple[RatePoint, ...]
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
    ceilings: tuple[Limit, ...] = ()
    host_read_bytes_per_s: float | None = None
    moved_bytes_per_sample: float | None = None
    host_threads_per_core: int | None = None
    whole_slowest_ratio: float | None = None
    launch_spread_ratio: float = 0.0
    run_spread_ratio: float = 0.0
    host_ratio: Estimate = AS_IDLE

    @property
    def largest_cpus_probed(self) -> int:
        """Return the largest number of CPUs per task that was measured."""
        return max(point.cpus for point in self.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The predicted rate of a layout.

    Attributes:
        input_workers: tasks that stream (chief and single-task nodes do not).
        limited_by: name of the smallest limit.
        limits: all terms, smallest first.
        extrapolation_ratio: factor by which the layout lies outside the measured range; 1 inside.
        problem: why the layout cannot run; None if it can.
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
