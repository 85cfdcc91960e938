"""Does a measurement say today what it says tomorrow? What several hours measured, each against all others; nothing is measured.

    python -m benchmarks.other_hours                        # the saved occasions of benchmarks/occasion
    python -m benchmarks.other_hours run_1.json run_2.json  # saved runs of one pipeline on one host

The launches of each hour are fitted anew, by the model as it is now. Plans: of each hour for 20 demands, from half a worker's worth
to twenty, on 16 nodes of 64 CPUs; what a demand truly needs is what all hours together say. Predictions: of one hour for its own
host, against what the others measured there. Comparisons, of runs only: of each two, which are of equal code, so that any change
that is called is a false alarm. Hours are of one pipeline, and of one host between two of its starts. Intervals are over hours
(bootstrap).
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import cs_input_analyzer as csia
from benchmarks.occasion.report import Spread, around, worker_of
from benchmarks.occasion.saved import DATA, saved
from benchmarks.paired import middle, save, show
from cs_input_analyzer.host.cluster import this_host
from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.estimates import NORMAL_95
from cs_input_analyzer.model.recommend import recommend
from cs_input_analyzer.model.recommend.launches import smallest
from cs_input_analyzer.model.recommend.problem import PlanningProblem
from cs_input_analyzer.records import CapacityModel, Cluster, Estimate, Host, Layout, Measurement, Options, PipelineGraph, QuietLoop
from cs_input_analyzer.worker.summary import measurement_of
from wafer_model import Consumption

NODES = Cluster(
    nodes=16, cpus_per_node=64, memory_bytes_per_node=2**38, threads_per_core=1, speed_ratio=Estimate.exact(1.0), source="declared"
)
DEMANDS = np.geomspace(0.5, 20, 20)
TITLES = SAME, NEAR, MEET, FRUGAL = "same plan", "one rung or node apart", "meet the demand", "tasks at most twice the least"
Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """One pipeline at one hour: its launches and their model, and rates by layout, as they were and at the quiet level."""

    graph: PipelineGraph
    launches: tuple[Measurement, ...]
    model: CapacityModel
    host: Cluster
    rates: dict[Layout, float]
    quiet_rates: dict[Layout, float]


def fitted(graph: PipelineGraph, launches: Sequence[Measurement], host: Host, **known: Any) -> Hour:
    """`known`: fields of the model that launches do not tell."""
    compared = [capacity.with_known_loops(launch, host.quiet_loops) for launch in launches]
    model = capacity.fit(graph, compared, host.cpu_budget)
    model = replace(model, host_ratio=capacity.at_other_hours(model.host_ratio, host.kept_ratios), **known)
    rates, quiet_rates = (_means(several) for several in (launches, capacity.at_quiet_level(compared)))
    return Hour(graph=graph, launches=tuple(compared), model=model, host=this_host(host), rates=rates, quiet_rates=quiet_rates)


def _means(launches: Sequence[Measurement]) -> dict[Layout, float]:
    rates: dict[Layout, list[float]] = defaultdict(list)
    for launch in launches:
        if launch.samples_per_s is not None and launch.num_workers == launch.layout.tasks and launch.role == "probe":
            rates[launch.layout].append(launch.samples_per_s.estimate)
    return {layout: float(np.mean(several)) for layout, several in rates.items()}


# --- what was measured ---------------------------------------------------------------------------------------------------------


def of_runs(runs: Sequence[csia.Analysis]) -> list[Hour]:
    return [fitted(run.pipeline, run.measurements, run.host, is_sharded=run.capacity.is_sharded) for run in runs if run.capacity]


def of_occasions(path: Path, most_others_ratio: float) -> Iterator[tuple[str, list[Hour]]]:
    """By pipeline and host, in the order of time; only occasions with the reference loop beside, in which others had no more of the
    CPUs, and at least two of a host.

    As the product does, each hour knows the fastest loops that earlier ones saw, and what their launches got of the quiet level.
    """
    hosts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for data in saved(path):
        if "loop_us" in data["columns"] and (data["others_ratio"] or 0.0) <= most_others_ratio:
            hosts[f"{data['cpu_model']}, started as {data['boot_id'][:4]}"].append(data)
    for name, several in hosts.items():
        if len(several) > 1:
            pipelines = dict.fromkeys(row[several[0]["columns"].index("pipeline")] for row in several[0]["rows"])
            yield from ((f"{pipeline} ({name})", _hours_of(pipeline, several)) for pipeline in pipelines)


def _hours_of(pipeline: str, occasions: Sequence[dict[str, Any]]) -> list[Hour]:
    graph = PipelineGraph(target=pipeline, batch_size=1, element_spec=(), ops=(), files=None)
    fastest: dict[int, list[float]] = defaultdict(list)
    kept: list[float] = []
    hours = []
    for data in occasions:
        launches = _launches(pipeline, data)
        for launch in launches:
            loops = [worker.noise.undisturbed_s for worker in launch.workers if worker.noise and worker.noise.undisturbed_s]
            fastest[launch.layout.cpus_per_node] += [min(loops)] if loops else []
        host = Host(
            hostname="",
            cpus=data["cpus"],
            cpu_model=data["cpu_model"],
            memory_bytes=data["memory_bytes"],
            cpu_budget=data["cpus"],
            cpu_budget_source="",
            python_version=data["python"],
            tensorflow_version=data["tensorflow"],
            quiet_loops=tuple(QuietLoop(cpus, sorted(seen)[(len(seen) - 1) // 4]) for cpus, seen in fastest.items()),
            kept_ratios=tuple(kept),
        )
        hours.append(fitted(graph, launches, host))
        kept.append(capacity.fit(graph, launches, data["cpus"]).host_ratio.estimate)
    return hours


def _launches(pipeline: str, data: dict[str, Any]) -> list[Measurement]:
    """Each launch with the mean of its slices, which differ by as much as those of its layout do."""
    at = {name: number for number, name in enumerate(data["columns"])}
    tasks: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in data["rows"]:
        if row[at["pipeline"]] == pipeline and row[at["samples"]] > 0:
            tasks[tuple(row[at[name]] for name in ("tasks", "cpus", "launch", "task"))].append(row)
    raw = {key: [math.log(row[at["samples"]] / row[at["wall_us"]]) for row in rows] for key, rows in tasks.items()}
    quiet = {key: _quiet_logs(key, rows, at) for key, rows in tasks.items()}
    launches: dict[tuple[int, int, int], list[Any]] = defaultdict(list)
    for key, rows in tasks.items():
        apart, quiet_apart = (
            (around(logs for other, logs in slices.items() if other[:2] == key[:2]).sd or 0.0) / math.sqrt(len(rows))
            for slices in (raw, quiet)
        )
        launches[key[:3]].append(worker_of(rows, at, NORMAL_95 * apart, quiet_apart))
    return [
        measurement_of(Layout(nodes=1, tasks_per_node=count, cpus_per_task=cpus), count, workers)
        for (count, cpus, _), workers in launches.items()
        if len(workers) == count
    ]


def _quiet_logs(key: Sequence[int], rows: Sequence[Sequence[Any]], at: dict[str, int]) -> list[float]:
    """Logarithms of the rates of a task's slices, each corrected for what others took in it."""
    tasks, cpus, *_ = key
    layout = Layout(nodes=1, tasks_per_node=tasks, cpus_per_task=cpus)
    alone = [measurement_of(layout, tasks, [worker_of([row], at)]) for row in rows]
    return [math.log(launch.samples_per_s.estimate) for launch in capacity.at_quiet_level(alone) if launch.samples_per_s]


