"""All occasions so far -> how far slices differ within a launch, launches within an occasion, and occasions from each other.

Each is a plain standard deviation of logarithms: of slices around their launch, of launches around their occasion, of occasions
around all. A spread holds what is left of the finer one beside it (an occasion's mean of two launches is off by what launches are
off). The intervals are 90 % and of chi-square, which assumes that logarithms of rates are normal.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from scipy import stats

from benchmarks.occasion.measuring import QUIET_OTHERS_RATIO
from benchmarks.occasion.saved import saved
from benchmarks.paired import CONFIDENCE, middle, show
from cs_input_analyzer.records import Estimate, Layout, Measurement, Noise, WorkerResult
from cs_input_analyzer.worker.summary import measurement_of


class Slice(NamedTuple):
    """One slice of one launch: all its tasks together."""

    pipeline: str
    layout: str
    launch: int
    samples_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    time: str
    host: str
    marks: tuple[str, ...]
    others_ratio: float | None
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A standard deviation of logarithms with its 90 % interval; None if nothing was repeated."""

    sd: float | None
    low: float | None
    high: float | None
    degrees: int

    def __str__(self) -> str:
        if self.sd is None:
            return "–"
        return f"{self.sd * 100:.1f} ({(self.low or 0) * 100:.1f}–{(self.high or 0) * 100:.0f})"


def read(data: dict[str, Any]) -> Occasion:
    """Return one occasion from its saved form. Raise ValueError for anything else."""
    try:
        at = {name: number for number, name in enumerate(data["columns"])}
        slices = tuple(_slices(data["rows"], at))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"a line of the file is no occasion: {error!r}") from error
    others = data["others_ratio"]
    marks = () if data["ended"] == "complete" else (data["ended"],)
    if others is not None and others > QUIET_OTHERS_RATIO:
        marks = (*marks, f"others took {others:.0%} of the CPUs")
    host = f"{data['cpu_model']}, {data['cpus']} CPUs, TensorFlow {data['tensorflow']}, pipelines {data['pipelines_digest']}"
    return Occasion(time=data["time"], host=host, marks=(*marks, *data["notes"]), others_ratio=others, slices=slices)


def _slices(rows: Iterable[Sequence[Any]], at: Mapping[str, int]) -> Iterable[Slice]:
    together: dict[tuple[Any, ...], list[WorkerResult]] = defaultdict(list)
    for row in rows:
        key = tuple(row[at[name]] for name in ("pipeline", "tasks", "cpus", "launch", "slice"))
        if row[at["samples"]] > 0:
            together[key].append(worker_of([row], at))
    for pipeline in dict.fromkeys(key[0] for key in together):
        keys = [key for key, workers in together.items() if key[0] == pipeline and len(workers) == key[1]]
        for key in keys:
            launch = _measurement(key[1], key[2], together[key])
            assert launch.samples_per_s is not None
            yield Slice(pipeline, str(launch.layout), key[3], launch.samples_per_s.estimate)


