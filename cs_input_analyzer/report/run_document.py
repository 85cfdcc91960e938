"""Analysis -> Document: which sections the report of a run has, and in which order."""

from __future__ import annotations

import dataclasses
import itertools
import shlex

from cs_input_analyzer.records import Analysis, Estimate, Finding, LaunchPlan, Options, Validation
from cs_input_analyzer.report import document
from cs_input_analyzer.report.cluster import cluster_facts
from cs_input_analyzer.report.costs import costliest_sentence, op_cost_table, serial_sentence
from cs_input_analyzer.report.document import (
    Bar,
    Bars,
    Card,
    Copyable,
    Document,
    Facts,
    Figure,
    Flow,
    Section,
    TableOf,
    Text,
    Values,
    present,
    section,
)
from cs_input_analyzer.report.excerpt import excerpt
from cs_input_analyzer.report.findings import fixes_facts, ignored_sentence, view_of
from cs_input_analyzer.report.glossary import slug
from cs_input_analyzer.report.measuring import measured_facts, measuring_facts, shown_measurement
from cs_input_analyzer.report.nodes import node_facts, node_tables
from cs_input_analyzer.report.stations import bottleneck_sentence, stations_table
from cs_input_analyzer.report.storage import reads_table, storage_facts
from cs_input_analyzer.report.tables import (
    alternatives_table,
    measured_table,
    pipeline_table,
    troubles,
    validation_table,
    what_if_table,
)
from cs_input_analyzer.report.unknowns import unknowns
from cs_input_analyzer.report.wording import (
    LIMITS,
    SUMMARIES,
    Pairs,
    busy_text,
    one_line,
    pipeline_facts,
    plan_facts,
    short_source,
    supply_and_demand,
    supply_of,
    verdict_sentence,
)
from cs_input_analyzer.report.workers import workers_table
from cs_input_analyzer.units import format_count, format_estimate, format_rate

# Room at the right end of the bars, so that the longest does not read as "all there is".
BAR_MARGIN_RATIO = 1.08
LAYOUTS_RUN = "Every layout that ran: nodes x tasks per node x CPUs per task."
SEVERITIES = {"error": 0, "warning": 1, "info": 2}
# What a short report has room for.
FINDINGS_SHOWN = 3
UNKNOWNS_SHOWN = 3

SOURCES = {
    "declared": "--demand",
    "step_time": "a step time that was given",
    "model": "the wafer model",
    "compile_report": "the compiler's own report",
    "performance_json": "a finished run",
}
FEEDS = {
    "round-robin": "in turn: the accelerator waits for the worker whose turn it is",
    "first-come": "first come, first served: the accelerator takes whichever batch is ready",
}


def run_document(analysis: Analysis) -> Document:
    """The report of a run. Rates are in elements per second where nobody knows how many samples an element holds."""
    cards = finding_cards(analysis.findings)
    found = Document(
        kind="run",
        title="Input Function Report",
        name=analysis.pipeline.target,
        mark=analysis.verdict,
        headline=verdict_sentence(analysis),
        notices=("INTERRUPTED: this holds what was measured until then.",) if analysis.interrupted else (),
        first=_first_screen(analysis, cards),
        sections=present(
            _all_findings(analysis, cards),
            *_measured(analysis),
            *_pipeline(analysis),
            *_accelerator(analysis),
            *_planned(analysis),
            *_method(analysis),
        ),
        closing=_closing(analysis),
        footer=f"{analysis.tool.name} {analysis.tool.version}, {analysis.created_at}. Every interval is a 90 % interval. "
        "This page holds its run: cs_input_analyzer report reads it back.",
        record=analysis,
    )
    return document.in_unit_of(analysis, found)


# --- the first screen --------------------------------------------------------------------------------------------------------


def _first_screen(analysis: Analysis, cards: tuple[Card, ...]) -> tuple[Section, ...]:
    plan, bars = analysis.recommendation, supply_bars(analysis)
    shown = {bar.label for bar in bars}
    others = tuple(pair for pair in supply_and_demand(analysis) if pair[0] not in shown)
    more = len(cards) - FINDINGS_SHOWN
    tops = tuple(dataclasses.replace(card, is_brief=True) for card in cards[:FINDINGS_SHOWN])
    missing = unknowns(analysis)
    return present(
        section("verdict", "Supply and demand", Bars(bars=bars), Facts(pairs=others), level="both"),
        section("launch", "Launch", *_brief_launch(plan, analysis), level="both"),
        section(
            "first",
            f"Findings ({len(cards)})",
            *(tops or (Text(text="none"),)),
            Text(text=f"+{more} more" if more > 0 else "", tone="note"),
            level="brief",
        ),
        section("supply", "Supply against demand", Figure(name="supply-demand", analysis=analysis)),
        section(
            "unknown",
            "What would narrow the interval",
            Facts(pairs=missing[:UNKNOWNS_SHOWN]),
            level="brief",
        ),
    )


