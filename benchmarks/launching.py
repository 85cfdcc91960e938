"""Real launches for the benchmarks: one launch, workers with a share of a CPU each, and the pipelines that are launched."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks import slowfs
from benchmarks.known_truth.suite import CASES, files_of
from cs_input_analyzer.engines import Launcher, LaunchResult, LocalLauncher, WorkPlan
from cs_input_analyzer.engines.launch import OnSampled
from cs_input_analyzer.engines.local import LocalWorkers
from cs_input_analyzer.engines.starting import WorkerKind
from cs_input_analyzer.records import CacheChoice, Layout
from cs_input_analyzer.workflows.probing.seconds import LEAST_BATCHES
from sample_pipelines import SAMPLES, write_sample

CPUS = 2
WINDOW_S = 2.5
QUOTA_CPUS = 8
PATIENCE_S = 300.0
GROUP = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 20_000


def launched(
    launcher: Launcher,
    target: str,
    params: dict[str, Any] | None,
    layout: str,
    *,
    window_s: float = WINDOW_S,
    cache: CacheChoice = "as-is",
) -> LaunchResult:
    """Launch a target and sample it for `window_s`."""
    shape = Layout.parse(layout)
    handle = launcher.start(shape)
    plan = WorkPlan(
        target=target,
        pickled=None,
        params_json=None if params is None else json.dumps(params, default=str),
        mode="train",
        batch_size=None,
        num_workers=shape.tasks,
        worker_indices=tuple(range(shape.tasks)),
        target_error_ratio=0.0,
        min_window_s=window_s,
        max_window_s=window_s,
        deadline_s=launcher.now_s() + PATIENCE_S,
        cache=cache,
    )
    return launcher.run(handle, plan)


def enough_s(seen: LaunchResult) -> float:
    """Return a window with as many batches of the slowest worker as an analysis asks for: fewer may all have lain in buffers."""
    gaps_s = [1 / worker.batches_per_s for worker in seen.measurement.measured_workers if worker.batches_per_s]
    return max([WINDOW_S, *(LEAST_BATCHES * gap_s for gap_s in gaps_s)])


class QuotaLauncher(LocalLauncher):
    """Workers that get a fraction of a CPU each, from their order on: importing would take too long.

    They are not isolated: the process that is known of an isolated worker is the one around it, whose quota does not hold inside.
    """

    cpus_per_worker = CPUS / QUOTA_CPUS

    def __init__(self, cpu_budget: int) -> None:
        super().__init__(cpu_budget, kind=WorkerKind(isolates=False))

    def run(self, handle: Any, plan: WorkPlan, on_sampled: OnSampled | None = None) -> LaunchResult:
        """Run the launch with its quotas set."""
        assert isinstance(handle, LocalWorkers)
        handle.wait(("imported", "failed"), plan.deadline_s)
        with contextlib.ExitStack() as groups:
            for number, process in enumerate(handle.processes):
                groups.enter_context(_quota(f"csia_quota_{os.getpid()}_{number}", process._process.pid, self.cpus_per_worker))
            return super().run(handle, plan, on_sampled)


@contextlib.contextmanager
def _quota(name: str, pid: int, cpus: float) -> Iterator[None]:
    folder = GROUP / name
    folder.mkdir()
    try:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * cpus)))
        (folder / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def can_set_quotas() -> bool:
    """Return whether this host lets us set quotas (control groups, version 1)."""
    try:
        with _quota(f"csia_quota_{os.getpid()}_try", os.getpid(), float(CPUS)):
            (GROUP / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        return False
    return True


def pipelines(only: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name, target and params of each; the data are there while it is looked at. `only`: names, with commas between."""
    wanted = only.split(",") if only else None
    for sample in SAMPLES:
        if wanted is None or sample.name in wanted:
            with tempfile.TemporaryDirectory() as folder:
                yield sample.name, sample.target, yaml.safe_load(write_sample(sample.name, folder).read_text())
    for case in CASES:
        if (wanted is None or case.name.partition(",")[0] in wanted) and not (case.slow and slowfs.missing()):
            with files_of(case) as params:
                yield case.name, case.target, params
