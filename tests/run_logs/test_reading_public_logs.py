"""What public runs logged, and what follows from it: their Rate again, their steady rate, and what may not be said of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cs_input_analyzer.run_logs import inspect_run
from tests.run_logs import logs

# The share that a line may be off: what the issue of the log reader asks for.
RATE_ERROR = 1e-4


@pytest.mark.parametrize(
    ("rows", "batch"),
    [(logs.BERT_171, 1024), (logs.BERT_18, 1024), (logs.BERT_203, 1024), (logs.GPTJ_171, 130)],
    ids=["BERT 1.7", "BERT 1.8", "BERT 2.0", "GPT-J 1.7"],
)
def test_logged_rates_are_reproduced(tmp_path: Path, rows: Sequence[logs.Row], batch: int) -> None:
    log = logs.write(tmp_path / "run.log", logs.public_log(rows, batch * rows[-1][1]))
    found = inspect_run(log)
    assert found.rates.batch_size == batch
    assert found.rates.rate_lines == len(rows) - 1
    assert found.rates.rate_error_ratio is not None
    assert found.rates.rate_error_ratio <= RATE_ERROR
    assert found.rates.rate_samples_per_s == rows[-1][2]
    assert found.rates.global_rate_samples_per_s == rows[-1][3]


@pytest.mark.parametrize("rows", [logs.BERT_171, logs.BERT_18, logs.BERT_203], ids=["1.7", "1.8", "2.0"])
def test_the_batch_size_follows_from_global_rate_alone(tmp_path: Path, rows: Sequence[logs.Row]) -> None:
    lines = [line for line in logs.public_log(rows, 1) if "Processed" not in line]
    found = inspect_run(logs.write(tmp_path / "run.log", lines))
    assert found.rates.batch_size == 1024
    assert found.rates.rate_error_ratio is not None
    assert found.rates.rate_error_ratio <= RATE_ERROR


def test_a_steady_rate_is_the_throughput_between_lines(tmp_path: Path) -> None:
    found = inspect_run(logs.write(tmp_path / "run.log", logs.public_log(logs.BERT_203, 1024 * 700)))
    steady = found.rates.steady_samples_per_s
    assert steady is not None
    assert steady.low <= 1024 * 600 / 152.325 <= steady.high  # 20:08:14.365 to 20:10:46.690
    assert steady.estimate == pytest.approx(1024 * 600 / 152.325, rel=1e-3)


def test_bursts_without_a_checkpoint_are_starvation(tmp_path: Path) -> None:
    log = logs.public_log(logs.VIT_26, 570_000, logs.VIT_CHECKPOINTS)
    found = inspect_run(logs.write(tmp_path / "run.log", log))
    assert found.verdict == "input_bound"
    assert found.confidence is not None
    assert found.confidence >= 0.8
    assert found.rates.batch_size == 2850
    ratio = found.evidence["burst_ratio"]
    assert isinstance(ratio, float)
    assert 4 < ratio < 5.5
    assert found.change.input_factor is not None
    assert found.change.input_factor > 3
    assert found.rates.rate_error_ratio is not None
    assert found.rates.rate_error_ratio > 0.1, "that Rate was sampled at every step, and does not follow from the lines"


def test_a_checkpoint_and_the_spike_after_it_are_no_starvation(tmp_path: Path) -> None:
    log = logs.public_log(logs.DIT_26, 467_200, logs.DIT_CHECKPOINTS)
    found = inspect_run(logs.write(tmp_path / "run.log", log))
    assert found.verdict == "unknown"
    assert found.stall_count == 0
    steady = found.rates.steady_samples_per_s
    assert steady is not None
    assert steady.estimate == pytest.approx(875, rel=0.01)
    assert [stall.cause for stall in found.stalls] == ["checkpoint"]
    assert "burst_ratio" not in found.evidence
    checkpoint = next(span for span in found.timeline if span.phase == "checkpoint")
    assert checkpoint.step == 200
    assert checkpoint.duration_s == pytest.approx(181.202)


def test_the_same_pause_without_its_lines_is_none_either(tmp_path: Path) -> None:
    """As after `grep Rate`: the burst alone shows that the wafer computed on."""
    found = inspect_run(logs.write(tmp_path / "run.log", logs.public_log(logs.DIT_26, 467_200)))
    assert found.stall_count == 0
    assert [stall.cause for stall in found.stalls] == ["read late"]
    assert found.evidence["made_up_pauses"] == 1
    steady = found.rates.steady_samples_per_s
    assert steady is not None
    assert steady.estimate == pytest.approx(875, rel=0.01)


@pytest.mark.parametrize(("after_s", "stalls", "cause"), [(2.0, 1, "none known"), (0.3, 0, "read late")])
def test_what_comes_after_a_pause_tells_what_it_was(tmp_path: Path, after_s: float, stalls: int, cause: str) -> None:
    """Steps that come faster than before were made during it; where they do not, its time is lost."""
    gaps = [2.0] * 20 + [60.0] + [after_s] * 34 + [2.0] * 20
    found = inspect_run(logs.write(tmp_path / "run.log", logs.smoothed_log(gaps)))
    assert found.stall_count == stalls
    assert [stall.cause for stall in found.stalls] == [cause]


def test_an_estimator_run_gives_its_batch_size_and_no_more_than_it_logged(tmp_path: Path) -> None:
    lines = logs.estimator_log(logs.MNIST_2021)
    lines.append("INFO:tensorflow:Training finished with 25600000 samples in 211.863 seconds, 120832.56 samples / second")
    found = inspect_run(logs.write(tmp_path / "run.log", lines))
    assert found.rates.batch_size == 256
    assert found.rates.average_samples_per_s == 120832.56
    assert found.rates.rate_samples_per_s is None
    assert found.rates.global_rate_samples_per_s is None
    assert found.verdict == "unknown"


def test_results_that_arrive_in_batches_are_no_stalls(tmp_path: Path) -> None:
    lines = logs.estimator_log(logs.BERT_TF_18)
    lines.append("INFO:root:Training complete. Completed 256000 sample(s) in 42.299458026885986 seconds")
    found = inspect_run(logs.write(tmp_path / "run.log", lines))
    assert found.rates.batch_size == 256
    assert found.stall_count == 0
    steady = found.rates.steady_steps_per_s
    assert steady is not None
    assert steady.low < 900 / (1000 / 23.64 - 100 / 27.49) < steady.high


def test_later_suffixes_change_nothing(tmp_path: Path) -> None:
    plain = inspect_run(logs.write(tmp_path / "a.log", logs.public_log(logs.BERT_203, 716_800)))
    tail = ", LoopTimeRemaining=0:06:42, TimeRemaining>0:06:42"
    later = inspect_run(logs.write(tmp_path / "b.log", logs.public_log(logs.BERT_203, 716_800, tail=tail)))
    assert (later.rates, later.verdict, later.timeline) == (plain.rates, plain.verdict, plain.timeline)
