"""Runs the parts; see the package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import cs_input_analyzer as csia
import sample_pipelines
from benchmarks import slowfs, tuning
from benchmarks.paired import arguments, middle, ratio_bounds, ratio_text, save, show
from benchmarks.tuning import findings
from benchmarks.tuning.pipelines import MISTAKES, Mistake, params_of
from benchmarks.tuning.speed import VARIANTS, speeds_of
from cs_input_analyzer.records import Analysis

CPUS = 2
TENFOLD = 10.0
BOUND_RATIO = 0.95


def run_findings(only: str, budget_s: float) -> dict[str, Any]:
    found = []
    for name, target, planted in findings.pipelines(only):
        found.append(findings.found_in(name, target, planted, budget_s))
        print(f"{name}: {', '.join(found[-1].codes) or 'nothing'}{'' if found[-1].is_right else '   <-- WRONG'}", flush=True)
    rows = [
        (
            item.name,
            item.planted or "clean",
            ", ".join(item.codes),
            ", ".join(item.others),
            str(item.warnings),
            "yes" if item.is_right else "NO",
        )
        for item in found
    ]
    show("Rules on planted faults and clean samples", ("pipeline", "planted", "found", "of this host", "warnings", "right"), rows)
    summary = findings.precision_and_recall(found)
    show("Precision and recall", ("figure", "value"), [(name.replace("_", " "), _figure(value)) for name, value in summary.items()])
    return {"pipelines": [asdict(item) for item in found], **summary}


def run_speed(only: str, budget_s: float, rounds: int, seconds: float) -> dict[str, Any]:
    result: dict[str, Any] = {}
    rows = []
    every: tuple[Mistake | sample_pipelines.Sample, ...] = (*MISTAKES, *sample_pipelines.SAMPLES)
    for pipeline in every:
        name, mistake = pipeline.name, pipeline if isinstance(pipeline, Mistake) else None
        if only not in name:
            continue
        if mistake and mistake.slow and slowfs.missing() is not None:
            rows.append((name, f"not run: {slowfs.missing()}", "-", "-", "-", "-", "-"))
            continue
        with params_of(mistake or name) as params:
            analysis = csia.analyze(pipeline.target, params, max_seconds=budget_s, cpus=CPUS)
            edits = analysis.fixes.edits if analysis.fixes else ()
            speeds = speeds_of(pipeline.target, params, edits, rounds=rounds, seconds=seconds)
        result[name] = _judged(analysis, speeds, is_tenfold_possible=mistake is not None and mistake.tenfold)
        rows.append(_row(name, result[name]))
        print(*rows[-1], sep=" | ", flush=True)
    columns = ("pipeline", "fixes", "tuned / original", "tuned / AUTOTUNE", "of the bound", "never slower", "target met")
    show("Tuned, original and AUTOTUNE everywhere, 90 % intervals", columns, rows)
    return result


def _judged(analysis: Analysis, speeds: dict[str, list[float]], *, is_tenfold_possible: bool) -> dict[str, Any]:
    over_original = ratio_bounds(speeds["tuned"], speeds["original"])
    over_autotune = ratio_bounds(speeds["tuned"], speeds["autotune"])
    # Utilization law: the busiest resource over what there is of it. Elements are handed over by one thread, whatever the CPUs.
    shares = {"CPUs": middle(speeds["tuned_cpus"]), "one thread": middle(speeds["tuned_thread"])}
    busiest = max(shares, key=lambda name: shares[name])
    return {
        "fixes": analysis.fixes.codes if analysis.fixes else (),
        "gain_told": asdict(analysis.fixes.measured_gain) if analysis.fixes and analysis.fixes.measured_gain else None,
        "tuned_over_original": over_original,
        "tuned_over_autotune": over_autotune,
        "used_ratios": shares,
        "bound": busiest,
        "bound_ratio": shares[busiest],
        "is_never_slower": over_original["high"] >= 1 and over_autotune["high"] >= 1,
        "is_tenfold": over_original["ratio"] >= TENFOLD if is_tenfold_possible else None,
        "samples_per_s": {name: middle(speeds[name]) for name in VARIANTS},
        "budget": asdict(analysis.budget),
    }


def _row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    met = found["is_never_slower"] and found["is_tenfold"] is not False and found["bound_ratio"] >= BOUND_RATIO
    return (
        name,
        ", ".join(found["fixes"]) or "none",
        ratio_text(found["tuned_over_original"], 2),
        ratio_text(found["tuned_over_autotune"], 2),
        f"{found['bound_ratio'] * 100:.0f} % of {found['bound']}",
        "yes" if found["is_never_slower"] else "NO",
        "yes" if met else "NO",
    )


def _figure(value: float | int | None) -> str:
    return "-" if value is None else str(value) if isinstance(value, int) else f"{value * 100:.0f} %"


def main() -> None:
    options = arguments(
        tuning.__doc__,
        parts=(str, "findings,speed", "what to run"),
        only=(str, "", "pipelines whose name holds this"),
        budget=(float, 60.0, "seconds of one analyze"),
        rounds=(int, 8, "rounds of the three variants"),
        seconds=(float, 1.5, "seconds of each window"),
    )
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:CPUS]))
    parts = options.parts.split(",")
    result: dict[str, object] = {}
    if "findings" in parts:
        result["findings"] = run_findings(options.only, options.budget)
    if "speed" in parts:
        result["speed"] = run_speed(options.only, options.budget, options.rounds, options.seconds)
    save(options.json, result)


if __name__ == "__main__":
    main()