# --- tables --------------------------------------------------------------------------------------------------------------------


def plans(hours: Sequence[Hour]) -> tuple[list[tuple[str, str]], dict[str, list[bool]]]:
    """Launches by demand; and of pairs and plans, by title, whether they are as they should be."""
    unit = middle([hour.model.workers[0].samples_per_s.estimate for hour in hours])
    first = hours[0]
    every = [launch for hour in hours for launch in hour.launches]
    truth = replace(capacity.fit(first.graph, every, first.model.host_cpus), is_sharded=first.model.is_sharded)
    rows, found = [], defaultdict(list)
    for demand in DEMANDS * unit:
        layouts = [recommend(hour.model, *_asked(demand)).layout for hour in hours]
        for one, other in itertools.combinations(layouts, 2):
            found[SAME].append(one == other)
            found[NEAR].append(_are_near(one, other))
        counts = Counter(layouts)
        meets = {layout: bool(_predicted(truth, NODES, layout).estimate >= demand) for layout in counts}
        frugal = {layout: _is_frugal(truth, layout, demand) for layout in counts}
        found[MEET] += [meets[layout] for layout in layouts]
        found[FRUGAL] += [frugal[layout] for layout in layouts]
        rows.append((f"{demand / unit:.2f}", ", ".join(f"{layout} {count}" for layout, count in counts.most_common())))
    return rows, found


def _asked(demand: float) -> tuple[Consumption, Cluster, Options]:
    return Consumption(samples_per_s=Estimate.exact(float(demand)), source="number"), NODES, Options()


def _is_frugal(truth: CapacityModel, layout: Layout, demand: float) -> bool:
    """At most twice the tasks that would do on these nodes by what all hours know; so is a plan whose nodes would not do."""
    consumption, cluster, options = _asked(demand)
    problem = PlanningProblem(model=truth, consumption=consumption, cluster=cluster, options=options)
    least = smallest(problem, layout.nodes)
    return least is None or layout.tasks_per_node <= 2 * least.layout.tasks_per_node


