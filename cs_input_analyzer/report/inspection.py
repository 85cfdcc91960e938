"""RunInspection -> Document: what a finished run left behind, and whether it waited for its input."""

from __future__ import annotations

import shlex

from cs_input_analyzer.records import PhaseSpan, RunInspection, Stall, StepWorker
from cs_input_analyzer.report.document import Bar, Bars, Document, TableOf, present, section
from cs_input_analyzer.report.document import Facts as FactsOf
from cs_input_analyzer.report.run_document import BAR_MARGIN_RATIO, percent, rate_bar
from cs_input_analyzer.report.tables import Column, Table
from cs_input_analyzer.report.wording import VERDICTS, Facts, one_line
from cs_input_analyzer.units import (
    MISSING,
    format_count,
    format_estimate,
    format_rate,
    format_rate_short,
    format_ratio,
    format_seconds,
)

__all__ = ["inspection_document"]

PHASES_SHOWN = 24
# A phase that is shorter could not be seen.
LEAST_PERCENT = 0.4


def inspection_document(found: RunInspection) -> Document:
    """The verdict with its reasons, the rates, the phases and the workers."""
    return Document(
        kind="inspection",
        title="Inspected run",
        name=found.path,
        mark=found.verdict,
        headline=inspection_verdict(found),
        first=present(
            section(
                "verdict",
                "Verdict",
                Bars(bars=_rate_bars(found), name="supply-demand", has_table=True),
                FactsOf(pairs=verdict_facts(found)),
                level="both",
            )
        ),
        sections=present(
            section("rates", "Rates", FactsOf(pairs=rate_facts(found)), level="both"),
            section(
                "timeline",
                "Timeline",
                Bars(bars=_stretches(found.timeline), name="timeline", has_table=True),
                TableOf(table=timeline_table(found)),
            ),
            section("pauses", "Pauses", TableOf(table=stalls_table(found))),
            section("workers", "Workers", TableOf(table=workers_table(found))),
            section("sources", "What was read", FactsOf(pairs=source_facts(found))),
        ),
        closing=(
            "All of it:",
            f"cs_input_analyzer inspect-run {shlex.quote(one_line(found.path))} --full",
        ),
        footer=f"{found.tool.name} {found.tool.version}, inspect-run. Every interval is a 90 % interval.",
        record=found,
    )


def _rate_bars(found: RunInspection) -> tuple[Bar, ...]:
    """What the accelerator would take over what it took, on one scale from zero."""
    steady, demand = found.rates.steady_samples_per_s, found.change.demand_samples_per_s
    highest = max((value for value in (demand, steady.high if steady is not None else None) if value), default=0.0)
    widest = highest * BAR_MARGIN_RATIO
    bars = []
    if demand is not None and widest > 0:
        bars.append(Bar(label="would take", text=format_rate(demand), role="demand", length=percent(demand, widest)))
    if steady is not None and widest > 0:
        bars.append(rate_bar("took", format_estimate(steady), "supply", steady, widest))
    return tuple(bars)


def _stretches(timeline: tuple[PhaseSpan, ...]) -> tuple[Bar, ...]:
    """Phases whose begin and length are known, as many as the table shows."""
    shown = timeline[:PHASES_SHOWN]
    known = [(span, span.start_s, span.duration_s) for span in shown if span.start_s is not None and span.duration_s is not None]
    whole_s = max((start + length for _, start, length in known), default=0.0)
    return tuple(
        Bar(
            label=span.phase if span.phase != "checkpoint" or span.step is None else f"checkpoint {span.step}",
            text=format_seconds(length),
            role=f"stretch {span.phase}",
            begin=percent(start, whole_s),
            length=max(percent(length, whole_s), LEAST_PERCENT),
        )
        for span, start, length in known
        if whole_s > 0
    )


def inspection_verdict(found: RunInspection) -> str:
    """Did the accelerator starve, and how sure is that."""
    word, meaning = VERDICTS[found.verdict]
    sure = f" ({format_ratio(found.confidence)} sure)" if found.confidence is not None and found.verdict != "unknown" else ""
    return f"{word}{sure}: {meaning}"


def verdict_facts(found: RunInspection) -> Facts:
    """Why, and what to change."""
    facts = [("because" if place == 0 else "and", reason) for place, reason in enumerate(found.reasons)]
    if not facts:
        facts.append(("because", "the files hold nothing that speaks for either side"))
    change = found.change
    if change.demand_samples_per_s is not None and change.demand_source:
        facts.append(("takes", f"{format_rate(change.demand_samples_per_s)} ({change.demand_source})"))
    facts.append(("change", change.text))
    return _visible(facts)


