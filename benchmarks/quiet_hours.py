"""Does a run of one hour predict the rates of undisturbed hours? The saved occasions, judged by rates as they were measured.

    python -m benchmarks.quiet_hours [--json OUT]

Occasions are hours of a shared machine, each a line of occasions.jsonl.xz: five pipelines ran there without the analyzer, in slices
of 0.9 s of each launch, in turns and in random order. The truth of a launch is its rate in other quiet hours of the same host,
between two of its starts. In a quiet hour other programs used at most 5 % of the CPUs, by the kernel's account. No correction is
part of the truth. Each hour, busy or not, is fitted by the model as it is now, and predicts launches of an idle host. Plans are for
20 demands, from half a worker's worth to twenty, on 16 nodes of 64 CPUs. A plan holds if its supply by the truth, in proportion to
its workers, reaches the demand.
"""

from __future__ import annotations

import json
import lzma
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.paired import arguments, save, show
from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.estimates import NORMAL_95
from cs_input_analyzer.model.recommend import recommend
from cs_input_analyzer.records import (
    CapacityModel,
    Cluster,
    Consumption,
    Estimate,
    KeptPlan,
    LaunchPlan,
    Layout,
    Measurement,
    Noise,
    Options,
    PipelineGraph,
    WorkerResult,
)
from cs_input_analyzer.worker.summary import measurement_of

OCCASIONS = Path(__file__).with_name("occasions.jsonl.xz")
MOST_OTHERS_RATIO = 0.05
LEAST_QUIET_HOURS = 10
NODES = Cluster(
    nodes=16, cpus_per_node=64, memory_bytes_per_node=2**38, threads_per_core=1, speed_ratio=Estimate.exact(1.0), source="declared"
)
DEMANDS = np.geomspace(0.5, 20, 20)
ONE = Layout(nodes=1, tasks_per_node=1, cpus_per_task=1)
NEAR_SUPPLY_RATIO = 0.03
LEAST_INSIDE, MOST_INSIDE, LEAST_HOLDS, LEAST_KEPT = 0.86, 0.94, 0.97, 0.95


@dataclass(frozen=True, kw_only=True)
class Hour:
    """One pipeline at one hour. `rates`: by layout, of each launch."""

    others_ratio: float
    is_told: bool  # the share of other programs is known for each launch
    launches: tuple[Measurement, ...]
    rates: dict[Layout, list[float]]
    cpus: int

    @property
    def is_quiet(self) -> bool:
        return self.others_ratio <= MOST_OTHERS_RATIO


def hours() -> dict[tuple[str, str], list[Hour]]:
    """Return the hours of each start of a host, and pipeline."""
    found: dict[tuple[str, str], list[Hour]] = defaultdict(list)
    for data in map(json.loads, lzma.decompress(OCCASIONS.read_bytes()).splitlines()):
        at = {name: number for number, name in enumerate(data["columns"])}
        start = f"{data['cpu_model']}, started as {data['boot_id'][:4]}"
        for pipeline in dict.fromkeys(row[at["pipeline"]] for row in data["rows"]):
            launches = tuple(_launches([row for row in data["rows"] if row[at["pipeline"]] == pipeline], at))
            rates: dict[Layout, list[float]] = defaultdict(list)
            for launch in launches:
                if launch.samples_per_s is not None:
                    rates[launch.layout].append(launch.samples_per_s.estimate)
            if any(layout.tasks == 1 for layout in rates):
                hour = Hour(
                    others_ratio=data["others_ratio"] or 0.0,
                    is_told="others_ratio" in at,
                    launches=launches,
                    rates=rates,
                    cpus=data["cpus"],
                )
                found[start, pipeline].append(hour)
    return found