def worker_of(rows: Sequence[Sequence[Any]], at: Mapping[str, int], half_log: float = 0.0) -> WorkerResult:
    """One task over some slices, as the product has it; `half_log`: half of the 90 % interval of its rate, natural logarithm."""

    def over(name: str, of: Callable[[Sequence[float]], float]) -> float | None:
        known = [row[at[name]] for row in rows if name in at and row[at[name]] is not None]
        return of(known) if known else None

    samples, wall_us, cpu_us = (sum(row[at[name]] for row in rows) for name in ("samples", "wall_us", "cpu_us"))
    queue_us, steal_ms, host_cpu_ms = (over(name, sum) for name in ("queue_us", "steal_ms", "host_cpu_ms"))
    noise = Noise(
        run_queue_wait_ratio=None if queue_us is None else queue_us / max(cpu_us, 1),
        steal_ratio=steal_ms / host_cpu_ms if steal_ms is not None and host_cpu_ms else None,
        others_ratio=over("others_ratio", _mean),
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


def _measurement(tasks: int, cpus: int, workers: Sequence[WorkerResult]) -> Measurement:
    layout = Layout(nodes=1, tasks_per_node=tasks, cpus_per_task=cpus)
    return measurement_of(layout, tasks, workers)


def around(groups: Iterable[Sequence[float]]) -> Spread:
    """Return the pooled spread of values around the mean of their group."""
    squares, degrees = 0.0, 0
    for values in groups:
        mean = sum(values) / len(values) if values else 0.0
        squares += sum((value - mean) ** 2 for value in values)
        degrees += max(len(values) - 1, 0)
    if degrees == 0:
        return Spread(sd=None, low=None, high=None, degrees=0)
    low, high = (math.sqrt(squares / stats.chi2.ppf(0.5 + side * CONFIDENCE / 2, degrees)) for side in (1, -1))
    return Spread(sd=math.sqrt(squares / degrees), low=low, high=high, degrees=degrees)


def spreads(occasions: Sequence[Occasion]) -> dict[str, dict[str, Any]]:
    """Return the spreads of each pipeline and layout, and of the ratio of two tasks, or two CPUs, to one.

    The keys are `launch`, `occasion` and `between`.
    """
    launches: dict[str, dict[int, dict[int, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for number, occasion in enumerate(occasions):
        for one in occasion.slices:
            launches[f"{one.pipeline} {one.layout}"][number][one.launch].append(math.log(one.samples_per_s))
    found: dict[str, dict[str, Any]] = {}
    levels: dict[str, dict[int, float]] = {}
    for name, seen in sorted(launches.items()):
        means = {number: [_mean(values) for values in own.values()] for number, own in seen.items()}
        levels[name] = {number: _mean(values) for number, values in means.items()}
        found[name] = {
            "samples_per_s": math.exp(middle(list(levels[name].values()))),
            "launch": around(values for own in seen.values() for values in own.values()),
            "occasion": around(means.values()),
            "between": around([list(levels[name].values())]),
        }
    for pipeline in dict.fromkeys(name.split()[0] for name in levels):
        alone = levels.get(f"{pipeline} 1x1x1", {})
        for layout in ("1x2x1", "1x1x2"):
            wider = levels.get(f"{pipeline} {layout}", {})
            ratios = [wider[number] - alone[number] for number in wider if number in alone]
            if ratios:
                found[f"{pipeline} {layout} / 1x1x1"] = {"ratio": math.exp(middle(ratios)), "between": around([ratios])}
    return found


# What a launch shape gives, from all of its slices of one occasion: disturbances only ever take away.
LEVELS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": lambda rates: float(np.mean(rates)),
    "median": lambda rates: float(np.median(rates)),
    "75 % quantile": lambda rates: float(np.quantile(rates, 0.75)),
    "90 % quantile": lambda rates: float(np.quantile(rates, 0.9)),
}


def levels(occasions: Sequence[Occasion]) -> dict[str, Spread]:
    """Return the spread of occasions in the rate of a launch shape, pooled over pipelines and layouts, by estimator."""
    rates: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, occasion in enumerate(occasions):
        for one in occasion.slices:
            rates[one.pipeline, one.layout][number].append(one.samples_per_s)
    return {name: _apart(rates.values(), level) for name, level in LEVELS.items()}


def _apart(rates: Iterable[Mapping[int, Sequence[float]]], level: Callable[[Sequence[float]], float]) -> Spread:
    return around([math.log(level(values)) for values in seen.values()] for seen in rates)


def show_all(path: Path) -> dict[str, Any]:
    """Print the tables, one a kind of host, and return their numbers."""
    occasions = [read(data) for data in saved(path)]
    if not occasions:
        raise SystemExit(f"no occasion was measured yet (looked in {path}): make occasion")
    numbers: dict[str, Any] = {}
    for host in dict.fromkeys(occasion.host for occasion in occasions):
        own = [occasion for occasion in occasions if occasion.host == host]
        Console().print(f"\n{host}", highlight=False)
        rows = [(one.time, f"{len(one.slices)}", _others(one), "; ".join(one.marks) or "–") for one in own]
        show("Occasions", ("time", "slices", "CPUs taken by others", "marks"), rows)
        found = spreads(own)
        for title, columns, is_shown in (
            ("Spread of rates", _RATES, lambda row: "ratio" not in row),
            ("Of ratios", _RATIOS, lambda row: "ratio" in row),
        ):
            rows = [_row(*item) for item in found.items() if is_shown(item[1])]
            show(f"{title}: one standard deviation in per cent (90 % interval)", columns, rows)
        by_level = levels(own)
        rows = [*zip(by_level, map(str, by_level.values()), strict=True)]
        show("Occasions apart, by how a launch's rate is estimated", ("estimate", "occasions"), rows)
        numbers[host] = {
            "occasions": [one.time for one in own],
            "levels": {name: _plain(value) for name, value in by_level.items()},
            "spreads": {name: {key: _plain(value) for key, value in row.items()} for name, row in found.items()},
        }
    return {"hosts": numbers}


_RATES = ("pipeline, layout", "samples/s", "slices", "launches", "occasions")
_RATIOS = ("pipeline, layouts", "ratio", "occasions")


def _row(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    level = f"{row['samples_per_s']:,.0f}" if "samples_per_s" in row else f"{row['ratio']:.2f}"
    return (name, level, *(str(row[part]) for part in ("launch", "occasion", "between") if part in row))


def _others(occasion: Occasion) -> str:
    return "–" if occasion.others_ratio is None else f"{occasion.others_ratio:.0%}"


def _plain(value: Any) -> Any:
    return {"sd": value.sd, "low": value.low, "high": value.high, "degrees": value.degrees} if isinstance(value, Spread) else value


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
