"""The answer card of a notebook: the first screen, small, without a script, and shown twice without a clash."""

from __future__ import annotations

import pytest
from builders import make_analysis, make_bare_analysis
from hostile import HOSTILE, hostile
from page_runs import usual_run
from pages import Page

from cs_input_analyzer import api, report
from cs_input_analyzer.report.run_document import run_document
from cs_input_analyzer.units import visible

RUNS = {"usual": usual_run, "small": make_analysis, "bare": make_bare_analysis}
MOST_BYTES = 20_000


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_shown_as_its_first_screen(name: str) -> None:
    run = api._public(RUNS[name]())
    html = run._repr_html_()
    card, document = Page(html), run_document(report.masked(run))
    for words in (document.headline, document.name, *(section.title for section in document.first[1:])):
        assert words in card.text
    assert len(html.encode()) < MOST_BYTES
    assert card.scripts == []
    assert card.attribute("id") == []  # shown twice, no id clashes
    assert not card.attribute("src")
    assert "http" not in html
    assert all(not href.startswith("#") for href in card.attribute("href") if href)  # the page's anchors are not here


def test_a_comparison_is_shown_so_too_and_no_markdown_competes() -> None:
    compared = api.compare(make_analysis(), make_analysis())
    assert "no difference seen" in Page(compared._repr_html_()).text
    assert not hasattr(compared, "_repr_markdown_")


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_acts_in_a_card(name: str) -> None:
    card = Page(report.card(hostile(usual_run(), HOSTILE[name])))
    known = {"div", "style", "p", "table", "tr", "th", "td", "pre", "code", "strong", "wbr"}
    assert {tag for tag, _ in card.tags} <= known
    assert visible(HOSTILE[name])[:20] in card.text
