"""Submit jobs to Slurm, read their states, cancel them, and interpret the output of Slurm's programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.host.cluster import slurm_commands
from cs_input_analyzer.host.cluster.slurm_commands import Unanswered

IF_QUEUED = "If the job was queued nevertheless, it is cancelled"
PROGRAMS = ("sbatch", "srun", "squeue", "scancel", "scontrol")
# States of `squeue`: in the first a job waits for its nodes, in the second it has them. All other states are final.
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REQUEUE_FED"})
RUNNING = frozenset({"RUNNING", "RESIZING"})
# Reasons to wait that end only if somebody changes the job or the limits (squeue(1), "JOB REASON CODES").
HOPELESS = {
    "PartitionNodeLimit": "it asks for more nodes than the partition has or grants",
    "PartitionTimeLimit": "it asks for more time than the partition grants",
    "MaxMemPerLimit": "it asks for more memory than the partition grants; --sbatch-args=--mem=SIZE asks for less",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "BadConstraints": "no node has what it asks for",
    "InvalidAccount": "its account is not valid here",
    "AccountNotAllowed": "its account may not use the partition",
    "InvalidQOS": "its quality of service is not valid here",
    "QOSNotAllowed": "its quality of service may not use the partition",
    "JobHeldAdmin": "an administrator holds it",
    "JobHeldUser": "it is held",
}
_PER_JOB_LIMIT = re.compile(r"(Assoc|QOS)Max(?=\w*(PerJob|WallDuration))\w*")

# Output of Slurm's programs if the controller is busy, restarts or cannot be reached. This is no refusal: the request may have been
# carried out (slurm_errno.h: the "General communication layer").
UNANSWERED = re.compile(
    r"timed out|timeout|[Uu]nable to contact|Zero Bytes were transmitted|Connection (refused|reset)|Transport endpoint|"
    r"[Cc]ommunication connection|[Cc]ommunication shutdown|[Mm]essage (receive|send) failure|Unexpected message received|"
    r"Resource temporarily unavailable|in standby mode"
)

# Output of srun and slurmstepd, and its meaning. The first match counts, so the most specific comes first.
MEMORY = "Slurm ended a task that used too much memory"
_CAUSES = (
    (r"DUE TO TIME LIMIT", "the time limit of the Slurm job was reached"),
    (r"DUE TO NODE FAILURE|Node failure on (?P<what>\S+)", "a node failed"),
    (r"failed on node (?P<what>[^\s:]+): (Communication |Socket |Unable to contact |.*timed out)", "a node does not answer"),
    (r"DUE TO PREEMPTION", "Slurm gave the nodes to a more important job"),
    (r"oom[-_ ]kill|Out Of Memory|[Ee]xceeded (job|step|virtual)? ?memory limit|OUT_OF_MEMORY", MEMORY),
    (r"[Uu]nable to confirm allocation|[Ii]nvalid job|Job/step already completing|has expired", "the Slurm job is over"),
    (r"[Jj]ob credential revoked|Expired credential", "the Slurm job is over"),
    (r"CANCELLED AT", "the Slurm job or step was cancelled"),
    (r"Job step aborted|Force Terminated", "Slurm ended the step"),
)
# Progress lines of srun that explain nothing.
_CHATTER = re.compile(
    r"srun: (Job \d+ step creation temporarily disabled|Step created for|launching |route |jobid |Terminating StepId|"
    r"First task exited|interrupt|forcing job termination|sending Ctrl-C|Job step aborted: Waiting|"
    r"error: n\S+: task \d+: (Killed|Terminated))"
)


def submit(words: Sequence[str]) -> str:
    """Run sbatch. Return the number of the job.

    Raises:
        LaunchError: Slurm refused the job; the message quotes sbatch.
        Unanswered: the job may be queued, now or later.
    """
    try:
        done = slurm_commands.run(words)
    except Unanswered as error:
        raise Unanswered(f"{error} {IF_QUEUED}") from None
    job_id = done.stdout.strip().split(";")[0]  # `--parsable` appends the cluster's name in a federation
    if done.returncode != 0 or not job_id.isdigit():
        said = srun_complaint(done.stderr.splitlines()) or f"exit status {done.returncode}"
        if UNANSWERED.search(done.stderr):
            raise Unanswered(f"sbatch had no answer from Slurm: {said}. {IF_QUEUED}")
        raise LaunchError(f"sbatch refused the job: {said}; change --partition, --slurm-nodes or --sbatch-args")
    return job_id


def job_state(job_id: str) -> JobState | None:
    """Return the state of a job; None if Slurm has forgotten it. Raise LaunchError if Slurm does not answer."""
    done = slurm_commands.run(["squeue", "--noheader", f"--jobs={job_id}", "--states=all", "--format=%T|%r|%N|%C|%D"])
    if done.returncode != 0:
        said = done.stderr.strip()
        if "Invalid job id" in said:
            return None
        raise LaunchError(f"squeue does not answer: {srun_complaint(said.splitlines()) or done.returncode}")
    return parse_job(done.stdout)


def has_ended(job_id: str) -> bool:
    """Return whether a job is over. Return False if Slurm does not answer."""
    try:
        state = job_state(job_id)
    except LaunchError:
        return False
    return state is None or state.is_over


def node_states(nodes: Sequence[str]) -> dict[str, str]:
    """Return Slurm's state of each of these nodes, as `DOWN+NOT_RESPONDING`. Return none if Slurm does not answer."""
    try:
        done = slurm_commands.run(["scontrol", "--oneliner", "show", "node", ",".join(nodes)])
    except LaunchError:
        return {}
    return {match[1]: match[2] for match in re.finditer(r"NodeName=(\S+) (?:.*? )?State=(\S+)", done.stdout)}


