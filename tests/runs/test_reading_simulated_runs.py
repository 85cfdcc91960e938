"""Runs whose truth is known, simulated by the benchmark: a sample of them, with fixed seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import run_logs
from cs_input_analyzer.runs.inspection import inspect_run
from tests.runs import logs

# Seeds that had no part in writing the reader.
SEEDS = range(9000, 9024)


@pytest.mark.parametrize(
    ("seed", "is_long"), [(seed, is_long) for seed in SEEDS for is_long in (False, True)[: 1 + (seed % 4 == 0)]]
)
def test_a_run_that_computes_all_the_time_is_not_called(seed: int, is_long: bool, tmp_path: Path) -> None:
    found = run_logs.judge(run_logs.healthy(seed, is_long=is_long), tmp_path)
    assert found["verdict"] == "unknown"
    assert isinstance(found["error_ratio"], float)
    assert found["error_ratio"] <= run_logs.MOST_ERROR_RATIO


def test_runs_that_wait_for_longer_than_their_lines_are_apart_are_called(tmp_path: Path) -> None:
    found = []
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        found.append(run_logs.judge(run_logs.starved(seed), folder))
    assert sum(each["verdict"] == "input_bound" for each in found) >= 0.95 * len(found)
    assert sum(isinstance(each["error_ratio"], float) and each["error_ratio"] <= 0.02 for each in found) >= 0.95 * len(found)


def test_names_of_checkpoints_beside_a_log_explain_its_pauses(tmp_path: Path) -> None:
    """Without the burst, nor a line: a wafer may have stopped for the whole of it."""
    gaps = [40.0 if place % 10 == 9 and place < 50 else 2.0 for place in range(60)]
    log = logs.write(tmp_path / "run.log", logs.smoothed_log(gaps))
    assert inspect_run(log).verdict == "input_bound"
    for step in (100, 200, 300, 400, 500):
        (tmp_path / f"checkpoint_{step}.mdl").touch()
    for path in (log, tmp_path):
        found = inspect_run(path)
        assert found.verdict == "unknown"
        assert found.stall_count == 0
        assert {stall.cause for stall in found.stalls} == {"checkpoint"}


def test_a_cut_log_never_gives_more_than_it_printed(tmp_path: Path) -> None:
    """As the vendor's published excerpt: its totals over the steps that are left would be a hundred times too many."""
    ends = [
        logs.train_line(logs.stamp(37.010), 9950, 125000.0, 34404.16),
        logs.train_line(logs.stamp(37.061), 10000, 125400.0, 34529.2),
        f"{logs.stamp(38)} INFO:   Training Complete. Completed 1280000 sample(s) in 53.1 seconds.",
    ]
    found = logs.inspected(tmp_path, ends)
    assert found.rates.batch_size == 128
    assert logs.steady(found) < 1.1 * 125_400


def test_rates_that_contradict_the_steps_and_times_are_said_and_none_goes_beyond_them(tmp_path: Path) -> None:
    """Whole seconds are too coarse to show the samples of a step, and the total of another run is a thousand times too large."""
    lines = [logs.train_line(f"2024-03-01 12:00:{place}0", 10 * place, 5.0, 5.0) for place in (1, 2)]
    found = logs.inspected(tmp_path, [*lines, "Training Complete. Completed 81920 sample(s) in 20.0 seconds."])
    assert any("not believed" in note for note in found.notes)
    assert (found.rates.batch_size, found.rates.steady_samples_per_s) == (None, None)
    assert found.rates.global_rate_samples_per_s == 5.0


NO_RATE = dict.fromkeys(("steady_samples_per_s", "rate_samples_per_s", "global_rate_samples_per_s", "average_samples_per_s"))
NAN = "| Train Device=CSX, Step=0, Loss=nan, Rate=nan samples/sec, GlobalRate=nan samples/sec"


@pytest.mark.parametrize(
    ("lines", "rates"),
    [
        # One worker's own log, evaluations and whole jobs tell no rate of training.
        (
            [f"INFO:   | Streamer Step={place}, Rate=9.00 steps/sec, GlobalRate=8.50 steps/sec" for place in range(100, 900, 100)],
            NO_RATE | {"worker_steps_per_s": 8.5},
        ),
        (
            [logs.eval_line(logs.stamp(10.0 * place), 10 * place, 1170.0) for place in range(1, 9)]
            + [f"{logs.stamp(99)} INFO:   Processed 48000 training sample(s) in 820.5 seconds."],
            NO_RATE | {"evaluation_samples_per_s": 1170, "total_samples": 48000, "total_time_s": 820.5},
        ),
        ([NAN, "Training finished with 0 samples in 0.0 seconds, nan samples/second."], NO_RATE | {"batch_size": None}),
    ],
)
def test_what_other_lines_say_is_told_and_is_no_verdict(lines: list[str], rates: dict[str, float | None], tmp_path: Path) -> None:
    found = logs.inspected(tmp_path, lines)
    assert {name: getattr(found.rates, name) for name in rates} == rates
    assert found.verdict == "unknown"
