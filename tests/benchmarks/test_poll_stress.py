"""`benchmarks.poll_stress`: a crash, a hang and a failed poll are rows, and a small run makes its tables."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from benchmarks import poll_stress

PRINTS_A_ROW = 'print("{\\"polls\\": 3, \\"failures\\": {}}", flush=True)'


def row(**values: Any) -> dict[str, Any]:
    usual = {"tensorflow": "2.21.0", "iterators": 20, "polls": 9, "median_ms": 1.0, "max_ms": 3.0, "failures": {}}
    return {**usual, "ended": "ok", **values}


def child(code: str, deadline_s: float = 60.0) -> dict[str, Any]:
    return poll_stress.in_child((sys.executable, "-c", code), deadline_s)


# --- how a child ends ----------------------------------------------------------------------------------------------------------


def test_a_child_that_prints_its_row_and_ends_is_ok() -> None:
    assert child(PRINTS_A_ROW) == {"polls": 3, "failures": {}, "ended": "ok"}


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        (f"{PRINTS_A_ROW}; import os, signal; os.kill(os.getpid(), signal.SIGABRT)", "SIGABRT"),  # it crashes while it ends
        ("raise SystemExit(3)", "exit 3"),
        ("pass", "exit 0"),  # and no row
    ],
)
def test_a_child_that_dies_is_a_row_and_not_good(code: str, ended: str) -> None:
    found = child(code)
    assert found["ended"] == ended
    assert not poll_stress.is_good(found)


def test_a_child_that_hangs_is_a_row() -> None:
    found = child("import time; time.sleep(600)", deadline_s=0.5)
    assert found["ended"].startswith("hung")
    assert not poll_stress.is_good(found)


# --- what is good, and the table -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [{"failures": {"NotFoundError: no": 1}}, {"polls": 0}, {"ended": "SIGSEGV"}])
def test_a_failed_poll_a_case_without_polls_and_a_crash_are_not_good(values: dict[str, Any]) -> None:
    assert poll_stress.is_good(row())
    assert not poll_stress.is_good(row(**values))
    for one in (row(**values), {"ended": "SIGSEGV"}):
        assert len(poll_stress.cells("passes", one)) == len(poll_stress.COLUMNS)


@pytest.mark.long
@pytest.mark.tf
def test_a_small_run_polls_while_iterators_end() -> None:
    names = ("passes", "flat_map")
    found = poll_stress.measured(names, iterators=200, per_s=500.0, deadline_s=100.0)
    assert {name: poll_stress.is_good(one) for name, one in found.items()} == dict.fromkeys(names, True)
    assert [one["iterators"] for one in found.values()] == [50, 200]
