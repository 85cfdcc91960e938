"""The workers of a run, for spreadsheets: a row each, columns that any run has, units in the names, nothing that runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from builders import make_analysis, make_bare_analysis, make_measurement, make_worker
from hostile import hostile
from page_runs import run_of_many_workers, usual_run
from rendered import csv_rows

from cs_input_analyzer.api import load_analysis
from cs_input_analyzer.cli import main
from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import render
from cs_input_analyzer.report.to_csv import COLUMNS
from cs_input_analyzer.report.to_json import plain
from cs_input_analyzer.units import visible


def test_each_column_is_a_path_of_the_document() -> None:
    document: Any = plain(usual_run().measurements)
    workers = [worker for launch in document for worker in launch["workers"]]
    of_launch, of_worker = (set(pd.json_normalize(rows).columns) for rows in (document, workers))
    paths = [name.removeprefix("launch.") for name in COLUMNS if name.startswith("launch.")]
    assert set(paths) - of_launch == {"number"}
    assert {name for name in COLUMNS if not name.startswith("launch.")} <= of_worker


@pytest.mark.parametrize("make", [usual_run, make_bare_analysis, lambda: make_analysis(measurements=())])
def test_columns_do_not_depend_on_the_run(make: Callable[[], Analysis]) -> None:
    assert render(make(), "csv").splitlines()[0] == ",".join(COLUMNS)


def test_each_worker_is_a_row_beside_its_launch() -> None:
    run = usual_run()
    expected = [(number, worker) for number, launch in enumerate(run.measurements) for worker in launch.workers]
    for row, (number, worker) in zip(csv_rows(run), expected, strict=True):
        launch = run.measurements[number]
        assert int(row["launch.number"]) == number
        shape = tuple(int(row[f"launch.layout.{name}"]) for name in ("nodes", "tasks_per_node", "cpus_per_task"))
        assert shape == (launch.layout.nodes, launch.layout.tasks_per_node, launch.layout.cpus_per_task)
        assert float(row["launch.samples_per_s.low"]) == launch.samples_per_s.low
        assert float(row["samples_per_s.estimate"]) == worker.samples_per_s.estimate
        assert float(row["cpu_s_per_sample"]) == worker.cpu_s_per_sample
        assert float(row["batch_gap_s.p99"]) == worker.batch_gap_s.p99
    assert len(csv_rows(run_of_many_workers(300))) == 300


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", " +"])
def test_a_formula_is_text_and_plain_text_and_negative_numbers_are_left_alone(start: str) -> None:
    text = f"{start}1+1"
    assert {row["node"] for row in csv_rows(hostile(make_analysis(), text))} == {f"'{visible(text)}"}
    assert {row["node"] for row in csv_rows(make_analysis())} == {"probe-01"}
    assert "'" not in render(make_analysis(), "csv")
    below = make_analysis(measurements=(make_measurement("1x1x1", workers=(make_worker(900.0, cpu_s_per_sample=-0.5),)),))
    assert csv_rows(below)[0]["cpu_s_per_sample"] == "-0.5"


def test_missing_cells_are_empty_and_whole_numbers_stay_whole() -> None:
    good, lost = csv_rows(make_analysis(measurements=(make_measurement("1x2x3", (900.0, None)),)))
    assert good["peak_rss_bytes"].isdigit()
    empty = ("peak_rss_bytes", "samples_per_s.estimate", "steady_state.batches", "noise.others_ratio")
    assert {lost[name] for name in empty} == {""}
    assert (lost["launch.layout.tasks_per_node"], lost["launch.layout.cpus_per_task"], lost["status"]) == ("2", "3", "lost")


@pytest.mark.parametrize("number", [2**70, 10**400, 1e300, 9.3e18, -(2.0**63)])
def test_numbers_of_any_size_arrive(number: float) -> None:
    workers = (make_worker(900.0, private_bytes=number), make_worker(None, index=1, private_bytes=None))
    row, lost = csv_rows(make_analysis(measurements=(make_measurement("1x2x1", workers=workers),)))
    assert (type(number)(row["private_bytes"]), lost["private_bytes"]) == (number, "")


def test_the_command_and_python_write_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, saved = render(usual_run(), "csv"), tmp_path / "run.json"
    saved.write_text(render(usual_run(), "json"), encoding="utf-8")
    assert main(["report", str(saved), "--format", "csv"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == text.rstrip("\n")
    assert main(["report", str(saved), "-o", str(tmp_path / "command.csv")]) == 0
    load_analysis(saved).to_csv(tmp_path / "python.csv")
    assert [(tmp_path / name).read_text() for name in ("command.csv", "python.csv")] == [text, text]
