"""The rate at which the accelerator consumes samples: one record, whatever its source.

A declared rate, a measured step time, the analytical model, a compile report and a finished run all give a `Consumption`. So the
planner of a launch need not know its source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wafer_model.errors import WaferModelError
from wafer_model.estimate import Estimate

if TYPE_CHECKING:
    from wafer_model.prediction import WaferPrediction
    from wafer_model.vendor_files import CompileReport, Performance

# Nothing public streams above ~5e5 samples/s (FC-MNIST on a CS-2); a million times that is a typing error, not a demand.
ABSURD_SAMPLES_PER_S = 1e12
# One sample in eleven days.
LEAST_SAMPLES_PER_S = 1e-6
# The compiler of the 2.x releases says of its own estimates that they "may vary by 10-25%" from what a run reaches.
COMPILER_ERROR_RATIO = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """The accelerator's consumption.

    Attributes:
        samples_per_s: samples per second, with its 90 % interval.
        source: `declared`, `step_time`, `model`, `compile_report` or `performance_json`.
        system: `CS-1`, `CS-2`, `CS-3`; None if the number was declared.
        mode: `pipelined` or `weight_streaming`; None if unknown.
        limited_by: the limit of the wafer; None if the number was declared.
        batch_size: samples per step; None if unknown.
        notes: assumptions, one sentence each.
        is_extrapolated: whether no public run covers the network or the system of a model.
    """

    samples_per_s: Estimate
    source: str
    system: str | None = None
    mode: str | None = None
    limited_by: str | None = None
    batch_size: int | None = None
    notes: tuple[str, ...] = ()
    is_extrapolated: bool = False


def from_rate(samples_per_s: float, *, mode: str | None = None) -> Consumption:
    """Return a declared demand. Raise WaferModelError if the rate is zero, negative, NaN, infinite or absurd."""
    check_rate("the demand", samples_per_s)
    return Consumption(samples_per_s=Estimate.exact(float(samples_per_s)), source="declared", mode=mode)


def from_step_time(step_s: float, batch_size: int, *, mode: str | None = None) -> Consumption:
    """Return the demand of an accelerator that takes `step_s` seconds for `batch_size` samples (forced-flow law: X = B / T).

    Raises:
        WaferModelError: either number is zero, negative, NaN or infinite, or their ratio absurd.
    """
    _check_positive("the step time", step_s, "s")
    _check_positive("the batch size", batch_size, "samples")
    rate = batch_size / step_s
    check_rate(f"the demand of {batch_size:,} samples in {step_s:g} s", rate)
    return Consumption(samples_per_s=Estimate.exact(rate), source="step_time", mode=mode, batch_size=batch_size)


def from_model(prediction: WaferPrediction) -> Consumption:
    """Return the rate of the analytical model, with the interval of its fit (or of one calibration point)."""
    return Consumption(
        samples_per_s=prediction.samples_per_s,
        source="model",
        system=prediction.system,
        mode=prediction.mode,
        limited_by=prediction.limited_by,
        batch_size=prediction.batch_size,
        notes=(*prediction.beyond_fit, *prediction.notes),
        is_extrapolated=bool(prediction.beyond_fit),
    )


def from_compile_report(report: CompileReport, *, system: str | None = None) -> Consumption:
    """Return the estimate of the closed compiler. It overrides the analytical model. The file does not name the system."""
    rate = report.samples_per_s
    check_rate(f"{report.path}: the estimate", rate)
    return Consumption(
        samples_per_s=_within(rate, COMPILER_ERROR_RATIO),
        source="compile_report",
        system=system,
        mode="pipelined",
        limited_by=report.limited_by,
    )


def from_performance(performance: Performance, *, system: str | None = None, mode: str | None = None) -> Consumption:
    """Return the rate that a finished run shows. It overrides the analytical model.

    A run is as fast as the slower of wafer and input pipeline. If the run suspects its input, the compiler's estimate counts. If it
    does not, the measured rate counts. Without an assessment the measured rate is a floor under the estimate.

    Raises:
        WaferModelError: the file gives no rate, or only one that an input pipeline may have held down.
    """
    measured = _first_positive(performance.samples_per_s, performance.recent_samples_per_s)
    estimated = _first_positive(performance.estimated_samples_per_s)
    if measured is None and estimated is None:
        raise WaferModelError(f"{performance.path}: no rate in it: neither samples_per_sec nor est_samples_per_sec nor global_rate")
    if performance.is_input_bound and estimated is None:
        raise WaferModelError(
            f"{performance.path}: the run suspects its input pipeline and gives no est_samples_per_sec, so what the wafer "
            f"could take is not in it"
        )
    if estimated is None or (measured is not None and performance.is_input_bound is False):
        interval = Estimate.exact(measured or 0.0)
    elif measured is None or performance.is_input_bound:
        interval = _within(estimated, COMPILER_ERROR_RATIO)
    else:
        interval = Estimate(
            estimate=max(measured, estimated), low=measured, high=max(measured, estimated * (1 + COMPILER_ERROR_RATIO))
        )
    check_rate(f"{performance.path}: the rate", interval.estimate)
    return Consumption(samples_per_s=interval, source="performance_json", system=system, mode=mode)


def _within(rate: float, ratio: float) -> Estimate:
    return Estimate(estimate=rate, low=rate * (1 - ratio), high=rate * (1 + ratio))


def _first_positive(*values: float | None) -> float | None:
    return next((value for value in values if value), None)


def check_rate(what: str, value: float) -> None:
    """Raise WaferModelError if `what` is no rate of an accelerator: not positive, or absurd."""
    _check_positive(what, value, "samples/s")
    if value > ABSURD_SAMPLES_PER_S:
        raise WaferModelError(f"{what} is {value:g} samples/s, beyond any accelerator: check the unit (samples, not bytes)")
    if value < LEAST_SAMPLES_PER_S:
        raise WaferModelError(f"{what} is {value:g} samples/s, below any accelerator: check the unit (samples per second)")


def _check_positive(what: str, value: float, unit: str) -> None:
    if not math.isfinite(value) or value <= 0:
        raise WaferModelError(f"{what} must be a positive number of {unit}, got {value}")
