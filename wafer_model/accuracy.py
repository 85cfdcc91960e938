"""How good the model is, computed afresh from the public runs: the numbers of docs/wafer_model.md and of the benchmark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wafer_model.calibration import LeftOut, calibrate_by_each, error_factor, leave_groups_out, log_sigma, predict_run
from wafer_model.constants import MODES, constants_of
from wafer_model.published import PublishedRun, published_runs

# What a one-point calibration promises for its own family.
CALIBRATED_TARGET_RATIO = 0.10
# Where a left-out row misses its interval, or nearly, why. Rows without a line here are not explained.
EXPLANATIONS = {
    "esm2_cs2": "the same configuration took 4.2 ms per block and pass on a CS-2 and 2.5 ms on a CS-3; one latency cannot be both",
    "esm2_cs3": "see esm2_cs2",
    "bert_ws_2048": "BERT at 128 tokens is the most efficient public network (this row implies 0.43 of the peak)",
    "dit_cs2": "a 'modified' configuration that is not public; on a CS-3 the same file misses by less",
    "gptj_r171": "an early release: the same network on the same boxes went from 27.5 to 43.7 samples/s by 2.0.3",
    "gptj_cs3": "2.05 times as fast as on a CS-2; ESM-2 is 1.69 times",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Of one mode.

    Attributes:
        left_out: every fitted row, predicted without its (network, system, mode).
        calibrated: every pair (row, point) of one family.
        error_factor: geometric mean of how far off the left-out rows are; `group_error_factor`: every group counting once.
        inside_ratio: left-out rows inside their 90 % interval; `high_over_low`: width of that interval.
    """

    mode: str
    left_out: tuple[LeftOut, ...]
    calibrated: tuple[LeftOut, ...]
    error_factor: float
    group_error_factor: float
    log_sigma: float
    inside_ratio: float
    high_over_low: float
    calibrated_error_factor: float | None
    calibrated_worst_ratio: float | None
    calibrated_within_ratio: float | None
    calibrated_high_over_low: float

    @property
    def outside(self) -> tuple[LeftOut, ...]:
        return tuple(row for row in self.left_out if not row.is_inside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfitted:
    """A row that is not fitted, with what the wafer could have taken: input-bound rows are below it."""

    run: PublishedRun
    model_samples_per_s: float

    @property
    def reached_ratio(self) -> float:
        return self.run.samples_per_s / self.model_samples_per_s


def accuracy_of(mode: str, runs: Sequence[PublishedRun] | None = None) -> Accuracy:
    """Fits once per left-out group: a second or two."""
    rows = published_runs() if runs is None else runs
    left_out = leave_groups_out(mode, rows)
    calibrated = calibrate_by_each(mode, rows)
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in left_out:
        groups.setdefault(row.run.group, []).append(abs(row.log_error))
    constants = constants_of(mode)
    errors = [row.log_error for row in calibrated]
    off = [abs(math.expm1(error)) for error in errors]
    return Accuracy(
        mode=mode,
        left_out=left_out,
        calibrated=calibrated,
        error_factor=error_factor([row.log_error for row in left_out]),
        group_error_factor=error_factor([sum(group) / len(group) for group in groups.values()]),
        log_sigma=log_sigma(left_out),
        inside_ratio=sum(row.is_inside for row in left_out) / len(left_out),
        high_over_low=constants.interval_factor() ** 2,
        calibrated_error_factor=error_factor(errors) if errors else None,
        calibrated_worst_ratio=max(off, default=None),
        calibrated_within_ratio=sum(each <= CALIBRATED_TARGET_RATIO for each in off) / len(off) if off else None,
        calibrated_high_over_low=constants.interval_factor(calibrated=True) ** 2,
    )


def overall_error_factor(parts: Sequence[Accuracy]) -> float:
    """Over all left-out rows of all modes."""
    return error_factor([row.log_error for part in parts for row in part.left_out])


def unfitted(runs: Sequence[PublishedRun] | None = None) -> tuple[Unfitted, ...]:
    """Rows held back by something other than the wafer, or of unknown size; evaluation does a third of the arithmetic and is
    left out, since the model is one of training."""
    rows = published_runs() if runs is None else runs
    chosen = [run for run in rows if not run.is_fitted and run.bound != "evaluation"]
    return tuple(
        Unfitted(run=run, model_samples_per_s=predict_run(run, constants_of(run.mode)).samples_per_s.estimate) for run in chosen
    )


def all_modes(runs: Sequence[PublishedRun] | None = None) -> tuple[Accuracy, ...]:
    return tuple(accuracy_of(mode, runs) for mode in MODES)
