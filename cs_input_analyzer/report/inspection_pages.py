"""A run that was read -> text for a terminal, or one self-contained page of the same look as the report."""

from __future__ import annotations

import io
from dataclasses import dataclass

from cs_input_analyzer.records import PhaseSpan, RunInspection
from cs_input_analyzer.report.inspection import (
    PHASES_SHOWN,
    inspection_verdict,
    rate_facts,
    source_facts,
    stalls_table,
    timeline_table,
    verdict_facts,
    workers_table,
)
from cs_input_analyzer.report.terminal import console_on, facts_on, heading_on, line_on, table_on, text_of
from cs_input_analyzer.report.to_html import render_page
from cs_input_analyzer.report.to_json import to_embedded_json
from cs_input_analyzer.units import format_estimate, format_rate, format_seconds

PAGE = "inspect.html.j2"
VERDICT_STYLES = {"input_bound": "bold red", "balanced": "bold yellow", "accelerator_bound": "bold green", "unknown": "bold"}
BAR_MARGIN_RATIO = 1.08
LEAST_PERCENT = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class RateBar:
    """One rate; lengths in percent of the widest there may be. `low` and `high` draw the interval."""

    label: str
    text: str
    role: str
    length: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One phase on the time line; places in percent of the whole."""

    label: str
    text: str
    phase: str
    start: float
    length: float


def inspection_to_console(found: RunInspection, *, width: int | None = None, color: bool = False) -> str:
    """Every line at most `width` columns (80 where None); with `color=False` without an escape sequence."""
    out = io.StringIO()
    console = console_on(out, width, color)
    line_on(console, inspection_verdict(found), style=VERDICT_STYLES[found.verdict])
    facts_on(console, verdict_facts(found))
    heading_on(console, "Rates")
    facts_on(console, rate_facts(found))
    table_on(console, timeline_table(found))
    table_on(console, stalls_table(found))
    table_on(console, workers_table(found))
    heading_on(console, "What was read")
    facts_on(console, source_facts(found))
    return text_of(out)


def inspection_to_html(found: RunInspection) -> str:
    """The page, with the JSON in it. Raises AnalyzerError as `to_html`."""
    from markupsafe import Markup

    return render_page(
        PAGE,
        found=found,
        verdict=inspection_verdict(found),
        verdict_facts=verdict_facts(found),
        rate_bars=_rate_bars(found),
        rate_facts=rate_facts(found),
        stretches=_stretches(found.timeline),
        tables=tuple(table for table in (timeline_table(found), stalls_table(found), workers_table(found)) if table.rows),
        source_facts=source_facts(found),
        run=Markup(to_embedded_json(found)),
    )


def _rate_bars(found: RunInspection) -> tuple[RateBar, ...]:
    """What the accelerator would take over what it took, on one scale from zero."""
    steady, demand = found.rates.steady_samples_per_s, found.change.demand_samples_per_s
    widest = (
        max((value for value in (demand, steady.high if steady is not None else None) if value), default=0.0) * BAR_MARGIN_RATIO
    )
    if widest <= 0:
        return ()
    bars = []
    if demand is not None:
        bars.append(RateBar(label="would take", text=format_rate(demand), role="demand", length=_percent(demand, widest)))
    if steady is not None:
        is_exact = steady.low == steady.high
        bars.append(
            RateBar(
                label="took",
                text=format_estimate(steady),
                role="supply",
                length=_percent(steady.estimate, widest),
                low=None if is_exact else _percent(steady.low, widest),
                high=None if is_exact else _percent(steady.high, widest),
            )
        )
    return tuple(bars)


def _stretches(timeline: tuple[PhaseSpan, ...]) -> tuple[Stretch, ...]:
    """Phases whose begin and length are known, as many as the table shows."""
    shown = timeline[:PHASES_SHOWN]
    known = [(span, span.start_s, span.duration_s) for span in shown if span.start_s is not None and span.duration_s is not None]
    whole_s = max((start + length for _, start, length in known), default=0.0)
    if whole_s <= 0:
        return ()
    return tuple(
        Stretch(
            label=span.phase if span.phase != "checkpoint" or span.step is None else f"checkpoint {span.step}",
            text=format_seconds(length),
            phase=span.phase,
            start=_percent(start, whole_s),
            length=max(_percent(length, whole_s), LEAST_PERCENT),
        )
        for span, start, length in known
    )


def _percent(value: float, widest: float) -> float:
    return round(min(max(value / widest, 0.0), 1.0) * 100, 2)
