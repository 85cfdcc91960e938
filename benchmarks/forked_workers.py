"""Is a worker that was forked from a process with TensorFlow imported as good as one that imports it by itself?

Pairs of launches, one of each kind, in random order: their rates, CPU seconds a sample and private memory, as ratios forked /
fresh; how far launches of one kind differ among themselves; and how long each takes to come up.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import random
import time

import numpy as np

from benchmarks.paired import arguments, ratio_bounds, save, show
from benchmarks.prediction_error import CPUS, launched, pipelines
from cs_input_analyzer.engines.local import LocalLauncher
from cs_input_analyzer.engines.starting import WorkerKind
from cs_input_analyzer.records import WorkerResult

LAYOUTS = ("1x1x1", "1x1x2")
KINDS = {True: "forked", False: "fresh"}


def main() -> None:
    options = arguments(
        __doc__,
        only=(str, "fc_mnist,resnet50,bert_pretrain", "names of pipelines, with commas between"),
        pairs=(int, 8, "of each pipeline and layout"),
        seed=(int, 1, "of the order"),
    )
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:CPUS]))
    draw, table, result = random.Random(options.seed), [], {}
    with pipelines(options.only) as every:
        for name, target, params in every:
            launchers = {forks: LocalLauncher(CPUS, kind=WorkerKind(forks=forks)) for forks in KINDS}
            try:
                for layout in LAYOUTS:
                    seen: dict[bool, list[WorkerResult]] = {True: [], False: []}
                    took_s: dict[bool, list[float]] = {True: [], False: []}
                    for _ in range(options.pairs):
                        for forks in draw.sample(sorted(KINDS), 2):
                            began_s = time.monotonic()
                            run = launched(launchers[forks], target, params, layout)
                            took_s[forks].append(time.monotonic() - began_s)
                            seen[forks].append(run.measurement.workers[0])
                    result[f"{name} {layout}"], row = compared(seen, took_s)
                    table.append((name, layout, *row))
            finally:
                for launcher in launchers.values():
                    launcher.close()
    columns = ("pipeline", "layout", "rate", "CPU a sample", "private memory", "spread forked", "fresh", "launch forked", "fresh")
    show("Forked workers against fresh ones: ratios with 90 % intervals, and the spread of launches of one kind", columns, table)
    save(options.json, result)


def compared(seen: dict[bool, list[WorkerResult]], took_s: dict[bool, list[float]]) -> tuple[dict[str, object], list[str]]:
    values = {
        "rate": {kind: [w.samples_per_s.estimate for w in workers if w.samples_per_s] for kind, workers in seen.items()},
        "cpu": {kind: [w.cpu_s_per_sample or np.nan for w in workers] for kind, workers in seen.items()},
        "private_bytes": {kind: [float(w.private_bytes or np.nan) for w in workers] for kind, workers in seen.items()},
    }
    bounds = {name: ratio_bounds(found[True], found[False]) for name, found in values.items()}
    spread = {kind: float(np.std(np.log(values["rate"][kind]), ddof=1)) for kind in KINDS}
    wall = {kind: float(np.median(took_s[kind])) for kind in KINDS}
    row = [f"{b['ratio']:.3f} ({b['low']:.3f} to {b['high']:.3f})" for b in bounds.values()]
    row += [f"{spread[kind] * 100:.1f} %" for kind in KINDS] + [f"{wall[kind]:.1f} s" for kind in KINDS]
    return {**bounds, "spread": {KINDS[k]: v for k, v in spread.items()}, "launch_s": {KINDS[k]: v for k, v in wall.items()}}, row


if __name__ == "__main__":
    main()
