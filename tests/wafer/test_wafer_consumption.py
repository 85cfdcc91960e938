"""The record that every source ends in: a declared rate, a step time, a compile report, a finished run; what cannot be one."""

from __future__ import annotations

import math
import pkgutil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wafer_model
from tests.functional.running import loaded_after
from wafer_model import Estimate, WaferModelError, from_compile_report, from_performance, from_rate, from_step_time
from wafer_model.vendor_files import CompileReport, Performance

rates = st.floats(min_value=1e-6, max_value=1e9)


def test_a_declared_rate_is_exact_and_knows_nothing_else() -> None:
    found = from_rate(7000, mode="pipelined")
    assert found.samples_per_s == Estimate.exact(7000.0)
    assert (found.source, found.mode, found.system, found.limited_by, found.batch_size) == ("declared", "pipelined", *[None] * 3)


@given(st.floats(min_value=1e-3, max_value=1e3), st.integers(min_value=1, max_value=10**6))
def test_a_step_time_is_the_batch_over_the_time(step_s: float, batch_size: int) -> None:
    found = from_step_time(step_s, batch_size)
    assert math.isclose(found.samples_per_s.estimate * step_s, batch_size, rel_tol=1e-12)
    assert (found.source, found.batch_size) == ("step_time", batch_size)


@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        *((from_rate, (rate,)) for rate in (0, -1, math.nan, math.inf, -math.inf, 1e13)),
        *((from_step_time, (step_s, 1)) for step_s in (0, -1, math.nan, math.inf)),
        *((from_step_time, numbers) for numbers in ((1, 0), (1, -5), (1e-12, 1000))),
    ],
)
def test_a_demand_that_cannot_be_is_refused(make: Any, numbers: tuple[float, ...]) -> None:
    with pytest.raises(WaferModelError):
        make(*numbers)


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


def test_no_module_of_it_needs_tensorflow_the_analyzer_or_a_clock() -> None:
    modules = ", ".join(f"wafer_model.{found.name}" for found in pkgutil.iter_modules(wafer_model.__path__))
    assert loaded_after(f"import {modules}", "cs_input_analyzer", "tensorflow", "keras", "scipy", "rich", "click") == set()


@pytest.mark.parametrize(
    ("compute", "transmission", "limit"),
    [(10.0, 20.0, "compute"), (20.0, 10.0, "transmission"), (10.0, None, "compute"), (None, 10.0, "transmission")],
)
def test_a_compile_report_gives_its_estimate_with_the_compilers_own_error(
    compute: float | None, transmission: float | None, limit: str
) -> None:
    found = from_compile_report(
        CompileReport(path="report", samples_per_s=10.0, compute_samples_per_s=compute, transmission_samples_per_s=transmission),
        system="CS-2",
    )
    assert (found.samples_per_s.low, found.samples_per_s.estimate, found.samples_per_s.high) == (7.5, 10.0, 12.5)
    assert (found.source, found.system, found.mode, found.limited_by) == ("compile_report", "CS-2", "pipelined", limit)


def run(
    measured: float | None = None, estimated: float | None = None, recent: float | None = None, assessed: str | None = None
) -> Performance:
    return Performance(
        path="run",
        samples_per_s=measured,
        recent_samples_per_s=recent,
        estimated_samples_per_s=estimated,
        suspected_input_bottleneck=assessed,
    )


@pytest.mark.parametrize(
    ("found", "low", "estimate", "high"),
    [
        (run(900.0, 1000.0, assessed="No"), 900.0, 900.0, 900.0),  # it was not held back by its input
        (run(300.0, 1000.0, assessed="Yes: the input is slow"), 750.0, 1000.0, 1250.0),  # the compiler's estimate is left
        (run(300.0, 1000.0), 300.0, 1000.0, 1250.0),  # without an assessment what was measured is a floor
        (run(1200.0, 1000.0), 1200.0, 1200.0, 1250.0),
        (run(recent=40.0), 40.0, 40.0, 40.0),  # of 2.x, without an estimate
    ],
)
def test_what_a_run_says_of_the_wafer(found: Performance, low: float, estimate: float, high: float) -> None:
    assert from_performance(found).samples_per_s == Estimate(estimate=estimate, low=low, high=high)


def test_a_run_without_a_rate_or_with_only_a_suspected_one_is_refused() -> None:
    with pytest.raises(WaferModelError, match="run: no rate in it"):
        from_performance(run())
    with pytest.raises(WaferModelError, match="suspects its input pipeline"):
        from_performance(run(300.0, assessed="Input bottleneck"))
    with pytest.raises(WaferModelError, match="beyond any accelerator"):
        from_performance(run(1e13))
