"""Bars and sparklines of the console: true to their numbers, inside their width, and left out where there is nothing to draw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import make_analysis, make_bare_analysis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markupsafe import escape
from page_runs import CHARTS, run_of_a_long_pipeline, run_of_many_workers, usual_run
from record_strategies import analyses
from rendered import to_console, to_html
from rich.cells import cell_len

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report.charts import charts_of
from cs_input_analyzer.report.pictures import LEVELS, PICTURES, bar, pictures_of, sparkline
from cs_input_analyzer.report.tables import Table

NUMBERS = st.lists(st.floats(0, 1e12), max_size=200)


@given(NUMBERS, st.integers(1, 80))
def test_a_sparkline_has_the_heights_of_its_numbers(values: list[float], width: int) -> None:
    line = sparkline(values, width)
    assert len(line) <= width
    assert bool(line) == bool(values)
    if len(values) <= width:
        heights = [LEVELS.index(character) for character in line]
        assert len(heights) == len(values)
        assert all((height == 0) == (value == 0) for height, value in zip(heights, values, strict=True))
        for one, other in zip(zip(values, heights, strict=True), zip(values[1:], heights[1:], strict=True), strict=False):
            assert (one[0] <= other[0]) <= (one[1] <= other[1])
        if any(values):
            assert max(heights) == 8


@given(st.floats(-1, 2), st.floats(-1, 2), st.integers(1, 60))
def test_a_bar_grows_with_its_share_and_shows_its_mark(one: float, other: float, width: int) -> None:
    small, large = (bar(share, width) for share in sorted((one, other)))
    assert len(small) <= len(large) <= width
    assert small.count("█") <= large.count("█")
    marked = bar(one, width, mark=other)
    assert len(marked) <= width
    assert marked.count("│") == 1
    assert abs(marked.index("│") - min(max(other, 0), 1) * width) <= 1


def test_the_pictures_of_the_page_are_those_of_the_console() -> None:
    run = usual_run()
    drawn = pictures_of(run, 30)
    # The pipeline is rows with texts on the page too, and a table here.
    assert set(drawn) == set(CHARTS) - {"pipeline"} == set(charts_of(run))
    for picture in drawn.values():
        assert picture.rows
        assert all(cell_len(drawing) <= 30 for _, drawing, _ in picture.rows)
        assert picture.caption in " ".join(to_console(run, width=400).split())


def test_nothing_is_drawn_of_nothing() -> None:
    assert pictures_of(make_bare_analysis(), 30) == {}
    assert set(pictures_of(make_analysis(recommendation=None, profile=None), 30)) <= {"rate-over-time", "batch-gaps"}


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("make", [usual_run, run_of_many_workers, run_of_a_long_pipeline])
def test_runs_of_any_size_keep_the_width(make: object, width: int) -> None:
    run = make() if make is not run_of_many_workers else run_of_many_workers(300)  # type: ignore[operator]
    plan = run.recommendation.launch
    copied = {run.command, *plan.csrun_wse.split("\n"), *plan.srun.split("\n"), *plan.defaults.split("\n")}
    lines = to_console(run, width=width).split("\n")
    assert [line for line in lines if cell_len(line) > width and line not in copied] == []
    assert any(level in "".join(lines) for level in LEVELS[1:])


def test_the_demand_and_the_limit_are_lines_in_the_bars() -> None:
    drawn = pictures_of(usual_run(), 40)
    for name in ("supply-demand", "memory"):
        assert all("│" in drawing for _, drawing, _ in drawn[name].rows)
    free = pictures_of(replace(usual_run(), consumption=None), 40)["supply-demand"]
    assert not any("│" in drawing for _, drawing, _ in free.rows)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses())
def test_any_run_has_pictures_or_none(analysis: Analysis) -> None:
    assert set(pictures_of(analysis, 26)) <= set(PICTURES)


# --- the same facts ----------------------------------------------------------------------------------------------------------


def test_what_the_page_says_the_console_says() -> None:
    from cs_input_analyzer.report import run_document as page
    from cs_input_analyzer.report.measuring import shown_measurement
    from cs_input_analyzer.report.workers import workers_table

    run = usual_run()
    shown = shown_measurement(run)
    assert shown is not None
    console, html = (" ".join(text.split()) for text in (to_console(run, width=400), to_html(run)))
    facts = (*page.wafer_facts(run), *page.feeding_facts(run), *page.options_facts(run.options))
    assert len(facts) > 6
    tables: tuple[Table, ...] = (workers_table(shown),)
    cells = [cell for table in tables for row in table.rows for cell in row]
    for text in [fact for _, fact in facts] + cells:
        assert " ".join(text.split()) in console
        assert " ".join(str(escape(text)).split()) in html
