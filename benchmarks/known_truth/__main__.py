"""Every case through `analyze` and beside a bare loop; see the package."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cs_input_analyzer as csia
from benchmarks import known_truth, slowfs
from benchmarks.busy_op import busy
from benchmarks.in_process import bare_loop, built, fresh, in_turns, sampled, worker_of
from benchmarks.known_truth.suite import CASES, CPUS, Case, files_of, is_named_first
from benchmarks.paired import arguments, middle, ratio_bounds, ratio_text, save, show
from cs_input_analyzer.records import Analysis

TOLERANCE_RATIO = 0.02


def run(case: Case, max_seconds: float, pairs: int, seconds: float) -> dict[str, Any]:
    with files_of(case) as params:
        analysis = csia.analyze(case.target, params, max_seconds=max_seconds, cpus=CPUS)
        rates = fresh(rates_of, case.target, params, pairs, seconds) if pairs else None
    return {
        "planted": case.planted,
        "is_named_first": is_named_first(case, analysis),
        "stations": [asdict(station) for station in analysis.stations],
        "samples_per_s": _rate(analysis),
        "bare_samples_per_s": middle(rates["bare"]) if rates else None,
        "reported_over_bare": ratio_bounds(rates["reported"], rates["bare"]) if rates else None,
    }


def rates_of(target: str, params: Mapping[str, Any], pairs: int, seconds: float) -> dict[str, list[float]]:
    """Return the samples/s of each pair: `reported` by our worker, and by a `bare` loop in the TensorFlow graph.

    Both read the same running iterator in turns. So they meet the same thread pools, the same choices of AUTOTUNE and the same
    neighbours on the host.
    """
    dataset, pipeline = built(target, params)
    samples = pipeline.batch_size
    assert samples is not None
    iterator = iter(dataset)
    loop = bare_loop(iterator)
    loop(2)

    def reported(window_s: float) -> float:
        """Return the samples/s that the analyzer reports for a window."""
        with tempfile.TemporaryDirectory() as folder:
            journal, _ = sampled(Path(folder), dataset, iterator, pipeline.ops, samples, window_s)
        worker = worker_of(journal)
        assert worker.samples_per_s is not None, worker.message
        return worker.samples_per_s.estimate

    # Lets AUTOTUNE settle, and tells how many batches fill a half.
    batches = max(2, int(seconds * reported(2 * seconds) / samples))
    ours, bare = in_turns(lambda: reported(seconds), loop, batches, pairs)
    return {"reported": ours, "bare": [samples / wall_s for wall_s, _ in bare]}


def _rate(analysis: Analysis) -> float | None:
    """Return the rate of the last lone worker with all CPUs, which the stations describe."""
    alone = [m for m in analysis.measurements if str(m.layout) == f"1x1x{CPUS}" and m.samples_per_s is not None]
    rate = alone[-1].samples_per_s if alone else None
    return rate.estimate if rate else None


def row_of(name: str, found: dict[str, Any]) -> tuple[str, ...]:
    first = found["stations"][0] if found["stations"] else None
    named = f"{first['kind']}{' ' + first['op'] if first['op'] else ''}" if first else "nothing"
    used = f"{first['utilization_ratio'] * 100:.0f} %" if first else "-"
    rate = f"{found['samples_per_s']:,.0f}" if found["samples_per_s"] else "-"
    planted = f"{found['planted']} ({'yes' if found['is_named_first'] else 'NO'})"
    bounds = found["reported_over_bare"]
    if bounds is None:
        return name, planted, named, used, rate, "-", "-"
    return name, planted, named, used, rate, ratio_text(bounds, 3), _verdict(bounds)


def _verdict(bounds: dict[str, float]) -> str:
    if bounds["low"] >= 1 - TOLERANCE_RATIO and bounds["high"] <= 1 + TOLERANCE_RATIO:
        return "yes"
    is_outside = bounds["high"] < 1 - TOLERANCE_RATIO or bounds["low"] > 1 + TOLERANCE_RATIO
    return "no" if is_outside else "inconclusive"


def main() -> None:
    options = arguments(
        known_truth.__doc__,
        only=(str, "", "cases whose name or function holds this"),
        budget=(float, 30.0, "seconds of one analyze"),
        pairs=(int, 6, "pairs of our sampling and a bare loop; 0 leaves them out"),
        seconds=(float, 2.5, "seconds of each half"),
    )
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:CPUS]))
    busy()  # compiles the op, where it is not there yet: no worker's time is to go into that
    rows: list[tuple[str, ...]] = []
    result: dict[str, object] = {}
    for case in CASES:
        if options.only not in case.name and options.only not in case.function:
            continue
        if case.slow and slowfs.missing() is not None:
            rows.append((case.name, case.planted, f"not run: {slowfs.missing()}", "-", "-", "-", "-"))
            continue
        found = run(case, options.budget, options.pairs, options.seconds)
        result[case.name] = found
        rows.append(row_of(case.name, found))
        print(*rows[-1], sep=" | ", flush=True)
    columns = (
        "case",
        "planted (named first)",
        "named first",
        "utilization",
        "samples/s",
        "reported / bare loop, 90 %",
        "within 2 %",
    )
    show("Planted bottlenecks", columns, rows)
    save(options.json, result)


if __name__ == "__main__":
    main()
