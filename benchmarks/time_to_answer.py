"""How long a user waits for a first line, for the verdict with its plan, and for the end; from the start of the process.

The pipelines are `demo`, the samples, and two slow ones as users write them: pictures in serial maps, and a map in Python. The
data are written before, and read into the page cache. A run counts if other programs used at most `--others` of the CPUs. At most
`--tries` runs are started. The first line has a rate, the costliest op and its source line. Where no fix is tried, the plan comes
at the end.
The JSON file also holds where the time of the launches went.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.paired import arguments, middle, save, show
from sample_pipelines import SAMPLES, find, write_sample

PARTS = ("import_s", "transient_s", "probes_s", "storage_s", "fixes_s", "total_s")
MOMENTS = ("first_line_s", "plan_s", "whole_s")
FIRST_LINE = re.compile(r": [\d.,]+ samples/s measured in \S+, [\d.]+ % of the CPU in .*\(.+:\d+")
PLAN = ": plan: "
SLOW = {"pictures": "serial_pictures", "python": "python_map"}
CLUSTER = ("--demand", "7k", "--nodes", "8", "--cpus-per-node", "64", "--memory-per-node", "256GiB")


def serial_pictures(params: Mapping[str, Any]) -> tf.data.Dataset:
    """JPEG pictures, decoded and scaled in serial maps."""
    section = params["train_input"]
    shape = [section["image_size"], section["image_size"]]

    def parsed(record: tf.Tensor) -> tf.Tensor:
        image = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
        return tf.image.resize(tf.io.decode_jpeg(image, channels=3), shape)

    files = tf.data.Dataset.list_files(f"{section['data_dir']}/*", shuffle=False)
    dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=4).map(parsed).map(lambda image: image / 255.0)
    return dataset.shuffle(64).repeat().batch(32, drop_remainder=True)


def python_map(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Map numbers in Python, one after the other."""
    del params

    def slow(number: np.int64) -> np.float32:
        return np.float32(sum(each * each for each in range(5_000)) + number)

    dataset = tf.data.Dataset.range(100_000).shuffle(1_000)
    dataset = dataset.map(lambda number: tf.ensure_shape(tf.numpy_function(slow, [number], tf.float32), []))
    return dataset.repeat().batch(32, drop_remainder=True)


class Timed(NamedTuple):
    """One run: `moments` and `parts` in seconds, what was not measured, and the part of the CPUs that other programs used."""

    moments: dict[str, float]
    parts: dict[str, float]
    not_measured: list[str]
    others_ratio: float


def timed(command: list[str], folder: str) -> Timed:
    """Run the command line, and note when it told what."""
    began_s = time.perf_counter()
    moments: dict[str, float] = {}
    program = [sys.executable, "-m", "cs_input_analyzer", *command, "--json", "run.json"]
    with subprocess.Popen(program, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            now_s = time.perf_counter() - began_s
            if FIRST_LINE.search(line):
                moments.setdefault("first_line_s", now_s)
            elif PLAN in line:
                moments.setdefault("plan_s", now_s)
    moments["whole_s"] = time.perf_counter() - began_s
    if process.returncode not in (0, 1):  # 1: input-bound
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode}")
    run = json.loads((Path(folder) / "run.json").read_text())
    budget = run["budget"]
    noises = [worker["noise"] for launch in run["measurements"] for worker in launch["workers"] if worker["noise"]]
    return Timed(
        moments={name: moments.get(name, moments["whole_s"]) for name in MOMENTS},
        parts={part: budget[part] for part in PARTS},
        not_measured=budget["not_measured"],
        others_ratio=middle([noise["others_ratio"] or 0.0 for noise in noises]),
    )


def command_of(name: str, folder: str) -> list[str]:
    """Write the data of a pipeline; return the words that analyze it."""
    if name == "demo":
        timed(["demo"], folder)  # writes the data
        return ["demo"]
    sample = "resnet50" if name in SLOW else name
    target = f"benchmarks.time_to_answer:{SLOW[name]}" if name in SLOW else find(name).target
    return ["analyze", target, "--params", str(write_sample(sample, folder)), "--fresh", *CLUSTER]


def main() -> None:
    names = ",".join(["demo", *(sample.name for sample in SAMPLES), *SLOW])
    options = arguments(
        __doc__,
        runs=(int, 5, "runs of each"),
        tries=(int, 10, "runs of each that are started at most"),
        others=(float, 0.1, "part of the CPUs that others may use"),
        only=(str, names, "which, with commas between"),
    )
    rows, result = [], {}
    for name in options.only.split(","):
        runs: list[Timed] = []
        with tempfile.TemporaryDirectory() as folder:
            command = command_of(name, folder)
            for _ in range(options.tries):
                run = timed(command, folder)
                runs += [run] if run.others_ratio <= options.others else []
                if len(runs) == options.runs:
                    break
        if not runs:
            rows.append((name, "0", *("busy" for _ in MOMENTS), "", ""))
            continue
        moments = {moment: middle([run.moments[moment] for run in runs]) for moment in MOMENTS}
        budget = {part: middle([run.parts[part] for run in runs]) for part in PARTS}
        left_out = "; ".join(dict.fromkeys(what for run in runs for what in run.not_measured)) or "nothing"
        others = middle([run.others_ratio for run in runs])
        seconds = (f"{each:.1f}" for each in moments.values())
        rows.append((name, str(len(runs)), *seconds, f"{others:.0%}", left_out))
        result[name] = {**moments, **budget, "not_measured": left_out, "runs": len(runs), "others_ratio": others}
    columns = ("pipeline", "runs", "first line", "plan", "whole", "others", "not measured")
    show("Seconds to an answer, medians", columns, rows)
    save(options.json, result)


if __name__ == "__main__":
    main()
