"""The analytical model: a network, a system and a mode in, samples per second out, with what limits them and an honest interval."""

from __future__ import annotations

from typing import Any

from wafer_model import pipelined, weight_streaming
from wafer_model.constants import LATEST, Constants, constants_of
from wafer_model.errors import WaferModelError, check_count
from wafer_model.estimate import Estimate
from wafer_model.network import FLOAT_BYTES, Network
from wafer_model.prediction import RateLimit, WaferPrediction
from wafer_model.systems import System, find_system

# The original installation keeps nodes that run one task and stream nothing: the chief's, and one more in weight streaming (the
# weight-streaming quickstart of R1.4 asks for at least two).
SINGLE_TASK_NODES = {"pipelined": 1, "weight_streaming": 2}


def predict(
    network: Network,
    system: System | str = "CS-2",
    mode: str | None = None,
    *,
    batch_size: int,
    systems: int = 1,
    dtype: str = "fp16",
    optimizer: str = "adam",
    replicas: int = 1,
    micro_batch_size: int | None = None,
    release: str = LATEST,
    constants: Constants | None = None,
    calibrated: bool = False,
) -> WaferPrediction:
    """How fast `systems` boxes consume samples of `network` in training.

    Args:
        mode: `pipelined` or `weight_streaming`; None takes pipelined where it fits on one system, else weight streaming.
        batch_size: samples per optimizer step over all systems.
        replicas: whole-model copies on one wafer (pipelined only).
        micro_batch_size: samples per system and pass, where known; None takes what memory allows (weight streaming only).
        release: software release, for what changed with it; unknown ones count as the latest.
        constants: of the mode, where not the fitted ones (see `calibration.calibrate`).

    Raises WaferModelError for whatever cannot be, by name; DoesNotFitError where memory or cores do not suffice.
    """
    box = find_system(system) if isinstance(system, str) else system
    _check(batch_size, systems, replicas, dtype, optimizer)
    needs_streaming = _needs_streaming(network, box, dtype, optimizer, systems)
    chosen = mode or ("weight_streaming" if needs_streaming else "pipelined")
    fitted = constants or constants_of(chosen)
    beyond = fitted.domain.beyond(chosen, network.kind, network.parameters, box.name)
    asked: dict[str, Any] = {"batch_size": batch_size, "systems": systems, "replicas": replicas, "dtype": dtype}
    step = {**asked, "release": release}
    if chosen == "pipelined":
        rate, ceiling, found = _pipelined(network, box, fitted, **step, optimizer=optimizer, micro_batch_size=micro_batch_size)
    else:
        rate, ceiling, found = _streaming(network, box, fitted, **step, micro_batch_size=micro_batch_size)
    # A published wire speed caps the high end, since it is no matter of fitting.
    factor = fitted.interval_factor(calibrated=calibrated, beyond=beyond)
    because = (f"weight streaming, because {needs_streaming}",) if chosen != "pipelined" and not mode else ()
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
        single_task_nodes=SINGLE_TASK_NODES[chosen],
        calibrated=calibrated,
        notes=(*because, *_notes(box, dtype)),
        sequence_length=network.sequence_length,
        beyond_fit=() if calibrated else tuple(said for said, _ in beyond),
        **asked,
        **found,
    )


def _check(batch_size: int, systems: int, replicas: int, dtype: str, optimizer: str) -> None:
    for what, value in (("batch_size", batch_size), ("systems", systems), ("replicas", replicas)):
        check_count(what, value)
    if dtype not in FLOAT_BYTES:
        raise WaferModelError(f"unknown dtype {dtype!r}: one of {', '.join(FLOAT_BYTES)}")
    if optimizer not in pipelined.OPTIMIZER_BYTES:
        raise WaferModelError(f"unknown optimizer {optimizer!r}: one of {', '.join(pipelined.OPTIMIZER_BYTES)}")
    if batch_size < systems * replicas:
        raise WaferModelError(f"a batch of {batch_size} cannot be divided among {systems} system(s) with {replicas} replica(s)")


