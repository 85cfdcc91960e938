"""Bottlenecks planted in real files, found by a whole analysis: those of `benchmarks.known_truth` that need no compiler."""

from __future__ import annotations

import os

import pytest

from benchmarks import slowfs
from benchmarks.known_truth.suite import CASES, CPUS, files_of, is_named_first
from cs_input_analyzer import analyze

pytestmark = [
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < CPUS, reason="with one CPU everything is the CPU"),
]


@pytest.mark.long
@pytest.mark.parametrize("function", ["python", "one_file_after_the_other"])
def test_the_planted_bottleneck_is_named_first(function: str) -> None:
    (planted,) = [case for case in CASES if case.function == function]
    if planted.slow and slowfs.missing() is not None:
        pytest.skip(f"no slow file system here: {slowfs.missing()}")
    with files_of(planted) as params:
        analysis = analyze(planted.target, params, max_seconds=30, cpus=CPUS, probe_layouts=(f"1x1x{CPUS}",), measure_fixes=False)
    assert is_named_first(planted, analysis), [(one.kind, one.op, one.utilization_ratio) for one in analysis.stations]
    first = analysis.stations[0]
    assert first.source is not None
    assert "known_truth/pipelines.py:" in first.source
    rates = [run.samples_per_s.estimate for run in analysis.measurements if run.layout == first.layout and run.samples_per_s]
    assert first.samples_per_s >= min(rates)
    assert 0 < first.utilization_ratio <= 1
    assert any(one.kind == "CPU" for one in analysis.stations)
