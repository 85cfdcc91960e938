"""Runs workers as tasks of Slurm job steps, over one node or many."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cs_input_analyzer.engines.bootstrap import command
from cs_input_analyzer.engines.collecting import launch_result
from cs_input_analyzer.engines.interface import LaunchHandle, LaunchResult, WorkerFailure
from cs_input_analyzer.engines.scratch import remove
from cs_input_analyzer.engines.slurm import jobs
from cs_input_analyzer.engines.slurm.agent import LOOK, WORK, Settings
from cs_input_analyzer.engines.slurm.allocation import OnStatus, open_allocation
from cs_input_analyzer.engines.slurm.jobs import MEMORY
from cs_input_analyzer.engines.slurm.results import collect
from cs_input_analyzer.engines.slurm.step import SILENCE_S, JobStep, Task
from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.planning.tf_config import announced_addresses
from cs_input_analyzer.records import Cluster, Host, Layout, Options
from cs_input_analyzer.units import counted
from cs_input_analyzer.worker.journal import WorkPlan
from cs_input_analyzer.worker.summary import Killed

AGENT = "cs_input_analyzer.engines.slurm.agent"
# Importing TensorFlow on CPUs of its own, and what Slurm takes to start a step; until a launch has shown better.
STARTING_S = 5.0
# From the order to end a worker to its agent's word that it has ended.
END_PATIENCE_S = 8.0
TOLD_PATIENCE_S = 30.0
LEAVING_S = 1.5
SHORTEST_WINDOW_S = 0.3
# Gaps between batches are kept of workers of launches up to this size: a picture takes a few.
MOST_TRACED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmLaunchHandle:
    """A step whose workers import TensorFlow, or wait for their order."""

    layout: Layout
    step: JobStep
    folder: Path


class SlurmLauncher:
    """Measures on nodes of this cluster of Slurm. Raises LaunchError where it cannot have them; `close` gives everything back.

    `host` is the first of the nodes, with the CPUs that we have on each of them as its budget; `folder`: private, seen by all
    nodes, removed by `close`. `isolates`, `has_network`, `is_script`: as `LocalLauncher`.
    """

    def __init__(
        self,
        options: Options,
        cluster: Cluster,
        *,
        on_status: OnStatus = lambda what: None,
        silence_s: float = SILENCE_S,
        isolates: bool = True,
        has_network: bool = True,
        is_script: bool = False,
    ) -> None:
        self._isolates, self._has_network, self._is_script = isolates, has_network, is_script
        self._silence_s = silence_s
        self._start_timeout_s = options.start_timeout_s
        self._worker_memory_bytes = options.worker_memory_bytes
        self._started: list[SlurmLaunchHandle] = []
        self._seen_starting_s: list[float] = []
        self._allocation = found = open_allocation(options, cluster, os.environ, on_status)
        self.folder, self.nodes, self.job_id = found.scratch.folder, found.nodes, found.job_id
        try:
            on_status("checking the nodes")
            self.host = self._look(options.cpus)
        except BaseException:
            self.close()
            raise

    def now_s(self) -> float:
        return time.monotonic()

    def starting_s(self, workers: int) -> float:
        return min(self._seen_starting_s, default=STARTING_S)  # launches that import side by side take longer than one

    def _look(self, cpus: int | None) -> Host:
        """The first of the nodes, after each has said what it is, and that it can be used."""
        step = self._step(Layout(nodes=self.nodes, tasks_per_node=1, cpus_per_task=1), LOOK, str(self.folder), os.getcwd())
        try:
            step.wait(lambda task: task.here is not None, math.inf)
        finally:
            step.close()
        why = next((task.lost for task in step.tasks if task.lost), None)
        if why is not None:
            raise LaunchError(f"the nodes of Slurm job {self.job_id} cannot be used: {why}{_advice(step.complaint)}")
        hosts = [Host(**task.here["host"]) for task in step.tasks if task.here is not None]
        job = jobs.job_state(self.job_id)
        job_cpus = job.cpus_per_node if job is not None else min(host.cpus for host in hosts)
        budget, source = job_cpus, f"allocated by Slurm, job {self.job_id}"
        if cpus is not None:
            if not 1 <= cpus <= budget:
                raise UsageError(f"--cpus {cpus}: Slurm gave {budget} CPUs of each node")
            budget, source = cpus, "--cpus"
        most_cpus = max(hosts[0].cpus, job_cpus)
        return replace(hosts[0], hostname=step.tasks[0].node, cpus=most_cpus, cpu_budget=budget, cpu_budget_source=source)

    def start(self, layout: Layout) -> SlurmLaunchHandle:
        if layout.nodes > self.nodes:
            raise LaunchError(f"layout {layout}: Slurm gave {counted(self.nodes, 'node')}; --slurm-nodes asks for more")
        if layout.cpus_per_node > self.host.cpu_budget:
            raise LaunchError(
                f"layout {layout}: {layout.cpus_per_node} CPUs per node, and {self.host.cpu_budget} may be used there"
            )
        folder = self.folder / f"step-{len(self._started)}"
        try:
            folder.mkdir()
        except OSError as error:
            raise LaunchError(f"no folder can be made in {self.folder.parent}: {(error.strerror or str(error)).lower()}") from None
        settings = Settings(
            tasks_per_node=layout.tasks_per_node,
            cpus_per_task=layout.cpus_per_task,
            memory_limit_bytes=self._worker_memory_bytes,
            isolates=self._isolates,
            has_network=self._has_network,
            is_script=self._is_script,
        )
        step = self._step(layout, WORK, str(folder), json.dumps(asdict(settings)))
        handle = SlurmLaunchHandle(layout=layout, step=step, folder=folder)
        self._started.append(handle)
        return handle

    def _step(self, layout: Layout, *arguments: str) -> JobStep:
        return JobStep(
            srun_words(self.job_id, layout, os.getcwd(), command(AGENT, *arguments)), layout.tasks, silence_s=self._silence_s
        )

    def run(self, handle: LaunchHandle, plan: WorkPlan) -> LaunchResult:
        assert isinstance(handle, SlurmLaunchHandle)
        is_interrupted, starting_s = False, 0.0
        try:
            starting_s = self._build(handle, plan)
            self._sample(handle.step, plan, plan.deadline_s + starting_s)
        except KeyboardInterrupt:
            is_interrupted = True
            _end_tasks(handle.step.tasks, handle.step, "interrupt")
        try:
            return self._collected(handle, plan, starting_s, is_interrupted)
        finally:
            self._end(handle)
            remove(handle.folder)

    def _build(self, handle: SlurmLaunchHandle, plan: WorkPlan) -> float:
        """Gives the workers their orders; the seconds until each has built its pipeline or is gone."""
        step, began_s = handle.step, time.monotonic()
        latest_s = began_s + self._start_timeout_s
        for other in self._started:  # whoever still imports would take CPUs from those that are measured
            other.step.wait(_has_reported("imported", "failed"), latest_s)
        taken_s = max((task.imported_s - step.began_s for task in step.tasks if task.imported_s is not None), default=None)
        if taken_s is not None:
            self._seen_starting_s.append(taken_s)
        left_s = plan.deadline_s - began_s - LEAVING_S
        step.tell(
            "order",
            order={"plan": asdict(plan), "is_alone": handle.layout.tasks == 1, "left_s": left_s},
            indices=plan.worker_indices,
            addresses=announced_addresses([task.node or "localhost" for task in step.tasks], plan.num_workers),
        )
        _wait(step, ("built", "failed"), latest_s, "start")
        return time.monotonic() - began_s

    def _sample(self, step: JobStep, plan: WorkPlan, deadline_s: float) -> None:
        """Takes workers that have built their pipelines through the window; returns when each is done, gone, or late."""
        _wait(step, ("first_batch", "failed"), deadline_s)
        step.tell("go", window_s=max(SHORTEST_WINDOW_S, min(plan.max_window_s, deadline_s - time.monotonic() - LEAVING_S)))
        _wait(step, ("done", "failed"), deadline_s)
        if plan.has_more:
            _wait(step, ("over", "failed"), deadline_s, tasks=step.tasks[:1])

    def _collected(self, handle: SlurmLaunchHandle, plan: WorkPlan, starting_s: float, is_interrupted: bool) -> LaunchResult:
        """Everybody's numbers, in the window that they share. Raises LaunchError where the engine lost all of them."""
        step = handle.step
        step.tell("leave")
        for task in step.wait(lambda task: task.ended is not None, time.monotonic() + END_PATIENCE_S):
            task.lost = (
                f"its node answers, but what it measured did not come within {END_PATIENCE_S:g} s of its end: "
                f"{self.folder.parent} may be too slow (--shared-dir names another folder)"
            )
        whole_s = [task.ended["whole_s"] for task in step.tasks if task.ended is not None]
        until_s = min((seconds for seconds in whole_s if seconds is not None), default=None)
        step.tell("sum", until_s=until_s, has_trace=len(step.tasks) <= MOST_TRACED)
        step.wait(lambda task: task.told is not None, time.monotonic() + TOLD_PATIENCE_S)
        _add_states(step.tasks)
        if not is_interrupted and all(task.lost and not task.heard for task in step.tasks):  # then it is the engine that failed
            why = step.tasks[0].lost
            raise LaunchError(f"a launch of {handle.layout} did not come up on Slurm job {self.job_id}: {why}")
        workers, journal, ending = collect(handle.folder, step.tasks, plan.worker_indices, until_s)
        launched = launch_result(
            handle.layout, plan, workers, journal, ending, starting_s=starting_s, is_interrupted=is_interrupted
        )
        measurement = replace(launched.measurement, notes=_notes_on(step))
        return replace(launched, measurement=measurement, failure=_failure_of(launched.failure, step.tasks[0], workers[0].message))

    def _end(self, handle: SlurmLaunchHandle) -> None:
        """Ends a step; where tasks of it cannot be reached, also by name: Slurm may hold a step whose node is gone."""
        step = handle.step
        step.close()
        if any(task.lost for task in step.tasks) and step.number:
            jobs.cancel(f"{self.job_id}.{step.number}")

    def close(self) -> None:
        for handle in self._started:
            if not handle.step.is_over:
                self._end(handle)
        self._allocation.close()


