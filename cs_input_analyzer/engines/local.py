"""Run workers as processes of this host."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cs_input_analyzer.engines import launch
from cs_input_analyzer.engines.collecting import Collected, LaunchResult, results_of, storage_advice, temporary_scratch
from cs_input_analyzer.engines.launch import LaunchHandle, LaunchOrder, OnSampled
from cs_input_analyzer.engines.scratch import remove
from cs_input_analyzer.engines.starting import WorkerKind, WorkerStarter
from cs_input_analyzer.engines.worker_process import POLL_S, WorkerProcess, memory_limit
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.host.counters import ProcessTree
from cs_input_analyzer.host.machine import budget_cpus, memory_here, task_cpus
from cs_input_analyzer.records import START_TIMEOUT_S, Layout, WorkerResult
from cs_input_analyzer.worker.journal import WorkPlan, read_journal
from cs_input_analyzer.worker.summary import Ending, Killed

# Seconds until a worker is up: it imports TensorFlow itself, or is forked from a process that has imported it.
FRESH_IMPORT_S = 4.0
FORK_S = 0.1


class LocalWorkers:
    """Hold the workers of one launch on this host. They get messages by pipe and write journals in `folder`.

    With `shares_cpus`, workers have CPUs in common, so the share of these that other programs used is unknown.
    """

    hosts = ("localhost",)
    # A slow first batch shortens the window, so that workers end by themselves and not at the deadline.
    leaving_s = 1.0

    def __init__(
        self, layout: Layout, folder: Path, processes: Sequence[WorkerProcess], memory_bytes: int | None, *, shares_cpus: bool
    ) -> None:
        self.layout, self.processes, self.shares_cpus = layout, tuple(processes), shares_cpus
        self._folder, self._memory_bytes = folder, memory_bytes

    def wait(self, kinds: tuple[str, ...], deadline_s: float, late: Killed = "deadline", *, is_first_only: bool = False) -> None:
        """Poll the workers' journals, and their memory and disk use."""
        processes = self.processes[:1] if is_first_only else self.processes
        while waiting := [process for process in processes if not process.is_over and not process.has_said(*kinds)]:
            for process in waiting:
                if time.monotonic() > deadline_s:
                    process.kill(late)
                else:
                    process.watch()
            time.sleep(POLL_S)

    def order(self, order: LaunchOrder) -> None:
        """Send the order, and share the free memory among the workers."""
        limit_bytes = memory_limit(self._memory_bytes, len(self.processes))
        for rank, process in enumerate(self.processes):
            process.memory_limit_bytes = limit_bytes  # until now it could only import
            process.send(order.of(rank).to_line())

    def go(self, window_s: float) -> None:
        """Send the length of the window."""
        for process in self.processes:
            process.send(f"{window_s}\n")

    def end(self, why: Killed) -> None:
        """Kill each worker with its descendants."""
        for process in self.processes:
            process.kill(why)

    def collect(self, plan: WorkPlan, *, is_interrupted: bool) -> Collected:
        """Wait until each worker has ended, and read its journal."""
        for process in self.processes:
            process.leave()
        return self._collected(plan, [process.finish() for process in self.processes])

    def so_far(self, plan: WorkPlan) -> Collected:
        """Read the journals of the running workers."""
        return self._collected(plan, [Ending(returncode=None, killed_for=None, output_tail="") for _ in self.processes])

    def _collected(self, plan: WorkPlan, endings: Sequence[Ending]) -> Collected:
        journals = [read_journal(process.folder) for process in self.processes]
        workers = results_of(plan, journals, endings, [socket.gethostname()] * len(endings))
        if self.shares_cpus:
            workers = tuple(_without_others(worker) for worker in workers)
        return Collected(workers=workers, first=journals[0], ending=endings[0])

    def close(self) -> None:
        """Kill the remaining workers, and remove the folder of the launch."""
        self.end("interrupt")
        for process in self.processes:
            process.finish()
        remove(self._folder)


