"""Workers as tasks of a real Slurm: what they see, how they end, and what is left of them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from cs_input_analyzer.engines import scratch
from cs_input_analyzer.engines.slurm import SlurmLauncher, step
from cs_input_analyzer.engines.slurm import launcher as slurm_launcher
from cs_input_analyzer.engines.slurm.agent import Settings, variables_of_task
from cs_input_analyzer.engines.slurm.step import JobStep
from cs_input_analyzer.engines.starting import WorkerKind
from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.model.node_list import expand_nodelist
from cs_input_analyzer.records import Layout, Options
from cs_input_analyzer.worker.isolation import AWAY
from tests.builders import make_cluster
from tests.engines.launching import check_places, launched, plan_for
from tests.functional.running import ran
from tests.slurm.private_slurm import PrivateSlurm
from tests.waiting import PATIENCE_S, comes

ROOT = Path(__file__).resolve().parents[2]
LIGHT_AGENT = "tests.slurm.light_agent"

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def started(folder: Path, *, told: Any = lambda what: None, **choices: Any) -> SlurmLauncher:
    """A launcher on two of the four nodes, unless `choices` (options, or fields of the cluster) say otherwise."""
    of_cluster = {"nodes": 4, "partition": "main", "excluded_nodes": ("wafer", "broken")}
    of_cluster |= {name: choices.pop(name) for name in tuple(choices) if name in of_cluster}
    asked = {"slurm_nodes": 2, "queue_timeout_s": 60.0, "shared_dir": str(folder), **choices}
    more = {name: asked.pop(name) for name in ("kind",) if name in asked}
    return SlurmLauncher(Options(**asked), make_cluster(**of_cluster), on_status=told, **more)


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that only keep a journal: for what does not depend on what they do."""
    monkeypatch.setattr(slurm_launcher, "AGENT", LIGHT_AGENT)


@contextmanager
def launcher_on(slurm: PrivateSlurm, folder: Path, **choices: Any) -> Iterator[SlurmLauncher]:
    """A launcher whose job and folder are gone afterwards, whatever became of it."""
    made = started(folder, **choices)
    try:
        yield made
    finally:
        made.close()
    assert not made.folder.exists()
    assert list(folder.iterdir()) == []
    assert made.job_id not in {line.split()[0] for line in slurm.jobs()}


def when(condition: Callable[[], bool], do: Callable[[], object]) -> threading.Thread:
    """Does something from beside, as soon as a condition holds."""

    def watch() -> None:
        assert comes(condition)
        do()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def window(seconds: float) -> dict[str, float]:
    """A window of this length, however well the rate is known before its end."""
    return {"min_window_s": seconds, "max_window_s": seconds, "target_error_ratio": 1e-9}


def samples(launcher: SlurmLauncher, workers: int) -> Callable[[], bool]:
    """Whether so many workers have sampled for a moment: a rate can be told of what they have written down."""

    def found() -> bool:
        journals = launcher.folder.glob("step-*/worker-*/events.jsonl")
        return sum(file.read_bytes().count(b'"chunk"') > 8 for file in journals) >= workers

    return found


# --- the allocation ----------------------------------------------------------------------------------------------------------


def test_nodes_are_taken_looked_at_and_given_back(slurm: PrivateSlurm, tmp_path: Path, light: None) -> None:
    told: list[str] = []
    with launcher_on(slurm, tmp_path, told=told.append) as launcher:
        assert launcher.nodes == 2
        assert launcher.host.hostname in slurm.nodes
        assert launcher.host.cpu_budget == 2
        assert launcher.job_id in launcher.host.cpu_budget_source
        assert slurm.jobs() == (f"{launcher.job_id} RUNNING",)
        assert slurm.steps() == ()
        for layout in ("3x1x1", "1x3x1", "1x1x3"):
            with pytest.raises(LaunchError, match=layout):
                launcher.start(Layout.parse(layout))
        # Workers that are never ordered are gone after the end.
        launcher.start(Layout.parse("2x2x1"))
        launcher.start(Layout.parse("1x1x2"))
        assert comes(lambda: len(list(launcher.folder.glob("step-*/worker-*/events.jsonl"))) == 5)
        assert len(slurm.steps()) == 2
    assert slurm.steps() == slurm.jobs() == ()
    assert any(launcher.job_id in line for line in told)


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"slurm_nodes": 9}, "wait for ever"),
        ({"slurm_nodes": 9, "nodes": 9, "excluded_nodes": ()}, r"can never start.*PartitionNodeLimit"),
        ({"partition": "no-such"}, r"sbatch refused.*invalid partition"),
        ({"shared_dir": "/no/such/folder"}, "--shared-dir"),
        ({"cpus": 3}, "--cpus 3"),
    ],
)
def test_what_cannot_be_had_is_refused_at_once(slurm: PrivateSlurm, tmp_path: Path, choices: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError if "cpus" in choices else LaunchError, match=says):
        started(tmp_path, **choices)
    assert list(tmp_path.iterdir()) == []


