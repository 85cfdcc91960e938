"""Any run, whatever it holds: every report can be made, keeps its width, and lets no name act; a saved run holds all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from builders import make_analysis, make_bare_analysis, make_finding, make_measurement, make_plan, make_worker
from hostile import HOSTILE, RAW, hostile
from hypothesis import HealthCheck, given, settings
from page_runs import busy_worker, run_of_a_long_pipeline, run_of_many_workers, usual_run
from pages import Page, shape, without_library
from record_strategies import analyses
from rendered import csv_rows
from rich.cells import cell_len

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import FORMATS, masked, render
from cs_input_analyzer.report.foreign import with_own_lines
from cs_input_analyzer.report.pictures import pictures_of
from cs_input_analyzer.report.run_document import run_document
from cs_input_analyzer.report.to_console import MOST_LINES
from cs_input_analyzer.report.to_json import from_html, from_json, json_schema
from cs_input_analyzer.units import visible

SCHEMA = jsonschema.Draft202012Validator(json.loads(json_schema()))
LOST = make_measurement("1x2x2", (1.0,), workers=(busy_worker(), make_worker(None, index=1, message="killed by signal 9")))
RUNS: dict[str, Callable[[], Analysis]] = {
    "usual": usual_run,
    "bare": make_bare_analysis,
    "500 ops": run_of_a_long_pipeline,
    "2,000 workers": lambda: run_of_many_workers(2000),
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
    lines = [] if launch is None else [launch.srun, launch.csrun_wse, launch.csrun_cpu or "", launch.defaults]
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
    """What each picture is drawn of; no number in it is infinite."""
    return {name: json.dumps(chart.spec, allow_nan=False, ensure_ascii=False) for name, chart in pictures_of(run).items()}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses())
def test_any_analysis_has_every_report_and_comes_back_as_it_was(analysis: Analysis) -> None:
    check_width(analysis)
    drawn(analysis)
    render(analysis, "md", full=True)
    assert len(csv_rows(analysis)) == worker_count(analysis)
    page = render(analysis, "html")
    assert Page(page).kinds in (["run", None], ["run", "charts", "library", None])
    again, saved = from_json(render(analysis, "json"), origin="x"), with_own_lines(masked(analysis))
    assert again == from_html(page, origin="x") == saved
    # 1 == 1.0 == True: equality alone would let a type change pass.
    assert repr(again) == repr(saved)
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
    assert {each: json.loads(spec)["layer"][0]["mark"] for each, spec in pictures.items()} == {
        each: json.loads(spec)["layer"][0]["mark"] for each, spec in harmless["drawn"].items()
    }
    markdown = render(run, "md", full=True)
    assert all("<script" not in block.replace("\\<", "") for block in markdown.split("```")[::2] if "`" not in block)
    for printed in (render(run, "json"), without_library(page), colored, *pictures.values(), markdown, render(run, "csv")):
        assert RAW.findall(printed) == []
    if name != "not utf-8":
        assert from_json(render(run, "json"), origin="x") == from_html(page, origin="x") == with_own_lines(run)
    else:
        assert from_json(render(run, "json").encode().decode(), origin="x").pipeline.target == "caf\\udce9"
