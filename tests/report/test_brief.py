"""The short report, in every format: a screen of it, whatever the run holds, with what makes a reader act."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import (
    make_analysis,
    make_bare_analysis,
    make_estimate,
    make_finding,
    make_graph,
    make_measurement,
    make_plan,
    make_worker,
)
from hostile import HOSTILE, hostile
from hypothesis import HealthCheck, given, settings
from page_runs import busy_worker, run_of_a_long_pipeline, run_of_many_workers, usual_run
from record_strategies import analyses
from rich.cells import cell_len
from test_to_html import Page

from cs_input_analyzer.records import Analysis, Capture, SamplesPerElement
from cs_input_analyzer.report import FORMATS, render, render_card
from cs_input_analyzer.report.run_document import run_document
from cs_input_analyzer.report.to_console import MOST_LINES
from cs_input_analyzer.report.wording import supply_and_demand, visible

LOST = make_measurement("1x2x2", (1.0,), workers=(busy_worker(), make_worker(None, index=1, message="killed by signal 9")))
RUNS: dict[str, Any] = {
    "usual": usual_run,
    "bare": make_bare_analysis,
    "500 ops": run_of_a_long_pipeline,
    "2,000 workers": lambda: run_of_many_workers(2000),
    "no demand": lambda: usual_run(consumption=None, verdict="unknown"),
    "no plan": lambda: usual_run(recommendation=None, verdict_layout=None, verdict="unknown", no_plan="no worker delivered " * 20),
    "lost worker": lambda: usual_run(measurements=(LOST,), recommendation=make_plan(confirmed_by=0)),
    "interrupted": lambda: usual_run(interrupted=True),
    "findings": lambda: make_analysis(findings=tuple(make_finding(message="word " * 90, fix="word " * 90) for _ in range(9))),
    **{name: lambda text=text: hostile(usual_run(), text) for name, text in HOSTILE.items()},
}


def check_brief(run: Analysis) -> None:
    """At most a screen, no line of ours longer than it: only those to copy are."""
    lines = render(run, "console").splitlines()
    plan, document = run.recommendation, run_document(run)
    launch = plan.launch if plan is not None else None
    copied = [launch.srun, launch.csrun_wse] if launch is not None else []
    free = {line.rstrip(" ") for text in (*copied, *document.closing) for line in visible(text).splitlines()}
    assert [line for line in lines if cell_len(line) > 80 and line not in free] == []
    extra = max((visible(text).count("\n") for text in copied), default=0)  # of a hostile name in a line to copy
    assert len(lines) <= MOST_LINES + extra


@pytest.mark.parametrize("name", RUNS)
def test_any_run_fits_on_a_screen_and_has_every_format(name: str) -> None:
    run = RUNS[name]()
    check_brief(run)
    assert (name in HOSTILE) or len(render(run, "console").splitlines()) <= 40
    for form in FORMATS:
        for full in (False, True) if form in ("console", "md") else (False,):
            if form not in ("sbatch", "env") or run.recommendation is not None:
                assert render(run, form, full=full).endswith("\n") or form == "sbatch"


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses())
def test_so_does_any_analysis(analysis: Analysis) -> None:
    check_brief(analysis)
    for full in (False, True):
        render(analysis, "md", full=full)
    assert json.loads(render(analysis, "summary"))["verdict"] == analysis.verdict
    text = render_card(analysis)
    Page(text)
    assert text.startswith('<div class="cs-input-analyzer"')
    assert text.rstrip().endswith("</div>")


def test_it_ends_with_what_to_type_next_for_the_file_that_it_was_read_from() -> None:
    run = usual_run(command="cs_input_analyzer analyze f.py:f --json out/run.json", validation=None)
    for run_file, named in ((None, "out/run.json"), ("a b.html", "'a b.html'")):
        text = render(run, "console", run_file=run_file)
        assert text.splitlines()[-2:] == [f"cs_input_analyzer validate {named}", f"cs_input_analyzer report {named} --full"]
        assert json.loads(render(run, "summary", run_file=run_file))["next"] == f"cs_input_analyzer validate {named}"
        assert f"report {named} --format sbatch" in render(run, "console", full=True, run_file=run_file)


def test_it_says_that_the_training_of_a_captured_script_never_ran() -> None:
    captured = Capture(command="python run.py", picked=1, candidates=())
    for form in ("console", "md"):
        assert "its training never ran" in render(usual_run(capture=captured), form)
        assert "its training never ran" not in render(usual_run(), form)


@pytest.mark.parametrize(("quiet", "is_said"), [(None, False), (14_600.0, False), (20_000.0, True)])
def test_the_quiet_level_is_said_where_it_is_another(quiet: float | None, is_said: bool) -> None:
    plan = make_plan("1x4x2", quiet_samples_per_s=None if quiet is None else make_estimate(quiet, spread=0.1))
    run = make_analysis(recommendation=plan, verdict_layout=plan.layout)
    assert ("on CPUs that nobody else uses" in dict(supply_and_demand(run)).get("quiet host", "")) == is_said


def test_no_rate_is_in_samples_where_nobody_knows_how_many_an_element_holds() -> None:
    unknown = make_graph(samples_per_element=SamplesPerElement(value=None, source="a generator"))
    run: Any = usual_run(pipeline=unknown, findings=())
    for full in (False, True):
        text = render(run, "console", full=full)
        assert "elements/s" in text
        assert "samples/s" not in text
    assert json.loads(render(run, "summary"))["unit"] == "elements/s"


def test_code_and_the_name_of_a_target_are_never_reworded() -> None:
    unknown = make_graph(samples_per_element=SamplesPerElement(value=None, source="a generator"), target="of/samples/s.py:fn")
    run: Any = usual_run(pipeline=unknown, findings=(make_finding(before="x = 1", after="x = 2  # 7 samples/s, per sample"),))
    assert run_document(run).name == "of/samples/s.py:fn"
    assert "x = 2  # 7 samples/s, per sample" in render(run, "console", full=True)


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


def test_the_card_of_a_notebook_answers() -> None:
    run = usual_run(confidence=0.97, findings=tuple(make_finding(f"CSI1{at:02d}", op=f"map_{at}") for at in range(12)))
    page = Page(render_card(run))
    assert run_document(run).headline in page.text
    assert "nodes: 2\ntasks_per_node: 16\ncpus_per_task: 2" in page.text
    assert all(text in page.text for _, text in supply_and_demand(run))
    assert "+9 more" in page.text
    assert "×1.8" in page.text
