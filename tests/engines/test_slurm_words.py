"""The parts of the Slurm engine that are pure: what Slurm's programs print, command lines, and a worker's place on its node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.engines.slurm.allocation import sbatch_words
from cs_input_analyzer.engines.slurm.jobs import UNANSWERED, cause_in, is_hopeless, parse_job, srun_complaint
from cs_input_analyzer.engines.slurm.launcher import srun_words
from cs_input_analyzer.host.machine import oom_kills, task_cpus
from cs_input_analyzer.model.tf_config import announced_addresses, of_worker
from cs_input_analyzer.records import Options
from tests.builders import make_cluster

# --- words -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "nodes", "waits", "over"),
    [
        ("RUNNING|None|n[1-2]|24|2\n", "n[1-2]", False, False),
        ("PENDING|Resources||24|2", "", True, False),
        ("NODE_FAIL|NodeDown|n1|24|2", "n1", False, True),
    ],
)
def test_states_of_a_job(line: str, nodes: str, waits: bool, over: bool) -> None:
    job = parse_job(line)
    assert (job.nodes, job.is_waiting, job.is_over, job.reason == "None") == (nodes, waits, over, False)
    assert job.cpus_per_node == 12
    assert parse_job("") is parse_job("slurm_load_jobs error: Invalid job id specified") is None  # it has been forgotten


CURED = ("", "Resources", "Priority", "Dependency", "ReqNodeNotAvail, UnavailableNodes:n1", "QOSGrpCpuLimit", "AssocGrpNodeLimit")
HOPELESS = (
    *("PartitionNodeLimit", "PartitionTimeLimit", "MaxMemPerLimit", "BadConstraints"),
    *("AssocMaxNodePerJobLimit", "QOSMaxCpuPerJobLimit"),
)


@pytest.mark.parametrize("reason", CURED + HOPELESS)
def test_reasons_that_waiting_cures_and_does_not(reason: str) -> None:
    assert (is_hopeless(reason) is None) is (reason in CURED)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", "time limit"),
        ("srun: error: Node failure on n2", "node failed (n2)"),
        ("srun: error: Task launch for StepId=2.0 failed on node n2: Communication connection failure", "does not answer (n2)"),
        ("slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE, SEE LOG ***", "node failed"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=5.0. Some of the step tasks have been OOM Killed.", "memory"),
        ("slurmstepd: error: StepId=5.0 exceeded memory limit (2000 > 1500), being killed", "memory"),
        ("slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "cancelled"),
        ("srun: error: Unable to confirm allocation for job 5: Invalid job id specified", "is over"),
        ("srun: error: Unable to create step for job 5: Job/step already completing or completed", "is over"),
    ],
)  # fmt: skip
def test_what_srun_prints_is_understood(line: str, word: str) -> None:
    cause = cause_in(["srun: Job 5 step creation temporarily disabled, retrying (Requested nodes are busy)", line])
    assert word in cause


def test_what_is_not_understood_is_quoted_without_chatter() -> None:
    lines = [
        "srun: launching StepId=1.0 on host n1, 1 tasks: 0",
        "srun: error: invalid partition specified: x",
        "srun: error: invalid partition specified: x",
    ]
    assert cause_in(lines) is None
    assert srun_complaint(lines) == "invalid partition specified: x"
    assert srun_complaint([]) == ""


@pytest.mark.parametrize(
    ("line", "is_refusal"),
    [
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", False),
        ("squeue: error: slurm_load_jobs error: Unable to contact slurm controller (connect failure)", False),
        ("slurm_load_jobs error: Zero Bytes were transmitted or received", False),
        ("", True),
        ("sbatch: error: invalid partition specified: x", True),
        ("slurm_load_jobs error: Invalid job id specified", True),
    ],
)
def test_a_controller_that_does_not_answer_has_not_refused(line: str, is_refusal: bool) -> None:
    assert bool(UNANSWERED.search(line)) is not is_refusal


# --- command lines -----------------------------------------------------------------------------------------------------------


def job_words(extra: str = "", **of_cluster: Any) -> list[str]:
    return sbatch_words(Options(sbatch_args=extra, max_seconds=60.0), make_cluster(**of_cluster), 3, "x")


def test_what_we_cannot_do_without_comes_after_the_users_words() -> None:
    words = job_words("--nodes=9 --account=me", partition="p", excluded_nodes=("a", "b"))
    assert words.index("--nodes=9") < words.index("--nodes=3")
    wanted = {"--exclusive", "--no-requeue", "--no-kill", "--partition=p", "--exclude=a,b", "--account=me", "--job-name=x"}
    assert wanted <= set(words)
    assert "--time=10" in words  # 300 s to start, 60 to measure and a quarter more, 180 to spare
    assert not any(word.startswith(("--partition", "--exclude=")) for word in job_words())
    for timed in ("-t 5", "--time=5", "-t5"):
        assert "--time=10" not in job_words(timed)
    assert "--time=10" in job_words("--time-min=5")


@pytest.mark.parametrize(("extra", "expected"), [("", 1), ("--mem-per-cpu=2G", 0), ("--mem 64G", 0), ("--account=me", 1)])
def test_a_job_has_all_memory_unless_the_user_asks_for_some(extra: str, expected: int) -> None:
    assert job_words(extra).count("--mem=0") == expected


def test_a_step_says_everything_that_a_default_could_change() -> None:
    words = srun_words("12", 2, 12, "/work", ["python", "-c", "pass"])
    wanted = "--jobid=12 --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=12 --overlap --kill-on-bad-exit=0 --wait=0"
    assert {*wanted.split(), "--chdir=/work"} <= set(words)
    assert words[-3:] == ["python", "-c", "pass"]


# --- a worker's place --------------------------------------------------------------------------------------------------------


def cores(folder: Path, *threads: str) -> Path:
    """The kernel's folder of CPUs, whose n-th one has these threads on its core."""
    for cpu, siblings in enumerate(threads):
        place = folder / f"cpu{cpu}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(siblings + "\n")
    return folder


