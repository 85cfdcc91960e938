"""Analysis -> text for a terminal or a pipe. Launch lines stand alone at the left edge, never wrapped: to be copied.

User text reaches rich only as `Text`, never as markup, and without control characters.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cs_input_analyzer.records import Analysis, LaunchPlan, Profile, Station, Storage, Validation
from cs_input_analyzer.report.cluster import cluster_facts
from cs_input_analyzer.report.costs import dearest_sentence, op_cost_table, serial_sentence
from cs_input_analyzer.report.findings import fixes_facts, ignored_sentence
from cs_input_analyzer.report.measuring import measured_facts, measuring_facts, shown_measurement
from cs_input_analyzer.report.nodes import node_facts, node_tables
from cs_input_analyzer.report.page import cards, feeding_facts, options_facts, wafer_facts
from cs_input_analyzer.report.pictures import Picture, pictures_of
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
from cs_input_analyzer.report.terminal import (
    console_on,
    copyable_on,
    facts_on,
    heading_on,
    line_on,
    picture_on,
    picture_width,
    table_on,
    text_of,
)
from cs_input_analyzer.report.wafer import wafer_facts as model_facts
from cs_input_analyzer.report.wafer import wafer_table
from cs_input_analyzer.report.wording import (
    pipeline_facts,
    plan_facts,
    supply_and_demand,
    verdict_sentence,
)
from cs_input_analyzer.report.workers import workers_table

if TYPE_CHECKING:
    from rich.console import Console

    from wafer_model.prediction import WaferPrediction


VERDICT_STYLES = {"input_bound": "bold red", "balanced": "bold yellow", "accelerator_bound": "bold green", "unknown": "bold"}
SEVERITY_STYLES = {"info": "cyan", "warning": "yellow", "error": "bold red"}
CHANGE_STYLES = {" ": "dim", "-": "red", "+": "green"}


def to_console(analysis: Analysis, *, width: int | None = None, color: bool = False) -> str:
    """The report, every line at most `width` columns (80 where None) but for the lines that are to be copied.

    With `color=False` there is no escape sequence in it.
    """
    out = io.StringIO()
    console = console_on(out, width, color)
    pictures = pictures_of(analysis, picture_width(console))
    _verdict(console, analysis)
    if analysis.recommendation is not None:
        _launch(console, analysis.recommendation, analysis)
    picture_on(console, pictures.get("supply-demand"))
    _measured(console, analysis, pictures)
    _nodes(console, analysis)
    if analysis.stations:
        _stations(console, analysis.stations, analysis.recommendation)
    if analysis.profile is not None and analysis.profile.ops:
        _costs(console, analysis.profile, pictures)
    if analysis.storage is not None:
        _storage(console, analysis.storage, analysis)
    _pipeline(console, analysis)
    _accelerator(console, analysis, pictures)
    for name in ("memory", "layouts"):
        picture_on(console, pictures.get(name))
    if analysis.recommendation is not None:
        table_on(console, alternatives_table(analysis.recommendation))
        table_on(console, what_if_table(analysis.recommendation))
    if analysis.validation is not None:
        table_on(console, validation_table(analysis.validation))
    _findings(console, analysis)
    heading_on(console, "Cluster")
    facts_on(console, cluster_facts(analysis.cluster))
    heading_on(console, "How it was measured")
    facts_on(console, (*measuring_facts(analysis), *options_facts(analysis.options)))
    copyable_on(console, "the command", analysis.command)
    return text_of(out)


def validation_to_console(validation: Validation, *, width: int | None = None, color: bool = False) -> str:
    """That section alone, as `to_console` prints it."""
    out = io.StringIO()
    table_on(console_on(out, width, color), validation_table(validation))
    return text_of(out)


def wafer_to_console(found: WaferPrediction, *, width: int | None = None, color: bool = False) -> str:
    """The lines and the table of the wafer model."""
    out = io.StringIO()
    console = console_on(out, width, color)
    facts_on(console, model_facts(found))
    table_on(console, wafer_table(found))
    return text_of(out)


# --- sections ----------------------------------------------------------------------------------------------------------------


def _verdict(console: Console, analysis: Analysis) -> None:
    line_on(console, verdict_sentence(analysis), style=VERDICT_STYLES[analysis.verdict])
    if analysis.interrupted:
        line_on(console, "INTERRUPTED: this holds what was measured until then.", style="bold yellow")
    facts_on(console, supply_and_demand(analysis))


def _launch(console: Console, plan: LaunchPlan, analysis: Analysis) -> None:
    heading_on(console, "Launch")
    defaults = f"nodes: {plan.nodes}\ntasks_per_node: {plan.tasks_per_node}\ncpus_per_task: {plan.cpus_per_task}"
    copyable_on(console, "", f"{defaults if plan.launch is None else plan.launch.defaults}\n{plan.variables}")
    console.print()
    facts_on(console, plan_facts(plan, analysis))
    if plan.launch is not None:
        if plan.launch.csrun_cpu is not None:
            copyable_on(console, "compile first, without the wafer", plan.launch.csrun_cpu)
        copyable_on(console, "on a Cerebras cluster", plan.launch.csrun_wse)
        copyable_on(console, "on any Slurm cluster", plan.launch.srun)
        console.print()
        line_on(console, "As a batch file: cs_input_analyzer report RUN.json --format sbatch", style="dim")


def _measured(console: Console, analysis: Analysis, pictures: Mapping[str, Picture]) -> None:
    if not analysis.measurements:
        heading_on(console, "Measured")
        line_on(console, "nothing")
    table_on(console, measured_table(analysis))
    for trouble in troubles(analysis):
        line_on(console, trouble, style="yellow", indent="! ")
    facts = measured_facts(analysis)
    if facts:
        console.print()
        facts_on(console, facts)
    for name in ("rate-over-time", "batch-gaps"):
        picture_on(console, pictures.get(name))
    shown = shown_measurement(analysis)
    # Of a lone worker the table above says it all.
    if shown is not None and len(shown.workers) > 1:
        table_on(console, workers_table(shown))


def _nodes(console: Console, analysis: Analysis) -> None:
    facts, tables = node_facts(analysis), node_tables(analysis)
    if not facts and not tables:
        return
    heading_on(console, "Several nodes" if tables else "The engine")
    facts_on(console, facts)
    for table in tables:
        table_on(console, table)


def _stations(console: Console, stations: tuple[Station, ...], plan: LaunchPlan | None) -> None:
    table = stations_table(stations)
    heading_on(console, table.title)
    line_on(console, bottleneck_sentence(stations, plan))
    console.print()
    table_on(console, table, heading=False)


def _costs(console: Console, profile: Profile, pictures: Mapping[str, Picture]) -> None:
    table = op_cost_table(profile)
    heading_on(console, table.title)
    dearest, serial = dearest_sentence(profile), serial_sentence(profile)
    if dearest:
        line_on(console, dearest)
        console.print()
    table_on(console, table, heading=False)
    picture_on(console, pictures.get("op-costs"), heading=False)
    if serial:
        console.print()
        line_on(console, serial, style="yellow")


def _storage(console: Console, storage: Storage, analysis: Analysis) -> None:
    table = reads_table(storage)
    heading_on(console, table.title)
    facts_on(console, storage_facts(analysis))
    if table.rows:
        console.print()
        table_on(console, table, heading=False)


def _pipeline(console: Console, analysis: Analysis) -> None:
    heading_on(console, "Pipeline")
    facts_on(console, pipeline_facts(analysis))
    if analysis.pipeline.ops:
        console.print()
    table_on(console, pipeline_table(analysis), heading=False)


def _accelerator(console: Console, analysis: Analysis, pictures: Mapping[str, Picture]) -> None:
    facts, feeding = wafer_facts(analysis), feeding_facts(analysis)
    if facts:
        heading_on(console, "Wafer model")
        facts_on(console, facts)
    if feeding:
        heading_on(console, "Feeding simulation")
        facts_on(console, feeding)
    picture_on(console, pictures.get("timeline"), heading=not feeding)


def _findings(console: Console, analysis: Analysis) -> None:
    heading_on(console, f"Findings ({len(analysis.findings)})")
    if not analysis.findings:
        line_on(console, "none")
    for number, view in enumerate(card.view for card in cards(analysis.findings)):
        if number:
            console.print()
        line_on(console, f"{view.severity} {view.code}: {view.message}", style=SEVERITY_STYLES[view.severity])
        facts_on(console, view.facts)
        for mark, text in view.change:
            line_on(console, f"{mark} {text}", style=CHANGE_STYLES[mark], indent="    ")
    if analysis.ignored_count:
        console.print()
        line_on(console, ignored_sentence(analysis))
    facts = fixes_facts(analysis)
    if facts:
        console.print()
        facts_on(console, facts)
