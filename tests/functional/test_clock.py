"""A clock that somebody sets while a pipeline is measured: the rate is what it was, and the run ends in its time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.running import BRIEF, QUICK, run_cli

pytestmark = [pytest.mark.tf, pytest.mark.slow, pytest.mark.long]

FUNCTIONS = Path(__file__).with_name("hostile_functions.py")


@pytest.mark.parametrize("jump_s", [3600, -3600, 0])
def test_a_jump_of_an_hour_is_in_no_rate_and_no_gap(jump_s: int, tmp_path: Path) -> None:
    words = ("analyze", f"{FUNCTIONS}:clock_is_set", *QUICK, "--set", f"jump_s={jump_s}", "--probe-layouts", "1x1x1", "--full")
    outcome = run_cli(words, tmp_path, program=BRIEF)
    assert outcome.code == 0, outcome.err
    (worker,) = outcome.run["measurements"][0]["workers"]
    assert worker["status"] == "done"
    # 8 samples in each 10 ms at most, and not so much less that a gap of an hour would not show.
    assert 80 < worker["samples_per_s"]["estimate"] < 820
    assert worker["batch_gap_s"]["max"] < 60
    assert outcome.left_processes == outcome.left_files == ()
