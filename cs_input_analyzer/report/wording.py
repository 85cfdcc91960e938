"""Words that several sections of a report use, as plain text.

Only texts are made here: each number is a field or a property of a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cs_input_analyzer.records import Analysis, Consumption, Layout, Measurement, Options, Scalar, feeding
from cs_input_analyzer.tfdata.samples import element_sentence
from cs_input_analyzer.units import counted, format_count, format_estimate, format_ratio, format_seconds, visible

Pairs = tuple[tuple[str, str], ...]

# The word, and its meaning.
VERDICTS = {
    "input_bound": ("INPUT-BOUND", "the accelerator starves: it waits for input."),
    "balanced": ("BALANCED", "supply lies between demand and demand with headroom."),
    "accelerator_bound": ("ACCELERATOR-BOUND", "the input keeps up with the accelerator."),
    "unknown": ("NO VERDICT", "whether the accelerator starves cannot be said."),
}
# The two currencies of rates: with other programs on the CPUs, and on idle CPUs.
AS_MEASURED, ON_IDLE_NODE = "as measured", "on an idle node"
GIVE_A_DEMAND = "give the accelerator's rate with --demand SAMPLES_PER_S, or with --step-time SECONDS --batch-size N"


def one_line(text: str) -> str:
    """Return `visible` text on one line: each newline is shown as its escape sequence."""
    return visible(text).replace("\n", "\\n")


def pairs(facts: Iterable[tuple[str, str | None]]) -> Pairs:
    """Return labels with their texts on one line each; those without a text are left out."""
    return tuple((label, one_line(text)) for label, text in facts if text)


def verdict_sentence(verdict: str) -> str:
    """Return whether the accelerator starves. How sure that is stays in the JSON."""
    return ": ".join(VERDICTS[verdict])


def is_another(idle_factor: float) -> bool:
    """Return whether an idle node gives other rates, in the digits that are shown."""
    return f"{idle_factor:.2f}" != "1.00"


def factor_text(idle_factor: float) -> str:
    """Return `on an idle node 1.42 times as measured`."""
    return f"{ON_IDLE_NODE} {idle_factor:.2f} times {AS_MEASURED}"


def plan_currency(analysis: Analysis) -> str:
    """Return the label of the rates of the plan; empty without a plan, or if an idle node gives the rates that were measured."""
    if analysis.recommendation is None or not is_another(analysis.idle_factor):
        return ""
    return AS_MEASURED if analysis.is_planned_as_measured else ON_IDLE_NODE


def titled(title: str, currency: str) -> str:
    """Return a title with the label of the rates below it: `Measured (rates as measured)`."""
    name, bracket, more = title.removesuffix(")").partition(" (")
    label = f"rates {currency}" if currency else ""
    inside = ", ".join(filter(None, (more if bracket else "", label)))
    return f"{name} ({inside})" if inside else name


def factor_sentence(analysis: Analysis) -> str:
    """Return the factor between the two currencies with its reason; empty if there is one currency."""
    plan = analysis.recommendation
    if plan is None or not plan_currency(analysis):
        return ""
    said = f"{factor_text(analysis.idle_factor)}, as other programs used {format_ratio(analysis.others_ratio)} of the CPUs"
    idle = plan.quiet_samples_per_s if analysis.is_planned_as_measured else None
    return said if idle is None else f"{said}: {format_estimate(idle)} for {plan.layout}"


def supply_and_demand(analysis: Analysis) -> Pairs:
    """Return the two sides of the verdict, each with its interval and its origin, and how samples were counted."""
    samples, options, consumption = analysis.pipeline.samples_per_element, analysis.options, analysis.consumption
    facts: list[tuple[str, str]] = []
    supply, layout = analysis.judged_samples_per_s, analysis.judged_layout
    if layout is not None and (supply is not None or analysis.verdict_layout is not None):
        rate = " ".join(filter(None, (format_estimate(supply), plan_currency(analysis))))
        facts.append(("supply", f"{rate}, {_origin(analysis, layout)}"))
    if consumption is not None:
        facts.append(("demand", demand_text(consumption, options)))
    if samples is not None:
        step = consumption.batch_size if consumption is not None else None
        facts.append(("counted", element_sentence(samples, options.batch_size or step)))
    elif options.batch_size is not None and options.step_time_s is None:
        facts.append(("counted", f"{options.batch_size} samples an element, as --batch-size said then: check that number"))
    return pairs(facts)


def _origin(analysis: Analysis, layout: Layout) -> str:
    """Return which launch supplies, without calling one recommended that does not do."""
    plan = analysis.recommendation
    if analysis.verdict_layout is not None and analysis.options.current == layout:
        return f"launch in use {layout}"
    if plan is None:
        return f"measured on this host, {layout}"
    if plan.meets_demand is False:
        return f"best launch {layout}, which {feeding(plan)}"
    return f"recommended launch {layout}"


def tasks_sentence(analysis: Analysis) -> str:
    """Return which tasks a node feed the accelerator, and how many of its CPUs stay idle; empty without such a plan."""
    plan = analysis.recommendation
    if plan is None or plan.fewest_tasks is None or plan.most_tasks is None or analysis.verdict_layout != plan.layout:
        return ""
    said = []
    if plan.fewest_tasks < plan.most_tasks:
        said.append(f"{plan.fewest_tasks} to {plan.most_tasks} tasks a node all feed it; {plan.tasks_per_node} recommended")
    idle = analysis.cluster.cpus_per_node - plan.layout.cpus_per_node
    if idle > 0:
        said.append(f"{counted(idle, 'CPU')} of a node {'stays' if idle == 1 else 'stay'} idle")
    return "; ".join(said)


def no_verdict_because(analysis: Analysis) -> str:
    """Say why neither side can be called, and what would settle it."""
    supply, consumption = analysis.judged_samples_per_s, analysis.consumption
    if supply is None:
        return "nothing was measured that a supply could be predicted from"
    if consumption is None:
        return "no demand was given"
    demand, why = consumption.samples_per_s, "supply and demand are too uncertain to compare"
    if supply.low <= 0 or (demand.low > 0 and demand.high / demand.low < supply.high / supply.low):
        return f"{why}; measure longer (--max-seconds), or validate on the nodes"
    return f"{why}; give a measured --step-time or a --compile-report"


def demand_text(consumption: Consumption, options: Options) -> str:
    """Return the demand with its interval, its source and its limit."""
    parts = [format_estimate(consumption.samples_per_s)]
    if consumption.source == "step_time" and options.step_time_s is not None:
        parts.append(f"from {format_seconds(options.step_time_s)} a step of {format_count(consumption.batch_size)} samples")
    else:
        parts.append(f"({consumption.source.replace('_', ' ')}{', extrapolated' if consumption.is_extrapolated else ''})")
    machine = " ".join(filter(None, (consumption.system, (consumption.mode or "").replace("_", " "))))
    limit = consumption.limited_by and f"limited by {consumption.limited_by}"
    return one_line(", ".join(filter(None, (" ".join(parts), machine, limit))))


def confirming_measurement(analysis: Analysis) -> Measurement | None:
    """Return the launch that measured with the planned worker count; None if there is none in the list."""
    index = analysis.recommendation.confirmed_by if analysis.recommendation is not None else None
    return analysis.measurements[index] if index is not None and 0 <= index < len(analysis.measurements) else None


def shown_measurement(analysis: Analysis) -> Measurement | None:
    """Return the launch that the plan rests on, else the last lone worker that delivered, else the last launch that did."""
    confirming = confirming_measurement(analysis)
    if confirming is not None:
        return confirming
    delivered = [launch for launch in analysis.measurements if launch.samples_per_s is not None and launch.role == "probe"]
    shown = [launch for launch in delivered if len(launch.workers) == 1] or delivered
    return shown[-1] if shown else None


def workers_text(started: int, announced: int) -> str:
    """Return `2`, or `2 of 5` if TF_CONFIG announced more than were started."""
    return format_count(started) if announced == started else f"{format_count(started)} of {format_count(announced)}"


def short_source(source: str | None) -> str:
    """Return the file and its folder: `…/pipelines/input_fn.py:42`."""
    parts = one_line(source or "").split("/")
    return "/".join(parts) if len(parts) <= 3 else "/".join(("…", *parts[-2:]))


def named_values(values: Mapping[str, Any]) -> list[str]:
    """Return `share_ratio=0.41`, `bytes=1024`; without unknown values."""
    return [f"{key}={_value(value)}" for key, value in values.items() if value is not None]


def _value(value: Scalar | tuple[Scalar, ...]) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_value(item) for item in value)})"
    return "''" if value == "" else f"{value:.4g}" if isinstance(value, float) else str(value)