def _launches(rows: Sequence[Sequence[Any]], at: dict[str, int]) -> Iterator[Measurement]:
    """Yield each launch whose tasks all delivered, with the mean of its slices and how far they lie apart."""
    tasks: dict[tuple[int, int, int, int], list[Any]] = defaultdict(list)
    for row in rows:
        if row[at["samples"]] > 0:
            tasks[tuple(row[at[name]] for name in ("tasks", "cpus", "launch", "task"))].append(row)  # type: ignore[index]
    logs = {key: [math.log(row[at["samples"]] / row[at["wall_us"]]) for row in own] for key, own in tasks.items()}
    launches: dict[tuple[int, int, int], list[Any]] = defaultdict(list)
    for key, own in tasks.items():
        apart = pooled_deviation(values for other, values in logs.items() if other[:2] == key[:2])
        launches[key[:3]].append(_worker(own, at, NORMAL_95 * apart / math.sqrt(len(own))))
    for (count, cpus, _), workers in launches.items():
        if len(workers) == count:
            yield measurement_of(Layout(nodes=1, tasks_per_node=count, cpus_per_task=cpus), count, workers)


def pooled_deviation(groups: Iterable[Sequence[float]]) -> float:
    """Return the pooled standard deviation of values around the mean of their group; 0 if no group has two."""
    several = [values for values in groups if values]
    degrees = sum(len(values) - 1 for values in several)
    return math.sqrt(sum(float(np.var(values)) * len(values) for values in several) / max(degrees, 1))


def _worker(rows: Sequence[Sequence[Any]], at: dict[str, int], half_log: float) -> WorkerResult:
    """Return one task over some slices; `half_log`: half of the 90 % interval of its rate, natural logarithm."""

    def known(name: str) -> list[float]:
        return [row[at[name]] for row in rows if name in at and row[at[name]] is not None]

    samples, wall_us, cpu_us = (sum(known(name)) for name in ("samples", "wall_us", "cpu_us"))
    queue_us, steal_ms, host_cpu_ms, others = (known(name) for name in ("queue_us", "steal_ms", "host_cpu_ms", "others_ratio"))
    noise = Noise(
        run_queue_wait_ratio=sum(queue_us) / max(cpu_us, 1) if queue_us else None,
        steal_ratio=sum(steal_ms) / sum(host_cpu_ms) if steal_ms and any(host_cpu_ms) else None,
        others_ratio=sum(others) / len(others) if others else None,
    )
    rate = samples / wall_us * 1e6
    return WorkerResult(
        index=rows[0][at["task"]],
        node="",
        status="done",
        samples_per_s=Estimate(estimate=rate, low=rate * math.exp(-half_log), high=rate * math.exp(half_log), count=len(rows)),
        cpu_s_per_sample=cpu_us * 1e-6 / samples,
        noise=noise,
    )


def judged(several: Sequence[Hour]) -> dict[str, list[Any]]:
    """Return, for all hours of one start and pipeline, how each agrees with the quiet ones among the others."""
    graph = PipelineGraph(target="", batch_size=1, element_spec=(), ops=(), files=None)
    models = [capacity.fit(graph, hour.launches, hour.cpus, is_virtual=True) for hour in several]
    found: dict[str, list[Any]] = defaultdict(list)
    kept: dict[float, KeptPlan] = {}
    for number, (hour, model) in enumerate(zip(several, models, strict=True)):
        others = [other for place, other in enumerate(several) if other.is_quiet and place != number]
        if len(others) < 2 or not (hour.is_quiet or hour.is_told):
            continue
        truth = _truth(others)
        kind = "quiet" if hour.is_quiet else "busy"
        for layout in hour.rates.keys() & truth.keys():
            said = _predicted(model, hour.cpus, layout)
            found[f"{kind} error"].append(math.log(said.estimate / median(truth[layout])))
            found[f"{kind} inside"].append(np.mean([said.low <= rate <= said.high for rate in truth[layout]]))
            found[f"{kind} width"].append(math.log(said.high / said.low) / 2)
        worker = median(truth[ONE])
        for demand in map(float, DEMANDS):
            plan = _plan(model, demand * worker)
            found[f"{kind} holds"].append(_delivered(truth, plan) >= demand * worker)
            found["plans"].append((demand, plan.layout, plan.predicted_samples_per_s.estimate))
            if demand in kept:
                plan = _plan(model, demand * worker, kept[demand])
                found["kept"].append(plan.kept_from is not None)
                found["kept holds"].append(_delivered(truth, plan) >= demand * worker)
            kept[demand] = KeptPlan(layout=plan.layout, created_at="")
    return found


def _truth(hours: Sequence[Hour]) -> dict[Layout, list[float]]:
    """Return the rates of all launches of some hours, by layout."""
    rates: dict[Layout, list[float]] = defaultdict(list)
    for hour in hours:
        for layout, several in hour.rates.items():
            rates[layout] += several
    return rates


