"""The analytical model: a network, a system and a mode in, samples per second out, with what limits them and an honest interval."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from wafer_model import pipelined, weight_streaming
from wafer_model.constants import LATEST, Constants, constants_of
from wafer_model.errors import WaferModelError, check_count
from wafer_model.estimate import Estimate
from wafer_model.network import FLOAT_BYTES, Network
from wafer_model.prediction import WaferPrediction
from wafer_model.systems import System, find_system


def predict(
    network: Network,
    system: System | str = "CS-2",
    mode: str | None = None,
    *,
    batch_size: int,
    systems: int = 1,
    dtype: str = "fp16",
    micro_batch_size: int | None = None,
    release: str = LATEST,
    constants: Constants | None = None,
    calibrated: bool = False,
) -> WaferPrediction:
    """How fast `systems` boxes consume samples of `network` in training.

    Args:
        mode: `pipelined` or `weight_streaming`; None takes pipelined where it fits on one system, else weight streaming.
        batch_size: samples per optimizer step over all systems.
        micro_batch_size: samples per system and pass, where known; None takes what memory allows (weight streaming only).
        release: software release, for what changed with it; unknown ones count as the latest.
        constants: of the mode, where not the fitted ones (see `calibration.calibrate`).

    Raises WaferModelError for whatever cannot be, by name; DoesNotFitError where memory or cores do not suffice.
    """
    box = find_system(system) if isinstance(system, str) else system
    _check(batch_size, systems, dtype)
    why = "" if mode else _needs_streaming(network, box, dtype, systems)
    chosen = mode or ("weight_streaming" if why else "pipelined")
    fitted = constants or constants_of(chosen)
    beyond = fitted.domain.beyond(chosen, network.kind, network.parameters, box.name)
    if chosen == "pipelined" and (systems != 1 or micro_batch_size is not None):
        raise WaferModelError("pipelined execution runs on one system and has no micro-batches: weight streaming has both")
    asked: dict[str, Any] = {"batch_size": batch_size, "systems": systems, "dtype": dtype}
    how: dict[str, Any] = {"dtype": dtype, "release": release}
    if chosen == "pipelined":
        rate, ceiling, found = pipelined.execution(network, box, fitted, batch_size, **how)
    else:
        rate, ceiling, found = weight_streaming.execution(network, box, fitted, batch_size, systems, micro_batch_size, **how)
    # A published wire speed caps the high end, since it is no matter of fitting.
    factor = fitted.interval_factor(calibrated=calibrated, beyond=beyond)
    return WaferPrediction(
        network=network.name,
        system=box.name,
        mode=chosen,
        samples_per_s=Estimate(estimate=rate, low=rate / factor, high=max(rate, min(rate * factor, ceiling))),
        step_s=batch_size / rate,
        parameters=network.parameters,
        training_flops=network.training_flops,
        sample_bytes=network.sample_bytes(dtype),
        ingress_bytes_per_s=rate * network.sample_bytes(dtype),
        calibrated=calibrated,
        notes=_notes(box, dtype, why),
        sequence_length=network.sequence_length,
        beyond_fit=() if calibrated else tuple(said for said, _ in beyond),
        **asked,
        **{field.name: getattr(found, field.name) for field in fields(found)},
    )


def _check(batch_size: int, systems: int, dtype: str) -> None:
    check_count("batch_size", batch_size)
    check_count("systems", systems)
    if dtype not in FLOAT_BYTES:
        raise WaferModelError(f"unknown dtype {dtype!r}: one of {', '.join(FLOAT_BYTES)}")
    if batch_size < systems:
        raise WaferModelError(f"a batch of {batch_size} cannot be divided among {systems} systems")


def why_mode(network: Network, system: System, mode: str | None, *, dtype: str, systems: int = 1) -> str:
    """Why a network runs in the mode that `predict` takes for it."""
    if mode is not None:
        return "as asked for"
    reason = _needs_streaming(network, system, dtype, systems)
    if not reason:
        return f"it fits on one {system.name}, and has fewer than a billion parameters"
    if systems > 1 and not _needs_streaming(network, system, dtype, 1):
        return f"{reason}; one system alone would be pipelined"
    return reason


def _needs_streaming(network: Network, system: System, dtype: str, systems: int) -> str:
    """Why this cannot be pipelined; empty where it can."""
    if systems > 1:
        return f"{systems} systems train together, and pipelined execution runs on one"
    if network.parameters >= pipelined.DOCUMENTED_PARAMETER_LIMIT:
        return f"{network.parameters:,} parameters are more than the billion that pipelined execution is for"
    if pipelined.memory_bytes(network, dtype=dtype) > system.sram_bytes:
        return f"pipelined execution would need more memory than a {system.name} has"
    return ""


def _notes(system: System, dtype: str, why_streaming: str) -> tuple[str, ...]:
    field = f"peak_flops_per_s_{dtype}"
    because = (f"weight streaming, because {why_streaming}",) if why_streaming else ()
    if field not in system.derived:
        return because
    return (*because, f"the dense {dtype} peak of {system.name} was never published: {system.sources[field]}")
