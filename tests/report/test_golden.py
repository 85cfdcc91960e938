"""Golden runs: what a person reads of a run, in each format, as files that can be looked at.

A change of the report shows here as a difference of these files. If it is meant, `pytest tests/report/test_golden.py
--snapshot-update` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import (
    make_analysis,
    make_bare_analysis,
    make_cluster,
    make_estimate,
    make_finding,
    make_graph,
    make_host,
    make_layout,
    make_measurement,
    make_op_cost,
    make_plan,
    make_profile,
)
from page_runs import run_of_many_workers, usual_run
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

import cs_input_analyzer as csia
from cs_input_analyzer.records import KeptPlan, Options, SamplesPerElement, Surer, Tool, Validation, ValidationRow
from cs_input_analyzer.report import render
from cs_input_analyzer.workflows.compare import compare
from wafer_model.ask import ask

SECRET = '{"api_key": "hunter2", "batch_size": 8}'


class TextFile(SingleFileSnapshotExtension):
    """One readable file for each text."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


def fed() -> csia.Analysis:
    """A plan that feeds the accelerator, kept from an earlier run, with what would make it surer."""
    plan = make_plan(
        "2x16x2",
        meets_demand=True,
        fewest_tasks=8,
        most_tasks=32,
        kept_from=KeptPlan(layout=make_layout("2x16x2"), created_at="2026-01-01T00:00:00+00:00"),
        fresh=make_layout("2x8x4"),
        surer=(Surer(how="node", half_width_ratio=0.05), Surer(how="launches", half_width_ratio=0.11)),
    )
    return usual_run(verdict="accelerator_bound", confidence=0.97, recommendation=plan, verdict_layout=plan.layout)


def cannot_run() -> csia.Analysis:
    return usual_run(
        recommendation=None, no_plan="28 input workers share 16 files: some would have nothing to stream", verdict="unknown"
    )


def lost_worker() -> csia.Analysis:
    return usual_run(measurements=(make_measurement("1x1x2"), make_measurement("1x4x2", (940.0, 930.0, None, 950.0))))


def unknown_elements() -> csia.Analysis:
    counted = SamplesPerElement(value=None, source="no op of the graph says how many samples an element holds")
    return usual_run(pipeline=make_graph(samples_per_element=counted))


def validated() -> csia.Analysis:
    rows = (
        ValidationRow(
            layout=make_layout("2x16x2"),
            role="recommended",
            predicted_samples_per_s=make_estimate(15_000.0),
            measured_samples_per_s=make_estimate(14_600.0),
        ),
        ValidationRow(
            layout=make_layout("1x1x2"),
            role="neighbour",
            predicted_samples_per_s=make_estimate(1000.0),
            measured_samples_per_s=make_estimate(1012.0),
        ),
    )
    return usual_run(validation=Validation(rows=rows, notes=("measured another day",), demand_samples_per_s=7000.0))


def comparison() -> Any:
    old = make_analysis()
    new = make_analysis(
        measurements=(make_measurement("1x1x1", (200.0,), samples_per_s=make_estimate(200.0)), make_measurement("1x1x2")),
        profile=make_profile(ops=(make_op_cost("map", self_cpu_s_per_sample=0.01), make_op_cost("fresh"))),
        findings=(make_finding("CSI104", op="map_7"),),
        host=make_host(tensorflow_version="2.21.0"),
        verdict="input_bound",
    )
    return compare(old, new, tool=Tool(name="cs_input_analyzer", version="0"), old_path="old.json", new_path="new.json")


RUNS: dict[str, Callable[[], Any]] = {
    "usual": usual_run,
    "fed": fed,
    "no_demand": lambda: usual_run(consumption=None, verdict="unknown", confidence=None, options=Options()),
    "cannot_run": cannot_run,
    "lost_worker": lost_worker,
    "interrupted": lambda: make_bare_analysis(interrupted=True),
    "unknown_elements": unknown_elements,
    "this_host": lambda: usual_run(cluster=make_cluster(nodes=1, cpus_per_node=16, source="this host")),
    "a_thousand_workers": run_of_many_workers,
    "validated": validated,
    "saved_by_0.1": lambda: csia.load_analysis(Path(__file__).with_name("run_0.1.0.json")),
    "hidden_secrets": lambda: usual_run(
        options=replace(usual_run().options, params_json='{"api_key": "hunter2", "batch_size": 8}')
    ),
    "comparison": comparison,
    "wafer": lambda: ask("bert_large", batch_size=1024),
}
FORMS: dict[str, dict[str, bool]] = {"console": {}, "console in full": {"full": True}, "md": {"full": True}}
OF_PLANS = ("sbatch", "env")
NO_RUNS, NO_PLANS = {"comparison", "wafer"}, {"comparison", "wafer", "cannot_run", "interrupted", "saved_by_0.1"}
CASES = [
    *((name, form) for name in RUNS for form in FORMS),
    *((name, "csv") for name in RUNS if name not in NO_RUNS),
    *((name, form) for name in RUNS if name not in NO_PLANS for form in OF_PLANS),
]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_it_reads_as_before(name: str, form: str, snapshot: SnapshotAssertion) -> None:
    text = render(RUNS[name](), form.split()[0], **FORMS.get(form, {}))  # type: ignore[arg-type]
    assert "hunter2" not in text
    assert text == snapshot(extension_class=TextFile)
