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

import pytest

from cs_input_analyzer.engines import LaunchResult, WorkPlan
from cs_input_analyzer.engines.slurm import AllocationRequest, SlurmLauncher, node_check
from cs_input_analyzer.engines.slurm import launcher as slurm_launcher
from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.records import Layout
from tests.builders import make_work_plan
from tests.functional.running import ran, sleeps_left
from tests.slurm.private_slurm import PrivateSlurm, private_slurm

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = ROOT / "tests" / "functional" / "input_functions.py"
# Of one launch: far more than it takes, so that only a hang meets it.
PATIENCE_S = 120.0
SILENCE_S = 4.0
LIGHT_AGENT = "tests.slurm.light_agent"

pytestmark = [pytest.mark.slurm, pytest.mark.slow, pytest.mark.tf]


def allocation_request(**choices: Any) -> AllocationRequest:
    return AllocationRequest(
        **{
            "nodes": 2,
            "most_nodes": 4,
            "partition": "main",
            "exclude": ("wafer", "broken"),
            "sbatch_args": (),
            "queue_s": 60.0,
            "measure_s": 60.0,
            "shared_dir": None,
            **choices,
        }
    )


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that only keep a journal: for what does not depend on what they do."""
    monkeypatch.setattr(slurm_launcher, "AGENT", LIGHT_AGENT)


@contextmanager
def launcher_on(slurm: PrivateSlurm, folder: Path, **choices: Any) -> Iterator[SlurmLauncher]:
    """A launcher whose job and folder are gone afterwards, whatever became of it."""
    made = SlurmLauncher(
        allocation_request(shared_dir=folder, **choices),
        silence_s=SILENCE_S,
        worker_memory_bytes=choices.pop("worker_memory_bytes", None),
    )
    try:
        yield made
    finally:
        made.close()
    assert not made.folder.exists()
    assert list(folder.iterdir()) == []
    assert made.job_id not in {line.split()[0] for line in slurm.jobs()}


def plan_for(function: str, launcher: SlurmLauncher, tasks: int = 1, **choices: Any) -> WorkPlan:
    choices = {"deadline_s": launcher.now_s() + PATIENCE_S, **choices}
    return make_work_plan(f"{FUNCTIONS}:{function}", tasks, **choices)


def launched(launcher: SlurmLauncher, function: str, layout: str = "1x1x1", **choices: Any) -> LaunchResult:
    shape = Layout.parse(layout)
    return launcher.run(launcher.start(shape), plan_for(function, launcher, shape.tasks, **choices))


def when(condition: Callable[[], bool], do: Callable[[], object]) -> threading.Thread:
    """Does something from beside, as soon as a condition holds."""

    def watch() -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline_s:
                return
            time.sleep(0.05)
        do()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def samples(launcher: SlurmLauncher, workers: int) -> Callable[[], bool]:
    """Whether so many workers have sampled for a moment: a rate can be told of what they have written down."""

    def found() -> bool:
        journals = [file.read_bytes() for file in launcher.folder.glob("step-*/worker-*/events.jsonl")]
        return sum(text.count(b'"chunk"') > 8 for text in journals) >= workers

    return found


# --- the allocation ----------------------------------------------------------------------------------------------------------


def test_nodes_are_taken_looked_at_and_given_back(slurm: PrivateSlurm, tmp_path: Path) -> None:
    told: list[str] = []
    launcher = SlurmLauncher(allocation_request(shared_dir=tmp_path), on_status=told.append)
    try:
        assert launcher.nodes == 2
        assert launcher.host.hostname in slurm.nodes
        assert launcher.host.cpu_budget == 2
        assert launcher.job_id in launcher.host.cpu_budget_source
        assert slurm.jobs() == (f"{launcher.job_id} RUNNING",)
        assert slurm.steps() == ()
        assert launcher.folder.parent == tmp_path
    finally:
        launcher.close()
    assert slurm.jobs() == ()
    assert list(tmp_path.iterdir()) == []
    assert any(launcher.job_id in line for line in told)


def test_the_cpus_of_a_node_are_those_that_slurm_gave(
    tmp_path: Path, cluster: PrivateSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of this host, which all virtual nodes are."""
    many = (os.cpu_count() or 1) + 3
    folder = Path(tempfile.mkdtemp(prefix="slurm_", dir="/tmp"))
    try:
        with private_slurm(folder, nodes=1, cpus=many) as slurm:
            monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
            launcher = SlurmLauncher(allocation_request(nodes=1, shared_dir=tmp_path))
            launcher.close()
        assert launcher.host.cpu_budget == many
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"nodes": 9}, "wait for ever"),
        ({"nodes": 9, "most_nodes": None, "exclude": ()}, r"can never start.*PartitionNodeLimit"),
        ({"partition": "no-such"}, r"sbatch refused.*invalid partition"),
    ],
)
def test_a_job_that_cannot_be_had_is_refused_at_once(
    slurm: PrivateSlurm, tmp_path: Path, choices: dict[str, Any], says: str
) -> None:
    with pytest.raises(LaunchError, match=says):
        SlurmLauncher(allocation_request(shared_dir=tmp_path, **choices))
    assert list(tmp_path.iterdir()) == []


