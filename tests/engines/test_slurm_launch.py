"""The parts of the Slurm engine that need no Slurm: words, clocks, command lines, CPUs, and results in a shared folder."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from cs_input_analyzer.engines import scratch
from cs_input_analyzer.engines.slurm import AllocationRequest, allocation, jobs, results
from cs_input_analyzer.engines.slurm.agent import OUTPUT, RESULT
from cs_input_analyzer.engines.slurm.clocks import Exchange, Offset, offset_of, offsets_of_nodes, skew_s
from cs_input_analyzer.engines.slurm.command_lines import keeper_script, sbatch_words, srun_words
from cs_input_analyzer.engines.slurm.jobs import (
    JobState,
    cause_in,
    cpus_per_node,
    is_hopeless,
    is_over,
    is_unanswered,
    is_waiting,
    parse_job,
    srun_complaint,
)
from cs_input_analyzer.engines.slurm.step import Task
from cs_input_analyzer.engines.tf_config import announced_addresses, tf_config_of
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.machines.cluster import slurm_commands
from cs_input_analyzer.machines.cluster.slurm_commands import Unanswered
from cs_input_analyzer.machines.counters import Counters
from cs_input_analyzer.machines.host import oom_kills, worker_cpus
from cs_input_analyzer.records import Estimate, Layout, WorkerResult
from cs_input_analyzer.worker.journal import JournalWriter

SECONDS = st.floats(-1e6, 1e6, allow_nan=False)


# --- words -------------------------------------------------------------------------------------------------------------------


def test_states_of_a_job() -> None:
    running = parse_job("RUNNING|None|n[1-2]\n")
    assert (running.reason, running.nodes) == ("", "n[1-2]")
    assert not is_waiting(running)
    assert not is_over(running)
    pending = parse_job("PENDING|Resources|")
    assert pending is not None
    assert is_waiting(pending)
    over = parse_job("NODE_FAIL|NodeDown|n1")
    assert over is not None
    assert is_over(over)
    assert parse_job("") is None
    assert parse_job("slurm_load_jobs error: Invalid job id specified") is None


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
    assert cause is not None
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
    assert is_unanswered(line) is not is_refusal


def test_cpus_of_nodes() -> None:
    job = (
        "JobId=1 NumNodes=2 NumCPUs=24 NumTasks=2 CPUs/Task=1\n   Nodes=n1 CPU_IDs=0-15 Mem=1 GRES=\n   Nodes=n2 CPU_IDs={} Mem=1\n"
    )
    assert cpus_per_node(job.format("0-7")) == 8
    assert cpus_per_node(job.format("0,2-4,9")) == 5
    assert cpus_per_node("JobId=1 NumNodes=2 NumCPUs=24") == 12
    assert cpus_per_node("slurm_load_jobs error: Invalid job id specified") is None


# --- clocks ------------------------------------------------------------------------------------------------------------------


@given(ahead=SECONDS, out=st.floats(0, 1), back=st.floats(0, 1), asked=st.floats(0, 1e6))
def test_the_true_offset_is_within_its_error(ahead: float, out: float, back: float, asked: float) -> None:
    exchange = Exchange(asked_s=asked, answered_s=asked + out + ahead, heard_s=asked + out + back)
    found = offset_of([exchange])
    assert abs(found.ahead_s - ahead) <= found.error_s + 1e-6


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=10), st.floats(-100, 100))
def test_more_exchanges_never_make_it_worse(trips: list[tuple[float, float]], ahead: float) -> None:
    exchanges = [Exchange(asked_s=0.0, answered_s=out + ahead, heard_s=out + back) for out, back in trips]
    alone = [offset.error_s for exchange in exchanges if (offset := offset_of([exchange]))]
    found = offset_of(exchanges)
    assert found.error_s <= min(alone)


def test_tasks_of_a_node_share_what_is_known_best_of_its_clock() -> None:
    rough, fine, other = (Offset(ahead_s=a, error_s=e) for a, e in ((1.0, 0.5), (1.2, 0.1), (-3.0, 0.2)))
    assert offsets_of_nodes(["a", "a", "b", "c"], [rough, fine, other, None]) == (fine, fine, other, None)
    assert offset_of([]) is None


def test_skew() -> None:
    assert skew_s([3.0, 1.0, 2.5]) == 2.0
    assert skew_s([1.0]) is None


# --- command lines -----------------------------------------------------------------------------------------------------------


def test_what_we_cannot_do_without_comes_after_the_users_words() -> None:
    words = sbatch_words(
        nodes=3,
        name="x",
        script=Path("/s/keeper.sh"),
        minutes=7,
        partition="p",
        exclude=("a", "b"),
        extra=("--nodes=9", "--account=me"),
    )
    assert words.index("--nodes=9") < words.index("--nodes=3")
    assert {"--exclusive", "--no-requeue", "--no-kill", "--time=7", "--partition=p", "--exclude=a,b", "--account=me"} <= set(words)
    assert words[-2:] == ["/s/keeper.sh", "/s/alive"]
    assert not any(word.startswith(("--time", "--partition", "--exclude=")) for word in sbatch_words(
        nodes=1, name="x", script=Path("/s/k"), minutes=None, partition=None, exclude=(), extra=()
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "expected"), [((), 1), (("--mem-per-cpu=2G",), 0), (("--mem", "64G"), 0), (("--account=me",), 1)]
)
def test_a_job_has_all_memory_unless_the_user_asks_for_some(extra: tuple[str, ...], expected: int) -> None:
    words = sbatch_words(nodes=1, name="x", script=Path("/s/k"), minutes=None, partition=None, exclude=(), extra=extra)
    assert words.count("--mem=0") == expected


def test_a_step_says_everything_that_a_default_could_change() -> None:
    words = srun_words("12", Layout.parse("2x4x3"), "/work", ["python", "-c", "pass"])
    for word in (
        "--jobid=12",
        "--nodes=2",
        "--ntasks=8",
        "--ntasks-per-node=4",
        "--cpus-per-task=3",
        "--overlap",
        "--kill-on-bad-exit=0",
        "--wait=0",
    ):
        assert word in words
    assert words[-3:] == ["python", "-c", "pass"]
    assert "--chdir=/work" in words


def test_the_keeper_ends_when_nobody_writes_any_more(tmp_path: Path) -> None:
    script = keeper_script().replace("sleep 5", "sleep 0.01").replace("-lt 60", "-lt 20")
    alive = tmp_path / "alive"
    alive.write_text("0")
    with subprocess.Popen(["bash", "-c", script, "bash", str(alive)]) as keeper:
        for beat in range(40):
            alive.write_text(str(beat))
            time.sleep(0.005)
        alive.unlink()
        assert keeper.wait(20) == 0


# --- a task's place ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "tasks", "cpus", "local", "threads", "expected"),
    [
        ((4, 5), 2, 2, 1, 1, (4, 5)),  # bound by Slurm
        ((4, 36), 8, 1, 3, 2, (4, 36)),  # bound to a whole core, both its threads
        (tuple(range(8)), 2, 2, 0, 1, (0, 1)),  # not bound
        (tuple(range(8)), 2, 2, 1, 1, (2, 3)),
        ((0, 1), 4, 4, 3, 1, (0, 1)),  # fewer than were asked for
        ((0, 1), 4, 1, 3, 1, (1,)),  # shared in turn
    ],
)
def test_the_cpus_of_a_task(
    allowed: Sequence[int], tasks: int, cpus: int, local: int, threads: int, expected: tuple[int, ...]
) -> None:
    assert worker_cpus(allowed, tasks, cpus, local, threads) == expected


@given(st.integers(1, 16), st.integers(1, 8), st.integers(1, 8))
def test_tasks_that_are_not_bound_share_no_cpu_while_there_are_enough(count: int, tasks: int, cpus: int) -> None:
    sets = [worker_cpus(range(count), tasks, cpus, local, 1) for local in range(tasks)]
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
    config = json.loads(tf_config_of(addresses, 5))
    assert config["task"] == {"type": "worker", "index": 5}
    assert config["cluster"] == {"chief": addresses[:1], "worker": addresses[1:]}


# --- results in the shared folder --------------------------------------------------------------------------------------------

COUNTERS = Counters(cpu_s=1.0, read_bytes=0, physical_read_bytes=0, run_s=None, queued_s=None, host_cpu_s=None, host_steal_s=None)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "VISIBLE_S", 0.3)
    monkeypatch.setattr(results, "LOOK_AGAIN_S", 0.01)


def worker(index: int, **changes: Any) -> WorkerResult:
    rate = Estimate(estimate=100.0 + index, low=99.0, high=120.0, count=8)
    return WorkerResult(**{"index": index, "node": f"n{index}", "status": "done", "samples_per_s": rate, **changes})


def journal(folder: Path, *, is_done: bool) -> None:
    """As a worker leaves it that sampled 200 batches of 4 in two seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = JournalWriter(folder)
    writer.event("imported", import_s=1.0)
    writer.event("built", build_s=0.1, pipeline=None, file_count=None, files=[])
    writer.event("first_batch", first_batch_s=0.1, bytes=64, samples=4)
    writer.event("sampling", counters=asdict(COUNTERS), at_s=10.0)
    writer.chunk(10.0 + np.arange(200) / 100, None, COUNTERS)
    if is_done:
        writer.event("done", stopped_by="budget", epochs=0)