def _are_near(one: Layout, other: Layout) -> bool:
    """With single-task nodes, the second node streams nothing."""
    tasks = sorted((one.tasks_per_node, other.tasks_per_node))
    return abs(one.nodes - other.nodes) <= 2 and tasks[1] <= 2 * tasks[0]


def _predicted(model: CapacityModel, cluster: Cluster, layout: Layout) -> Estimate:
    has_chief = cluster is NODES
    single = 1 if has_chief and layout.nodes > 1 else 0
    feed = "round-robin" if has_chief else "first-come"
    return capacity.predict(model, cluster, layout, single_task_nodes=single, feed=feed, has_chief=has_chief).samples_per_s


def elsewhen(hours: Sequence[Hour]) -> list[tuple[int, int, float, float, bool]]:
    """Predicting and measuring hour; logarithms of predicted, and of measured then, over measured there; inside the interval."""
    found = []
    for (mine, one), (theirs, other) in itertools.permutations(enumerate(hours), 2):
        for layout in one.rates.keys() & other.rates.keys():
            said, there = _predicted(one.model, one.host, layout), other.rates[layout]
            logs = (math.log(said.estimate / there), math.log(one.rates[layout] / there))
            found.append((mine, theirs, *logs, bool(said.low <= there <= said.high)))
    return found


def over_hours(count: int, pairs: Pairs, values: Sequence[float], of: Callable[[Sequence[float]], float]) -> str:
    """`of` the values of all pairs with its 90 % interval, hours drawn with replacement (a pair as often as both its hours)."""
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


def spreads(hours: Sequence[Hour]) -> tuple[Spread, Spread]:
    """Of hours around the mean of their layout, as measured and at the quiet level."""
    layouts = set.intersection(*({*hour.rates} for hour in hours))
    as_measured, quiet = (
        around([math.log(rates[layout]) for rates in side] for layout in layouts)
        for side in ([hour.rates for hour in hours], [hour.quiet_rates for hour in hours])
    )
    return as_measured, quiet


def pooled(several: Sequence[Spread]) -> str:
    """One standard deviation of all, in per cent: what `RUN_SPREAD_RATIO` assumes of runs at the quiet level."""
    degrees = sum(one.degrees for one in several)
    return f"{100 * math.sqrt(sum(one.degrees * (one.sd or 0.0) ** 2 for one in several) / max(1, degrees)):.1f}"


def judged(hours: Sequence[Hour]) -> dict[str, Any]:
    rows, found = plans(hours)
    seen = elsewhen(hours)
    pairs = [(one, other) for one, other, *_ in seen]
    predicted, again = (over_hours(len(hours), pairs, [abs(row[at]) for row in seen], middle) for at in (2, 3))
    inside = over_hours(len(hours), pairs, [row[4] for row in seen], mean)
    return {"plans": rows, "judged": found, "errors": (predicted, again, inside), "spreads": spreads(hours)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", metavar="RUN.json")
    parser.add_argument(
        "--most-others", type=float, default=1.0, metavar="RATIO", help="leave out occasions in which others had more"
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers there too")
    options = parser.parse_args()
    runs = [csia.load_analysis(Path(name)) for name in options.runs]
    groups = [("saved runs", of_runs(runs))] if runs else list(of_occasions(DATA, options.most_others))
    found = {f"{name}: {len(hours)} hours": judged(hours) for name, hours in groups}
    spread = [(name, *map(str, one["spreads"])) for name, one in found.items()]
    spread.append(("all", *(pooled([one["spreads"][side] for one in found.values()]) for side in (0, 1))))
    show("Spread of hours, one standard deviation in per cent (90 %)", ("", "as measured", "at the quiet level"), spread)
    columns = ("", "predicted against measured", "measured against measured", "inside the 90 % interval")
    errors = [(name, *one["errors"]) for name, one in found.items()]
    show("At other hours, median |log ratio| and coverage", columns, errors)
    if runs:
        (one,) = found.values()
        show("Plans", ("demand, workers of one CPU", "launches, and hours that planned them"), one["plans"])
        twos = list(itertools.combinations(range(len(runs)), 2))
        alarms = [any(row.change != "no difference seen" for row in csia.compare(runs[a], runs[b]).rates) for a, b in twos]
        called = over_hours(len(runs), twos, alarms, mean)
        show("Comparisons of equal code", ("pairs", "called changed"), [(str(len(twos)), called)])
    every = {title: [value for one in found.values() for value in one["judged"][title]] for title in TITLES}
    shares = {**{name: one["judged"] for name, one in found.items()}, "all": every}
    rows = [(name, *(f"{mean(one[title]):.1%}" for title in TITLES)) for name, one in shares.items()]
    show("Plans of pairs of hours, and of hours", ("", *TITLES), rows)
    saved = {name: {**one, "spreads": [asdict(spread) for spread in one["spreads"]]} for name, one in found.items()}
    save(options.json, {"hours": saved})


if __name__ == "__main__":
    main()
