"""Launches on Slurm where one fake plays its programs and agents: jobs, steps of many tasks, journals in the shared folder."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from cs_input_analyzer.engines import LaunchResult, scratch
from cs_input_analyzer.engines.slurm import SlurmLauncher, allocation, jobs, results
from cs_input_analyzer.engines.slurm import step as job_step
from cs_input_analyzer.engines.slurm.jobs import JobState
from cs_input_analyzer.engines.slurm.node_worker import OUTPUT
from cs_input_analyzer.engines.slurm.step import Task
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.host.cluster import slurm_commands
from cs_input_analyzer.host.cluster.slurm_commands import Unanswered
from cs_input_analyzer.host.counters import CounterReader
from cs_input_analyzer.records import Layout, Options, WorkerResult
from cs_input_analyzer.worker.journal import EVENTS
from tests.builders import make_cluster, make_work_plan
from tests.engines.fake_slurm import FAULTS, FakeSlurm, fates, rate, write_journal

# --- journals in the shared folder --------------------------------------------------------------------------------------------


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
        (ended(1, -9, why="the kernel ended it because its control group ran out of memory"), True, "control group"),
        (Task(rank=1, node="n1", lost="node n1 stopped answering"), True, "node n1 stopped answering"),
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


# --- a job of ours -----------------------------------------------------------------

CLUSTER = make_cluster(nodes=4)
NO_ANSWER = "Socket timed out on send/recv operation"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    made = FakeSlurm(tmp_path)
    monkeypatch.setenv("PATH", f"{made.programs}:{os.environ['PATH']}")
    monkeypatch.setattr(scratch, "CANCEL_S", "0 0")
    monkeypatch.setattr(scratch, "CANCEL_LATE_S", "0.1")
    yield made
    assert list(made.shared.iterdir()) == []


def opened(slurm: FakeSlurm) -> allocation.Allocation:
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
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, script: str, error: type[BaseException], words: str | None
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


def test_of_a_job_that_was_refused_nothing_is_cancelled(slurm: FakeSlurm) -> None:
    slurm.does("sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1")
    before = psutil.Process().children()
    with pytest.raises(LaunchError, match="refused the job: invalid partition"):
        opened(slurm)
    assert psutil.Process().children() == before  # its guard has ended
    assert slurm.calls("scancel") == []


def test_a_job_that_slurm_has_forgotten_is_gone_and_one_that_cannot_be_asked_for_is_not(slurm: FakeSlurm) -> None:
    slurm.does("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert jobs.job_state("7") is None
    assert jobs.has_ended("7")
    slurm.does("squeue", f"echo 'squeue: error: {NO_ANSWER}' >&2; exit 1")
    assert not jobs.has_ended("7")
    with pytest.raises(LaunchError, match=r"squeue does not answer: .*timed out"):
        jobs.job_state("7")


@pytest.mark.parametrize(("state", "is_over"), [("RUNNING", False), ("COMPLETING", True), ("CANCELLED", True)])
def test_a_job_that_is_being_ended_is_over(slurm: FakeSlurm, state: str, is_over: bool) -> None:
    slurm.does("squeue", f"echo '{state}|None|n1|4|1'")
    assert jobs.has_ended("7") is is_over


def test_the_states_of_nodes_are_those_that_slurm_prints(slurm: FakeSlurm) -> None:
    slurm.does("scontrol", "echo 'NodeName=n1 Arch=x State=DOWN+NOT_RESPONDING '; echo 'NodeName=n2 State=IDLE Owner=N/A'")
    assert jobs.node_states(["n1", "n2"]) == {"n1": "DOWN+NOT_RESPONDING", "n2": "IDLE"}


@pytest.mark.parametrize(("script", "is_answered"), [("exit 0", True), (f"echo 'scancel: error: {NO_ANSWER}' >&2; exit 1", False)])
def test_a_job_that_could_not_be_cancelled_is_cancelled_by_its_guard(slurm: FakeSlurm, script: str, is_answered: bool) -> None:
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


def waited(answers: list[JobState | None], slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
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
def test_a_queue_that_is_silent_for_a_while_keeps_the_place(silent: int, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    waited([PENDING, *[None] * silent, PENDING, *[None] * silent, RUNNING], slurm, monkeypatch, told)
    assert [line.startswith("job 7 keeps its place") and NO_ANSWER in line for line in told] == [False, True, False, True, False]
    assert "has n[1-2]" in told[-1]


def test_one_that_stays_silent_is_given_up(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LaunchError, match=r"Socket timed out.*90 s.*cancelled"):
        waited([PENDING, *[None] * 100], slurm, monkeypatch, [])
    assert slurm.calls("scancel") == ["--quiet 7"]


# --- steps of many tasks whose nodes delay, fall silent and die at random ----------------------------------------------------

CPUS = 64
WRITTEN = ("fine", "late")
Launch = Callable[..., LaunchResult]


@pytest.fixture
def launched(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Launches on an allocation of the fake, and looks that nothing of it is left."""
    slurm.does("srun", f'exec {sys.executable} -m tests.engines.fake_slurm "$@"')
    slurm.does("squeue", f"echo 'RUNNING|None|n[0-9]|{CPUS}|1'")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(results, "VISIBLE_S", 2.0)

    def launch(layout: str, silence_s: float = 4.0, **chosen: Any) -> LaunchResult:
        shape = Layout.parse(layout)
        monkeypatch.setattr(job_step, "SILENCE_S", silence_s)
        if "never" in chosen.get("faults", ()):  # all that such tasks cost is waiting
            monkeypatch.setattr(job_step, "BEGIN_PATIENCE_S", 10.0)
        monkeypatch.setenv("SLURM_JOB_NUM_NODES", str(shape.nodes))
        monkeypatch.setenv("FAKE_SLURM", json.dumps({"seed": 0, "faults": {}, "step": "whole", **chosen}))
        launcher = SlurmLauncher(Options(shared_dir=str(slurm.shared)), make_cluster())
        try:
            assert launcher.host.cpu_budget == chosen.get("cpus", CPUS)  # what Slurm gave, whatever this host has
            handle = launcher.start(shape)
            return launcher.run(handle, make_work_plan("data.py:f", shape.tasks, deadline_s=launcher.now_s() + 60.0))
        finally:
            launcher.close()
            assert [process for process in psutil.Process().children(recursive=True) if "srun" in process.cmdline()] == []

    return launch


