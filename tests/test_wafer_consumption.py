"""The demand side's first record: a declared rate, a step time, and what cannot be a demand."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wafer_model import Estimate, WaferModelError, from_rate, from_step_time

rates = st.floats(min_value=1e-6, max_value=1e9)


def test_a_declared_rate_is_exact_and_knows_nothing_else() -> None:
    found = from_rate(7000, mode="pipelined")
    assert found.samples_per_s == Estimate.exact(7000.0)
    assert (found.source, found.mode, found.system, found.limited_by, found.batch_size) == (
        "declared",
        "pipelined",
        None,
        None,
        None,
    )


@given(st.floats(min_value=1e-3, max_value=1e3), st.integers(min_value=1, max_value=10**6))
def test_a_step_time_is_the_batch_over_the_time(step_s: float, batch_size: int) -> None:
    found = from_step_time(step_s, batch_size)
    assert math.isclose(found.samples_per_s.estimate * step_s, batch_size, rel_tol=1e-12)
    assert (found.source, found.batch_size) == ("step_time", batch_size)


@pytest.mark.parametrize("rate", [0, -1, math.nan, math.inf, -math.inf, 1e13])
def test_a_demand_that_cannot_be_is_refused(rate: float) -> None:
    with pytest.raises(WaferModelError):
        from_rate(rate)


@pytest.mark.parametrize(("step_s", "batch_size"), [(0, 1), (-1, 1), (math.nan, 1), (1, 0), (1, -5), (1e-12, 1000), (math.inf, 1)])
def test_a_step_that_cannot_be_is_refused(step_s: float, batch_size: int) -> None:
    with pytest.raises(WaferModelError):
        from_step_time(step_s, batch_size)


@pytest.mark.parametrize("rate", [1e-3, 1.0, 479_188.55, 1e12])
def test_a_demand_that_can_be_is_taken(rate: float) -> None:
    assert from_rate(rate).samples_per_s.estimate == rate


@given(rates, st.floats(0, 0.9), st.floats(0, 2), st.floats(0, 100))
def test_scaling_keeps_the_interval_in_proportion(rate: float, below: float, above: float, factor: float) -> None:
    value = Estimate(estimate=rate, low=rate * (1 - below), high=rate * (1 + above), count=3)
    scaled = value.scaled(factor)
    assert (scaled.estimate, scaled.low, scaled.high, scaled.count) == (rate * factor, value.low * factor, value.high * factor, 3)


@given(rates, st.floats(0, 0.9), st.floats(0, 2), rates)
def test_a_ceiling_caps_all_three(rate: float, below: float, above: float, ceiling: float) -> None:
    capped = Estimate(estimate=rate, low=rate * (1 - below), high=rate * (1 + above)).capped(ceiling)
    assert capped.low <= capped.estimate <= capped.high <= ceiling


@pytest.mark.parametrize(
    ("low", "middle", "high"), [(2, 1, 3), (1, 3, 2), (math.nan, 1, 2), (0, math.inf, math.inf), (0, 1, math.inf)]
)
def test_an_estimate_outside_its_interval_or_without_end_cannot_be_made(low: float, middle: float, high: float) -> None:
    with pytest.raises(ValueError, match="estimate must"):
        Estimate(estimate=middle, low=low, high=high)


def test_relative_width_is_half_the_interval_over_the_estimate() -> None:
    assert Estimate(estimate=10, low=9, high=12).relative_half_width_ratio == pytest.approx(0.15)
    assert Estimate.exact(5).relative_half_width_ratio == 0
    assert Estimate(estimate=0, low=-1, high=1).relative_half_width_ratio is None


def test_the_demand_side_stands_alone() -> None:
    """It imports nothing of the analyzer and no TensorFlow."""
    code = "import sys, wafer_model; print({m.split('.')[0] for m in sys.modules} & {'cs_input_analyzer', 'tensorflow', 'numpy'})"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "set()"
