"""Run workers on nodes of Slurm, in job steps with one task on each node."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from cs_input_analyzer.engines import launch
from cs_input_analyzer.engines.bootstrap import command
from cs_input_analyzer.engines.collecting import Collected, LaunchResult
from cs_input_analyzer.engines.launch import LaunchHandle, LaunchOrder, OnSampled
from cs_input_analyzer.engines.scratch import remove
from cs_input_analyzer.engines.slurm import jobs
from cs_input_analyzer.engines.slurm.agent import LOOK, WORK, Settings
from cs_input_analyzer.engines.slurm.allocation import OnStatus, open_allocation
from cs_input_analyzer.engines.slurm.results import collect
from cs_input_analyzer.engines.slurm.step import JobStep, Task
from cs_input_analyzer.engines.starting import WorkerKind
from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.host.machine import whole_cores
from cs_input_analyzer.model.tf_config import expand_counts
from cs_input_analyzer.records import Cluster, Host, Layout, Options
from cs_input_analyzer.units import counted
from cs_input_analyzer.worker.journal import WorkPlan
from cs_input_analyzer.worker.summary import Killed

AGENT = "cs_input_analyzer.engines.slurm.agent"
# Seconds to start a step and to import TensorFlow on its own CPUs, until a launch has shown a better number.
STARTING_S = 5.0
# Seconds from the order to end a worker until its agent reports the end. An agent sees its workers end one by one.
END_PATIENCE_S = 8.0
ENDING_S = 0.2
UNBOUND = "Slurm binds no task to CPUs here (TaskPlugin): each worker chose its part of the node's CPUs itself"


class SlurmWorkers:
    """Hold the workers of one launch on nodes of Slurm. They communicate by srun's pipes and the shared `folder`."""

    leaving_s = 1.5

    def __init__(self, layout: Layout, step: JobStep, folder: Path, job_id: str, notes: tuple[str, ...]) -> None:
        self.layout, self.step = layout, step
        self._folder, self._job_id, self._notes = folder, job_id, notes

    @property
    def hosts(self) -> Sequence[str]:
        """Return the node of each worker by rank."""
        return [task.node or "localhost" for task in self.step.tasks]

    @property
    def starting_s(self) -> float | None:
        """Return the seconds until the last started worker had imported TensorFlow; None if none has."""
        imported_s = [task.imported_s for task in self.step.tasks if task.imported_s is not None]
        return max(imported_s) - self.step.began_s if imported_s else None

    def wait(self, kinds: tuple[str, ...], deadline_s: float, late: Killed = "deadline", *, is_first_only: bool = False) -> None:
        """Wait for messages of the agents. Late workers are ended on their nodes."""
        watched = self.step.tasks[:1] if is_first_only else self.step.tasks
        behind = self.step.wait(lambda task: task.ended is not None or not task.heard.isdisjoint(kinds), deadline_s, watched)
        if behind:
            self._end(behind, late)

    def order(self, order: LaunchOrder) -> None:
        """Send the order to all agents."""
        self.step.tell("order", order=asdict(order))

    def go(self, window_s: float) -> None:
        """Send the length of the window to all agents."""
        self.step.tell("go", window_s=window_s)

    def end(self, why: Killed) -> None:
        """Have the agents end all workers."""
        self._end(self.step.tasks, why)

    def _end(self, tasks: Sequence[Task], why: Killed) -> None:
        self.step.tell("end", ranks=[task.rank for task in tasks], why=why)

    def collect(self, plan: WorkPlan, *, is_interrupted: bool) -> Collected:
        """Wait a limited time for the ends of all workers, and read their journals from the shared folder."""
        step = self.step
        step.tell("leave")
        patience_s = END_PATIENCE_S + ENDING_S * self.layout.tasks_per_node
        for task in step.wait(lambda task: task.ended is not None, time.monotonic() + patience_s):
            task.lost = (
                f"its node answers, but its results did not arrive within {patience_s:g} s of its end: "
                f"{self._folder.parent.parent} may be too slow (--shared-dir names another folder)"
            )
        _add_states(step.tasks)
        if not is_interrupted and all(task.lost and not task.heard for task in step.tasks):  # then the engine failed
            is_over = not step.complaint and jobs.has_ended(self._job_id)  # srun may end without a word then
            why = "the Slurm job is over" if is_over else step.tasks[0].lost
            raise LaunchError(f"a launch of {self.layout} did not come up on Slurm job {self._job_id}: {why}")
        return replace(collect(self._folder, step.tasks, plan), notes=self._notes)

    def so_far(self, plan: WorkPlan) -> None:
        """Return None: nodes hand over what was measured when their workers have ended."""

    def close(self) -> None:
        """End the step. If a worker was lost, cancel the step by name too: Slurm may keep a step with a dead node."""
        self.step.close()
        if any(task.lost for task in self.step.tasks) and self.step.number:
            jobs.cancel(f"{self._job_id}.{self.step.number}")
        remove(self._folder)