def test_a_full_queue_is_given_up_in_time_and_shown_meanwhile(slurm: PrivateSlurm, tmp_path: Path) -> None:
    told: list[str] = []
    asked = ("--nodes=4", "--exclusive", "--exclude=wafer,broken", "--output=/dev/null", "--wrap=sleep 600")
    other = slurm.ask("sbatch", "--parsable", *asked).strip()
    try:
        with pytest.raises(LaunchError, match=r"waited 2 s in the queue.*cancelled"):
            started(tmp_path, queue_timeout_s=2.0, told=told.append)
        assert [line.split()[0] for line in slurm.jobs()] == [other]
    finally:
        slurm.ask("scancel", other)
    assert any("PENDING" in line for line in told)
    assert list(tmp_path.iterdir()) == []


# A launcher in a process of its own, to be killed, or run inside an allocation. It says when it has its nodes.
OPENED = """
import sys, time
from pathlib import Path
from tests.slurm.test_slurm_launcher import LIGHT_AGENT, slurm_launcher, started
from cs_input_analyzer.records import Layout, Options
slurm_launcher.AGENT = LIGHT_AGENT
launcher = started(Path(sys.argv[1]), slurm_nodes=None)
launcher.start(Layout.parse("2x1x1"))
print("HAS", launcher.nodes, launcher.job_id, launcher.folder, flush=True)
if sys.argv[2] == "leave":
    launcher.close()
else:
    time.sleep(600)
"""


def opened(slurm: PrivateSlurm, folder: Path, what: str, *before: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*before, sys.executable, "-c", OPENED, str(folder), what],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**slurm.environment(), "PYTHONPATH": str(ROOT)},
    )


def test_a_launcher_that_is_killed_leaves_no_job_and_no_file(slurm: PrivateSlurm, tmp_path: Path) -> None:
    with opened(slurm, tmp_path, "stay") as process:
        said = process.stdout.readline().split()
        assert said[0] == "HAS"
        assert slurm.jobs() == (f"{said[2]} RUNNING",)
        process.kill()
    assert comes(lambda: not slurm.jobs() and not list(tmp_path.iterdir()))


def test_inside_an_allocation_that_is_used_and_left_alone(slurm: PrivateSlurm, tmp_path: Path) -> None:
    command = ["salloc", "--quiet", "--nodes=2", "--exclusive", "--exclude=wafer,broken"]
    with opened(slurm, tmp_path, "leave", *command) as process:
        said = process.stdout.read().split()
    assert process.returncode == 0
    assert said[:2] == ["HAS", "2"]
    assert list(tmp_path.iterdir()) == []


# --- what a worker sees of itself --------------------------------------------------------------------------------------------


