"""A comparison -> text for a terminal, or one self-contained page of the same look as the report."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass

from cs_input_analyzer.records import Comparison, RateDirection
from cs_input_analyzer.report.comparison import (
    compared_tables,
    doubts_table,
    finding_change_views,
    headline,
    headline_mark,
    sides_table,
)
from cs_input_analyzer.report.glossary import MEANINGS, Glossary
from cs_input_analyzer.report.terminal import console_on, facts_on, heading_on, line_on, table_on, text_of
from cs_input_analyzer.report.to_html import render_page
from cs_input_analyzer.report.to_json import to_embedded_json

PAGE = "compare.html.j2"
MARK_STYLES = {"worse": "bold red", "better": "bold green", "same": "bold", "other": "bold"}
ROW_STYLES = {"worse": "red", "better": "green", "same": "", "other": "cyan"}
# The picture reaches at least from this ratio to its inverse, so that noise looks like noise.
LEAST_SPAN = 1.25
MOST_SPAN = 8.0
MARGIN_RATIO = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioBar:
    """One ratio with its interval, in percent of the width of the picture; 50 is no change (log scale)."""

    label: str
    text: str
    change: RateDirection
    low: float
    middle: float
    high: float


def comparison_to_console(found: Comparison, *, width: int | None = None, color: bool = False) -> str:
    """Every line at most `width` columns (80 where None); with `color=False` without an escape sequence."""
    out = io.StringIO()
    console = console_on(out, width, color)
    line_on(console, headline(found), style=MARK_STYLES[headline_mark(found)])
    if found.doubts:
        line_on(console, doubtful(found), style="yellow")
        table_on(console, doubts_table(found))
    for marked in (sides_table(found), *compared_tables(found)):
        table_on(console, marked.table, styles=tuple(ROW_STYLES[mark] for mark in marked.marks))
    heading_on(console, "Findings that are new or gone")
    if not found.findings:
        line_on(console, "none")
    for change, view in finding_change_views(found.findings):
        line_on(console, f"{change}: {view.severity} {view.code}: {view.message}", style="cyan" if change == "gone" else "yellow")
        facts_on(console, view.facts)
    return text_of(out)


def doubtful(found: Comparison) -> str:
    """What makes the comparison doubtful, in a sentence; empty where nothing does."""
    if not found.doubts:
        return ""
    differ = any(doubt.old != doubt.new for doubt in found.doubts)
    what = "The runs differ in more than the pipeline" if differ else "Both runs were disturbed"
    return f"{what}: read the change with the doubts in mind."


def comparison_to_html(found: Comparison) -> str:
    """The page, with the JSON in it. Raises AnalyzerError as `to_html`."""
    from markupsafe import Markup

    return render_page(
        PAGE,
        found=found,
        glossary=Glossary(),
        meanings=MEANINGS,
        headline=headline(found),
        mark=headline_mark(found),
        doubtful=doubtful(found),
        doubts=doubts_table(found),
        sides=sides_table(found),
        ratios=_ratios(found),
        tables=compared_tables(found),
        findings=finding_change_views(found.findings),
        run=Markup(to_embedded_json(found)),
    )


def _ratios(found: Comparison) -> tuple[RatioBar, ...]:
    """On one log scale, as far from 1 to both sides. An interval that reaches beyond it ends at the edge."""
    bounds = [bound for row in found.rates for bound in (row.ratio.low, row.ratio.high)]
    span = min(max([LEAST_SPAN, *(max(bound, 1 / bound) * MARGIN_RATIO for bound in bounds if bound > 0)]), MOST_SPAN)
    return tuple(
        RatioBar(
            label=f"{row.layout} of {row.num_workers}",
            text=f"{row.ratio.estimate:.3g} × ({row.ratio.low:.3g} to {row.ratio.high:.3g}), {row.change}",
            change=row.change,
            low=_percent(row.ratio.low, span),
            middle=_percent(row.ratio.estimate, span),
            high=_percent(row.ratio.high, span),
        )
        for row in found.rates
    )


def _percent(ratio: float, span: float) -> float:
    place = math.log(max(ratio, 1e-300)) / math.log(span)
    return round(50 + 50 * min(max(place, -1.0), 1.0), 2)
