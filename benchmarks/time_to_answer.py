"""How long a user waits for a first line, for the verdict with its plan, and for the end; from the start of the process.

The pipelines are `demo` and the samples. The data are written before, and read into the page cache. A run counts if other programs
used at most `--others` of the CPUs. At most `--tries` runs are started. The first line has a rate, the costliest op and its source
line. Where no fix is tried, the plan comes at the end. The JSON file also holds where the time of the launches went.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.paired import arguments, middle, save, show
from sample_pipelines import SAMPLES, find, write_sample

PARTS = ("import_s", "transient_s", "probes_s", "storage_s", "fixes_s", "total_s")
MOMENTS = ("first_line_s", "plan_s", "whole_s")
FIRST_LINE = re.compile(r": [\d.,]+ samples/s measured in \S+, [\d.]+ % of the CPU in .*\(.+:\d+")
PLAN = ": plan: "
CLUSTER = ("--demand", "7k", "--nodes", "8", "--cpus-per-node", "64", "--memory-per-node", "256GiB")


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
    return ["analyze", find(name).target, "--params", str(write_sample(name, folder)), "--fresh", *CLUSTER]


def main() -> None:
    names = ",".join(["demo", *(sample.name for sample in SAMPLES)])
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