def _brief_launch(plan: LaunchPlan | None, analysis: Analysis) -> tuple[Values | Copyable, ...]:
    if plan is None:
        return ()
    values = Values(
        values=(
            ("nodes", str(plan.nodes)),
            ("tasks_per_node", str(plan.tasks_per_node)),
            ("cpus_per_task", str(plan.cpus_per_task)),
        )
    )
    if plan.launch is None:
        return (values,)
    is_wafer = _is_cerebras(analysis)
    label, line = ("On a Cerebras cluster", plan.launch.csrun_wse) if is_wafer else ("On any Slurm cluster", plan.launch.srun)
    return values, Copyable(label=label, text=line)


def _is_cerebras(analysis: Analysis) -> bool:
    """Whether the cluster, the script or the accelerator is one of Cerebras."""
    consumption, options = analysis.consumption, analysis.options
    named = f"{analysis.cluster.name} {analysis.cluster.source} {options.train_command or ''}".lower()
    return (consumption is not None and consumption.system is not None) or "csrun" in named or "cerebras" in named


def supply_bars(analysis: Analysis) -> tuple[Bar, ...]:
    """Demand over supply, on one scale from zero."""
    demand = analysis.consumption.samples_per_s if analysis.consumption is not None else None
    sides: tuple[tuple[str, Estimate | None], ...] = (("supply", supply_of(analysis)), ("demand", demand))
    known = [(role, rate) for role, rate in sides if rate is not None]
    words = dict(supply_and_demand(analysis))
    widest = max((rate.high for _, rate in known), default=0.0) * BAR_MARGIN_RATIO
    return tuple(rate_bar(role, words.get(role, format_estimate(rate)), role, rate, widest) for role, rate in known if widest > 0)


def rate_bar(label: str, text: str, role: str, rate: Estimate, widest: float) -> Bar:
    """A rate with its interval, on a scale from zero to `widest`."""
    is_exact = rate.low == rate.high
    return Bar(
        label=label,
        text=text,
        role=role,
        length=percent(rate.estimate, widest),
        low=None if is_exact else percent(rate.low, widest),
        high=None if is_exact else percent(rate.high, widest),
    )


def percent(value: float, whole: float) -> float:
    return round(min(max(value / whole, 0.0), 1.0) * 100, 2)


# Stands for the file of a run that was not saved.
UNSAVED = "RUN.json"


def _closing(analysis: Analysis) -> tuple[str, ...]:
    """The verdict in a few words, and the commands to type next."""
    saving = "" if _run_file(analysis) != UNSAVED else f" (--json {UNSAVED} saves a run)"
    summary = f"{SUMMARIES[analysis.verdict]}. Next, and for all of it{saving}:"
    return summary, next_command(analysis), f"cs_input_analyzer report {_run_file(analysis)} --full"


def next_command(analysis: Analysis) -> str:
    """What helps most: a demand, a fix, a trial of the launch, or the launch itself."""
    run, plan = _run_file(analysis), analysis.recommendation
    if analysis.consumption is None or plan is None:
        return f"cs_input_analyzer plan {run} --demand SAMPLES_PER_S"
    if analysis.verdict == "input_bound" and any(finding.edits for finding in analysis.findings):
        return f"cs_input_analyzer tune {shlex.quote(one_line(analysis.pipeline.target))}"
    if analysis.validation is None:
        return f"cs_input_analyzer validate {run}"
    return f"cs_input_analyzer report {run} --format sbatch"


def _run_file(analysis: Analysis) -> str:
    """The file that the run was written to, as far as its command says it."""
    try:
        words = shlex.split(analysis.command)
    except ValueError:
        return UNSAVED
    after = [value for option, value in itertools.pairwise(words) if option == "--json"]
    after += [word.partition("=")[2] for word in words if word.startswith("--json=")]
    return shlex.quote(one_line(after[-1])) if after else UNSAVED


# --- findings ----------------------------------------------------------------------------------------------------------------


