"""Workers that are forked from a process with TensorFlow imported are workers like any other."""

from __future__ import annotations

import json
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from cs_input_analyzer.engines.local import LocalLauncher
from cs_input_analyzer.engines.starting import WorkerKind, WorkerStarter
from cs_input_analyzer.records import Layout
from tests.engines.launching import launched, plan_for

pytestmark = pytest.mark.tf
BUDGET = min(2, len(os.sched_getaffinity(0)))


def told(tmp_path: Path, launcher: LocalLauncher, layout: str) -> list[dict[str, Any]]:
    found = launched(launcher, "tells_its_draws", layout, params_json=json.dumps({"to": str(tmp_path)}))
    assert found.failure is None, found.failure
    return [json.loads(path.read_text()) for path in sorted(tmp_path.iterdir())]


def test_every_worker_draws_its_own_random_numbers(open_launcher: LocalLauncher, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "again").mkdir()
    draws = told(tmp_path / "first", open_launcher, "1x2x1") + told(tmp_path / "again", open_launcher, "1x2x1")
    assert len(draws) == 4
    for name in ("python", "numpy", "tensorflow"):
        assert len({str(draw[name]) for draw in draws}) == 4, name


def test_a_worker_has_the_threads_its_cpus_allow_and_nothing_of_the_server_in_its_environment(
    open_launcher: LocalLauncher, tmp_path: Path
) -> None:
    (seen,) = told(tmp_path, open_launcher, f"1x1x{BUDGET}")
    assert set(seen["blas_threads"]) <= {BUDGET}
    assert seen["collects_garbage"]
    assert seen["variables"] == [name for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS") if name in os.environ]


@pytest.mark.long
def test_a_second_analysis_has_its_own_environment(
    open_launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one interpreter, while the first one still runs."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (tmp_path / "second").mkdir()
    (tmp_path / "first").mkdir()
    with closing(LocalLauncher(cpu_budget=BUDGET, kind=WorkerKind(isolates=False))) as launcher:
        (second,) = told(tmp_path / "second", launcher, "1x1x1")
    (first,) = told(tmp_path / "first", open_launcher, "1x1x1")
    assert second["variables"] == ["OPENBLAS_NUM_THREADS"] != first["variables"]


def test_a_worker_may_use_a_fork_server_of_its_own(open_launcher: LocalLauncher) -> None:
    assert launched(open_launcher, "starts_a_fork_server_of_its_own").failure is None


@pytest.mark.long
def test_it_holds_as_much_memory_as_one_that_imports_by_itself(launcher: LocalLauncher) -> None:
    with closing(LocalLauncher(cpu_budget=BUDGET, kind=WorkerKind(forks=False))) as fresh:
        (alone,) = launched(fresh, "endless").measurement.workers
    (forked,) = launched(launcher, "endless").measurement.workers
    for name in ("private_bytes", "shared_bytes", "peak_rss_bytes"):
        assert getattr(forked, name) == pytest.approx(getattr(alone, name), rel=0.2), name
    assert forked.import_s is not None


@pytest.mark.long
def test_workers_come_up_by_themselves_when_the_server_was_killed() -> None:
    with closing(LocalLauncher(cpu_budget=BUDGET)) as launcher:
        first = launcher.start(Layout.parse("1x1x1"))
        server = psutil.Process(first.processes[0].pid).parent()
        assert server != psutil.Process()
        server.send_signal(signal.SIGKILL)
        server.wait(10)
        lost = launcher.run(first, plan_for("endless", launcher))
        assert lost.failure is not None  # forked workers die with the server, whoever killed it
        assert launched(launcher, "endless").failure is None


def test_a_server_that_cannot_import_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ImportError('broken on purpose')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with closing(WorkerStarter(tmp_path, WorkerKind())) as starter:
        starter.wait(60.0)
        assert starter.forks is False


@pytest.mark.long
def test_a_server_with_threads_of_an_import_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with closing(LocalLauncher(cpu_budget=BUDGET)) as launcher:
        (worker,) = launcher.start(Layout.parse("1x1x1")).processes
        assert psutil.Process(worker.pid).ppid() == os.getpid()  # it imports by itself, as where the server was killed
        assert launcher.starting_s(1) > 1
