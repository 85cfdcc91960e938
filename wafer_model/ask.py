"""One question, one answer: what `wafer MODEL` and `analyze --wafer MODEL` ask of this package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wafer_model.calibration import calibrate
from wafer_model.constants import LATEST, constants_of
from wafer_model.errors import WaferModelError
from wafer_model.model import predict
from wafer_model.network_yaml import load_network
from wafer_model.prediction import WaferPrediction
from wafer_model.systems import find_system, load_systems


def ask(
    model: str,
    *,
    batch_size: int | None,
    system: str = "CS-2",
    mode: str | None = None,
    sequence_length: int | None = None,
    systems: int = 1,
    dtype: str = "fp16",
    optimizer: str = "adam",
    replicas: int = 1,
    micro_batch_size: int | None = None,
    release: str = LATEST,
    calibrate_samples_per_s: float | None = None,
    system_file: Path | None = None,
) -> WaferPrediction:
    """The prediction for a built-in network or a YAML file.

    Args:
        mode: `pipelined`, `weight_streaming` (a hyphen will do), or None for whichever fits.
        calibrate_samples_per_s: a rate measured with exactly these arguments; it replaces what the public runs say.
        system_file: YAML with systems of the user's own.

    Raises:
        WaferModelError, DoesNotFitError: whatever cannot be, named.
    """
    if batch_size is None:
        raise WaferModelError("how fast a wafer consumes samples depends on the batch size: give --batch-size")
    network = load_network(model, sequence_length=sequence_length)
    box = find_system(system, load_systems(system_file) if system_file else None)
    wanted = mode.replace("-", "_") if mode else None
    first = predict(
        network,
        box,
        wanted,
        batch_size=batch_size,
        systems=systems,
        dtype=dtype,
        optimizer=optimizer,
        replicas=replicas,
        micro_batch_size=micro_batch_size,
        release=release,
    )
    if calibrate_samples_per_s is None:
        return _with_length(first, sequence_length)
    constants = calibrate(
        constants_of(first.mode),
        network,
        box,
        batch_size=batch_size,
        samples_per_s=calibrate_samples_per_s,
        systems=systems,
        dtype=dtype,
        optimizer=optimizer,
        replicas=replicas,
        micro_batch_size=micro_batch_size,
        release=release,
    )
    tied = predict(
        network,
        box,
        wanted,
        batch_size=batch_size,
        systems=systems,
        dtype=dtype,
        optimizer=optimizer,
        replicas=replicas,
        micro_batch_size=micro_batch_size,
        release=release,
        constants=constants,
        calibrated=True,
    )
    return _with_length(tied, sequence_length)


def _with_length(found: WaferPrediction, given: int | None) -> WaferPrediction:
    """Where no length was given, the one that the network has by itself is an assumption that decides the rate."""
    if given is not None or found.sequence_length is None:
        return found
    return replace(found, notes=(f"{found.sequence_length:,} tokens in a sample, the network's own length", *found.notes))
