"""Workers as processes on this host."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cs_input_analyzer.engines.collecting import launch_result, results_of, storage_advice, temporary_scratch
from cs_input_analyzer.engines.forking import ForkedProcess, ForkServer
from cs_input_analyzer.engines.interface import LaunchHandle, LaunchResult
from cs_input_analyzer.engines.scratch import remove
from cs_input_analyzer.engines.worker_process import POLL_S, WorkerProcess, fresh_process, memory_limit
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.machines.counters import ProcessTree
from cs_input_analyzer.machines.host import cpu_sets
from cs_input_analyzer.planning.tf_config import announced_addresses, of_worker
from cs_input_analyzer.records import START_TIMEOUT_S, Layout
from cs_input_analyzer.worker.isolation import Wanted
from cs_input_analyzer.worker.journal import Order, WorkPlan, read_journal
from cs_input_analyzer.worker.summary import Killed

# What workers take to come up: importing TensorFlow by themselves, and forked from a process that has done so.
FRESH_IMPORT_S = 4.0
FORK_S = 0.1
# What the first batch took longer is taken off the window, so that workers end by themselves and not at the deadline.
LEAVING_S = 1.0
SHORTEST_WINDOW_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLaunchHandle:
    """Workers of one layout on this host."""

    layout: Layout
    processes: tuple[WorkerProcess, ...]


class LocalLauncher:
    """Starts workers as processes of this host, each pinned to its own CPUs out of the budget.

    Workers that have not imported and built their pipelines within `start_timeout_s` are ended. `folder` is private, and removed by
    `close`.

    Args:
        forks: whether one process imports TensorFlow and forks the workers; else each worker imports it.
        isolates: whether the workers of a launch have private copies of all files; else they write to the user's own.
        has_network: whether they have the real network.
        is_script: whether they run a user's script.
    """

    nodes = 1

    def __init__(
        self,
        cpu_budget: int,
        worker_memory_bytes: int | None = None,
        *,
        start_timeout_s: float = START_TIMEOUT_S,
        forks: bool = True,
        isolates: bool = True,
        has_network: bool = True,
        is_script: bool = False,
    ) -> None:
        self._isolates, self._has_network, self._is_script = isolates, has_network, is_script
        self._start_timeout_s = start_timeout_s
        self._cpu_budget = cpu_budget
        self._worker_memory_bytes = worker_memory_bytes
        self._scratch = temporary_scratch()
        self.folder = self._scratch.folder
        self._started: list[WorkerProcess] = []
        self._tree = ProcessTree()
        self._next_cpu = 0
        self._server: ForkServer | None = None
        self._forks: bool | None = None if forks else False

    def now_s(self) -> float:
        return time.monotonic()

    def start(self, layout: Layout) -> LocalLaunchHandle:
        if layout.nodes != 1:
            raise LaunchError(f"layout {layout}: this host is one node")
        # Layouts wait side by side while they import; each begins where the last one ended, so that they share no CPU needlessly.
        sets = cpu_sets(layout.tasks_per_node, layout.cpus_per_task, self._cpu_budget, self._next_cpu)
        self._next_cpu += layout.cpus_per_node
        processes: list[WorkerProcess] = []
        launch = self.folder / f"launch-{len(self._started)}"
        for cpus in sets:
            folder = launch / f"worker-{len(self._started)}"
            try:
                folder.mkdir(parents=True)
            except OSError as error:
                raise LaunchError(f"no folder can be made for a worker: {storage_advice(error.strerror or str(error))}") from None
            process = WorkerProcess(
                folder, self._process(folder, cpus, is_first=not processes), memory_limit(self._worker_memory_bytes), self._tree
            )
            self._started.append(process)
            processes.append(process)
        return LocalLaunchHandle(layout=layout, processes=tuple(processes))

    def starting_s(self, workers: int) -> float:
        if self._forks is False:
            return FRESH_IMPORT_S * max(1.0, workers / self._cpu_budget)
        return (0.0 if self._forks else FRESH_IMPORT_S) + FORK_S * workers

    def _process(self, folder: Path, cpus: Sequence[int], *, is_first: bool) -> subprocess.Popen[bytes] | ForkedProcess:
        """Start a worker. Fork it from the process that imported TensorFlow, or let it import TensorFlow if there is none.

        The files of the launch are in the folder of its first worker, whose space is watched.
        """
        place = folder if is_first else None
        isolated = Wanted(launch=folder.parent, place=place, has_network=self._has_network) if self._isolates else None
        if self._server is None and self._forks is None:
            self._server = ForkServer(self.folder)
            self._forks = self._server.is_usable(self._start_timeout_s)
        if self._server is not None and self._forks:
            try:
                return self._server.start(folder, cpus, isolated=isolated, is_script=self._is_script)
            except LaunchError:  # killed from outside: the workers that come can do without it
                self._forks = False
        return fresh_process(folder, self.folder, cpus, isolated=isolated, is_script=self._is_script)

    def run(self, handle: LaunchHandle, plan: WorkPlan) -> LaunchResult:
        assert isinstance(handle, LocalLaunchHandle)
        is_interrupted, starting_s = False, 0.0
        try:
            starting_s = self._build(handle.processes, plan)
            self._sample(handle.processes, plan, plan.deadline_s + starting_s)
        except KeyboardInterrupt:
            is_interrupted = True
            for process in handle.processes:
                process.kill("interrupt")
        endings = [process.finish() for process in handle.processes]
        journals = [read_journal(process.folder) for process in handle.processes]
        for process in handle.processes:
            remove(process.folder)
        remove(handle.processes[0].folder.parent)
        workers = results_of(plan, journals, endings, socket.gethostname())
        return launch_result(
            handle.layout,
            plan,
            workers,
            journals[0],
            endings[0],
            starting_s=starting_s,
            is_interrupted=is_interrupted,
        )

    def _build(self, processes: Sequence[WorkerProcess], plan: WorkPlan) -> float:
        """Gives the workers their orders; the seconds until each has built its pipeline or is gone."""
        began_s = time.monotonic()
        latest_s = began_s + self._start_timeout_s
        # All that were started: a neighbour that still imports would take the CPUs from those that are measured.
        self._wait([process for process in self._started if not process.is_over], ("imported", "failed"), latest_s, "start")
        limit_bytes = memory_limit(self._worker_memory_bytes, len(processes))
        addresses = announced_addresses(["localhost"], plan.num_workers)
        for process, index in zip(processes, plan.worker_indices, strict=True):
            order = Order(
                plan=plan,
                worker_index=index,
                tf_config=of_worker(addresses, index),
                is_first=process is processes[0],
                is_alone=len(processes) == 1,
                left_s=plan.deadline_s - began_s - LEAVING_S,
            )
            process.memory_limit_bytes = limit_bytes  # until now it could only import
            process.send(order.to_line())
        self._wait(processes, ("built", "failed"), latest_s, "start")
        return time.monotonic() - began_s

    def _sample(self, processes: Sequence[WorkerProcess], plan: WorkPlan, deadline_s: float) -> None:
        """Takes workers that have built their pipelines through the window; returns when each is done or gone."""
        self._wait(processes, ("first_batch", "failed"), deadline_s)
        window_s = max(SHORTEST_WINDOW_S, min(plan.max_window_s, deadline_s - time.monotonic() - LEAVING_S))
        for process in processes:
            process.send(f"{window_s}\n")
        self._wait(processes, ("done", "failed"), deadline_s)
        if plan.has_more:
            self._wait(processes[:1], ("over", "failed"), deadline_s)

    def close(self) -> None:
        for process in self._started:
            process.kill("interrupt")
        for process in self._started:
            process.finish()
        if self._server is not None:
            self._server.close()
        self._scratch.close()

    def _wait(
        self, processes: Sequence[WorkerProcess], kinds: tuple[str, ...], deadline_s: float, late: Killed = "deadline"
    ) -> None:
        """Until each worker has said one of `kinds` or is gone; past the deadline late ones are ended, for `late`."""
        while waiting := [process for process in processes if not process.is_over and not process.has_said(*kinds)]:
            for process in waiting:
                if time.monotonic() > deadline_s:
                    process.kill(late)
                else:
                    process.watch()
            time.sleep(POLL_S)
