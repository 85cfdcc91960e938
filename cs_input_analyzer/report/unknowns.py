"""What is not known and widens the interval of the plan, each with the option that closes the gap: the widest ones first."""

from __future__ import annotations

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report.wording import Facts, one_line
from cs_input_analyzer.units import format_rate

# An extrapolation up to this far adds little to the interval.
NEAR = 1.5


def unknowns(analysis: Analysis) -> Facts:
    """The option to type, and what is not known without it."""
    plan, cluster, consumption = analysis.recommendation, analysis.cluster, analysis.consumption
    samples = analysis.pipeline.samples_per_element
    found: list[tuple[str, str]] = []
    if consumption is None:
        found.append(("--demand SAMPLES_PER_S", "the accelerator's rate (or --step-time S --batch-size N)"))
    elif consumption.is_extrapolated:
        found.append(("--calibrate SAMPLES_PER_S", "the demand: the model was extrapolated beyond the runs that it was fitted to"))
    if samples is not None and samples.is_unknown:
        found.append(("--samples-per-element N", "how many samples an element holds"))
    if analysis.interrupted or not analysis.measurements:
        found.append(("--max-seconds S", "the rates that were not measured"))
    if plan is not None:
        found += _of_plan(analysis)
    if cluster.speed_ratio is None and not cluster.is_measured:
        found.append(("--node-speed R", "how fast a CPU of a node is beside one of this host"))
    if cluster.threads_per_core is None:
        found.append(("--threads-per-core N", "whether two CPUs of a node share one core"))
    return tuple((option, one_line(text)) for option, text in found)


def _of_plan(analysis: Analysis) -> list[tuple[str, str]]:
    plan = analysis.recommendation
    assert plan is not None
    found = []
    if plan.extrapolation_ratio > NEAR:
        beyond = format_rate(plan.extrapolation_ratio, "times")
        found.append(("validate RUN.json", f"the launch itself: it lies {beyond} beyond what was measured"))
    if plan.storage == "unverified":
        found.append(("--storage-bandwidth B/s", "what the storage gives to all nodes together"))
    return found
