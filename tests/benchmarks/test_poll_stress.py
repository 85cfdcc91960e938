"""`benchmarks.poll_stress`: a crash, a hang and a failed poll are rows, and a small run makes its tables."""

from __future__ import annotations

import faulthandler
import os
import time
from typing import Any

import pytest

from benchmarks import poll_stress

pytestmark = pytest.mark.tf

GOOD: dict[str, Any] = {"tensorflow": "2.21.0", "iterators": 20, "polls": 9, "median_ms": 1.0, "max_ms": 3.0, "failures": 0}


@pytest.mark.parametrize("row", [{**GOOD, "failures": 1}, {**GOOD, "polls": 0}, {"problem": "exit -11\nFatal Python error"}])
def test_a_failed_poll_a_case_without_polls_and_a_crash_are_not_good(row: dict[str, Any]) -> None:
    assert poll_stress.is_good(GOOD)
    assert not poll_stress.is_good(row)
    assert len(poll_stress.cells("passes", row)) == len(poll_stress.cells("passes", GOOD))


def dies(*_: Any) -> None:
    os.abort()


def hangs(*_: Any) -> None:
    faulthandler.dump_traceback_later(0.5, exit=True)
    time.sleep(600)


@pytest.mark.parametrize(("case", "told"), [(dies, "exit -6"), (hangs, "Timeout")])
def test_a_case_that_crashes_or_hangs_is_a_row(case: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_stress, "run_case", case)
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__), prepend=os.pathsep)
    row = poll_stress.measured(["passes"], 1, 1.0)["passes"]
    assert told in row["problem"]
    assert poll_stress.cells("passes", row)[-1].startswith("exit")


@pytest.mark.long
def test_a_small_run_polls_while_iterators_end() -> None:
    names = ("passes", "flat_map")
    found = poll_stress.measured(names, iterators=200, per_s=500.0)
    assert {name: poll_stress.is_good(one) for name, one in found.items()} == dict.fromkeys(names, True)
    assert [one["iterators"] for one in found.values()] == [50, 200]
