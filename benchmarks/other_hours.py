"""Does a run say today what it says tomorrow? Saved runs of one pipeline on one host, each against all others; nothing is measured.

    for hour in 1 2 3; do cs_input_analyzer demo --json run_$hour.json; sleep 3600; done
    python -m benchmarks.other_hours run_*.json

Plans: of each run for 20 demands, from half a worker's worth to twenty, on 16 nodes of 64 CPUs; what the demand truly needs is what
the model of all runs together says. Predictions: of one run for its own host, against what the others measured there. Comparisons:
of each two, which are of equal code, so that any change that is called is a false alarm. The intervals are over runs (bootstrap).
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import cs_input_analyzer as csia
from benchmarks.occasion.report import around
from benchmarks.paired import middle, save, show
from cs_input_analyzer.machines.cluster import this_host
from cs_input_analyzer.planning import capacity
from cs_input_analyzer.records import CapacityModel, Cluster, Estimate, Layout

NODES = Cluster(
    nodes=16, cpus_per_node=64, memory_bytes_per_node=2**38, threads_per_core=1, speed_ratio=Estimate.exact(1.0), source="declared"
)
DEMANDS = np.geomspace(0.5, 20, 20)
HEADROOM = 1.1


def planned(run: csia.Analysis, demand: float) -> Layout:
    plan = run.plan(cluster=NODES, demand=demand).recommendation
    assert plan is not None
    return plan.layout


def are_near(one: Layout, other: Layout) -> bool:
    """One rung of tasks, or one node, apart at most: with single-task nodes, the second node streams nothing."""
    tasks = sorted((one.tasks_per_node, other.tasks_per_node))
    return abs(one.nodes - other.nodes) <= 2 and tasks[1] <= 2 * tasks[0]


def plans(runs: Sequence[csia.Analysis], truth: CapacityModel, unit: float) -> tuple[list[tuple[str, str]], dict[str, float]]:
    rows, same, near, meets, frugal = [], [], [], [], []
    for demand in DEMANDS * unit:
        layouts = [planned(run, float(demand)) for run in runs]
        supplies = {layout: supply(truth, NODES, layout) for layout in set(layouts)}
        pairs = list(itertools.combinations(layouts, 2))
        same += [one == other for one, other in pairs]
        near += [are_near(one, other) for one, other in pairs]
        meets += [supplies[layout] >= demand for layout in layouts]
        frugal += [halved(layout) is None or supply(truth, NODES, halved(layout) or layout) < 2 * demand for layout in layouts]
        counts = Counter(map(str, layouts)).most_common()
        rows.append((f"{demand / unit:.2f}", ", ".join(f"{layout} {count}" for layout, count in counts)))
    shares = {"same": same, "near": near, "meets": meets, "not twice too large": frugal}
    return rows, {name: float(np.mean(values)) for name, values in shares.items()}


def halved(layout: Layout) -> Layout | None:
    if layout.tasks_per_node < 2:
        return None
    return Layout(nodes=layout.nodes, tasks_per_node=layout.tasks_per_node // 2, cpus_per_task=layout.cpus_per_task)


def supply(model: CapacityModel, cluster: Cluster, layout: Layout) -> float:
    return capacity.predict(
        model, cluster, layout, single_task_nodes=0 if layout.nodes == 1 else 1, feed="first-come"
    ).samples_per_s.estimate


def elsewhen(runs: Sequence[csia.Analysis]) -> dict[str, list[tuple[int, int, float, float, bool]]]:
    """By layout: predicting run, measuring run, logarithms of predicted and of measured over measured there, inside.

    The last is of all layouts.
    """
    rates = [measured(run) for run in runs]
    found: dict[str, list[tuple[int, int, float, float, bool]]] = {}
    for (mine, run), (theirs, others) in itertools.permutations(enumerate(rates), 2):
        for layout in run.keys() & others.keys():
            model = runs[mine].capacity
            assert model is not None
            told = capacity.predict(
                model, this_host(runs[mine].host), layout, single_task_nodes=0, feed="first-come", has_chief=False
            )
            there = others[layout]
            inside = told.samples_per_s.low <= there <= told.samples_per_s.high
            logs = (math.log(told.samples_per_s.estimate / there), math.log(run[layout] / there))
            for name in (str(layout), "all"):
                found.setdefault(name, []).append((mine, theirs, *logs, inside))
    return found


def spreads(runs: Sequence[csia.Analysis]) -> list[tuple[str, ...]]:
    """Of each layout the standard deviation of runs, in per cent of the rate: as measured, and at the quiet level."""
    rows = []
    several = [(measured(run), measured(run, is_quiet=True)) for run in runs]
    for layout in sorted(set.intersection(*({*rates} for rates, _ in several)), key=str):
        sds = [around([[math.log(rates[side][layout]) for rates in several]]) for side in (0, 1)]
        rows.append(
            (str(layout), *(f"{middle([rates[side][layout] for rates in several]):,.0f}" for side in (0, 1)), *map(str, sds))
        )
    return rows


def measured(run: csia.Analysis, *, is_quiet: bool = False) -> dict[Layout, float]:
    """Mean rate of its whole launches, as they were or at the quiet level."""
    rates: dict[Layout, list[float]] = {}
    launches = [capacity.with_known_loops(launch, run.host.quiet_loops) for launch in run.measurements]
    for launch in capacity.at_quiet_level(launches) if is_quiet else launches:
        if launch.samples_per_s is not None and launch.num_workers == launch.layout.tasks and launch.role == "probe":
            rates.setdefault(launch.layout, []).append(launch.samples_per_s.estimate)
    return {layout: float(np.mean(several)) for layout, several in rates.items()}


def over_runs(count: int, pairs: Sequence[tuple[int, int]], values: Sequence[float], of: Callable[[Sequence[float]], float]) -> str:
    """`of` the values of all pairs with its 90 % interval, runs drawn with replacement (a pair as often as both its runs)."""
    draw = np.random.default_rng(0)
    found = []
    for _ in range(400):
        weights = np.bincount(draw.integers(0, count, count), minlength=count)
        drawn = [value for value, (one, other) in zip(values, pairs, strict=True) for _ in range(weights[one] * weights[other])]
        if drawn:
            found.append(of(drawn))
    low, high = np.quantile(found, (0.05, 0.95))
    return f"{of(values):.3f} ({low:.3f} to {high:.3f})"


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN.json")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there too")
    options = parser.parse_args()
    runs = [csia.load_analysis(Path(name)) for name in options.runs]
    graph, host = runs[0].pipeline, runs[0].host
    truth = capacity.fit(graph, [m for run in runs for m in run.measurements], host.cpu_budget)
    columns = ("layout", "as measured", "at the quiet level", "its spread", "its spread at the quiet level")
    show("Samples/s, median of runs, and one standard deviation of runs in per cent (90 %)", columns, spreads(runs))
    unit = middle([run.capacity.workers[0].samples_per_s.estimate for run in runs if run.capacity is not None])
    rows, shares = plans(runs, truth, unit)
    show(f"Plans of {len(runs)} runs", ("demand, workers of one CPU", "launches, and runs that planned them"), rows)
    show("Of pairs of plans, and of plans", ("", "share"), [(name, f"{share:.1%}") for name, share in shares.items()])
    errors = []
    for layout, found in sorted(elsewhen(runs).items()):
        pairs = [(one, other) for one, other, *_ in found]
        logs = ([abs(row[at]) for row in found] for at in (2, 3))
        inside = over_runs(len(runs), pairs, [row[4] for row in found], mean)
        errors.append((layout, *(over_runs(len(runs), pairs, several, middle) for several in logs), inside))
    columns = ("layout", "predicted against measured", "measured against measured", "inside the 90 % interval")
    show("At other hours, median |log ratio| and coverage", columns, errors)
    twos = list(itertools.combinations(range(len(runs)), 2))
    alarms = [any(row.change != "no difference seen" for row in csia.compare(runs[one], runs[other]).rates) for one, other in twos]
    said = over_runs(len(runs), twos, alarms, mean)
    show("Comparisons of equal code", ("pairs", "called changed"), [(str(len(twos)), said)])
    save(options.json, {"shares": shares, "errors": errors, "alarms": said, "plans": rows})


if __name__ == "__main__":
    main()
