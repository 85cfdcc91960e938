"""The measuring side of one analysis: which launches ran, what the seconds went to, what did not fit the budget."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import psutil

from cs_input_analyzer import capacity
from cs_input_analyzer.errors import InputFunctionError, LaunchError, TargetError, UsageError
from cs_input_analyzer.launch import Launched, Launcher, Launching, WorkerFailure, WorkPlan
from cs_input_analyzer.measure.costs import CACHED_RATIO
from cs_input_analyzer.measure.decompose import decompose
from cs_input_analyzer.measure.journal import Candidate
from cs_input_analyzer.measure.storage import STREAMS, probe_storage
from cs_input_analyzer.measure.summary import between_processes_ratio
from cs_input_analyzer.records import (
    Budget,
    CacheChoice,
    CapacityModel,
    Cluster,
    Decomposition,
    Estimate,
    LaunchLines,
    LaunchPlan,
    Layout,
    Measurement,
    Options,
    PipelineGraph,
    Profile,
    Scaling,
    Storage,
)
from cs_input_analyzer.stations import is_growing

# A worker holds about half a GiB before it does anything; so many may wait side by side in this share of the free memory.
WORKER_RSS_BYTES = 600 * 2**20
WAITING_SHARE_RATIO = 0.6
# Seconds of a launch that are not its sampling: building, the first batch, tracing the loop, leaving.
LAUNCH_OVERHEAD_S = 1.5
# The first launch also runs the readers alone, and after it the storage is looked at.
FIRST_EXTRA_S = 3.0
MIN_WINDOW_S = 1.0
MAX_CONFIRMING_TASKS = 4
NEAR_COUNT_RATIO = 1.1
# A rate of fewer batches may tell of what lay in the buffers. (Seen: 16 workers of an eighth of a CPU each, two batches a second,
# in a window of one second: 2.5 times their rate; why was not looked at batch by batch.)
LEAST_BATCHES = 8
# Launches that are only there because they may beat the ones that were measured.
MOST_RIVALS = 3
# The largest differences are between processes (where AUTOTUNE lands, which CPU): a size that decides the plan is seen so often.
DECIDING_PROCESSES = 3
# The storage by itself gets at most this much, and this share of the time that is left.
STORAGE_S = 3.0
STORAGE_SHARE_RATIO = 0.1
# Windows of later rounds are as short as a comparison allows: more processes tell more than longer looks at few.
ROUND_WINDOW_S = 2.5
# The pipeline cut after each of its ops: the cuts themselves, beside a launch of their own.
PREFIXES_S = 7.0
# Fixes side by side: less tells nothing, more would tell little.
LEAST_FIXES_S = 8.0
LONGEST_FIXES_S = 36.0
# Kept back for them, where a rule proposes any: from rounds that tell the same more precisely. More where that is too little for
# any, but no more than a third.
FIXES_SHARE_RATIO = 0.25
MOST_FIXES_SHARE_RATIO = 1 / 3
# Launches before them end so much later than they were to.
LATE_S = 3.0
# Sampling before them, only because a worker begins with it.
FIXES_WINDOW_S = 0.5

_NO_FILE = ("No files matched", "No such file or directory", "does not exist")


class Probing:
    """Runs launches and keeps what they gave. All seconds come from the launcher's clock."""

    def __init__(
        self,
        target: str,
        pickled: str | None,
        options: Options,
        cpu_budget: int,
        launcher: Launcher,
        progress: Callable[[str, float], None],
        role: Literal["probe", "validate"] = "probe",
    ) -> None:
        self.measurements: list[Measurement] = []
        self.pipeline: PipelineGraph | None = None
        self._profiles: list[tuple[Profile, Measurement]] = []
        self.storage: Storage | None = None
        self.decomposition: Decomposition | None = None
        self.cache: CacheChoice = options.cache  # what the plan rests on
        self._target = target
        self._pickled = pickled
        self._options = options
        self._cpu_budget = cpu_budget
        self._launcher = launcher
        self._progress = progress
        self._role = role
        self._first: tuple[Layout, ...] = ()
        self._saw_shard = False
        self._files: tuple[tuple[str, int], ...] = ()
        self._not_measured: list[str] = []
        self._import_s = self._transient_s = self._probes_s = self._storage_s = self._fixes_s = 0.0
        self._source_samples_per_s: Estimate | None = None
        self._kept_s = 0.0
        self._began_s = launcher.now_s()
        self._deadline_s = self._began_s + options.max_seconds
        self._random = random.Random(options.seed)

    @property
    def options(self) -> Options:
        return self._options

    @property
    def cpu_budget(self) -> int:
        return self._cpu_budget

    def measure_first(self, layouts: Sequence[Layout]) -> None:
        """Measures the first layouts in random order: their workers import TensorFlow side by side, then run layout by layout."""
        self._first = tuple(layouts)
        order = list(layouts)
        self._random.shuffle(order)
        # A layout that tells the graph and whether the function works at all comes first, whatever the draw: the widest of one
        # task, as its readers run alone, too, and are then compared with what a worker of all CPUs delivers.
        widest = max((layout.cpus_per_task for layout in order if layout.tasks_per_node == 1), default=None)
        order.sort(key=lambda layout: (layout.tasks_per_node, layout.cpus_per_task) != (1, widest))
        self._run_all([self._probe(layout) for layout in order])

    def measure_rounds(self, layouts: Sequence[Layout], rounds: int) -> None:
        """Rounds of fresh processes, each layout once in each, in an order drawn anew; as many whole rounds as there is time for.

        Every launch announces as many workers as it starts. Windows are as long in the first round as in the last.
        """
        wanted = [replace(self._probe(layout), why="a launch that was predicted") for layout in layouts]
        sampling_s = self._left_s() / rounds - self._launcher.starting_s(sum(layout.tasks for layout in layouts))
        longest_s = max(ROUND_WINDOW_S, sampling_s / len(wanted) - LAUNCH_OVERHEAD_S)
        for done in range(rounds):
            if done and self._left_s() < shortest_round_s(layouts, self._launcher):
                return
            self._random.shuffle(wanted)
            self._run_all(wanted, longest_s)

    def measure_rivals(self, cluster: Cluster) -> None:
        """One after the other, the layouts that may be faster than all that were measured, as far as the model can tell."""
        for _ in range(MOST_RIVALS):
            layout = capacity.rival(self.fit(), cluster, self._cpu_budget)
            if layout is None or self._options.probe_layouts:
                return
            if self._left_s() < self._least_s():
                self.leave_out(f"{layout}, which may be the fastest of this host")
                return
            wanted = replace(self._probe(layout), why="nothing near it was measured, and it may be the fastest")
            if not self._run_all([wanted], ROUND_WINDOW_S):
                return

    def turn_cold(self, plan: LaunchPlan, cluster: Cluster) -> bool:
        """Measures again with cold files where a node of the plan cannot keep its part of the dataset in memory.

        False where that is not so, or the user chose what the cache should hold, or there is no time for it.
        """
        files = self.pipeline.files if self.pipeline else None
        if self._options.cache != "as-is" or self.cache == "cold" or files is None:
            return False
        room = cluster.memory_bytes_per_node - (plan.memory_bytes_per_node or 0)
        if capacity.dataset_bytes_per_node(files, plan, is_sharded=self.is_sharded) <= room:
            return False
        if self._left_s() < self._least_s():
            self.leave_out("cold reads, which the plan needs: a node cannot keep its part of the dataset in memory")
            return False
        self.cache = "cold"
        self.measure_first(self._first)
        self.measure_storage()
        return True

    def measure_storage(self) -> None:
        """Looks at the file system under the pipeline, without TensorFlow, for a small part of the time that is left.

        Where workers run on other nodes, what this machine draws from it says nothing of them: it is not read then.
        """
        paths = [path for path, _ in self._files]
        if not paths:
            return
        began_s = self._launcher.now_s()
        if self._left_s() < STORAGE_S:  # no process to start: less time than a launch needs is enough
            self.leave_out("the storage by itself")
            return
        self._tell("reading the files without TensorFlow")
        is_here = self._options.launcher == "local"
        storage = probe_storage(
            paths,
            cache=self.cache if is_here else "as-is",
            deadline_s=began_s + min(STORAGE_S, self._left_s() * STORAGE_SHARE_RATIO),
            clock=self._launcher.now_s,
            streams=STREAMS if is_here else (),
            dataset_bytes=sum(size for _, size in self._files),
        )
        if not is_here:
            self.leave_out("the storage by itself: the workers run on other nodes than this one")
        self._storage_s += self._launcher.now_s() - began_s
        if storage is not None:
            before = self.measurements[0].page_cache_ratio  # our own reads came after
            self.storage = replace(storage, cached_ratio=before, source_samples_per_s=self._source_samples_per_s)

    def measure_decomposition(self) -> None:
        """After cold windows, one with the files in the cache, and what the difference between the two says."""
        cold = next((m for m in self._alike if m.layout.tasks == 1 and m.samples_per_s is not None), None)
        if self.cache != "cold" or cold is None:
            return
        warm = next((m for m in self.measurements if m.layout == cold.layout and (m.page_cache_ratio or 0.0) >= CACHED_RATIO), None)
        if warm is None and self._options.cache != "cold":  # the dataset is larger than a node's memory, perhaps than this host's
            return
        if warm is None and self._left_s() < self._least_s():
            self.leave_out("the same with the files in the cache")
            return
        if warm is None:
            launching = self._launcher.start(cold.layout)
            again = replace(self._probe(cold.layout), why="the same with the files in the cache")
            warm = self._run(launching, again, 1, import_s=self._launcher.starting_s(1), cache="warm").measurement
        profile, batch = self.profile_of(None), self.pipeline and self.pipeline.batch_size
        harness_us = profile.harness_us_per_batch if profile else None
        if warm.samples_per_s is None or cold.samples_per_s is None or harness_us is None or not batch:
            return
        self.decomposition = decompose(
            consumer_s=harness_us * 1e-6 / batch,
            warm_s=1 / warm.samples_per_s.estimate,
            cold_s=1 / cold.samples_per_s.estimate,
            bytes_per_sample=cold.workers[0].bytes_read_per_sample,
            cold_bytes_per_s=max((r.bytes_per_s for r in self.storage.reads if r.cache_state == "cold"), default=None)
            if self.storage
            else None,
        )

    def fit(self) -> CapacityModel:
        """The capacity model of all that was measured so far."""
        assert self.pipeline is not None
        model = capacity.fit(self.pipeline, self._alike, self._cpu_budget)
        profile = self.profile_of(None)
        moved = [cost.bytes_out_per_sample for cost in profile.ops if cost.bytes_out_per_sample is not None] if profile else []
        return replace(
            model,
            is_sharded=model.is_sharded or self.is_sharded,
            host_read_bytes_per_s=self._host_read_bytes_per_s(),
            moved_bytes_per_sample=2 * sum(moved) if moved else None,  # written by one op, read by the next
        )

    def _host_read_bytes_per_s(self) -> float | None:
        """What the file system gives this host: the most that cold reads, or cold launches, drew together.

        None where the files came out of memory, and where the most streams that were tried still drew more than any fewer.
        """
        drawn = {r.streams: r.bytes_per_s for r in self.storage.reads if r.cache_state == "cold"} if self.storage else {}
        if self.cache != "cold" or not drawn or is_growing(drawn):
            return None
        return max(*drawn.values(), *(_bytes_per_s(m) for m in self._alike), 0.0)

    def cached_gain(self, cluster: Cluster) -> Estimate | None:
        """Rate of a worker whose files are in memory over that of the same worker reading them, where the plan rests on cold files.

        None where the user did not ask for cold ones (then a node cannot keep its part of the dataset, and cached ones are no
        question), where the nodes could not keep them, or where no layout was measured both ways.
        """
        files = self.pipeline.files if self.pipeline else None
        nodes = cluster.nodes if self.is_sharded else 1
        if self._options.cache != "cold" or files is None or files.bytes > nodes * cluster.memory_bytes_per_node:
            return None
        alone = [m for m in self.measurements if m.layout.tasks == m.num_workers == 1]
        cold = {m.layout: m.samples_per_s for m in alone if m.samples_per_s is not None and m.cache_state == "cold"}
        warm = {m.layout: m.samples_per_s for m in alone if m.samples_per_s is not None and m.cache_state == "warm"}
        return next((_ratio(warm[layout], cold[layout]) for layout in warm if layout in cold), None)

    @property
    def traces_s(self) -> tuple[tuple[float, ...], ...]:
        """Gaps between batches of workers that ran together, else of lone ones: how steadily they deliver."""
        traces = [(m.layout.tasks, w.batch_gaps_s) for m in self._alike for w in m.measured_workers if w.batch_gaps_s]
        most = max((tasks for tasks, _ in traces), default=0)
        return tuple(gaps for tasks, gaps in traces if tasks == most)

    @property
    def is_sharded(self) -> bool:
        """A `shard` op is in the graph, or a worker of several saw fewer files than the one that was alone."""
        assert self.pipeline is not None
        if self._saw_shard or self.pipeline.files is None:
            return self._saw_shard
        seen = [worker.file_count for m in self.measurements if m.num_workers > 1 for worker in m.workers]
        return any(count is not None and count < self.pipeline.files.count for count in seen)

    def has_measured(self, plan: LaunchPlan) -> bool:
        """The planned worker count was announced to workers of the planned size, and enough fresh processes of that size ran."""
        return self._confirmation(plan) is not None and self._processes(plan) >= DECIDING_PROCESSES

    def measure_round(self, plan: LaunchPlan) -> bool:
        """One more round, in random order: the plan, and again the layouts it was compared with. False when time is up.

        Of the plan as many workers as fit this host run, each with the planned worker count announced.
        """
        tasks = max(1, min(plan.input_workers, plan.tasks_per_node, self._cpu_budget // plan.cpus_per_task, MAX_CONFIRMING_TASKS))
        if self._left_s() < self._least_s():
            if self._confirmation(plan) is None:
                self.leave_out(f"the plan {plan.layout} with its {plan.input_workers} workers announced")
            else:
                missing = DECIDING_PROCESSES - self._processes(plan)
                self.leave_out(f"{missing} more process(es) of {plan.cpus_per_task} CPUs, to see how far fresh ones differ")
            return False
        layout = Layout(nodes=1, tasks_per_node=tasks, cpus_per_task=plan.cpus_per_task)
        indices = shard_indices([size for _, size in self._files], plan.input_workers, tasks, self._random)
        wanted = [_Wanted(layout, plan.input_workers, indices, "workers of the plan, with its worker count announced")]
        rivals = [rival for rival in self._first if self._processes_of(rival) < DECIDING_PROCESSES and rival != layout]
        room = int((self._left_s() - self._launcher.starting_s(tasks)) / (LAUNCH_OVERHEAD_S + ROUND_WINDOW_S)) - 1
        self._random.shuffle(rivals)
        wanted += [replace(self._probe(rival), why="again: how far fresh processes differ") for rival in rivals[: max(0, room)]]
        self._random.shuffle(wanted)
        return self._run_all(wanted)

    def measure_nodes(self, plan: LaunchPlan) -> None:
        """The plan's workers on all nodes that there are, on one, and on numbers between: what the storage that they share gives
        each."""
        cpus = min(plan.cpus_per_task, self._cpu_budget)
        tasks = max(1, min(plan.tasks_per_node, self._cpu_budget // cpus))
        wanted = [Layout(nodes=nodes, tasks_per_node=tasks, cpus_per_task=cpus) for nodes in scaling_nodes(self._launcher.nodes)]
        missing = [layout for layout in wanted if not any(m.layout == layout for m in self._alike if m.num_workers == layout.tasks)]
        if len(wanted) < 2 or not missing:
            return
        if self._left_s() < self._least_s():
            self.leave_out(f"the storage from 1 to {self._launcher.nodes} nodes")
            return
        self._run_all([replace(self._probe(layout), why="how the storage that nodes share holds out") for layout in missing])

    def scaling(self) -> Scaling | None:
        """What launches over several nodes said of the storage; None where there were none."""
        return capacity.scaling_of(self.measurements, self.cache)

    def measure_prefixes(self, plan: LaunchPlan | None) -> None:
        """One more process of the planned size, which also runs the pipeline cut after each of its ops."""
        if self._left_s() < self._least_s() + PREFIXES_S:
            self.leave_out("the pipeline cut after each of its ops (marginal costs)")
            return
        profile = self.profile_of(plan)
        layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=profile.layout.cpus_per_task if profile else 1)
        self._tell("starting one more worker, for marginal costs")
        wanted = replace(self._probe(layout), why="the pipeline cut after each of its ops")
        self._run(self._launcher.start(layout), wanted, 1, import_s=self._launcher.starting_s(1) + PREFIXES_S, want_prefixes=True)

    def keep_time_for_fixes(self) -> None:
        """From now on everything else ends early enough for trying fixes, where the whole budget allows that."""
        kept_s = max(FIXES_SHARE_RATIO * self._options.max_seconds, LEAST_FIXES_S + self._fixes_overhead_s() + LATE_S)
        if self._options.measure_fixes and kept_s <= MOST_FIXES_SHARE_RATIO * self._options.max_seconds:
            self._kept_s = kept_s

    def measure_fixes(self, candidates: Sequence[Candidate], layout: Layout) -> Launched | None:
        """One fresh worker that tries fixes side by side in what is left of the time; None where that is too little.

        What it samples feeds no model.
        """
        began_s = self._launcher.now_s()
        fixes_s = min(LONGEST_FIXES_S, self._left_s() + self._kept_s - self._fixes_overhead_s())
        if fixes_s < LEAST_FIXES_S:
            return None
        self._tell(f"trying {len(candidates)} fix{'es' if len(candidates) > 1 else ''}")
        launched = self._launcher.run(
            self._launcher.start(layout),
            WorkPlan(
                target=self._target,
                pickled=self._pickled,
                params_json=self._options.params_json,
                mode=self._options.mode,
                batch_size=None,
                cache="as-is",
                num_workers=1,
                worker_indices=(0,),
                target_error_ratio=self._options.target_error_ratio,
                min_window_s=FIXES_WINDOW_S,
                max_window_s=FIXES_WINDOW_S,
                deadline_s=self._deadline_s,
                candidates=tuple(candidates),
                fixes_s=fixes_s,
            ),
        )
        self._fixes_s += self._launcher.now_s() - began_s
        return launched

    def confirmed(self, plan: LaunchPlan, launch: LaunchLines) -> LaunchPlan:
        """The plan with its launch lines, and with the measurement that ran its worker count."""
        return replace(plan, launch=launch, confirmed_by=self._confirmation(plan), cache_state=self.cache)

    def finished(self) -> tuple[Measurement, ...]:
        """All measurements, each with how far fresh processes of the same launch differed."""
        done = []
        for measurement in self.measurements:
            alike = [m for m in self.measurements if _launch_of(m) == _launch_of(measurement)]
            rates = [w.samples_per_s.estimate for m in alike for w in m.measured_workers if w.samples_per_s is not None]
            spread = between_processes_ratio(rates)
            noise = measurement.noise and replace(measurement.noise, between_processes_ratio=spread)
            done.append(replace(measurement, noise=noise))
        return tuple(done)

    def profile_of(self, plan: LaunchPlan | None) -> Profile | None:
        """Where the CPU of one worker went: of the planned size where that ran, else the last; one that was alone before others."""
        cpus = plan.cpus_per_task if plan else None

        def rank(profile: Profile) -> tuple[bool, bool]:
            return profile.layout.cpus_per_task == cpus, profile.layout.tasks_per_node == 1

        return max((profile for profile, _ in reversed(self._profiles)), key=rank, default=None)

    def widest(self) -> tuple[Profile, Measurement] | None:
        """A lone worker with most CPUs, where limits that are not the CPUs show, and the run it is of; the last such one."""
        alone = [pair for pair in self._profiles if pair[1].layout.tasks == pair[1].num_workers == 1 and pair[1] in self._alike]
        return max(reversed(alone), key=lambda pair: pair[0].layout.cpus_per_task, default=None)

    def leave_out(self, what: str) -> None:
        """Notes something that could not be measured or planned; once."""
        if what not in self._not_measured:
            self._not_measured.append(what)

    def budget(self) -> Budget:
        return Budget(
            import_s=self._import_s,
            transient_s=self._transient_s,
            probes_s=max(0.0, self._probes_s - self._transient_s),
            storage_s=self._storage_s,
            fixes_s=self._fixes_s,
            total_s=self._launcher.now_s() - self._began_s,
            not_measured=tuple(self._not_measured),
        )

    def _probe(self, layout: Layout) -> _Wanted:
        """A launch of which all workers run."""
        if layout.tasks > 1:
            why = "what workers leave each other"
        else:
            why = "cost on one CPU" if layout.cpus_per_task == 1 else "one worker on several CPUs"
        return _Wanted(layout, layout.tasks, tuple(range(layout.tasks)), why)

    def _run_all(self, order: Sequence[_Wanted], longest_s: float = math.inf) -> bool:
        """Runs launches in this order; their workers import TensorFlow side by side, as far as memory allows. False if all
        failed. No window is longer than `longest_s`."""
        waiting: dict[int, Launching] = {}
        workers = 0
        self._tell("importing TensorFlow")
        began_s = self._launcher.now_s()
        for position, wanted in enumerate(order):
            workers += wanted.layout.tasks
            if not waiting or workers * WORKER_RSS_BYTES < psutil.virtual_memory().available * WAITING_SHARE_RATIO:
                waiting[position] = self._launcher.start(wanted.layout)
        self._import_s += self._launcher.now_s() - began_s  # an engine may import before it forks
        began_s, starting_s = self._launcher.now_s(), self._launcher.starting_s(1)
        launched = []
        for position, wanted in enumerate(order):
            if position and self._left_s() < self._least_s() - (starting_s if position in waiting else 0.0):
                self.leave_out(f"layout {wanted.layout}")
                continue
            launching = waiting.get(position) or self._launcher.start(wanted.layout)
            import_s = starting_s if self.measurements and not position else 0.0
            left = len(order) - position
            run = self._run(launching, wanted, left, import_s=import_s, longest_s=longest_s)
            launched.append(run)
            if position == 0:
                self._import_s += launched[0].import_s
                self._probes_s -= min(launched[0].import_s, self._launcher.now_s() - began_s)
        return any(one.failure is None for one in launched)

    def _processes(self, plan: LaunchPlan) -> int:
        """Fresh processes of the planned size that delivered a rate."""
        alike = [m for m in self._alike if m.layout.cpus_per_task == plan.cpus_per_task]
        return sum(len(m.measured_workers) for m in alike)

    def _processes_of(self, layout: Layout) -> int:
        return sum(len(m.measured_workers) for m in self._alike if m.layout == layout)

    @property
    def _alike(self) -> list[Measurement]:
        """Measurements with the page cache in the state that the plan rests on."""
        return [m for m in self.measurements if m.cache_state == self.cache]

    def _confirmation(self, plan: LaunchPlan) -> int | None:
        """The measurement of planned workers whose announced count is the plan's, or the nearest within a tenth of it: the last
        measurements may still move a plan by a worker or two, which changes no shard."""
        alike = [
            (abs(math.log(m.num_workers / plan.input_workers)), index)
            for index, m in enumerate(self.measurements)
            if m.layout.cpus_per_task == plan.cpus_per_task and m.cache_state == self.cache and m.samples_per_s is not None
        ]
        distance, index = min(alike, default=(math.inf, -1))
        return index if distance <= math.log(NEAR_COUNT_RATIO) else None

    def _run(
        self,
        launching: Launching,
        wanted: _Wanted,
        launches_left: int,
        import_s: float = 0.0,
        longest_s: float = math.inf,
        cache: CacheChoice | None = None,
        want_prefixes: bool = False,
    ) -> Launched:
        began_s = self._launcher.now_s()
        layout, num_workers = launching.layout, wanted.num_workers
        self._tell(f"measuring {layout}" + (f" as {num_workers} workers" if num_workers != layout.tasks else ""))
        window_s = self._window_s(launches_left, import_s, longest_s)
        launched = self._launcher.run(
            launching,
            WorkPlan(
                target=self._target,
                pickled=self._pickled,
                params_json=self._options.params_json,
                mode=self._options.mode,
                # With a step time the batch size is the accelerator's; without one it says what a sample is.
                batch_size=self._options.batch_size if self._options.step_time_s is None else None,
                cache=cache or self.cache,
                want_source=self._role == "probe" and not self.measurements,
                want_prefixes=want_prefixes,
                num_workers=num_workers,
                worker_indices=wanted.indices,
                target_error_ratio=self._options.target_error_ratio,
                min_window_s=min(2.0, window_s),
                max_window_s=window_s,
                deadline_s=max(self._deadline_s, began_s + self._least_s()),
            ),
        )
        self._probes_s += self._launcher.now_s() - began_s
        self._transient_s += launched.transient_s
        self._source_samples_per_s = self._source_samples_per_s or launched.source_samples_per_s
        self._keep(launched, wanted.why)
        if launched.is_interrupted:
            raise KeyboardInterrupt
        return launched

    def _keep(self, launched: Launched, why: str) -> None:
        self.measurements.append(replace(launched.measurement, role=self._role, why=why))
        self._saw_shard |= launched.pipeline is not None and launched.pipeline.is_sharded  # some functions shard only among several
        if self.pipeline is None:
            self.pipeline, self._files = launched.pipeline, launched.files
        if launched.profile is not None:
            self._profiles.append((launched.profile, self.measurements[-1]))
        if (
            launched.failure is not None
            and not launched.is_interrupted
            and not any(measurement.samples_per_s for measurement in self.measurements)
        ):
            raise failure_of(launched.failure, self._options.max_seconds)

    def _window_s(self, launches_left: int, import_s: float, longest_s: float) -> float:
        """An equal share of the time that is left, keeping back what one more round would need; longer budgets, longer windows, and
        for slow batches as long as some of them take."""
        some_batches_s = min(LEAST_BATCHES * self._slowest_gap_s(), self._options.max_seconds / 6)
        longest_s = max(min(longest_s, max(ROUND_WINDOW_S, self._options.max_seconds / 15)), some_batches_s)
        kept_s = (
            import_s + (self._launcher.starting_s(1) if launches_left > 1 else 0.0) + (0.0 if self.measurements else FIRST_EXTRA_S)
        )
        share_s = (self._left_s() - kept_s) / launches_left - LAUNCH_OVERHEAD_S
        return min(longest_s, max(MIN_WINDOW_S, share_s))

    def _fixes_overhead_s(self) -> float:
        return self._launcher.starting_s(1) + LAUNCH_OVERHEAD_S + FIXES_WINDOW_S

    def _slowest_gap_s(self) -> float:
        """Seconds from batch to batch of the slowest worker so far; 0 where none delivered."""
        return max((1 / w.batches_per_s for m in self.measurements for w in m.measured_workers if w.batches_per_s), default=0.0)

    def _least_s(self) -> float:
        """With less time left nothing useful can be measured any more."""
        return LAUNCH_OVERHEAD_S + self._launcher.starting_s(1) + MIN_WINDOW_S

    def _left_s(self) -> float:
        return self._deadline_s - self._kept_s - self._launcher.now_s()

    def _tell(self, what: str) -> None:
        self._progress(what, min(1.0, (self._launcher.now_s() - self._began_s) / self._options.max_seconds))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A launch to run: its layout, the worker count to announce, which of those workers to start, and what it is to tell."""

    layout: Layout
    num_workers: int
    indices: tuple[int, ...]
    why: str


def scaling_nodes(most: int) -> tuple[int, ...]:
    """How many nodes to measure on, the most telling number first: all, one, then powers of two downwards."""
    between = [1 << power for power in range(1, most.bit_length()) if 1 << power < most]
    return tuple(dict.fromkeys([most, 1, *reversed(between)]))


def shortest_round_s(layouts: Sequence[Layout], launcher: Launcher) -> float:
    """Seconds that a round of these layouts takes at least."""
    starting_s = launcher.starting_s(sum(layout.tasks for layout in layouts))
    return starting_s + len(layouts) * (LAUNCH_OVERHEAD_S + MIN_WINDOW_S)


def _launch_of(measurement: Measurement) -> tuple[Layout, int, CacheChoice]:
    """What must be the same for two measurements to be fresh processes of one launch."""
    return measurement.layout, measurement.num_workers, measurement.cache_state


def _bytes_per_s(measurement: Measurement) -> float:
    """What the workers of a launch read together; 0 of those of which that is not known."""
    workers = measurement.measured_workers
    return sum(w.samples_per_s.estimate * w.bytes_read_per_sample for w in workers if w.samples_per_s and w.bytes_read_per_sample)


def _ratio(above: Estimate, below: Estimate) -> Estimate:
    """Of two rates that know nothing of each other: relative errors add in quadrature."""
    ratio = above.estimate / below.estimate
    down = math.hypot(1 - above.low / above.estimate, below.high / below.estimate - 1)
    up = math.hypot(above.high / above.estimate - 1, 1 - below.low / below.estimate)
    return Estimate(estimate=ratio, low=ratio * max(0.0, 1 - down), high=ratio * (1 + up))


def shard_indices(file_bytes: Sequence[int], num_workers: int, count: int, draw: random.Random) -> tuple[int, ...]:
    """Which `count` of `num_workers` workers to start: the one with the most bytes, the one with the fewest, others at random.

    Shards are taken to be every `num_workers`-th file, which is what `Dataset.shard` and the usual slicing give.
    """
    if count >= num_workers:
        return tuple(range(num_workers))
    if file_bytes:
        sums = [sum(file_bytes[index::num_workers]) for index in range(num_workers)]
        ends = [max(range(num_workers), key=sums.__getitem__), min(range(num_workers), key=sums.__getitem__)]
    else:
        ends = []
    others = [index for index in range(num_workers) if index not in ends]
    draw.shuffle(others)
    return tuple(sorted(list(dict.fromkeys([*ends, *others]))[:count]))


def failure_of(failure: WorkerFailure, max_seconds: float) -> TargetError | UsageError | InputFunctionError | LaunchError:
    """What to tell the user when no worker gave a single rate."""
    if failure.stage == "load":
        return TargetError(failure.message)
    if failure.stage in ("journal", "engine"):
        return LaunchError(failure.message)
    if failure.stage == "import":
        if failure.kind == "SystemExit":
            return TargetError(
                "importing the target ended the interpreter (sys.exit): guard its script part by if __name__ == '__main__'"
            )
        return TargetError(f"the target cannot be imported: {failure.kind}: {failure.message}{_where(failure.details)}")
    if failure.kind in ("NotFoundError", "FileNotFoundError", "InvalidArgumentError") and any(
        t in failure.message for t in _NO_FILE
    ):
        pattern = re.search(r"No files matched pattern: ([^'\n]+)", failure.message)
        what = pattern.group(1) if pattern else failure.message.splitlines()[0]
        return UsageError(f"no file matches: {what} (relative paths are taken from the current folder)")
    if failure.kind == "Empty":
        return InputFunctionError(
            "the dataset gave no element: its file list is empty, a filter drops everything, or a shard has no file"
        )
    if failure.kind == "SystemExit":
        return InputFunctionError("the input function called sys.exit instead of returning a dataset", failure.details)
    if failure.stage == "hang":
        return InputFunctionError(
            f"the input function hung: a worker was {failure.message}; --max-seconds is {max_seconds:g}, more buys more patience",
            failure.details,
        )
    if failure.stage == "exit":
        if failure.kind == "importing TensorFlow":
            return LaunchError(f"a worker did not come up: {failure.message}\n{failure.details}".rstrip())
        return InputFunctionError(f"the worker was lost: {failure.message}", failure.details)
    return InputFunctionError(f"the input function failed: {failure.kind}: {failure.message}", failure.details)


def _where(details: str) -> str:
    """` (file.py:12)`: the last line of the traceback that is the user's."""
    lines = [line.strip() for line in details.splitlines() if line.strip().startswith('File "')]
    if not lines:
        return ""
    path, _, rest = lines[-1].removeprefix('File "').partition('", line ')
    return f" ({path}:{rest.split(',')[0]})"
