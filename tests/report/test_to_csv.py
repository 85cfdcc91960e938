"""One row per worker, units in the names, nothing that a spreadsheet would run."""

from __future__ import annotations

import csv
import io

import pytest
from builders import make_analysis, make_bare_analysis, make_measurement, make_steady_state, make_worker
from hostile import HOSTILE, hostile
from hypothesis import HealthCheck, given, settings
from record_strategies import analyses

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report.to_csv import to_csv
from cs_input_analyzer.report.wording import visible


def rows(analysis: Analysis) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(analysis), newline="")))


def test_one_row_for_each_worker() -> None:
    analysis = make_analysis()
    table = rows(analysis)
    workers = [(number, worker) for number, run in enumerate(analysis.measurements) for worker in run.workers]
    assert [(int(row["measurement"]), int(row["index"])) for row in table] == [(number, worker.index) for number, worker in workers]
    for row, (_, worker) in zip(table, workers, strict=True):
        assert worker.samples_per_s is not None
        assert float(row["samples_per_s.estimate"]) == worker.samples_per_s.estimate
        assert float(row["samples_per_s.low"]) == worker.samples_per_s.low
        assert row["private_bytes"] == str(worker.private_bytes)
        assert row["status"] == "done"


def test_missing_cells_are_empty_and_whole_numbers_stay_whole() -> None:
    good, lost = rows(make_analysis(measurements=(make_measurement("1x2x3", (900.0, None)),)))
    assert good["peak_rss_bytes"].isdigit()
    assert (lost["peak_rss_bytes"], lost["samples_per_s.estimate"], lost["steady_state.blocks"]) == ("", "", "")
    assert (lost["nodes"], lost["tasks_per_node"], lost["cpus_per_task"], lost["status"]) == ("1", "2", "3", "lost")


@pytest.mark.parametrize(("moved", "cell"), [(None, ""), ((), "0"), (("map.n", "prefetch.m"), "2")])
def test_a_list_inside_a_cell_is_counted(moved: tuple[str, ...] | None, cell: str) -> None:
    worker = make_worker(900.0, steady_state=make_steady_state(moved=moved))
    (row,) = rows(make_analysis(measurements=(make_measurement("1x1x1", workers=(worker,)),)))
    assert row["steady_state.moved_count"] == cell
    assert "steady_state.moved" not in row


def test_memory_files_and_noise_have_cells() -> None:
    (row,) = rows(make_analysis(measurements=(make_measurement("1x1x1"),)))
    worker = make_worker()
    for name in ("pss_bytes", "rss_growth_bytes_per_min", "buffered_bytes", "file_count"):
        assert float(row[name]) == getattr(worker, name)
    assert worker.noise is not None
    assert float(row["noise.pressure_ratio"]) == worker.noise.pressure_ratio
    assert float(row["noise.reference_ratio"]) == worker.noise.reference_ratio
    assert row["noise.between_processes_ratio"] == ""
    assert float(row["steady_state.outliers"]) == 3
    assert float(row["batch_gap_s.p99"]) == 0.34
    (bare,) = rows(make_analysis(measurements=(make_measurement("1x1x1", (None,)),)))
    assert {bare[name] for name in ("pss_bytes", "buffered_bytes", "file_count", "noise.pressure_ratio")} == {""}


def test_a_run_without_measurements_has_a_head_line_only() -> None:
    bare, usual = to_csv(make_bare_analysis()), to_csv(make_analysis())
    assert bare.count("\n") == 1
    assert bare.split("\n")[0] == usual.split("\n")[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_stays_in_its_cell(name: str) -> None:
    analysis = hostile(make_analysis(), HOSTILE[name])
    table = rows(analysis)
    assert len(table) == sum(len(run.workers) for run in analysis.measurements)
    for row in table:
        assert None not in row
        assert row["node"].removeprefix("'") == visible(HOSTILE[name])


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", " +"])
def test_a_formula_is_text(start: str) -> None:
    text = f"{start}1+1"
    assert {row["node"] for row in rows(hostile(make_analysis(), text))} == {f"'{visible(text)}"}


def test_plain_text_and_negative_numbers_are_left_alone() -> None:
    analysis = make_analysis()
    assert {row["node"] for row in rows(analysis)} == {"probe-01"}
    assert "'" not in to_csv(analysis)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses())
def test_any_analysis_makes_a_table(analysis: Analysis) -> None:
    assert len(rows(analysis)) == sum(len(run.workers) for run in analysis.measurements)
