"""The parts of the Slurm engine that need no Slurm: words, command lines, CPUs, and results in a shared folder."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.engines import scratch
from cs_input_analyzer.engines.slurm import allocation, jobs, results
from cs_input_analyzer.engines.slurm.agent import Settings, variables_of_task
from cs_input_analyzer.engines.slurm.jobs import (
    UNANSWERED,
    JobState,
    cause_in,
    is_hopeless,
    parse_job,
    srun_complaint,
)
from cs_input_analyzer.engines.slurm.launcher import srun_words
from cs_input_analyzer.engines.slurm.node_worker import OUTPUT
from cs_input_analyzer.engines.slurm.step import Task
from cs_input_analyzer.engines.starting import WorkerKind
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.host.cluster import slurm_commands
from cs_input_analyzer.host.cluster.slurm_commands import Unanswered
from cs_input_analyzer.host.counters import CounterReader
from cs_input_analyzer.host.machine import oom_kills, task_cpus
from cs_input_analyzer.model.tf_config import announced_addresses, of_worker
from cs_input_analyzer.records import Options, WorkerResult
from cs_input_analyzer.worker.journal import EVENTS
from tests.builders import make_cluster, make_work_plan
from tests.engines.stub_slurm import write_journal
from tests.waiting import comes

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
HOPELESS = ("PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints", "AssocMaxNodePerJobLimit", "QOSMaxCpuPerJobLimit")


@pytest.mark.parametrize("reason", CURED + HOPELESS)
def test_reasons_that_waiting_cures_and_does_not(reason: str) -> None:
    assert (is_hopeless(reason) is None) is (reason in CURED)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", "time limit"),
        ("srun: error: Node failure on n2", "node failed (n2)"),
        ("srun: error: Task launch for StepId=2.0 failed on node n2: Communication connection failure", "does not answer (n2)"),
        ("srun: error: Task launch for StepId=2.0 failed on node n2: Socket timed out on send/recv operation", "not answer (n2)"),
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
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified", True),
        ("sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)", True),
        ("slurm_load_jobs error: Invalid job id specified", True),
    ],
)
def test_a_controller_that_does_not_answer_has_not_refused(line: str, is_refusal: bool) -> None:
    assert bool(UNANSWERED.search(line)) is not is_refusal


# --- command lines -----------------------------------------------------------------------------------------------------------


def job_words(extra: str = "", **of_cluster: Any) -> list[str]:
    return allocation.sbatch_words(Options(sbatch_args=extra, max_seconds=60.0), make_cluster(**of_cluster), 3, "x")


def test_what_we_cannot_do_without_comes_after_the_users_words() -> None:
    words = job_words("--nodes=9 --account=me", partition="p", excluded_nodes=("a", "b"))
    assert words.index("--nodes=9") < words.index("--nodes=3")
    wanted = {"--exclusive", "--no-requeue", "--no-kill", "--partition=p", "--exclude=a,b", "--account=me", "--job-name=x"}
    assert wanted <= set(words)
    assert "--time=10" in words  # 300 s to start, 60 to measure and a quarter more, 180 to spare
    assert not any(word.startswith(("--partition", "--exclude=")) for word in job_words())
    for timed in ("-t 5", "--time=5", "-t5"):
        assert "--time=10" not in job_words(timed)


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
    ],
)
def test_the_cpus_of_the_workers_of_a_node(
    allowed: Sequence[int], tasks: int, cpus: int, expected: list[tuple[int, ...]], tmp_path: Path
) -> None:
    assert list(task_cpus(allowed, tasks, cpus, cores(tmp_path, *TWO_THREADS))) == expected


@given(st.integers(1, 16), st.integers(1, 8), st.integers(1, 8))
def test_workers_share_no_cpu_while_there_are_enough(count: int, tasks: int, cpus: int) -> None:
    sets = task_cpus(range(count), tasks, cpus, Path("/nowhere"))
    assert all(1 <= len(found) <= cpus and set(found) <= set(range(count)) for found in sets)
    if tasks * cpus <= count:
        everything = [cpu for found in sets for cpu in found]
        assert len(everything) == len(set(everything)) == tasks * cpus


def test_a_worker_has_the_variables_of_a_task_of_its_own() -> None:
    settings = Settings(tasks_per_node=3, cpus_per_task=2, memory_limit_bytes=None, kind=WorkerKind())
    found = variables_of_task({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, settings, 2)
    assert found["SLURM_PROCID"] == "5"
    assert (found["SLURM_NODEID"], found["SLURM_LOCALID"], found["SLURM_GTIDS"]) == ("1", "2", "3,4,5")
    assert found["SLURM_NTASKS"] == found["SLURM_NPROCS"] == found["SLURM_STEP_NUM_TASKS"] == "6"
    assert found["SLURM_TASKS_PER_NODE"] == found["SLURM_STEP_TASKS_PER_NODE"] == "3(x2)"
    assert (found["SLURM_NTASKS_PER_NODE"], found["SLURM_CPUS_PER_TASK"]) == ("3", "2")


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


# --- results in the shared folder --------------------------------------------------------------------------------------------


STAMPS_S = 10.0 + np.arange(200) / 100


def ended(rank: int, returncode: int = 0, *, journal_bytes: int = 0, why: str = "", **state: Any) -> Task:
    about = {"returncode": returncode, "killed_for": None, "why": why, "journal_bytes": journal_bytes}
    return Task(rank=rank, node=f"n{rank}", ended=about, **state)


def told(folder: Path, rank: int, stamps_s: Any = STAMPS_S) -> Task:
    """A task that ended well, and its files."""
    place = folder / f"worker-{rank}"
    place.mkdir()
    write_journal(place, CounterReader().read(), 9.0, stamps_s, is_whole=True)
    (place / OUTPUT).write_text("")
    return ended(rank, journal_bytes=(place / EVENTS).stat().st_size)


def collected(folder: Path, *tasks: Task) -> tuple[WorkerResult, ...]:
    return results.collect(folder, tasks, make_work_plan("data.py:f", len(tasks), deadline_s=0.0)).workers


def test_workers_of_several_nodes_are_seen_for_as_long_as_the_shortest(tmp_path: Path) -> None:
    tasks = (told(tmp_path, 0, STAMPS_S[:101]), told(tmp_path, 1))
    first, second = collected(tmp_path, *tasks)
    assert [(worker.index, worker.node, worker.status) for worker in (first, second)] == [(0, "n0", "done"), (1, "n1", "done")]
    assert second.samples_per_s.estimate == pytest.approx(400, rel=0.05)
    assert second.steady_state.window_s <= 1.0  # of two: what all share ends two seconds after they were told to begin


@pytest.mark.parametrize(
    ("task", "has_journal", "words"),
    [
        (ended(1, journal_bytes=9), False, "its results are missing"),
        (ended(1, -9, why="the kernel ended it for the memory of its control group"), True, "control group"),
        (Task(rank=1, node="n1", lost="node n1 fell silent"), True, "node n1 fell silent"),
    ],
)
def test_a_lost_task_keeps_what_it_measured_and_names_the_cause(
    tmp_path: Path, task: Task, has_journal: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "VISIBLE_S", 0.3)
    if has_journal:
        (tmp_path / "worker-1").mkdir()
        write_journal(tmp_path / "worker-1", CounterReader().read(), 9.0, STAMPS_S, is_whole=False)
        with (tmp_path / "worker-1" / EVENTS).open("ab") as file:
            file.write(b'{"event": "chu')  # its last line, half-written
    _, second = collected(tmp_path, told(tmp_path, 0), task)
    assert second.status == "lost"
    assert words in second.message
    assert (second.samples_per_s is not None) is has_journal


# --- a job of ours, with programs that only look like Slurm's -----------------------------------------------------------------

CLUSTER = make_cluster(nodes=4)
NO_ANSWER = "Socket timed out on send/recv operation"


class Slurm:
    """Programs by Slurm's names on PATH. Each notes its words in `log`, then does what its script says."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.shared = folder / "shared"
        self.programs = folder / "bin"
        for made in (self.shared, self.programs):
            made.mkdir()
        for name in jobs.PROGRAMS:
            self.does(name, "exit 0")

    def does(self, name: str, script: str) -> None:
        program = self.programs / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> {self.log}\n{script}\n')
        program.chmod(0o755)

    def calls(self, name: str) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]

    def cancelled_by_name(self, times: int) -> bool:
        """Whether the job was cancelled so often by the name that it was submitted with; waits for it."""
        (name,) = [word for word in self.calls("sbatch")[0].split() if word.startswith("--job-name=")]
        wanted = name.replace("--job-name", "--name")
        return comes(lambda: sum(wanted in call.split() for call in self.calls("scancel")) >= times)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    made = Slurm(tmp_path)
    monkeypatch.setenv("PATH", f"{made.programs}:{os.environ['PATH']}")
    monkeypatch.setattr(scratch, "CANCEL_S", "0 0")
    monkeypatch.setattr(scratch, "CANCEL_LATE_S", "0.1")
    yield made
    assert list(made.shared.iterdir()) == []


