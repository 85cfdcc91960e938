"""Allocates the nodes to measure on: those of the allocation that we run in, or of a job that we submit and cancel.

Nothing outlives the launcher. `close` cancels the job. If the launcher is killed, or Slurm has not answered it, the guard of its
private folder cancels the job by its name and removes the folder. If its whole machine is gone, the job's
own script misses the sign of life within a minute and lets the nodes go; and after all that there is the job's time limit.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cs_input_analyzer.engines.scratch import PREFIX, Scratch
from cs_input_analyzer.engines.slurm import jobs
from cs_input_analyzer.engines.slurm.command_lines import ALIVE, KEEPER, KEEPER_LOOK_S, keeper_script, sbatch_words
from cs_input_analyzer.engines.slurm.jobs import is_hopeless, is_over, is_waiting
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.machines.cluster.slurm_commands import Unanswered

OnStatus = Callable[[str], None]

POLL_S = 0.25
SLOWEST_POLL_S = 2.0
# Nodes of a job of ours, where the user does not say how many: enough to see the storage share out.
MOST_NODES = 4
# Of a job's time limit, beside the measuring: starting, the hello of the nodes, leaving.
SPARE_S = 180.0

# So long may Slurm be silent about a job that waits: its controller is restarted, or busy, now and then.
UNANSWERED_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRequest:
    """The nodes that the user asks Slurm for, and for how long.

    Attributes:
        nodes: how many; None: those of the allocation we are in, else up to 4 of those that `most_nodes` says there are.
        most_nodes: usable nodes of the partition; None where it was not asked.
        exclude: nodes that we must not have.
        queue_s: how long the job may wait for its nodes.
        measure_s: how long the measuring may take.
        shared_dir: a folder that all nodes see; None: the current one.
    """

    nodes: int | None
    most_nodes: int | None
    partition: str | None
    exclude: tuple[str, ...]
    sbatch_args: tuple[str, ...]
    queue_s: float
    measure_s: float
    shared_dir: Path | None


class Allocation:
    """Nodes of a Slurm job, and a private folder that they share with us."""

    def __init__(self, scratch: Scratch, job_id: str, nodes: int, *, is_ours: bool) -> None:
        self.folder, self.job_id, self.nodes, self.is_ours = scratch.folder, job_id, nodes, is_ours
        self._scratch = scratch
        self._stopped = threading.Event()
        self._pulse = threading.Thread(target=self._show_life, daemon=True)
        self._pulse.start()

    def _show_life(self) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            try:
                (self.folder / ALIVE).write_text(str(number))
            except OSError:
                pass  # the shared folder is slow or gone: the job ends by its keeper
            self._stopped.wait(KEEPER_LOOK_S)

    def close(self) -> None:
        """Gives the nodes back and removes the folder."""
        self._stopped.set()
        is_sure = jobs.cancel(self.job_id) if self.is_ours else True
        self._pulse.join()
        self._scratch.close(has_job=not is_sure)


def open_allocation(
    request: AllocationRequest, environ: Mapping[str, str], on_status: OnStatus, clock: Callable[[], float] = time.monotonic
) -> Allocation:
    """Raises LaunchError where there are no such nodes, not in time, or no folder that can be shared."""
    jobs.check_installed()
    outer = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID")
    scratch = _shared_folder(request.shared_dir, "" if outer else PREFIX)
    job_id, is_sure = "", True  # that no job of ours is left when this fails
    try:
        if outer:
            nodes = _nodes_of_this(environ, request)
            return Allocation(scratch, outer, nodes, is_ours=False)
        nodes = _nodes_wanted(request)
        words = _job(request, scratch.folder, scratch.job_name, nodes)
        is_sure = False
        job_id = jobs.submit(words)
        _wait_in_queue(job_id, request.queue_s, on_status, clock)
        return Allocation(scratch, job_id, nodes, is_ours=True)
    except BaseException as error:
        if job_id:
            is_sure = jobs.cancel(job_id)
        elif isinstance(error, LaunchError) and not isinstance(error, Unanswered):  # no Ctrl-C in the middle either
            is_sure = True
        scratch.close(has_job=not is_sure)
        raise


def _nodes_wanted(request: AllocationRequest) -> int:
    nodes = request.nodes or min(MOST_NODES, request.most_nodes or MOST_NODES)
    if request.most_nodes is not None and nodes > request.most_nodes:
        raise LaunchError(
            f"--slurm-nodes {nodes}: there are {request.most_nodes} usable nodes, and a job for more would wait for ever"
        )
    return nodes


def _job(request: AllocationRequest, folder: Path, name: str, nodes: int) -> list[str]:
    """The command line that queues it; writes the script that it runs."""
    script = folder / KEEPER
    script.write_text(keeper_script())
    is_timed = any(word == "-t" or word.startswith(("-t", "--time")) for word in request.sbatch_args)
    minutes = None if is_timed else math.ceil((request.measure_s + SPARE_S) / 60)
    return sbatch_words(
        nodes=nodes,
        name=name,
        script=script,
        minutes=minutes,
        partition=request.partition,
        exclude=request.exclude,
        extra=request.sbatch_args,
    )


def _wait_in_queue(job_id: str, queue_s: float, on_status: OnStatus, clock: Callable[[], float]) -> None:
    """Until the job has its nodes. Raises LaunchError where it will not have them, not in time, or Slurm stays silent."""
    began_s = answered_s = clock()
    shown, poll_s = "", POLL_S
    while True:
        try:
            job = jobs.job_state(job_id)
        except LaunchError as error:
            if clock() - answered_s > UNANSWERED_S:
                raise LaunchError(f"{error}; so it has been for {UNANSWERED_S:g} s: Slurm job {job_id} was cancelled") from None
            state = f"job {job_id} keeps its place in Slurm's queue: {error}; asking again"
            if state != shown:
                on_status(state)
                shown = state
            time.sleep(SLOWEST_POLL_S)
            continue
        answered_s = clock()
        if job is None or is_over(job):
            state = job.state if job else "gone"
            raise LaunchError(
                f"Slurm job {job_id} ended before it could be used: {state}{f' ({job.reason})' if job and job.reason else ''}"
            )
        if not is_waiting(job):
            on_status(f"job {job_id} has {job.nodes}")
            return
        why = is_hopeless(job.reason)
        if why is not None:
            raise LaunchError(f"Slurm job {job_id} can never start: {why} ({job.reason}); it was cancelled")
        state = f"{job.state}{f' ({job.reason})' if job.reason else ''}"
        if state != shown:
            on_status(f"job {job_id} waits in Slurm's queue: {state}")
            shown = state
        if clock() - began_s > queue_s:
            raise LaunchError(
                f"Slurm job {job_id} waited {queue_s:g} s in the queue, still {state}; it was cancelled. "
                "--queue-timeout S waits longer, --slurm-nodes N asks for fewer nodes, --partition NAME for others"
            )
        time.sleep(poll_s)
        poll_s = min(SLOWEST_POLL_S, poll_s * 1.3)


def _nodes_of_this(environ: Mapping[str, str], request: AllocationRequest) -> int:
    text = environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES") or ""
    if not text.isdigit():
        raise LaunchError(
            "SLURM_JOB_ID is set, but not SLURM_JOB_NUM_NODES: this is no whole allocation; unset SLURM_JOB_ID, or use salloc"
        )
    have = int(text)
    if request.nodes is not None and request.nodes > have:
        raise LaunchError(f"--slurm-nodes {request.nodes}: this allocation has {have}")
    return request.nodes or have


def _shared_folder(parent: Path | None, job_prefix: str) -> Scratch:
    place = parent if parent is not None else Path.cwd()
    try:
        return Scratch(place, f".{PREFIX}", job_prefix)
    except OSError as error:
        raise LaunchError(
            f"no folder can be made in {place} ({(error.strerror or str(error)).lower()}): workers on other nodes report "
            "through one; --shared-dir FOLDER names one that you can write and all nodes see"
        ) from None