def check(result: LaunchResult, tasks: int, **chosen: Any) -> None:
    workers = result.measurement.workers
    found = fates(tasks, {"seed": 0, **chosen})
    assert [worker.index for worker in workers] == list(range(tasks))
    for worker, fate in zip(workers, found, strict=True):
        assert (worker.status == "done") is (fate in WRITTEN), (fate, worker.message)
        if fate in WRITTEN:
            # Seconds since the epoch are exact to 0.24 us, 6e-5 of the 4 ms between two batches.
            assert worker.samples_per_s.estimate == pytest.approx(rate(worker.index), rel=1e-3)
        else:
            assert worker.message
            assert (worker.samples_per_s is not None) is (fate in ("killed", "cut")) or fate == "silent"


def test_each_task_is_whole_or_says_what_became_of_it(launched: Launch) -> None:
    chosen = {"faults": dict.fromkeys(FAULTS, 0.08)}
    check(launched("40x5x1", **chosen), 200, **chosen)


def test_of_a_step_whose_srun_dies_the_journals_are_kept(launched: Launch) -> None:
    workers = launched("20x5x1", step="dies", faults={"killed": 0.5}).measurement.workers
    assert len(workers) == 100
    assert all(worker.status != "done" and worker.message for worker in workers)
    assert any(worker.samples_per_s is not None for worker in workers)


def test_an_srun_that_ignores_everything_is_ended(launched: Launch) -> None:
    check(launched("2x2x1", step="hangs"), 4, faults={})


def test_a_step_that_slurm_refuses_is_said(launched: Launch) -> None:
    with pytest.raises(LaunchError, match="Memory required by task is not available"):
        launched("2x2x1", step="refused")


def test_an_allocation_of_unlike_nodes_gives_the_cpus_of_its_smallest(launched: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", f"{2 * CPUS}(x2),8")
    check(launched("3x2x1", cpus=8), 6, faults={})


@pytest.mark.long
@pytest.mark.slow
def test_more_workers_than_a_process_may_have_files_open(launched: Launch) -> None:
    """How long their journals take to collect is the question of `benchmarks.slurm`."""
    chosen = {"seed": 1, "faults": dict.fromkeys(FAULTS, 0.01)}
    check(launched("250x10x1", silence_s=15.0, **chosen), 2_500, **chosen)
