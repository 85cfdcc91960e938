"""The pictures: what is drawn, what is left out, and what a burst or a strange run does to them."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from builders import (
    make_alternative,
    make_analysis,
    make_bare_analysis,
    make_capacity_model,
    make_consumption,
    make_estimate,
    make_graph,
    make_measurement,
    make_op_cost,
    make_plan,
    make_profile,
    make_runtime_cost,
    make_station,
)
from hostile import HOSTILE, RAW, hostile
from page_runs import CHARTS, busy_worker, run_of_a_long_pipeline, run_of_many_workers, usual_run
from rich.cells import cell_len

from cs_input_analyzer.model.curves import highest_usual
from cs_input_analyzer.model.strip import MOST_BLOCKS, strip_of
from cs_input_analyzer.records import UNATTRIBUTED, Analysis, OpCost, Profile
from cs_input_analyzer.report import render
from cs_input_analyzer.report.chart import LEAST_APART, Scale, axis_number
from cs_input_analyzer.report.pictures import pictures_of
from cs_input_analyzer.report.strip import LEAST_WIDTH, label_of, strip_line, widths_of


def cost(name: str, share: float, **more: object) -> OpCost:
    given = {"share_ratio": share, "self_cpu_s_per_sample": 0.002 * share, "wait_s_per_sample": None, "source": f"data.py:{share}"}
    return make_op_cost(name, **(given | more))


def run_of(*rows: OpCost, chain: str, **overrides: object) -> Analysis:
    return usual_run(pipeline=make_graph(chain), profile=make_profile(ops=rows, cpu_s_per_sample=0.002), **overrides)


CHAIN = "tensor_slices > map > shuffle > batch"
# TensorFlow tells the times of the first three ops apart from nothing.
UNTOLD = (
    *(cost(name, 0, share_ratio=None, merged_into=UNATTRIBUTED) for name in ("tensor_slices", "map", "shuffle")),
    cost("batch", 0.2),
    cost(UNATTRIBUTED, 0.8, kind=UNATTRIBUTED, source=None),
)


def test_each_picture_has_a_table_that_says_the_same() -> None:
    found = pictures_of(usual_run())
    assert set(found) == set(CHARTS)
    for name, chart in found.items():
        assert chart.table.rows, name
        assert all(len(row) == len(chart.table.columns) for row in chart.table.rows)
        assert chart.svg.startswith("<svg")
        assert "<title>" in chart.svg


def test_every_look_has_a_colour_of_the_page(root: Path) -> None:
    css = (root / "reports/templates/charts.css").read_text(encoding="utf-8")
    drawn = "".join(chart.svg for chart in pictures_of(usual_run()).values())
    looks = {look for names in re.findall(r'class="([^"]+)"', drawn) for look in names.split()}
    assert len(looks) > 10
    assert [look for look in looks - {"sign", "quantile", "supply"} if f".{look}" not in css] == []
    # A colour written out would be right in the light only.
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b", css + drawn.replace("#cost-", ""))


@pytest.mark.parametrize("has_demand", [True, False])
def test_the_curve_marks_the_plan_the_launch_in_use_and_the_demand_if_there_is_one(has_demand: bool) -> None:
    plan = make_plan(alternatives=(make_alternative("2x4x2", is_current=True),), confirmed_by=2)
    more = {} if has_demand else {"consumption": None, "verdict": "unknown"}
    chart = pictures_of(usual_run(recommendation=plan, **more))["supply-demand"]
    labels = re.findall(r'<text class="label[^>]*>([^<]*)', chart.svg)
    assert labels == [f"plan {plan.layout}", "in use today"]
    assert ('class="rule demand"' in chart.svg) == has_demand
    assert [key.look for key in chart.keys] == ["supply", "demand"][: 1 + has_demand]


def test_a_burst_does_not_set_the_scale_and_is_marked() -> None:
    calm, burst = (300.0, 310.0, 290.0, 305.0), 200_000.0
    assert highest_usual((*calm, burst)) == 310.0
    assert highest_usual(calm) == 310.0
    assert highest_usual(()) == 0.0
    charts = {}
    for name, blocks in (("calm", calm), ("burst", (*calm, burst))):
        worker = replace(busy_worker(300.0), block_samples_per_s=blocks)
        launch = make_measurement("1x1x2", (300.0,), workers=(worker,))
        run = usual_run(measurements=(launch,), recommendation=make_plan(confirmed_by=0), consumption=None)
        charts[name] = pictures_of(run)["rate-over-time"]
    assert charts["burst"].svg.count('class="clipped"') == 1
    assert "200,000 samples/s" in charts["burst"].note
    assert "clipped" not in charts["calm"].svg
    assert charts["calm"].note == ""
    # Both have the same numbers at the upright axis.
    axes = [re.findall(r'class="axis before" x="-8"[^>]*>([^<]*)', chart.svg) for chart in charts.values()]
    assert axes[0] == axes[1]


def test_what_each_worker_must_give_is_drawn_with_a_demand_only() -> None:
    with_demand, without = (pictures_of(usual_run(**more))["rate-over-time"] for more in ({}, {"consumption": None}))
    assert 'class="rule demand"' in with_demand.svg
    assert "needed of each worker of the plan: 438 samples/s" in [key.text for key in with_demand.keys]
    assert 'class="rule demand"' not in without.svg
    assert [key.look for key in without.keys] == ["supply"]


def test_of_many_workers_some_are_drawn() -> None:
    many = pictures_of(run_of_many_workers(300))["rate-over-time"]
    assert many.svg.count('class="curve') == 8
    assert "8 of 300" in many.note


def test_what_makes_no_sense_is_not_drawn() -> None:
    nonsense = {
        "capacity": make_capacity_model(points=()),
        "recommendation": make_plan(predicted_samples_per_s=make_estimate(1e308)),
    }
    assert {"supply-demand", "rate-over-time"} & set(pictures_of(usual_run(**nonsense))) == {"rate-over-time"}
    assert pictures_of(make_bare_analysis()) == {}
    assert set(pictures_of(make_analysis(recommendation=None, profile=None))) <= {"rate-over-time", "batch-gaps"}
    assert "pipeline" not in pictures_of(usual_run(profile=make_profile(ops=(cost("map", 0, share_ratio=None),))))


@pytest.mark.parametrize("wanted", [1e-3, 1.0, 1e9])
def test_a_demand_of_any_size_is_drawn(wanted: float) -> None:
    assert set(pictures_of(usual_run(consumption=make_consumption(wanted)))) == set(CHARTS)


@pytest.mark.parametrize(
    ("low", "high", "is_log"), [(0, 1, False), (0, 7e6, False), (1, 2, False), (1e-6, 40, True), (0.2, 0.21, True)]
)
def test_numbers_at_an_axis_are_few_and_apart(low: float, high: float, is_log: bool) -> None:
    scale = Scale(title="", low=low, high=high, form=axis_number, is_log=is_log)
    places = [scale.at(tick) for tick in scale.ticks()]
    assert 2 <= len(places) <= 7
    assert all(after - before >= LEAST_APART - 1e-9 for before, after in pairwise(places))
    assert scale.at(low) == 0
    assert scale.at(high * 2) == 1


# --- the strip -----------------------------------------------------------------------------------------------------------------


def test_ops_stand_in_the_order_of_the_data_and_the_limit_is_marked() -> None:
    rows = (cost("batch", 0.1), cost("map", 0.6), cost("shuffle", 0.05), cost("tensor_slices", 0.2), make_runtime_cost(0.05))
    blocks = strip_of(run_of(*rows, chain=CHAIN, stations=(make_station("serial op", op="shuffle"),)))
    assert [block.row for block in blocks] == ["tensor_slices", "map", "shuffle", "batch", "runtime"]
    assert [block.row for block in blocks if block.is_limit] == ["shuffle"]
    # A station that is no op names none: then it is the op that takes most of the CPU.
    blocks = strip_of(run_of(*rows, chain=CHAIN, stations=(make_station("CPU", op=None),)))
    assert [block.row for block in blocks if block.is_limit] == ["map"]
    assert sum(gap + width for gap, width in widths_of(blocks)) == pytest.approx(1)


def test_ops_that_cannot_be_told_apart_are_one_block_that_names_them() -> None:
    blocks = strip_of(run_of(*UNTOLD, chain=CHAIN, stations=()))
    assert [block.names for block in blocks] == [("tensor_slices", "map", "shuffle"), ("batch",)]
    assert label_of(blocks[0]) == "tensor_slices, map, shuffle (not told apart)"
    assert blocks[0].is_limit
    line = strip_line(run_of(*UNTOLD, chain=CHAIN, stations=()), 70)
    assert line.startswith("tensor_slices+map+shuffle █")


def test_an_op_that_is_part_of_another_has_no_block_of_its_own() -> None:
    blocks = strip_of(run_of(cost("map", 0, share_ratio=None, merged_into="batch"), cost("batch", 1.0), chain="map > batch"))
    assert [label_of(block) for block in blocks] == ["batch with map"]


@pytest.mark.parametrize(("wait_s", "gaps"), [(0.001, 1), (0.00001, 0), (None, 0), (100.0, 1)])
def test_a_wait_is_a_gap_only_if_it_is_long(wait_s: float | None, gaps: int) -> None:
    run = run_of(cost("map", 0.5, wait_s_per_sample=wait_s), cost("batch", 0.5), chain="map > batch")
    assert pictures_of(run)["pipeline"].svg.count('class="gap"') == gaps
    widths = widths_of(strip_of(run))
    assert sum(gap for gap, _ in widths) <= 0.3 + 1e-9
    assert sum(gap + width for gap, width in widths) == pytest.approx(1)


def test_of_a_long_pipeline_small_ops_are_joined_and_all_blocks_can_be_clicked() -> None:
    blocks = strip_of(run_of_a_long_pipeline())
    assert len(blocks) <= MOST_BLOCKS + 2
    assert sum(len(block.names) for block in blocks if block.is_op) == 500
    assert min(width for _, width in widths_of(blocks)) >= LEAST_WIDTH - 1e-9


def test_each_block_leads_to_its_row_of_costs() -> None:
    page = render(usual_run(), "html")
    links = re.findall(r'<a href="#(cost-[^"]+)" tabindex="-1"', page)
    assert len(links) == 4
    assert all(page.count(f'<tr id="{link}"') == 1 for link in links)


@pytest.mark.parametrize("width", [1, 12, 30, 80, 200])
def test_the_line_for_a_console_fits_and_shows_the_largest_op_longest(width: int) -> None:
    line = strip_line(usual_run(), width)
    assert cell_len(line) <= width
    if width >= 80:
        bars = {part.split(" ")[0]: part.count("█") for part in line.split("▏")}
        assert list(bars) == ["interleave", "map", "batch"]
        assert max(bars, key=lambda name: bars[name]) == "map"
    for text in HOSTILE.values():
        found = strip_line(hostile(usual_run(), text), width)
        assert cell_len(found) <= width
        assert "\n" not in found
        assert not RAW.search(found)


def test_what_is_left_out_of_the_line_keeps_its_share() -> None:
    for width in (40, 80, 120):
        line = strip_line(run_of_a_long_pipeline(), width)
        assert line.startswith("tf_record")
        assert "▏… ████" in line
        assert "…▏…" not in line


def test_there_is_no_line_without_costs() -> None:
    nothing: tuple[Profile | None, ...] = (None, make_profile(ops=()), make_profile(ops=(make_runtime_cost(1.0),)))
    assert [strip_line(usual_run(profile=profile), 80) for profile in nothing] == ["", "", ""]
