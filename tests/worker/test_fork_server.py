"""Workers that are forked from a process with TensorFlow imported are workers like any other."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from builders import make_work_plan

from cs_input_analyzer.engines import LaunchResult, WorkPlan
from cs_input_analyzer.engines.forking import ForkServer
from cs_input_analyzer.engines.local import LocalLauncher
from cs_input_analyzer.records import Layout

pytestmark = pytest.mark.tf
FUNCTIONS = Path(__file__).parents[1] / "functional" / "input_functions.py"
BUDGET = min(2, len(os.sched_getaffinity(0)))


def plan_of(launcher: LocalLauncher, function: str, tasks: int = 1, **params: Any) -> WorkPlan:
    until_s = launcher.now_s() + 60
    return make_work_plan(f"{FUNCTIONS}:{function}", tasks, params_json=json.dumps(params), max_window_s=0.5, deadline_s=until_s)


def launched(launcher: LocalLauncher, function: str, layout: str, **params: Any) -> LaunchResult:
    where = Layout.parse(layout)
    return launcher.run(launcher.start(where), plan_of(launcher, function, where.tasks, **params))


def told(tmp_path: Path, launcher: LocalLauncher, layout: str) -> list[dict[str, Any]]:
    found = launched(launcher, "tells_its_draws", layout, to=str(tmp_path))
    assert found.failure is None, found.failure
    return [json.loads(path.read_text()) for path in sorted(tmp_path.iterdir())]


def test_every_worker_draws_its_own_random_numbers(launcher: LocalLauncher, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "again").mkdir()
    draws = told(tmp_path / "first", launcher, "1x2x1") + told(tmp_path / "again", launcher, "1x2x1")
    assert len(draws) == 4
    for name in ("python", "numpy", "tensorflow"):
        assert len({str(draw[name]) for draw in draws}) == 4, name


def test_a_worker_has_the_threads_its_cpus_allow_and_nothing_of_the_server_in_its_environment(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    (seen,) = told(tmp_path, launcher, f"1x1x{BUDGET}")
    assert seen["blas_threads"] in ([BUDGET], [])
    assert seen["variables"] == [name for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS") if name in os.environ]


def test_it_holds_as_much_memory_as_one_that_imports_by_itself(launcher: LocalLauncher) -> None:
    fresh = LocalLauncher(cpu_budget=BUDGET, forks=False)
    try:
        (alone,) = launched(fresh, "endless", "1x1x1").measurement.workers
    finally:
        fresh.close()
    (forked,) = launched(launcher, "endless", "1x1x1").measurement.workers
    for name in ("private_bytes", "shared_bytes", "peak_rss_bytes"):
        assert getattr(forked, name) == pytest.approx(getattr(alone, name), rel=0.2), name
    assert forked.import_s is not None


def test_workers_come_up_by_themselves_when_the_server_was_killed() -> None:
    launcher = LocalLauncher(cpu_budget=BUDGET)
    try:
        first = launcher.start(Layout.parse("1x1x1"))
        server = psutil.Process(first.processes[0].pid).parent()
        assert server != psutil.Process()
        server.send_signal(signal.SIGKILL)
        server.wait(10)
        lost = launcher.run(first, plan_of(launcher, "endless"))
        assert lost.failure is not None  # forked workers die with the server, whoever killed it
        assert launched(launcher, "endless", "1x1x1").failure is None
    finally:
        launcher.close()


def test_a_server_that_cannot_import_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ImportError('broken on purpose')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = ForkServer(tmp_path)
    assert not server.is_usable(60.0)
    server.close()


def test_a_server_with_threads_of_an_import_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    launcher = LocalLauncher(cpu_budget=BUDGET)
    try:
        (worker,) = launcher.start(Layout.parse("1x1x1")).processes
        assert psutil.Process(worker.pid).ppid() == os.getpid()  # it imports by itself, as where the server was killed
        assert launcher.starting_s(1) > 1
    finally:
        launcher.close()
