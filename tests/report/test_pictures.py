"""The pictures: what they are made of is what the records say, and what cannot be drawn is left out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from builders import make_alternative, make_analysis, make_bare_analysis, make_capacity_model, make_estimate, make_plan
from page_runs import CHARTS, run_of_many_workers, usual_run

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report.pictures import pictures_of

MARKS = {"area", "bar", "line", "point", "rect", "rule", "text"}


def values(chart: Any, mark: str) -> list[dict[str, Any]]:
    return [row for unit in chart.spec["layer"] if unit["mark"]["type"] == mark for row in unit["data"]["values"]]


def specs_of(run: Analysis) -> str:
    return json.dumps([chart.spec for chart in pictures_of(run).values()], allow_nan=False)


def test_a_usual_run_has_every_picture_whole_and_asking_for_no_file() -> None:
    run = usual_run()
    found = pictures_of(run)
    assert found.keys() | {"pipeline"} == set(CHARTS)
    for name, chart in found.items():
        assert chart.name == name
        assert chart.title
        assert chart.caption
        assert chart.table.rows, name
        assert all(len(row) == len(chart.table.columns) for row in chart.table.rows)
        for unit in chart.spec["layer"]:
            assert unit["mark"]["type"] in MARKS
            rows = unit["data"]["values"]
            assert rows
            used = {found["field"] for found in unit["encoding"].values() if isinstance(found, dict) and "field" in found}
            used |= {tip["field"] for tip in unit["encoding"].get("tooltip", [])}
            assert used <= set(rows[0]), (name, used - set(rows[0]))
    assert {str(row["label"]).split()[0] for row in values(found["batch-gaps"], "text")} == {"p50", "p95", "p99", "needed"}
    assert "url" not in specs_of(usual_run())
    assert pictures_of(make_bare_analysis()) == {}
    assert set(pictures_of(make_analysis(recommendation=None, profile=None))) <= {"rate-over-time", "batch-gaps"}


def test_colours_are_those_of_the_page(root: Any) -> None:
    css = (root / "reports/templates/report.css").read_text(encoding="utf-8")
    specs = specs_of(usual_run())
    used = set(re.findall(r"var\((--[\w-]+)\)", specs))
    assert len(used) > 5
    assert used <= set(re.findall(r"(--[\w-]+): light-dark\(#", css))
    # A colour written out would be right in the light only.
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b", specs)


def test_the_curve_rises_to_the_whole_cluster_and_marks_the_plan_and_the_demand() -> None:
    today = make_alternative("2x4x2", is_current=True)
    run = usual_run(recommendation=make_plan(alternatives=(today,), confirmed_by=2))
    chart = pictures_of(run)["supply-demand"]
    rows = values(chart, "line")
    workers = [row["workers"] for row in rows]
    assert workers == sorted(set(workers))
    assert all(row["low"] <= row["rate"] <= row["high"] for row in rows)
    points = {row["launch"]: row["rate"] for row in values(chart, "point")}
    assert points[str(run.recommendation.layout)] == run.recommendation.predicted_samples_per_s.estimate
    assert points["2x4x2"] == today.predicted_samples_per_s.estimate
    (demand,) = [row for row in values(chart, "rule") if str(row.get("label", "")).startswith("demand")]
    assert demand["rate"] == run.consumption.samples_per_s.estimate
    free = pictures_of(usual_run(consumption=None, verdict="unknown", recommendation=run.recommendation))
    assert {row["label"] for row in values(free["supply-demand"], "text")} == {"plan 2x16x2", "in use today"}


def test_the_cut_is_where_the_steady_state_begins() -> None:
    run = usual_run()
    chart = pictures_of(run)["rate-over-time"]
    worker = run.measurements[2].workers[0]
    state = worker.steady_state
    assert next(row["end"] for row in values(chart, "rect")) == state.transient_s
    points = [row for row in values(chart, "line") if row["worker"] == "worker 0"]
    assert [row["rate"] for row in points] == list(worker.block_samples_per_s)
    assert points[0]["begin"] == state.transient_s
    half_s = points[0]["middle"] - points[0]["begin"]
    assert points[-1]["middle"] + half_s == pytest.approx(state.transient_s + state.window_s)
    many = pictures_of(run_of_many_workers(300))["rate-over-time"]
    assert len({row["worker"] for row in values(many, "line")}) == 8
    assert "8 of 300" in many.note


def test_a_model_of_nonsense_draws_nothing() -> None:
    plan = make_plan(predicted_samples_per_s=make_estimate(1e308))
    nonsense = usual_run(capacity=make_capacity_model(points=()), recommendation=plan)
    assert {"supply-demand", "rate-over-time"} & set(pictures_of(nonsense)) == {"rate-over-time"}