def opened(slurm: Slurm) -> allocation.Allocation:
    return allocation.open_allocation(Options(slurm_nodes=2, shared_dir=str(slurm.shared)), CLUSTER, {}, lambda what: None)


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("sleep 60", Unanswered, "did not answer within 0.5 s.*cancelled"),
        (f"echo 'sbatch: error: {NO_ANSWER}' >&2; exit 1", Unanswered, "Socket timed out.*cancelled"),
        ("echo 7", KeyboardInterrupt, None),
    ],
)
def test_a_submission_without_an_answer_leaves_no_job(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch, script: str, error: type[BaseException], words: str | None
) -> None:
    """Slurm may queue it all the same, also when we are gone."""
    monkeypatch.setattr(slurm_commands, "PATIENCE_S", 0.5)
    if error is KeyboardInterrupt:
        submit = jobs.submit

        def interrupted(words: Sequence[str]) -> str:
            submit(words)
            raise KeyboardInterrupt

        monkeypatch.setattr(jobs, "submit", interrupted)
    slurm.does("sbatch", script)
    with pytest.raises(error, match=words):
        opened(slurm)
    assert slurm.cancelled_by_name(3)


def test_of_a_job_that_was_refused_nothing_is_cancelled(slurm: Slurm) -> None:
    slurm.does("sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1")
    before = psutil.Process().children()
    with pytest.raises(LaunchError, match="refused the job: invalid partition"):
        opened(slurm)
    assert psutil.Process().children() == before  # its guard has ended
    assert slurm.calls("scancel") == []


