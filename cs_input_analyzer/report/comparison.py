"""Comparison -> Document: two runs beside each other."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from typing import Literal

from cs_input_analyzer.records import ComparedRun, Comparison, Estimate, FindingChange, OpChange, RateChange, Station
from cs_input_analyzer.report.document import Bar, Bars, Card, Document, TableOf, Text, present, section
from cs_input_analyzer.report.findings import view_of
from cs_input_analyzer.report.stations import MEANINGS as STATION_MEANINGS
from cs_input_analyzer.report.tables import LAYOUT, SOURCE, YES_OR_NO, Column, Table, bare_rate
from cs_input_analyzer.report.wording import VERDICTS, one_line, short_source, workers_text
from cs_input_analyzer.units import MISSING, format_bytes, format_count, format_estimate, format_ratio, format_seconds

__all__ = ["comparison_document"]

# What a change means to the reader, beside its colour.
Mark = Literal["better", "worse", "other", "same"]
MARKS: dict[str, Mark] = {
    "faster": "better",
    "slower": "worse",
    "cheaper": "better",
    "dearer": "worse",
    "less": "better",
    "more": "worse",
    "new": "other",
    "gone": "other",
}
# The picture reaches at least from this ratio to its inverse, so that noise looks like noise.
LEAST_SPAN = 1.25
MOST_SPAN = 8.0
MARGIN_RATIO = 1.05
# Ops that are named; a table of hundreds is one of noise.
OPS_SHOWN = 25
# What a short report has room for.
FINDINGS_SHOWN = 3


def comparison_document(found: Comparison) -> Document:
    """What changed, how sure that is, and what of it."""
    tables, cards = compared_tables(found), _cards(found.findings)
    return Document(
        kind="comparison",
        title="Two runs compared",
        name=f"{found.old.path} → {found.new.path}",
        mark=headline_mark(found),
        headline=headline(found),
        notices=(doubtful(found),) if found.doubts else (),
        first=present(
            section("ratios", "Rates, new over old", _ratio_bars(found), level="both"),
            section("changed", "Findings that are new or gone", *_brief_cards(cards), level="brief"),
        ),
        sections=present(
            section("doubts", "Doubts", TableOf(table=doubts_table(found), is_sorted=False), count=len(found.doubts)),
            section("sides", "The runs", sides_table(found)),
            *(section(marked.table.title.lower().replace(" ", "-"), marked.table.title, marked) for marked in tables),
            section(
                "findings",
                f"Findings that are new or gone ({len(cards)})",
                *(cards or (Text(text="none"),)),
                count=len(cards),
            ),
        ),
        closing=(
            "All of it:",
            f"cs_input_analyzer compare {quote(found.old.path)} {quote(found.new.path)} --full",
        ),
        footer=f"{found.tool.name} {found.tool.version}, compare. Every interval is a 90 % interval.",
        record=found,
    )


RATIOS_NOTE = "New rate over old, with its interval, on a log scale; the dashed line is no change, to its left is slower."


def quote(path: str) -> str:
    return shlex.quote(one_line(path))


def doubtful(found: Comparison) -> str:
    """What makes the comparison doubtful, in a sentence; empty where nothing does."""
    if not found.doubts:
        return ""
    differ = any(doubt.old != doubt.new for doubt in found.doubts)
    what = "The runs differ in more than the pipeline" if differ else "Both runs were disturbed"
    return f"{what}: read the change with the doubts in mind."


def _ratio_bars(found: Comparison) -> Bars:
    return Bars(bars=_ratios(found), name="rate-changes", note=RATIOS_NOTE)


def _ratios(found: Comparison) -> tuple[Bar, ...]:
    """On one log scale, as far from 1 to both sides. An interval that reaches beyond it ends at the edge."""
    bounds = [bound for row in found.rates for bound in (row.ratio.low, row.ratio.high)]
    span = min(max([LEAST_SPAN, *(max(bound, 1 / bound) * MARGIN_RATIO for bound in bounds if bound > 0)]), MOST_SPAN)
    return tuple(
        Bar(
            label=f"{row.layout} of {row.num_workers}",
            text=f"{row.ratio.estimate:.3g} × ({row.ratio.low:.3g} to {row.ratio.high:.3g}), {row.change}",
            role=row.change,
            low=_log_percent(row.ratio.low, span),
            dot=_log_percent(row.ratio.estimate, span),
            high=_log_percent(row.ratio.high, span),
            even=50.0,
        )
        for row in found.rates
    )


def _log_percent(ratio: float, span: float) -> float:
    place = math.log(max(ratio, 1e-300)) / math.log(span)
    return round(50 + 50 * min(max(place, -1.0), 1.0), 2)


def headline(found: Comparison) -> str:
    """What changed, in one line."""
    slower, faster, count = len(found.slower), len(found.faster), len(found.rates)
    of = f"of {format_count(count)} launch{'' if count == 1 else 'es'} that both measured"
    if slower and faster:
        return f"SLOWER AND FASTER: {format_count(slower)} slower, {format_count(faster)} faster {of}."
    if slower:
        return f"SLOWER: {format_count(slower)} {of}{_most(found.slower)}."
    if faster:
        return f"FASTER: {format_count(faster)} {of}{_most(found.faster)}."
    return f"NO DIFFERENCE SEEN: none {of} has changed by more than noise."


def _most(rows: tuple[RateChange, ...]) -> str:
    """Of the row that moved most."""
    row = max(rows, key=lambda row: abs(row.ratio.estimate - 1))
    return f"; {row.layout} runs at {_times(row.ratio)} the rate"


def headline_mark(found: Comparison) -> Mark:
    if found.slower:
        return "worse"
    return "better" if found.faster else "same"


def precision_sentence(found: Comparison) -> str:
    """How small a change could be seen: a gate is as good as that."""
    least, seen = format_ratio(found.smallest_slowdown_ratio), format_ratio(found.spread_ratio)
    return (
        f"Fresh launches alike differ by {seen} (standard deviation, as measured and assumed), so a slowdown of less than "
        f"about {least} would not be seen here. The intervals of the ratios hold together with 90 % probability."
    )


def _times(ratio: Estimate) -> str:
    return format_estimate(ratio, lambda value: MISSING if value is None else f"{value:.3g} ×")


# --- the two sides -----------------------------------------------------------------------------------------------------------


def sides_table(found: Comparison) -> TableOf:
    """Old and new beside each other; a row in which they differ is marked."""
    columns = (
        Column(name="", meaning="what is compared"),
        Column(name="old", meaning="the first run", is_long=True),
        Column(name="new", meaning="the second run", is_long=True),
    )
    old, new = _side(found.old), _side(found.new)
    rows = tuple((name, one, other) for (name, one), (_, other) in zip(old, new, strict=True))
    marks: tuple[Mark, ...] = tuple("same" if one == other or name in NO_CHANGE else "other" for name, one, other in rows)
    return TableOf(
        table=Table(title="The runs", columns=columns, rows=rows),
        marks=marks,
        caption="Rows in which they differ are marked at their left.",
        is_sorted=False,
    )


# Two runs always differ in these.
NO_CHANGE = ("file", "made")


def _side(run: ComparedRun) -> tuple[tuple[str, str], ...]:
    facts = (
        ("file", run.path),
        ("made", f"{run.created_at} on {run.hostname}, TensorFlow {run.tensorflow_version or 'unknown'}"),
        ("input function", run.target),
        ("verdict", _verdict(run)),
        ("demand", format_estimate(run.demand_samples_per_s)),
        ("plan", str(run.plan) if run.plan is not None else MISSING),
        ("predicted", format_estimate(run.predicted_samples_per_s)),
        ("meets demand", YES_OR_NO[run.meets_demand]),
        ("memory per node", format_bytes(run.memory_bytes_per_node)),
        ("bottleneck", _bottleneck(run.bottleneck)),
    )
    return tuple((name, one_line(text)) for name, text in facts)


def _verdict(run: ComparedRun) -> str:
    layout = f" of {run.verdict_layout}" if run.verdict_layout is not None else ""
    sure = f", {format_ratio(run.confidence)} sure" if run.confidence is not None else ""
    return f"{VERDICTS[run.verdict][0]}{layout}{sure}"


def _bottleneck(station: Station | None) -> str:
    if station is None:
        return MISSING
    op = f" {station.op}" if station.op else ""
    return f"{station.kind}{op} ({STATION_MEANINGS[station.kind]})"


# --- what changed ------------------------------------------------------------------------------------------------------------


def compared_tables(found: Comparison) -> tuple[TableOf, ...]:
    """Rates, then the costs of ops and the memory, where the runs hold them."""
    tables = (_rates(found), _ops(found), _memory(found))
    return tuple(marked for marked in tables if marked.table.rows)


def _rates(found: Comparison) -> TableOf:
    columns = (
        LAYOUT,
        Column(name="workers", meaning="as TF_CONFIG announced them", is_number=True),
        Column(name="old\nsamples/s", meaning="samples per second in the old run, mean of its fresh launches", is_number=True),
        Column(name="new\nsamples/s", meaning="samples per second in the new run, mean of its fresh launches", is_number=True),
        Column(name="ratio", meaning="new over old; below 1 is slower", is_number=True),
        Column(
            name="90 %\ninterval", meaning="where the true ratios of all rows lie together, with 90 % probability", is_number=True
        ),
        Column(name="change", meaning="faster or slower only where the whole interval lies on one side of 1"),
        Column(name="launches", meaning="fresh launches behind each side, old and new", is_number=True, needs_width=92),
        Column(name="old\nCPU", meaning="user and system CPU time for one sample in the old run", is_number=True, needs_width=120),
        Column(name="new\nCPU", meaning="user and system CPU time for one sample in the new run", is_number=True, needs_width=120),
        Column(name="page\ncache", meaning="state of the page cache before the launches", needs_width=120),
    )
    rows = tuple(_rate_row(row) for row in found.rates)
    remarks = (precision_sentence(found), *(f"not compared: {one_line(text)}" for text in found.not_compared))
    table = Table(title="Rates", columns=columns, rows=rows, remarks=remarks)
    return TableOf(table=table, marks=_marks(tuple(row.change for row in found.rates)))


def _rate_row(row: RateChange) -> tuple[str, ...]:
    states = (row.old_cache_state, row.new_cache_state)
    return (
        str(row.layout),
        workers_text(row.layout.tasks, row.num_workers),
        bare_rate(row.old_samples_per_s.estimate),
        bare_rate(row.new_samples_per_s.estimate),
        f"{row.ratio.estimate:.3g}",
        f"{row.ratio.low:.3g}–{row.ratio.high:.3g}",
        row.change,
        f"{_launches(row.old_samples_per_s)}, {_launches(row.new_samples_per_s)}",
        format_seconds(row.old_cpu_s_per_sample),
        format_seconds(row.new_cpu_s_per_sample),
        states[0] if states[0] == states[1] else " / ".join(states),
    )


def _launches(rate: Estimate) -> str:
    return MISSING if rate.count is None else format_count(rate.count)


def _ops(found: Comparison) -> TableOf:
    columns = (
        Column(name="op", meaning="process: all CPU of a worker; runtime: CPU that belongs to no op"),
        Column(name="old CPU", meaning="CPU time for one sample in the old run", is_number=True),
        Column(name="new CPU", meaning="CPU time for one sample in the new run", is_number=True),
        Column(name="difference", meaning="new minus old", is_number=True),
        Column(name="noise", meaning="how far the two may lie apart by chance", is_number=True),
        Column(name="change", meaning="dearer or cheaper only where the difference is beyond noise"),
        replace(SOURCE, needs_width=100),
    )
    changed = [op for op in found.ops if MARKS.get(op.change) is not None]
    others = [op for op in found.ops if MARKS.get(op.change) is None]
    kept = {id(op) for op in (*changed, *others)[:OPS_SHOWN]}
    shown = tuple(op for op in found.ops if id(op) in kept)
    left = len(found.ops) - len(shown)
    remarks = (f"{format_count(left)} more ops are not shown; the JSON has them.",) if left else ()
    if any(op.change == "not comparable" for op in shown):
        remarks = (*remarks, "Costs are compared where both runs took them of workers with the same layout.")
    table = Table(title="Cost of each op", columns=columns, rows=tuple(_op_row(op) for op in shown), remarks=remarks)
    return TableOf(table=table, marks=_marks(tuple(op.change for op in shown)))


def _op_row(op: OpChange) -> tuple[str, ...]:
    old, new = op.old_cpu_s_per_sample, op.new_cpu_s_per_sample
    difference = MISSING
    if old is not None and new is not None:
        difference = f"{'+' if new > old else ''}{format_seconds(new - old)}"
    return (
        one_line(op.name),
        format_seconds(old),
        format_seconds(new),
        difference,
        format_seconds(op.noise_s),
        op.change,
        one_line(op.source or MISSING),
    )


def _memory(found: Comparison) -> TableOf:
    columns = (
        LAYOUT,
        Column(name="workers", meaning="as TF_CONFIG announced them", is_number=True),
        Column(name="old", meaning="memory that one worker held alone, the largest of them", is_number=True),
        Column(name="new", meaning="the same in the new run", is_number=True),
        Column(name="change", meaning="more or less only where it is a tenth of it and 16 MiB at least"),
    )
    rows = tuple(
        (
            str(row.layout),
            workers_text(row.layout.tasks, row.num_workers),
            format_bytes(row.old_bytes),
            format_bytes(row.new_bytes),
            row.change,
        )
        for row in found.memory
    )
    table = Table(title="Memory of a worker", columns=columns, rows=rows)
    return TableOf(table=table, marks=_marks(tuple(row.change for row in found.memory)))


def _marks(changes: tuple[str, ...]) -> tuple[Mark, ...]:
    return tuple(MARKS.get(change, "same") for change in changes)


def doubts_table(found: Comparison) -> Table:
    """What makes it doubtful, old and new."""
    columns = (
        Column(name="", meaning="what is not the same, or was not quiet"),
        Column(name="old", meaning="in the old run", is_long=True),
        Column(name="new", meaning="in the new run", is_long=True),
    )
    rows = tuple((one_line(item.name), one_line(item.old), one_line(item.new)) for item in found.doubts)
    return Table(title="Doubts", columns=columns, rows=rows)


def _cards(changes: tuple[FindingChange, ...]) -> tuple[Card, ...]:
    """`new` or `gone` with each."""
    return tuple(
        Card(
            view=view_of(item.finding),
            anchor=f"finding-{place}",
            gain="",
            op=one_line(item.finding.op or ""),
            at=f"{item.change}: {short_source(item.finding.source)}",
            change=item.change,
        )
        for place, item in enumerate(changes)
    )


def _brief_cards(cards: tuple[Card, ...]) -> tuple[Card | Text, ...]:
    more = len(cards) - FINDINGS_SHOWN
    shown = tuple(replace(card, is_brief=True) for card in cards[:FINDINGS_SHOWN])
    return (*shown, Text(text=f"+{more} more" if more > 0 else "", tone="note"))
