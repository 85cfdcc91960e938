"""Answer the one question that `wafer MODEL` and `analyze --wafer MODEL` ask of this package."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wafer_model.calibration import calibrate
from wafer_model.errors import WaferModelError
from wafer_model.model import predict
from wafer_model.network_yaml import load_network
from wafer_model.prediction import WaferPrediction
from wafer_model.systems import find_system


def ask(
    model: str,
    *,
    batch_size: int | None,
    system: str = "CS-2",
    mode: str | None = None,
    sequence_length: int | None = None,
    systems: int = 1,
    dtype: str = "fp16",
    calibrate_samples_per_s: float | None = None,
) -> WaferPrediction:
    """Return the prediction for a built-in network or a YAML file.

    Args:
        mode: `pipelined`, `weight_streaming` (a hyphen will do), or None for whichever fits.
        calibrate_samples_per_s: a rate measured with exactly these arguments; it replaces what the public runs say.

    Raises:
        WaferModelError, DoesNotFitError: whatever cannot be, named.
    """
    if batch_size is None:
        raise WaferModelError("how fast a wafer consumes samples depends on the batch size: give --batch-size")
    network = load_network(model, sequence_length=sequence_length)
    box = find_system(system)
    step: dict[str, Any] = {"batch_size": batch_size, "systems": systems, "dtype": dtype}
    wanted = mode.replace("-", "_") if mode else None
    found = predict(network, box, wanted, **step)
    if calibrate_samples_per_s is not None:
        expected = found.samples_per_s
        constants = calibrate(network, box, found.mode, samples_per_s=calibrate_samples_per_s, **step)
        found = predict(network, box, wanted, **step, constants=constants, calibrated=True)
        if calibrate_samples_per_s < expected.low:
            doubt = f"public runs suggest {expected.low:,.1f} to {expected.high:,.1f} samples/s: did your run wait for its input?"
            found = replace(found, notes=(doubt, *found.notes))
    if found.sequence_length is None or sequence_length is not None:
        return found
    # Nobody gave the length and it decides the rate, so it is an assumption.
    return replace(found, notes=(f"{found.sequence_length:,} tokens in a sample, the network's own length", *found.notes))
