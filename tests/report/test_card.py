"""The card in a notebook: the answer, one element without scripts, and nothing in names that acts."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import make_analysis, make_bare_analysis, make_finding
from hostile import HOSTILE, hostile
from hypothesis import HealthCheck, given, settings
from page_runs import usual_run
from record_strategies import analyses
from test_to_html import Page

from cs_input_analyzer.api import load_analysis
from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import render, render_card
from cs_input_analyzer.report.wording import supply_and_demand, verdict_sentence, visible


def test_it_answers() -> None:
    run = usual_run()
    page = Page(render_card(run))
    assert run.recommendation is not None
    assert verdict_sentence(run) in page.text
    assert "nodes 2, tasks_per_node 16, cpus_per_task 2" in page.text
    for _, text in supply_and_demand(run):
        assert text in page.text
    assert "×2.4" in page.text


def test_the_largest_gain_comes_first_and_the_rest_is_counted() -> None:
    many = make_analysis(findings=tuple(make_finding(f"CSI1{place:02d}", op=f"map_{place}") for place in range(12)))
    assert "+9 more" in Page(render_card(many)).text
    text = render_card(usual_run())
    assert text.index("CSI204") < text.index("CSI101") < text.index("CSI502")


def test_a_run_without_an_answer_has_a_card() -> None:
    page = Page(render_card(make_bare_analysis()))
    assert "UNKNOWN" in page.text
    assert "INTERRUPTED" in page.text
    assert "Launch" not in page.text
    assert "None" not in page.text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_act_nowhere(name: str) -> None:
    plain, page = (Page(render_card(hostile(usual_run(), text))) for text in ("plain", HOSTILE[name]))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert page.kinds == []
    assert visible(HOSTILE[name]) in page.text


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses())
def test_any_run_has_a_card_of_one_element(analysis: Analysis) -> None:
    text = render_card(analysis)
    Page(text)
    assert text.startswith('<div class="cs-input-analyzer"')
    assert text.rstrip().endswith("</div>")


def test_a_notebook_asks_the_run_for_it(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(render(usual_run(), "json"), encoding="utf-8")
    assert load_analysis(tmp_path / "run.json")._repr_html_() == render_card(usual_run())