def cancel(job_id: str) -> bool:
    """End a job and all its steps. Return False if Slurm did not answer. A finished job is no error."""
    try:
        done = slurm_commands.run(["scancel", "--quiet", job_id])
    except LaunchError:
        return False
    return done.returncode == 0 or not UNANSWERED.search(done.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """Hold one line of `squeue`.

    Attributes:
        reason: why the job waits.
        nodes: empty until the job has nodes.
        cpus_per_node: the CPUs of the job on each node.
    """

    state: str
    reason: str
    nodes: str
    cpus_per_node: int

    @property
    def is_waiting(self) -> bool:
        """Return whether the job has no nodes yet."""
        return self.state in WAITING

    @property
    def is_over(self) -> bool:
        """Return whether the job has ended and never runs again."""
        return self.state not in WAITING | RUNNING

    def __str__(self) -> str:
        return f"{self.state} ({self.reason})" if self.reason else self.state


def parse_job(text: str) -> JobState | None:
    """Read one job from `squeue -h -o '%T|%r|%N|%C|%D'`. Return None if the output names no job: it is over and forgotten."""
    for line in text.splitlines():
        match = re.fullmatch(r"([A-Z_]+)\|(?:None|(.*?))\|([^|]*)\|(\d+)\|(\d+)", line.strip())
        if match is not None:
            cpus, nodes = int(match[4]), int(match[5])
            return JobState(state=match[1], reason=match[2] or "", nodes=match[3], cpus_per_node=cpus // max(1, nodes))
    return None


def is_hopeless(reason: str) -> str | None:
    """Return why a job with this reason can never start, as a clause. Return None if waiting may help."""
    name = re.split(r"[,\s]", reason.strip(), maxsplit=1)[0]
    if name in HOPELESS:
        return HOPELESS[name]
    return "it asks for more than a limit of your account or quality of service" if _PER_JOB_LIMIT.fullmatch(name) else None


def cause_in(lines: Sequence[str]) -> str | None:
    """Return why a step ended, from the output of its srun. Return None if the output names no cause."""
    for pattern, cause in _CAUSES:
        for line in lines:
            match = re.search(pattern, line)
            if match is not None:
                what = match.groupdict().get("what")
                return f"{cause} ({what})" if what else cause
    return None


def srun_complaint(lines: Sequence[str]) -> str:
    """Return the complaints of srun or sbatch as one line, without their prefixes. Return an empty text if there are none."""
    printed = [
        re.sub(r"^(srun|sbatch|slurmstepd)(-[^:]*)?: (error: )?", "", line).strip() for line in lines if not _CHATTER.match(line)
    ]
    return "; ".join(dict.fromkeys(line for line in printed if line))[:600]
