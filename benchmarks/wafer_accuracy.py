"""How far off is the wafer model on public runs, as `wafer MODEL` predicts them, and after one measured point?

The constants were fitted on rows of the same file. So the first table shows that the model still says what it was fitted to say.
docs/wafer_model.md has how well it predicts networks that it had not seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.paired import arguments, save, show
from wafer_model.ask import ask
from wafer_model.calibration import calibrate
from wafer_model.catalogue import build_network
from wafer_model.model import predict
from wafer_model.prediction import WaferPrediction
from wafer_model.published import PublishedRun, published_runs

FITTED_BOUNDS = ("compute", "estimate")
TARGET_FACTOR, TARGET_CALIBRATED_RATIO = 1.35, 0.10
# Why a row misses its interval. Rows without a line here are not explained.
EXPLANATIONS = {
    "esm2_cs2": "its configuration asks for micro-batches of 64; the model takes the largest that fit",
    "esm2_cs3": "see esm2_cs2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A public run with the model's word on it; `point`: the run that it was calibrated on."""

    run: PublishedRun
    prediction: WaferPrediction
    point: PublishedRun | None = None

    @property
    def log_error(self) -> float:
        """Return ln(model / published)."""
        return math.log(self.prediction.samples_per_s.estimate / self.run.samples_per_s)

    @property
    def is_inside(self) -> bool:
        """Return whether the published rate lies in the 90 % interval."""
        interval = self.prediction.samples_per_s
        return interval.low <= self.run.samples_per_s <= interval.high

    @property
    def reached_ratio(self) -> float:
        """Return published over model: what a run that something else held back reached."""
        return math.exp(-self.log_error)


def predicted(bounds: Sequence[str]) -> tuple[Predicted, ...]:
    """Return the rows that one of `bounds` held back, as the command predicts them."""
    found = []
    for run in published_runs():
        if run.bound in bounds:
            step = {"batch_size": run.batch_size, "sequence_length": run.sequence_length, "systems": run.systems}
            found.append(Predicted(run=run, prediction=ask(run.network, system=run.system, mode=run.mode, **step)))
    return tuple(found)


def calibrated_by_each() -> tuple[Predicted, ...]:
    """Return each row, predicted after one other row of its family: same network, system, mode and release.

    Rows whose sequence length is unknown take part: one point makes up for it.
    """
    chosen = [run for run in published_runs() if run.bound in ("compute", "unknown")]
    found = []
    for point in chosen:
        family = [run for run in chosen if run.id != point.id and _family(run) == _family(point)]
        if not family:
            continue
        network = build_network(point.network, sequence_length=point.sequence_length)
        step = {"batch_size": point.batch_size, "systems": point.systems}
        constants = calibrate(network, point.system, point.mode, samples_per_s=point.samples_per_s, **step)
        for run in family:
            step = {"batch_size": run.batch_size, "systems": run.systems}
            again = predict(network, run.system, run.mode, constants=constants, calibrated=True, **step)
            found.append(Predicted(run=run, prediction=again, point=point))
    return tuple(found)


def error_factor(rows: Sequence[Predicted]) -> float:
    """Return the geometric mean of how far off the rows are: exp of the mean |ln error|."""
    return math.exp(sum(abs(row.log_error) for row in rows) / len(rows))


def _family(run: PublishedRun) -> tuple[str, ...]:
    return run.network, run.system, run.mode, run.release


def main() -> None:
    """Print the tables."""
    options = arguments(__doc__)
    fitted, tied, held = predicted(FITTED_BOUNDS), calibrated_by_each(), predicted(("input", "start_up", "unknown"))
    factor, inside = error_factor(fitted), sum(row.is_inside for row in fitted)
    title = f"Public runs: off by {factor:.2f} (target {TARGET_FACTOR}), {inside} of {len(fitted)} inside the 90 % interval"
    show(title, ("row", "published /s", "model /s", "90 % interval", "error", "note"), [_cells(row) for row in fitted])
    worst = max(abs(math.expm1(row.log_error)) for row in tied)
    pairs = [(row.point.id, row.run.id, f"{math.expm1(row.log_error):+.1%}") for row in tied if row.point]
    title = f"After one measured point of the family: {worst:.1%} off at worst (target {TARGET_CALIBRATED_RATIO:.0%})"
    show(title, ("calibrated on", "row", "error"), pairs)
    reached = [(row.run.id, row.run.bound, f"{row.reached_ratio:.2f}") for row in held]
    show("Rows held back by something else, or of unknown size", ("row", "bound", "published / model"), reached)
    result = {"error_factor": factor, "inside": inside, "calibrated_worst_ratio": worst}
    save(options.json, {**result, "rows": [_record(row) for row in fitted], "calibrated_rows": [_record(row) for row in tied]})


def _cells(row: Predicted) -> tuple[str, ...]:
    interval = row.prediction.samples_per_s
    return (
        row.run.id,
        f"{row.run.samples_per_s:,.1f}",
        f"{interval.estimate:,.1f}",
        f"{interval.low:,.0f} to {interval.high:,.0f}",
        f"{math.expm1(row.log_error):+.0%}",
        "" if row.is_inside else "outside: " + EXPLANATIONS.get(row.run.id, "not explained"),
    )


def _record(row: Predicted) -> dict[str, object]:
    interval = row.prediction.samples_per_s
    return {
        "id": row.run.id,
        "calibrated_by": row.point and row.point.id,
        "published_samples_per_s": row.run.samples_per_s,
        "model_samples_per_s": {"estimate": interval.estimate, "low": interval.low, "high": interval.high},
        "log_error": row.log_error,
        "inside": row.is_inside,
    }


if __name__ == "__main__":
    main()
