"""Intervals hold what they say, and combine as independent errors do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from cs_input_analyzer.model.estimates import (
    from_log,
    half_width_of_mean,
    log_error,
    mean_of,
    paired_ratio,
    product,
    quotient,
    student_t,
    total,
)
from cs_input_analyzer.records import Estimate

rates = st.builds(
    lambda middle, down, up: Estimate(estimate=middle, low=middle * down, high=middle * up),
    st.floats(1, 1e6),
    st.floats(0, 1),
    st.floats(1, 5),
)


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 6.314), (4, 2.132), (30, 1.697), (1e9, 1.645)])
def test_students_t_is_that_of_the_tables(degrees: float, quantile: float) -> None:
    assert student_t(degrees) == pytest.approx(quantile, abs=1e-3)
    assert student_t(degrees, statements=2) > student_t(degrees)


@given(st.floats(2, 1e6), st.integers(1, 50))
def test_students_t_is_that_of_scipy(degrees: float, statements: int) -> None:
    assert student_t(degrees, statements) == pytest.approx(special.stdtrit(degrees, 1 - 0.05 / statements), rel=1e-5)


@pytest.mark.parametrize("count", [2, 3, 8, 30])
def test_nine_of_ten_intervals_of_a_mean_hold_it(count: int) -> None:
    seen = np.random.default_rng(count).normal(10.0, 2.0, (4000, count))
    held = [abs(float(values.mean()) - 10) <= half_width_of_mean(values) for values in seen]
    assert np.mean(held) == pytest.approx(0.9, abs=0.015)


def test_one_value_says_nothing_of_its_error_and_paired_ratios_are_averaged_as_logarithms() -> None:
    assert (half_width_of_mean([7.0]), half_width_of_mean([7.0], of_one=7.0)) == (0, 7)
    assert paired_ratio([2.0], [1.0]) is None
    ratio = paired_ratio([2.0, 8.0], [1.0, 1.0])
    assert (ratio.estimate, ratio.low * ratio.high, ratio.count) == (pytest.approx(4.0), pytest.approx(16), 2)


@given(st.lists(rates, min_size=1, max_size=5))
def test_sums_and_means_add_in_quadrature_and_reach_no_lower_than_zero(parts: list[Estimate]) -> None:
    whole, mean = total(parts), mean_of(parts)
    assert whole.estimate == pytest.approx(sum(part.estimate for part in parts))
    above = math.dist([part.high for part in parts], [part.estimate for part in parts])
    assert whole.high == pytest.approx(whole.estimate + above)
    assert 0 <= whole.low <= whole.estimate
    assert mean.high * len(parts) == pytest.approx(whole.high)


@given(rates.filter(lambda rate: rate.low > 0.2 * rate.estimate), rates.filter(lambda rate: rate.low > 0.2 * rate.estimate))
def test_a_quotient_undoes_a_product(one: Estimate, other: Estimate) -> None:
    both = product(one, other)
    assert both.estimate == pytest.approx(one.estimate * other.estimate)
    assert 0 < both.low <= both.estimate <= both.high
    assert quotient(both, other).estimate == pytest.approx(one.estimate)
    # Neither is surer than its parts.
    assert log_error(both) >= max(log_error(one), log_error(other)) * (1 - 1e-6)
    turned = quotient(Estimate.exact(1.0), quotient(one, other))
    again = quotient(other, one)
    assert (turned.low, turned.high) == pytest.approx((again.low, again.high))


@pytest.mark.parametrize("middle", [0.0, 3.0, 1e4, -1e4])
def test_a_logarithm_of_any_size_has_an_estimate(middle: float) -> None:
    found = from_log(middle, 0.5)
    assert 0 < found.low <= found.estimate <= found.high < math.inf
