"""Steps of many tasks whose nodes delay, fall silent and die at random: every launch ends, no result that was written is lost."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from cs_input_analyzer.engines import LaunchResult
from cs_input_analyzer.engines.slurm import SlurmLauncher, jobs, results
from cs_input_analyzer.engines.slurm import step as job_step
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.records import Layout, Options
from tests.builders import make_cluster, make_work_plan
from tests.engines import stub_slurm

CPUS = 64
WRITTEN = ("fine", "late")

Launch = Callable[..., LaunchResult]


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Launches on an allocation of stubs, and looks that nothing of it is left."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in jobs.PROGRAMS:
        path = programs / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.engines.stub_slurm {name} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("STUB_CPUS", str(CPUS))
    monkeypatch.setattr(results, "VISIBLE_S", 2.0)
    shared = tmp_path / "shared"
    shared.mkdir()

    def launch(layout: str, silence_s: float = 4.0, **chosen: Any) -> LaunchResult:
        shape = Layout.parse(layout)
        if "never" in chosen.get("faults", ()):  # all that such tasks cost is waiting
            monkeypatch.setattr(job_step, "BEGIN_PATIENCE_S", 10.0)
        monkeypatch.setenv("SLURM_JOB_NUM_NODES", str(shape.nodes))
        monkeypatch.setenv("STUB_SLURM", json.dumps({"seed": 0, "faults": {}, "step": "whole", **chosen}))
        launcher = SlurmLauncher(Options(shared_dir=str(shared)), make_cluster(), silence_s=silence_s)
        try:
            assert launcher.host.cpu_budget == CPUS  # what Slurm gave, whatever this host has
            handle = launcher.start(shape)
            return launcher.run(handle, make_work_plan("data.py:f", shape.tasks, deadline_s=launcher.now_s() + 60.0))
        finally:
            launcher.close()
            assert list(shared.iterdir()) == []
            assert [process for process in psutil.Process().children(recursive=True) if "stub_slurm" in process.cmdline()] == []

    return launch


def check(result: LaunchResult, tasks: int, **chosen: Any) -> None:
    workers = result.measurement.workers
    found = stub_slurm.fates(tasks, {"seed": 0, **chosen})
    assert [worker.index for worker in workers] == list(range(tasks))
    for worker, fate in zip(workers, found, strict=True):
        assert (worker.status == "done") is (fate in WRITTEN), (fate, worker.message)
        if fate in WRITTEN:
            # Seconds since the epoch are exact to 0.24 us, 6e-5 of the 4 ms between two batches.
            assert worker.samples_per_s.estimate == pytest.approx(stub_slurm.rate(worker.index), rel=1e-3)
        else:
            assert worker.message
            assert (worker.samples_per_s is not None) is (fate in ("killed", "cut")) or fate == "silent"


def test_each_task_is_whole_or_says_what_became_of_it(launched: Launch) -> None:
    chosen = {"faults": dict.fromkeys(stub_slurm.FAULTS, 0.08)}
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


@pytest.mark.long
@pytest.mark.slow
def test_more_workers_than_a_process_may_have_files_open(launched: Launch) -> None:
    """How long their journals take to collect is the question of `benchmarks.slurm`."""
    chosen = {"seed": 1, "faults": dict.fromkeys(stub_slurm.FAULTS, 0.01)}
    check(launched("250x10x1", silence_s=15.0, **chosen), 2_500, **chosen)
