"""The cost of Slurm as the engine, on a private cluster of virtual nodes on this host.

    overhead     of one launch: from its start to its result, without TensorFlow's import and the sampling itself (target: 5 s)
    collecting   the journals of 10,000 workers from the shared folder (target: 2 s, and memory that does not grow with them)
    storage      a pipeline that only reads, over 1 to 3 nodes on one slow file system: its ceiling against the truth

Virtual nodes share this host's CPUs, so the first says at most what a cluster would. Needs Slurm's daemons
(`tests/slurm`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import slowfs
from benchmarks.launching import launched
from benchmarks.paired import save, show
from cs_input_analyzer.engines.slurm import SlurmLauncher
from cs_input_analyzer.engines.slurm.node_worker import journal_bytes
from cs_input_analyzer.engines.slurm.results import collect
from cs_input_analyzer.engines.slurm.step import Task
from cs_input_analyzer.host.cluster.slurm import discover
from cs_input_analyzer.host.counters import CounterReader
from cs_input_analyzer.model import capacity
from cs_input_analyzer.records import Layout, Measurement, Options
from cs_input_analyzer.worker.summary import measurement_of
from tests.builders import make_work_plan
from tests.engines.fake_slurm import write_journal
from tests.slurm.private_slurm import missing, private_slurm

ROOT = Path(__file__).resolve().parents[1]
READS = f"{ROOT}/tests/slurm/shared_reader.py:reads"
BUSY = f"{ROOT}/tests/functional/input_functions.py:endless"
BYTES_PER_S = 12e6
BATCHES = 300
PARTS = ("overhead", "collecting", "storage")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which; default: all")
    parser.add_argument("--times", type=int, default=5, help="launches of each kind")
    parser.add_argument("--workers", type=int, default=10_000, help="of which journals are collected")
    parser.add_argument("--json", help="write the numbers")
    options = parser.parse_args()
    wanted = options.parts or PARTS
    result: dict[str, Any] = {}
    if "collecting" in wanted:
        result["collecting"] = collecting(options.workers)
    if set(wanted) - {"collecting"} and missing():
        raise SystemExit(f"not run: {missing()}")
    if "overhead" in wanted:
        with launcher(cpus=2, nodes=1) as engine:
            result["overhead_s"] = [overhead_s(engine) for _ in range(options.times)]
    if "storage" in wanted:
        result["storage"] = storage(options.times)
    show("Slurm as the engine", ("what", "middle", "worst", "target"), list(rows(result)))
    save(options.json, result)


def rows(result: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    if "overhead_s" in result:
        seconds = result["overhead_s"]
        yield "overhead of a launch, s", f"{statistics.median(seconds):.3f}", f"{max(seconds):.3f}", "5"
    if "collecting" in result:
        found = result["collecting"]
        yield f"collecting {found['workers']:,} workers, s", f"{found['seconds']:.2f}", "", "2"
        yield "memory for that, MB", f"{found['kept_bytes'] / 1e6:.0f} kept", f"{found['peak_bytes'] / 1e6:.0f} at most", "flat"
    if "storage" in result:
        found = result["storage"]
        for nodes, total in found["bytes_per_s"].items():
            yield f"read by {nodes} node(s), MB/s", f"{total / 1e6:.1f}", "", f"{BYTES_PER_S / 1e6:.0f}"
        ceiling = found["ceiling"]
        told = "none" if ceiling is None else f"{ceiling['estimate'] / 1e6:.1f}"
        yield (
            "ceiling as told, MB/s",
            told,
            "" if ceiling is None else f"{ceiling['low'] / 1e6:.1f} to {ceiling['high'] / 1e6:.1f}",
            "",
        )


@contextmanager
def launcher(*, cpus: int, nodes: int) -> Iterator[SlurmLauncher]:
    """On a cluster of its own, in a folder of its own."""
    place = Path(tempfile.mkdtemp(prefix="slurm_", dir="/tmp"))
    before = os.environ.get("SLURM_CONF")
    try:
        with private_slurm(place, nodes=max(4, nodes), cpus=cpus) as slurm:
            os.environ["SLURM_CONF"] = str(slurm.conf)
            options = Options(slurm_nodes=nodes, queue_timeout_s=60.0, max_seconds=1800.0, shared_dir=str(place))
            engine = SlurmLauncher(options, discover().cluster)
            try:
                yield engine
            finally:
                engine.close()
    finally:
        os.environ.pop("SLURM_CONF", None)
        if before is not None:
            os.environ["SLURM_CONF"] = before
        shutil.rmtree(place, ignore_errors=True)


def overhead_s(engine: SlurmLauncher, window_s: float = 3.0) -> float:
    """Return the time of a launch of one worker beyond importing, building, and the window."""
    began_s = time.monotonic()
    found = launched(engine, BUSY, None, "1x1x1", window_s=window_s)
    return time.monotonic() - began_s - found.starting_s - window_s


def storage(times: int) -> dict[str, Any]:
    """Compare the measured ceiling with the rate that the file system was set to."""
    source = Path(tempfile.mkdtemp(prefix="files_"))
    launches: list[Measurement] = []
    try:
        for number in range(24):
            (source / f"part-{number:02}.bin").write_bytes(os.urandom(1 << 20))
        with slowfs.mounted(source, bytes_per_s=BYTES_PER_S) as folder, launcher(cpus=2, nodes=3) as engine:
            for _ in range(times):
                for layout in ("3x1x1", "1x1x1", "2x1x1"):
                    found = launched(engine, READS, {"folder": str(folder)}, layout, window_s=4.0)
                    launches.append(found.measurement)
    finally:
        shutil.rmtree(source, ignore_errors=True)
    scaling = capacity.scaling_of(launches, "as-is")
    assert scaling is not None, [worker.message for launch in launches for worker in launch.workers]
    ceiling = scaling.ceiling_bytes_per_s
    return {
        "bytes_per_s": {point.nodes: point.bytes_per_s.estimate for point in scaling.points if point.bytes_per_s is not None},
        "waits": {point.nodes: point.wait_ratio for point in scaling.points},
        "ceiling": None if ceiling is None else {"estimate": ceiling.estimate, "low": ceiling.low, "high": ceiling.high},
        "note": scaling.note,
    }


def collecting(workers: int) -> dict[str, Any]:
    """Read simulated journals, as workers of a large launch write them."""
    folder = Path(tempfile.mkdtemp(prefix="results_"))
    try:
        counters, tasks, file_bytes = CounterReader().read(), [], 0
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
        peak_bytes = peak_rss_bytes() - before_bytes
        return {
            "workers": workers,
            "seconds": taken_s,
            "kept_bytes": kept_bytes,
            "peak_bytes": max(kept_bytes, peak_bytes),
            "file_bytes": file_bytes,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def peak_rss_bytes() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
