"""Runs workers as tasks of Slurm job steps, over one node or many."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cs_input_analyzer.engines.bootstrap import command
from cs_input_analyzer.engines.collecting import launch_result
from cs_input_analyzer.engines.interface import LaunchHandle, LaunchResult, WorkerFailure
from cs_input_analyzer.engines.scratch import remove
from cs_input_analyzer.engines.slurm import jobs
from cs_input_analyzer.engines.slurm.agent import ENDED_BY_SLURM, LOOK, WORK
from cs_input_analyzer.engines.slurm.allocation import AllocationRequest, OnStatus, open_allocation
from cs_input_analyzer.engines.slurm.clocks import Offset, skew_s
from cs_input_analyzer.engines.slurm.command_lines import srun_words
from cs_input_analyzer.engines.slurm.jobs import MEMORY, cause_in, is_over
from cs_input_analyzer.engines.slurm.node_check import checked_nodes, notes_on
from cs_input_analyzer.engines.slurm.results import collect
from cs_input_analyzer.engines.slurm.step import SILENCE_S, JobStep, Task
from cs_input_analyzer.engines.tf_config import announced_addresses
from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.records import START_TIMEOUT_S, Host, Layout
from cs_input_analyzer.units import counted
from cs_input_analyzer.worker.journal import WorkPlan

AGENT = "cs_input_analyzer.engines.slurm.agent"
# Importing TensorFlow on CPUs of its own, and what Slurm takes to start a step; until a launch has shown better.
STARTING_S = 5.0
# From the last worker's word that it is ready to the moment at which all begin: the way to the farthest task, many times over.
START_LEAD_S = 0.25
# Beyond their deadline workers are ended by their agents; after so much more the agents are given up.
DEADLINE_GRACE_S = 8.0
TOLD_PATIENCE_S = 30.0
LEAVING_S = 1.5
SHORTEST_WINDOW_S = 0.3
# Gaps between batches are kept of workers of launches up to this size: to replay them takes a few.
MOST_TRACED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmLaunchHandle:
    """A step whose workers import TensorFlow, or wait for their order."""

    layout: Layout
    step: JobStep
    folder: Path


class SlurmLauncher:
    """Measures on nodes of Slurm. Raises LaunchError where it cannot have them; `close` gives everything back.

    `host` is the first of the nodes, with the CPUs that we have on each of them as its budget; `notes`: what the user should
    know of them; `folder`: private, seen by all nodes, removed by `close`. `isolates`: as `LocalLauncher`.
    """

    def __init__(
        self,
        request: AllocationRequest,
        *,
        cpus: int | None = None,
        worker_memory_bytes: int | None = None,
        on_status: OnStatus = lambda what: None,
        silence_s: float = SILENCE_S,
        start_timeout_s: float = START_TIMEOUT_S,
        isolates: bool = False,
    ) -> None:
        self._isolates = isolates
        self._silence_s = silence_s
        self._start_timeout_s = start_timeout_s
        self._worker_memory_bytes = worker_memory_bytes
        self._started: list[SlurmLaunchHandle] = []
        self._seen_starting_s: list[float] = []
        self.notes: tuple[str, ...] = ()
        self._allocation = found = open_allocation(request, os.environ, on_status)
        self.folder, self.nodes, self.job_id = found.folder, found.nodes, found.job_id
        try:
            on_status("checking the nodes")
            self.host = self._look(cpus)
        except BaseException:
            self.close()
            raise

    def now_s(self) -> float:
        return time.monotonic()

    def starting_s(self, workers: int) -> float:
        return min(self._seen_starting_s, default=STARTING_S)  # launches that import side by side take longer than one

    # --- the nodes ---

    def _look(self, cpus: int | None) -> Host:
        """The first of the nodes, after each has said what it is, and that it can be used."""
        step = self._step(Layout(nodes=self.nodes, tasks_per_node=1, cpus_per_task=1), LOOK, str(self.folder))
        try:
            found = checked_nodes(step, self.folder, f"Slurm job {self.job_id}")
        finally:
            step.close()
        self.notes = tuple(notes_on(found, self.folder.parent))
        host = Host(**found[0]["host"])
        job_cpus = jobs.job_cpus_per_node(self.job_id) or min(here["host"]["cpus"] for here in found)
        budget, source = job_cpus, f"allocated by Slurm, job {self.job_id}"
        if cpus is not None:
            if not 1 <= cpus <= budget:
                raise UsageError(f"--cpus {cpus}: Slurm gave {budget} CPUs of each node")
            budget, source = cpus, "--cpus"
        return replace(host, hostname=found[0]["node"], cpus=max(host.cpus, job_cpus), cpu_budget=budget, cpu_budget_source=source)

    # --- launches ---

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
        limit = self._worker_memory_bytes or 0
        numbers = (layout.tasks_per_node, layout.cpus_per_task, limit, int(self._isolates))
        step = self._step(layout, WORK, str(folder), *map(str, numbers))
        handle = SlurmLaunchHandle(layout=layout, step=step, folder=folder)
        self._started.append(handle)
        return handle

    def _step(self, layout: Layout, *arguments: str) -> JobStep:
        return JobStep(
            srun_words(self.job_id, layout, os.getcwd(), command(AGENT, *arguments)), layout.tasks, silence_s=self._silence_s
        )

    def run(self, handle: LaunchHandle, plan: WorkPlan) -> LaunchResult:
        assert isinstance(handle, SlurmLaunchHandle)
        step, is_interrupted, starting_s = handle.step, False, 0.0
        offsets: tuple[Offset | None, ...] = ()
        try:
            left_s = plan.deadline_s - time.monotonic()
            offsets, starting_s = self._build(handle, plan, left_s)
            self._sample(step, plan, offsets, left_s)
        except KeyboardInterrupt:
            is_interrupted = True
            step.tell("end")
        try:
            return self._collected(handle, plan, offsets, starting_s, is_interrupted)
        finally:
            self._end(handle)
            remove(handle.folder)

    def _build(self, handle: SlurmLaunchHandle, plan: WorkPlan, left_s: float) -> tuple[tuple[Offset | None, ...], float]:
        """Gives the workers their orders; the clocks of their nodes, and the seconds until each has built its pipeline or is gone.

        `left_s`: after that, until the deadline.
        """
        step, began_s = handle.step, time.monotonic()
        latest_s = began_s + self._start_timeout_s
        for other in self._started:  # whoever still imports would take CPUs from those that are measured
            other.step.wait(_has_reported("imported", "failed"), latest_s)
        self._give_up_unready(step)
        taken_s = max((task.imported_s - step.began_s for task in step.tasks if task.imported_s is not None), default=None)
        if taken_s is not None:
            self._seen_starting_s.append(taken_s)
        offsets = step.read_clocks()
        step.tell("order", **self._order(handle, plan, latest_s - time.monotonic(), left_s))
        step.wait(_has_reported("built", "failed"), latest_s + DEADLINE_GRACE_S)
        return offsets, time.monotonic() - began_s

    def _sample(self, step: JobStep, plan: WorkPlan, offsets: Sequence[Offset | None], left_s: float) -> None:
        """Takes workers that have built their pipelines through the window; returns when each is done, gone, or late."""
        deadline_s = time.monotonic() + left_s
        late_s = deadline_s + DEADLINE_GRACE_S
        step.wait(_has_reported("first_batch", "failed"), late_s)
        window_s = max(SHORTEST_WINDOW_S, min(plan.max_window_s, deadline_s - time.monotonic() - LEAVING_S))
        step.tell("go", window_s=window_s)
        step.wait(_has_reported("ready", "failed"), late_s)
        ahead_s = [offset.ahead_s if offset is not None else 0.0 for offset in offsets]
        step.tell("start", at_s=time.time() + START_LEAD_S, ahead_s=ahead_s)
        step.wait(_has_reported("done", "failed"), late_s)
        if plan.want_source or plan.candidates:
            step.wait(_has_reported("over", "failed"), late_s, step.tasks[:1])

    def _give_up_unready(self, step: JobStep) -> None:
        for task in step.tasks:
            if task.here is not None and task.here["problem"]:
                step.lose([task], f"node {task.node} cannot write to {self.folder.parent}: {task.here['problem']}")

    def _order(self, handle: SlurmLaunchHandle, plan: WorkPlan, start_s: float, left_s: float) -> dict[str, Any]:
        names = [task.node or "localhost" for task in handle.step.tasks]
        return {
            "order": {"plan": asdict(plan), "is_alone": handle.layout.tasks == 1, "left_s": left_s - LEAVING_S},
            "indices": list(plan.worker_indices),
            "addresses": announced_addresses(names, plan.num_workers),
            "start_s": max(0.0, start_s),
            "sample_s": max(0.0, left_s),
        }

    def _collected(
        self,
        handle: SlurmLaunchHandle,
        plan: WorkPlan,
        offsets: Sequence[Offset | None],
        starting_s: float,
        is_interrupted: bool,
    ) -> LaunchResult:
        """Everybody's numbers, in the window that they share. Raises LaunchError where the engine lost all of them."""
        step = handle.step
        step.tell("leave")
        if not step.wait(lambda task: task.ended is not None, time.monotonic() + DEADLINE_GRACE_S):
            step.lose(
                step.tasks,
                f"its node answers, but what it measured did not come within {DEADLINE_GRACE_S:g} s of its end: "
                f"{self.folder.parent} may be too slow (--shared-dir names another folder)",
            )
        ahead_s = [offset.ahead_s if offset is not None else 0.0 for offset in offsets] or [0.0] * len(step.tasks)
        whole = [
            task for task in step.tasks if task.ended is not None and task.ended["is_whole"] and task.ended["end_s"] is not None
        ]
        until_s = min((task.ended["end_s"] - ahead_s[task.rank] for task in whole if task.ended), default=None)
        step.tell("sum", until_s=until_s, has_trace=len(step.tasks) <= MOST_TRACED)
        step.wait_told(time.monotonic() + TOLD_PATIENCE_S)
        self._explain(step)
        if all(task.lost for task in step.tasks) and not is_interrupted:
            self._raise_if_nothing(handle)
        workers, journal, ending = collect(handle.folder, step.tasks, plan.worker_indices, ahead_s, until_s)
        starts = [
            task.ended["start_s"] - ahead_s[task.rank] for task in step.tasks if task.ended and task.ended["start_s"] is not None
        ]
        workers = tuple(
            worker if offset is None else replace(worker, clock_ahead_s=offset.ahead_s)
            for worker, offset in zip(workers, offsets or [None] * len(workers), strict=True)
        )
        launched = launch_result(
            handle.layout, plan, workers, journal, ending, starting_s=starting_s, is_interrupted=is_interrupted
        )
        measurement = replace(launched.measurement, start_skew_s=skew_s(starts), notes=tuple(self._notes_on(step)))
        return replace(launched, measurement=measurement, failure=_failure_of(launched.failure, step.tasks[0], workers[0].message))

    def _explain(self, step: JobStep) -> None:
        """Adds what Slurm knows to tasks that were lost with their node, or ended with the job."""
        cause = cause_in(step.errors)
        for task in step.tasks:
            if cause and task.ended is not None and task.ended["why"] == ENDED_BY_SLURM:
                task.ended["why"] += f": {cause}"
        lost = [task for task in step.tasks if task.lost]
        if not lost:
            return
        states = jobs.node_states(sorted({task.node for task in lost if task.node}))
        for task in lost:
            state = states.get(task.node, "")
            if any(word in state for word in ("DOWN", "FAIL", "NOT_RESPONDING", "DRAIN")) or state.endswith("*"):
                task.lost += f"; Slurm has {task.node} as {state}"

    def _raise_if_nothing(self, handle: SlurmLaunchHandle) -> None:
        """All tasks are lost: where not even one of them has begun, it is the engine that failed."""
        if any(task.heard for task in handle.step.tasks):
            return
        why = handle.step.tasks[0].lost
        raise LaunchError(f"a launch of {handle.layout} did not come up on Slurm job {self.job_id}: {why}{self._job_words()}")

    def _job_words(self) -> str:
        try:
            job = jobs.job_state(self.job_id)
        except LaunchError as error:
            return f"; {error}"
        if job is None:
            return "; the job is gone"
        return f"; the job is {job.state}{f' ({job.reason})' if job.reason else ''}" if is_over(job) else ""

    def _notes_on(self, step: JobStep) -> list[str]:
        here = [task.here for task in step.tasks if task.here is not None]
        notes = list(self.notes)
        if any(not found["is_bound"] for found in here):
            notes.append("Slurm binds no task to CPUs here (TaskPlugin): each worker took its part of its node's CPUs by itself")
        return notes

    def _end(self, handle: SlurmLaunchHandle) -> None:
        """Ends a step; where tasks of it cannot be reached, also by name: Slurm may hold a step whose node is gone."""
        step = handle.step
        step.close()
        if any(task.lost for task in step.tasks) and step.number:
            jobs.cancel(f"{self.job_id}.{step.number}")

    def close(self) -> None:
        for handle in self._started:
            if not handle.step.is_over:
                handle.step.tell("end")
        for handle in self._started:
            if not handle.step.is_over:
                self._end(handle)
        self._allocation.close()


def _failure_of(failure: WorkerFailure | None, first: Task, message: str) -> WorkerFailure | None:
    """With what the engine knows of the first worker's end, where that ended it and not its own code."""
    if failure is None or failure.stage not in ("exit", "hang"):
        return failure
    why = first.lost or (first.ended["why"] if first.ended else "")
    if not why:
        return failure
    is_engine = bool(first.lost) or why.startswith(ENDED_BY_SLURM)
    return replace(failure, stage="engine" if is_engine and MEMORY not in why else "exit", message=message)


def _has_reported(*kinds: str) -> Callable[[Task], bool]:
    wanted = frozenset(kinds)
    return lambda task: not task.heard.isdisjoint(wanted)
