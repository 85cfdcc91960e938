"""The cost of private copies of the user's files: the rate of workers on them against workers on the files themselves.

Pairs of launches, one of each kind, in random order, of three pipelines: small files that a map reads one by one, where opening
counts most; records in shards; and a script's kind of function, which writes an index before it reads. Warm files, files that are
evicted before each window, a slow file system, and several workers of one launch. And the seconds until workers have built.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import slowfs
from benchmarks.launching import launched
from benchmarks.paired import arguments, middle, ratio_bounds, ratio_text, save, show
from cs_input_analyzer.engines.local import LocalLauncher
from cs_input_analyzer.engines.starting import WorkerKind

SLOW = {"bytes_per_s": 100e6, "open_latency_s": 0.002, "read_latency_s": 0.002}
FILES, FILE_BYTES = 4000, 4096
SHARDS, RECORDS = 16, 2000
CASES = (
    # name, function, cache, layout, slow
    ("small files, warm", "small_files", "warm", "1x1x2", False),
    ("small files, warm, 2 workers", "small_files", "warm", "1x2x1", False),
    ("small files, warm, 8 workers", "small_files", "warm", "1x8x1", False),
    ("small files, cold", "small_files", "cold", "1x1x2", False),
    ("records, warm", "records", "warm", "1x1x2", False),
    ("records, cold", "records", "cold", "1x1x2", False),
    ("writes an index, warm", "index", "warm", "1x1x2", False),
    ("records, slow file system", "records", "as-is", "1x1x2", True),
)


def small_files(params: dict[str, Any]) -> Any:
    import tensorflow as tf

    files = tf.data.Dataset.list_files(f"{params['data']}/small/*", shuffle=True)
    return files.repeat().map(tf.io.read_file, num_parallel_calls=tf.data.AUTOTUNE).batch(64, drop_remainder=True).prefetch(2)


def records(params: dict[str, Any]) -> Any:
    import tensorflow as tf

    files = tf.data.Dataset.list_files(f"{params['data']}/records/*", shuffle=True)
    rows = files.repeat().interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    return rows.batch(64, drop_remainder=True).prefetch(2)


def index(params: dict[str, Any]) -> Any:
    """Write a file beside the data first, as many readers of indexed formats do."""
    Path(params["index"]).write_text("\n".join(sorted(os.listdir(f"{params['data']}/records"))))
    return records(params)


def write(folder: Path) -> None:
    from sample_pipelines.tfrecords import write_files

    draw = random.Random(1)
    (folder / "small").mkdir()
    for number in range(FILES):
        (folder / "small" / f"{number:05}").write_bytes(draw.randbytes(FILE_BYTES))
    write_files(folder / "records", (draw.randbytes(FILE_BYTES) for _ in range(SHARDS * RECORDS)), (RECORDS,) * SHARDS)


def main() -> None:
    options = arguments(__doc__, pairs=(int, 10, "of each case"), seed=(int, 1, "of the order"), only=(str, "", "part of a name"))
    draw, rows, result = random.Random(options.seed), [], dict[str, object]()
    cpus = len(os.sched_getaffinity(0))
    with contextlib.ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(dir=Path.home())))
        write(folder)
        slow = None if slowfs.missing() else held.enter_context(slowfs.mounted(folder, **SLOW))
        kinds = {isolates: LocalLauncher(cpus, kind=WorkerKind(isolates=isolates)) for isolates in (False, True)}
        launchers = {isolates: held.enter_context(contextlib.closing(kind)) for isolates, kind in kinds.items()}
        for case, function, cache, layout, is_slow in CASES:
            data = slow if is_slow else folder
            if data is None or options.only not in case:
                continue
            params = {"data": str(data), "index": str(folder / "index.txt")}
            seen: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            for _ in range(options.pairs):
                for isolates in draw.sample((False, True), 2):
                    run = launched(launchers[isolates], f"{__file__}:{function}", params, layout, cache=cache)
                    assert run.measurement.samples_per_s is not None, run.failure
                    assert run.pipeline is not None
                    assert run.pipeline.user_files == ("private copies" if isolates else "own files")
                    seen[isolates].append((run.measurement.samples_per_s.estimate, run.starting_s))
            bounds = ratio_bounds(*([rate for rate, _ in seen[isolates]] for isolates in (True, False)))
            private_s, own_s = (middle([start for _, start in seen[isolates]]) for isolates in (True, False))
            result[case] = {**bounds, "start_s": private_s - own_s}
            rows.append((case, ratio_text(bounds, 3), f"{private_s - own_s:+.2f}"))
            print(*rows[-1], sep="; ", file=sys.stderr, flush=True)
    show("Workers on private copies over workers on the files", ("case", "rate, 90 % interval", "start, s"), rows)
    save(options.json, result)


if __name__ == "__main__":
    main()
