"""The analytical model: from a network, a system and a mode to samples per second, with the limiting resource and an interval."""

from __future__ import annotations

from dataclasses import fields

from wafer_model import pipelined, weight_streaming
from wafer_model.constants import Constants, constants_of
from wafer_model.errors import WaferModelError, check_count
from wafer_model.estimate import Estimate
from wafer_model.network import Network
from wafer_model.prediction import WaferPrediction
from wafer_model.systems import System, find_system

# Both have 16 bits and one peak, so the model does not tell them apart.
DTYPES = ("fp16", "cbfloat16")


def predict(
    network: Network,
    system: System | str = "CS-2",
    mode: str | None = None,
    *,
    batch_size: int,
    systems: int = 1,
    dtype: str = "fp16",
    constants: Constants | None = None,
    calibrated: bool = False,
) -> WaferPrediction:
    """Return how fast `systems` boxes consume samples of `network` in training.

    Args:
        mode: `pipelined` or `weight_streaming`; None takes pipelined where it fits on one system, else weight streaming.
        batch_size: samples per optimizer step over all systems.
        constants: of the mode, where not the fitted ones (see `calibration.calibrate`).

    Raise WaferModelError for whatever cannot be, by name; DoesNotFitError where memory or cores do not suffice.
    """
    box = find_system(system) if isinstance(system, str) else system
    _check(box, batch_size, systems, dtype)
    obstacle = "" if mode else _obstacle_to_pipelining(network, box, systems)
    chosen = mode or ("weight_streaming" if obstacle else "pipelined")
    fitted = constants or constants_of(chosen)
    beyond = fitted.domain.beyond(chosen, network.kind, network.parameters, box.name)
    if chosen == "pipelined":
        if systems != 1:
            raise WaferModelError("pipelined execution runs on one system: weight streaming runs on several")
        rate, ceiling, found = pipelined.execution(network, box, fitted, batch_size)
    else:
        rate, ceiling, found = weight_streaming.execution(network, box, fitted, batch_size, systems)
    # A published wire speed caps the high end, since it is no matter of fitting.
    factor = fitted.interval_factor(calibrated=calibrated, beyond=beyond)
    return WaferPrediction(
        network=network.name,
        system=box.name,
        mode=chosen,
        dtype=dtype,
        batch_size=batch_size,
        systems=systems,
        samples_per_s=Estimate(estimate=rate, low=rate / factor, high=max(rate, min(rate * factor, ceiling))),
        step_s=batch_size / rate,
        parameters=network.parameters,
        training_flops=network.training_flops,
        sample_bytes=network.sample_bytes,
        ingress_bytes_per_s=rate * network.sample_bytes,
        calibrated=calibrated,
        notes=_notes(box, dtype, obstacle),
        sequence_length=network.sequence_length,
        beyond_fit=() if calibrated else tuple(said for said, _ in beyond),
        **{field.name: getattr(found, field.name) for field in fields(found)},
    )


def _check(system: System, batch_size: int, systems: int, dtype: str) -> None:
    check_count("batch_size", batch_size)
    check_count("systems", systems)
    if dtype == "fp32":
        raise WaferModelError(f"no peak is known for {system.name} in fp32: choose one of {', '.join(DTYPES)}")
    if dtype not in DTYPES:
        raise WaferModelError(f"unknown dtype {dtype!r}: one of {', '.join(DTYPES)}")
    if batch_size < systems:
        raise WaferModelError(f"a batch of {batch_size} cannot be divided among {systems} systems")


def _obstacle_to_pipelining(network: Network, system: System, systems: int) -> str:
    """Return why this cannot be pipelined; an empty text if it can."""
    if systems > 1:
        return f"{systems} systems train together, and pipelined execution runs on one"
    if network.parameters >= pipelined.DOCUMENTED_PARAMETER_LIMIT:
        return f"{network.parameters:,} parameters are more than the billion that pipelined execution is for"
    if pipelined.memory_bytes(network) > system.sram_bytes:
        return f"pipelined execution would need more memory than a {system.name} has"
    return ""


def _notes(system: System, dtype: str, obstacle: str) -> tuple[str, ...]:
    because = (f"weight streaming, because {obstacle}",) if obstacle else ()
    return (*because, f"the dense {dtype} peak of {system.name} was never published: {system.peak_origin}")
