"""What Slurm as the engine costs, on a private cluster of virtual nodes on this host.

    overhead     of one launch: from its start to its result, without TensorFlow's import and the sampling itself (target: 5 s)
    collecting   the results of 10,000 workers from the shared folder (target: 2 s, and memory that does not grow with them)
    storage      a pipeline that only reads, over 1 to 3 nodes on one slow file system: its ceiling against the truth

Virtual nodes share this host's CPUs, so the first says at most what a cluster would. Needs Slurm's daemons (`tests/slurm`).
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

import msgspec
import psutil

from benchmarks import slowfs
from benchmarks.launching import launched
from benchmarks.paired import save, show
from cs_input_analyzer.engines.slurm import SlurmLauncher
from cs_input_analyzer.engines.slurm.node_worker import RESULT
from cs_input_analyzer.engines.slurm.results import read_results
from cs_input_analyzer.host.cluster.slurm import discover
from cs_input_analyzer.model import capacity
from cs_input_analyzer.records import Estimate, Layout, Measurement, Noise, Options, SteadyState, WorkerResult
from cs_input_analyzer.worker.summary import measurement_of
from tests.slurm.private_slurm import missing, private_slurm

ROOT = Path(__file__).resolve().parents[1]
READS = f"{ROOT}/tests/slurm/shared_reader.py:reads"
BUSY = f"{ROOT}/tests/functional/input_functions.py:endless"
BYTES_PER_S = 12e6
PARTS = ("overhead", "collecting", "storage")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which; default: all")
    parser.add_argument("--times", type=int, default=5, help="launches of each kind")
    parser.add_argument("--workers", type=int, default=10_000, help="of which results are collected")
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
    """What a launch of one worker takes beyond importing, building, and the window."""
    began_s = time.monotonic()
    found = launched(engine, BUSY, None, "1x1x1", window_s=window_s)
    return time.monotonic() - began_s - found.starting_s - window_s


def storage(times: int) -> dict[str, Any]:
    """The truth is what the file system was told to give."""
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
    """Reads simulated files, as agents write them for a launch of so many."""
    folder = Path(tempfile.mkdtemp(prefix="results_"))
    try:
        file_bytes = 0
        for rank in range(workers):
            text = msgspec.json.encode(simulated(rank))
            place = folder / f"worker-{rank}"
            place.mkdir()
            (place / RESULT).write_bytes(text)
            file_bytes += len(text)
        process = psutil.Process()
        before_bytes = process.memory_info().rss
        began_s = time.monotonic()
        found = [result for result in read_results(folder, range(workers)) if result is not None]
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


def simulated(rank: int) -> WorkerResult:
    """A worker's numbers as one of a large launch writes them: with its blocks, without the gaps between its batches."""
    rate = 1000.0 + rank % 97
    return WorkerResult(
        index=rank,
        node=f"n{rank // 16}",
        status="done",
        samples_per_s=Estimate(estimate=rate, low=rate * 0.98, high=rate * 1.02, count=16),
        batches_per_s=rate / 32,
        cpu_s_per_sample=0.0009,
        import_s=4.2,
        build_s=0.3,
        first_batch_s=0.4,
        bytes_read_per_sample=4096.0,
        private_bytes=300_000_000,
        steady_state=SteadyState(
            transient_s=1.0,
            transient_batches=30,
            window_s=3.0,
            batches=300,
            blocks=16,
            lag1_autocorrelation=0.05,
            epochs=0,
            stopped_by="budget",
        ),
        noise=Noise(run_queue_wait_ratio=0.01, steal_ratio=0.0),
        block_samples_per_s=tuple(rate * (1 + 0.01 * (number % 5 - 2)) for number in range(16)),
    )


if __name__ == "__main__":
    main()
