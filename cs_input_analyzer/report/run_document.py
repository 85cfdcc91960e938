"""Analysis -> Document: which sections the report of a run has, and in which order."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cs_input_analyzer.masking import LONGEST_COMMAND, MASK
from cs_input_analyzer.records import Analysis, LaunchPlan, Validation
from cs_input_analyzer.report import costs, findings, measuring, planned, workers
from cs_input_analyzer.report.document import (
    Card,
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
from cs_input_analyzer.report.wording import (
    BUSY_HOST,
    VERDICTS,
    one_line,
    pairs,
    plan_currency,
    shown_measurement,
    supply_and_demand,
    titled,
    verdict_sentence,
)

# What a short report has room for.
UNKNOWNS_SHOWN = 3
# Stands for the file of a run that was not saved.
UNSAVED = "RUN.json"
# Commands that are given no file take the newest run that was kept.
NEWEST = ""


def run_document(analysis: Analysis, *, charts: Mapping[str, Chart] | None = None, run_file: str | None = None) -> Document:
    """Return the report of a run. Rates are in elements per second if nobody knows how many samples an element holds.

    Args:
        charts: pictures by their name, for a format that draws them.
        run_file: what the run was read from, or written to, for commands to type next.
    """
    cards, plan, charts = findings.finding_cards(analysis.findings), analysis.recommendation, charts or {}
    file = UNSAVED if run_file is None else shlex.quote(one_line(run_file)) if run_file else NEWEST
    held = workers.excerpt(analysis)
    saving = "" if file != UNSAVED else f" (--json {UNSAVED} saves a run)"
    full = command("report", file, "--full")
    found = Document(
        kind="run",
        title="Input Function Report",
        name=analysis.pipeline.target,
        mark=analysis.verdict,
        headline=verdict_sentence(analysis.verdict),
        notices=_notices(analysis),
        first=_first_screen(analysis, cards, charts, file),
        sections=present(
            section(
                "findings",
                f"Findings ({len(cards)})",
                Facts(pairs=findings.fixes_facts(analysis)),
                *(cards or (Text(text="none"),)),
                Text(text=findings.ignored_sentence(analysis), tone="note"),
            ),
            *_measured(analysis, charts),
            *_pipeline(analysis, charts),
            section("feeding", "The accelerator", Facts(pairs=planned.wafer_facts(analysis))),
            section("memory", "Memory of a node", None if plan is None else planned.memory_table(plan, analysis.cluster)),
            *_planned(analysis, file),
            *_method(analysis, held.left_out),
        ),
        closing=(f"{VERDICTS[analysis.verdict][2]}. Next{saving}:", next_command(analysis, file), full),
        footer=f"{analysis.tool.name} {analysis.tool.version}, {analysis.created_at}. Every interval is a 90 % interval. "
        "This page holds its run: cs_input_analyzer report reads it back.",
        record=held,
    )
    samples = analysis.pipeline.samples_per_element
    return replace(in_elements(found), name=found.name) if samples is not None and samples.is_unknown else found


def _notices(analysis: Analysis) -> tuple[str, ...]:
    """Return what a reader must know before the answer: an interruption, workers that did not end well."""
    stopped = ("INTERRUPTED: this holds what was measured until then.",) if analysis.interrupted else ()
    bad = [worker for launch in analysis.measurements for worker in launch.workers if workers.ended_badly(worker)]
    if not bad or analysis.interrupted:
        return stopped
    more = f" ({len(bad) - 1} more workers did not either)" if len(bad) > 1 else ""
    return (f"A worker did not end well: {one_line(workers.troubles(analysis)[0])}{more}",)


def _first_screen(analysis: Analysis, cards: tuple[Card, ...], charts: Mapping[str, Chart], file: str) -> tuple[Section, ...]:
    others_found = tuple(card for card in cards if card.code != BUSY_HOST)  # `supply_and_demand` says that one
    none = "none but that of the busy host" if cards else "none"
    missing = Facts(pairs=planned.unknowns(analysis, file)[:UNKNOWNS_SHOWN])
    return present(
        section("verdict", "Supply and demand", Facts(pairs=supply_and_demand(analysis)), level="both"),
        section("launch", "Launch", *_brief_launch(analysis), level="both"),
        section("first", f"Findings ({len(others_found)})", *findings.brief_cards(others_found, none), level="brief"),
        section("supply", "Supply against demand", charts.get("supply-demand")),
        section("unknown", "For a surer answer", missing, level="brief"),
    )


def _brief_launch(analysis: Analysis) -> tuple[Part, ...]:
    plan, consumption, options = analysis.recommendation, analysis.consumption, analysis.options
    if plan is None:
        return ()
    names = ("nodes", "tasks_per_node", "cpus_per_task")
    values = Facts(pairs=tuple((name, str(getattr(plan, name))) for name in names), is_large=True)
    if plan.launch is None:
        return values, *_line_notes(plan)
    named = f"{analysis.cluster.name} {analysis.cluster.source} {options.train_command or ''}".lower()
    line = Copyable(label="On any Slurm cluster", text=plan.launch.srun)
    if (consumption is not None and consumption.system is not None) or "csrun" in named or "cerebras" in named:
        line = Copyable(label="On a Cerebras cluster", text=plan.launch.csrun_wse)
    return values, line, *_line_notes(plan)


def _line_notes(plan: LaunchPlan) -> tuple[Text, ...]:
    return tuple(Text(text=note, tone="note") for note in launch_notes(plan))


def launch_notes(plan: LaunchPlan) -> tuple[str, ...]:
    """Return what is to be known before a launch line is pasted: that it is not the file's, or lacks a secret."""
    lacks = f"{MASK} stands for a secret, which is not saved: put it in before you start this"
    is_masked = plan.launch is not None and MASK in plan.launch.csrun_wse + plan.launch.srun
    return (*filter(None, [plan.launch_note]), *((lacks,) if is_masked else ()))