def _predicted(model: CapacityModel, cpus: int, layout: Layout) -> Estimate:
    """Return the predicted rate of a launch on the measuring host, if that is idle."""
    idle = replace(NODES, nodes=1, cpus_per_node=cpus)
    return capacity.predict(model, idle, layout, single_task_nodes=0, feed="first-come", has_chief=False).samples_per_s


def _plan(model: CapacityModel, demand: float, kept: KeptPlan | None = None) -> LaunchPlan:
    consumption = Consumption(samples_per_s=Estimate.exact(demand), source="number")
    return recommend(model, consumption, NODES, Options(), kept=kept)


def _delivered(truth: dict[Layout, list[float]], plan: LaunchPlan) -> float:
    """Return what a plan delivers by the truth of its workers, those that ran together if there are such."""
    shapes = sorted((layout for layout in truth if layout.cpus_per_task == plan.cpus_per_task), key=lambda layout: layout.tasks)
    return plan.input_workers * median(truth[shapes[-1]]) / shapes[-1].tasks


def agreement(plans: Sequence[tuple[float, Layout, float]]) -> list[tuple[bool, bool]]:
    """Return of each two hours' plans for one demand whether they are the same, and whether they are or their supply is near."""
    by_demand: dict[float, list[tuple[Layout, float]]] = defaultdict(list)
    for demand, layout, supply in plans:
        by_demand[round(demand, 6)].append((layout, supply))
    pairs = [(one, other) for several in by_demand.values() for place, one in enumerate(several) for other in several[:place]]
    return [
        (one[0] == other[0], one[0] == other[0] or abs(math.log(one[1] / other[1])) <= NEAR_SUPPLY_RATIO) for one, other in pairs
    ]


def main() -> None:
    options = arguments(__doc__)
    groups = hours()
    quiet = {start: sum(hour.is_quiet for hour in several) for (start, pipeline), several in groups.items()}
    rows, all_found = [], defaultdict(list)
    for (start, pipeline), several in groups.items():
        found = judged(several)
        found["pairs"] = agreement(found["plans"])
        if found["quiet error"]:
            rows.append(_row(f"{pipeline} ({start})", found))
        for name, values in found.items():
            all_found[name] += values
    rows.append(_row("all", all_found))
    columns = (
        "",
        "level",
        "error",
        "inside",
        "width",
        "busy: level",
        "inside",
        "holds",
        "busy",
        "same",
        "or near",
        "kept",
        "holds",
    )
    show(f"{sum(quiet.values())} quiet hours of {len(quiet)} starts", columns, rows)
    save(options.json, {"rows": rows})
    if sum(quiet.values()) < LEAST_QUIET_HOURS:
        print(f"fewer than {LEAST_QUIET_HOURS} quiet hours: no gate")
        return
    inside, holds = float(np.mean(all_found["quiet inside"])), float(np.mean(all_found["quiet holds"]))
    kept = float(np.mean(all_found["kept"]))
    if not LEAST_INSIDE <= inside <= MOST_INSIDE or holds < LEAST_HOLDS or kept < LEAST_KEPT:
        raise SystemExit(f"missed: {inside:.1%} inside (86 to 94 %), {holds:.0%} of plans hold (97 %), {kept:.0%} kept (95 %)")


def _row(name: str, found: dict[str, list[Any]]) -> tuple[str, ...]:
    def mean(key: str) -> str:
        return f"{np.mean(found[key]):.0%}" if found.get(key) else "–"

    pairs = found["pairs"]
    return (
        name,
        f"{np.mean(found['quiet error']):+.1%}",
        f"{np.median(np.abs(found['quiet error'])):.1%}",
        mean("quiet inside"),
        f"±{np.median(found['quiet width']):.0%}",
        f"{np.mean(found['busy error']):+.0%}" if found.get("busy error") else "–",
        mean("busy inside"),
        mean("quiet holds"),
        mean("busy holds"),
        f"{np.mean([same for same, _ in pairs]):.0%}",
        f"{np.mean([near for _, near in pairs]):.0%}",
        mean("kept"),
        mean("kept holds"),
    )


if __name__ == "__main__":
    main()
