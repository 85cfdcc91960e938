"""The fit on public runs: targets, what is left out of it, one-point calibration, and stored constants that are the fitted ones."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.wafer_fit import EXPLANATIONS, FITTED_BOUNDS, Accuracy, all_modes, fit, overall_error_factor, predict_run, unfitted
from wafer_model import WaferModelError
from wafer_model.calibration import calibrate
from wafer_model.catalogue import build_network
from wafer_model.constants import MODES, constants_of
from wafer_model.model import predict
from wafer_model.published import published_runs


@pytest.fixture(scope="module")
def parts() -> dict[str, Accuracy]:
    return {part.mode: part for part in all_modes()}


def test_networks_left_out_are_predicted_within_a_factor_of_1_35(parts: dict[str, Accuracy]) -> None:
    assert overall_error_factor(tuple(parts.values())) <= 1.225
    for part in parts.values():
        assert part.error_factor <= 1.35
        assert part.group_error_factor <= 1.35


def test_every_left_out_row_is_inside_its_interval_or_explained(parts: dict[str, Accuracy]) -> None:
    for part in parts.values():
        assert [row.run.id for row in part.outside if row.run.id not in EXPLANATIONS] == []
    every = [row for part in parts.values() for row in part.left_out]
    assert (sum(row.is_inside for row in every), len(every)) == (22, 24)
    assert set(EXPLANATIONS) <= {run.id for run in published_runs()}
    assert len({run.id for run in published_runs()}) == len(published_runs())
    assert {run.bound for run in published_runs()} <= {"compute", "estimate", "input", "start_up", "evaluation", "unknown"}


def test_one_point_brings_its_family_within_ten_percent(parts: dict[str, Accuracy]) -> None:
    for part in parts.values():
        assert part.calibrated
        assert part.calibrated_within_ratio == 1.0
        assert part.calibrated_worst_ratio <= 0.10


@pytest.mark.parametrize("mode", MODES)
def test_the_stored_constants_are_those_of_a_fresh_fit(mode: str) -> None:
    fresh, stored = fit(mode, published_runs()), constants_of(mode)
    assert stored.efficiency == pytest.approx(fresh.efficiency, rel=0.005)
    assert stored.layer_latency_s == pytest.approx(fresh.layer_latency_s, rel=0.005)
    for name in ("system_factor", "release_factor"):
        assert getattr(stored, name) == pytest.approx(getattr(fresh, name), rel=0.01)


def test_the_fit_finds_the_constants_that_made_the_rows() -> None:
    """Rows made by the model with other constants bring those back."""
    truth = replace(constants_of("weight_streaming"), efficiency=0.4, layer_latency_s=1e-3, system_factor={}, release_factor={})
    rows = []
    for run in published_runs():
        if run.mode == "weight_streaming" and run.bound in FITTED_BOUNDS and run.system == "CS-2" and run.release.startswith("2"):
            made = predict_run(run, truth)
            rows.append(replace(run, samples_per_s=made.samples_per_s.estimate))
    found = fit("weight_streaming", rows)
    assert (found.efficiency, found.layer_latency_s) == (pytest.approx(0.4, rel=1e-3), pytest.approx(1e-3, rel=1e-3))


def test_rows_held_back_by_their_input_are_not_fitted_and_lie_below_the_wafer() -> None:
    held = [row for row in unfitted() if row.run.bound in ("input", "start_up") and row.run.id != "mnist_cs2_ws"]
    assert len(held) >= 8
    for row in held:
        assert row.reached_ratio < 0.8


def test_a_length_nobody_published_is_not_fitted_and_yet_agrees() -> None:
    """The Llama series at an assumed 2,048 tokens: a check that the fit never saw."""
    series = [row for row in unfitted() if row.run.id.startswith("llama2_cs3")]
    assert len(series) == 5
    assert all(1 / 1.35 < row.reached_ratio < 1.35 for row in series)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(MODES), st.sampled_from(["bert_base", "gpt2_small", "fc_mnist"]), st.integers(1, 2048), st.floats(0.1, 5.0))
def test_a_calibrated_model_gives_the_measured_rate_back(mode: str, name: str, batch_size: int, factor: float) -> None:
    network, constants = build_network(name), constants_of(mode)
    measured = predict(network, "CS-2", mode, batch_size=batch_size).samples_per_s.estimate * factor
    found = calibrate(constants, network, "CS-2", batch_size=batch_size, samples_per_s=measured)
    again = predict(network, "CS-2", mode, batch_size=batch_size, constants=found, calibrated=True)
    assert again.samples_per_s.estimate == pytest.approx(measured, rel=1e-3)
    assert again.calibrated
    assert again.samples_per_s.high / again.samples_per_s.low < 1.25


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_calibration_rate_that_cannot_be_is_refused(rate: float) -> None:
    with pytest.raises(WaferModelError, match="calibration rate must be a positive number"):
        calibrate(constants_of("pipelined"), build_network("fc_mnist"), "CS-2", batch_size=64, samples_per_s=rate)

    for mode in MODES:
        with pytest.raises(WaferModelError, match="cannot be: the wires"):
            calibrate(constants_of(mode), build_network("bert_base"), "CS-2", batch_size=64, samples_per_s=1e11)


def test_nothing_to_fit_on_and_unknown_modes_are_refused() -> None:
    with pytest.raises(WaferModelError, match="no public pipelined run"):
        fit("pipelined", [run for run in published_runs() if run.mode != "pipelined"])
    with pytest.raises(WaferModelError, match="unknown mode 'sideways'"):
        constants_of("sideways")


def test_releases_are_found_by_their_major_number() -> None:
    base = constants_of("weight_streaming")
    constants = replace(base, release_factor={"1": 0.5}, system_factor={})
    found = [constants.efficiency_on("CS-2", release) / base.efficiency for release in ("1.7.1", "1.8", "2.3", "latest")]
    assert found == [0.5, 0.5, 1.0, 1.0]