class SlurmLauncher:
    """Run workers on nodes of this cluster of Slurm. Raise LaunchError if there are none; `close` gives everything back.

    `host` is the first node, with the CPUs that we have on each node as its budget. `folder` is private and seen by all nodes;
    `close` removes it.
    """

    def __init__(
        self,
        options: Options,
        cluster: Cluster,
        *,
        on_status: OnStatus = lambda what: None,
        kind: WorkerKind = WorkerKind(),  # noqa: B008 - frozen
    ) -> None:
        self._kind = kind
        self._start_timeout_s = options.start_timeout_s
        self._worker_memory_bytes = options.worker_memory_bytes
        self._started: list[SlurmWorkers] = []
        self._notes: tuple[str, ...] = ()
        self._allocation = found = open_allocation(options, cluster, os.environ, on_status)
        self.folder, self.nodes, self.job_id = found.scratch.folder, found.nodes, found.job_id
        try:
            on_status("checking the nodes")
            self.host = self._look(options.cpus)
        except BaseException:
            self.close()
            raise

    def now_s(self) -> float:
        """Return the time of a monotonic clock on the launcher's machine."""
        return time.monotonic()

    def free_bytes(self) -> int:
        """Return the memory of the first node."""
        return self.host.memory_bytes

    def starting_s(self, workers: int) -> float:
        """Return the shortest start of the previous launches, or a default."""
        seen_s = [each.starting_s for each in self._started if each.starting_s is not None]
        return min(seen_s, default=STARTING_S)  # launches that import side by side take longer than one

    def _look(self, cpus: int | None) -> Host:
        """Return the first node, after each node has reported its hardware and can be used."""
        step = self._step(self.nodes, 1, self.nodes, LOOK, str(self.folder), os.getcwd())
        try:
            step.wait(lambda task: task.here is not None, math.inf)
        finally:
            step.close()
        why = next((task.lost for task in step.tasks if task.lost), None)
        if why is not None:
            is_missing = "No such file or directory" in step.complaint and "execve" in step.complaint
            advice = f"; the nodes do not see {sys.executable}: install the environment in a folder that all nodes share"
            raise LaunchError(f"the nodes of Slurm job {self.job_id} cannot be used: {why}{advice if is_missing else ''}")
        hosts = [Host(**task.here["host"]) for task in step.tasks if task.here is not None]
        if not all(task.here["is_bound"] for task in step.tasks if task.here is not None):
            self._notes = (UNBOUND,)
        job = jobs.job_state(self.job_id)
        job_cpus = job.cpus_per_node if job is not None else min(host.cpus for host in hosts)
        granted = os.environ.get("SLURM_JOB_CPUS_PER_NODE")
        if granted and not self._allocation.is_ours:  # its nodes may differ, and a launch is the same on each
            job_cpus = min(job_cpus, *expand_counts(granted))
        budget, source = job_cpus, f"allocated by Slurm, job {self.job_id}"
        if cpus is not None:
            if not 1 <= cpus <= budget:
                raise UsageError(f"--cpus {cpus}: Slurm gave {budget} CPUs of each node")
            budget, source = cpus, "--cpus"
        most_cpus = max(hosts[0].cpus, job_cpus)
        return replace(hosts[0], hostname=step.tasks[0].node, cpus=most_cpus, cpu_budget=budget, cpu_budget_source=source)

    def start(self, layout: Layout) -> SlurmWorkers:
        """Start a job step with one agent on each node. Raise LaunchError if the launch needs more than was allocated."""
        if layout.nodes > self.nodes:
            raise LaunchError(f"launch {layout}: Slurm gave {counted(self.nodes, 'node')}; --slurm-nodes asks for more")
        if layout.cpus_per_node > self.host.cpu_budget:
            raise LaunchError(
                f"launch {layout}: {layout.cpus_per_node} CPUs per node, and only {self.host.cpu_budget} may be used there"
            )
        folder = self.folder / f"step-{len(self._started)}"
        try:
            folder.mkdir()
        except OSError as error:
            raise LaunchError(f"cannot create a folder in {self.folder.parent}: {(error.strerror or str(error)).lower()}") from None
        settings = Settings(
            tasks_per_node=layout.tasks_per_node,
            cpus_per_task=layout.cpus_per_task,
            memory_limit_bytes=self._worker_memory_bytes,
            kind=self._kind,
        )
        cpus = min(self.host.cpu_budget, layout.tasks_per_node * whole_cores(layout.cpus_per_task, self.host.threads_per_core or 1))
        step = self._step(layout.nodes, cpus, layout.tasks, WORK, str(folder), json.dumps(asdict(settings)))
        workers = SlurmWorkers(layout, step, folder, self.job_id, self._notes)
        self._started.append(workers)
        return workers

    def _step(self, nodes: int, cpus: int, workers: int, *arguments: str) -> JobStep:
        """Start an agent on each of these nodes, for this number of workers in all."""
        words = srun_words(self.job_id, nodes, cpus, os.getcwd(), command(AGENT, *arguments))
        return JobStep(words, workers)

    def run(self, handle: LaunchHandle, plan: WorkPlan, on_sampled: OnSampled | None = None) -> LaunchResult:
        """Run one launch while the others wait."""
        assert isinstance(handle, SlurmWorkers)
        return launch.run(handle, self._started, plan, self._start_timeout_s, on_sampled)

    def close(self) -> None:
        """End all steps, give the nodes back, and remove the shared folder."""
        for workers in self._started:
            if not workers.step.is_over:
                workers.close()
        self._allocation.close()


