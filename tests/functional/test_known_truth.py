"""Bottlenecks planted in real files, found by an analysis: those of `benchmarks.known_truth` that need no compiler."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from benchmarks import slowfs
from benchmarks.known_truth.suite import CASES, CPUS, files_of, is_named_first
from cs_input_analyzer import analyze
from cs_input_analyzer.workflows.probing.probing import Probing

pytestmark = [
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < CPUS, reason="with one CPU everything is the CPU"),
]


@pytest.mark.long
@pytest.mark.parametrize("function", ["python", "one_file_after_the_other"])
def test_the_planted_bottleneck_is_named_first(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = [case for case in CASES if case.function == function]
    # Slower than in the benchmark: beside other work CPUs are slow, too.
    planted = replace(case, slow={name: 4 * value for name, value in case.slow.items()})
    if planted.slow and slowfs.missing() is not None:
        pytest.skip(f"no slow file system here: {slowfs.missing()}")
    # Told by the first launch and the storage by itself: nothing is launched again, and the seconds are only patience.
    monkeypatch.setattr(Probing, "measure_round", lambda probing, plan, cluster: False)
    with files_of(planted) as params:
        layouts = (f"1x1x{CPUS}",)
        analysis = analyze(planted.target, params, max_seconds=60, cpus=CPUS, probe_layouts=layouts, measure_fixes=False)
    assert is_named_first(planted, analysis), [(one.kind, one.op, one.utilization_ratio) for one in analysis.stations]
    first = analysis.stations[0]
    assert first.source is not None
    assert "known_truth/pipelines.py:" in first.source
    rates = [run.samples_per_s.estimate for run in analysis.measurements if run.layout == first.layout and run.samples_per_s]
    assert first.samples_per_s >= min(rates)
    assert 0 < first.utilization_ratio <= 1
    assert any(one.kind == "CPU" for one in analysis.stations)
