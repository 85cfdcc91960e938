"""A comparison as text and as a page: the same facts, marked, inside the width, and nothing in names that acts."""

from __future__ import annotations

import json
import re

import pytest
from builders import make_analysis, make_estimate, make_finding, make_host, make_measurement, make_op_cost, make_plan, make_profile
from hostile import HOSTILE, RAW, with_text
from page_runs import run_of_a_long_pipeline, usual_run
from pages import Page, shape
from rich.cells import cell_len

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Comparison, Tool
from cs_input_analyzer.report import render
from cs_input_analyzer.report.comparison import doubts_table, headline, memory_table, ops_table, rates_table, sides_table
from cs_input_analyzer.workflows.compare import compare

TOOL = Tool(name="cs_input_analyzer", version="0.1.0")


def changed() -> Comparison:
    old = make_analysis(recommendation=make_plan("3x8x2", confirmed_by=0))
    new = make_analysis(
        measurements=(
            make_measurement("1x1x1", (200.0,), samples_per_s=make_estimate(200.0)),
            make_measurement("1x1x2", (3000.0,), samples_per_s=make_estimate(3000.0)),
            make_measurement("1x4x2", (940.0, 930.0, 900.0, 950.0), num_workers=16),
        ),
        profile=make_profile(ops=(make_op_cost("map", self_cpu_s_per_sample=0.01), make_op_cost("fresh"))),
        findings=(make_finding("CSI104", op="map_7"),),
        host=make_host(tensorflow_version="2.21.0"),
        verdict="input_bound",
    )
    return compare(old, new, tool=TOOL, old_path="old.json", new_path="new.json")


def same() -> Comparison:
    return compare(usual_run(), usual_run(), tool=TOOL)


@pytest.mark.parametrize("found", [changed(), same()], ids=["changed", "same"])
def test_console_and_page_hold_every_cell(found: Comparison) -> None:
    page = " ".join(Page(render(found, "html")).text.split())
    console = " ".join(render(found, "console", full=True, width=400).split())
    tables = [make(found) for make in (sides_table, rates_table, ops_table, memory_table, doubts_table)]
    for cell in (headline(found), *(cell for table in tables for row in table.rows for cell in row)):
        assert " ".join(cell.split()) in page
        assert " ".join(cell.split()) in console
    assert all(finding.finding.message in page for finding in found.findings)


def test_changes_are_marked_and_noise_is_not() -> None:
    text = render(changed(), "html")
    page = Page(text)
    classes = [attributes.get("class") for tag, attributes in page.tags if tag == "tr"]
    assert {"mark-worse", "mark-better", "mark-other", "mark-same"} <= set(classes)
    assert "SLOWER AND FASTER: 1 slower, 1 faster of 3 launches" in page.text
    assert "Doubts" in page.text
    quiet = Page(render(same(), "html"))
    assert {attributes.get("class") for tag, attributes in quiet.tags if tag == "tr"} <= {"mark-same", None}
    assert "NO DIFFERENCE SEEN" in quiet.text
    assert "Doubts" not in quiet.text


def test_the_page_asks_nothing_of_the_network_and_holds_the_comparison() -> None:
    found = changed()
    text = render(found, "html")
    assert re.findall(r"https?://|//[a-z]+\.|@import|url\(", text) == []
    page = Page(text)
    (held,) = [script for script, kind in zip(page.scripts, page.kinds, strict=True) if kind == "comparison"]
    assert json.loads(held) == json.loads(render(found, "json"))
    ids = page.attribute("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.attribute("href") if link and link.startswith("#")} <= set(ids)


@pytest.mark.parametrize("name", ["script", "terminal", "newlines"])
def test_hostile_names_act_nowhere(name: str) -> None:
    found, plain = with_text(changed(), HOSTILE[name]), with_text(changed(), "plain")
    assert shape(Page(render(found, "html"))) == shape(Page(render(plain, "html")))
    console = render(found, "console", full=True)
    assert RAW.findall(console) == []
    assert [line for line in console.split("\n") if cell_len(line) > 80] == []


def test_hundreds_of_ops_are_cut_and_counted() -> None:
    long = run_of_a_long_pipeline()
    found = compare(long, long, tool=TOOL)
    assert "more ops are not shown" in render(found, "console", full=True)
    assert len(json.loads(render(found, "json"))["ops"]) > 400
    with pytest.raises(UsageError, match="console, html, md, json"):
        render(found, "csv")