TWO_THREADS = ("0,4", "1,5", "2,6", "3,7") * 2


@pytest.mark.parametrize(
    ("allowed", "tasks", "cpus", "expected"),
    [
        (range(8), 4, 2, [(0, 4), (1, 5), (2, 6), (3, 7)]),  # core by core
        (range(8), 4, 1, [(0, 4), (1, 5), (2, 6), (3, 7)]),  # whole cores, while there are enough
        (range(8), 8, 1, [(0,), (4,), (1,), (5,), (2,), (6,), (3,), (7,)]),
        (range(8), 2, 3, [(0, 1, 4, 5), (2, 3, 6, 7)]),
        ((1, 5), 1, 4, [(1, 5)]),  # fewer than were asked for
        ((1, 5), 3, 1, [(1,), (5,), (1,)]),  # shared in turn
        (range(4), 2, 2, [(0, 1), (2, 3)]),  # one thread of each core is ours
        (range(4), 2, 1, [(0,), (1,)]),
        ((4, 5, 6, 7), 1, 8, [(4, 5, 6, 7)]),
    ],
)
def test_the_cpus_of_the_workers_of_a_node(
    allowed: Sequence[int], tasks: int, cpus: int, expected: list[tuple[int, ...]], tmp_path: Path
) -> None:
    assert list(task_cpus(allowed, tasks, cpus, root=cores(tmp_path, *TWO_THREADS))) == expected


@pytest.mark.parametrize(("first", "expected"), [(0, [(0, 4), (1, 5)]), (1, [(1, 5), (2, 6)]), (6, [(0, 4), (3, 7)])])
def test_another_launch_has_the_cpus_after_those_of_the_last_one(
    first: int, expected: list[tuple[int, ...]], tmp_path: Path
) -> None:
    assert sorted(task_cpus(range(8), 2, 1, first, cores(tmp_path, *TWO_THREADS))) == expected


@given(st.integers(1, 16), st.integers(1, 8), st.integers(1, 8))
def test_workers_share_no_cpu_while_there_are_enough(count: int, tasks: int, cpus: int) -> None:
    sets = task_cpus(range(count), tasks, cpus, root=Path("/nowhere"))
    assert all(1 <= len(found) <= cpus and set(found) <= set(range(count)) for found in sets)
    if tasks * cpus <= count:
        everything = [cpu for found in sets for cpu in found]
        assert len(everything) == len(set(everything)) == tasks * cpus


def test_kills_of_a_control_group_are_counted_in_either_version(tmp_path: Path) -> None:
    groups = tmp_path / "cgroup"
    groups.write_text("9:memory:/job/step\n3:cpu,cpuacct:/job\n0::/job2\n")
    assert oom_kills(groups, tmp_path) == 0
    old, new = tmp_path / "memory/job/step", tmp_path / "job2"
    for folder in (old, new):
        folder.mkdir(parents=True)
    (old / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert oom_kills(groups, tmp_path) == 1
    (new / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\n")
    assert oom_kills(groups, tmp_path) == 2
    assert oom_kills(tmp_path / "missing", tmp_path) == 0


def test_addresses_of_workers_that_run_and_that_are_announced() -> None:
    addresses = announced_addresses(["a", "a", "b", "b"], 6)
    assert len(set(addresses)) == 7
    assert [address.split(":")[0] for address in addresses] == ["a", "a", "a", "b", "b", "a", "a"]
    config = json.loads(of_worker(addresses, 5))
    assert config["task"] == {"type": "worker", "index": 5}
    assert config["cluster"] == {"chief": addresses[:1], "worker": addresses[1:]}