def next_command(analysis: Analysis, file: str) -> str:
    """Return the most helpful command: for a demand, for nodes, for a fix, for a trial of the launch, or for the launch itself."""
    if analysis.consumption is None:
        return command("plan", file, "--demand SAMPLES_PER_S")
    if analysis.recommendation is None:
        return command("plan", file, "--nodes N --cpus-per-node N --memory-per-node SIZE")
    if analysis.verdict == "input_bound" and any(finding.edits for finding in analysis.findings):
        return f"cs_input_analyzer tune {shlex.quote(one_line(analysis.pipeline.target))}"
    if analysis.validation is None:
        return command("validate", file)
    return command("report", file, "--format sbatch")


def command(*words: str) -> str:
    return " ".join(["cs_input_analyzer", *filter(None, words)])


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
    profile, storage, stations = costs.shown_profile(analysis), analysis.storage, analysis.stations
    spent: tuple[Part | None, ...] = ()
    if profile is not None:
        spent = (Text(text=costs.costliest_sentence(profile)), charts.get("pipeline"), costs.op_cost_table(profile))
    return present(
        section("bottleneck", "", Text(text=costs.bottleneck_sentence(stations)), costs.stations_table(stations)),
        section("costs", "", *spent),
        section(
            "storage",
            "Storage",
            Facts(pairs=measuring.storage_facts(storage)),
            measuring.reads_table(storage) if storage is not None else None,
            is_folded=True,
        ),
        section("pipeline", "Pipeline", Facts(pairs=measuring.pipeline_facts(analysis)), costs.pipeline_table(analysis)),
        section("functions", "Functions of the input function", costs.functions_table(analysis)),
    )


def _planned(analysis: Analysis, file: str) -> tuple[Section, ...]:
    plan, currency, tables = analysis.recommendation, plan_currency(analysis), []
    parts: list[Part] = []
    if plan is not None:
        tables = [planned.alternatives_table(plan, currency), planned.what_if_table(plan, currency)]
        lines = plan.launch
        parts = [
            Facts(pairs=planned.plan_facts(plan, analysis)),
            *_line_notes(plan),
            Copyable(label="Defaults of the launcher", text=f"{lines.defaults}\n{plan.variables}" if lines else plan.variables),
        ]
        if lines is not None:
            instead = command("report", file, "--format sbatch")
            parts += [
                Copyable(label="Compile first, without the wafer", text=lines.csrun_cpu or ""),
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
    table = planned.validation_table(found)
    return Document(kind="validation", title=table.title, first=present(section("validation", table.title, table)))
