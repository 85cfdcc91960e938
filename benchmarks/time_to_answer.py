"""The waiting time of a user: `demo`, and `analyze` of each sample pipeline with its defaults.

It is measured from start to end of the process. The data are written before, and read into the page cache. `whole`
includes the time outside the budget: starting Python, writing the report.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.paired import arguments, middle, save, show
from sample_pipelines import SAMPLES, find, write_sample

PARTS = ("import_s", "transient_s", "probes_s", "storage_s", "fixes_s", "total_s")


def timed(command: list[str], folder: str) -> tuple[float, dict[str, float], list[str]]:
    """Seconds of a run of the command line, its own budget table, and what it did not measure."""
    began_s = time.perf_counter()
    program = [sys.executable, "-m", "cs_input_analyzer", *command, "--quiet", "--json", "run.json"]
    done = subprocess.run(program, cwd=folder, check=False)
    seconds = time.perf_counter() - began_s
    if done.returncode not in (0, 1):  # 1: input-bound
        raise SystemExit(f"{' '.join(command)} exited with {done.returncode}")
    budget = json.loads((Path(folder) / "run.json").read_text())["budget"]
    return seconds, {part: budget[part] for part in PARTS}, budget["not_measured"]


def main() -> None:
    names = ",".join(["demo", *(sample.name for sample in SAMPLES)])
    options = arguments(__doc__, runs=(int, 1, "runs of each"), only=(str, names, "which, with commas between"))
    rows, result = [], {}
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            if name == "demo":
                timed(["demo"], folder)  # writes the data
                command = ["demo"]
            else:
                command = ["analyze", find(name).target, "--params", str(write_sample(name, folder))]
            runs = [timed(command, folder) for _ in range(options.runs)]
        seconds = middle([seconds for seconds, _, _ in runs])
        budget = {part: middle([parts[part] for _, parts, _ in runs]) for part in PARTS}
        left_out = "; ".join(dict.fromkeys(what for _, _, missing in runs for what in missing)) or "nothing"
        rows.append((name, f"{seconds:.1f}", *(f"{budget[part]:.1f}" for part in PARTS), left_out))
        result[name] = {"whole_s": seconds, **budget, "not_measured": left_out}
    columns = ("pipeline", "whole", "import", "transient", "probes", "storage", "fixes", "budgeted", "not measured")
    show("Seconds to an answer", columns, rows)
    save(options.json, result)


if __name__ == "__main__":
    main()
