"""What the HTML page is made of, beside the tables and sentences that the console has too. Only bar lengths are computed here:
geometry, not facts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from cs_input_analyzer.records import Analysis, Estimate, Finding, LaunchPlan, Options
from cs_input_analyzer.report.findings import FindingView, finding_views
from cs_input_analyzer.report.glossary import slug
from cs_input_analyzer.report.tables import Table, alternatives_table, validation_table, what_if_table
from cs_input_analyzer.report.wording import LIMITS, Facts, one_line, supply_and_demand
from cs_input_analyzer.units import format_count, format_estimate, format_rate, format_ratio

__all__ = [
    "Bar",
    "Card",
    "Line",
    "anchors_of",
    "cards",
    "feeding_facts",
    "launch_lines",
    "launch_values",
    "options_facts",
    "standing_tables",
    "supply_bars",
    "to_look_at_first",
    "wafer_facts",
]

# Room at the right end of the bars, so that the longest does not read as "all there is".
BAR_MARGIN_RATIO = 1.08

SEVERITIES = {"error": 0, "warning": 1, "info": 2}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: lengths in percent of the widest there may be. `low` and `high` draw the interval."""

    label: str
    text: str
    role: str
    length: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Text to copy. `first`: it belongs into the top card."""

    label: str
    text: str
    first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A finding on the page: its anchor, and its gain in a few characters (empty where it was not measured)."""

    view: FindingView
    anchor: str
    gain: str
    op: str


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


def cards(findings: tuple[Finding, ...]) -> tuple[Card, ...]:
    """By gain: measured ones first, the largest at the top, then the others by severity."""
    anchors = anchors_of(findings)
    found = [
        (_rank(finding), Card(view=view, anchor=anchors[place], gain=_gain(finding), op=one_line(finding.op or "")))
        for place, (finding, view) in enumerate(zip(findings, finding_views(findings), strict=True))
    ]
    return tuple(card for _, card in sorted(found, key=lambda pair: pair[0]))


def to_look_at_first(shown: tuple[Card, ...]) -> tuple[str, Card] | None:
    """The finding for the top of the page, and what to call it; None where nothing is more than a remark."""
    first = next((card for card in shown if card.gain or card.view.severity != "info"), None)
    if first is None:
        return None
    return ("Fix first" if "fix" in dict(first.view.facts) else "Look at first"), first


def _rank(finding: Finding) -> tuple[bool, float, int]:
    """A gain counts where it is more than noise."""
    gain = finding.measured_gain.estimate if finding.is_gain and finding.measured_gain is not None else 0.0
    return (not finding.is_gain, -gain, SEVERITIES[finding.severity])


def _gain(finding: Finding) -> str:
    return "" if finding.measured_gain is None else f"{format_rate(finding.measured_gain.estimate, '').strip()} × the rate"


# --- launch ------------------------------------------------------------------------------------------------------------------


def launch_values(plan: LaunchPlan | None) -> Facts:
    if plan is None:
        return ()
    return (("nodes", str(plan.nodes)), ("tasks_per_node", str(plan.tasks_per_node)), ("cpus_per_task", str(plan.cpus_per_task)))


def launch_lines(plan: LaunchPlan | None) -> tuple[Line, ...]:
    if plan is None or plan.launch is None:
        return ()
    compile_first = plan.launch.csrun_cpu
    compile_lines = (Line(label="Compile first, without the wafer", text=compile_first),) if compile_first is not None else ()
    return (
        Line(label="Defaults of the launcher", text=f"{plan.launch.defaults}\n{plan.variables}"),
        *compile_lines,
        Line(label="On a Cerebras cluster", text=plan.launch.csrun_wse, first=True),
        Line(label="On any Slurm cluster", text=plan.launch.srun, first=True),
        Line(label="As a batch file", text=plan.launch.sbatch),
    )


def standing_tables(analysis: Analysis) -> tuple[Table, ...]:
    """The tables that stand alone, where there is something in them."""
    plan, validation = analysis.recommendation, analysis.validation
    candidates = (
        what_if_table(plan) if plan is not None else None,
        alternatives_table(plan) if plan is not None else None,
        validation_table(validation) if validation is not None else None,
    )
    return tuple(table for table in candidates if table is not None and table.rows)


def supply_bars(analysis: Analysis) -> tuple[Bar, ...]:
    """Demand over supply, on one scale from zero."""
    demand = analysis.consumption.samples_per_s if analysis.consumption is not None else None
    sides: tuple[tuple[str, Estimate | None], ...] = (("demand", demand), ("supply", analysis.supply))
    present = [(role, rate) for role, rate in sides if rate is not None]
    words = dict(supply_and_demand(analysis))
    widest = max((rate.high for _, rate in present), default=0.0) * BAR_MARGIN_RATIO
    if widest <= 0:
        return ()
    return tuple(
        Bar(
            label=role,
            text=words.get(role, format_estimate(rate)),
            role=role,
            length=_percent(rate.estimate, widest),
            low=_percent(rate.low, widest) if rate.low != rate.high else None,
            high=_percent(rate.high, widest) if rate.low != rate.high else None,
        )
        for role, rate in present
    )


def _percent(value: float, widest: float) -> float:
    return round(min(max(value / widest, 0.0), 1.0) * 100, 2)


# --- the accelerator ---------------------------------------------------------------------------------------------------------


def wafer_facts(analysis: Analysis) -> Facts:
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


def feeding_facts(analysis: Analysis) -> Facts:
    """How the plan feeds the accelerator, as simulated; empty where that was not."""
    plan = analysis.recommendation
    if plan is None or plan.expected_accelerator_utilization is None:
        return ()
    busy = format_estimate(plan.expected_accelerator_utilization, format_ratio)
    return (
        ("accelerator", f"busy {busy} of the time"),
        ("feed", FEEDS[analysis.options.feed]),
        ("input workers", format_count(plan.input_workers)),
    )


# --- how it was measured -----------------------------------------------------------------------------------------------------


def options_facts(options: Options) -> Facts:
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
