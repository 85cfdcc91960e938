"""Allocate the nodes to measure on: of the allocation that we run in, or of a job that we submit and cancel.

Nothing outlives the launcher. `close` cancels the job. If the launcher is killed, or Slurm did not answer it, the guard of its
private folder cancels the job by name and removes the folder. If its machine fails, the job ends at its time limit.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cs_input_analyzer.engines.scratch import PREFIX, Scratch
from cs_input_analyzer.engines.slurm import jobs
from cs_input_analyzer.engines.slurm.jobs import is_hopeless
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.host.cluster.slurm_commands import Unanswered, check_installed
from cs_input_analyzer.model.launch_lines import asks_for_memory
from cs_input_analyzer.records import Cluster, Options

OnStatus = Callable[[str], None]

POLL_S = 0.25
SLOWEST_POLL_S = 2.0
# Nodes of our job if the user gives no number: enough to see how nodes share the storage.
MOST_NODES = 4
# Parts of the time limit beside the measuring: starting, first messages of the nodes, collecting, leaving.
SPARE_S = 180.0
SPARE_RATIO = 1.25

# How long Slurm may not answer about a waiting job. Its controller is restarted or busy now and then.
UNANSWERED_S = 90.0


@dataclass(frozen=True, slots=True)
class Allocation:
    """Hold the nodes of a Slurm job, and a private folder that all of them share."""

    scratch: Scratch
    job_id: str
    nodes: int
    is_ours: bool

    def close(self) -> None:
        """Give the nodes back and remove the folder."""
        is_sure = jobs.cancel(self.job_id) if self.is_ours else True
        self.scratch.close(has_job=not is_sure)


def open_allocation(
    options: Options,
    cluster: Cluster,
    environ: Mapping[str, str],
    on_status: OnStatus,
    clock: Callable[[], float] = time.monotonic,
) -> Allocation:
    """Return the nodes of this cluster that the options ask for.

    Raise LaunchError if there are no such nodes, not in time, or no folder that can be shared.
    """
    check_installed(jobs.PROGRAMS, "--launcher slurm")
    outer = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID")
    scratch = _shared_folder(Path(options.shared_dir) if options.shared_dir else Path.cwd(), "" if outer else PREFIX)
    job_id, is_sure = "", True  # whether no job of ours is left if this fails
    try:
        if outer:
            return Allocation(scratch, outer, _nodes_of_this(environ, options.slurm_nodes), is_ours=False)
        nodes = options.slurm_nodes or min(MOST_NODES, cluster.nodes)
        if nodes > cluster.nodes:
            raise LaunchError(f"--slurm-nodes {nodes}: there are {cluster.nodes} usable nodes; a job for more would wait for ever")
        words = sbatch_words(options, cluster, nodes, scratch.job_name)
        is_sure = False
        job_id = jobs.submit(words)
        _wait_in_queue(job_id, options.queue_timeout_s, on_status, clock)
        return Allocation(scratch, job_id, nodes, is_ours=True)
    except BaseException as error:
        if job_id:
            is_sure = jobs.cancel(job_id)
        elif isinstance(error, LaunchError) and not isinstance(error, Unanswered):  # no Ctrl-C in between either
            is_sure = True
        scratch.close(has_job=not is_sure)
        raise


def sbatch_words(options: Options, cluster: Cluster, nodes: int, name: str) -> list[str]:
    """Return the command line that submits a job with whole nodes, which runs until it is cancelled.

    The user's words come first, so that our necessary words win. Only the memory is the user's choice.

    A node that fails must not end the others (`--no-kill`). Slurm must not start the job again (`--no-requeue`).
    """
    extra = shlex.split(options.sbatch_args or "")
    words = ["sbatch", "--parsable", *extra]
    words += [f"--nodes={nodes}", "--exclusive", "--no-requeue", "--no-kill", f"--job-name={name}"]
    words += [] if asks_for_memory(extra) else ["--mem=0"]
    words += ["--output=/dev/null", "--error=/dev/null"]
    if not any(word.startswith("-t") or word.partition("=")[0] == "--time" for word in extra):
        measure_s = options.start_timeout_s + options.max_seconds * SPARE_RATIO + SPARE_S
        words.append(f"--time={math.ceil(measure_s / 60)}")
    if cluster.partition is not None:
        words.append(f"--partition={cluster.partition}")
    if cluster.excluded_nodes:
        words.append(f"--exclude={','.join(cluster.excluded_nodes)}")
    return [*words, "--wrap=exec sleep infinity"]


def _wait_in_queue(job_id: str, queue_s: float, on_status: OnStatus, clock: Callable[[], float]) -> None:
    """Wait until the job has its nodes. Raise LaunchError if it cannot get them, is late, or Slurm does not answer."""
    began_s = answered_s = clock()
    shown, poll_s = "", POLL_S
    while True:
        try:
            job = jobs.job_state(job_id)
            answered_s = clock()
        except LaunchError as error:
            if clock() - answered_s > UNANSWERED_S:
                raise LaunchError(f"{error}; no answer for {UNANSWERED_S:g} s: Slurm job {job_id} was cancelled") from None
            state, poll_s = f"job {job_id} keeps its place in Slurm's queue: {error}; asking again", SLOWEST_POLL_S
        else:
            if job is None or job.is_over:
                raise LaunchError(f"Slurm job {job_id} ended before it could be used: {job or 'gone'}")
            if not job.is_waiting:
                on_status(f"job {job_id} has {job.nodes}")
                return
            why = is_hopeless(job.reason)
            if why is not None:
                raise LaunchError(f"Slurm job {job_id} can never start: {why} ({job.reason}); it was cancelled")
            if clock() - began_s > queue_s:
                raise LaunchError(
                    f"Slurm job {job_id} waited {queue_s:g} s in the queue and is still {job}; it was cancelled. "
                    "--queue-timeout S waits longer, --slurm-nodes N asks for fewer nodes, --partition NAME for others"
                )
            state = f"job {job_id} waits in Slurm's queue: {job}"
        if state != shown:
            on_status(state)
            shown = state
        time.sleep(poll_s)
        poll_s = min(SLOWEST_POLL_S, poll_s * 1.3)


def _nodes_of_this(environ: Mapping[str, str], wanted: int | None) -> int:
    text = environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES") or ""
    if not text.isdigit():
        raise LaunchError(
            "SLURM_JOB_ID is set, but not SLURM_JOB_NUM_NODES: this is no whole allocation; unset SLURM_JOB_ID, or use salloc"
        )
    if wanted is not None and wanted > int(text):
        raise LaunchError(f"--slurm-nodes {wanted}: this allocation has {text}")
    return wanted or int(text)


def _shared_folder(place: Path, job_prefix: str) -> Scratch:
    try:
        return Scratch(place, f".{PREFIX}", job_prefix)
    except OSError as error:
        raise LaunchError(
            f"cannot create a folder in {place} ({(error.strerror or str(error)).lower()}): workers on other nodes report "
            "through it; name a folder that you can write and all nodes share with --shared-dir FOLDER"
        ) from None
