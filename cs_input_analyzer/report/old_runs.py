"""Fills in what runs of release 0.1 did not store: it stood in a text, or was searched for again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cs_input_analyzer.records import Analysis, CapacityModel, Estimate, LaunchPlan

__all__ = ["completed", "searched_supply"]


def completed(run: Analysis, document: Mapping[str, object]) -> Analysis:
    """The run as this release writes it; `document` is the JSON that it was read from. A run of this release stays as it is."""
    if "supply" in document:
        return run
    plan = None if run.recommendation is None else _with_current(run.recommendation)
    model = None if run.capacity is None else _with_storage(run.capacity)
    return replace(run, recommendation=plan, capacity=model, supply=searched_supply(run))


def _with_current(plan: LaunchPlan) -> LaunchPlan:
    marked = (replace(other, is_current=other.note.startswith("current launch")) for other in plan.alternatives)
    return replace(plan, alternatives=tuple(marked))


def _with_storage(model: CapacityModel) -> CapacityModel:
    marked = (replace(limit, is_storage=limit.name.startswith("storage")) for limit in model.ceilings)
    return replace(model, ceilings=tuple(marked))


def searched_supply(run: Analysis) -> Estimate | None:
    """The rate that the verdict judged: predicted for its layout if there is a prediction, else measured there."""
    layout, plan = run.verdict_layout, run.recommendation
    if plan is not None:
        predicted = {other.layout: other.predicted_samples_per_s for other in reversed(plan.alternatives)}
        predicted[plan.layout] = plan.predicted_samples_per_s
        if layout in predicted:
            return predicted[layout]
    probes = (launch for launch in reversed(run.measurements) if launch.role == "probe" and launch.layout == layout)
    return next((launch.samples_per_s for launch in probes), None)