def _pipelined(
    network: Network,
    box: System,
    fitted: Constants,
    *,
    batch_size: int,
    systems: int,
    replicas: int,
    micro_batch_size: int | None,
    **how: str,
) -> tuple[float, float, dict[str, Any]]:
    """Samples per second, what the wires carry, and what a prediction says of this mode alone."""
    if micro_batch_size is not None:
        raise WaferModelError("pipelined execution has no micro-batches")
    if systems != 1:
        raise WaferModelError("pipelined execution runs on one system; several need weight streaming")
    placement = pipelined.place(network, box, fitted, replicas=replicas, **how)
    ingress = box.io_bytes_per_s / network.sample_bytes(how["dtype"])
    steady = min(placement.samples_per_s, ingress)
    # Weights change at the end of every batch, so the pipeline fills again: a batch of B takes (B + fill) / rate.
    fill = (placement.stages - 1) * replicas
    limits = {"compute": placement.compute_limit_per_s, "transmission": placement.transmission_limit_per_s, "ingress": ingress}
    return (
        steady * batch_size / (batch_size + fill),
        ingress,
        {
            "limited_by": "ingress" if ingress < placement.samples_per_s else placement.limited_by,
            "limiting_row": placement.limiting_row,
            "limits": _sorted(limits),
            "rows": placement.rows,
            "active_core_ratio": placement.active_core_ratio,
            "fill_steps": placement.stages,
            "fill_s": fill / steady,
            "micro_batches": 1,
            "micro_batch_size": batch_size,
            "memory_bytes": placement.memory_bytes,
        },
    )


def _streaming(
    network: Network, box: System, fitted: Constants, *, batch_size: int, systems: int, replicas: int, **how: Any
) -> tuple[float, float, dict[str, Any]]:
    """As `_pipelined`."""
    if replicas != 1:
        raise WaferModelError("weight streaming has no replicas on one wafer; use several systems")
    share = -(-batch_size // systems)  # the slowest system has the most samples
    step = weight_streaming.step_of(network, box, fitted, share, **how)
    terms = {"compute": step.compute_s, "weights": step.weights_s, "latency": step.latency_s, "ingress": step.ingress_s}
    return (
        batch_size / step.step_s,
        batch_size / step.ingress_s,
        {
            "limited_by": step.limited_by,
            "limiting_row": max(step.rows, key=lambda row: row.step_s or 0.0).name,
            "limits": _sorted({name: batch_size / seconds for name, seconds in terms.items() if seconds > 0}),
            "rows": step.rows,
            "active_core_ratio": 1.0,
            "fill_steps": None,
            "fill_s": 0.0,
            "micro_batches": step.micro_batches,
            "micro_batch_size": step.micro_batch_size,
            "memory_bytes": step.memory_bytes,
        },
    )


def _sorted(limits: dict[str, float]) -> tuple[RateLimit, ...]:
    found = (RateLimit(name=name, samples_per_s=rate) for name, rate in limits.items())
    return tuple(sorted(found, key=lambda limit: limit.samples_per_s))


def why_mode(network: Network, system: System, mode: str | None, *, dtype: str, optimizer: str = "adam", systems: int = 1) -> str:
    """Why a network runs in the mode that `predict` takes for it."""
    if mode is not None:
        return "as asked for"
    reason = _needs_streaming(network, system, dtype, optimizer, systems)
    if not reason:
        return f"it fits on one {system.name}, and has fewer than a billion parameters"
    if systems > 1 and not _needs_streaming(network, system, dtype, optimizer, 1):
        return f"{reason}; one system alone would be pipelined"
    return reason


def _needs_streaming(network: Network, system: System, dtype: str, optimizer: str, systems: int) -> str:
    """Why this cannot be pipelined; empty where it can."""
    if systems > 1:
        return f"{systems} systems train together, and pipelined execution runs on one"
    if network.parameters >= pipelined.DOCUMENTED_PARAMETER_LIMIT:
        return f"{network.parameters:,} parameters are more than the billion that pipelined execution is for"
    if pipelined.memory_bytes(network, dtype=dtype, optimizer=optimizer) > system.sram_bytes:
        return f"pipelined execution would need more memory than a {system.name} has"
    return ""


def _notes(system: System, dtype: str) -> tuple[str, ...]:
    field = f"peak_flops_per_s_{dtype}"
    if field not in system.derived:
        return ()
    return (f"the dense {dtype} peak of {system.name} was never published: {system.sources[field]}",)
