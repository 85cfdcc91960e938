"""One question, one answer: what `wafer MODEL` and `analyze --wafer MODEL` ask of this package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from wafer_model.calibration import calibrate
from wafer_model.constants import constants_of
from wafer_model.errors import WaferModelError
from wafer_model.model import predict, why_mode
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
    step: dict[str, Any] = {"batch_size": batch_size, "systems": systems, "dtype": dtype}
    found = predict(network, box, wanted, **step)
    why = why_mode(network, box, wanted, dtype=dtype, systems=systems)
    if calibrate_samples_per_s is not None:
        constants = calibrate(constants_of(found.mode), network, box, samples_per_s=calibrate_samples_per_s, **step)
        found = predict(network, box, wanted, **step, constants=constants, calibrated=True)
    return _with_choices(found, sequence_length, why)


def _with_choices(found: WaferPrediction, length: int | None, why: str) -> WaferPrediction:
    """What was taken, and why; a length that nobody gave is an assumption that decides the rate, and so a note, too."""
    choices = [("mode", f"{found.mode.replace('_', ' ')}: {why}")]
    notes = found.notes
    if found.sequence_length is not None:
        origin = "as asked for" if length is not None else "the network's own length"
        choices.append(("sequence length", f"{found.sequence_length:,} tokens in a sample, {origin}"))
        if length is None:
            notes = (choices[-1][1], *notes)
    return replace(found, notes=notes, choices=tuple(choices))
