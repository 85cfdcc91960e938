"""What the launcher asks of Slurm beside its steps: to queue a job, how it stands, to cancel it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cs_input_analyzer.cluster import slurm_commands
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.launch.slurm.words import JobState, cpus_per_node, parse_job, srun_complaint

__all__ = ["cancel", "check_installed", "job_cpus_per_node", "job_state", "node_states", "submit"]

PROGRAMS = ("sbatch", "srun", "squeue", "scancel", "scontrol")


def check_installed() -> None:
    """Raises LaunchError naming the programs of Slurm that are not on PATH."""
    slurm_commands.check_installed(PROGRAMS, "--launcher slurm")


def submit(words: Sequence[str]) -> str:
    """Runs sbatch; gives the number of the job. Raises LaunchError with what sbatch says when it refuses."""
    done = slurm_commands.run(words)
    job_id = done.stdout.strip().split(";")[0]  # `--parsable` appends the cluster's name in a federation
    if done.returncode != 0 or not job_id.isdigit():
        said = srun_complaint(done.stderr.splitlines()) or f"exit status {done.returncode}"
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


def cancel(job_id: str) -> None:
    """Ends a job and all of its steps. A job that is over is no error."""
    try:
        slurm_commands.run(["scancel", "--quiet", job_id])
    except LaunchError:
        return  # its keeper lets the nodes go