@pytest.mark.tf
def test_each_worker_has_its_own_place(slurm: PrivateSlurm, tmp_path: Path) -> None:
    shared, seen_in = tmp_path / "shared", tmp_path / "seen"
    shared.mkdir()
    seen_in.mkdir()
    params = {"to": f"{seen_in}/", "batch_size": 4}
    with launcher_on(slurm, shared, kind=WorkerKind(isolates=False)) as launcher:
        found = launched(launcher, "tells_what_it_sees", "2x2x1", params_json=json.dumps(params), num_workers=6, max_window_s=2.0)
    measurement = found.measurement
    assert [(worker.index, worker.status, worker.message) for worker in measurement.workers] == [(i, "done", "") for i in range(4)]
    assert [worker.node for worker in measurement.workers] == ["n1", "n1", "n2", "n2"]
    assert found.failure is None
    assert found.pipeline is not None
    assert found.profile is not None
    assert measurement.samples_per_s is not None
    assert measurement.num_workers == 6
    assert found.starting_s > 0

    seen = [json.loads((seen_in / f"{index}.json").read_text()) for index in range(4)]
    check_places(seen, (0, 1, 2, 3), 6, params, os.getcwd())
    assert [[told["slurm"][name] for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")] for told in seen] == [
        ["0", "0", "0"], ["1", "1", "0"], ["2", "0", "1"], ["3", "1", "1"],
    ]  # fmt: skip
    hosts = [address.partition(":")[0] for address in seen[0]["tf_config"]["cluster"]["worker"]]
    assert hosts[:4] == ["n1", "n1", "n2", "n2"]
    assert len(set(seen[0]["tf_config"]["cluster"]["worker"])) == 6


OF_THE_STEP = (
    "SLURM_JOB",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_CPU_BIND",
    "SLURM_TASK_PID",
    "SLURM_SRUN",
    "SLURM_STEP_LAUNCHER",
)


def variables_under(slurm: PrivateSlurm, folder: Path, *words: str) -> list[dict[str, str]]:
    """Return what srun gives each task of a step on two nodes, by rank."""
    folder.mkdir()
    slurm.ask("srun", "--nodes=2", "--exclude=wafer,broken", f"--output={folder}/%t", *words, "env")
    files = sorted(folder.iterdir(), key=lambda file: int(file.name))
    lines = [[line.partition("=") for line in file.read_text().splitlines()] for file in files]
    return [{name: value for name, _, value in each if name.startswith("SLURM_")} for each in lines]


def test_a_worker_has_the_variables_that_srun_gives_a_task(slurm: PrivateSlurm, tmp_path: Path) -> None:
    """All of them but those that differ from one step to the next."""
    agents = variables_under(slurm, tmp_path / "agents", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=2")
    slurm.wait_for_idle()
    tasks = variables_under(slurm, tmp_path / "tasks", "--ntasks=4", "--ntasks-per-node=2", "--cpus-per-task=1")
    settings = Settings(tasks_per_node=2, cpus_per_task=1, memory_limit_bytes=None, kind=WorkerKind())
    assert len(tasks) == 4
    for rank, task in enumerate(tasks):
        agent = agents[rank // 2]
        found = agent | variables_of_task(agent, settings, rank % 2)
        names = {name for name in found | task if not name.startswith(OF_THE_STEP)}
        assert {name: found.get(name) for name in names} == {name: task.get(name) for name in names}


@pytest.mark.tf
def test_a_cache_on_a_nodes_own_disk_is_gone_when_its_step_ends(
    slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher, whose host may not have that disk, has then removed nothing yet."""
    if os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm and the folder of the tests are one file system")
    moved: list[Path] = []
    left: list[Path] = []

    def remove(folder: Path) -> None:
        moved.extend(link.readlink() for link in folder.glob(f"*/{AWAY}*"))
        left.extend(place for place in moved if place.exists())
        scratch.remove(folder)

    monkeypatch.setattr(slurm_launcher, "remove", remove)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as disk, launcher_on(slurm, tmp_path) as launcher:
        found = launched(launcher, "caches_where_it_is_told", params_json=json.dumps({"to": f"{disk}/store"}), max_window_s=1.0)
        assert found.failure is None
        assert [place.parent for place in moved if place.parent == Path(disk)] == [Path(disk)]
        assert (left, os.listdir(disk)) == ([], [])


# --- how workers end ---------------------------------------------------------------------------------------------------------


def when_told(monkeypatch: pytest.MonkeyPatch, do: str, then: Callable[[], object]) -> None:
    """Does something before the tasks of a step get a message of this kind for the first time."""
    tell, is_done = JobStep.tell, list[bool]()

    def told(step: JobStep, what: str, **fields: object) -> None:
        if what == do and not is_done:
            is_done.append(True)
            then()
        tell(step, what, **fields)

    monkeypatch.setattr(JobStep, "tell", told)


# All of them where FAULT_RUNS is set, as for the ends of a run: which messages srun passes on to a dead node differs.
MESSAGES = {"before its order": "order", "before sampling": "go", "sampling": "", "leaving": "leave"}


@pytest.mark.parametrize("place", [0, 1] if os.environ.get("FAULT_RUNS") else [1])
@pytest.mark.parametrize("phase", MESSAGES if os.environ.get("FAULT_RUNS") else ["sampling"])
def test_a_node_may_die_in_any_phase_of_a_launch(
    slurm: PrivateSlurm, tmp_path: Path, light: None, monkeypatch: pytest.MonkeyPatch, phase: str, place: int
) -> None:
    """Its worker is lost, and the other one counts. What it had measured before that is kept."""
    monkeypatch.setattr(step, "SILENCE_S", 4.0)
    with launcher_on(slurm, tmp_path) as launcher:
        node = expand_nodelist(slurm.ask("squeue", "--noheader", "--format=%N").strip())[place]  # of those that Slurm gave
        watch = when(samples(launcher, 2), lambda: slurm.kill_node(node)) if phase == "sampling" else None
        when_told(monkeypatch, MESSAGES[phase], lambda: slurm.kill_node(node))
        try:
            found = launched(launcher, "endless", "2x1x1", **window(6.0))
        finally:
            if watch is not None:
                watch.join()
            slurm.start_node(node)
    slurm.wait_for_idle()
    lost, kept = sorted(found.measurement.workers, key=lambda worker: worker.node != node)
    if kept.status == "lost" and phase.startswith("before"):
        # Now and then srun gives up a whole step if it cannot pass a message on to one of its nodes.
        assert kept.message.startswith("its step ended: ")
        return
    assert (kept.status, kept.samples_per_s is not None) == ("done", True), kept.message
    # Once its worker is over, all that it measured is in the shared folder.
    assert lost.node == node
    assert (lost.status, node in lost.message) == ("lost", True) or phase == "leaving"
    assert (lost.samples_per_s is not None) == (phase in ("sampling", "leaving"))
    assert (found.failure, found.measurement.samples_per_s is not None) == (None, True)


@pytest.mark.long
def test_a_node_that_dies_while_the_nodes_are_looked_at_ends_it(slurm: PrivateSlurm, tmp_path: Path) -> None:
    def told(what: str) -> None:
        if what == "checking the nodes":
            slurm.kill_node("n2")

    try:
        with pytest.raises(LaunchError, match=r"cannot be used.*n2"):
            started(tmp_path, told=told)
    finally:
        slurm.start_node("n2")
    assert list(tmp_path.iterdir()) == []
    assert comes(lambda: not slurm.jobs())
    slurm.wait_for_idle()


def test_a_worker_that_hangs_and_one_that_is_killed_keep_what_they_measured(
    slurm: PrivateSlurm, tmp_path: Path, light: None
) -> None:
    def kill_the_second() -> None:
        place = str(next(launcher.folder.glob("step-*/worker-1")))
        (process,) = [each for each in psutil.process_iter(["cmdline"]) if (each.info["cmdline"] or [""])[-1] == place]
        process.kill()

    with launcher_on(slurm, tmp_path) as launcher:
        handle = launcher.start(Layout.parse("1x2x1"))
        handle.step.wait(lambda task: "imported" in task.heard, time.monotonic() + PATIENCE_S)
        watch = when(samples(launcher, 2), kill_the_second)
        found = launcher.run(handle, plan_for("hangs", launcher, 2, max_window_s=60.0, deadline_s=launcher.now_s() + 6))
        watch.join()
    first, second = found.measurement.workers
    assert (first.status, second.status, found.failure) == ("deadline", "lost", None)
    assert "killed by signal 9" in second.message
    assert first.samples_per_s is not None
    assert second.samples_per_s is not None


def test_a_task_that_slurm_ends_for_its_memory(slurm: PrivateSlurm, tmp_path: Path, light: None) -> None:
    with launcher_on(slurm, tmp_path, partition="small", slurm_nodes=1, nodes=1, excluded_nodes=()) as launcher:
        found = launched(launcher, "eats_memory", max_window_s=30.0)
    (worker,) = found.measurement.workers
    assert worker.status == "lost"
    assert "memory" in worker.message
    assert worker.samples_per_s is not None


def test_a_cancelled_job_loses_what_runs_and_nothing_else(slurm: PrivateSlurm, tmp_path: Path, light: None) -> None:
    with launcher_on(slurm, tmp_path) as launcher:
        watch = when(samples(launcher, 2), lambda: slurm.ask("scancel", launcher.job_id))
        found = launched(launcher, "endless", "2x1x1", **window(30.0))
        watch.join()
        with pytest.raises(LaunchError, match=r"did not come up .* the Slurm job is over"):
            launched(launcher, "endless")
    for worker in found.measurement.workers:
        assert worker.status == "lost"
        assert "Slurm" in worker.message
        assert worker.samples_per_s is not None


def can_unshare() -> bool:
    return bool(shutil.which("unshare")) and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="this user may not mount: nodes cannot be made to see another folder")
def test_a_folder_that_a_node_does_not_see_is_found_out(slurm: PrivateSlurm, tmp_path: Path) -> None:
    """The launcher sees another file system at that place than the nodes do."""
    script = f"mount -t tmpfs none {tmp_path} && exec {sys.executable} -c {shlex.quote(OPENED)} {tmp_path} leave"
    done = ran(["unshare", "--mount", "sh", "-c", script], timeout_s=PATIENCE_S, **slurm.environment())
    assert done.returncode != 0
    assert "cannot be used: node n1 cannot use" in done.stderr
    assert "--shared-dir" in done.stderr
    assert slurm.jobs() == ()
