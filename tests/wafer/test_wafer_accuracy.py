"""Public runs as the model predicts them: targets, rows that something else held back, one-point calibration."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.wafer_accuracy import EXPLANATIONS, FITTED_BOUNDS, Predicted, calibrated_by_each, error_factor, predicted
from wafer_model import WaferModelError
from wafer_model.calibration import calibrate
from wafer_model.catalogue import build_network
from wafer_model.constants import MODES, constants_of
from wafer_model.model import predict
from wafer_model.published import published_runs


@pytest.fixture(scope="module")
def fitted() -> tuple[Predicted, ...]:
    return predicted(FITTED_BOUNDS)


@pytest.mark.parametrize("mode", MODES)
def test_public_runs_are_predicted_within_a_factor_of_1_35(fitted: tuple[Predicted, ...], mode: str) -> None:
    assert error_factor(fitted) <= 1.35
    assert error_factor([row for row in fitted if row.run.mode == mode and row.run.id not in EXPLANATIONS]) <= 1.22


def test_every_public_run_is_inside_its_interval_or_explained(fitted: tuple[Predicted, ...]) -> None:
    assert {row.run.id for row in fitted if not row.is_inside} == set(EXPLANATIONS)
    assert (sum(row.is_inside for row in fitted), len(fitted)) == (22, 24)


def test_the_rows_have_names_of_their_own_and_known_bounds() -> None:
    assert len({run.id for run in published_runs()}) == len(published_runs())
    assert {run.bound for run in published_runs()} <= {"compute", "estimate", "input", "start_up", "evaluation", "unknown"}


@pytest.mark.parametrize("mode", MODES)
def test_one_point_brings_its_family_within_ten_percent(mode: str) -> None:
    errors = [math.expm1(row.log_error) for row in calibrated_by_each() if row.run.mode == mode]
    assert len(errors) >= 6
    assert max(map(abs, errors)) <= 0.10


def test_rows_held_back_by_their_input_lie_below_the_wafer() -> None:
    held = [row for row in predicted(("input", "start_up")) if row.run.id != "mnist_cs2_ws"]
    assert len(held) >= 8
    for row in held:
        assert row.reached_ratio < 0.8


def test_a_length_nobody_published_is_not_fitted_and_yet_agrees() -> None:
    """The Llama series at an assumed 2,048 tokens: a check that the fit never saw."""
    series = predicted(("unknown",))
    assert len(series) == 5
    assert all(1 / 1.35 < row.reached_ratio < 1.35 for row in series)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(MODES), st.sampled_from(["bert_base", "gpt2_small", "fc_mnist"]), st.integers(1, 2048), st.floats(0.1, 3.0))
def test_a_calibrated_model_gives_the_measured_rate_back(mode: str, name: str, batch_size: int, factor: float) -> None:
    network = build_network(name)
    measured = predict(network, "CS-2", mode, batch_size=batch_size).samples_per_s.estimate * factor
    found = calibrate(network, "CS-2", mode, batch_size=batch_size, samples_per_s=measured)
    again = predict(network, "CS-2", mode, batch_size=batch_size, constants=found, calibrated=True)
    assert again.samples_per_s.estimate == pytest.approx(measured, rel=1e-3)
    assert again.calibrated
    assert again.samples_per_s.high / again.samples_per_s.low < 1.25


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_calibration_rate_that_cannot_be_is_refused(rate: float) -> None:
    with pytest.raises(WaferModelError, match="calibration rate must be a positive number"):
        calibrate(build_network("fc_mnist"), "CS-2", "pipelined", batch_size=64, samples_per_s=rate)

    for mode in MODES:
        with pytest.raises(WaferModelError, match=r"cannot be: the peak of 1 system"):
            calibrate(build_network("bert_base"), "CS-2", mode, batch_size=64, samples_per_s=1e11)


@pytest.mark.parametrize(
    ("name", "system", "mode", "batch_size", "rate"),
    [
        ("bert_large", "CS-2", "pipelined", 1024, 35_000.0),  # its peak gives 31,138
        ("gpt2_small", "CS-2", "weight_streaming", 112, 8_600.0),  # 8,549
        ("gptj_6b", "CS-3", "weight_streaming", 120, 170.0),  # 161
    ],
)
def test_no_calibration_goes_beyond_the_peak(name: str, system: str, mode: str, batch_size: int, rate: float) -> None:
    network = build_network(name)
    with pytest.raises(WaferModelError, match=r"cannot be: the peak of 1 system\(s\) allows"):
        calibrate(network, system, mode, batch_size=batch_size, samples_per_s=rate)

    near = calibrate(network, system, mode, batch_size=batch_size, samples_per_s=rate / 3)
    assert near.efficiency_on(system) <= 1.0


def test_a_rate_of_small_batches_takes_its_latency_before_more_than_the_peak() -> None:
    network = build_network("gpt2_small")
    found = calibrate(network, "CS-2", "weight_streaming", batch_size=112, samples_per_s=4_000.0)
    assert found.efficiency_on("CS-2") <= 1.0
    again = predict(network, "CS-2", "weight_streaming", batch_size=112, constants=found, calibrated=True)
    assert again.samples_per_s.estimate == pytest.approx(4_000.0, rel=1e-6)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(WaferModelError, match="unknown mode 'sideways'"):
        constants_of("sideways")
