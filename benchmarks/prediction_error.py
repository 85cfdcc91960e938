"""The error of predictions for launches that were not probed.

Some launches of every pipeline (the samples, and those of known truth) are probes, as an analysis makes them, and others are held
out; all are fresh processes, in one random order. The capacity model of the probes predicts the others. Beside it stands
the method of the vendor's old tool: fill the node with a few values of CPUs per task, take the mean rate per CPU, scale linearly.

A second part gives each worker a quarter of a CPU by a control-group quota, so that a host of two CPUs becomes a node of eight:
one and four workers are probed, others held out.

All measurements are kept in the JSON file: `--replay` asks today's model about an earlier run's launches.
"""

from __future__ import annotations

import json
import lzma
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from scipy import stats

import cs_input_analyzer as csia
from benchmarks.launching import CPUS, QUOTA_CPUS, QuotaLauncher, can_set_quotas, enough_s, launched, pipelines
from benchmarks.paired import arguments, save, show
from cs_input_analyzer.engines.local import LocalLauncher
from cs_input_analyzer.model import capacity
from cs_input_analyzer.records import CapacityModel, Cluster, Layout, Measurement, PipelineGraph, Prediction

# Fresh launches of probed layouts.
NATIVE_PROBES = {"1x1x1": 3, "1x1x2": 3, "1x2x1": 2}
NATIVE = {"1x1x1": 1, "1x1x2": 1, "1x2x1": 1}
QUOTA_PROBES = {"1x1x1": 3, "1x4x1": 2}
QUOTA = {"1x2x1": 2, "1x3x1": 2, "1x6x1": 2, "1x8x1": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One launch, predicted and measured, samples/s; `low` to `high` is the interval that a report shows."""

    pipeline: str
    layout: str
    is_probed: bool
    extrapolation: float
    predicted: float
    low: float
    high: float
    measured: float
    original: float | None

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """All launches of one pipeline: what the model may see, and what it is asked about; each layout beside what was measured."""

    name: str
    cpus: int
    pipeline: PipelineGraph
    probes: tuple[Measurement, ...]
    held_out: tuple[Measurement, ...]


TRIALS = tuple[Trial, ...]


def host(cpus: int) -> Cluster:
    return Cluster(nodes=1, cpus_per_node=cpus, memory_bytes_per_node=1 << 50, threads_per_core=1, source="this host")


def predicted(model: CapacityModel, layout: str, cpus: int) -> Prediction:
    return capacity.predict(model, host(cpus), Layout.parse(layout), single_task_nodes=0, feed="first-come", has_chief=False)


def originally(measurements: Sequence[Measurement], layout: str, cpus: int) -> float | None:
    """Nodes filled with workers of each size, the mean rate per CPU, and that times the CPUs of the launch."""
    full = [m for m in measurements if m.samples_per_s is not None and m.layout.cpus_per_node == cpus]
    if not full:
        return None
    where = Layout.parse(layout)
    per_cpu = float(np.mean([m.samples_per_s.estimate / cpus for m in full if m.samples_per_s is not None]))
    return per_cpu * min(where.cpus_per_node, cpus)


def row_of(trial: Trial, model: CapacityModel, found: Measurement) -> Row | None:
    rate, layout = found.samples_per_s, str(found.layout)
    if rate is None or len(found.measured_workers) != found.layout.tasks:
        return None
    said = predicted(model, layout, trial.cpus)
    if said.problem is not None:  # an earlier run may hold launches whose tasks share CPUs: no plan has them
        return None
    return Row(
        pipeline=trial.name,
        layout=layout,
        is_probed=any(m.layout == found.layout for m in trial.probes),
        extrapolation=said.extrapolation_ratio,
        predicted=said.samples_per_s.estimate,
        low=said.samples_per_s.low,
        high=said.samples_per_s.high,
        measured=rate.estimate,
        original=originally(trial.probes, layout, trial.cpus),
    )


def rows_of(trial: Trial) -> list[Row]:
    model = capacity.fit(trial.pipeline, trial.probes, trial.cpus)
    return [row for found in trial.held_out if (row := row_of(trial, model, found)) is not None]


def tried(
    name: str,
    launcher: LocalLauncher,
    target: str,
    params: dict[str, Any],
    probes: dict[str, int],
    held_out: dict[str, int],
    cpus: int,
    draw: random.Random,
) -> Trial:
    """Probes and held-out launches in one random order, to meet the same moods of the host; only probes are fitted."""
    order = [(layout, some is probes) for some in (probes, held_out) for layout, times in some.items() for _ in range(times)]
    draw.shuffle(order)
    seen: dict[bool, list[Measurement]] = {True: [], False: []}
    pipeline: PipelineGraph | None = None
    try:
        window_s = enough_s(launched(launcher, target, params, "1x1x1"))  # the smallest is the slowest
        for layout, is_probe in order:
            run = launched(launcher, target, params, layout, window_s=window_s)
            pipeline = pipeline or run.pipeline
            seen[is_probe].append(run.measurement)
    finally:
        launcher.close()
    assert pipeline is not None
    trial = Trial(name=name, cpus=cpus, pipeline=pipeline, probes=tuple(seen[True]), held_out=tuple(seen[False]))
    for row in rows_of(trial):
        print(
            f"{name:36} {row.layout} predicted {row.predicted:12,.1f} measured {row.measured:12,.1f} {row.error:+.1%}", flush=True
        )
    return trial


# --- what the rows say --------------------------------------------------------------------------------------------------------


def interval_score(row: Row) -> float:
    """Gneiting & Raftery (2007), relative to what was measured: width, and a fine of 2 / 0.1 times what lies outside."""
    outside = max(0.0, row.low - row.measured, row.measured - row.high)
    return (row.high - row.low + 20 * outside) / row.measured


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    errors = np.abs([row.error for row in rows])
    inside = sum(row.low <= row.measured <= row.high for row in rows)
    original = np.abs([row.original / row.measured - 1 for row in rows if row.original is not None])
    return {
        "pairs": len(rows),
        "median_error": float(np.median(errors)),
        "p95_error": float(np.quantile(errors, 0.95)),
        "inside": inside,
        "coverage": inside / len(rows),
        "binomial_p": float(stats.binomtest(inside, len(rows), 0.9).pvalue),
        "interval_score": float(np.mean([interval_score(row) for row in rows])),
        "relative_width": float(np.median([(row.high - row.low) / row.predicted for row in rows])),
        "original_median_error": float(np.median(original)) if len(original) else None,
        "original_p95_error": float(np.quantile(original, 0.95)) if len(original) else None,
    }


def judged(trials: Sequence[Trial]) -> dict[str, Any]:
    """Print the tables of some trials, and return their numbers."""
    rows = [row for trial in trials for row in rows_of(trial)]
    parts: dict[str, Callable[[Row], bool]] = {
        "probed layouts, fresh launches": lambda row: row.is_probed,
        "not probed, inside the range": lambda row: not row.is_probed and row.extrapolation <= 1,
        "up to 2 times outside": lambda row: 1 < row.extrapolation <= 2,
        "beyond 2 times": lambda row: row.extrapolation > 2,
        "all within 2 times": lambda row: row.extrapolation <= 2,
    }
    table, result = [], {}
    for name, belongs in parts.items():
        chosen = [row for row in rows if belongs(row)]
        if not chosen:
            continue
        found = result[name] = summary(chosen)
        numbers = [f"{found[key] * 100:.1f} %" for key in ("median_error", "p95_error")]
        old = [
            f"{found[key] * 100:.0f} %" if found[key] is not None else "-"
            for key in ("original_median_error", "original_p95_error")
        ]
        coverage = f"{found['inside']} (p {found['binomial_p']:.2f})"
        width = f"{found['relative_width'] * 100:.0f} %"
        table.append((name, str(found["pairs"]), *numbers, coverage, width, f"{found['interval_score']:.3f}", *old))
    columns = ("launches", "pairs", "median", "p95", "inside 90 %", "width", "score", "old median", "old p95")
    show("Prediction error of launches, |predicted / measured - 1|", columns, table)
    by_pipeline = []
    for name in dict.fromkeys(row.pipeline for row in rows):
        mine = [row for row in rows if row.pipeline == name and row.extrapolation <= 2]
        if mine:
            errors = np.abs([row.error for row in mine])
            by_pipeline.append((name, str(len(mine)), f"{np.median(errors) * 100:.1f} %", f"{errors.max() * 100:.1f} %"))
    show("By pipeline, within 2 times", ("pipeline", "pairs", "median", "largest"), by_pipeline)
    return {"summary": result, "rows": [asdict(row) for row in rows]}


def main() -> None:
    options = arguments(
        __doc__,
        only=(str, "", "names of pipelines, with commas between; empty: all"),
        seed=(int, 1, "of the order"),
        replay=(str, "", "JSON files of earlier runs, with commas between: nothing is measured, the model is asked again"),
    )
    if options.replay:
        opened = {name: lzma.open if name.endswith(".xz") else open for name in options.replay.split(",")}
        files = [json.loads(open_it(name, "rt").read()) for name, open_it in opened.items()]
        trials = [trial for file in files for trial in msgspec.convert(file["trials"], TRIALS)]
        save(options.json, judged(trials))
        return
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:CPUS]))
    draw, failed = random.Random(options.seed), []
    trials: list[Trial] = []
    for name, target, params in pipelines(options.only):
        try:
            trials.append(tried(name, LocalLauncher(CPUS), target, params, NATIVE_PROBES, NATIVE, CPUS, draw))
            if can_set_quotas():
                quarter = f"{name}, quarter CPUs"
                trials.append(tried(quarter, QuotaLauncher(CPUS), target, params, QUOTA_PROBES, QUOTA, QUOTA_CPUS, draw))
        except csia.AnalyzerError as error:  # one that fails is named, and the others count
            failed.append(f"{name}: {error}")
        save(options.json, {"trials": msgspec.to_builtins(trials), "failed": failed})
    found = judged(trials)
    if failed:
        print("failed:", *failed, sep="\n  ")
    save(options.json, {**found, "trials": msgspec.to_builtins(trials), "failed": failed})


if __name__ == "__main__":
    main()
