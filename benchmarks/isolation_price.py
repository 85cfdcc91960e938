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
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import slowfs
from benchmarks.launching import launched
from benchmarks.paired import arguments, ratio_bounds, save, show
from cs_input_analyzer.engines.local import LocalLauncher
from cs_input_analyzer.engines.starting import WorkerKind

TARGETS = {"rate": 0.98, "start": 0.3}
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
    import tensorflow as tf

    draw = random.Random(1)
    for name in ("small", "records"):
        (folder / name).mkdir()
    for number in range(FILES):
        (folder / "small" / f"{number:05}").write_bytes(draw.randbytes(FILE_BYTES))
    for number in range(SHARDS):
        with tf.io.TFRecordWriter(str(folder / "records" / f"{number:02}")) as writer:
            for _ in range(RECORDS):
                writer.write(draw.randbytes(FILE_BYTES))


@contextlib.contextmanager
def slowly(folder: Path) -> Iterator[Path | None]:
    """Yield the folder on a slow file system; None if this machine has none."""
    if (why := slowfs.missing()) is not None:
        print(f"no slow file system: {why}")
        yield None
        return
    with slowfs.mounted(folder, bytes_per_s=100e6, open_latency_s=0.002, read_latency_s=0.002) as slow:
        yield slow


def main() -> None:
    options = arguments(__doc__, pairs=(int, 10, "of each case"), seed=(int, 1, "of the order"), only=(str, "", "part of a name"))
    draw, rows, result = random.Random(options.seed), [], dict[str, object]()
    cpus = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        folder = Path(name)
        write(folder)
        with slowly(folder) as slow:
            launchers = {isolates: LocalLauncher(cpus, kind=WorkerKind(isolates=isolates)) for isolates in (False, True)}
            try:
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
                            assert isolates or function != "index" or (folder / "index.txt").exists()
                    bounds = ratio_bounds(*([rate for rate, _ in seen[isolates]] for isolates in (True, False)))
                    later_s = [median(start for _, start in seen[isolates]) for isolates in (True, False)]
                    result[case] = {**bounds, "start_s": later_s[0] - later_s[1]}
                    interval = f"{bounds['low']:.3f} to {bounds['high']:.3f}"
                    rows.append((case, f"{bounds['ratio']:.3f}", interval, f"{later_s[0] - later_s[1]:+.2f}"))
                    print(*rows[-1], sep="; ", file=sys.stderr, flush=True)
            finally:
                for launcher in launchers.values():
                    launcher.close()
    show("Workers on private copies over workers on the files", ("case", "rate", "90 % interval", "start, s"), rows)
    save(options.json, result)


if __name__ == "__main__":
    main()
