"""Golden runs: what a person reads of a run, in each format, as files that can be looked at.

A change of the report shows here as a difference of these files. If it is meant, `pytest tests/report/test_golden.py
--snapshot-update` writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest
from builders import (
    make_analysis,
    make_bare_analysis,
    make_cluster,
    make_estimate,
    make_graph,
    make_layout,
    make_measurement,
    make_plan,
)
from page_runs import comparison, run_of_many_workers, usual_run
from pages import Page
from scenes import SCENES
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from variations import BASES, ELSEWHERE, HERE, TOPICS

import cs_input_analyzer as csia
from cs_input_analyzer.records import (
    KeptPlan,
    Options,
    PhaseSpan,
    PlanChange,
    RunInspection,
    RunRates,
    RunSource,
    SamplesPerElement,
    Stall,
    StepSpan,
    StepWorker,
    Surer,
    Tool,
)
from cs_input_analyzer.report import render, render_tuning
from cs_input_analyzer.report.pictures import pictures_of
from cs_input_analyzer.workflows.compare import compare
from wafer_model.ask import ask

TOOL = Tool(name="cs_input_analyzer", version="0")
SLOW = (make_measurement("1x1x2", (500.0,)),)
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


def inspection() -> RunInspection:
    """A run that waited, of which everything was seen."""
    return RunInspection(
        schema_version=1,
        tool=TOOL,
        path="model_dir",
        sources=(
            RunSource(path="run.log", kind="console log", note="cut short"),
            RunSource(path="performance.json", kind="performance.json"),
        ),
        verdict="input_bound",
        confidence=0.95,
        evidence={},
        reasons=("it waited 40 % of the time", "its rate lies below the compiler's"),
        timeline=(
            PhaseSpan(phase="train", start_s=10.0, duration_s=90.0),
            PhaseSpan(phase="checkpoint", start_s=None, duration_s=None, step=500),
        ),
        rates=RunRates(
            rate_samples_per_s=900.0,
            steady_samples_per_s=make_estimate(1000.0),
            undisturbed_samples_per_s=1500.0,
            steady_steps_per_s=make_estimate(4.0),
            batch_size=250.0,
            total_samples=100_000.0,
            total_time_s=100.0,
            worker_steps_per_s=2.0,
        ),
        stalls=(Stall(start_s=50.0, duration_s=9.0, lost_s=8.0, step=200, cause="none known"),),
        stall_count=1,
        spans=tuple(StepSpan(step=step, steps=50.0, duration_s=12.5 + step % 100 / 20) for step in range(0, 400, 50)),
        workers=(
            StepWorker(name="0", samples_per_s=400.0),
            StepWorker(name="1", samples_per_s=200.0, is_straggler=True),
        ),
        change=PlanChange(
            demand_samples_per_s=1500.0,
            demand_source="undisturbed",
            input_factor=1.5,
            current=None,
            layout=None,
            predicted_samples_per_s=None,
            text="Give it half as many workers again.",
        ),
        runs_found=2,
        notes=("an older run was left aside",),
    )


RUNS: dict[str, tuple[Callable[[], Any], str]] = {
    "usual": (usual_run, "console full md html csv sbatch env pictures"),
    "fed": (fed, "console full md"),
    "no_demand": (lambda: usual_run(consumption=None, verdict="unknown", confidence=None, options=Options()), "console"),
    "cannot_run": (cannot_run, "console full csv"),
    "lost_worker": (lost_worker, "console full md csv"),
    "interrupted": (lambda: make_bare_analysis(interrupted=True), "console full md html csv"),
    "unknown_elements": (unknown_elements, "console full md sbatch"),
    "this_host": (lambda: usual_run(cluster=make_cluster(nodes=1, cpus_per_node=16, source="this host")), "console"),
    "a_thousand_workers": (run_of_many_workers, "console full"),
    "saved_by_0.1": (lambda: csia.load_analysis(Path(__file__).with_name("run_0.1.0.json")), "console full md csv"),
    "hidden_secrets": (lambda: usual_run(options=replace(usual_run().options, params_json=SECRET)), "full"),
    "two_currencies": (lambda: make_analysis(**ELSEWHERE), "console full md html"),
    "comparison": (comparison, "console full md html"),
    "comparison_slower": (lambda: compare(make_analysis(), make_analysis(measurements=SLOW), tool=TOOL), "console"),
    "comparison_alike": (lambda: compare(usual_run(), usual_run(), tool=TOOL), "full"),
    "comparison_of_currencies": (lambda: compare(make_analysis(**ELSEWHERE), make_analysis(**HERE), tool=TOOL), "full"),
    "validation": (lambda: make_analysis().validation, "full"),
    "inspection": (inspection, "console full md html"),
    "wafer": (lambda: ask("bert_large", batch_size=1024), "full md"),
    "wafer_streamed": (lambda: ask("gpt2_small", batch_size=1024, mode="weight_streaming"), "full"),
}
CASES = [(name, form) for name, (_, forms) in RUNS.items() for form in forms.split()]


def shown(found: Any, form: str) -> str:
    """The report; of a page, its text."""
    if form == "full":
        return render(found, "console", full=True)
    if form == "md":
        return render(found, "md", full=True)
    if form == "pictures":
        drawn = {name: re.sub(r"(?<=>)(?=<(?!/))", "\n", chart.svg) for name, chart in pictures_of(found).items()}
        return "".join(f"== {name}\n{svg}\n" for name, svg in drawn.items())
    text = render(found, form)  # type: ignore[arg-type]
    text = re.sub(r'(data-plot="[^>]*>).*?(?=</div>)', r"\1", text, flags=re.DOTALL)  # drawings are those of `pictures`
    return re.sub(r"\s*\n\s*", "\n", Page(text).text).strip() + "\n" if form == "html" else text


@pytest.mark.parametrize(("name", "form"), CASES)
def test_it_reads_as_before(name: str, form: str, snapshot: SnapshotAssertion) -> None:
    text = shown(RUNS[name][0](), form)
    assert "hunter2" not in text
    assert text == snapshot(extension_class=TextFile)


def all_that_is_said(run: csia.Analysis) -> list[str]:
    """The short report, the long one, and what `tune` prints; without launch lines, which follow from every plan."""
    texts = [render(run, "console", width=160), render(run, "console", width=160, full=True)]
    texts += [render_tuning(run, width=160)] if run.fixes is not None or not run.findings else []
    lines = [line.rstrip("─ ") for text in texts for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(("srun -", "csrun_"))]


def changes(usual: list[str], lines: list[str]) -> Iterator[str]:
    """Lines that are new or stand for others, and behind a minus those that nothing stands for."""
    for kind, first, last, begin, end in SequenceMatcher(None, usual, lines, autojunk=False).get_opcodes():
        if kind == "delete":
            yield from (f"- {line}" for line in usual[first:last])
        elif kind != "equal":
            yield from lines[begin:end]


@pytest.mark.parametrize("form", ["console", "md"])
@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_told_on_one_screen(name: str, form: Any, snapshot: SnapshotAssertion) -> None:
    text = render(SCENES[name](), form, run_file="run.json")
    assert form == "md" or len(text.splitlines()) <= 30
    assert text == snapshot(extension_class=TextFile)


@pytest.mark.parametrize("topic", TOPICS)
def test_what_one_fact_changes_reads_as_before(topic: str, snapshot: SnapshotAssertion) -> None:
    usual, text = all_that_is_said(make_analysis(**BASES.get(topic, {}))), ""
    for name, overrides in TOPICS[topic].items():
        changed = list(changes(usual, all_that_is_said(make_analysis(**overrides))))
        text += "\n".join([f"== {name}", *(changed or ["nothing"]), "", ""])
    assert text == snapshot(extension_class=TextFile)
