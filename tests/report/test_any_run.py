"""Any run, whatever it holds: every report can be made, keeps its width, and lets no name act; a saved run holds all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import jsonschema
import pytest
from builders import make_analysis, make_bare_analysis, make_finding, make_measurement, make_plan, make_worker
from hostile import HOSTILE, RAW, hostile, with_text
from hypothesis import HealthCheck, given, settings
from page_runs import busy_worker, comparison, run_of_a_long_pipeline, run_of_many_workers, usual_run
from pages import Page, shape
from record_strategies import analyses
from rendered import csv_rows
from rich.cells import cell_len

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import FORMATS, masked, render
from cs_input_analyzer.report.foreign import with_own_lines
from cs_input_analyzer.report.pictures import pictures_of
from cs_input_analyzer.report.run_document import run_document
from cs_input_analyzer.report.to_console import MOST_LINES
from cs_input_analyzer.report.to_json import from_html, from_json, json_schema
from cs_input_analyzer.units import visible
from cs_input_analyzer.workflows.compare import compare

SCHEMA = jsonschema.Draft202012Validator(json.loads(json_schema()))
LOST = make_measurement("1x2x2", (1.0,), workers=(busy_worker(), make_worker(None, index=1, message="killed by signal 9")))
RUNS: dict[str, Callable[[], Analysis]] = {
    "usual": usual_run,
    "bare": make_bare_analysis,
    "500 ops": run_of_a_long_pipeline,
    "300 workers": lambda: run_of_many_workers(300),
    "no demand": lambda: usual_run(consumption=None, verdict="unknown"),
    "no plan": lambda: usual_run(recommendation=None, verdict_layout=None, verdict="unknown", no_plan="no worker delivered " * 20),
    "lost worker": lambda: usual_run(measurements=(LOST,), recommendation=make_plan(confirmed_by=0)),
    "interrupted": lambda: usual_run(interrupted=True),
    "findings": lambda: make_analysis(findings=tuple(make_finding(message="word " * 90, fix="word " * 90) for _ in range(9))),
}


def check_width(run: Analysis, width: int = 80) -> None:
    """No line is longer than the width, but for those to copy; the short report is at most a screen."""
    plan = run.recommendation
    launch = plan.launch if plan is not None else None
    lines = [] if launch is None else [launch.srun, launch.csrun_wse, launch.defaults]
    copied = [*lines, run.command, *run_document(run).closing]
    free = {line.rstrip(" ") for text in copied for line in visible(text).split("\n")}
    for full in (False, True):
        shown = render(run, "console", full=full, width=width).splitlines()
        assert [line for line in shown if cell_len(line) > width and line not in free] == []
        extra = max((visible(text).count("\n") for text in lines), default=0)  # of a hostile name in a line to copy
        assert full or width < 80 or len(shown) <= MOST_LINES + extra


def worker_count(run: Analysis) -> int:
    return sum(len(launch.workers) for launch in run.measurements)


def drawn(run: Analysis) -> dict[str, str]:
    """What each picture is drawn of."""
    return {name: chart.svg for name, chart in pictures_of(run).items()}


def tags(svg: str) -> list[str]:
    """Return the elements of a picture; whether a name fits into its block depends on the name."""
    return [tag for tag, _ in Page(svg).tags if tag != "text"]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses())
def test_any_analysis_has_every_report_and_comes_back_as_it_was(analysis: Analysis) -> None:
    check_width(analysis)
    drawn(analysis)
    render(analysis, "md", full=True)
    assert len(csv_rows(analysis)) == worker_count(analysis)
    page = render(analysis, "html")
    assert Page(page).kinds == ["run", None]
    again, saved = from_json(render(analysis, "json"), origin="x"), with_own_lines(masked(analysis))
    assert again == from_html(page, origin="x") == saved
    # 1 == 1.0 == True: equality alone would let a type change pass.
    assert repr(asdict(again)) == repr(asdict(saved))
    SCHEMA.validate(json.loads(render(analysis, "json")))


@pytest.mark.parametrize("name", RUNS)
def test_any_run_fits_on_a_screen_and_has_every_format(name: str) -> None:
    run = RUNS[name]()
    for width in (40, 60, 80, 120, 200) if name in ("usual", "bare") else (80,):
        check_width(run, width)
    for form in FORMATS:
        if form not in ("sbatch", "env") or run.recommendation is not None:
            assert render(run, form).endswith("\n")


@pytest.fixture(scope="module")
def harmless() -> dict[str, Any]:
    """The same run with a harmless text in every name, as each report shows it."""
    run = hostile(usual_run(), "harmless")
    return {"shape": shape(Page(render(run, "html"))), "drawn": drawn(run)}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_acts_in_any_report_and_none_is_lost(name: str, harmless: dict[str, Any]) -> None:
    text = HOSTILE[name]
    run = hostile(usual_run(), text)
    check_width(run)
    page = render(run, "html")
    shown = Page(page)
    assert shape(shown) == harmless["shape"]
    assert visible(text) in shown.text
    colored = re.sub(r"\x1b\[[\d;]*m", "", render(run, "console", full=True, color=True))
    rows = csv_rows(run)
    assert len(rows) == worker_count(run)
    assert not any(re.match(r"\s*[=+@]", cell) for row in rows for cell in row.values())
    pictures = drawn(run)
    assert {each: tags(svg) for each, svg in pictures.items()} == {each: tags(svg) for each, svg in harmless["drawn"].items()}
    markdown = render(run, "md", full=True)
    assert all("<script" not in block.replace("\\<", "") for block in markdown.split("```")[::2] if "`" not in block)
    for printed in (render(run, "json"), page, colored, *pictures.values(), markdown, render(run, "csv")):
        assert RAW.findall(printed) == []
    if name != "not utf-8":
        assert from_json(render(run, "json"), origin="x") == from_html(page, origin="x") == with_own_lines(run)
    else:
        assert from_json(render(run, "json").encode().decode(), origin="x").pipeline.target == "caf\\udce9"


# --- pages and comparisons -----------------------------------------------------------------------------------------------------


VALID: dict[str, Callable[[], Any]] = {
    "usual": usual_run,
    "bare": make_bare_analysis,
    "long": run_of_a_long_pipeline,
    "comparison": comparison,
    **{name: lambda name=name: hostile(usual_run(), HOSTILE[name]) for name in ("script", "quotes", "entity", "newlines")},
}


@pytest.mark.parametrize("name", VALID)
def test_the_page_is_valid_ids_are_unique_and_links_inside_it_lead_somewhere(name: str) -> None:
    """Read as strictly as the standard of HTML is: every error of a lenient browser is an error here."""
    html5lib = pytest.importorskip("html5lib", reason="html5lib is not installed (it is in the extra `test`)")
    text, found = render(VALID[name](), "html"), []
    for page in (text, text.replace("</section>", "", 1)):
        parser = html5lib.HTMLParser()
        parser.parse(page)
        found.append([f"{place}: {code}" for place, code, _ in parser.errors])
    assert found[0] == []
    assert found[1] != []
    page = Page(text)
    ids = page.attribute("id")
    assert len(ids) == len(set(ids))
    assert {str(link)[1:] for link in page.attribute("href") if str(link).startswith("#")} <= set(ids)


@pytest.mark.parametrize("name", ["script", "terminal", "newlines"])
def test_no_text_acts_in_a_comparison(name: str) -> None:
    found, plain = with_text(comparison(), HOSTILE[name]), with_text(comparison(), "plain")
    assert shape(Page(render(found, "html"))) == shape(Page(render(plain, "html")))
    console = render(found, "console", full=True)
    assert RAW.findall(console) == []
    assert [line for line in console.split("\n") if cell_len(line) > 80] == []


def test_a_page_holds_its_comparison_and_marks_changes() -> None:
    found = comparison()
    text = render(found, "html")
    assert re.findall(r"https?://|//[a-z]+\.|@import|url\(", text) == []
    page = Page(text)
    (held,) = [script for script, kind in zip(page.scripts, page.kinds, strict=True) if kind == "comparison"]
    assert json.loads(held) == json.loads(render(found, "json"))
    classes = {attributes.get("class") for tag, attributes in page.tags if tag == "tr"}
    assert {"mark-worse", "mark-better", "mark-other", "mark-same"} <= classes
    with pytest.raises(UsageError, match="console, html, md, json"):
        render(found, "csv")
    long = run_of_a_long_pipeline()
    alike = compare(long, long, tool=found.tool)
    assert {attributes.get("class") for tag, attributes in Page(render(alike, "html")).tags if tag == "tr"} <= {"mark-same", None}
    assert "more ops are not shown" in render(alike, "console", full=True)
    assert len(json.loads(render(alike, "json"))["ops"]) > 400
