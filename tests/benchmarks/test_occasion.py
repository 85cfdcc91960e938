"""`benchmarks.occasion`: what the report makes of them, and that one is saved whatever happens."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.occasion import measuring, report
from benchmarks.occasion.saved import DATA, add, saved

COLUMNS = (*measuring.COLUMNS, *measuring.HOST_COLUMNS)


def row(pipeline: str, rate: float, **values: Any) -> list[Any]:
    usual = {"pipeline": pipeline, "tasks": 1, "cpus": 1, "launch": 0, "task": 0, "slice": 0, "wall_us": 1_000_000}
    given = {"samples": rate, "cpu_us": 900_000, "host_cpu_ms": 1000, **values}
    return [{**dict.fromkeys(COLUMNS, 0), **usual, **given}[name] for name in COLUMNS]


def occasion(number: int, rows: list[list[Any]], **head: Any) -> dict[str, Any]:
    usual = {
        "time": f"2026-11-{number + 1:02d}T10:00:00Z",
        "ended": "complete",
        "others_ratio": 0.0,
        "notes": [],
        "cpu_model": "a CPU",
        "cpus": 2,
        "tensorflow": "2.21.0",
        "pipelines_digest": "0",
        "columns": list(COLUMNS),
    }
    return {**usual, **head, "rows": rows}


def test_planted_spreads_are_found() -> None:
    rng = np.random.default_rng(1)
    occasions = []
    for number in range(40):
        rows = []
        level = rng.normal(0, 0.2)
        for launch in range(4):
            own = level + rng.normal(0, 0.05)
            rows += [row("a", 1000 * math.exp(own + rng.normal(0, 0.01)), launch=launch, slice=index) for index in range(6)]
        occasions.append(report.read(occasion(number, rows)))
    found = report.spreads(occasions)["a 1x1x1"]
    for part, truth in (("launch", 0.01), ("occasion", 0.05), ("between", 0.2)):
        assert found[part].low < truth < found[part].high
    assert found["between"].high < 0.3
    assert 800 < found["samples_per_s"] < 1250


def test_what_two_layouts_share_is_not_in_their_ratio() -> None:
    rows_of = [[row("a", 100 * level), row("a", 180 * level, cpus=2)] for level in (1.0, 0.5, 2.0)]
    found = report.spreads([report.read(occasion(number, rows)) for number, rows in enumerate(rows_of)])
    assert found["a 1x1x2 / 1x1x1"]["ratio"] == pytest.approx(1.8)
    assert found["a 1x1x2 / 1x1x1"]["between"].sd == pytest.approx(0, abs=1e-12)
    assert found["a 1x1x2"]["between"].sd > 0.5


def test_tasks_of_a_launch_are_added_and_one_that_lacks_a_task_is_left_out() -> None:
    together = [row("a", 100, tasks=2, task=0), row("a", 50, tasks=2, task=1), row("a", 100, tasks=2, task=0, slice=1)]
    assert [one.samples_per_s for one in report.read(occasion(0, together)).slices] == [150]


@given(st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=6), st.floats(-3, 3))
def test_a_spread_does_not_depend_on_the_level(groups: list[list[float]], shift: float) -> None:
    one, other = report.around(groups), report.around([[value + shift for value in group] for group in groups])
    assert one.degrees == other.degrees == sum(len(group) - 1 for group in groups)
    if one.sd is not None and other.sd is not None:
        assert one.sd == pytest.approx(other.sd, abs=1e-6)
        assert one.low <= one.sd <= one.high  # type: ignore[operator]
    assert report.around([[1.0], [2.0]]).sd is None  # nothing was repeated


def test_an_occasion_that_was_interrupted_or_disturbed_is_kept_and_marked() -> None:
    cut = report.read(occasion(0, [row("a", 100)], ended="interrupted", notes=["a 1x1x1: a process was lost"]))
    assert cut.marks == ("interrupted", "a 1x1x1: a process was lost")
    assert len(cut.slices) == 1
    assert report.read(occasion(1, [row("a", 100)], others_ratio=0.4)).marks == ("others took 40% of the CPUs",)
    assert report.read(occasion(2, [row("a", 100)], others_ratio=0.01)).marks == ()


def test_what_others_took_is_what_no_measured_task_used() -> None:
    cpus = len(os.sched_getaffinity(0))
    rows = [row("a", 1, tasks=2, task=task, cpu_us=300_000, host_cpu_ms=1000 * cpus) for task in (0, 1)]
    assert measuring.others_ratio(COLUMNS, rows) == pytest.approx((cpus - 0.6) / cpus, abs=1e-3)
    assert measuring.others_ratio(COLUMNS, []) is None


def test_hosts_of_another_kind_have_a_table_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "occasions.jsonl.xz"
    for number, model in enumerate(("a CPU", "a CPU", "another CPU")):
        add(occasion(number, [row("a", 100 + number)], cpu_model=model), path)
    found = report.show_all(path)["hosts"]
    assert [len(host["occasions"]) for host in found.values()] == [2, 1]


@pytest.mark.parametrize("data", [[], {}, {"columns": ["samples"], "rows": [[1]]}])
def test_what_is_no_occasion_is_refused_and_an_empty_file_says_how_to_begin(tmp_path: Path, data: Any) -> None:
    with pytest.raises(SystemExit, match="make occasion"):
        report.show_all(tmp_path / "occasions.jsonl.xz")
    with pytest.raises(ValueError, match="is no occasion"):
        report.read(data)


def test_all_committed_occasions_can_be_read_and_are_small() -> None:
    committed = saved()
    assert len(committed) >= 34
    assert DATA.stat().st_size <= 3_000 * len(committed)
    for data in committed:
        assert report.read(data).slices, data["time"]


def test_an_interrupted_occasion_writes_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def generation(plan: object, params: object, number: int, began_s: float, rows: list[list[Any]], notes: object) -> bool:
        rows.append(row("compute", 100))
        signal.raise_signal(signal.SIGTERM)
        return True

    monkeypatch.setattr(measuring, "_generation", generation)
    path = tmp_path / "occasions.jsonl.xz"
    add(occasion(0, []), path)
    before = signal.getsignal(signal.SIGTERM)
    try:
        measured = measuring.measure(measuring.Plan(pipelines=("compute",)), path)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert report.read(measured).marks[0] == "interrupted"
    assert len(report.read(measured).slices) == 1
    assert saved(path) == [occasion(0, []), measured]
    assert measured["columns"] == list(COLUMNS)