def told(folder: Path, rank: int, result: WorkerResult, *, cut: int = 0) -> Task:
    """A task that ended well, and its file."""
    place = folder / f"worker-{rank}"
    journal(place, is_done=True)
    text = TypeAdapter(WorkerResult).dump_json(result)
    (place / RESULT).write_bytes(text[: len(text) - cut])
    (place / OUTPUT).write_text("")
    ended = {"returncode": 0, "killed_for": None, "why": "", "sizes": {"events.jsonl": (place / "events.jsonl").stat().st_size}}
    return Task(rank=rank, node=f"n{rank}", ended=ended, told={"bytes": len(text), "problem": ""})


def collected(folder: Path, tasks: Sequence[Task]) -> tuple[WorkerResult, ...]:
    return results.collect(folder, tasks, [task.rank for task in tasks], [0.0] * len(tasks), None)[0]


def test_whole_results_are_taken_as_they_are(tmp_path: Path) -> None:
    wanted = [worker(rank) for rank in range(3)]
    assert list(collected(tmp_path, [told(tmp_path, rank, one) for rank, one in enumerate(wanted)])) == wanted


@pytest.mark.parametrize("fault", ["cut", "missing", "garbage", "not told"])
def test_of_a_result_that_did_not_arrive_whole_the_journal_is_read(tmp_path: Path, fault: str) -> None:
    tasks = [told(tmp_path, 0, worker(0)), told(tmp_path, 1, worker(1), cut=5 if fault == "cut" else 0)]
    file = tmp_path / "worker-1" / RESULT
    if fault == "missing":
        file.unlink()
    elif fault == "garbage":
        file.write_bytes(b"\xff" * tasks[1].told["bytes"])  # type: ignore[index]
    elif fault == "not told":
        tasks[1].told = None
    first, second = collected(tmp_path, tasks)
    assert first == worker(0)
    assert second.status == "done"
    assert second.samples_per_s.estimate == pytest.approx(400, rel=0.05)


