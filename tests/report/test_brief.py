"""The short report, in every format: a screen of it, whatever the run holds, with what makes a reader act."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from builders import make_finding, make_graph, make_measurement, make_worker
from page_runs import usual_run

from cs_input_analyzer.records import Capture, SamplesPerElement
from cs_input_analyzer.report import render
from cs_input_analyzer.report.run_document import run_document


def test_it_ends_with_what_to_type_next_for_the_file_that_it_was_read_from() -> None:
    run = usual_run(validation=None)
    for run_file, named in ((None, "RUN.json"), ("a b.html", "'a b.html'")):
        text = render(run, "console", run_file=run_file)
        assert text.splitlines()[-2:] == [f"cs_input_analyzer validate {named}", f"cs_input_analyzer report {named} --full"]
        assert f"report {named} --format sbatch" in render(run, "console", full=True, run_file=run_file)


def test_it_says_that_the_training_of_a_captured_script_never_ran() -> None:
    captured = Capture(command="python run.py", picked=1, candidates=())
    for form in ("console", "md"):
        assert "its training never ran" in render(usual_run(capture=captured), form)
        assert "its training never ran" not in render(usual_run(), form)


def test_no_rate_is_in_samples_where_nobody_knows_how_many_an_element_holds() -> None:
    unknown = make_graph(samples_per_element=SamplesPerElement(value=None, source="a generator"))
    run: Any = usual_run(pipeline=unknown, findings=())
    for full in (False, True):
        text = render(run, "console", full=full)
        assert "elements/s" in text
        assert "samples/s" not in text
    # Code and the name of a target are never reworded.
    named = dataclasses.replace(unknown, target="of/samples/s.py:fn")
    run = usual_run(pipeline=named, findings=(make_finding(before="x = 1", after="x = 2  # 7 samples/s, per sample"),))
    assert run_document(run).name == named.target
    assert "x = 2  # 7 samples/s, per sample" in render(run, "console", full=True)


@pytest.mark.parametrize(
    ("status", "rate", "is_said"),
    [
        ("deadline", 1000.0, False),
        ("deadline", None, True),
        ("lost", 1000.0, True),
        ("data_error", 1000.0, True),
        ("done", 1000.0, False),
    ],
)
def test_a_worker_that_was_only_short_of_time_ended_well(status: Any, rate: float | None, is_said: bool) -> None:
    launch = make_measurement("1x1x2", workers=(make_worker(rate, status=status, message="ended by us"),))
    run = usual_run(measurements=(launch,), interrupted=False)
    assert ("did not end well" in render(run, "console")) is is_said
