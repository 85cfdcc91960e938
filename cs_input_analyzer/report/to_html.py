"""Analysis -> one self-contained HTML page: no request leaves it, and it holds the run, so that `report RUN.html` reads it back.

The templates escape by default (autoescape) and refuse a misspelt name (StrictUndefined); control characters are made visible on
the way out. Only bar lengths are computed here: geometry, not facts.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.records import Analysis, Estimate, Finding, LaunchPlan, Profile
from cs_input_analyzer.report.cluster import cluster_facts
from cs_input_analyzer.report.costs import RUNTIME, dearest_sentence, op_cost_table, serial_sentence
from cs_input_analyzer.report.measuring import measured_facts, measuring_facts
from cs_input_analyzer.report.stations import bottleneck_sentence, stations_table
from cs_input_analyzer.report.storage import reads_table, storage_facts
from cs_input_analyzer.report.tables import (
    Table,
    alternatives_table,
    measured_table,
    pipeline_table,
    troubles,
    validation_table,
    what_if_table,
)
from cs_input_analyzer.report.to_json import to_embedded_json
from cs_input_analyzer.report.wording import (
    Facts,
    evidence_text,
    gain_text,
    one_line,
    pipeline_facts,
    plan_facts,
    supply_and_demand,
    supply_of,
    verdict_sentence,
    visible,
)
from cs_input_analyzer.units import format_estimate, format_ratio, format_seconds

if TYPE_CHECKING:
    from jinja2 import Environment

PAGE = "report.html.j2"

# Room at the right end of the bars, so that the longest does not read as "all there is".
BAR_MARGIN_RATIO = 1.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: lengths in percent of the widest there may be. `low` and `high` draw the interval, `tail` a second part behind."""

    label: str
    text: str
    role: str
    length: float
    tail: float = 0.0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Text to copy."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One finding, worded."""

    code: str
    severity: str
    message: str
    facts: Facts


def to_html(analysis: Analysis) -> str:
    """The page as text.

    Raises:
        AnalyzerError: the templates are not where an installation keeps them.
    """
    from markupsafe import Markup

    plan, profile = analysis.recommendation, analysis.profile
    return (
        _environment()
        .get_template(PAGE)
        .render(
            analysis=analysis,
            verdict=verdict_sentence(analysis),
            verdict_facts=supply_and_demand(analysis),
            launch_values=_launch_values(plan),
            launch_facts=plan_facts(plan, analysis) if plan is not None else (),
            launch_lines=_launch_lines(plan),
            supply_bars=_supply_bars(analysis),
            cost_bars=_cost_bars(profile),
            findings=tuple(_card(finding) for finding in analysis.findings),
            measured=measured_table(analysis),
            troubles=troubles(analysis),
            tables=_tables(analysis),
            pipeline=pipeline_table(analysis),
            pipeline_facts=pipeline_facts(analysis),
            measured_facts=measured_facts(analysis),
            stations=stations_table(analysis.stations),
            bottleneck=bottleneck_sentence(analysis.stations),
            op_costs=op_cost_table(profile) if profile is not None else None,
            dearest=dearest_sentence(profile) if profile is not None else "",
            serial=serial_sentence(profile) if profile is not None else "",
            reads=reads_table(analysis.storage) if analysis.storage is not None else None,
            storage_facts=storage_facts(analysis),
            cluster_facts=cluster_facts(analysis.cluster),
            measuring_facts=measuring_facts(analysis),
            run=Markup(to_embedded_json(analysis)),
        )
    )


def templates_dir() -> Path:
    """The folder of the templates: inside the package in a wheel, `reports/templates` in a checkout or an editable install.

    Raises:
        AnalyzerError: it is in neither place.
    """
    here = Path(__file__).resolve().parent
    places = (here / "templates", here.parents[1] / "reports" / "templates")
    for place in places:
        if (place / PAGE).is_file():
            return place
    searched = " or ".join(map(str, places))
    raise AnalyzerError(f"the installation is incomplete: no {PAGE} in {searched}; install cs_input_analyzer again")


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(templates_dir()),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: object) -> object:
    """What an expression of the template prints: plain text without control characters, markup as it is."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


# --- what the template is given ----------------------------------------------------------------------------------------------


def _launch_values(plan: LaunchPlan | None) -> Facts:
    if plan is None:
        return ()
    return (("nodes", str(plan.nodes)), ("tasks_per_node", str(plan.tasks_per_node)), ("cpus_per_task", str(plan.cpus_per_task)))


def _launch_lines(plan: LaunchPlan | None) -> tuple[Line, ...]:
    if plan is None or plan.launch is None:
        return ()
    return (
        Line(label="Defaults of the launcher", text=plan.launch.defaults),
        Line(label="On a Cerebras cluster", text=plan.launch.csrun_wse),
        Line(label="On any Slurm cluster", text=plan.launch.srun),
        Line(label="As a batch file", text=plan.launch.sbatch),
    )


def _card(finding: Finding) -> Card:
    facts = (
        ("at", " ".join(part for part in (finding.source, finding.op and f"({finding.op})") if part)),
        ("evidence", evidence_text(finding.evidence)),
        ("fix", finding.fix or ""),
        ("gain", gain_text(finding)),
    )
    shown = tuple((label, text) for label, text in facts if text)
    return Card(code=one_line(finding.code), severity=finding.severity, message=finding.message, facts=shown)


def _tables(analysis: Analysis) -> tuple[Table, ...]:
    """The tables that stand alone, where there is something in them."""
    candidates = (
        alternatives_table(analysis.recommendation) if analysis.recommendation is not None else None,
        what_if_table(analysis.recommendation) if analysis.recommendation is not None else None,
        validation_table(analysis.validation) if analysis.validation is not None else None,
    )
    return tuple(table for table in candidates if table is not None and table.rows)


def _supply_bars(analysis: Analysis) -> tuple[Bar, ...]:
    """Demand over supply, on one scale from zero."""
    demand = analysis.consumption.samples_per_s if analysis.consumption is not None else None
    sides: tuple[tuple[str, Estimate | None], ...] = (("demand", demand), ("supply", supply_of(analysis)))
    present = [(role, rate) for role, rate in sides if rate is not None]
    widest = max((rate.high for _, rate in present), default=0.0) * BAR_MARGIN_RATIO
    if widest <= 0:
        return ()
    return tuple(
        Bar(
            label=role,
            text=format_estimate(rate),
            role=role,
            length=_percent(rate.estimate, widest),
            low=_percent(rate.low, widest) if rate.low != rate.high else None,
            high=_percent(rate.high, widest) if rate.low != rate.high else None,
        )
        for role, rate in present
    )


def _cost_bars(profile: Profile | None) -> tuple[Bar, ...]:
    """CPU time of each op, its wait behind it, on one scale."""
    if profile is None:
        return ()
    parts = [(op, op.self_cpu_s_per_sample or 0.0, op.wait_s_per_sample or 0.0) for op in profile.ops]
    widest = max((cpu + wait for _, cpu, wait in parts), default=0.0) * BAR_MARGIN_RATIO
    if widest <= 0:
        return ()
    return tuple(
        Bar(
            label=op.name,
            text=f"{format_seconds(op.self_cpu_s_per_sample)} ({format_ratio(op.share_ratio)})",
            role="runtime" if op.kind == RUNTIME else "cost",
            length=_percent(cpu, widest),
            tail=_percent(wait, widest),
        )
        for op, cpu, wait in parts
    )


def _percent(value: float, widest: float) -> float:
    return round(min(max(value / widest, 0.0), 1.0) * 100, 2)
