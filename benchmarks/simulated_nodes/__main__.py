"""Run the truths, print a table, write JSON."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.simulated_nodes import __doc__ as description
from benchmarks.simulated_nodes import events, laws
from benchmarks.simulated_nodes.launcher import SimulatedLauncher
from benchmarks.simulated_nodes.truth import Rates, Truth, read_truth
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model import capacity
from cs_input_analyzer.records import Analysis, Cluster, Estimate, Host, LaunchPlan, Layout, Options
from cs_input_analyzer.request.options import SLURM_SECONDS
from cs_input_analyzer.request.request import Request
from cs_input_analyzer.workflows.analyze import analyze

TRUTHS = Path(__file__).parent / "truths"
MOST_NODES = 16
PLANNED_ERROR = 0.10


def run(path: Path, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return a record for each seed of one truth."""
    truth = read_truth(path)
    rates = (laws if truth.simulates == "law" else events).rates_of(truth)
    return [_one(truth, rates, seed) for seed in seeds]


def _one(truth: Truth, rates: Rates, seed: int) -> dict[str, Any]:
    launcher = SimulatedLauncher(truth, rates, seed)
    cluster = _cluster(truth)
    try:
        found = analyze(_request(truth, cluster), launcher, lambda what, ratio: None)  # type: ignore[arg-type]
    except UsageError as error:
        raise SystemExit(f"{truth.name}: {error}") from None
    plan = found.recommendation
    layouts = {
        (nodes, tasks) for nodes in _doublings(min(MOST_NODES, cluster.nodes)) for tasks in _doublings(cluster.cpus_per_node)
    }
    planned = None if plan is None else plan.streaming
    rows = [_predicted_row(truth, rates, found, cluster, nodes, tasks) for nodes, tasks in sorted(layouts)]
    # One task of a launch is the chief, and does not stream.
    best = max(
        rate * (nodes * tasks - 1) / (nodes * tasks) / nodes
        for nodes, tasks in layouts
        if (rate := _true(truth, rates, nodes, tasks)) > 0
    )
    row = None if plan is None else _planned_row(truth, rates, plan)
    picked = 0.0 if row is None else (row["true_samples_per_s"] or 0.0) / row["layout"]["nodes"]
    return {
        "truth": truth.name,
        "seed": seed,
        "cpus": truth.node.cpus,
        "launches": launcher.launches,
        "worker_starts": launcher.worker_starts,
        "seconds": launcher.clock_s,
        "plan": None if planned is None else _layout(planned),
        "pick_over_best": picked / best,
        "rows": [*rows, *([] if row is None else [row])],
    }


