"""Runs whose truth is known, simulated by the benchmark: a sample of them, with fixed seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import run_logs
from cs_input_analyzer.run_logs import inspect_run
from tests.run_logs import logs

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
    gaps = [2.0] * 60
    for place in (9, 19, 29, 39, 49):
        gaps[place] = 40.0
    log = logs.write(tmp_path / "run.log", logs.smoothed_log(gaps))
    assert inspect_run(log).verdict == "input_bound"
    for step in (100, 200, 300, 400, 500):
        (tmp_path / f"checkpoint_{step}.mdl").touch()
    for path in (log, tmp_path):
        found = inspect_run(path)
        assert found.verdict == "unknown"
        assert found.stall_count == 0
        assert {stall.cause for stall in found.stalls} == {"checkpoint"}


def test_the_run_s_yaml_gives_samples_of_a_step_and_explains_pauses(tmp_path: Path) -> None:
    gaps = [40.0 if place % 10 == 9 else 2.0 for place in range(60)]
    lines = [
        line.split(" INFO")[0] + " INFO:   global step " + str(10 * place) + ": loss = 0.5 (5.0 steps/sec)"
        for place, line in enumerate(logs.smoothed_log(gaps), start=1)
    ]
    logs.write(tmp_path / "run.log", lines)
    assert inspect_run(tmp_path).verdict == "input_bound"
    logs.write(tmp_path / "params.yaml", ["train_input: {batch_size: 256}", "runconfig: {checkpoint_steps: 100}"])
    found = inspect_run(tmp_path)
    assert found.rates.batch_size == 256
    assert found.verdict == "unknown"
    assert [source.kind for source in found.sources] == ["console log", "parameters"]


@pytest.mark.parametrize(
    ("text", "batch"),
    [
        ("trainer: {fit: {train_dataloader: {batch_size: 120}}}", 120),
        ("train_input: {train_batch_size: 16}", 16),
        ("train_input: {batch_size: many}", None),
        ("just text", None),
        ("{", None),
        ("train_input: {batch_size: true}", None),
    ],
)
def test_yaml_of_all_releases_and_of_something_else(text: str, batch: int | None, tmp_path: Path) -> None:
    logs.write(tmp_path / "run.log", logs.estimator_log(logs.ESTIMATOR_ROWS))
    logs.write(tmp_path / "params.yaml", [text])
    assert inspect_run(tmp_path).rates.batch_size == batch


def test_a_performance_summary_is_read(tmp_path: Path) -> None:
    lines = [
        "200 steps in session",
        "Average steady state samples per second: 776.21, median: 790.50",
        "Fastest step: step 17, rate: 3690.48 (475.45% of average rate)",
        "Slowest step: step 60, rate: 77.62 (10.00% of average rate)",
    ]
    found = inspect_run(logs.write(tmp_path / "global_perf_summary.txt", lines))
    assert found.rates.average_samples_per_s == 776.21
    assert found.evidence["slowest_step_ratio"] == pytest.approx(0.1, rel=1e-3)
    assert found.verdict == "unknown"


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
    lines = [logs.train_line(logs.stamp(10.0 * place), 10 * place, 5.0, 5.0) for place in range(1, 40)]
    logs.write(tmp_path / "run.log", lines)
    logs.write(tmp_path / "params.yaml", ["train_input: {batch_size: 4096}"])
    found = inspect_run(tmp_path)
    rates = found.rates
    assert any("the latter are used" in note or "not believed" in note for note in found.notes)
    assert rates.steady_samples_per_s is None or rates.steady_samples_per_s.estimate <= 5.0 * 1.1
    assert rates.global_rate_samples_per_s == 5.0


NO_RATE = dict.fromkeys(("steady_samples_per_s", "rate_samples_per_s", "global_rate_samples_per_s", "average_samples_per_s"))
NAN = "| Train Device=CSX, Step=0, Loss=nan, Rate=nan samples/sec, GlobalRate=nan samples/sec"


@pytest.mark.parametrize(
    ("lines", "rates", "evidence"),
    [
        # Rates alone are shown as they were printed.
        *(
            (
                [form.format(100 + place) for place in range(30)],
                NO_RATE | {"rate_samples_per_s": 129, "global_rate_samples_per_s": 99.5},
                {},
            )
            for form in ("Rate={}.00 samples/sec, GlobalRate=99.50 samples/sec", "Rate={}.00, GlobalRate=99.50")
        ),
        ([f"INFO:tensorflow:global_step/sec: {100 + place}" for place in range(30)], NO_RATE | {"printed_steps_per_s": 129}, {}),
        # One worker's own log, evaluations and whole jobs tell no rate of training.
        (
            ["INFO:   | Streamer IteratorCreationTime=75.5 seconds"]
            + [
                f"INFO:   | Streamer Step={place}, Rate=9.00 steps/sec, GlobalRate=8.50 steps/sec" for place in range(100, 900, 100)
            ],
            NO_RATE | {"worker_steps_per_s": 8.5},
            {"priming_s": 75.5},
        ),
        (
            [logs.eval_line(logs.stamp(10.0 * place), 10 * place, 1170.0) for place in range(1, 9)]
            + [f"{logs.stamp(99)} INFO:   Processed 48000 training sample(s) in 820.5 seconds."],
            NO_RATE | {"evaluation_samples_per_s": 1170, "total_samples": 48000, "total_time_s": 820.5},
            {},
        ),
        ([NAN, "Training finished with 0 samples in 0.0 seconds, nan samples/second."], NO_RATE | {"batch_size": None}, {}),
        # What a run says of its stalls is told, and it is not judged by it.
        ([*logs.smoothed_log([2.0] * 30), f"{logs.stamp(99)} ERROR:   Stall detected"], {"batch_size": 64}, {"stalls_said": 1}),
    ],
)
def test_what_other_lines_say_is_told_and_is_no_verdict(
    lines: list[str], rates: dict[str, float | None], evidence: dict[str, float], tmp_path: Path
) -> None:
    found = logs.inspected(tmp_path, lines)
    assert {name: getattr(found.rates, name) for name in rates} == rates
    assert evidence.items() <= found.evidence.items()
    assert found.verdict == "unknown"
    if lines[0].startswith(("Rate=", "INFO:tensorflow:global_step/sec")):
        assert any("as they were printed" in note for note in found.notes)


def test_lines_of_tensorflow_s_estimator_have_a_clock_of_their_own(tmp_path: Path) -> None:
    lines = [f"INFO:tensorflow:loss = 0.5, step = {100 * place} (8.000 sec)" for place in range(1, 40)]
    steady = logs.inspected(tmp_path, lines).rates.steady_steps_per_s
    assert steady.estimate == pytest.approx(12.5)
