"""Would TensorFlow's own trace tell per-op costs better than its model of the running iterator? An op of known CPU is planted
again.

The trace (xplane, read with the protos that TensorFlow brings) holds a begin and an end for every `GetNext` of every iterator. Its
self time is what lies between them and not in a deeper `GetNext` of the same thread. That is time in which a thread asked for an
element, so a thread that waits for another one counts as well, and work that a parallel op does elsewhere is not in it.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.paired import arguments, middle, save, show
from benchmarks.planted_costs import BATCH, pipeline

PLACES = ("serial map", "parallel map")


def self_times_s(folder: str) -> dict[str, float]:
    """Iterator -> seconds between begin and end of its calls, minus those of calls inside them on the same thread."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (path,) = Path(folder).glob("plugins/profile/*/*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    total: dict[str, float] = defaultdict(float)
    for plane in space.planes:
        names = {key: value.name for key, value in plane.event_metadata.items()}
        for line in plane.lines:
            calls = [event for event in line.events if names[event.metadata_id].startswith("Iterator::")]
            open_calls: list[tuple[int, str]] = []
            for event in sorted(calls, key=lambda event: (event.offset_ps, -event.duration_ps)):
                while open_calls and open_calls[-1][0] <= event.offset_ps:
                    open_calls.pop()
                name = names[event.metadata_id]
                total[name] += event.duration_ps * 1e-12
                if open_calls:
                    total[open_calls[-1][1]] -= event.duration_ps * 1e-12
                open_calls.append((event.offset_ps + event.duration_ps, name))
    return dict(total)


def traced(files: list[str], place: str, cpu_us: float, batches: int) -> dict[str, float]:
    """µs per sample of the whole trace and of the process, and how much slower tracing made the same loop."""
    import tensorflow as tf

    from benchmarks.busy_op import busy
    from cs_input_analyzer.worker.sampling import SamplingLoop

    dataset = pipeline(files, place, busy(cpu_us=cpu_us))
    iterator = iter(dataset)
    loop = SamplingLoop()
    loop(iterator, batches)
    began_s = time.perf_counter()
    loop(iterator, batches)
    bare_s = time.perf_counter() - began_s
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        loop(iterator, batches)
        traced_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        began_s = time.perf_counter()
        tf.profiler.experimental.stop()
        stop_s = time.perf_counter() - began_s
        times_s = self_times_s(folder)
    samples = batches * BATCH
    own = [name for name in times_s if name.rsplit("::", 1)[-1] == ("Map" if place == "serial map" else "ParallelMapV2")]
    return {
        "own_us": sum(times_s[name] for name in own) / samples * 1e6,
        "all_us": sum(times_s.values()) / samples * 1e6,
        "process_us": cpu_s / samples * 1e6,
        "slower_ratio": traced_s / bare_s,
        "stop_s": stop_s,
    }


def run_here(cpu_us: float, rounds: int, batches: int) -> dict[str, Any]:
    from sample_pipelines import write_sample

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_sample("fc_mnist", folder)
        files = sorted(str(path) for path in Path(folder, "train").glob("part-*"))
        for place in PLACES:
            pairs = [(traced(files, place, 0.0, batches), traced(files, place, cpu_us, batches)) for _ in range(rounds)]
            found[place] = {
                "moved_us": middle([planted["own_us"] - without["own_us"] for without, planted in pairs]),
                **{key: middle([planted[key] for _, planted in pairs]) for key in pairs[0][1]},
            }
    return found


def main() -> None:
    options = arguments(
        __doc__,
        us=(float, 60.0, "planted CPU per sample"),
        rounds=(int, 3, "pairs at each place"),
        batches=(int, 300, "batches in a trace"),
        here=(int, 0, "1: run on this process's CPUs and print JSON; used by the benchmark itself"),
    )
    if options.here:
        print("RESULT " + json.dumps(run_here(options.us, options.rounds, options.batches)))
        return
    rows, result = [], {}
    for cpus in ("0", "0,1")[: min(2, len(os.sched_getaffinity(0)))]:
        command = ["taskset", "-c", cpus, sys.executable, "-m", "benchmarks.trace_costs", "--here", "1", "--us", str(options.us)]
        command += ["--rounds", str(options.rounds), "--batches", str(options.batches)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT ")).removeprefix("RESULT "))
        for place, row in found.items():
            numbers = [f"{row[key]:.1f}" for key in ("moved_us", "all_us", "process_us")]
            where = f"{place}, {cpus.count(',') + 1} CPU"
            slower = f"{(row['slower_ratio'] - 1) * 100:+.0f} %"
            rows.append((where, f"{options.us:.0f}", *numbers, slower, f"{row['stop_s']:.2f}"))
        result[f"{cpus.count(',') + 1} CPUs"] = found
    columns = ("place", "planted µs", "its iterator moved µs", "all iterators µs", "process CPU µs", "slower by tracing", "stop s")
    show("What the trace says of a planted op", columns, rows)
    save(options.json, result)


if __name__ == "__main__":
    main()
