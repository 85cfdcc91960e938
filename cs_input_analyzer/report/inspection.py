"""RunInspection -> Document: what a finished run left behind, and whether it waited for its input."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from cs_input_analyzer.records import RunInspection
from cs_input_analyzer.report.document import Chart, Document, Facts, Table, bare_rate, number, present, section, table_of, text
from cs_input_analyzer.report.wording import Pairs, one_line, pairs, verdict_sentence
from cs_input_analyzer.units import counted, format_count, format_estimate, format_rate, format_seconds

PHASES_SHOWN = 24


def inspection_document(found: RunInspection, *, charts: Mapping[str, Chart] | None = None) -> Document:
    """Return the report of a run that happened. `charts`: pictures by their name, for a format that draws them."""
    launch = f" --current {found.change.current}" if found.change.current is not None else ""
    return Document(
        kind="inspection",
        title="Inspected run",
        name=found.path,
        mark=found.verdict,
        headline=verdict_sentence(found.verdict),
        first=present(
            section("verdict", "Verdict", Facts(pairs=verdict_facts(found)), level="both"),
            section("rates", "Rates", Facts(pairs=rate_facts(found)), level="both"),
        ),
        sections=present(
            section("steps", "Rate over steps", (charts or {}).get("steps")),
            section("timeline", "Timeline", timeline_table(found)),
            section("pauses", "Pauses", stalls_table(found)),
            section("workers", "Workers", workers_table(found)),
            section("sources", "What was read", Facts(pairs=source_facts(found))),
        ),
        closing=("All of it:", f"cs_input_analyzer inspect-run {shlex.quote(one_line(found.path))}{launch} --full"),
        footer=f"{found.tool.name} {found.tool.version}, inspect-run. Every interval is a 90 % interval.",
        record=found,
    )


def verdict_facts(found: RunInspection) -> Pairs:
    """Return the reasons of the verdict, and the change that helps."""
    change, reasons = found.change, found.reasons or ("the files hold nothing that speaks for either side",)
    demand, source = change.demand_samples_per_s, f" ({change.demand_source})" if change.demand_source else ""
    return pairs(
        (
            *(("because" if place == 0 else "and", reason) for place, reason in enumerate(reasons)),
            ("would take", None if demand is None else f"{format_rate(demand)}{source}"),
            ("change", change.text),
        )
    )


def rate_facts(found: RunInspection) -> Pairs:
    """Return every rate that was seen, or follows from those."""
    rates = found.rates
    facts: list[tuple[str, str]] = []
    if rates.steady_samples_per_s is not None:
        facts.append(("steady", f"{format_estimate(rates.steady_samples_per_s)}, start and checkpoints left out"))
    if rates.steady_steps_per_s is not None:
        size = f", {format_count(rates.batch_size)} samples each" if rates.batch_size is not None else ""
        facts.append(("steps", format_estimate(rates.steady_steps_per_s, lambda value: format_rate(value, "steps/s")) + size))
    seen = (
        ("Rate", rates.rate_samples_per_s, "the last one logged"),
        ("GlobalRate", rates.global_rate_samples_per_s, "the last one logged"),
        ("undisturbed", rates.undisturbed_samples_per_s, "between the stalls: up to so much the accelerator took"),
        ("expected", rates.estimated_samples_per_s, "by the compiler"),
        ("whole run", rates.average_samples_per_s, "as the files have it; what its time includes differs between releases"),
        ("evaluation", rates.evaluation_samples_per_s, "GlobalRate of the last one: forward only, none of training"),
    )
    facts += [(label, f"{format_rate(value)}, {meaning}") for label, value, meaning in seen if value is not None]
    if rates.worker_steps_per_s is not None:
        taken = format_rate(rates.worker_steps_per_s, "steps/s")
        facts.append(("one worker", f"{taken}, GlobalRate of an input worker's own log: what was taken from it, whoever waited"))
    if rates.total_samples is not None:
        took = f" in {format_seconds(rates.total_time_s)}" if rates.total_time_s is not None else ""
        facts.append(("samples", format_count(rates.total_samples) + took))
    return pairs(facts or [("rates", "none was seen")])


def source_facts(found: RunInspection) -> Pairs:
    """Return the files that were read."""
    newest = f"{format_count(found.runs_found)} in these files; this is the newest" if found.runs_found > 1 else None
    return pairs(
        (
            *((source.kind, f"{source.path}{f': {source.note}' if source.note else ''}") for source in found.sources),
            ("runs", newest),
            *(("note", note) for note in found.notes),
        )
    )


def timeline_table(found: RunInspection) -> Table:
    """Return the phases of the run."""
    columns = (
        text("phase", "what the run did", "phase"),
        number("from", "time since the first line with a time stamp", "start_s", format_seconds),
        number("took", "from its first to its last line", "duration_s", format_seconds),
        number("step", "training step of a checkpoint, or the last one", "step"),
    )
    left = len(found.timeline) - PHASES_SHOWN
    remarks = (f"{counted(left, 'more phase')} in the JSON.",) if left > 0 else ()
    return table_of("Timeline", columns, found.timeline[:PHASES_SHOWN], remarks=remarks, chart="timeline")


def stalls_table(found: RunInspection) -> Table:
    """Return the longest pauses."""
    columns = (
        number("after step", "the last step before it", "step"),
        number("at", "time since the first line with a time stamp", "start_s", format_seconds),
        number("took", "from one step line to the next", "duration_s", format_seconds),
        number("lost", "beyond the usual time of these steps", "lost_s", format_seconds),
        text("cause", "what the run was seen to do meanwhile", "cause"),
    )
    return table_of("Pauses", columns, found.stalls)


def workers_table(found: RunInspection) -> Table:
    """Return the workers that logged the run."""
    columns = (
        text("worker", "its label, or its place", "name"),
        number("samples/s", "what it took itself", "samples_per_s", bare_rate),
        text("note", "a straggler is a tenth slower than the middle one", lambda one: "straggler" if one.is_straggler else ""),
    )
    return table_of("Workers", columns, found.workers)
