"""Step lines of one writer become a table, and the intervals between them: how much time so many steps took, and what explains it.

An interval is plain, or something that the run was seen to do explains its length (a checkpoint, an evaluation, a set-up).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.records import StallCause
from cs_input_analyzer.run_logs.grammar import Line

Floats = npt.NDArray[np.float64]

# An interval ends where it is this much longer than what its time stamps can tell apart.
FINE_RATIO = 10
# Of steps per second as Estimators print it: two decimals, and in the releases of 2021 rounded to a 16-bit float before.
HALF_PRECISION_RATIO = 2.0**-11
# The later one explains more: after a new start no steps of a checkpoint are left over.
CAUSES: tuple[StallCause, ...] = ("none known", "checkpoint", "evaluation", "set-up")
_NUMBERS = ("t_s", "resolution_s", "step", "rate", "global_rate", "steps_per_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """From one step line to a later one, in order. Shape of each column: [n]; `cause` is an index into CAUSES.

    `follows`: whether it starts where the one before ended; not after a clock that was set back, whose interval is in no column.
    """

    start_s: Floats
    seconds: Floats
    steps: Floats
    step: npt.NDArray[np.int64]
    cause: npt.NDArray[np.int64]
    follows: npt.NDArray[np.bool_]
    backward_stamps: int = 0


@dataclass
class Writer:
    """The step lines of one source, in order; their steps rise.

    `causes`: for each line, what the run was seen to do since the one before (index into CAUSES); `pending_cause`: since the last.
    """

    rank: str | None
    device: str
    first_index: int
    last_index: int
    lines: list[Line] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)
    pending_cause: int = 0

    def add(self, line: Line, index: int) -> None:
        self.lines.append(line)
        self.causes.append(self.pending_cause)
        self.last_index, self.pending_cause = index, 0

    def explain(self, cause: StallCause) -> None:
        """Something explains why the next line comes late."""
        self.pending_cause = max(self.pending_cause, CAUSES.index(cause))

    @property
    def last_step(self) -> int:
        return self.lines[-1].step or 0

    def last(self, name: str) -> float | None:
        """What the last line that has such a number says."""
        return next((value for line in reversed(self.lines) if (value := getattr(line, name)) is not None), None)

    @cached_property
    def table(self) -> StepTable:
        """The lines as columns; ask for it when all lines are there."""
        numbers = {
            name: np.asarray([getattr(line, name) for line in self.lines], dtype=np.float64) for name in _NUMBERS
        }  # None becomes NaN
        return StepTable(**numbers, cause=np.asarray(self.causes, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class StepTable:
    """One row for each step line; NaN where a line does not say a number. Shape of each column: [n]."""

    t_s: Floats
    resolution_s: Floats
    step: Floats
    rate: Floats
    global_rate: Floats
    steps_per_s: Floats
    cause: npt.NDArray[np.int64]

    @cached_property
    def before(self) -> dict[str, Floats]:
        """Stamp, step and Rate of the line before; NaN for the first one."""
        return {name: np.concatenate(([np.nan], getattr(self, name)[:-1])) for name in ("t_s", "step", "rate")}

    @cached_property
    def clock(self) -> tuple[Floats, Floats]:
        """When each line was written (by its stamp, else by the Estimator's steps per second), and how finely that is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            elapsed_s = np.where(self.steps_per_s > 0, self.step / self.steps_per_s, np.nan)
            coarse_s = elapsed_s * np.maximum(HALF_PRECISION_RATIO, 0.005 / self.steps_per_s)
        has_stamp = np.isfinite(self.t_s)
        return np.where(has_stamp, self.t_s, elapsed_s), np.where(has_stamp, self.resolution_s, coarse_s)

    def intervals(self) -> Intervals:
        """Between lines that are far enough apart for their stamps, without those in which the clock was set back."""
        rows: list[tuple[float, ...]] = []
        backward, follows, cause = 0, False, 0
        at_s, resolution_s, step = (column.tolist() for column in (*self.clock, self.step))
        anchor: int | None = None
        for place, why in enumerate(self.cause.tolist()):
            cause = max(cause, why)
            if at_s[place] != at_s[place]:
                continue
            if anchor is None:
                anchor, cause = place, 0
                continue
            seconds, steps = at_s[place] - at_s[anchor], step[place] - step[anchor]
            coarse_s = max(resolution_s[place], resolution_s[anchor])
            if seconds < -coarse_s or steps <= 0:
                backward += 1
                anchor, cause, follows = place, 0, False
            elif seconds > 0 and seconds >= FINE_RATIO * coarse_s:  # else too near to tell: the interval goes on
                rows.append((at_s[anchor], seconds, steps, step[anchor], cause, follows))
                anchor, cause, follows = place, 0, True
        start_s, seconds_s, steps_, first, causes, following = np.asarray(rows, dtype=np.float64).reshape(-1, 6).T
        return Intervals(
            start_s=start_s,
            seconds=seconds_s,
            steps=steps_,
            step=first.astype(np.int64),
            cause=causes.astype(np.int64),
            follows=following.astype(bool),
            backward_stamps=backward,
        )


def weighted_median(values: Floats, weights: Floats) -> float:
    """The smallest value that half of the weight does not exceed; shapes [n >= 1]."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(passed, passed[-1] / 2)])