def test_a_worker_without_any_trace_is_lost_and_says_so(tmp_path: Path) -> None:
    tasks = [
        told(tmp_path, 0, worker(0)),
        Task(rank=1, node="n1", ended={"returncode": 0, "killed_for": None, "why": "", "sizes": {}}),
    ]
    _, second = collected(tmp_path, tasks)
    assert second.status == "lost"
    assert "missing" in second.message


def test_a_lost_task_keeps_what_it_measured_and_names_the_cause(tmp_path: Path) -> None:
    journal(tmp_path / "worker-1", is_done=False)
    with (tmp_path / "worker-1" / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "chu')  # its last line, half-written
    tasks = [told(tmp_path, 0, worker(0)), Task(rank=1, node="n1", lost="node n1 fell silent; Slurm has n1 as DOWN*")]
    _, second = collected(tmp_path, tasks)
    assert second.status == "lost"
    assert second.message == "node n1 fell silent; Slurm has n1 as DOWN*"
    assert second.samples_per_s.estimate == pytest.approx(400, rel=0.05)


def test_a_result_that_could_not_be_written_is_told_with_its_reason(tmp_path: Path) -> None:
    journal(tmp_path / "worker-1", is_done=False)
    task = Task(
        rank=1,
        node="n1",
        ended={"returncode": 74, "killed_for": None, "why": "", "sizes": {}},
        told={"bytes": None, "problem": "disk quota exceeded"},
    )
    _, second = collected(tmp_path, [told(tmp_path, 0, worker(0)), task])
    assert second.status == "lost"
    assert "disk quota exceeded" in second.message


def test_a_kernel_that_ended_a_task_for_its_memory_is_named(tmp_path: Path) -> None:
    journal(tmp_path / "worker-1", is_done=False)
    ended = {"returncode": -9, "killed_for": None, "why": "the kernel ended it for the memory of its control group", "sizes": {}}
    _, second = collected(tmp_path, [told(tmp_path, 0, worker(0)), Task(rank=1, node="n1", ended=ended)])
    assert second.status == "lost"
    assert "control group" in second.message


# --- a job of ours, with programs that only look like Slurm's -----------------------------------------------------------------

REQUEST = AllocationRequest(
    nodes=2, most_nodes=4, partition=None, exclude=(), sbatch_args=(), queue_s=60.0, measure_s=60.0, shared_dir=None
)  # fmt: skip
NO_ANSWER = "Socket timed out on send/recv operation"
PATIENCE_S = 100.0


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
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            if sum(wanted in call.split() for call in self.calls("scancel")) >= times:
                return True
            time.sleep(0.02)
        return False


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    made = Slurm(tmp_path)
    monkeypatch.setenv("PATH", f"{made.programs}:{os.environ['PATH']}")
    monkeypatch.setattr(scratch, "CANCEL_S", "0 0")
    monkeypatch.setattr(scratch, "CANCEL_LATE_S", "0.1")
    return made


def opened(slurm: Slurm, told: Callable[[str], None] = lambda what: None) -> allocation.Allocation:
    return allocation.open_allocation(replace(REQUEST, shared_dir=slurm.shared), {}, told)


@pytest.mark.parametrize(
    ("script", "words"),
    [("sleep 60", "did not answer within 0.5 s"), (f"echo 'sbatch: error: {NO_ANSWER}' >&2; exit 1", "Socket timed out")],
)
def test_a_submission_without_an_answer_leaves_no_job(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    """Slurm may queue it all the same, also when we are gone."""
    monkeypatch.setattr(slurm_commands, "PATIENCE_S", 0.5)
    slurm.does("sbatch", script)
    with pytest.raises(Unanswered, match=f"{words}.*cancelled"):
        opened(slurm)
    assert slurm.cancelled_by_name(3)
    assert list(slurm.shared.iterdir()) == []


def test_a_submission_that_ctrl_c_meets_leaves_no_job(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = jobs.submit

    def interrupted(words: Sequence[str]) -> str:
        submit(words)
        raise KeyboardInterrupt

    slurm.does("sbatch", "echo 7")
    monkeypatch.setattr(jobs, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened(slurm)
    assert slurm.cancelled_by_name(3)
    assert list(slurm.shared.iterdir()) == []


def test_of_a_job_that_was_refused_nothing_is_cancelled(slurm: Slurm) -> None:
    slurm.does("sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1")
    with pytest.raises(LaunchError, match="refused the job: invalid partition"):
        opened(slurm)
    assert psutil.Process().children() == []  # its guard has ended
    assert slurm.calls("scancel") == []
    assert list(slurm.shared.iterdir()) == []


@pytest.mark.parametrize(("script", "is_answered"), [("exit 0", True), (f"echo 'scancel: error: {NO_ANSWER}' >&2; exit 1", False)])
def test_a_job_that_could_not_be_cancelled_is_cancelled_by_its_guard(slurm: Slurm, script: str, is_answered: bool) -> None:
    slurm.does("sbatch", "echo 7")
    slurm.does("squeue", "echo 'RUNNING|None|n[1-2]'")
    slurm.does("scancel", script)
    opened(slurm).close()
    assert slurm.calls("scancel")[0] == "--quiet 7"
    if is_answered:
        assert len(slurm.calls("scancel")) == 1
    else:
        assert slurm.cancelled_by_name(3)
    assert list(slurm.shared.iterdir()) == []


class Queue:
    """What squeue answers, one by one; a LaunchError where it does not. Each question takes three seconds."""

    def __init__(self, *answers: JobState | None) -> None:
        self.now_s = 0.0
        self._answers = list(answers)

    def __call__(self, job_id: str) -> JobState:
        self.now_s += 3.0
        answer = self._answers.pop(0)
        if answer is None:
            raise LaunchError(f"squeue does not answer: {NO_ANSWER}")
        return answer


PENDING = JobState(state="PENDING", reason="Resources", nodes="")
RUNNING = JobState(state="RUNNING", reason="", nodes="n[1-2]")


def waited(queue: Queue, slurm: Slurm, monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    slurm.does("sbatch", "echo 7")
    monkeypatch.setattr(jobs, "job_state", queue)
    monkeypatch.setattr(allocation.time, "sleep", lambda _: None)
    asked = replace(REQUEST, shared_dir=slurm.shared, queue_s=1e6)
    allocation.open_allocation(asked, {}, told.append, lambda: queue.now_s).close()


@pytest.mark.parametrize("silent", [1, 29])
def test_a_queue_that_is_silent_for_a_while_keeps_the_place(silent: int, slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    queue = Queue(PENDING, *[None] * silent, PENDING, *[None] * silent, RUNNING)
    waited(queue, slurm, monkeypatch, told)
    assert [line.startswith("job 7 keeps its place") and NO_ANSWER in line for line in told] == [False, True, False, True, False]
    assert "has n[1-2]" in told[-1]


def test_one_that_stays_silent_is_given_up(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    with pytest.raises(LaunchError, match=r"Socket timed out.*90 s.*cancelled"):
        waited(Queue(PENDING, *[None] * 100), slurm, monkeypatch, told)
    assert slurm.calls("scancel") == ["--quiet 7"]
    assert list(slurm.shared.iterdir()) == []