def srun_words(job_id: str, nodes: int, cpus: int, folder: str, program: Sequence[str]) -> list[str]:
    """Return the command line of a step of that job: one task on each node, with these CPUs for all workers of the node.

    Each default of srun is set that would end, wait for or bind tasks in its own way.

    `--overlap`: steps share CPUs, so workers of the next launch import TensorFlow while those of this launch wait.
    `--cpus-per-task` is always given. Its inherited value depends on neighbouring components and on the version: 22.05 stopped to
    inherit it.
    """
    return [
        "srun",
        f"--jobid={job_id}",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={cpus}",
        "--overlap",
        "--mem=0",
        "--distribution=block",
        "--input=all",
        "--no-kill",
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--mpi=none",
        "--job-name=cs_input_analyzer",
        f"--chdir={folder}",
        *program,
    ]


def _add_states(tasks: Sequence[Task]) -> None:
    """Add Slurm's state of the node to each lost task."""
    lost = [task for task in tasks if task.lost]
    states = jobs.node_states(sorted({task.node for task in lost if task.node})) if lost else {}
    for task in lost:
        state = states.get(task.node, "")
        if any(word in state for word in ("DOWN", "FAIL", "NOT_RESPONDING", "DRAIN")) or state.endswith("*"):
            task.lost += f"; Slurm reports {task.node} as {state}"
