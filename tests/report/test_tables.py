"""The cells that the console and the page share."""

from __future__ import annotations

import dataclasses
import math
from typing import get_args

import pytest
from builders import make_alternative, make_analysis, make_estimate, make_measurement, make_plan, make_what_if, make_worker
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Estimate, Op, WorkerStatus
from cs_input_analyzer.report.costs import op_cost_table
from cs_input_analyzer.report.storage import reads_table
from cs_input_analyzer.report.tables import (
    STATUS_WORDS,
    Table,
    alternatives_table,
    measured_table,
    pipeline_table,
    validation_table,
    what_if_table,
)
from cs_input_analyzer.units import MISSING, format_rate_short

SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def column(table: Table, name: str) -> list[str]:
    (index,) = [index for index, column in enumerate(table.columns) if column.name.replace("\n", " ") == name]
    return [row[index] for row in table.rows]


def every_table() -> list[Table]:
    analysis = make_analysis()
    assert analysis.profile is not None
    assert analysis.recommendation is not None
    assert analysis.validation is not None
    assert analysis.storage is not None
    return [
        measured_table(analysis),
        op_cost_table(analysis.profile),
        reads_table(analysis.storage),
        pipeline_table(analysis),
        alternatives_table(analysis.recommendation),
        what_if_table(analysis.recommendation),
        validation_table(analysis.validation),
    ]


@pytest.mark.parametrize("table", every_table(), ids=lambda table: table.title.partition(" (")[0])
def test_every_row_fills_every_column_and_every_column_is_explained(table: Table) -> None:
    assert table.rows
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert all(column.meaning and column.name for column in table.columns)


@given(st.floats(min_value=1e-5, max_value=1e15))
def test_a_short_rate_is_true_to_its_digits(rate: float) -> None:
    text = format_rate_short(rate)
    number, scale = (text[:-1], SCALES[text[-1]]) if text[-1] in SCALES else (text, 1.0)
    assert math.isclose(float(number.replace(",", "")) * scale, rate, rel_tol=0.0051 if rate < 1000 else 0.00051)
    assert len(text) <= 9


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (None, MISSING),
        (0.0, "0"),
        (980.0, "980"),
        (9_999.4, "9,999"),
        (9_999.6, "10.00k"),
        (13_340.0, "13.34k"),
        (276_454.0, "276.5k"),
        (999_960.0, "1.000M"),
        (5_665_029.0, "5.665M"),
        (-20_000.0, "-20.00k"),
    ],
)
def test_short_rates(rate: float | None, text: str) -> None:
    assert format_rate_short(rate) == text


def test_an_interval_stands_in_its_own_column() -> None:
    plan = make_plan(
        alternatives=(
            make_alternative(predicted_samples_per_s=make_estimate(1000.0, spread=0.1)),
            make_alternative(predicted_samples_per_s=Estimate.exact(77.0)),
        )
    )
    table = alternatives_table(plan)
    assert column(table, "samples/s") == ["14,500", "1,000", "77"]
    assert column(table, "90 % interval") == ["13.34k–15.66k", "900–1,100", MISSING]


def test_the_recommended_launch_stands_among_its_alternatives_by_nodes() -> None:
    others = tuple(make_alternative(layout, note="") for layout in ("1x16x2", "3x8x2", "3x16x2"))
    today = make_alternative("9x1x1", note="current launch", is_current=True)
    table = alternatives_table(make_plan("2x16x2", alternatives=(today, *others)))
    assert column(table, "layout") == ["9x1x1", "1x16x2", "2x16x2", "3x8x2", "3x16x2"]
    assert table.strong == 2
    assert column(table, "note")[2] == "recommended"
    assert column(table, "CPUs") == ["9", "32", "64", "48", "96"]


def test_without_alternatives_there_is_no_table() -> None:
    assert alternatives_table(make_plan(alternatives=())).rows == ()
    assert what_if_table(make_plan(what_if=())).rows == ()


def test_a_what_if_tells_its_plan_and_what_it_changes() -> None:
    rows = (make_what_if("twice the files", "5x8x2", note="8 nodes -> 5"), make_what_if(meets_demand=False))
    table = what_if_table(make_plan(what_if=rows))
    assert column(table, "with") == ["twice the files", "one more node"]
    assert column(table, "layout") == ["5x8x2", "3x16x2"]
    assert column(table, "meets demand") == ["yes", "no"]
    assert column(table, "change")[0] == "8 nodes -> 5"
    assert column(table, "limited by") == ["CPU of the input workers"] * 2


def test_workers_that_differ_are_told_by_the_worst() -> None:
    workers = (
        make_worker(900.0, first_batch_s=1.0, private_bytes=2**30, cpu_s_per_sample=None),
        make_worker(800.0, index=1, first_batch_s=3.0, private_bytes=2**29, cpu_s_per_sample=0.002),
    )
    table = measured_table(make_analysis(measurements=(make_measurement("1x2x1", (900.0, 800.0), workers=workers),)))
    assert column(table, "first batch") == ["3 s"]
    assert column(table, "private memory") == ["1 GiB"]
    assert column(table, "CPU per sample") == ["2 ms"]


def test_what_no_worker_delivered_is_missing() -> None:
    table = measured_table(make_analysis(measurements=(make_measurement("1x1x1", (None,)),)))
    for name in ("samples/s", "90 % interval", "CPU per sample", "first batch", "private memory", "peak RSS"):
        assert column(table, name) == [MISSING]
    assert column(table, "status") == ["lost"]


def test_a_run_that_checked_the_plan_is_marked() -> None:
    runs = (make_measurement("1x2x1", role="validate"), make_measurement("1x2x1"))
    assert column(measured_table(make_analysis(measurements=runs)), "layout") == ["1x2x1 validate", "1x2x1"]


def test_every_status_has_words() -> None:
    assert set(STATUS_WORDS) == set(get_args(WorkerStatus))


def test_an_op_that_nobody_knows_is_named_plainly() -> None:
    analysis = make_analysis()
    strange = Op(name="kafka", kind="Kafka", parameters={})
    known = dataclasses.replace(analysis, pipeline=dataclasses.replace(analysis.pipeline, ops=(*analysis.pipeline.ops, strange)))
    (remark,) = pipeline_table(known).remarks
    assert remark.startswith("`kafka` is of another library (kind Kafka)")
    assert pipeline_table(analysis).remarks == ()
