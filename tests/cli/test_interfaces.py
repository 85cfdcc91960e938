"""The tables of docs/interfaces.md are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from cs_input_analyzer.cli import cli
from cs_input_analyzer.cli.interfaces import PAGE, fields_table, options_table, rewritten

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_tables_of_the_code() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page == rewritten(page), "python -m cs_input_analyzer.cli.interfaces"
    assert page.count("<!-- end -->") == page.count("<!-- options of ") + page.count("<!-- fields of ") > 10


def test_a_table_that_differs_is_made_anew_and_the_rest_stays() -> None:
    page = "Before.\n<!-- options of report -->\n| old |\n<!-- end -->\nAfter.\n"
    made = rewritten(page)
    assert made == f"Before.\n<!-- options of report -->\n{options_table('report')}<!-- end -->\nAfter.\n"
    assert rewritten(made) == made


@pytest.mark.parametrize("name", ["tune", "plan", "validate"])
def test_options_of_analyze_are_listed_once(name: str) -> None:
    assert "--demand" in options_table("analyze")
    assert "--partition" not in options_table(name)
    assert {option.name for option in cli.commands[name].params} & {"demand", "partition"}


def test_a_field_says_what_it_holds() -> None:
    table = fields_table("Analysis")
    assert "`measurements[]` Measurement" in table
    assert "`verdict` input_bound / balanced / accelerator_bound / unknown" in table
    assert "`no_plan?`," in table
    assert "| Estimate | `estimate`, `low`, `high`, `count?` |" in table
    assert "| Estimate |" not in fields_table("Comparison")
