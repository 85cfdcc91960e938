"""Calls Slurm's programs: submits a job, reads its state, cancels it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cs_input_analyzer.engines.slurm.words import JobState, cpus_per_node, is_unanswered, parse_job, srun_complaint
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.machines.cluster import slurm_commands
from cs_input_analyzer.machines.cluster.slurm_commands import Unanswered

__all__ = ["cancel", "check_installed", "job_cpus_per_node", "job_state", "node_states", "submit"]

IF_QUEUED = "If the job was queued all the same, it is cancelled"
PROGRAMS = ("sbatch", "srun", "squeue", "scancel", "scontrol")


def check_installed() -> None:
    """Raises LaunchError naming the programs of Slurm that are not on PATH."""
    slurm_commands.check_installed(PROGRAMS, "--launcher slurm")


def submit(words: Sequence[str]) -> str:
    """Runs sbatch; gives the number of the job.

    Raises:
        LaunchError: Slurm would not have it, with what sbatch says.
        Unanswered: it may be queued, now or later.
    """
    try:
        done = slurm_commands.run(words)
    except Unanswered as error:
        raise Unanswered(f"{error} {IF_QUEUED}") from None
    job_id = done.stdout.strip().split(";")[0]  # `--parsable` appends the cluster's name in a federation
    if done.returncode != 0 or not job_id.isdigit():
        said = srun_complaint(done.stderr.splitlines()) or f"exit status {done.returncode}"
        if is_unanswered(done.stderr):
            raise Unanswered(f"sbatch had no answer from Slurm: {said}. {IF_QUEUED}")
        raise LaunchError(f"sbatch refused the job: {said}; --partition, --slurm-nodes and --sbatch-args say what is asked for")
    return job_id


def job_state(job_id: str) -> JobState | None:
    """None for a job that Slurm has forgotten. Raises LaunchError when Slurm does not answer."""
    done = slurm_commands.run(["squeue", "--noheader", f"--jobs={job_id}", "--states=all", "--format=%T|%r|%N"])
    if done.returncode != 0:
        said = done.stderr.strip()
        if "Invalid job id" in said:
            return None
        raise LaunchError(f"squeue does not answer: {srun_complaint(said.splitlines()) or done.returncode}")
    return parse_job(done.stdout)


def job_cpus_per_node(job_id: str) -> int | None:
    """CPUs that a job has on each of its nodes, the fewest. Of its tasks' variables not every version sets the one that says so."""
    try:
        done = slurm_commands.run(["scontrol", "--details", "show", "job", job_id])
    except LaunchError:
        return None
    return cpus_per_node(done.stdout)


def node_states(nodes: Sequence[str]) -> dict[str, str]:
    """What Slurm says of these nodes now, as `DOWN+NOT_RESPONDING`; empty where it does not answer."""
    try:
        done = slurm_commands.run(["scontrol", "--oneliner", "show", "node", ",".join(nodes)])
    except LaunchError:
        return {}
    return {match[1]: match[2] for match in re.finditer(r"NodeName=(\S+).*? State=(\S+)", done.stdout)}


def cancel(job_id: str) -> bool:
    """Ends a job and all of its steps; False where Slurm did not answer. A job that is over is no error."""
    try:
        done = slurm_commands.run(["scancel", "--quiet", job_id])
    except LaunchError:
        return False
    return done.returncode == 0 or not is_unanswered(done.stderr)
