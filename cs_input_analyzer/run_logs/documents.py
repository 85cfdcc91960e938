"""The run's YAML and `global_perf_summary.txt` -> what they say of the run. Both are small, and read whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cs_input_analyzer.errors import UsageError
from wafer_model.foreign import text_of, yaml_of

# YAML takes a second for so much.
LARGEST_BYTES = 1 << 16
# Where releases keep each number, the older ones first.
_BATCH = (("train_input", "batch_size"), ("train_input", "train_batch_size"), ("trainer", "fit", "train_dataloader", "batch_size"))
_CHECKPOINTS = (
    ("runconfig", "checkpoint_steps"),
    ("runconfig", "save_checkpoints_steps"),
    ("trainer", "init", "checkpoint", "steps"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParameters:
    """What a run was asked to do."""

    batch_size: int | None
    checkpoint_every: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceSummary:
    """Of the steps of one session after the first. Rates are per step and smoothed as Rate is, in samples per second."""

    average_samples_per_s: float
    slowest_step: int
    slowest_samples_per_s: float


def read_parameters(path: Path) -> RunParameters | None:
    """None for YAML that holds none of the numbers. Raises UsageError: no YAML, or too large for parameters."""
    try:
        document = yaml_of(text_of(path, most_bytes=LARGEST_BYTES))
    except ValueError as error:
        raise UsageError(f"{path}: not read as the parameters of a run: {error}") from None
    batch, every = (_first(document, places) for places in (_BATCH, _CHECKPOINTS))
    return None if batch is None and every is None else RunParameters(batch_size=batch, checkpoint_every=every)


def _first(document: object, places: tuple[tuple[str, ...], ...]) -> int | None:
    for place in places:
        value = document
        for key in place:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


_RATE = r"(\d{1,40}(?:\.\d{1,40})?(?:e[-+]?\d{1,3})?)"
_AVERAGE = re.compile(rf"^Average steady state samples per second: {_RATE}, median: {_RATE}\s*$", re.MULTILINE)
_SLOWEST = re.compile(rf"^Slowest step: step (\d{{1,18}}), rate: {_RATE} \(", re.MULTILINE)


def read_performance_summary(path: Path) -> PerformanceSummary:
    """Raises UsageError: not such a file, as releases from 2.4 on write it."""
    try:
        text = text_of(path, most_bytes=LARGEST_BYTES)
    except ValueError as error:
        raise UsageError(f"{path}: not read as a performance summary: {error}") from None
    average, slowest = _AVERAGE.search(text), _SLOWEST.search(text)
    if average is None or slowest is None:
        raise UsageError(f"{path}: not a performance summary: the lines on its steps and their rates are not in it")
    return PerformanceSummary(
        average_samples_per_s=float(average[1]), slowest_step=int(slowest[1]), slowest_samples_per_s=float(slowest[2])
    )
