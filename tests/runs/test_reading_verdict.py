"""What the documents of a run say, and which change of the launch follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Layout
from cs_input_analyzer.runs.advice import Demand, change_of
from cs_input_analyzer.runs.inspection import inspect_run
from tests.builders import make_analysis, make_capacity_model, make_consumption
from tests.runs import logs


def performance(folder: Path, **keys: Any) -> Path:
    return logs.write(folder / "performance.json", [json.dumps(keys)])


@pytest.mark.parametrize("key", ["suspected_input_bottleneck", "suspected_input_bottleneck (beta)"])
def test_not_applicable_with_a_low_rate_is_unknown(tmp_path: Path, key: str) -> None:
    performance(tmp_path, samples_per_sec=100.0, est_samples_per_sec=1000.0, **{key: "Not Applicable"})
    found = inspect_run(tmp_path / "performance.json")
    assert (found.verdict, found.confidence) == ("unknown", None)
    assert found.change.input_factor == pytest.approx(10)
    assert found.change.text.startswith("If its input is what holds it back")


def test_a_run_at_its_estimate_is_fed(tmp_path: Path) -> None:
    found = inspect_run(performance(tmp_path, samples_per_sec=980.0, est_samples_per_sec=1000.0))
    assert found.verdict == "accelerator_bound"
    assert found.change.layout is None
    assert found.change.text.startswith("None")


def test_performance_json_tells_times_and_workers(tmp_path: Path) -> None:
    found = inspect_run(performance(tmp_path, compile_time=330.0, programming_time=75.0, total_samples=10, total_time=2.0))
    assert [(span.phase, span.start_s, span.duration_s) for span in found.timeline] == [
        ("compile", None, 330.0),
        ("programming", None, 75.0),
    ]
    assert found.rates.average_samples_per_s == 5.0
    # Ordinals are workers.
    ordinals = [{"total_samples": 100, "total_time": 10.0, "samples_per_sec": rate} for rate in (10.0, 10.2, 6.0, 9.9)]
    found = inspect_run(performance(tmp_path, samples_per_sec=36.1, ordinals=ordinals))
    assert [worker.is_straggler for worker in found.workers] == [False, False, True, False]


STARVED = {"samples_per_sec": 400.0, "est_samples_per_sec": 1000.0, "suspected_input_bottleneck": "true"}


def test_in_proportion_a_launch_grows_by_nodes(tmp_path: Path) -> None:
    found = inspect_run(performance(tmp_path, **STARVED), current=Layout.parse("3x8x4"))
    assert found.verdict == "input_bound"
    assert (found.rates.average_samples_per_s, found.rates.estimated_samples_per_s) == (400.0, 1000.0)
    change = found.change
    assert change.input_factor == pytest.approx(2.5)
    # 2 streaming nodes of 8 workers; 2.5 times 16 are 40, which five nodes and the chief's hold.
    assert change.layout == Layout.parse("6x8x4")
    assert change.predicted_samples_per_s is None
    assert "40 input workers" in change.text
    assert change.text.startswith("It needs")
    unlaunched = inspect_run(tmp_path / "performance.json").change
    assert unlaunched.layout is None
    assert "2.50 times the input rate" in unlaunched.text


@given(st.integers(1, 12), st.integers(2, 16), st.floats(1.06, 30.0))
def test_the_proportional_launch_is_the_smallest_that_has_the_workers(nodes: int, tasks: int, factor: float) -> None:
    def workers(count: int) -> int:
        return tasks - 1 if count == 1 else (count - 1) * tasks

    current = Layout(nodes=nodes, tasks_per_node=tasks, cpus_per_task=4)
    demand = Demand(samples_per_s=factor * 100.0, source="")
    layout = change_of("input_bound", 100.0, demand, current, None).layout
    assert workers(layout.nodes) >= workers(nodes) * factor * (1 - 1e-9)
    assert layout.nodes == nodes or workers(layout.nodes - 1) < workers(nodes) * factor


def test_an_analysis_gives_the_demand_where_the_run_has_none(tmp_path: Path) -> None:
    analysis = make_analysis(capacity=make_capacity_model(), consumption=make_consumption(7000.0))
    log = logs.write(tmp_path / "run.log", logs.smoothed_log([2.0] * 30))  # 320 samples/s
    unknown = inspect_run(log, current=Layout.parse("2x8x4")).change
    assert (unknown.layout, unknown.input_factor) == (None, None)  # nobody knows what it would take
    found = inspect_run(log, analysis=analysis)
    assert found.change.demand_samples_per_s == 7000.0
    assert found.change.predicted_samples_per_s.low >= 7000.0


@pytest.mark.parametrize(
    ("demand", "batch", "words"),
    [
        (7000.0, 48, "64 samples a step"),  # neither divides the other
        (100.0, None, "the analysis' demand is 100"),  # the run takes 320 samples/s
        (1e6, None, "the analysis' demand is 1,000,000"),
        *((7000.0, batch, "") for batch in (None, 32, 64, 256)),
    ],
)
def test_an_analysis_of_another_network_is_doubted(demand: float, batch: int | None, words: str, tmp_path: Path) -> None:
    analysis = make_analysis(capacity=make_capacity_model(), consumption=make_consumption(demand, batch_size=batch))
    found = logs.inspected(tmp_path, logs.smoothed_log([2.0] * 30), analysis=analysis)
    notes = [note for note in found.notes if "another network" in note]
    assert [words in note for note in notes] == ([True] if words else [])
    assert found.change.demand_samples_per_s == (None if words else demand)
