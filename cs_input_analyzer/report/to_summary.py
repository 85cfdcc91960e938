"""Analysis -> compact JSON for scripts and agents: the answer, and nothing of what it rests on. docs/interfaces.md has its fields,
all of them always there; null is unknown."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from cs_input_analyzer.records import Analysis, Estimate, Finding, LaunchPlan
from cs_input_analyzer.report.findings import FINDINGS_SHOWN, by_gain
from cs_input_analyzer.report.planned import unknowns
from cs_input_analyzer.report.run_document import UNKNOWNS_SHOWN, next_command
from cs_input_analyzer.report.wording import AS_MEASURED, ON_IDLE_NODE, supply_of


def to_summary(analysis: Analysis, run_file: str) -> str:
    """One field a line. `run_file`: the run's own, for the commands that it names."""
    samples, plan = analysis.pipeline.samples_per_element, analysis.recommendation
    found = {
        "verdict": analysis.verdict,
        "confidence": analysis.confidence,
        "unit": "elements/s" if samples is not None and samples.is_unknown else "samples/s",
        "rates": AS_MEASURED if analysis.is_planned_as_measured else ON_IDLE_NODE,
        "idle_factor": analysis.idle_factor,
        "supply": _rate(supply_of(analysis)),
        "demand": _rate(analysis.consumption.samples_per_s if analysis.consumption is not None else None),
        "launch": None if plan is None else _launch(plan),
        "no_plan": analysis.no_plan,
        "findings": [_finding(finding) for finding in by_gain(analysis.findings)[:FINDINGS_SHOWN]],
        "finding_count": len(analysis.findings),
        "unknowns": [{"option": option, "what": what} for option, what in unknowns(analysis, run_file)[:UNKNOWNS_SHOWN]],
        "interrupted": analysis.interrupted,
        "next": next_command(analysis, run_file),
    }
    lines = (f"  {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in found.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rate(rate: Estimate | None) -> dict[str, float] | None:
    return None if rate is None else {"estimate": rate.estimate, "low": rate.low, "high": rate.high}


def _launch(plan: LaunchPlan) -> dict[str, Any]:
    lines = plan.launch
    return {
        **dataclasses.asdict(plan.layout),
        "predicted": _rate(plan.predicted_samples_per_s),
        "quiet": _rate(plan.quiet_samples_per_s),
        "meets_demand": plan.meets_demand,
        "probability": plan.probability,
        "limited_by": plan.limited_by,
        "csrun_wse": lines.csrun_wse if lines is not None else None,
        "srun": lines.srun if lines is not None else None,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    named = ("code", "severity", "source", "op", "message", "fix")
    gain = None if finding.measured_gain is None else finding.measured_gain.estimate
    return {**{name: getattr(finding, name) for name in named}, "gain": gain, "is_gain": finding.is_gain}
