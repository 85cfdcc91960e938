"""Which launch would help: what a saved analysis predicts for the demand that was seen."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import cs_input_analyzer as csia
from cs_input_analyzer import report
from cs_input_analyzer.monitoring import advice
from cs_input_analyzer.records import Analysis, Estimate, Layout, Options
from tests.builders import make_analysis, make_bare_analysis, make_capacity_model, make_cluster, make_consumption
from tests.monitoring.loops import MS, loop_of, monitor_of, train


def run_of(demand: float | None = 7000.0, **overrides: Any) -> Analysis:
    return make_analysis(
        capacity=make_capacity_model(), consumption=None if demand is None else make_consumption(demand), **overrides
    )


def advise(found: Analysis, demand: Estimate | None) -> str:
    """For a run that never waited, whose rate is its demand."""
    return advice.of_run(found, demand and demand.estimate, demand and Estimate.exact(0.0), 1)


def plan_of(found: Analysis, demand: float) -> Layout:
    from cs_input_analyzer.planning import recommend

    return recommend.recommend(found.capacity, make_consumption(demand), found.cluster, found.options).layout


def test_the_launch_is_the_one_that_the_capacity_model_gives_for_the_demand_seen() -> None:
    found = run_of(1000.0)
    text = advise(found, Estimate.exact(9000.0))
    assert str(plan_of(found, 9000.0)) in text
    assert "9,000 samples/s" in text
    assert advice.of_run(found, 4500.0, Estimate.exact(0.0), 2) == text
    assert advice.of_run(found, 4500.0, None, 2) == advise(found, None)  # nobody knows what it waited


@pytest.mark.parametrize("seen", [Estimate.exact(500.0), None])
def test_the_demand_of_the_analysis_counts_where_a_starved_run_shows_a_part_of_it_or_nothing(seen: Estimate | None) -> None:
    found = run_of(9000.0)
    assert str(plan_of(found, 9000.0)) in advise(found, seen)


def test_a_change_from_the_launch_of_today_is_named_and_one_that_is_right_stays() -> None:
    found = run_of(7000.0, options=Options(current=Layout(nodes=2, tasks_per_node=4, cpus_per_task=2)))
    assert "2x4x2 -> " in advise(found, None)
    text = advise(run_of(7000.0, options=Options(current=plan_of(found, 7000.0))), None)
    assert "->" not in text
    assert "is what the analysis would choose" in text


@pytest.mark.parametrize(("host_ratio", "is_labelled"), [(0.5, True), (1.0, False)])
def test_a_rate_on_an_idle_node_is_labelled_where_another_was_measured(host_ratio: float, is_labelled: bool) -> None:
    capacity = make_capacity_model(host_ratio=Estimate.exact(host_ratio))
    text = advise(make_analysis(capacity=capacity, consumption=make_consumption(1000.0)), Estimate.exact(9000.0))
    assert (" on an idle node for a demand of 9,000 samples/s" in text) is is_labelled


def test_a_demand_out_of_reach_says_what_limits_it_and_what_would_help() -> None:
    found = run_of(7000.0, cluster=make_cluster(nodes=2))
    text = advise(found, Estimate.exact(1e7))
    assert "does not meet" in text
    assert "one more node" in text


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (make_bare_analysis(), "no capacity model"),
        (run_of(None), "no demand is known"),
        (run_of(cluster=make_cluster(nodes=1, cpus_per_node=1)), "no launch"),
    ],
    ids=["no model", "no demand", "no room"],
)
def test_what_is_missing_is_said(found: Analysis, expected: str) -> None:
    assert expected in advise(found, None)


@pytest.mark.parametrize("content", [None, "not json", "{}"])
def test_a_run_that_cannot_be_read_is_done_without(content: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert list(csia.InputMonitor([1, 2], 8, console=None, environ={}, analysis=path)) == [1, 2]
    assert len(caplog.records) == 1
    assert "does without advice" in caplog.text


def test_a_monitor_with_a_saved_run_gives_its_advice_when_it_calls(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    report.write_text_atomically(path, report.render(run_of(7000.0), "json"))
    loop = loop_of(wait=20 * MS, batches=50, size=64)
    monitor = monitor_of(loop, analysis=str(path), log_dir=tmp_path)
    train(loop, monitor, log_every=1)
    summary = monitor.summary()
    assert "launch" in summary.advice
    assert summary.advice in str(summary)
    assert sum("predicted" in line for line in monitor.lines) == 1
    monitor.close()
    assert '"est_samples_per_sec": 7000' in (tmp_path / "performance.json").read_text(encoding="utf-8")
    loop = loop_of(wait=0.1 * MS, batches=50)  # one that is not starved
    assert train(loop, monitor_of(loop, analysis=run_of()), log_every=1).summary().advice == ""
