"""How long a newcomer waits: `cs_input_analyzer demo`, from a warm cache, start of the process to its end."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.paired import arguments, middle, save, show


def main() -> None:
    options = arguments(__doc__, runs=(int, 3, "runs"))
    rows, times = [], []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cs_input_analyzer", "demo", "--quiet"]
        for run in range(options.runs + 1):
            began_s = time.perf_counter()
            subprocess.run(command, cwd=folder, check=True)
            seconds = time.perf_counter() - began_s
            if run == 0:
                continue  # writes the data
            times.append(seconds)
            budget = json.loads((Path(folder) / "demo_run.json").read_text())["budget"]
            rows.append((str(run), f"{seconds:.1f}", *(f"{budget[key]:.1f}" for key in ("import_s", "transient_s", "probes_s"))))
    show("demo, warm cache: seconds", ("run", "whole", "import", "transient", "probes"), rows)
    save(options.json, {"seconds": times, "median_s": middle(times)})


if __name__ == "__main__":
    main()
