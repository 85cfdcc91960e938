"""Rescale the constants by one measured rate, so that the model gives exactly that."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wafer_model.constants import Constants, constants_of
from wafer_model.consumption import check_rate
from wafer_model.errors import WaferModelError
from wafer_model.model import predict
from wafer_model.network import Network
from wafer_model.prediction import WaferPrediction
from wafer_model.systems import System, find_system

# Standard deviations of the logarithm between networks: efficiencies that the public weight-streaming runs imply lie between 0.15
# and 0.43; the two public series over batch sizes (BERT-large on CS-2, Llama 7B on CS-3) imply latencies of 2.6 and 2.7 ms.
EFFICIENCY_SPREAD = 0.35
LATENCY_SPREAD = 0.1


def calibrate(
    network: Network, system: System | str, mode: str, *, samples_per_s: float, systems: int = 1, **step: Any
) -> Constants:
    """Return constants with which the model gives exactly the one rate that was measured; `step`: as `predict` takes it.

    One number cannot tell which constant is off. So each moves by its share of the time times the square of its spread: the most
    probable change that explains the point. Large batches so speak about the efficiency, small ones also about the latency.

    Raises:
        WaferModelError: the rate is not positive, or beyond the peak or the wires of the systems.
    """
    check_rate("the calibration rate", samples_per_s)
    fitted = constants_of(mode)

    def predicted(constants: Constants) -> WaferPrediction:
        return predict(network, system, mode, systems=systems, constants=constants, **step)

    before = predicted(fitted)
    for shares in _shares(before):
        found = _solve(fitted, shares, before.system, samples_per_s, lambda constants: predicted(constants).samples_per_s.estimate)
        if found is not None:
            return found
    most = systems * find_system(before.system).peak_flops_per_s / network.training_flops
    raise WaferModelError(
        f"{samples_per_s:g} samples/s of {network.name} cannot be: the peak of {systems} system(s) allows {most:,.1f} samples/s, "
        "and their wires may carry fewer: check the unit"
    )


def _shares(predicted: WaferPrediction) -> tuple[tuple[float, float, float], ...]:
    """Return how far (efficiency, latency, ports) move together: several sets, to be tried in turn."""
    if predicted.mode == "pipelined":
        first = (0.0, 0.0, 1.0) if predicted.limited_by == "transmission" else (1.0, 0.0, 0.0)
        return (first, (1.0, 0.0, 1.0))
    seconds = {limit.name: predicted.batch_size / limit.samples_per_s for limit in predicted.limits}
    compute, latency = seconds.get("compute", 0.0), seconds.get("latency", 0.0)
    pull = (compute * EFFICIENCY_SPREAD**2, latency * LATENCY_SPREAD**2)
    return ((pull[0] / max(pull), pull[1] / max(pull), 0.0), (1.0, 1.0, 0.0))


def _solve(
    constants: Constants, shares: tuple[float, float, float], system: str, target: float, rate: Callable[[Constants], float]
) -> Constants | None:
    """Return the constants whose rate is the target, by bisection on the common change.

    Return None if no change reaches it. No efficiency goes beyond the peak of the system.
    """
    at_peak = constants.efficiency / constants.efficiency_on(system)

    def moved(change: float) -> Constants:
        return replace(
            constants,
            efficiency=min(at_peak, constants.efficiency * math.exp(change * shares[0])),
            layer_latency_s=constants.layer_latency_s * math.exp(-change * shares[1]),
            port_elements_per_s=constants.port_elements_per_s * math.exp(change * shares[2]),
        )

    low, high = -40.0, 40.0
    if not rate(moved(low)) <= target <= rate(moved(high)):
        return None
    for _ in range(60):  # from 80 to a float's last bit
        middle = (low + high) / 2
        low, high = (middle, high) if rate(moved(middle)) < target else (low, middle)
    return moved(high)
