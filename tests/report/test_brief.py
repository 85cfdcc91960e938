"""The short report, in every format: a screen of it, whatever the run holds, with what makes a reader act."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import make_analysis, make_bare_analysis, make_finding, make_graph
from hostile import HOSTILE, hostile
from hypothesis import HealthCheck, given, settings
from page_runs import run_of_a_long_pipeline, run_of_many_workers, usual_run
from record_strategies import analyses
from rich.cells import cell_len

from cs_input_analyzer.records import Analysis, SamplesPerElement
from cs_input_analyzer.report import render
from cs_input_analyzer.report.run_document import run_document
from cs_input_analyzer.report.to_console import MOST_LINES
from cs_input_analyzer.report.wording import visible

RUNS = {
    "usual": usual_run,
    "bare": make_bare_analysis,
    "long": run_of_a_long_pipeline,
    "many": run_of_many_workers,
    "no demand": lambda: usual_run(consumption=None, verdict="unknown"),
    "findings": lambda: make_analysis(findings=tuple(make_finding(message="word " * 90, fix="word " * 90) for _ in range(9))),
}


def is_brief(run: Analysis) -> bool:
    """At most a screen, no line of ours longer than it: only those to copy are."""
    lines = render(run, "console").splitlines()
    plan, document = run.recommendation, run_document(run)
    launch = plan.launch if plan is not None else None
    copied = [text for text in (launch.srun, launch.csrun_wse) if launch] if launch is not None else []
    free = {line.rstrip(" ") for text in (*copied, *document.closing) for line in visible(text).splitlines()}
    extra = sum(visible(text).count("\n") for text in (copied[:1]))
    assert [line for line in lines if cell_len(line) > 80 and line not in free] == []
    return len(lines) <= MOST_LINES + extra


@pytest.mark.parametrize("name", RUNS)
def test_any_run_fits_on_a_screen(name: str) -> None:
    assert is_brief(RUNS[name]())


@pytest.mark.parametrize("name", HOSTILE)
def test_so_does_one_with_hostile_names(name: str) -> None:
    assert is_brief(hostile(usual_run(), HOSTILE[name]))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses())
def test_so_does_any_analysis_and_every_format_has_it(analysis: Analysis) -> None:
    assert is_brief(analysis)
    for full in (False, True):
        render(analysis, "md", full=full)
    assert json.loads(render(analysis, "summary"))["verdict"] == analysis.verdict


def test_it_ends_with_what_to_type_next() -> None:
    run = usual_run(command="cs_input_analyzer analyze f.py:f --json out/run.json", validation=None)
    assert render(run, "console").splitlines()[-2:] == [
        "cs_input_analyzer validate out/run.json",
        "cs_input_analyzer report out/run.json --full",
    ]


def test_no_rate_is_in_samples_where_nobody_knows_how_many_an_element_holds() -> None:
    unknown = make_graph(samples_per_element=SamplesPerElement(value=None, source="a generator"))
    run: Any = usual_run(pipeline=unknown, findings=())
    for full in (False, True):
        text = render(run, "console", full=full)
        assert "elements/s" in text
        assert "samples/s" not in text
    assert json.loads(render(run, "summary"))["unit"] == "elements/s"


def test_the_summary_is_the_answer() -> None:
    found = json.loads(render(usual_run(), "summary"))
    assert found["launch"]["nodes"] == 2
    assert [finding["code"] for finding in found["findings"]] == ["CSI204", "CSI101", "CSI502"]
    assert len(found["unknowns"]) <= 3


@pytest.mark.parametrize("name", ["script", "markup", "newlines", "entity", "terminal"])
def test_no_name_acts_in_markdown(name: str) -> None:
    text = render(hostile(usual_run(), HOSTILE[name]), "md", full=True)
    blocks = text.split("```")
    assert all("<script" not in block.replace("\\<", "") for block in blocks[::2] if "`" not in block)
    assert "\x1b" not in text