@pytest.mark.parametrize(("script", "is_answered"), [("exit 0", True), (f"echo 'scancel: error: {NO_ANSWER}' >&2; exit 1", False)])
def test_a_job_that_could_not_be_cancelled_is_cancelled_by_its_guard(slurm: Slurm, script: str, is_answered: bool) -> None:
    slurm.does("sbatch", "echo 7")
    slurm.does("squeue", "echo 'RUNNING|None|n[1-2]|4|2'")
    slurm.does("scancel", script)
    opened(slurm).close()
    assert slurm.calls("scancel")[0] == "--quiet 7"
    if is_answered:
        assert len(slurm.calls("scancel")) == 1
    else:
        assert slurm.cancelled_by_name(3)


PENDING = JobState(state="PENDING", reason="Resources", nodes="", cpus_per_node=1)
RUNNING = JobState(state="RUNNING", reason="", nodes="n[1-2]", cpus_per_node=1)


def waited(answers: list[JobState | None], slurm: Slurm, monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    """Opens an allocation while squeue gives these answers, one by one, in three seconds each; none is a LaunchError."""
    now_s = itertools.count(0.0, 1.5)

    def job_state(job_id: str) -> JobState:
        next(now_s)
        answer = answers.pop(0)
        if answer is None:
            raise LaunchError(f"squeue does not answer: {NO_ANSWER}")
        return answer

    slurm.does("sbatch", "echo 7")
    monkeypatch.setattr(jobs, "job_state", job_state)
    monkeypatch.setattr(allocation.time, "sleep", lambda _: None)
    asked = Options(slurm_nodes=2, shared_dir=str(slurm.shared), queue_timeout_s=1e6)
    allocation.open_allocation(asked, CLUSTER, {}, told.append, lambda: next(now_s)).close()


@pytest.mark.parametrize("silent", [1, 25])
def test_a_queue_that_is_silent_for_a_while_keeps_the_place(silent: int, slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    waited([PENDING, *[None] * silent, PENDING, *[None] * silent, RUNNING], slurm, monkeypatch, told)
    assert [line.startswith("job 7 keeps its place") and NO_ANSWER in line for line in told] == [False, True, False, True, False]
    assert "has n[1-2]" in told[-1]


def test_one_that_stays_silent_is_given_up(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LaunchError, match=r"Socket timed out.*90 s.*cancelled"):
        waited([PENDING, *[None] * 100], slurm, monkeypatch, [])
    assert slurm.calls("scancel") == ["--quiet 7"]
