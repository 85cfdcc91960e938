"""Predicted against measured, as every report shows it."""

from __future__ import annotations

import json

import pytest
from builders import make_analysis, make_estimate, make_layout, make_measurement, make_validation
from hostile import HOSTILE
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Estimate, Validation, ValidationRow
from cs_input_analyzer.report import render, render_validation
from cs_input_analyzer.report.measuring import shown_measurement
from cs_input_analyzer.report.tables import validation_table

RATES = st.floats(1e-3, 1e12)


def make_row(predicted: float, measured: float, spread: float = 0.1) -> ValidationRow:
    return ValidationRow(
        layout=make_layout("1x2x1"),
        role="neighbour",
        predicted_samples_per_s=make_estimate(predicted, spread=spread),
        measured_samples_per_s=make_estimate(measured, count=3),
    )


def words(text: str) -> str:
    return " ".join(text.split())


@given(st.lists(st.tuples(RATES, RATES), min_size=1, max_size=7))
def test_the_summary_is_that_of_the_rows(pairs: list[tuple[float, float]]) -> None:
    validation = Validation(rows=tuple(make_row(*pair) for pair in pairs))
    errors = sorted(abs(predicted / measured - 1) for predicted, measured in pairs)
    assert validation.median_error_ratio is not None
    assert sum(error <= validation.median_error_ratio * (1 + 1e-9) for error in errors) >= len(errors) / 2
    assert errors[0] <= validation.median_error_ratio <= errors[-1]
    assert validation.inside_count == sum(0.9 * predicted <= measured <= 1.1 * predicted for predicted, measured in pairs)


def test_nothing_delivered_is_no_error() -> None:
    nothing = ValidationRow(
        layout=make_layout(),
        role="neighbour",
        predicted_samples_per_s=make_estimate(10.0),
        measured_samples_per_s=Estimate.exact(0.0),
    )
    assert Validation(rows=()).median_error_ratio is None
    assert Validation(rows=(nothing,)).median_error_ratio is None
    assert Validation(rows=(nothing, make_row(110.0, 100.0))).median_error_ratio == pytest.approx(0.1)


def test_console_and_page_have_the_summary_the_notes_and_the_end() -> None:
    rows = (make_row(110.0, 100.0), make_row(200.0, 100.0), make_row(101.0, 100.0))
    validation = Validation(rows=rows, notes=("1x4x1 measured in 1 of 3 rounds: the time was up",), interrupted=True)
    analysis = make_analysis(validation=validation)
    for text in (render_validation(validation), render(analysis, "console", full=True), render(analysis, "html")):
        for part in ("median error 10 %; 2 of 3 measured rates lie inside", "1x4x1 measured in 1 of 3 rounds", "INTERRUPTED"):
            assert part in words(text)
    whole = make_analysis(validation=Validation(rows=rows))
    assert "INTERRUPTED" not in render(whole, "console", full=True)


def test_the_section_alone_is_that_of_the_report() -> None:
    validation = make_validation(notes=("a note",))
    assert render_validation(validation, width=100).strip() in render(
        make_analysis(validation=validation), "console", full=True, width=100
    )


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_line_keeps_to_the_width(width: int) -> None:
    validation = make_validation(notes=("a note of many words " * 20,))
    assert max(map(len, render_validation(validation, width=width).split("\n"))) <= width


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_notes_are_shown_and_do_nothing(name: str) -> None:
    validation = make_validation(notes=(HOSTILE[name],))
    text = render_validation(validation)
    assert "\x1b" not in text
    (line, *_) = validation_table(validation).remarks[1:]
    assert "\n" not in line
    assert HOSTILE["script"] not in render(make_analysis(validation=validation), "html")


def test_a_run_file_without_notes_still_reads() -> None:
    from cs_input_analyzer.report.to_json import from_json

    document = json.loads(render(make_analysis(), "json"))
    for key in ("notes", "interrupted"):
        del document["validation"][key]
    assert from_json(json.dumps(document), origin="x").validation == make_validation()


def test_launches_that_checked_the_plan_are_not_what_it_rests_on() -> None:
    probe, check = make_measurement("1x1x1", [500.0]), make_measurement("1x1x1", [900.0], role="validate")
    analysis = make_analysis(measurements=(probe, check), recommendation=None, verdict_layout=make_layout("1x1x1"))
    assert shown_measurement(analysis) is probe
    assert analysis.supply == probe.samples_per_s