def rate_facts(found: RunInspection) -> Facts:
    """Every rate that was seen, or follows from what was."""
    rates = found.rates
    facts: list[tuple[str, str]] = []
    if rates.steady_samples_per_s is not None:
        facts.append(("steady", f"{format_estimate(rates.steady_samples_per_s)}, start and checkpoints left out"))
    if rates.steady_steps_per_s is not None:
        steps = format_estimate(rates.steady_steps_per_s, lambda value: format_rate(value, "steps/s"))
        size = f", {format_count(rates.batch_size)} samples each" if rates.batch_size is not None else ""
        facts.append(("steps", steps + size))
    for label, value in (
        ("Rate", rates.rate_samples_per_s),
        ("GlobalRate", rates.global_rate_samples_per_s),
        ("undisturbed", rates.undisturbed_samples_per_s),
        ("expected", rates.estimated_samples_per_s),
        ("whole run", rates.average_samples_per_s),
        ("evaluation", rates.evaluation_samples_per_s),
    ):
        if value is not None:
            facts.append((label, format_rate(value) + _RATE_MEANINGS[label]))
    for label, value in (("prints", rates.printed_steps_per_s), ("one worker", rates.worker_steps_per_s)):
        if value is not None:
            facts.append((label, f"{format_rate(value, 'steps/s')}{_RATE_MEANINGS[label]}"))
    if rates.total_samples is not None:
        took = f" in {format_seconds(rates.total_time_s)}" if rates.total_time_s is not None else ""
        facts.append(("samples", format_count(rates.total_samples) + took))
    if rates.rate_error_ratio is not None:
        facts.append(("Rate again", _rate_again(rates.rate_error_ratio, rates.rate_lines)))
    return _visible(facts or [("rates", "none was seen")])


_RATE_MEANINGS = {
    "Rate": ", the last one logged",
    "GlobalRate": ", the last one logged",
    "undisturbed": ", between the stalls: up to so much the accelerator took",
    "expected": ", by the compiler",
    "evaluation": ", GlobalRate of the last one: forward only, none of training",
    "prints": ", the last one logged, without a step",
    "one worker": ", GlobalRate of an input worker's own log: what was taken from it, whoever waited",
    "whole run": ", as the files have it; what its time includes differs between releases",
}


def _rate_again(error_ratio: float, lines: int) -> str:
    """Whether Rate is what the lines themselves give."""
    if error_ratio <= 1e-3:
        return f"follows from the steps and times of {format_count(lines)} lines, within {error_ratio:.1e}"
    return (
        f"differs from what {format_count(lines)} lines give, by up to {format_ratio(error_ratio)}: sampled more often than logged"
    )


def source_facts(found: RunInspection) -> Facts:
    """What was read, and what was not."""
    facts: list[tuple[str, str]] = [
        (source.kind, f"{source.path}{f': {source.note}' if source.note else ''}") for source in found.sources
    ]
    if found.runs_found > 1:
        facts.append(("runs", f"{format_count(found.runs_found)} in these files; this is the newest"))
    facts += [("note", note) for note in found.notes]
    return _visible(facts)


def timeline_table(found: RunInspection) -> Table:
    columns = (
        Column(name="phase", meaning="what the run did"),
        Column(name="from", meaning="time since the first line with a time stamp", is_number=True),
        Column(name="took", meaning="from its first to its last line", is_number=True),
        Column(name="step", meaning="training step of a checkpoint, or the last one", is_number=True),
    )
    shown = found.timeline[:PHASES_SHOWN]
    rows = tuple(
        (
            span.phase,
            format_seconds(span.start_s) if span.start_s is not None else MISSING,
            format_seconds(span.duration_s) if span.duration_s is not None else MISSING,
            format_count(span.step) if span.step is not None else MISSING,
        )
        for span in shown
    )
    left = len(found.timeline) - len(shown)
    remarks = (f"{format_count(left)} more are in the JSON.",) if left else ()
    return Table(title="Timeline", columns=columns, rows=rows, remarks=remarks)


def stalls_table(found: RunInspection) -> Table:
    columns = (
        Column(name="after step", meaning="the last step before it", is_number=True),
        Column(name="at", meaning="time since the first line with a time stamp", is_number=True),
        Column(name="took", meaning="from one step line to the next", is_number=True),
        Column(name="lost", meaning="beyond the usual time of so many steps", is_number=True),
        Column(name="cause", meaning="what the run was seen to do meanwhile", is_long=True),
    )
    return Table(title="Pauses", columns=columns, rows=tuple(_stall_row(stall) for stall in found.stalls))


def _stall_row(stall: Stall) -> tuple[str, ...]:
    return (
        format_count(stall.step),
        format_seconds(stall.start_s) if stall.start_s is not None else MISSING,
        format_seconds(stall.duration_s),
        format_seconds(stall.lost_s),
        stall.cause,
    )


def workers_table(found: RunInspection) -> Table:
    columns = (
        Column(name="worker", meaning="its label, or its place"),
        Column(
            name="samples/s", meaning="what it took itself; of ranks of a log, the whole job's rate as it saw it", is_number=True
        ),
        Column(name="steps/s", meaning="steady", is_number=True),
        Column(name="last step", meaning="how far it got", is_number=True),
        Column(name="waited", meaning="share of its time that it waited for input", is_number=True),
        Column(name="note", meaning="a straggler is a tenth slower than the middle one", is_long=True),
    )
    return Table(title="Workers", columns=columns, rows=tuple(_worker_row(worker) for worker in found.workers))


def _worker_row(worker: StepWorker) -> tuple[str, ...]:
    return (
        one_line(worker.name),
        format_rate_short(worker.samples_per_s),
        format_rate_short(worker.steps_per_s),
        format_count(worker.last_step),
        format_ratio(worker.wait_ratio),
        "straggler" if worker.is_straggler else "",
    )


def _visible(facts: list[tuple[str, str]]) -> Facts:
    return tuple((label, one_line(text)) for label, text in facts)
