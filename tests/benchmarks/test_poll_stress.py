"""`benchmarks.poll_stress`: a crash, a hang and a failed poll are rows, and a small run makes its tables."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import in_process, poll_stress

pytestmark = pytest.mark.tf

GOOD: dict[str, Any] = {"tensorflow": "2.21.0", "iterators": 20, "polls": 9, "median_ms": 1.0, "max_ms": 3.0, "failures": 0}


@pytest.mark.parametrize("row", [{**GOOD, "failures": 1}, {**GOOD, "polls": 0}, {"problem": "exit -11\nFatal Python error"}])
def test_a_failed_poll_a_case_without_polls_and_a_crash_are_not_good(row: dict[str, Any]) -> None:
    assert poll_stress.is_good(GOOD)
    assert not poll_stress.is_good(row)
    assert len(poll_stress.cells("passes", row)) == len(poll_stress.cells("passes", GOOD))


@pytest.mark.parametrize(("body", "told"), [("import os; os.abort()", "exit -6"), ("import time; time.sleep(600)", "exit 1")])
def test_a_case_that_crashes_or_hangs_is_a_row(body: str, told: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stands_in.py").write_text(f"import faulthandler; faulthandler.dump_traceback_later(0.5, exit=True); {body}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(poll_stress, "fresh", lambda module, *arguments: in_process.fresh("stands_in"))
    assert poll_stress.cells("passes", poll_stress.measured(["passes"], 1, 1.0)["passes"])[-1] == told


@pytest.mark.long
def test_a_small_run_polls_while_iterators_end() -> None:
    names = ("passes", "flat_map")
    found = poll_stress.measured(names, iterators=200, per_s=500.0)
    assert {name: poll_stress.is_good(one) for name, one in found.items()} == dict.fromkeys(names, True)
    assert [one["iterators"] for one in found.values()] == [50, 200]
