"""The pictures: what they are made of is what the records say, and what cannot be drawn is left out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from builders import (
    make_bare_analysis,
    make_capacity_model,
    make_cluster,
    make_consumption,
    make_estimate,
    make_plan,
    make_station,
    make_stations,
)
from hostile import HOSTILE, hostile
from hypothesis import HealthCheck, given, settings
from page_runs import CHARTS, run_of_a_long_pipeline, run_of_many_workers, usual_run
from record_strategies import analyses

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report.charts import CHARTS as FUNCTIONS
from cs_input_analyzer.report.charts import charts_of, pipeline_rows

MARKS = {"area", "bar", "line", "point", "rect", "rule", "text"}


def layers(spec: Any) -> list[dict[str, Any]]:
    """Every unit of a specification, with the data it inherits."""
    if "layer" not in spec:
        return [dict(spec)]
    return [{"data": spec.get("data"), **unit} for layer in spec["layer"] for unit in layers(layer)]


def values(chart: Any, mark: str, panel: int = 0) -> list[dict[str, Any]]:
    units = [unit for unit in layers(chart.panels[panel].spec) if _kind(unit) == mark]
    return [row for unit in units for row in unit["data"]["values"]]


def _kind(unit: dict[str, Any]) -> str:
    mark = unit["mark"]
    return str(mark["type"] if isinstance(mark, dict) else mark)


# --- all of them -------------------------------------------------------------------------------------------------------------


def test_a_usual_run_has_every_picture() -> None:
    found = charts_of(usual_run())
    assert {*found, "pipeline"} == set(CHARTS)
    assert len(FUNCTIONS) == len(found)
    for name, chart in found.items():
        assert chart.name == name
        assert chart.title
        assert chart.caption
        assert chart.table.rows, name
        assert all(len(row) == len(chart.table.columns) for row in chart.table.rows)


def test_a_specification_is_complete_and_asks_for_no_file() -> None:
    for chart in charts_of(usual_run()).values():
        for panel in chart.panels:
            json.dumps(panel.spec, allow_nan=False)
            assert "url" not in json.dumps(panel.spec)
            for unit in layers(panel.spec):
                assert _kind(unit) in MARKS
                rows = unit["data"]["values"]
                assert rows
                used = {found["field"] for found in unit["encoding"].values() if isinstance(found, dict) and "field" in found}
                used |= {tip["field"] for tip in unit["encoding"].get("tooltip", [])}
                assert used <= set(rows[0]), (chart.name, used - set(rows[0]))


def test_colours_are_those_of_the_page(root: Any) -> None:
    css = (root / "reports/templates/report.css").read_text(encoding="utf-8")
    light, dark = css.split("@media (prefers-color-scheme: dark)")
    specs = json.dumps([panel.spec for chart in charts_of(usual_run()).values() for panel in chart.panels])
    used = set(re.findall(r"var\((--[\w-]+)\)", specs))
    assert len(used) > 5
    for part in (light, dark.split("@media print")[0], dark.split("@media print")[1]):
        assert used <= set(re.findall(r"(--[\w-]+):", part))
    # A colour written out would be right in the light only.
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b", specs)


def test_a_bare_run_has_none() -> None:
    assert charts_of(make_bare_analysis()) == {}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses())
def test_any_analysis_can_be_tried(analysis: Analysis) -> None:
    for chart in charts_of(analysis).values():
        json.dumps([panel.spec for panel in chart.panels], allow_nan=False)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_data_and_nothing_else(name: str) -> None:
    expected = charts_of(hostile(usual_run(), "harmless"))
    found = charts_of(hostile(usual_run(), HOSTILE[name]))
    assert set(found) == set(expected)
    for chart in found.values():
        text = json.dumps([panel.spec for panel in chart.panels], ensure_ascii=False)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", text)
        assert [len(values(chart, "bar"))] == [len(values(expected[chart.name], "bar"))]


# --- one by one --------------------------------------------------------------------------------------------------------------


def test_the_curve_rises_to_the_whole_cluster_and_marks_the_plan() -> None:
    run = usual_run()
    chart = charts_of(run)["supply-demand"]
    rows = values(chart, "line")
    workers = [row["workers"] for row in rows]
    assert workers == sorted(set(workers))
    assert all(row["low"] <= row["rate"] <= row["high"] for row in rows)
    (plan,) = [row for row in values(chart, "point") if row["launch"] == str(run.recommendation.layout)]
    assert plan["rate"] == run.recommendation.predicted_samples_per_s.estimate
    (demand,) = [row for row in values(chart, "rule") if "label" in row and str(row["label"]).startswith("demand")]
    assert demand["rate"] == run.consumption.samples_per_s.estimate
    assert {row["launch"] for row in values(chart, "point")} >= {"2x4x2"}


def test_without_a_demand_there_is_no_line_for_it() -> None:
    run = usual_run(consumption=None, verdict="unknown")
    chart = charts_of(run)["supply-demand"]
    assert {row["label"] for row in values(chart, "text")} == {"plan 2x16x2", "in use today"}
    assert "timeline" not in charts_of(run)
    assert {row["what"] for row in values(charts_of(run)["layouts"], "rect")} <= {"can run", "cannot run"}


def test_the_cost_bars_are_the_rows_of_the_profile() -> None:
    run = usual_run()
    bars = values(charts_of(run)["op-costs"], "bar")
    for op in run.profile.ops:
        # The longest takes 1.6 ms, so the axis is in milliseconds.
        cpu = [row["length"] / 1000 for row in bars if row["op"] == op.name and row["what"].startswith("CPU")]
        assert cpu == [pytest.approx(op.self_cpu_s_per_sample)]
        wait = [row["length"] / 1000 for row in bars if row["op"] == op.name and row["what"] == "wait"]
        assert wait == ([pytest.approx(op.wait_s_per_sample)] if op.wait_s_per_sample else [])


def test_the_cheapest_of_many_ops_are_in_the_table_only() -> None:
    chart = charts_of(run_of_a_long_pipeline(60))["op-costs"]
    assert len({row["op"] for row in values(chart, "bar")}) == 18
    assert len(chart.table.rows) == 61
    assert "43" in chart.note


def test_the_shares_of_batch_gaps_add_up() -> None:
    chart = charts_of(usual_run())["batch-gaps"]
    bars = values(chart, "rect")
    assert sum(row["share"] for row in bars) == pytest.approx(1.0)
    assert all(row["low"] < row["high"] for row in bars)
    marked = {str(row["label"]).split()[0] for row in values(chart, "text")}
    assert marked == {"p50", "p95", "p99", "needed"}


def test_the_cut_is_where_the_steady_state_begins() -> None:
    run = usual_run()
    chart = charts_of(run)["rate-over-time"]
    state = run.measurements[2].workers[0].steady_state
    cut = [row for row in values(chart, "rect") if row.get("from") == 0]
    assert cut[0]["to"] == state.transient_s
    points = [row for row in values(chart, "line") if row["worker"] == "worker 0"]
    assert [row["rate"] for row in points] == list(run.measurements[2].workers[0].block_samples_per_s)
    assert points[0]["begin"] == state.transient_s
    assert points[-1]["end"] == pytest.approx(state.transient_s + state.window_s)


def test_of_many_workers_few_lines_are_drawn_and_that_is_said() -> None:
    chart = charts_of(run_of_many_workers(300))["rate-over-time"]
    assert len({row["worker"] for row in values(chart, "line")}) == 8
    assert "8 of 300" in chart.note


def test_every_cell_says_whether_it_feeds_or_why_it_cannot_run() -> None:
    run = usual_run(cluster=make_cluster(nodes=4, cpus_per_node=16))
    chart = charts_of(run)["layouts"]
    cells = [row for panel in range(len(chart.panels)) for row in values(chart, "rect", panel) if "strength" in row]
    kinds = {row["what"] for row in cells}
    assert {"feeds the accelerator", "falls short", "cannot run"} == kinds
    assert all(row["limited by"] for row in cells)
    enough = run.consumption.samples_per_s.estimate * (1 + run.options.headroom_ratio)
    assert enough > 0
    for row in cells:
        assert (row["predicted"] == "-") == (row["what"] == "cannot run")


def test_the_plan_is_outlined_once() -> None:
    run = usual_run(recommendation=make_plan("3x16x2", confirmed_by=2))
    chart = charts_of(run)["layouts"]
    outlined = [
        row
        for panel in chart.panels
        for unit in layers(panel.spec)
        if isinstance(unit["mark"], dict) and unit["mark"].get("fill", "") is None
        for row in unit["data"]["values"]
    ]
    assert [row["launch"] for row in outlined] == ["3x16x2"]


def test_memory_is_split_as_the_model_says_and_stands_beside_its_limit() -> None:
    run = usual_run()
    chart = charts_of(run)["memory"]
    plan = [row for row in values(chart, "bar") if "(plan)" in row["launch"]]
    assert sum(row["GiB"] for row in plan) * 2**30 == run.recommendation.memory_bytes_per_node
    assert values(chart, "rule")[0]["limit"] * 2**30 == run.cluster.memory_bytes_per_node
    whole = charts_of(replace(run, capacity=None))["memory"]
    assert {row["what"] for row in values(whole, "bar")} == {"in all"}


def test_nothing_is_taken_in_the_middle_of_the_pause_and_never_more_than_wanted_for_long() -> None:
    run = usual_run()
    chart = charts_of(run)["timeline"]
    rows = values(chart, "line")
    (pause,) = values(chart, "rect")
    length = rows[1]["time"] - rows[0]["time"]
    inside = [row for row in rows if pause["time"] + length < row["time"] < pause["end"] - length]
    assert inside
    assert {row["taken"] for row in inside} == {0.0}
    outside = [row["taken"] for row in rows if row["wanted"] == max(row["wanted"] for row in rows)]
    assert sum(outside) / len(outside) <= run.consumption.samples_per_s.estimate * 1.02


def test_a_starving_accelerator_is_seen_to_starve() -> None:
    starving = usual_run(consumption=make_consumption(60_000.0))
    rows = values(charts_of(starving)["timeline"], "line")
    taken = [row["taken"] for row in rows if row["wanted"] > 50_000]
    assert sum(taken) / len(taken) == pytest.approx(14_500, rel=0.15)


def test_a_supply_far_above_the_demand_is_told_and_not_drawn() -> None:
    near, far = charts_of(usual_run())["timeline"], charts_of(usual_run(consumption=make_consumption(100.0)))["timeline"]
    assert [row["what"] for row in values(near, "rule")] == ["supply, as predicted"]
    assert values(far, "rule") == []
    assert "14,500 samples/s" in far.note
    assert len(far.key) == len(near.key) - 1


def test_a_model_of_nonsense_draws_nothing() -> None:
    nonsense = usual_run(
        capacity=make_capacity_model(workers=(), contention=()),
        recommendation=make_plan(predicted_samples_per_s=make_estimate(1e308)),
    )
    assert not {"supply-demand", "layouts"} & set(charts_of(nonsense))
    assert "op-costs" in charts_of(nonsense)


# --- the pipeline ------------------------------------------------------------------------------------------------------------


def test_the_pipeline_is_drawn_op_by_op_with_what_flows() -> None:
    run = usual_run()
    shown = pipeline_rows(run, {1: "finding-CSI101-map"})
    assert [row.name for row in shown.rows] == [op.name for op in run.pipeline.ops]
    by_name = {row.name: row for row in shown.rows}
    # 1,000 samples/s in the worker that was profiled, an element for each.
    assert by_name["map"].edge == "1,000 elements/s, 301 MB/s"
    assert by_name["batch"].edge.startswith("3.91 elements/s")
    assert by_name["map"].parallel == "× 1.9"
    assert by_name["batch"].parallel == "serial"
    assert by_name["map"].finding == "finding-CSI101-map"
    assert by_name["tf_record"].depth == 1
    assert [row.name for row in shown.rows if row.is_bottleneck] == ["map"]
    assert [row.name for row in shown.rows if row.waits_for_it] == ["shuffle", "batch", "prefetch"]


def test_only_a_station_near_its_limit_is_called_a_bottleneck() -> None:
    near = make_station("serial op", op="batch", utilization_ratio=0.9)
    far = make_station("serial op", op="batch", utilization_ratio=0.5)
    for stations, expected in (((near,), ["bottleneck"]), ((far,), ["most CPU time"]), (make_stations(), ["most CPU time"])):
        shown = pipeline_rows(usual_run(stations=stations), {})
        assert [row.mark for row in shown.rows if row.mark] == expected


def test_of_a_long_pipeline_the_costliest_ops_are_drawn() -> None:
    shown = pipeline_rows(run_of_a_long_pipeline(500), {})
    assert len(shown.rows) == 120
    assert shown.rows[0].name == "tf_record"
    assert shown.rows[-1].name == "batch"
    assert sum(row.skipped for row in shown.rows) == 380
    assert "120 of 500" in shown.note
