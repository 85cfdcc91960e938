"""What follows from the lines of public runs: their Rate again, their steady rate, and what may not be said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs import logs


@pytest.mark.parametrize("run", ["BERT-large, 1.7.1", "BERT-large, 1.8", "BERT-large, 2.0.3", "GPT-J 6B, 1.7.1"])
def test_samples_of_a_step_follow_from_the_rates_also_without_totals(tmp_path: Path, run: str) -> None:
    rates = logs.inspected(tmp_path, logs.excerpt(run, without=("processed", "completed"))).rates
    assert rates.batch_size == (130 if run.startswith("GPT") else 1024)


@pytest.mark.parametrize(("without", "cause"), [((), "checkpoint"), (("saving", "saved"), "read late")])
def test_a_checkpoint_and_the_burst_after_it_are_no_starvation(tmp_path: Path, without: tuple[str, ...], cause: str) -> None:
    """Also without the lines of the checkpoint, as after `grep Rate`: the burst alone shows that the wafer computed on."""
    found = logs.inspected(tmp_path, logs.excerpt("DiT 2B, 2.5", without=without))
    assert (found.verdict, found.stall_count) == ("unknown", 0)
    assert logs.steady(found) == pytest.approx(875, rel=0.01)
    assert [stall.cause for stall in found.stalls] == [cause]
    assert "burst_ratio" not in found.evidence
    assert ("made_up_pauses" in found.evidence) == bool(without)
    spans = [(span.step, span.duration_s) for span in found.timeline if span.phase == "checkpoint"]
    assert spans == ([] if without else [(200, pytest.approx(181.202))])


@pytest.mark.parametrize(("after_s", "stalls", "cause"), [(2.0, 1, "none known"), (0.3, 0, "read late")])
def test_the_steps_after_a_pause_show_what_it_was(tmp_path: Path, after_s: float, stalls: int, cause: str) -> None:
    """Steps that come faster than before were made during it; where they do not, its time is lost."""
    found = logs.inspected(tmp_path, logs.smoothed_log([2.0] * 20 + [60.0] + [after_s] * 34 + [2.0] * 20))
    assert (found.verdict, found.stall_count) == ("unknown", stalls)
    assert [stall.cause for stall in found.stalls] == [cause]


def test_an_estimator_run_gives_its_batch_size_and_no_more_than_it_logged(tmp_path: Path) -> None:
    lines = logs.estimator_log([(1, 1.19), (100, 89.75), (200, 167.0), (99800, 471.75), (99900, 472.0)])  # of 2021
    lines.append("INFO:tensorflow:Training finished with 25600000 samples in 211.863 seconds, 120832.56 samples / second")
    rates = logs.inspected(tmp_path, lines).rates
    assert (rates.batch_size, rates.average_samples_per_s) == (256, 120832.56)
    assert (rates.rate_samples_per_s, rates.global_rate_samples_per_s) == (None, None)


def test_results_that_arrive_in_batches_are_no_stalls(tmp_path: Path) -> None:
    found = logs.inspected(tmp_path, logs.excerpt("BERT-large, TensorFlow, 1.8"))
    assert (found.rates.batch_size, found.stall_count) == (256, 0)
    steady = found.rates.steady_steps_per_s
    assert steady.low < 900 / (1000 / 23.64 - 100 / 27.49) < steady.high