def srun_words(job_id: str, layout: Layout, folder: str, program: Sequence[str]) -> list[str]:
    """A step of that job. Each default that would end, wait for or bind tasks in a way of its own is set.

    `--overlap`: steps share CPUs, so that the workers of the next launch import TensorFlow while those of this one wait.
    `--cpus-per-task` is always given: what a step inherits depends on the version (22.05 stopped to inherit it) and on neighbouring
    components.
    """
    return [
        "srun",
        f"--jobid={job_id}",
        f"--nodes={layout.nodes}",
        f"--ntasks={layout.tasks}",
        f"--ntasks-per-node={layout.tasks_per_node}",
        f"--cpus-per-task={layout.cpus_per_task}",
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


def _wait(
    step: JobStep, kinds: Sequence[str], deadline_s: float, why: Killed = "deadline", tasks: Sequence[Task] | None = None
) -> None:
    """Until each worker has said one of `kinds` or is gone; past the deadline late ones are ended, for `why`."""
    late = step.wait(_has_reported(*kinds), deadline_s, tasks)
    if late:
        _end_tasks(late, step, why)


def _end_tasks(tasks: Sequence[Task], step: JobStep, why: Killed) -> None:
    step.tell("end", ranks=[task.rank for task in tasks], why=why)


def _has_reported(*kinds: str) -> Callable[[Task], bool]:
    """Whether a task's worker has written any of these events, or has ended."""
    wanted = frozenset(kinds)
    return lambda task: task.ended is not None or not task.heard.isdisjoint(wanted)


def _add_states(tasks: Sequence[Task]) -> None:
    """Adds what Slurm knows of the nodes of tasks that were lost."""
    lost = [task for task in tasks if task.lost]
    states = jobs.node_states(sorted({task.node for task in lost if task.node})) if lost else {}
    for task in lost:
        state = states.get(task.node, "")
        if any(word in state for word in ("DOWN", "FAIL", "NOT_RESPONDING", "DRAIN")) or state.endswith("*"):
            task.lost += f"; Slurm has {task.node} as {state}"


def _notes_on(step: JobStep) -> tuple[str, ...]:
    """What the user should know of the nodes."""
    if all(task.here.get("is_bound", True) for task in step.tasks if task.here is not None):
        return ()
    return ("Slurm binds no task to CPUs here (TaskPlugin): each worker took its part of its node's CPUs by itself",)


def _failure_of(failure: WorkerFailure | None, first: Task, message: str) -> WorkerFailure | None:
    """With what the engine knows of the first worker's end, where that ended it and not its own code."""
    if failure is None or failure.stage not in ("exit", "hang"):
        return failure
    why = first.lost or (first.ended["why"] if first.ended else "")
    if not why:
        return failure
    return replace(failure, stage="engine" if first.lost and MEMORY not in why else "exit", message=message)


def _advice(complaint: str) -> str:
    if "No such file or directory" in complaint and "execve" in complaint:
        return f"; the nodes do not see {sys.executable}: install the environment in a folder that all nodes share"
    return ""