def test_a_full_queue_is_given_up_in_time_and_shown_meanwhile(slurm: PrivateSlurm, tmp_path: Path) -> None:
    other = slurm.ask(
        "sbatch", "--parsable", "--nodes=4", "--exclusive", "--exclude=wafer,broken", "--output=/dev/null", "--wrap=sleep 600"
    ).strip()
    told: list[str] = []
    try:
        with pytest.raises(LaunchError, match=r"waited 2 s in the queue.*cancelled"):
            SlurmLauncher(allocation_request(queue_s=2.0, shared_dir=tmp_path), on_status=told.append)
        assert [line.split()[0] for line in slurm.jobs()] == [other]
    finally:
        slurm.ask("scancel", other)
    assert any("PENDING" in line for line in told)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(slurm: PrivateSlurm, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="--shared-dir"):
        SlurmLauncher(allocation_request(shared_dir=tmp_path / "missing"))


def test_more_cpus_than_slurm_gave_are_refused(slurm: PrivateSlurm, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--cpus 3"):
        SlurmLauncher(allocation_request(shared_dir=tmp_path), cpus=3)
    assert slurm.jobs() == ()


@pytest.mark.parametrize("layout", ["3x1x1", "1x3x1", "1x1x3"])
def test_a_layout_beyond_the_allocation_is_refused(slurm: PrivateSlurm, tmp_path: Path, layout: str, light: None) -> None:
    with launcher_on(slurm, tmp_path) as launcher, pytest.raises(LaunchError, match=layout):
        launcher.start(Layout.parse(layout))


def test_a_slow_shared_folder_is_noted(slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_check, "SLOW_WRITE_S", 0.0)  # slower than any
    with launcher_on(slurm, tmp_path) as launcher:
        assert len(launcher.notes) == 2
        assert all("to write a line" in note and str(tmp_path) in note for note in launcher.notes)
    monkeypatch.setattr(node_check, "SLOW_WRITE_S", 600.0)
    with launcher_on(slurm, tmp_path) as launcher:
        assert launcher.notes == ()


def test_workers_that_were_never_ordered_are_gone_after_close(slurm: PrivateSlurm, tmp_path: Path, light: None) -> None:
    with launcher_on(slurm, tmp_path) as launcher:
        launcher.start(Layout.parse("2x2x1"))
        launcher.start(Layout.parse("1x1x2"))
        deadline_s = time.monotonic() + PATIENCE_S
        while len(list(launcher.folder.glob("step-*/worker-*/events.jsonl"))) < 5 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert len(slurm.steps()) == 2
    assert slurm.steps() == ()


# A launcher in a process of its own, to be killed, or run inside an allocation. It says when it has its nodes.
OPENED = """
import sys, time
from pathlib import Path
from tests.slurm.test_slurm_launcher import LIGHT_AGENT, allocation_request, slurm_launcher
from cs_input_analyzer.engines.slurm import SlurmLauncher
from cs_input_analyzer.records import Layout
slurm_launcher.AGENT = LIGHT_AGENT
launcher = SlurmLauncher(allocation_request(shared_dir=Path(sys.argv[1]), nodes=None))
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
    deadline_s = time.monotonic() + PATIENCE_S
    while (slurm.jobs() or list(tmp_path.iterdir())) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert slurm.jobs() == ()
    assert list(tmp_path.iterdir()) == []


def test_inside_an_allocation_that_is_used_and_left_alone(slurm: PrivateSlurm, tmp_path: Path) -> None:
    command = ["salloc", "--quiet", "--nodes=2", "--exclusive", "--exclude=wafer,broken"]
    with opened(slurm, tmp_path, "leave", *command) as process:
        said = process.stdout.read().split()
    assert process.returncode == 0
    assert said[:2] == ["HAS", "2"]
    assert list(tmp_path.iterdir()) == []


# --- what a worker sees of itself --------------------------------------------------------------------------------------------


def test_each_worker_has_its_own_place(slurm: PrivateSlurm, tmp_path: Path) -> None:
    shared, seen_in = tmp_path / "shared", tmp_path / "seen"
    shared.mkdir()
    seen_in.mkdir()
    params = {"to": f"{seen_in}/", "batch_size": 4}
    with launcher_on(slurm, shared) as launcher:
        found = launched(launcher, "tells_what_it_sees", "2x2x1", params_json=json.dumps(params), num_workers=6, max_window_s=2.0)
    measurement = found.measurement
    assert [(worker.index, worker.status, worker.message) for worker in measurement.workers] == [(i, "done", "") for i in range(4)]
    assert [worker.node for worker in measurement.workers] == ["n1", "n1", "n2", "n2"]
    assert found.failure is None
    assert found.pipeline is not None
    assert found.profile is not None
    assert measurement.samples_per_s is not None
    assert measurement.num_workers == 6
    assert measurement.start_skew_s is not None
    assert all(worker.clock_ahead_s is not None and abs(worker.clock_ahead_s) < 1 for worker in measurement.workers)
    assert found.starting_s > 0

    seen = [json.loads((seen_in / f"{index}.json").read_text()) for index in range(4)]
    for index, told in enumerate(seen):
        assert told["tf_config"]["task"] == {"type": "worker", "index": index}
        assert len(told["tf_config"]["cluster"]["worker"]) == 6
        assert told["cwd"] == os.getcwd()
        assert told["params"] == params
        assert len(told["cpus"]) == 1
        assert told["gpus"] == 0
    hosts = [address.partition(":")[0] for address in seen[0]["tf_config"]["cluster"]["worker"]]
    assert hosts[:4] == ["n1", "n1", "n2", "n2"]
    assert len(set(seen[0]["tf_config"]["cluster"]["worker"])) == 6
    if (os.cpu_count() or 1) > 1:
        assert seen[0]["cpus"] != seen[1]["cpus"]


# --- how workers end ---------------------------------------------------------------------------------------------------------


def test_a_node_that_dies_takes_only_its_own_workers_along(slurm: PrivateSlurm, tmp_path: Path, light: None) -> None:
    with launcher_on(slurm, tmp_path) as launcher:
        watch = when(samples(launcher, 2), lambda: slurm.kill_node("n2"))
        try:
            found = launched(launcher, "endless", "2x1x1", min_window_s=8.0, max_window_s=8.0, target_error_ratio=1e-9)
        finally:
            watch.join()
            slurm.start_node("n2")
    first, second = found.measurement.workers
    assert (first.node, first.status) == ("n1", "done")
    assert (second.node, second.status) == ("n2", "lost")
    assert "n2" in second.message
    assert found.failure is None
    assert found.measurement.samples_per_s is not None
    slurm.wait_for_idle()


def test_a_worker_that_hangs_keeps_what_it_measured(slurm: PrivateSlurm, tmp_path: Path) -> None:
    with launcher_on(slurm, tmp_path) as launcher:
        handle = launcher.start(Layout.parse("1x1x2"))
        handle.step.wait(lambda task: "imported" in task.heard, time.monotonic() + PATIENCE_S)
        choices = {"max_window_s": 60.0, "min_window_s": 60.0, "deadline_s": launcher.now_s() + 8, "target_error_ratio": 1e-9}
        found = launcher.run(handle, plan_for("blocks_after_a_while", launcher, **choices))
    (worker,) = found.measurement.workers
    assert worker.status == "deadline"
    assert worker.samples_per_s is not None
    assert found.failure is None


def test_a_task_that_slurm_ends_for_its_memory(slurm: PrivateSlurm, tmp_path: Path) -> None:
    with launcher_on(slurm, tmp_path, partition="small", nodes=1, most_nodes=1, exclude=()) as launcher:
        found = launched(launcher, "eats_memory")
    (worker,) = found.measurement.workers
    assert worker.status == "lost"
    assert "memory" in worker.message
    assert "memory" in found.failure.message


def test_a_cancelled_job_loses_what_runs_and_nothing_else(slurm: PrivateSlurm, tmp_path: Path, light: None) -> None:
    with launcher_on(slurm, tmp_path) as launcher:
        watch = when(samples(launcher, 2), lambda: slurm.ask("scancel", launcher.job_id))
        found = launched(launcher, "endless", "2x1x1", min_window_s=30.0, max_window_s=30.0, target_error_ratio=1e-9)
        watch.join()
        with pytest.raises(LaunchError, match="did not come up"):
            launched(launcher, "endless")
    for worker in found.measurement.workers:
        assert worker.status == "lost"
        assert "Slurm" in worker.message
        assert worker.samples_per_s is not None


def test_what_a_worker_starts_ends_with_it(slurm: PrivateSlurm, tmp_path: Path) -> None:
    with launcher_on(slurm, tmp_path) as launcher:
        found = launched(launcher, "leaves_processes_behind")
    assert found.failure is None
    assert sleeps_left() == []


def can_unshare() -> bool:
    return bool(shutil.which("unshare")) and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="this user may not mount: nodes cannot be made to see another folder")
def test_a_folder_that_a_node_does_not_see_is_found_out(slurm: PrivateSlurm, tmp_path: Path) -> None:
    """The launcher sees another file system at that place than the nodes do."""
    script = f"mount -t tmpfs none {tmp_path} && exec {sys.executable} -c {shlex.quote(OPENED)} {tmp_path} leave"
    done = ran(["unshare", "--mount", "sh", "-c", script], timeout_s=PATIENCE_S, **slurm.environment())
    assert done.returncode != 0
    assert "LaunchError: node n1 cannot use" in done.stderr
    assert "--shared-dir" in done.stderr
    assert slurm.jobs() == ()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_job_whose_time_is_over_keeps_what_was_measured(slurm: PrivateSlurm, tmp_path: Path, light: None) -> None:
    def over() -> None:
        slurm.ask("scontrol", "update", f"jobid={launcher.job_id}", "EndTime=now+5seconds")

    with launcher_on(slurm, tmp_path) as launcher:
        watch = when(samples(launcher, 1), over)
        choices = {"min_window_s": 90.0, "max_window_s": 90.0, "deadline_s": launcher.now_s() + 180, "target_error_ratio": 1e-9}
        found = launched(launcher, "endless", **choices)
        watch.join()
    (worker,) = found.measurement.workers
    assert worker.status == "lost"
    assert "the time limit of the Slurm job was reached" in worker.message
    assert worker.samples_per_s is not None