def anchors_of(findings: tuple[Finding, ...]) -> dict[int, str]:
    """`finding-CSI104-map` for each, by its place; a second one of the same op gets a number."""
    anchors: dict[int, str] = {}
    for place, finding in enumerate(findings):
        plain = "-".join(["finding", slug(finding.code), *([slug(finding.op)] if finding.op else [])])
        taken = set(anchors.values())
        names = [plain, *(f"{plain}-{number}" for number in range(2, len(findings) + 2))]
        anchors[place] = next(name for name in names if name not in taken)
    return anchors


def finding_cards(findings: tuple[Finding, ...]) -> tuple[Card, ...]:
    """One card for each, in the order of `by_gain`."""
    anchors = anchors_of(findings)
    named = {id(finding): anchors[place] for place, finding in enumerate(findings)}
    return tuple(_card(finding, named[id(finding)]) for finding in by_gain(findings))


def by_gain(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Measured gains first, the largest at the top, then the others by severity."""
    return tuple(sorted(findings, key=_rank))


def _rank(finding: Finding) -> tuple[bool, float, int]:
    """A gain counts where it is more than noise."""
    gain = finding.measured_gain.estimate if finding.is_gain and finding.measured_gain is not None else 0.0
    return (not finding.is_gain, -gain, SEVERITIES[finding.severity])


def _card(finding: Finding, anchor: str) -> Card:
    return Card(
        view=view_of(finding),
        anchor=anchor,
        gain="" if finding.measured_gain is None else f"×{format_rate(finding.measured_gain.estimate, '').strip()}",
        op=one_line(finding.op or ""),
        at=short_source(finding.source),
        fix=one_line(finding.fix or ""),
        is_folded=finding.severity == "info" and not finding.is_gain,
    )


def _all_findings(analysis: Analysis, cards: tuple[Card, ...]) -> Section | None:
    return section(
        "findings",
        f"Findings ({len(cards)})",
        Facts(pairs=fixes_facts(analysis)),
        *(cards or (Text(text="none"),)),
        Text(text=ignored_sentence(analysis), tone="note"),
        count=len(cards),
    )


# --- what the answer rests on ------------------------------------------------------------------------------------------------


def _measured(analysis: Analysis) -> tuple[Section, ...]:
    shown = shown_measurement(analysis)
    workers = workers_table(shown) if shown is not None and len(shown.workers) > 1 else None
    tables = node_tables(analysis)
    return present(
        section(
            "measured",
            "Measured",
            Text(text="" if analysis.measurements else "nothing"),
            TableOf(table=measured_table(analysis), caption=LAYOUTS_RUN),
            *(Text(text=trouble, tone="notice") for trouble in troubles(analysis)),
            Facts(pairs=measured_facts(analysis)),
            Figure(name="rate-over-time", analysis=analysis, heading=True),
            Figure(name="batch-gaps", analysis=analysis, heading=True),
            TableOf(table=workers, caption="One row for each worker, the slowest standing out.", heading=True) if workers else None,
        ),
        section(
            "nodes",
            "Several nodes" if tables else "The engine",
            Facts(pairs=node_facts(analysis)),
            *(
                TableOf(table=table, caption="Rates in samples per second; what cannot be known is a dash.", heading=True)
                for table in tables
            ),
            is_folded=True,
        ),
    )


def _pipeline(analysis: Analysis) -> tuple[Section, ...]:
    profile, storage = analysis.profile, analysis.storage
    stations, costs = stations_table(analysis.stations), op_cost_table(profile) if profile is not None else None
    reads = reads_table(storage) if storage is not None else None
    return present(
        section(
            "bottleneck",
            stations.title,
            Text(text=bottleneck_sentence(analysis.stations, analysis.recommendation)),
            TableOf(table=stations, caption="Every ceiling of one worker: what each resource alone would allow."),
        ),
        section(
            "costs",
            costs.title,
            Text(text=costliest_sentence(profile)),
            Text(text=serial_sentence(profile), tone="notice"),
            TableOf(table=costs, caption="CPU time for one sample, op by op; runtime is CPU that belongs to no op."),
            Figure(name="op-costs", analysis=analysis, has_table=True),
        )
        if profile is not None and costs is not None and costs.rows
        else None,
        section(
            "storage",
            "Storage",
            Facts(pairs=storage_facts(analysis)),
            TableOf(table=reads, caption="The pipeline's own files, read without TensorFlow.") if reads is not None else None,
            is_folded=True,
        ),
        section(
            "pipeline",
            "Pipeline",
            Facts(pairs=pipeline_facts(analysis)),
            Flow(analysis=analysis, table=pipeline_table(analysis), anchors=anchors_of(analysis.findings)),
        ),
    )


def _accelerator(analysis: Analysis) -> tuple[Section, ...]:
    return present(
        section("wafer", "Wafer model", Facts(pairs=wafer_facts(analysis)), is_folded=True),
        section("feeding", "Feeding simulation", Facts(pairs=feeding_facts(analysis)), Figure(name="timeline", analysis=analysis)),
        section("memory", "Memory of a node", Figure(name="memory", analysis=analysis)),
        section("layouts", "Which launches feed it", Figure(name="layouts", analysis=analysis)),
    )


def wafer_facts(analysis: Analysis) -> Pairs:
    """What the accelerator takes, and how that is known; empty without a demand."""
    consumption = analysis.consumption
    if consumption is None:
        return ()
    system = " ".join(part for part in (consumption.system, (consumption.mode or "").replace("_", " ")) if part)
    limit = consumption.limited_by
    facts = (
        ("consumes", format_estimate(consumption.samples_per_s)),
        ("known from", SOURCES.get(consumption.source, consumption.source)),
        ("wafer", system),
        ("limited by", LIMITS.get(limit, limit) if limit else ""),
        ("batch size", "" if consumption.batch_size is None else f"{format_count(consumption.batch_size)} samples in one step"),
        *(("assumed", note) for note in consumption.notes),
    )
    return tuple((label, one_line(text)) for label, text in facts if text)


def feeding_facts(analysis: Analysis) -> Pairs:
    """How the plan feeds the accelerator, as simulated; empty where that was not."""
    plan = analysis.recommendation
    if plan is None or plan.expected_accelerator_utilization is None:
        return ()
    return (
        ("accelerator", busy_text(plan.expected_accelerator_utilization)),
        ("feed", FEEDS[analysis.options.feed]),
        ("input workers", format_count(plan.input_workers)),
    )


# --- the plan in full, and how it was measured -------------------------------------------------------------------------------


def _planned(analysis: Analysis) -> tuple[Section, ...]:
    plan, caption = analysis.recommendation, "Rates in samples per second, with their 90 % intervals."
    lines = plan.launch if plan is not None else None
    return present(
        section(
            "plan",
            "The launch in full",
            Facts(pairs=plan_facts(plan, analysis)),
            Copyable(label="Defaults of the launcher", text=f"{lines.defaults}\n{plan.variables}" if lines else plan.variables),
            *(
                (
                    Copyable(label="Compile first, without the wafer", text=lines.csrun_cpu or ""),
                    Copyable(label="Launch on a Cerebras cluster", text=lines.csrun_wse),
                    Copyable(label="Launch on any Slurm cluster", text=lines.srun),
                    Copyable(label="As a batch file", text=lines.sbatch, is_file=True),
                )
                if lines is not None
                else ()
            ),
        )
        if plan is not None
        else None,
        *(
            section(slug(table.title).lower(), table.title, TableOf(table=table, caption=caption), is_folded=True)
            for table in (
                *((alternatives_table(plan), what_if_table(plan)) if plan is not None else ()),
                *((validation_table(analysis.validation),) if analysis.validation is not None else ()),
            )
        ),
    )


def _method(analysis: Analysis) -> tuple[Section, ...]:
    options = options_facts(analysis.options)
    left_out = excerpt(analysis).left_out
    notice = f"This page holds an excerpt of its run. Left out: {'; '.join(left_out)}." if left_out else ""
    return present(
        section("cluster", "Cluster", Facts(pairs=cluster_facts(analysis.cluster)), is_folded=True),
        section(
            "method",
            "How it was measured",
            Text(text=notice, tone="notice"),
            Facts(pairs=measuring_facts(analysis)),
            Facts(pairs=options, folded=f"Options that are not the defaults ({len(options)})"),
            Copyable(label="the command", text=analysis.command),
            is_folded=True,
        ),
    )


def options_facts(options: Options) -> Pairs:
    """Every choice that is not the default one, by its name in `Options`."""
    facts = []
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if value != field.default:
            shown = format_estimate(value, lambda number: f"{number:.4g}") if isinstance(value, Estimate) else _text(value)
            facts.append((field.name, one_line(shown)))
    return tuple(facts)


def _text(value: object) -> str:
    return ", ".join(map(_text, value)) if isinstance(value, tuple) else str(value)


def validation_document(found: Validation) -> Document:
    """Predicted against measured, without the rest of the report."""
    table = validation_table(found)
    only = present(section("validation", table.title, TableOf(table=table)))
    return Document(kind="validation", title=table.title, name="", mark="", headline="", first=only)
