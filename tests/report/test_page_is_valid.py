"""The page, read as strictly as the standard of HTML is: every error of a lenient browser is an error here."""

from __future__ import annotations

import re

import pytest
from builders import make_bare_analysis
from hostile import HOSTILE, hostile
from page_runs import run_of_a_long_pipeline, usual_run
from rendered import to_html

from cs_input_analyzer.records import Analysis

html5lib = pytest.importorskip("html5lib", reason="html5lib is not installed (it is in the extra `test`)")


def mistakes(text: str) -> list[str]:
    parser = html5lib.HTMLParser()
    parser.parse(text)
    return [f"{place}: {code}" for place, code, _ in parser.errors]


RUNS = {"usual": usual_run, "bare": make_bare_analysis, "long": run_of_a_long_pipeline}


@pytest.mark.parametrize("name", RUNS)
def test_a_page_has_no_mistake(name: str) -> None:
    assert mistakes(without_library(to_html(RUNS[name]()))) == []


@pytest.mark.parametrize("name", ["script", "quotes", "entity", "newlines"])
def test_nor_has_one_with_hostile_names(name: str) -> None:
    run: Analysis = hostile(usual_run(), HOSTILE[name])
    assert mistakes(without_library(to_html(run))) == []


def test_mistakes_are_seen() -> None:
    page = without_library(to_html(make_bare_analysis()))
    assert mistakes(page.replace("</section>", "", 1)) != []
    assert mistakes(page.replace("<p", "<p a a", 1)) != []


def test_every_id_is_there_once_and_every_reference_leads_to_one() -> None:
    text = to_html(usual_run())
    markup = text[: text.index('<script type="application/json"')]
    ids = re.findall(r'\bid="([^"]*)"', markup)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]*)"', markup)) <= set(ids)


def without_library(text: str) -> str:
    """Nearly a megabyte of JavaScript, of which only its end matters to a reader of HTML."""
    return re.sub(r'(<script type="text/plain" id="library">).*?(</script>)', r"\1\2", text, flags=re.DOTALL)
