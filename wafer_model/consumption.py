"""How fast the accelerator consumes samples: the record that every source of that number ends in.

A declared rate, a measured step time, and the analytical models of this package all give a `Consumption`, so that whoever plans
a launch need not know where the number came from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from wafer_model.estimate import Estimate


class WaferModelError(ValueError):
    """A demand that cannot be: zero, negative, not a number, or beyond any system."""


# Nothing public streams above ~5e5 samples/s (FC-MNIST on a CS-2); a million times that is a typing error, not a demand.
ABSURD_SAMPLES_PER_S = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """The accelerator's consumption.

    Attributes:
        samples_per_s: samples per second, with its 90 % interval.
        source: where the number came from: `declared`, `step_time`, `model`, `compile_report`, `performance_json`.
        system: `CS-1`, `CS-2`, `CS-3`; None where the number was declared.
        mode: `pipelined` or `weight_streaming`; None where unknown.
        limited_by: what limits the wafer; None where the number was declared.
        batch_size: samples per step; None where unknown.
    """

    samples_per_s: Estimate
    source: str
    system: str | None = None
    mode: str | None = None
    limited_by: str | None = None
    batch_size: int | None = None


def from_rate(samples_per_s: float, *, mode: str | None = None) -> Consumption:
    """A declared demand.

    Raises:
        WaferModelError: the rate is zero, negative, NaN, infinite or absurd.
    """
    _check_positive("the demand", samples_per_s, "samples/s")
    if samples_per_s > ABSURD_SAMPLES_PER_S:
        raise WaferModelError(
            f"the demand is {samples_per_s:g} samples/s, beyond any accelerator: check the unit (samples, not bytes)"
        )
    return Consumption(samples_per_s=Estimate.exact(float(samples_per_s)), source="declared", mode=mode)


def from_step_time(step_s: float, batch_size: int, *, mode: str | None = None) -> Consumption:
    """The demand of an accelerator that takes `step_s` seconds for `batch_size` samples (forced-flow law: X = B / T).

    Raises:
        WaferModelError: either number is zero, negative, NaN or infinite, or their ratio absurd.
    """
    _check_positive("the step time", step_s, "s")
    _check_positive("the batch size", batch_size, "samples")
    declared = from_rate(batch_size / step_s, mode=mode)
    return Consumption(samples_per_s=declared.samples_per_s, source="step_time", mode=mode, batch_size=batch_size)


def _check_positive(what: str, value: float, unit: str) -> None:
    if not math.isfinite(value) or value <= 0:
        raise WaferModelError(f"{what} must be a positive number of {unit}, got {value}")
