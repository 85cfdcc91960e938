"""Analysis -> compact JSON for scripts and agents: the answer, and nothing of what it rests on.

Fields, all of them always there; null is unknown:

    verdict         `input_bound`, `balanced`, `accelerator_bound` or `unknown`; `confidence`: its probability, 0 to 1
    unit            of all rates: `samples/s`, or `elements/s` where nobody knows how many samples an element holds
    supply, demand  `{estimate, low, high}`, a 90 % interval, per second
    launch          `nodes`, `tasks_per_node`, `cpus_per_task`, `predicted`, `meets_demand`, `limited_by`, `csrun_wse`, `srun`;
                    null where none is recommended, then `no_plan` says why
    findings        three at most, by gain: `code`, `severity`, `source` (`path:line`), `op`, `message`, `fix`, `gain` (rate with
                    the fix over rate without, measured; null where it was not), `is_gain` (proven, and more than noise)
    finding_count   of all findings
    unknowns        three at most, widest first: `option` that closes the gap, `what` is not known
    interrupted     whether the run was stopped before its end
    next            the command to type next
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from cs_input_analyzer.records import Analysis, Estimate, Finding, LaunchPlan
from cs_input_analyzer.report.run_document import FINDINGS_SHOWN, UNKNOWNS_SHOWN, by_gain, next_command
from cs_input_analyzer.report.unknowns import unknowns
from cs_input_analyzer.report.wording import supply_of


def to_summary(analysis: Analysis) -> str:
    """The fields that the module's documentation lists, one line each."""
    samples = analysis.pipeline.samples_per_element
    plan = analysis.recommendation
    found = {
        "verdict": analysis.verdict,
        "confidence": analysis.confidence,
        "unit": "elements/s" if samples is not None and samples.is_unknown else "samples/s",
        "supply": _rate(supply_of(analysis)),
        "demand": _rate(analysis.consumption.samples_per_s if analysis.consumption is not None else None),
        "launch": None if plan is None else _launch(plan),
        "no_plan": analysis.no_plan,
        "findings": [_finding(finding) for finding in by_gain(analysis.findings)[:FINDINGS_SHOWN]],
        "finding_count": len(analysis.findings),
        "unknowns": [{"option": option, "what": what} for option, what in unknowns(analysis)[:UNKNOWNS_SHOWN]],
        "interrupted": analysis.interrupted,
        "next": next_command(analysis),
    }
    lines = (f"  {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in found.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rate(rate: Estimate | None) -> dict[str, float] | None:
    return None if rate is None else {"estimate": rate.estimate, "low": rate.low, "high": rate.high}


def _launch(plan: LaunchPlan) -> dict[str, Any]:
    return {
        **dataclasses.asdict(plan.layout),
        "predicted": _rate(plan.predicted_samples_per_s),
        "meets_demand": plan.meets_demand,
        "limited_by": plan.limited_by,
        "csrun_wse": plan.launch.csrun_wse if plan.launch is not None else None,
        "srun": plan.launch.srun if plan.launch is not None else None,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    named = ("code", "severity", "source", "op", "message", "fix")
    gain = None if finding.measured_gain is None else finding.measured_gain.estimate
    return {**{name: getattr(finding, name) for name in named}, "gain": gain, "is_gain": finding.is_gain}
