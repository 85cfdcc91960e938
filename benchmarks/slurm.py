"""The cost of Slurm as the engine, on a private cluster of virtual nodes on this host.

    overhead     of one launch: from its start to its result, without TensorFlow's import and the sampling itself (target: 5 s)
    collecting   the journals of 10,000 workers from the shared folder (target: 2 s, and memory that does not grow with them)

Virtual nodes share this host's CPUs, so the first says at most what a cluster would. Needs Slurm's daemons
(`tests/slurm`).
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.launching import launched
from benchmarks.paired import arguments, middle, save, show
from cs_input_analyzer.engines.slurm import SlurmLauncher
from cs_input_analyzer.engines.slurm.node_worker import journal_bytes
from cs_input_analyzer.engines.slurm.results import collect
from cs_input_analyzer.engines.slurm.step import Task
from cs_input_analyzer.host.cluster.slurm import discover
from cs_input_analyzer.host.counters import CounterReader
from cs_input_analyzer.records import Layout, Options
from cs_input_analyzer.worker.summary import measurement_of
from tests.builders import make_work_plan
from tests.engines.fake_slurm import write_journal
from tests.slurm.private_slurm import missing, private_slurm

ROOT = Path(__file__).resolve().parents[1]
BUSY = f"{ROOT}/tests/functional/input_functions.py:endless"
BATCHES = 300


def main() -> None:
    options = arguments(
        __doc__, times=(int, 5, "launches; 0 needs no Slurm"), workers=(int, 10_000, "of which journals are collected")
    )
    found = collecting(options.workers)
    rows = [
        (f"collecting {options.workers:,} workers, s", f"{found['seconds']:.2f}", "", "2"),
        ("memory for that, MB", f"{found['kept_bytes'] / 1e6:.0f} kept", f"{found['peak_bytes'] / 1e6:.0f} at most", "flat"),
    ]
    seconds: list[float] = []
    if options.times:
        if missing():
            raise SystemExit(f"not run: {missing()}")
        with launcher() as engine:
            seconds = [overhead_s(engine) for _ in range(options.times)]
        rows.append(("overhead of a launch, s", f"{middle(seconds):.3f}", f"{max(seconds):.3f}", "5"))
    show("Slurm as the engine", ("what", "middle", "worst", "target"), rows)
    save(options.json, {"collecting": found, "overhead_s": seconds})


@contextmanager
def launcher() -> Iterator[SlurmLauncher]:
    """On a cluster of its own, in a folder of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="slurm_", dir="/tmp", ignore_cleanup_errors=True) as place,
        private_slurm(Path(place), nodes=4, cpus=2) as slurm,
    ):
        os.environ["SLURM_CONF"] = str(slurm.conf)
        options = Options(slurm_nodes=1, queue_timeout_s=60.0, max_seconds=1800.0, shared_dir=place)
        with closing(SlurmLauncher(options, discover().cluster)) as engine:
            yield engine


def overhead_s(engine: SlurmLauncher, window_s: float = 3.0) -> float:
    """Return the time of a launch of one worker beyond importing, building, and the window."""
    began_s = time.monotonic()
    found = launched(engine, BUSY, None, "1x1x1", window_s=window_s)
    return time.monotonic() - began_s - found.starting_s - window_s


def collecting(workers: int) -> dict[str, Any]:
    """Read simulated journals, as workers of a large launch write them."""
    with tempfile.TemporaryDirectory(prefix="results_") as name:
        folder, counters = Path(name), CounterReader().read()
        tasks, file_bytes = [], 0
        for rank in range(workers):
            place = folder / f"worker-{rank}"
            place.mkdir()
            write_journal(place, counters, 0.0, np.arange(1, BATCHES + 1) / (100 + rank % 97), is_whole=True)
            ended = {"returncode": 0, "killed_for": None, "why": "", "journal_bytes": journal_bytes(place)}
            tasks.append(Task(rank=rank, node=f"n{rank // 16}", ended=ended))
            file_bytes += ended["journal_bytes"]
        process = psutil.Process()
        before_bytes = process.memory_info().rss
        began_s = time.monotonic()
        found = collect(folder, tasks, make_work_plan(BUSY, workers, deadline_s=0.0)).workers
        whole = measurement_of(Layout(nodes=workers // 16 or 1, tasks_per_node=16, cpus_per_task=1), workers, found)
        taken_s = time.monotonic() - began_s
        assert len(whole.workers) == workers
        kept_bytes = process.memory_info().rss - before_bytes
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before_bytes
        peak_bytes = max(kept_bytes, peak_bytes)
        return {
            "workers": workers,
            "seconds": taken_s,
            "kept_bytes": kept_bytes,
            "peak_bytes": peak_bytes,
            "file_bytes": file_bytes,
        }


if __name__ == "__main__":
    main()