def _without_others(worker: WorkerResult) -> WorkerResult:
    """Return the result without the use of its CPUs by other programs, which includes the other workers' here."""
    return worker if worker.noise is None else replace(worker, noise=replace(worker.noise, others_ratio=None))


class LocalLauncher:
    """Start workers as processes of this host. Pin each to its own CPUs of the budget.

    A worker that has not built its pipeline within `start_timeout_s` is ended. `folder` is private; `close` removes it.
    """

    nodes = 1

    def __init__(
        self,
        cpu_budget: int,
        worker_memory_bytes: int | None = None,
        *,
        start_timeout_s: float = START_TIMEOUT_S,
        kind: WorkerKind = WorkerKind(),  # noqa: B008 - frozen
    ) -> None:
        self._start_timeout_s = start_timeout_s
        self._cpu_budget = cpu_budget
        self._worker_memory_bytes = worker_memory_bytes
        self._scratch = temporary_scratch()
        self.folder = self._scratch.folder
        self._starter = WorkerStarter(self.folder, kind)
        self._started: list[LocalWorkers] = []
        self._tree = ProcessTree()
        self._next_cpu = 0

    def now_s(self) -> float:
        """Return the time of a monotonic clock."""
        return time.monotonic()

    def start(self, layout: Layout) -> LocalWorkers:
        """Start one pinned worker for each task. Raise LaunchError for more than one node."""
        if layout.nodes != 1:
            raise LaunchError(f"launch {layout}: this host is one node")
        # Launches import side by side. Each begins with the CPU after the last one's, so that they share no CPU needlessly.
        sets = task_cpus(budget_cpus(self._cpu_budget), layout.tasks_per_node, layout.cpus_per_task, self._next_cpu)
        self._next_cpu += sum(map(len, sets))
        launch_folder = self.folder / f"launch-{len(self._started)}"
        folders = [launch_folder / f"worker-{rank}" for rank in range(layout.tasks)]
        try:
            for folder in folders:
                folder.mkdir(parents=True)
        except OSError as error:
            raise LaunchError(f"cannot create the folder of a worker: {storage_advice(error.strerror or str(error))}") from None
        processes: list[WorkerProcess] = []
        try:
            for folder, cpus in zip(folders, sets, strict=True):
                self._starter.wait(self._start_timeout_s)
                # The folder of the first worker holds the private files of the launch; its disk space is watched.
                process = self._starter.start(folder, cpus, None if processes else folder)
                processes.append(WorkerProcess(folder, process, memory_limit(self._worker_memory_bytes), self._tree))
        finally:  # `close` ends those that were started
            workers = LocalWorkers(
                layout, launch_folder, processes, self._worker_memory_bytes, shares_cpus=layout.cpus_per_node > self._cpu_budget
            )
            self._started.append(workers)
        return workers

    def free_bytes(self) -> int:
        """Return the free memory of this host, or of its control group."""
        return memory_here().free_bytes

    def starting_s(self, workers: int) -> float:
        """Return seconds for one import, and for a fork of each worker if workers can be forked."""
        if self._starter.forks is False:
            return FRESH_IMPORT_S * max(1.0, workers / self._cpu_budget)
        return (0.0 if self._starter.forks else FRESH_IMPORT_S) + FORK_S * workers

    def run(self, handle: LaunchHandle, plan: WorkPlan, on_sampled: OnSampled | None = None) -> LaunchResult:
        """Run one launch while the others wait."""
        assert isinstance(handle, LocalWorkers)
        return launch.run(handle, self._started, plan, self._start_timeout_s, on_sampled)

    def close(self) -> None:
        """End the workers of all launches first, then remove their files."""
        for workers in self._started:
            workers.end("interrupt")
        for workers in self._started:
            workers.close()
        self._starter.close()
        self._scratch.close()
