"""The pictures: marks have their data, colours are the page's, and what cannot be drawn is left out. Golden files show the rest."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from builders import make_alternative, make_analysis, make_bare_analysis, make_capacity_model, make_estimate, make_plan
from page_runs import CHARTS, run_of_many_workers, usual_run

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report.pictures import pictures_of

MARKS = {"area", "bar", "line", "point", "rect", "rule", "text"}


def values(chart: Any, mark: str) -> list[dict[str, Any]]:
    return [row for unit in chart.spec["layer"] if unit["mark"]["type"] == mark for row in unit["data"]["values"]]


def specs_of(run: Analysis) -> str:
    return json.dumps([chart.spec for chart in pictures_of(run).values()], allow_nan=False)


def test_each_picture_has_a_table_and_each_mark_the_fields_that_it_shows() -> None:
    found = pictures_of(usual_run())
    assert found.keys() | {"pipeline"} == set(CHARTS)
    for name, chart in found.items():
        assert chart.table.rows, name
        assert all(len(row) == len(chart.table.columns) for row in chart.table.rows)
        for unit in chart.spec["layer"]:
            assert unit["mark"]["type"] in MARKS
            used = {each["field"] for each in unit["encoding"].values() if isinstance(each, dict) and "field" in each}
            used |= {tip["field"] for tip in unit["encoding"].get("tooltip", [])}
            assert used <= set(unit["data"]["values"][0]), name
    assert "url" not in specs_of(usual_run())


def test_colours_are_those_of_the_page(root: Path) -> None:
    css = (root / "reports/templates/report.css").read_text(encoding="utf-8")
    specs = specs_of(usual_run())
    used = set(re.findall(r"var\((--[\w-]+)\)", specs))
    assert len(used) > 5
    assert used <= set(re.findall(r"(--[\w-]+): light-dark\(#", css))
    # A colour written out would be right in the light only.
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b", specs)


def test_the_curve_marks_the_plan_the_launch_in_use_and_the_demand_if_there_is_one() -> None:
    today = make_alternative("2x4x2", is_current=True)
    plan = make_plan(alternatives=(today,), confirmed_by=2)
    for demand, labels in (({}, {"demand"}), ({"consumption": None, "verdict": "unknown"}, set())):
        chart = pictures_of(usual_run(recommendation=plan, **demand))["supply-demand"]
        workers = [row["workers"] for row in values(chart, "line")]
        assert workers == sorted(set(workers))
        points = {row["launch"]: row["rate"] for row in values(chart, "point")}
        assert points == {str(at.layout): at.predicted_samples_per_s.estimate for at in (plan, today)}
        assert {str(row["label"]).split()[0] for row in values(chart, "text")} == {"plan", "in"} | labels


def test_of_many_workers_some_are_drawn() -> None:
    many = pictures_of(run_of_many_workers(300))["rate-over-time"]
    assert len({row["worker"] for row in values(many, "line")}) == 8
    assert "8 of 300" in many.note


def test_what_makes_no_sense_is_not_drawn() -> None:
    nonsense = {
        "capacity": make_capacity_model(points=()),
        "recommendation": make_plan(predicted_samples_per_s=make_estimate(1e308)),
    }
    assert {"supply-demand", "rate-over-time"} & set(pictures_of(usual_run(**nonsense))) == {"rate-over-time"}
    assert pictures_of(make_bare_analysis()) == {}
    assert set(pictures_of(make_analysis(recommendation=None, profile=None))) <= {"rate-over-time", "batch-gaps"}
