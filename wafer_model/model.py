"""The analytical model: a network, a system and a mode in, samples per second out, with what limits them and an honest interval."""

from __future__ import annotations

from dataclasses import replace

from wafer_model import pipelined, weight_streaming
from wafer_model.constants import LATEST, MODES, Constants, constants_of
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

    Raises:
        DoesNotFitError: the network needs more memory or cores than the system has.
        WaferModelError: anything else that cannot be; the message names it.
    """
    box = find_system(system) if isinstance(system, str) else system
    for what, value in (("batch_size", batch_size), ("systems", systems), ("replicas", replicas)):
        check_count(what, value)
    if dtype not in FLOAT_BYTES:
        raise WaferModelError(f"unknown dtype {dtype!r}: one of {', '.join(FLOAT_BYTES)}")
    if optimizer not in pipelined.OPTIMIZER_BYTES:
        raise WaferModelError(f"unknown optimizer {optimizer!r}: one of {', '.join(pipelined.OPTIMIZER_BYTES)}")
    if batch_size < systems * replicas:
        raise WaferModelError(f"a batch of {batch_size} cannot be divided among {systems} system(s) with {replicas} replica(s)")
    needs_streaming = _needs_streaming(network, box, dtype, optimizer, systems)
    chosen = mode or ("weight_streaming" if needs_streaming else "pipelined")
    if chosen not in MODES:
        raise WaferModelError(f"unknown mode {chosen!r}: one of {', '.join(MODES)}")
    fitted = constants or constants_of(chosen)
    beyond = () if calibrated else tuple(said for said, _ in _beyond(network, box, fitted))
    if chosen == "pipelined":
        if micro_batch_size is not None:
            raise WaferModelError("pipelined execution has no micro-batches")
        if systems != 1:
            raise WaferModelError("pipelined execution runs on one system; several need weight streaming")
        found = _pipelined(network, box, fitted, batch_size, dtype, optimizer, replicas, release, calibrated)
        return replace(found, sequence_length=network.sequence_length, beyond_fit=beyond)
    if replicas != 1:
        raise WaferModelError("weight streaming has no replicas on one wafer; use several systems")
    found = _streaming(network, box, fitted, batch_size, systems, dtype, micro_batch_size, release, calibrated)
    because = () if mode else (f"weight streaming, because {needs_streaming}",)
    return replace(found, sequence_length=network.sequence_length, beyond_fit=beyond, notes=(*because, *found.notes))


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


def _beyond(network: Network, system: System, constants: Constants) -> tuple[tuple[str, float], ...]:
    return constants.domain.beyond(constants.mode, network.kind, network.parameters, system.name)


def _interval(
    rate: float, ceiling: float, constants: Constants, calibrated: bool, beyond: tuple[tuple[str, float], ...]
) -> Estimate:
    """The estimate within its factor; a published wire speed caps the high end, since it is no matter of fitting."""
    factor = constants.interval_factor(calibrated=calibrated, beyond=beyond)
    return Estimate(estimate=rate, low=rate / factor, high=max(rate, min(rate * factor, ceiling)))


def _pipelined(
    network: Network,
    system: System,
    constants: Constants,
    batch_size: int,
    dtype: str,
    optimizer: str,
    replicas: int,
    release: str,
    calibrated: bool,
) -> WaferPrediction:
    placement = pipelined.place(network, system, constants, dtype=dtype, optimizer=optimizer, replicas=replicas, release=release)
    ingress = system.io_bytes_per_s / network.sample_bytes(dtype)
    steady = min(placement.samples_per_s, ingress)
    # Weights change at the end of every batch, so the pipeline fills again: a batch of B takes (B + fill) / rate.
    fill = (placement.stages - 1) * replicas
    rate = steady * batch_size / (batch_size + fill)
    limits = (
        RateLimit(name="compute", samples_per_s=placement.compute_limit_per_s),
        RateLimit(name="transmission", samples_per_s=placement.transmission_limit_per_s),
        RateLimit(name="ingress", samples_per_s=ingress),
    )
    return WaferPrediction(
        network=network.name,
        system=system.name,
        mode="pipelined",
        dtype=dtype,
        batch_size=batch_size,
        systems=1,
        replicas=replicas,
        samples_per_s=_interval(rate, ingress, constants, calibrated, _beyond(network, system, constants)),
        step_s=batch_size / rate,
        limited_by="ingress" if ingress < placement.samples_per_s else placement.limited_by,
        limiting_row=placement.limiting_row,
        limits=tuple(sorted(limits, key=lambda limit: limit.samples_per_s)),
        rows=placement.rows,
        active_core_ratio=placement.active_core_ratio,
        fill_steps=placement.stages,
        fill_s=fill / steady,
        micro_batches=1,
        micro_batch_size=batch_size,
        memory_bytes=placement.memory_bytes,
        parameters=network.parameters,
        training_flops=network.training_flops,
        sample_bytes=network.sample_bytes(dtype),
        ingress_bytes_per_s=rate * network.sample_bytes(dtype),
        single_task_nodes=SINGLE_TASK_NODES["pipelined"],
        calibrated=calibrated,
        notes=_notes(system, dtype),
    )


def _streaming(
    network: Network,
    system: System,
    constants: Constants,
    batch_size: int,
    systems: int,
    dtype: str,
    micro_batch_size: int | None,
    release: str,
    calibrated: bool,
) -> WaferPrediction:
    share = -(-batch_size // systems)  # the slowest system has the most samples
    step = weight_streaming.step_of(
        network, system, constants, share, dtype=dtype, micro_batch_size=micro_batch_size, release=release
    )
    rate = batch_size / step.step_s
    terms = (("compute", step.compute_s), ("weights", step.weights_s), ("latency", step.latency_s), ("ingress", step.ingress_s))
    limits = tuple(RateLimit(name=name, samples_per_s=batch_size / seconds) for name, seconds in terms if seconds > 0)
    slowest = max(step.rows, key=lambda row: row.step_s or 0.0)
    return WaferPrediction(
        network=network.name,
        system=system.name,
        mode="weight_streaming",
        dtype=dtype,
        batch_size=batch_size,
        systems=systems,
        replicas=1,
        samples_per_s=_interval(rate, batch_size / step.ingress_s, constants, calibrated, _beyond(network, system, constants)),
        step_s=step.step_s,
        limited_by=step.limited_by,
        limiting_row=slowest.name,
        limits=tuple(sorted(limits, key=lambda limit: limit.samples_per_s)),
        rows=step.rows,
        active_core_ratio=1.0,
        fill_steps=None,
        fill_s=0.0,
        micro_batches=step.micro_batches,
        micro_batch_size=step.micro_batch_size,
        memory_bytes=step.memory_bytes,
        parameters=network.parameters,
        training_flops=network.training_flops,
        sample_bytes=network.sample_bytes(dtype),
        ingress_bytes_per_s=rate * network.sample_bytes(dtype),
        single_task_nodes=SINGLE_TASK_NODES["weight_streaming"],
        calibrated=calibrated,
        notes=_notes(system, dtype),
    )


def _notes(system: System, dtype: str) -> tuple[str, ...]:
    notes = []
    if f"peak_flops_per_s_{dtype}" in system.derived:
        notes.append(f"the dense {dtype} peak of {system.name} was never published: {system.sources[f'peak_flops_per_s_{dtype}']}")
    return tuple(notes)
