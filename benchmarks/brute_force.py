"""The launch that a few probes and the model pick, against the best of the whole grid, and against the vendor's old method.

A node of sixteen CPUs is made of two by control-group quotas: every "CPU" is an eighth of one, and a worker of C of them may use C
eighths on as many real CPUs as that needs. The whole grid of tasks and CPUs per task is launched once (that is brute force, and its
time), the probes an analysis would make are launched beside it, and then the picks and the best few of the grid again, interleaved:
the best of one look at each of fifty layouts is partly luck.

The launches of the grid are also held-out ones for `benchmarks.prediction_error --replay`.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from benchmarks.launching import CPUS, WINDOW_S, QuotaLauncher, can_set_quotas, enough_s, launched, pipelines
from benchmarks.paired import arguments, ratio_bounds, ratio_text, save, show
from benchmarks.prediction_error import Trial, host, predicted
from cs_input_analyzer.engines import LaunchResult
from cs_input_analyzer.engines.local import LocalWorkers
from cs_input_analyzer.model import capacity
from cs_input_analyzer.records import Layout, Measurement, PipelineGraph
from cs_input_analyzer.workflows.probing.probing import MOST_NEXT_PROBES

NODE_CPUS = 16
EIGHTH = CPUS / NODE_CPUS
BEST_OF_GRID = 3
# What the old method tried: three sizes, each filling the node.
OLD_CPUS = (2, 4, 8)


class NodeLauncher(QuotaLauncher):
    """Workers of C eighths of a CPU; layouts are in eighths."""

    def start(self, layout: Layout) -> LocalWorkers:
        self.cpus_per_worker = layout.cpus_per_task * EIGHTH
        real = replace(layout, cpus_per_task=math.ceil(self.cpus_per_worker))
        workers = super().start(real)
        workers.layout, workers.shares_cpus = layout, True
        return workers


def grid() -> list[str]:
    sizes = range(1, NODE_CPUS + 1)
    return [f"1x{tasks}x{cpus}" for cpus in sizes for tasks in sizes if tasks * cpus <= NODE_CPUS]


def picked(pipeline: PipelineGraph, probes: list[Measurement]) -> str:
    """Return the layout with the highest predicted rate of the node; of equals, within a percent, the one with the fewest CPUs."""
    model = capacity.fit(pipeline, probes, NODE_CPUS)
    rates = {layout: predicted(model, layout, NODE_CPUS).samples_per_s.estimate for layout in grid()}
    good = [layout for layout in rates if rates[layout] >= 0.99 * max(rates.values())]
    return min(good, key=lambda layout: (Layout.parse(layout).cpus_per_node, Layout.parse(layout).tasks))


def run(name: str, target: str, params: dict[str, Any], again: int, draw: random.Random) -> dict[str, Any]:
    launcher = NodeLauncher(CPUS)
    spent_s: dict[str, float] = defaultdict(float)
    window_s = WINDOW_S

    def timed(what: str, layout: str) -> LaunchResult:
        began_s = time.monotonic()
        found = launched(launcher, target, params, layout, window_s=window_s)
        spent_s[what] += time.monotonic() - began_s
        return found

    try:
        first = timed("import", "1x1x1")  # the first launch imports TensorFlow, which both methods need once
        pipeline, window_s = first.pipeline, enough_s(first)
        assert pipeline is not None
        node = host(NODE_CPUS)
        wanted = (*capacity.lone_probes(node, NODE_CPUS), *capacity.full_probes(node, NODE_CPUS, NODE_CPUS))
        order = [("probe", str(layout)) for layout in wanted] + [("grid", layout) for layout in grid()]
        draw.shuffle(order)
        measured: dict[str, list[Measurement]] = {"probe": [], "grid": []}
        for what, layout in order:
            measured[what].append(timed(what, layout).measurement)
        probes = [one for one in measured["probe"] if one.samples_per_s is not None]
        for _ in range(MOST_NEXT_PROBES):  # as an analysis does: what may be faster, for all that the model knows
            rival = capacity.next_probe(capacity.fit(pipeline, probes, NODE_CPUS), node, NODE_CPUS, NODE_CPUS)
            if rival is None:
                break
            probes.append(timed("probe", str(rival)).measurement)
        seen = {str(one.layout): one.samples_per_s.estimate for one in measured["grid"] if one.samples_per_s is not None}
        best = sorted(seen, key=seen.__getitem__, reverse=True)[:BEST_OF_GRID]
        old = max((f"1x{NODE_CPUS // cpus}x{cpus}" for cpus in OLD_CPUS), key=lambda layout: seen.get(layout, 0.0))
        pick = picked(pipeline, probes)
        rates = measured_again(lambda layout: timed("again", layout), {pick, old, *best}, again, draw)
    finally:
        launcher.close()
    top = max(best, key=lambda layout: float(np.mean(rates[layout])))
    trial = Trial(
        name=f"{name}, eighths of a CPU", cpus=NODE_CPUS, pipeline=pipeline, probes=tuple(probes), held_out=tuple(measured["grid"])
    )
    return {
        "trial": trial,
        "pipeline": name,
        "feasible": len(grid()),
        "probes": [str(one.layout) for one in probes],
        "pick": pick,
        "best": top,
        "old": old,
        "pick_over_best": ratio_bounds(rates[pick], rates[top]),
        "old_over_best": ratio_bounds(rates[old], rates[top]),
        "time_ratio": spent_s["probe"] / spent_s["grid"],
        "spent_s": dict(spent_s),
        "grid": seen,
    }


def measured_again(
    launch: Callable[[str], LaunchResult], layouts: set[str], times: int, draw: random.Random
) -> dict[str, list[float]]:
    """Run rounds of all of them, each round in a new random order."""
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(times):
        for layout in draw.sample(sorted(layouts), len(layouts)):
            rate = launch(layout).measurement.samples_per_s
            rates[layout].append(rate.estimate if rate is not None else math.nan)
    return rates


def main() -> None:
    options = arguments(
        __doc__,
        only=(str, "resnet50,fc_mnist", "names of pipelines, with commas between"),
        again=(int, 8, "fresh launches of the picks and of the best of the grid"),
    )
    if not can_set_quotas():
        raise SystemExit("not run: control groups cannot be written")
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:CPUS]))
    draw, table, results = random.Random(1), [], []
    trials: list[Trial] = []
    for name, target, params in pipelines(options.only):
        found = run(name, target, params, options.again, draw)
        trials.append(found.pop("trial"))
        results.append(found)
        shown = [ratio_text(found[of], 3) for of in ("pick_over_best", "old_over_best")]
        choices = (found["best"], found["pick"], shown[0], found["old"], shown[1])
        table.append((name, str(found["feasible"]), *choices, f"{found['time_ratio'] * 100:.0f} %"))
        save(options.json, {"results": results, "trials": msgspec.to_builtins(trials)})
    columns = ("pipeline", "layouts", "best of grid", "pick", "pick / best", "old pick", "old / best", "time")
    show("The pick against brute force, measured again interleaved; time of the probes over that of the grid", columns, table)


if __name__ == "__main__":
    main()
