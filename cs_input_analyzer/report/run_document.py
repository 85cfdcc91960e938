"""Analysis -> Document: which sections the report of a run has, and in which order."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cs_input_analyzer.masking import LONGEST_COMMAND
from cs_input_analyzer.records import Analysis, Validation
from cs_input_analyzer.report import costs, findings, measuring, planned, workers
from cs_input_analyzer.report.document import (
    Chart,
    Copyable,
    Document,
    Facts,
    Part,
    Section,
    Text,
    in_elements,
    present,
    section,
    slug,
)
from cs_input_analyzer.report.first_screen import NEWEST, UNSAVED, closing, command, first_screen, headline, line_notes, mark_of
from cs_input_analyzer.report.wording import one_line, pairs, plan_currency, shown_measurement, supply_and_demand, titled
from cs_input_analyzer.units import counted, format_ratio


def run_document(analysis: Analysis, *, charts: Mapping[str, Chart] | None = None, run_file: str | None = None) -> Document:
    """Return the report of a run. Rates are in elements per second if the samples of an element are unknown.

    Args:
        charts: pictures by their name, for a format that draws them.
        run_file: what the run was read from, or written to, for commands to type next.
    """
    cards, plan, charts = findings.finding_cards(analysis.findings, analysis.fixes), analysis.recommendation, charts or {}
    file = UNSAVED if run_file is None else shlex.quote(one_line(run_file)) if run_file else NEWEST
    held = workers.excerpt(analysis)
    found = Document(
        kind="run",
        title="Input Function Report",
        name=analysis.pipeline.target,
        mark=mark_of(analysis),
        headline=headline(analysis),
        about=_about(analysis),
        notices=_notices(analysis),
        first=first_screen(analysis, cards, charts, file),
        sections=present(
            section("rates", "Supply and demand in full", Facts(pairs=supply_and_demand(analysis)), charts.get("supply-demand")),
            section(
                "findings",
                f"Findings ({len(cards)})",
                Facts(pairs=findings.fixes_facts(analysis)),
                *(cards or (Text(text="none"),)),
                Text(text=findings.ignored_sentence(analysis), tone="note"),
            ),
            section("patch", "Patch", *findings.patch_parts(analysis)),
            *_measured(analysis, charts),
            *_pipeline(analysis, charts),
            section("feeding", "The accelerator", Facts(pairs=planned.wafer_facts(analysis))),
            section("memory", "Memory of a node", None if plan is None else planned.memory_table(plan, analysis.cluster)),
            *_planned(analysis, file),
            *_method(analysis, held.left_out),
        ),
        closing=closing(analysis, file),
        footer=f"{analysis.tool.name} {analysis.tool.version}, {analysis.created_at}. Every interval is a 90 % interval. "
        "This page holds its run: cs_input_analyzer report reads it back.",
        record=held,
    )
    samples = analysis.pipeline.samples_per_element
    return replace(in_elements(found), name=found.name) if samples is not None and samples.is_unknown else found


def _about(analysis: Analysis) -> str:
    """Return where, when and with what the run was made."""
    host = f"{counted(analysis.host.cpus, 'CPU')}, {analysis.host.cpu_model}" if analysis.host.cpu_model else ""
    busy = f"other programs used {format_ratio(analysis.others_ratio)} of the CPUs" if analysis.others_ratio else ""
    made = f"{analysis.created_at[:16].replace('T', ' ')}, {analysis.tool.name} {analysis.tool.version}"
    return " · ".join(one_line(part) for part in (host, busy, made) if part)


def _notices(analysis: Analysis) -> tuple[str, ...]:
    """Return what a reader must know before the answer: an interruption, low limits, workers that failed."""
    found = ["INTERRUPTED: this holds what was measured until then."] if analysis.interrupted else []
    if limits := analysis.host.low_limits:
        found.append(f"{limits[0].upper()}{limits[1:]}.")
    bad = [worker for launch in analysis.measurements for worker in launch.workers if workers.ended_badly(worker)]
    if bad and not analysis.interrupted:
        more = f" ({len(bad) - 1} more failed)" if len(bad) > 1 else ""
        found.append(f"A worker failed: {one_line(workers.troubles(analysis)[0])}{more}")
    return tuple(found)


def _measured(analysis: Analysis, charts: Mapping[str, Chart]) -> tuple[Section, ...]:
    shown, has_nodes = shown_measurement(analysis), workers.shown_launch(analysis) is not None
    of_each = workers.workers_table(shown) if shown is not None and len(shown.workers) > 1 else None
    measured = workers.measured_table(analysis)
    return present(
        section(
            "measured",
            measured.title,
            Text(text="" if analysis.measurements else "nothing"),
            measured,
            *(Text(text=trouble, tone="notice") for trouble in workers.troubles(analysis)),
            Facts(pairs=measuring.measured_facts(analysis)),
            charts.get("rate-over-time"),
            charts.get("batch-gaps"),
        ),
        section("workers", "", of_each),
        section(
            "nodes",
            "Several nodes" if has_nodes else "The engine",
            Facts(pairs=workers.node_facts(analysis)),
            is_folded=True,
        ),
    )


def _pipeline(analysis: Analysis, charts: Mapping[str, Chart]) -> tuple[Section, ...]:
    profile, storage = costs.shown_profile(analysis), analysis.storage
    return present(
        section("bottleneck", "", costs.stations_table(analysis.stations)),
        section("costs", "", costs.op_cost_table(profile) if profile is not None else None),
        section(
            "storage",
            "Storage",
            Facts(pairs=measuring.storage_facts(storage)),
            measuring.reads_table(storage) if storage is not None else None,
            is_folded=True,
        ),
        section("pipeline", "Pipeline", Facts(pairs=measuring.pipeline_facts(analysis)), costs.pipeline_table(analysis)),
    )


def _planned(analysis: Analysis, file: str) -> tuple[Section, ...]:
    plan, currency, tables = analysis.recommendation, plan_currency(analysis), []
    parts: list[Part] = []
    if plan is not None:
        tables = [planned.alternatives_table(plan, currency)]
        lines = plan.launch
        parts = [
            Facts(pairs=planned.plan_facts(plan, analysis)),
            *line_notes(plan),
            Copyable(label="Defaults of the launcher", text=f"{lines.defaults}\n{plan.variables}" if lines else plan.variables),
        ]
        if lines is not None:
            instead = command("report", file, "--format sbatch")
            parts += [
                Copyable(label="Launch on a Cerebras cluster", text=lines.csrun_wse),
                Copyable(label="Launch on any Slurm cluster", text=lines.srun),
                Copyable(label="As a batch file", text=lines.sbatch, instead=instead),
            ]
    if analysis.validation is not None:
        tables.append(planned.validation_table(analysis.validation))
    return present(
        section("plan", titled("The launch in full", currency), *parts),
        *(section(slug(table.title.partition(" (")[0]).lower(), table.title, table, is_folded=True) for table in tables),
    )


def _method(analysis: Analysis, left_out: Sequence[str]) -> tuple[Section, ...]:
    options = measuring.options_facts(analysis.options)
    notice = f"This page holds an excerpt of its run. Left out: {'; '.join(left_out)}." if left_out else ""
    return present(
        section("cluster", "Cluster", Facts(pairs=planned.cluster_facts(analysis.cluster)), is_folded=True),
        section(
            "method",
            "How it was measured",
            Text(text=notice, tone="notice"),
            Facts(pairs=measuring.measuring_facts(analysis)),
            Text(text="Options that are not the defaults:" if options else ""),
            Facts(pairs=options),
            *_command(analysis.command),
            is_folded=True,
        ),
    )


def _command(text: str) -> tuple[Part, ...]:
    """Return the command of the run: to copy if it is one of ours and quoted as we do it, else as words of its file."""
    words: list[str] = []
    if len(text) <= LONGEST_COMMAND:
        with contextlib.suppress(ValueError):  # an open quote
            words = shlex.split(text)
    if words[:1] == ["cs_input_analyzer"] and shlex.join(words) == text:
        return (Copyable(label="the command", text=text),)
    return (Facts(pairs=pairs((("called by", text),))),)


def validation_document(found: Validation) -> Document:
    """Return the report of a validation alone."""
    table = planned.validation_table(found)
    return Document(kind="validation", title=table.title, first=present(section("validation", table.title, table)))
