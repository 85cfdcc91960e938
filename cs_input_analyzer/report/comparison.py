"""Comparison -> Document: two runs beside each other."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from cs_input_analyzer.records import ComparedRun, Comparison, Difference, OpChange, RateChange
from cs_input_analyzer.report.costs import STATION_MEANINGS
from cs_input_analyzer.report.document import (
    YES_OR_NO,
    Document,
    Facts,
    Table,
    Text,
    bare_rate,
    layout,
    number,
    present,
    section,
    table_of,
    text,
)
from cs_input_analyzer.report.findings import brief_cards, card_of
from cs_input_analyzer.report.wording import (
    AS_MEASURED,
    ON_IDLE_NODE,
    VERDICTS,
    factor_text,
    is_another,
    one_line,
    workers_text,
)
from cs_input_analyzer.units import MISSING, counted, format_bytes, format_count, format_estimate, format_ratio, format_seconds

# What a change means to the reader, beside its colour.
MARKS = {
    "faster": "better",
    "slower": "worse",
    "cheaper": "better",
    "dearer": "worse",
    "new": "other",
    "gone": "other",
}
# Ops that are named; a table of hundreds is one of noise.
OPS_SHOWN = 25
# Two runs always differ in these.
NO_CHANGE = ("file", "made")


def comparison_document(found: Comparison) -> Document:
    """Return the report of two runs beside each other."""
    cards = tuple(card_of(item.finding, f"finding-{at}", item.change) for at, item in enumerate(found.findings))
    files = " ".join(shlex.quote(one_line(run.path)) for run in (found.old, found.new))
    differ = any(doubt.old != doubt.new for doubt in found.doubts)
    doubtful = "The runs differ in more than the pipeline" if differ else "Both runs were disturbed"
    ratios = (
        (f"{at.layout} of {at.num_workers}", f"{at.ratio.estimate:.3g} × ({at.ratio.low:.3g} to {at.ratio.high:.3g}), {at.change}")
        for at in found.rates
    )
    tables = (rates_table(found), sides_table(found), ops_table(found))
    return Document(
        kind="comparison",
        title="Two runs compared",
        name=f"{found.old.path} → {found.new.path}",
        mark="worse" if found.slower else "better" if found.faster else "same",
        headline=headline(found),
        notices=(f"{doubtful}: read the change with the doubts in mind.",) if found.doubts else (),
        first=present(
            section("ratios", "Rates, new over old", Facts(pairs=tuple(ratios)), level="brief"),
            section("changed", "Findings that are new or gone", *brief_cards(cards), level="brief"),
        ),
        sections=present(
            section("doubts", "Doubts", table_of("Doubts", SIDES, found.doubts)),
            *(section(table.title.lower().replace(" ", "-"), "", table) for table in tables),
            section("findings", f"Findings that are new or gone ({len(cards)})", *(cards or (Text(text="none"),))),
        ),
        closing=("All of it:", f"cs_input_analyzer compare {files} --full"),
        footer=f"{found.tool.name} {found.tool.version}, compare. Every interval is a 90 % interval.",
        record=found,
    )


def headline(found: Comparison) -> str:
    """Return the number of launches that are slower or faster, and the largest change."""
    slower, faster, count = len(found.slower), len(found.faster), len(found.rates)
    of = f"of {format_count(count)} launch{'' if count == 1 else 'es'} that both measured"
    if slower and faster:
        return f"SLOWER AND FASTER: {format_count(slower)} slower, {format_count(faster)} faster {of}."
    if not slower and not faster:
        return f"NO DIFFERENCE SEEN: none {of} has changed by more than noise."
    most = max((*found.slower, *found.faster), key=lambda row: abs(row.ratio.estimate - 1))
    times = format_estimate(most.ratio, lambda value: MISSING if value is None else f"{value:.3g} ×")
    said = f"{format_count(slower or faster)} {of}; {most.layout} runs at {times} the rate."
    return f"{'SLOWER' if slower else 'FASTER'}: {said}"


SIDES = (
    text("", "what is compared, is not the same, or was not idle", "name"),
    text("old", "the first run", "old"),
    text("new", "the second run", "new"),
)


def sides_table(found: Comparison) -> Table:
    """Return the facts of both runs beside each other."""
    has_factor = any(is_another(run.idle_factor) for run in (found.old, found.new))
    both = zip(_side(found.old, has_factor), _side(found.new, has_factor), strict=True)
    rows = [Difference(name=name, old=old, new=new) for (name, old), (_, new) in both]
    marks = tuple("same" if row.old == row.new or row.name in NO_CHANGE else "other" for row in rows)
    return table_of("The runs", SIDES, rows, marks=marks)


def _side(run: ComparedRun, has_factor: bool) -> tuple[tuple[str, str], ...]:
    """Return what stands on one side. `has_factor`: whether an idle node gives other rates in one of the runs."""
    judged = f" of {run.verdict_layout}" if run.verdict_layout is not None else ""
    station, currency = run.bottleneck, [AS_MEASURED if run.is_planned_as_measured else ON_IDLE_NODE]
    if not has_factor or run.predicted_samples_per_s is None:
        currency = []
    op = f" {station.op}" if station is not None and station.op else ""
    return (
        ("file", run.path),
        ("made", f"{run.created_at} on {run.hostname}, TensorFlow {run.tensorflow_version or 'unknown'}"),
        ("input function", run.target),
        ("verdict", f"{VERDICTS[run.verdict][0]}{judged}"),
        ("demand", format_estimate(run.demand_samples_per_s)),
        ("plan", str(run.plan) if run.plan is not None else MISSING),
        ("predicted", " ".join((format_estimate(run.predicted_samples_per_s), *currency))),
        *((("rates", factor_text(run.idle_factor)),) if has_factor else ()),
        ("meets demand", YES_OR_NO[run.meets_demand]),
        ("memory per node", format_bytes(run.memory_bytes_per_node)),
        ("bottleneck", MISSING if station is None else f"{station.kind}{op} ({STATION_MEANINGS[station.kind]})"),
    )


WORKERS = number("workers", "as TF_CONFIG announced them", lambda row: workers_text(row.layout.tasks, row.num_workers), str)


def rates_table(found: Comparison) -> Table:
    """Return the rates of the launches that both have measured, on an idle node, and how small a change could be seen."""

    def launches(row: RateChange) -> str:
        return ", ".join(format_count(rate.count) for rate in (row.old_samples_per_s, row.new_samples_per_s))

    together = "where the true ratios of all rows lie together, with 90 % probability"
    columns = (
        layout(),
        WORKERS,
        number("old\nsamples/s", "in the old run, mean of its fresh launches", "old_samples_per_s.estimate", bare_rate),
        number("new\nsamples/s", "in the new run, mean of its fresh launches", "new_samples_per_s.estimate", bare_rate),
        number("ratio", "new over old; below 1 is slower", "ratio.estimate", "{:.3g}".format),
        number("90 %\ninterval", together, "ratio", lambda ratio: f"{ratio.low:.3g}–{ratio.high:.3g}"),
        text("change", "faster or slower only where the whole interval lies on one side of 1", "change"),
        number("launches", "fresh launches behind each side, old and new", launches, str, needs_width=92),
    )
    least, seen = format_ratio(found.smallest_slowdown_ratio), format_ratio(found.spread_ratio)
    precision = (
        f"Equal fresh launches differ by {seen} (standard deviation, as measured and assumed), so a slowdown of less than "
        f"about {least} would not be seen here. The intervals of the ratios hold together with 90 % probability."
    )
    if found.rounds:
        precision = f"Both were launched again, in turns, in {counted(found.rounds, 'round')}. {precision}"
    currency = f"All rates are {ON_IDLE_NODE}: corrected for the CPUs that other programs used."
    remarks = (currency, precision, *(f"not compared: {one_line(said)}" for said in found.not_compared))
    return table_of("Rates", columns, found.rates, remarks=remarks, marks=_marks(found.rates))


def ops_table(found: Comparison) -> Table:
    """Return the cost of each op in both runs; of hundreds, those that changed and the costliest."""
    columns = (
        text("op", "process: all CPU of a worker; runtime: CPU that belongs to no op", "name"),
        number("old CPU", "CPU time for one sample in the old run", "old_cpu_s_per_sample", format_seconds),
        number("new CPU", "CPU time for one sample in the new run", "new_cpu_s_per_sample", format_seconds),
        number("noise", "how far the two may lie apart by chance", "noise_s", format_seconds),
        text("change", "beyond noise; not comparable: the costs were taken of workers with other layouts", "change"),
    )
    ranked = sorted(range(len(found.ops)), key=lambda place: found.ops[place].change not in MARKS)[:OPS_SHOWN]
    shown = [found.ops[place] for place in sorted(ranked)]
    left = len(found.ops) - len(shown)
    remarks = (f"{counted(left, 'more op')} {'is' if left == 1 else 'are'} not shown; the JSON has all.",) if left else ()
    return table_of("Cost of each op", columns, shown, remarks=remarks, marks=_marks(shown))


def _marks(rows: Iterable[RateChange | OpChange]) -> tuple[str, ...]:
    return tuple(MARKS.get(row.change, "same") for row in rows)
