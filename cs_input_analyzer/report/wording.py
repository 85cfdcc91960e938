"""The sentences and facts of a report, as plain text: the console and the page say the same thing because both say it from here.

Nothing is computed but the text: a number appears only if it is a field or a property of a record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cs_input_analyzer.pipeline.samples import element_sentence
from cs_input_analyzer.records import (
    Analysis,
    Consumption,
    Estimate,
    FileSet,
    Finding,
    LaunchPlan,
    Measurement,
    Op,
    Options,
    Scalar,
)
from cs_input_analyzer.units import (
    MISSING,
    format_bytes,
    format_count,
    format_estimate,
    format_rate,
    format_ratio,
    format_seconds,
)

Facts = tuple[tuple[str, str], ...]
Pairs = Facts

# Terminal control (C0, DEL, C1), line separators that only some readers break at, text direction overrides, half surrogates.
# Tab and newline are not in it.
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")

# What the sureness is put between.
VERDICTS = {
    "input_bound": ("INPUT-BOUND", "the accelerator starves: it waits for input."),
    "balanced": ("BALANCED", "supply lies between the demand and the demand with headroom."),
    "accelerator_bound": ("ACCELERATOR-BOUND", "the input keeps up with the accelerator."),
    "unknown": ("UNKNOWN", "whether the accelerator starves cannot be said."),
}
# The verdict in five words.
SUMMARIES = {
    "input_bound": "The accelerator waits for input",
    "balanced": "Supply is near the demand",
    "accelerator_bound": "The input feeds the accelerator",
    "unknown": "No verdict could be reached",
}
# What a limit's name means, where it does not say so itself.
LIMITS = {
    "worker scaling": "worker scaling: more CPUs per task add little, so it grows by tasks and nodes",
    "round-robin feed": "round-robin feed: the accelerator takes batches in turn, and waits for the slowest worker",
}

STORAGE = {
    "measured": "its ceiling was measured",
    "declared": "its ceiling is the declared one",
}
GIVE_A_DEMAND = "give the accelerator's rate with --demand SAMPLES_PER_S, or with --step-time SECONDS --batch-size N"


def visible(text: str) -> str:
    """Text that cannot act on a terminal or hide: control characters become `\\x1b`, as Python writes them. Newlines stay."""
    return INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n").expandtabs(4))


def one_line(text: str) -> str:
    """`visible`, with newlines shown as `\\n`."""
    return visible(text).replace("\n", "\\n")


# --- verdict -----------------------------------------------------------------------------------------------------------------


def verdict_sentence(analysis: Analysis) -> str:
    """Is the accelerator starved, and how sure is that."""
    word, meaning = VERDICTS[analysis.verdict]
    is_sure = analysis.confidence is not None and analysis.verdict != "unknown"
    return f"{word}{f' ({format_ratio(analysis.confidence)} sure)' if is_sure else ''}: {meaning}"


def supply_and_demand(analysis: Analysis) -> Facts:
    """The two sides of the verdict, each with its interval, and what to do where one is missing."""
    samples = analysis.pipeline.samples_per_element
    facts: list[tuple[str, str]] = []
    if samples is not None:
        step = analysis.consumption.batch_size if analysis.consumption is not None else None
        facts.append(("counted", one_line(element_sentence(samples, analysis.options.batch_size or step))))
    elif analysis.options.batch_size is not None and analysis.options.step_time_s is None:
        facts.append(("counted", f"{analysis.options.batch_size} samples an element, as --batch-size said then: check that number"))
    supply, plan = supply_of(analysis), analysis.recommendation
    if analysis.verdict_layout is not None:
        origin = "launch in use" if analysis.options.current == analysis.verdict_layout else _origin(analysis)
        facts.append(("supply", f"{format_estimate(supply)}, {origin} {analysis.verdict_layout}"))
    elif supply is not None:
        facts.append(("supply", f"{format_estimate(supply)}, recommended launch {plan.layout if plan is not None else ''}"))
    if analysis.consumption is not None:
        facts.append(("demand", demand_text(analysis.consumption, analysis.options)))
    if analysis.no_plan is not None:
        facts.append(("launch", one_line(f"none is recommended: {analysis.no_plan}")))
    if analysis.consumption is None:
        facts.append(("to know", GIVE_A_DEMAND))
    elif analysis.verdict == "unknown" and supply is not None:
        facts.append(("why", _settles(supply, analysis.consumption.samples_per_s)))
    elif analysis.no_plan is None and analysis.verdict == "unknown":
        facts.append(("why", "nothing was measured that a supply could be predicted from"))
    return tuple(facts)


def _settles(supply: Estimate, demand: Estimate) -> str:
    """Why neither side can be called, and what would settle it: the wider interval made narrower."""
    why = "no verdict is 60 % probable, as the intervals overlap too far: "
    if supply.low <= 0 or (demand.low > 0 and demand.high / demand.low < supply.high / supply.low):
        return f"{why}the supply's is the wider one, and a longer --max-seconds, or validate on the nodes, would narrow it"
    return f"{why}the demand's is the wider one, and a measured --step-time, --calibrate or a --compile-report would narrow it"


def _origin(analysis: Analysis) -> str:
    return "recommended launch" if analysis.recommendation is not None else "measured on this host,"


def supply_of(analysis: Analysis) -> Estimate | None:
    """The rate that the verdict judged; that of the plan where no launch could be judged."""
    plan = analysis.recommendation
    if analysis.verdict_layout is not None or plan is None:
        return analysis.supply
    return plan.predicted_samples_per_s


def demand_text(consumption: Consumption, options: Options) -> str:
    parts = [format_estimate(consumption.samples_per_s)]
    if consumption.source == "step_time" and options.step_time_s is not None:
        parts.append(f"from {format_seconds(options.step_time_s)} a step of {format_count(consumption.batch_size)} samples")
    else:
        origin = f"{consumption.source.replace('_', ' ')}{', extrapolated' if consumption.is_extrapolated else ''}"
        parts.append(f"({origin})")
    parts += [text for text in (consumption.system, (consumption.mode or "").replace("_", " ")) if text]
    if consumption.limited_by:
        parts.append(f"limited by {consumption.limited_by}")
    return one_line(" ".join(parts))


def short_source(source: str | None) -> str:
    """`…/pipelines/input_fn.py:42`: of a path, the file and its folder."""
    parts = one_line(source or "").split("/")
    return "/".join(parts) if len(parts) <= 3 else "/".join(("…", *parts[-2:]))


# --- launch ------------------------------------------------------------------------------------------------------------------


def plan_facts(plan: LaunchPlan, analysis: Analysis) -> Facts:
    """What the recommended launch will do, and what that rests on."""
    facts = [
        ("predicted", f"{format_estimate(plan.predicted_samples_per_s)}, 90 % interval"),
        ("demand", _demand_met(plan, analysis.options)),
        ("limited by", LIMITS.get(plan.limited_by, plan.limited_by)),
        ("why", plan.why),
        ("input workers", _input_workers(plan)),
        (
            "memory",
            f"{format_bytes(plan.memory_bytes_per_node)} per node of {format_bytes(analysis.cluster.memory_bytes_per_node)}",
        ),
        ("storage", _storage(plan, analysis)),
        ("extrapolation", _extrapolation(plan, analysis)),
    ]
    if plan.expected_accelerator_utilization is not None:
        facts.append(("accelerator", busy_text(plan.expected_accelerator_utilization)))
    return tuple((label, one_line(text)) for label, text in facts)


def busy_text(ratio: Estimate) -> str:
    """`busy 99.7 to 100 % of the time`: only the interval, as its estimate is mostly one of its ends."""
    low, high = format_ratio(ratio.low), format_ratio(ratio.high)
    span = low if low == high else f"{low.removesuffix(' %')} to {high}"
    return f"busy {span} of the time"


def _storage(plan: LaunchPlan, analysis: Analysis) -> str:
    """Whether the ceiling of the storage is known, and if not, which of its two numbers is missing."""
    if plan.storage != "unverified":
        return STORAGE[plan.storage]
    read = analysis.capacity.bytes_read_per_sample if analysis.capacity is not None else None
    if read is None:
        return "unverified: what a sample reads was not measured"
    return f"unverified: a sample reads {format_bytes(read)}, but what the storage gives is not known (--storage-bandwidth)"


def _demand_met(plan: LaunchPlan, options: Options) -> str:
    if plan.meets_demand is None or plan.headroom_ratio is None:
        return f"unknown: {GIVE_A_DEMAND}"
    margin = format_ratio(abs(plan.headroom_ratio))
    asked = f"{format_ratio(options.headroom_ratio)} headroom asked for"
    if plan.meets_demand:
        return f"met: the low end of the interval is {margin} above it ({asked})"
    if plan.headroom_ratio < 0:
        fallen = f"NOT met: the low end of the interval falls {margin} short of it"
        return f"{fallen}; no layout of this cluster does better, limited by {plan.limited_by}"
    return f"NOT met with headroom: the low end of the interval is only {margin} above it ({asked}), limited by {plan.limited_by}"


def _input_workers(plan: LaunchPlan) -> str:
    streaming = f"{format_count(plan.input_workers)} stream"
    if plan.single_task_nodes == 0:
        return f"{streaming} (the chief does not)"
    if plan.single_task_nodes == 1:
        return f"{streaming} (1 node runs a single task that does not)"
    return f"{streaming} ({format_count(plan.single_task_nodes)} nodes run a single task that does not)"


def _extrapolation(plan: LaunchPlan, analysis: Analysis) -> str:
    if plan.extrapolation_ratio <= 1:
        text = "none: the plan lies inside what was measured"
    else:
        text = f"{format_rate(plan.extrapolation_ratio, 'times')} beyond what was measured; the interval is widened for it"
    confirming = confirming_measurement(analysis)
    if confirming is not None:
        return f"{text}; workers measured again with TF_CONFIG of {format_count(confirming.num_workers)} workers"
    return f"{text}; not measured again with the planned worker count"


def confirming_measurement(analysis: Analysis) -> Measurement | None:
    """The run that measured with the planned worker count. (An edited file may point beside the list.)"""
    index = analysis.recommendation.confirmed_by if analysis.recommendation is not None else None
    return analysis.measurements[index] if index is not None and 0 <= index < len(analysis.measurements) else None


# --- pipeline and findings ---------------------------------------------------------------------------------------------------


def parameters_text(op: Op) -> str:
    """`num_parallel_calls=8, deterministic=True`, and what it joins where it reads from several ops."""
    joined = [f"joins {' + '.join(op.inputs)}"] if len(op.inputs) > 1 else []
    return one_line(", ".join(joined + [f"{key}={_value(value)}" for key, value in op.parameters.items() if value is not None]))


def evidence_text(evidence: Mapping[str, Scalar]) -> str:
    """`share_ratio=0.41, bytes=1024`; what is not known is left out."""
    return one_line(", ".join(f"{key}={_value(value)}" for key, value in evidence.items() if value is not None))


def workers_text(started: int, announced: int) -> str:
    """`2`, or `2 of 5` where TF_CONFIG announced more than were started."""
    return format_count(started) if announced == started else f"{format_count(started)} of {format_count(announced)}"


def gain_text(finding: Finding) -> str:
    """What the fix was measured to gain; empty where it was not."""
    if finding.measured_gain is None:
        return ""
    same = finding.proven
    verified = verified_text(finding.verified_elements, finding.pass_elements) if same else "sameness of elements not verified"
    most = most_text(finding.most_gain)
    return f"{format_estimate(finding.measured_gain, lambda ratio: format_rate(ratio, 'times'))} the rate{most}, {verified}"


def verified_text(elements: int, of: int | None) -> str:
    """`same elements, verified on 40 of 64`."""
    if not elements:  # runs of before did not save how many
        return "same elements"
    return f"same elements, verified on {format_count(elements)} of {'an unknown number' if of is None else format_count(of)}"


def most_text(most: float | None) -> str:
    """The bound of a gain, behind it; empty where the costs tell none."""
    return "" if most is None else f" (by the costs of the ops {format_rate(most, 'times')} at most)"


def pipeline_facts(analysis: Analysis) -> Facts:
    """What the pipeline is and reads."""
    pipeline = analysis.pipeline
    elements = ", ".join(f"{part.name} {part.dtype}{_shape(part.shape)}" for part in pipeline.element_spec)
    facts = [
        ("target", pipeline.target),
        ("element", elements or MISSING),
        ("batch size", "varies" if pipeline.batch_size is None else format_count(pipeline.batch_size)),
    ]
    if pipeline.files is not None:
        facts.append(("files", _files(pipeline.files)))
    if pipeline.redirected:
        facts.append(("redirected", f"{', '.join(pipeline.redirected)}: moved to a private folder while measuring"))
    if pipeline.stand_ins and analysis.capture is None:  # of a script, what is said of it names them
        facts.append(("stood in for", f"{', '.join(pipeline.stand_ins)}: not installed; nothing of the data comes from there"))
    return tuple((label, one_line(text)) for label, text in facts)


def _files(files: FileSet) -> str:
    each = f"{format_bytes(files.smallest_bytes)} to {format_bytes(files.largest_bytes)} each"
    where = f", in {files.directory}" if files.directory else ""
    return f"{format_count(files.count)}, {format_bytes(files.bytes)} in all, {each}{where}"


def _shape(shape: tuple[int | None, ...] | None) -> str:
    if shape is None:
        return "[?]"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def _value(value: Scalar | tuple[Scalar, ...]) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_value(item) for item in value)})"
    if value == "":
        return "''"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
