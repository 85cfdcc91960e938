"""The results of one analysis so far, and the answers from them: the model, the confirmation of a plan, the launch to show."""

from __future__ import annotations

import math
from dataclasses import replace

from cs_input_analyzer.engines import LaunchResult
from cs_input_analyzer.model import bottlenecks, capacity
from cs_input_analyzer.model.worker_ceilings import is_growing
from cs_input_analyzer.records import (
    Analysis,
    CacheChoice,
    CapacityModel,
    Estimate,
    Host,
    LaunchPlan,
    Limit,
    Measurement,
    Options,
    PipelineGraph,
    Profile,
    Scaling,
    Station,
    Storage,
)
from cs_input_analyzer.tfdata.lineage import deals_out_files

NEAR_COUNT_RATIO = 1.1
# The launch that was the fastest of several owes a part of that to chance: a plan is measured again.
DECIDING_LAUNCHES = 2


class Results:
    """Grows by `keep`, and by the storage that is set from outside.

    Attributes:
        cache: the state of the page cache that the plan rests on; what was measured in another state feeds no model.
        pipeline, files: of the first launch that worked; the files as (path, bytes).
        host: the one that measures; `cpu_budget` of its CPUs may be used.
    """

    def __init__(self, options: Options, host: Host) -> None:
        self.options = options
        self.host = host
        self.cpu_budget = host.cpu_budget
        self.cache: CacheChoice = options.cache
        self.measurements: list[Measurement] = []
        self.pipeline: PipelineGraph | None = None
        self.files: tuple[tuple[str, int], ...] = ()
        self.storage: Storage | None = None
        self.source_samples_per_s: Estimate | None = None
        self._profiles: list[tuple[Profile, Measurement]] = []
        self._saw_shard = False
        self._saved_model: CapacityModel | None = None
        self._saved_stations: tuple[Station, ...] | None = None
        self._fitted: tuple[object, CapacityModel] | None = None

    @classmethod
    def of(cls, run: Analysis) -> Results:
        """Return the results of a saved run. A run without a capacity model gets that of its measurements."""
        results = cls(run.options, run.host)
        results.measurements = [m for m in run.measurements if m.role == "probe"]
        results.pipeline, results.storage = run.pipeline, run.storage
        results.cache = run.options.cache if run.recommendation is None else run.recommendation.cache_state
        # A run of an older version has a `shard` of records as one of files in its capacity model.
        is_seen = not run.pipeline.is_sharded and run.capacity is not None and run.capacity.is_sharded
        results._saw_shard = deals_out_files(run.pipeline.ops) or is_seen
        if run.profile is not None:
            results._profiles = [(run.profile, m) for m in results.measurements if m.layout == run.profile.layout][:1]
        results._saved_model, results._saved_stations = run.capacity, run.stations
        return results

    def keep(self, launched: LaunchResult) -> None:
        """Keep the result of a launch."""
        self.measurements.append(launched.measurement)
        self.source_samples_per_s = self.source_samples_per_s or launched.source_samples_per_s
        # Some functions shard only among several.
        self._saw_shard |= launched.pipeline is not None and deals_out_files(launched.pipeline.ops)
        if self.pipeline is None:
            self.pipeline, self.files = launched.pipeline, launched.files
        if launched.profile is not None:
            self._profiles.append((launched.profile, launched.measurement))

    @property
    def has_rate(self) -> bool:
        """Return whether any launch delivered one."""
        return any(measurement.samples_per_s for measurement in self.measurements)

    @property
    def alike(self) -> list[Measurement]:
        """Return measurements with the page cache in the state that the plan rests on.

        First passes that were still filling a `cache` count only if no single worker was seen with a full one.
        """
        alike = [m for m in self.measurements if m.cache_state == self.cache]
        full = [m for m in alike if not m.is_filling_cache]
        return full if any(m.layout.tasks == 1 and m.measured_workers for m in full) else alike

    @property
    def slowest_gap_s(self) -> float:
        """Return the batch gap of the slowest worker so far; 0 if none delivered."""
        return max((1 / w.batches_per_s for m in self.measurements for w in m.measured_workers if w.batches_per_s), default=0.0)

    @property
    def is_sharded(self) -> bool:
        """Return whether files are dealt out to the workers.

        Then a `shard` divides their list, or one of several workers saw fewer files than a single one.
        """
        assert self.pipeline is not None
        if self._saw_shard or self.pipeline.files is None:
            return self._saw_shard
        counts = [worker.file_count for m in self.measurements if m.num_workers > 1 for worker in m.workers]
        return any(count is not None and count < self.pipeline.files.count for count in counts)

    # --- the model ------------------------------------------------------------------------------------------------------------

    def fit(self) -> CapacityModel:
        """Return the capacity model of all measurements so far, without the ceilings of the stations.

        It is fitted once for each state.
        """
        state = (len(self.measurements), self.cache, self.storage)
        if self._fitted is None or self._fitted[0] != state:
            self._fitted = state, self._fit()
        return self._fitted[1]

    def model(self) -> CapacityModel:
        """Return the capacity model with the ceilings that CPUs cannot lift.

        The plan, the verdict and the saved run share one model, so that a launch has one rate everywhere.
        """
        if self._saved_model is not None:
            return self._saved_model
        return replace(self.fit(), ceilings=self._ceilings(), host_threads_per_core=self.host.threads_per_core)

    def _ceilings(self) -> tuple[Limit, ...]:
        """Return the ceilings of the worker that the stations are of."""
        found = self.widest()
        if found is None or self.pipeline is None:
            return ()
        idle = next(iter(capacity.on_idle_cpus(found[1]).workers), None)
        if idle is None:
            return ()
        return bottlenecks.ceilings(self.pipeline, *found, idle, storage=self.storage, measurements=self.alike)

    def stations(self) -> tuple[Station, ...]:
        """Return the stations of a single worker with the most CPUs; nothing if none was measured."""
        if self._saved_stations is not None:
            return self._saved_stations
        found = self.widest()
        if found is None or self.pipeline is None:
            return ()
        return bottlenecks.stations_of(
            self.pipeline,
            *found,
            storage=self.storage,
            capacity=self.fit(),
            measurements=self.measurements,
            feed=self.options.feed,
        )

    def _fit(self) -> CapacityModel:
        assert self.pipeline is not None
        model = capacity.fit(
            self.pipeline,
            self.alike,
            self.cpu_budget,
            is_virtual=bool(self.host.is_virtual),
            site_errors=self.host.site_errors,
        )
        profile = self.profile_of(None)
        moved = [cost.bytes_out_per_sample for cost in profile.ops if cost.bytes_out_per_sample is not None] if profile else []
        return replace(
            model,
            is_sharded=model.is_sharded or self.is_sharded,
            host_read_bytes_per_s=self._host_read_bytes_per_s(),
            moved_bytes_per_sample=2 * sum(moved) if moved else None,  # written by one op, read by the next
        )

    def _host_read_bytes_per_s(self) -> float | None:
        """Return the rate of the file system for this host: the highest rate of cold reads, or of cold launches together.

        Return None if the files came out of memory, or if the most streams still drew more than fewer ones.
        """
        drawn = {r.streams: r.bytes_per_s for r in self.storage.reads if r.cache_state == "cold"} if self.storage else {}
        if self.cache != "cold" or not drawn or is_growing(drawn):
            return None
        return max(*drawn.values(), *(_bytes_per_s(m) for m in self.alike), 0.0)

    def scaling(self) -> Scaling | None:
        """Return the storage's behaviour in launches over several nodes; None if there were none."""
        return capacity.scaling_of(self.measurements, self.cache)

    # --- a plan ---------------------------------------------------------------------------------------------------------------

    def launches_of(self, tasks: int, cpus: int) -> int:
        """Return how many launches of this shape on one node delivered a rate, of as many of its tasks as fit here."""
        tasks = min(tasks, self.cpu_budget // cpus)
        shapes = [(m.layout.tasks, m.layout.cpus_per_task) for m in self.alike if m.measured_workers]
        return shapes.count((tasks, cpus))

    def confirmation(self, plan: LaunchPlan) -> int | None:
        """Return the measurement of planned workers whose announced count is the plan's, or the nearest within a tenth of it.

        The last measurements may still move a plan by a worker or two, which changes no shard.
        """
        usable = self.alike
        alike = [
            (abs(math.log(m.num_workers / plan.input_workers)), index)
            for index, m in enumerate(self.measurements)
            if m.layout.cpus_per_task == plan.cpus_per_task and m in usable and m.samples_per_s is not None
        ]
        distance, index = min(alike, default=(math.inf, -1))
        return index if distance <= math.log(NEAR_COUNT_RATIO) else None

    # --- what to show ---------------------------------------------------------------------------------------------------------

    def profile_of(self, cpus: int | None) -> Profile | None:
        """Return the CPU costs of one worker: of this size if it ran, else the last.

        A worker that ran alone comes first. A worker whose parts ran alone, too, comes before its replicates.
        """

        def rank(profile: Profile) -> tuple[bool, bool, bool]:
            return profile.layout.cpus_per_task == cpus, profile.layout.tasks_per_node == 1, profile.is_told_apart

        full = [profile for profile, measurement in self._profiles if not measurement.is_filling_cache]
        return max(reversed(full or [profile for profile, _ in self._profiles]), key=rank, default=None)

    def widest(self) -> tuple[Profile, Measurement] | None:
        """Return a lone worker with most CPUs, where limits that are not the CPUs show, and its run; the last such one."""
        alone = [pair for pair in self._profiles if pair[1].layout.tasks == pair[1].num_workers == 1 and pair[1] in self.alike]
        return max(reversed(alone), key=lambda pair: (pair[0].layout.cpus_per_task, pair[0].is_told_apart), default=None)


def _bytes_per_s(measurement: Measurement) -> float:
    """Return the combined read rate of the workers of a launch; 0 for workers whose rate is unknown."""
    workers = measurement.measured_workers
    return sum(w.samples_per_s.estimate * w.bytes_read_per_sample for w in workers if w.samples_per_s and w.bytes_read_per_sample)
