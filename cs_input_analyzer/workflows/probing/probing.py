"""Which launches run, one after another, within the time there is; what they give is kept in `Results`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from cs_input_analyzer.engines import Launcher, LaunchHandle, LaunchResult, WorkPlan
from cs_input_analyzer.host.storage import STREAMS, probe_storage
from cs_input_analyzer.model import capacity
from cs_input_analyzer.records import Candidate, Cluster, Host, LaunchPlan, Layout, Options, Storage
from cs_input_analyzer.report.costs import costliest_sentence
from cs_input_analyzer.request.checks import sources_of
from cs_input_analyzer.units import counted, format_rate
from cs_input_analyzer.worker.capture import is_script
from cs_input_analyzer.workflows.probing.failures import failure_of
from cs_input_analyzer.workflows.probing.launches import LaunchRequest, probe_of, scaling_nodes, shard_indices
from cs_input_analyzer.workflows.probing.results import DECIDING_LAUNCHES, Results
from cs_input_analyzer.workflows.probing.seconds import (
    FIXES_WINDOW_S,
    LAUNCH_OVERHEAD_S,
    LEAST_FIXES_S,
    ROUND_WINDOW_S,
    Seconds,
    shortest_round_s,
)

# A worker holds about half a GiB before it does anything; waiting workers may take this share of the free memory.
WORKER_RSS_BYTES = 600 * 2**20
WAITING_SHARE_RATIO = 0.6
# A launch that fills a node may take this share of its free memory.
FULL_SHARE_RATIO = 0.9
# Launches that are only there because they may beat the ones that were measured.
MOST_NEXT_PROBES = 3


class Probing:
    """Runs launches. All seconds come from the launcher's clock.

    Attributes:
        results: what they gave.
        seconds: the time they have.
        found: what is known so far, in few words; every line of progress begins with it.
    """

    def __init__(
        self,
        target: str,
        pickled: str | None,
        options: Options,
        host: Host,
        launcher: Launcher,
        progress: Callable[[str, float], None],
        role: Literal["probe", "validate"] = "probe",
        *,
        is_tuning: bool = False,
    ) -> None:
        self.results = Results(options, host)
        self.seconds = Seconds(options, launcher, is_tuning=is_tuning)
        self.found = ""
        self.no_plan: str | None = None  # why the last plan was none
        self._target = target
        self._pickled = pickled
        self._options = options
        self._launcher = launcher
        self._progress = progress
        self._role = role
        self._first: tuple[Layout, ...] = ()
        self._rounds = 0  # since the first launches
        self._random = random.Random(options.seed)

    def measure_first(self, layouts: Sequence[Layout]) -> None:
        """Measures the first layouts in random order: their workers import TensorFlow side by side, then run layout by layout."""
        self._first = tuple(layouts)
        order = list(layouts)
        self._random.shuffle(order)
        # A layout that shows the graph and whether the function works at all comes first, whatever the draw: the widest of one
        # task, as its readers run alone, too, and are then compared with what a worker of all CPUs delivers.
        widest = max((layout.cpus_per_task for layout in order if layout.tasks_per_node == 1), default=None)
        order.sort(key=lambda layout: (layout.tasks_per_node, layout.cpus_per_task) != (1, widest))
        self._run_all([probe_of(layout) for layout in order])

    def measure_rounds(self, layouts: Sequence[Layout], rounds: int, why: str, other: Probing | None = None) -> Iterator[int]:
        """Run rounds of fresh processes, each layout once in each, in a new random order. Yield the number of whole rounds.

        There are as many rounds as there is time for. Every launch announces as many workers as it starts. Windows are
        as long in the first round as in the last.

        Args:
            layouts: the launches of a round.
            other: takes its turn in each round, too, before or after.
        """
        sides = [self] if other is None else [self, other]
        wanted = [probe_of(layout, why) for layout in layouts]
        sampling_s = self.seconds.left_s / rounds / len(sides) - self._launcher.starting_s(sum(layout.tasks for layout in layouts))
        longest_s = max(ROUND_WINDOW_S, sampling_s / len(wanted) - LAUNCH_OVERHEAD_S)
        for done in range(rounds):
            if done and self.seconds.left_s < len(sides) * shortest_round_s(layouts, self._launcher):
                return
            self._random.shuffle(sides)
            for side in sides:
                self._random.shuffle(wanted)
                side._run_all([replace(one, round_number=done) for one in wanted], longest_s)
            yield done + 1

    def measure_full_node(self, cluster: Cluster) -> None:
        """Measures the launches that fill a node: with workers of one CPU, and with wide ones."""
        layouts = capacity.full_probes(cluster, self.results.cpu_budget, self._most_tasks(cluster))
        wanted = [layout for layout in layouts if not self.results.launches_of(layout.tasks, layout.cpus_per_task)]
        self._first = (*self._first, *wanted)
        self._random.shuffle(wanted)
        self._run_all([probe_of(layout) for layout in wanted], ROUND_WINDOW_S)

    def _most_tasks(self, cluster: Cluster) -> int:
        """Workers that this host can start at once, and that the planned nodes can hold: as memory and files allow."""
        model = self.results.fit()
        most = self.results.cpu_budget
        if model.private_bytes:
            room = min(self._launcher.free_bytes() * FULL_SHARE_RATIO, float(cluster.memory_bytes_per_node))
            most = min(most, int((room - (model.shared_bytes or 0)) / model.private_bytes))
        if model.is_sharded and model.file_count is not None:
            most = min(most, model.file_count)
        return max(1, most)

    def measure_next_probes(self, cluster: Cluster) -> None:
        """Measure the layouts that may be faster than all measured ones, one after the other, as far as the model predicts."""
        for _ in range(MOST_NEXT_PROBES):
            layout = capacity.next_probe(self.results.fit(), cluster, self.results.cpu_budget, self._most_tasks(cluster))
            if layout is None:
                return
            if not self.seconds.suffice_for(f"{layout}, which may be the fastest of this host"):
                return
            wanted = probe_of(layout, "nothing near it was measured, and it may be the fastest")
            if not self._run_all([wanted], ROUND_WINDOW_S):
                return

    def turn_cold(self, plan: LaunchPlan, cluster: Cluster) -> bool:
        """Measure again with cold files if a node of the plan cannot keep its part of the dataset in memory.

        Return False if it can, if the user chose the state of the cache, or if there is no time.
        """
        files = self.results.pipeline.files if self.results.pipeline else None
        if self._options.cache != "as-is" or self.results.cache == "cold" or files is None:
            return False
        room = cluster.memory_bytes_per_node - (plan.memory_bytes_per_node or 0)
        if capacity.dataset_bytes_per_node(files, plan, is_sharded=self.results.is_sharded) <= room:
            return False
        if not self.seconds.suffice_for("cold reads, which the plan needs: a node cannot keep its part of the dataset in memory"):
            return False
        self.results.cache = "cold"
        self.measure_first(self._first)
        self.measure_storage()
        return True

    def measure_storage(self) -> None:
        """Look at the file system under the pipeline, without TensorFlow, for a small part of the remaining time.

        It is not read if workers run on other nodes, because this machine's reads show nothing about theirs. It is not
        read if there is no time, either. Its type, and the rate of the readers alone, are recorded all the same.
        """
        paths = [path for path, _ in self.results.files]
        files = self.results.pipeline.files if self.results.pipeline else None
        if files is None or not paths:
            return
        if files.store is not None:
            self.results.storage = Storage(
                directory=files.directory or "",
                file_system=files.store,
                is_shared=True,
                dataset_bytes=files.bytes,
                cached_ratio=None,
                evicted=None,
                reads=(),
                source_samples_per_s=self.results.source_samples_per_s,
            )
            self.seconds.leave_out(f"the storage by itself: {files.directory} is in an object store")
            return
        began_s = self._launcher.now_s()
        is_here = self._options.launcher == "local"
        reading_s = self.seconds.left_for_storage_s if is_here else 0.0
        if not reading_s:
            elsewhere = "" if is_here else ": the workers run on other nodes than this one"
            self.seconds.leave_out(f"the storage by itself{elsewhere}")
        self._report("reading the files without TensorFlow")
        storage = probe_storage(
            paths,
            cache=self.results.cache if reading_s else "as-is",
            seconds=reading_s,
            streams=STREAMS if reading_s else (),
            dataset_bytes=files.bytes,
        )
        self.seconds.storage_s += self._launcher.now_s() - began_s
        if storage is not None:
            before = self.results.measurements[0].page_cache_ratio  # our own reads came after
            source = self.results.source_samples_per_s
            self.results.storage = replace(storage, cached_ratio=before, source_samples_per_s=source)

    def has_measured(self, plan: LaunchPlan, cluster: Cluster) -> bool:
        """Return whether the planned worker count was announced, and a node of the plan was launched often enough."""
        if self.results.confirmation(plan) is None:
            return False
        return self.results.launches_of(self._tasks_of_round(plan, cluster), plan.cpus_per_task) >= DECIDING_LAUNCHES

    def _tasks_of_round(self, plan: LaunchPlan, cluster: Cluster) -> int:
        """Return how many workers of a node of the plan stream, of as many as this host can start."""
        here = min(self.results.cpu_budget // plan.cpus_per_task, self._most_tasks(cluster))
        return max(1, min(plan.input_workers, plan.tasks_per_node, here))

    def measure_round(self, plan: LaunchPlan, cluster: Cluster) -> bool:
        """Measure a node of the plan once more, on other files, with the planned worker count announced.

        Return False without time.
        """
        tasks = self._tasks_of_round(plan, cluster)
        if not self.seconds.suffice_for(
            f"the plan {plan.layout} with its {counted(plan.input_workers, 'worker')} announced", self._launcher.starting_s(tasks)
        ):
            return False
        layout = Layout(nodes=1, tasks_per_node=tasks, cpus_per_task=plan.cpus_per_task)
        indices = shard_indices([size for _, size in self.results.files], plan.input_workers, tasks, self._random)
        self._rounds += 1
        why = "workers of the plan, with its worker count announced"
        return self._run_all([LaunchRequest(layout, plan.input_workers, indices, why, self._rounds)])

    def measure_nodes(self, plan: LaunchPlan) -> None:
        """Measure the plan's workers on all nodes, on one, and then on numbers between, for the rate of the shared storage.

        All and one start together: they tell most, and importing TensorFlow in the workers of all numbers may take the
        time.
        """
        cpus = min(plan.cpus_per_task, self.results.cpu_budget)
        tasks = max(1, min(plan.tasks_per_node, self.results.cpu_budget // cpus))
        wanted = [Layout(nodes=nodes, tasks_per_node=tasks, cpus_per_task=cpus) for nodes in scaling_nodes(self._launcher.nodes)]
        whole = [m.layout for m in self.results.alike if m.num_workers == m.layout.tasks]
        for together in (wanted[:2], wanted[2:]):
            missing = [layout for layout in together if layout not in whole]
            if len(wanted) > 1 and missing and self.seconds.suffice_for(f"the storage from 1 to {self._launcher.nodes} nodes"):
                self._run_all([probe_of(layout, "how the storage that nodes share holds out") for layout in missing])

    def measure_fixes(self, candidates: Sequence[Candidate], layout: Layout, texts: Mapping[str, str]) -> LaunchResult | None:
        """Try fixes side by side in one fresh worker, in the time that is left. Return None if that is too little.

        What it samples feeds no model. `texts`: the user's files by path, which the candidates change.
        """
        began_s, fixes_s = self._launcher.now_s(), self.seconds.left_for_fixes_s
        if fixes_s < LEAST_FIXES_S:
            return None
        self._report(f"Ctrl-C reports now; trying {counted(len(candidates), 'change')}")
        launched = self._launcher.run(
            self._launcher.start(layout),
            self._work(
                batch_size=None,
                cache="as-is",
                num_workers=1,
                worker_indices=(0,),
                min_window_s=FIXES_WINDOW_S,
                max_window_s=FIXES_WINDOW_S,
                deadline_s=self.seconds.deadline_s,
                candidates=tuple(candidates),
                fixes_s=fixes_s,
                texts=tuple(texts.items()),
            ),
        )
        self.seconds.fixes_s += self._launcher.now_s() - began_s
        return launched

    # --- launches -------------------------------------------------------------------------------------------------------------

    def _run_all(self, order: Sequence[LaunchRequest], longest_s: float = math.inf) -> bool:
        """Run launches in this order. Return False if all failed.

        Their workers import TensorFlow side by side, as far as memory allows. No window is longer than `longest_s`.
        """
        waiting: dict[int, LaunchHandle] = {}
        workers = 0
        if self.results.measurements:
            self._report("starting workers")
        else:
            self._progress("importing TensorFlow", 0.0)  # these seconds are not of the budget
        began_s = self._launcher.now_s()
        for position, wanted in enumerate(order):
            workers += wanted.layout.tasks
            if not waiting or workers * WORKER_RSS_BYTES < self._launcher.free_bytes() * WAITING_SHARE_RATIO:
                waiting[position] = self._launcher.start(wanted.layout)
        if not self.results.measurements:
            self.seconds.has_started(self._launcher.now_s() - began_s)  # an engine may import before it forks
        starting_s = self._launcher.starting_s(1)
        launched = []
        for position, wanted in enumerate(order):
            more_s = -starting_s if position in waiting else 0.0
            if position and not self.seconds.suffice_for(f"layout {wanted.layout}", more_s):
                continue
            launching = waiting.get(position) or self._launcher.start(wanted.layout)
            import_s = starting_s if self.results.measurements and not position else 0.0
            left = len(order) - position
            launched.append(self._run(launching, wanted, left, import_s=import_s, longest_s=longest_s))
        return any(one.failure is None for one in launched)

    def _run(
        self,
        launching: LaunchHandle,
        wanted: LaunchRequest,
        launches_left: int,
        import_s: float = 0.0,
        longest_s: float = math.inf,
    ) -> LaunchResult:
        began_s = self._launcher.now_s()
        layout, num_workers = launching.layout, wanted.num_workers
        self._report(f"measuring {layout}" + (f" as {num_workers} workers" if num_workers != layout.tasks else ""))
        is_first = not self.results.measurements
        window_s = self.seconds.window_s(
            launches_left, import_s, longest_s, slowest_gap_s=self.results.slowest_gap_s, is_first=is_first
        )
        launched = self._launcher.run(
            launching,
            self._work(
                batch_size=self._options.batch_size,
                has_demand=bool(sources_of(self._options)),
                cache=self.results.cache,
                role=self._role,
                why=wanted.why,
                want_source=self._role == "probe" and is_first,
                look_s=self._look_s(layout),
                num_workers=num_workers,
                worker_indices=wanted.indices,
                begin_ratio=wanted.begin_ratio,
                min_window_s=min(2.0, window_s),
                max_window_s=window_s,
                deadline_s=max(
                    self.seconds.deadline_s if is_first else self.seconds.probes_deadline_s, began_s + self.seconds.least_s
                ),
            ),
            self._sampled if is_first else None,
        )
        self.seconds.probes_s += self._launcher.now_s() - began_s
        if is_first:
            self.seconds.has_started(launched.starting_s)
            self.seconds.probes_s -= launched.starting_s
        self.seconds.transient_s += launched.transient_s
        self.results.keep(launched)
        self._learn(launched)
        if launched.failure is not None and not launched.is_interrupted and not self.results.has_rate:
            scripted = is_script(self._target)
            raise failure_of(launched.failure, self._options, is_script=scripted, pipeline=launched.pipeline)
        if launched.is_interrupted:
            raise KeyboardInterrupt
        return launched

    def _look_s(self, layout: Layout) -> float:
        """Return the time for a second look at what ops cost: the first time that one worker of this size runs alone."""
        is_new = all(m.layout != layout for m in self.results.measurements)
        return self.seconds.look_s if self._role == "probe" and layout.tasks == 1 and is_new else 0.0

    def _work(self, **of_this_launch: Any) -> WorkPlan:
        """Return the work of the workers: the common part of all launches of this run, and the part of this one."""
        options = self._options
        return WorkPlan(
            target=self._target,
            pickled=self._pickled,
            params_json=options.params_json,
            stand_ins=options.stand_ins,
            mode=options.mode,
            input_context=options.input_context,
            samples_per_element=options.samples_per_element,
            target_error_ratio=options.target_error_ratio,
            **of_this_launch,
        )

    def _sampled(self, launched: LaunchResult) -> None:
        """Tell what the first launch has measured, while its worker looks at parts of the pipeline."""
        self._learn(launched)
        if self.found:
            self._report("looking closer")

    def _learn(self, launched: LaunchResult) -> None:
        """Note what a launch has measured: its rate, and the costliest op of the last worker that was profiled."""
        rate = launched.measurement.samples_per_s
        if rate is None:
            return
        pipeline = launched.pipeline or self.results.pipeline
        samples = pipeline.samples_per_element if pipeline is not None else None
        unit = "elements/s" if samples is not None and samples.is_unknown else "samples/s"
        profile = launched.profile or self.results.profile_of(None)
        costliest = costliest_sentence(profile) if profile is not None else ""
        measured = f"{format_rate(rate.estimate, unit)} measured in {launched.measurement.layout}"
        self.found = ", ".join(filter(None, (measured, costliest)))

    def _report(self, what: str) -> None:
        """Tell what runs now, after what is known by then."""
        self._progress(f"{self.found}; {what}" if self.found else what, self.seconds.spent_ratio)