def _predicted_row(truth: Truth, rates: Rates, found: Analysis, cluster: Cluster, nodes: int, tasks: int) -> dict[str, Any]:
    layout = Layout(nodes=nodes, tasks_per_node=tasks, cpus_per_task=cluster.cpus_per_node // tasks)
    assert found.capacity is not None
    said = capacity.predict(found.capacity, cluster, layout, single_task_nodes=0, feed=truth.feed, has_chief=False)
    return _row(layout, _true(truth, rates, nodes, tasks), said.samples_per_s, problem=said.problem)


def _planned_row(truth: Truth, rates: Rates, plan: LaunchPlan) -> dict[str, Any]:
    """Return the row of the plan, as it predicts itself: one of its tasks is the chief."""
    layout = plan.streaming
    all_stream = _true(truth, rates, layout.nodes, layout.tasks_per_node, layout.cpus_per_task)
    return _row(layout, all_stream * plan.input_workers / layout.tasks, plan.predicted_samples_per_s, is_plan=True)


def _row(layout: Layout, true: float, rate: Estimate, *, is_plan: bool = False, problem: str | None = None) -> dict[str, Any]:
    return {
        "layout": _layout(layout),
        "true_samples_per_s": true or None,
        "predicted_samples_per_s": {"estimate": rate.estimate, "low": rate.low, "high": rate.high},
        "inside": (rate.low <= true <= rate.high) if true and problem is None else None,
        "is_plan": is_plan,
        "problem": problem,
    }


def _true(truth: Truth, rates: Rates, nodes: int, tasks: int, cpus: int | None = None) -> float:
    """Return what a launch delivers on nodes that are like the mean of all; 0 if it cannot run."""
    node, pipeline = truth.node, truth.pipeline
    # One task of a launch is the chief, and reads nothing.
    if tasks * pipeline.worker_bytes + 4e8 > _memory_bytes(truth) or nodes * tasks - 1 > pipeline.files:
        return 0.0
    rate = rates(nodes, tasks, cpus or node.cpus // tasks).samples_per_s
    slowest = _slowest_ratio(nodes, tasks, truth.cluster.spread, truth.noise.process) if truth.feed == "round-robin" else 1.0
    return nodes * tasks * rate * slowest


@cache
def _slowest_ratio(nodes: int, tasks: int, of_nodes: float, of_processes: float) -> float:
    """Return the slowest worker over the mean of all, by drawing launches."""
    draw = np.random.default_rng(1)
    logs = draw.normal(0, of_nodes, (400, nodes, 1)) + draw.normal(0, of_processes, (400, nodes, tasks))
    return float(np.exp(logs).min(axis=(1, 2)).mean())


def _memory_bytes(truth: Truth) -> int:
    return int(truth.node.memory_bytes or 4e9 * truth.node.cpus)


def _cluster(truth: Truth) -> Cluster:
    storage = truth.cluster.storage_bytes_per_s if truth.cluster.storage_is_declared else None
    return Cluster(
        nodes=truth.cluster.nodes,
        cpus_per_node=truth.node.cpus,
        memory_bytes_per_node=_memory_bytes(truth),
        threads_per_core=truth.node.threads_per_core,
        storage_bytes_per_s=storage,
        speed_ratio=Estimate.exact(1.0),
        is_measured=truth.cluster.measured_nodes > 1,
    )


def _request(truth: Truth, cluster: Cluster) -> Request:
    host = Host(
        hostname="node0",
        cpus=truth.node.cpus,
        cpu_model="simulated",
        memory_bytes=cluster.memory_bytes_per_node,
        cpu_budget=truth.node.cpus,
        cpu_budget_source="affinity",
        python_version="3",
        tensorflow_version=None,
        threads_per_core=truth.node.threads_per_core,
    )
    options = Options(
        single_task_nodes=0,
        feed=truth.feed,
        measure_fixes=False,
        fresh=True,
        max_seconds=SLURM_SECONDS if truth.cluster.measured_nodes > 1 else 60.0,
    )
    return Request(
        target="simulated",
        options=options,
        host=host,
        cluster=cluster,
        consumption=None,
        command="simulated_nodes",
        created_at="2026-01-01T00:00:00+00:00",
    )


def _doublings(most: int) -> list[int]:
    return [2**power for power in range(int(math.log2(most)) + 1)]


def _layout(layout: Layout) -> dict[str, int]:
    return {"nodes": layout.nodes, "tasks_per_node": layout.tasks_per_node, "cpus_per_task": layout.cpus_per_task}


# --- the table ------------------------------------------------------------------------------------------------------------------


COLUMNS = (
    ("error", "planned_error", "{:+.0%}"),
    ("<=10 %", "planned_error_ok", "{:.0%}"),
    ("inside", "planned_inside", "{:.0%}"),
    ("width", "half_width", "±{:.0%}"),
    ("8-64", "rows_error", "{:.0%}"),
    ("inside", "rows_inside", "{:.0%}"),
    ("pick", "pick", "{:.2f}"),
    ("least", "least_pick", "{:.2f}"),
    ("launches", "launches", "{:.0f}"),
    ("starts", "starts", "{:.0f}"),
    ("s", "seconds", "{:.0f}"),
)


def summary(name: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers that the gate asks for, over all seeds of some truths."""
    plans = [row for one in found for row in one["rows"] if row["is_plan"] and row["true_samples_per_s"]]
    rows = [row for one in found for row in one["rows"] if not row["is_plan"] and row["inside"] is not None]
    wide = [row for row in rows if 8 <= row["layout"]["tasks_per_node"] <= 64]
    inside = [row["inside"] for row in plans]
    return {
        "name": name,
        "planned_error_ok": _share(abs(_error(row)) <= PLANNED_ERROR for row in plans),
        "planned_inside": _share(inside),
        "planned_error": median(map(_error, plans)) if plans else math.nan,
        "half_width": median(map(_half, plans)) if plans else math.nan,
        "rows_inside": _share(row["inside"] for row in rows),
        "rows_error": median(abs(_error(row)) for row in wide) if wide else math.nan,
        "pick": median(one["pick_over_best"] for one in found),
        "least_pick": min(one["pick_over_best"] for one in found),
        "launches": median(one["launches"] for one in found),
        "starts": median(one["worker_starts"] for one in found),
        "seconds": median(one["seconds"] for one in found),
        "count": len(plans),
    }


def _share(values: Iterable[bool]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else math.nan


def _error(row: dict[str, Any]) -> float:
    return row["predicted_samples_per_s"]["estimate"] / row["true_samples_per_s"] - 1


def _half(row: dict[str, Any]) -> float:
    rate = row["predicted_samples_per_s"]
    return (rate["high"] - rate["low"]) / 2 / rate["estimate"]


def main() -> None:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", action="append", type=Path, metavar="FILE", help="a truth (default: all in truths/)")
    parser.add_argument("--seeds", type=int, default=20, help="runs of each truth (default 20)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all rows there")
    options = parser.parse_args()
    paths = options.truth or sorted(TRUTHS.glob("*.yaml"))
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = dict(zip(paths, pool.map(run, paths, [range(options.seeds)] * len(paths)), strict=True))
    parts = [summary(each[0]["truth"], each) for each in found.values()]
    parts.append(summary("all", [one for each in found.values() for one in each]))
    print("of the planned launch: error (median), error of at most 10 %, inside the interval, half-width; of launches that")
    print("fill the nodes: error of those of 8 to 64 tasks (median), inside; the pick over the best; what was launched")
    print(f"{'truth':34}" + "".join(f"{name:>9}" for name, _, _ in COLUMNS))
    for part in parts:
        print(f"{part['name']:34}" + "".join(f"{form.format(part[key]):>9}" for _, key, form in COLUMNS))
    if options.json:
        options.json.write_text(json.dumps([one for each in found.values() for one in each], indent=1) + "\n")
    if missed := list(missed_gates(parts)):
        raise SystemExit("missed: " + "; ".join(missed))


def missed_gates(parts: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield what the numbers of all truths, the last of which is that of all together, do not reach."""
    *each, whole = parts
    inside = round(whole["planned_inside"] * whole["count"])
    interval = stats.binomtest(inside, whole["count"]).proportion_ci(0.9)
    print(f"planned launches inside: {inside} of {whole['count']}, 90 % interval {interval.low:.0%} to {interval.high:.0%}")
    if whole["planned_error_ok"] < 0.9:
        yield f"an error of at most 10 % in {whole['planned_error_ok']:.0%} of runs, not in 90 %"
    for part in each:
        if part["planned_error_ok"] < 0.75:
            yield f"{part['name']}: an error of at most 10 % in {part['planned_error_ok']:.0%} of runs, not in 75 %"
    if interval.high < 0.85 or interval.low > 0.95:
        yield f"{whole['planned_inside']:.0%} inside, not 85 to 95 %"
    if whole["pick"] < 0.97:
        yield f"the pick is {whole['pick']:.2f} of the best, not 0.97"
    if whole["rows_error"] > 0.05:
        yield f"launches of 8 to 64 tasks are off by {whole['rows_error']:.0%}, not 5 %"


if __name__ == "__main__":
    main()
