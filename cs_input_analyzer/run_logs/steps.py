"""Step lines of one writer -> columns, and the intervals between them: how much time so many steps took, and what is known of it.

An interval is `plain`, or something that the run was seen to do explains its length (a checkpoint, an evaluation, a set-up).
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.records import StallCause
from cs_input_analyzer.run_logs.grammar import StepLine

Floats = npt.NDArray[np.float64]

MOST_LINES = 1 << 16
"""Lines that are kept: beyond it every second one is dropped, and what explains its interval goes to the next."""

FINE_RATIO = 10
"""An interval ends where it is this much longer than what its time stamps can tell apart."""

HALF_PRECISION_RATIO = 2.0**-11
"""Of steps per second as Estimators print it: two decimals, and in the releases of 2021 rounded to a 16-bit float before."""

GAP_S = 0.001
"""Estimators of TensorFlow itself print the seconds between two lines with three decimals."""

RATE_STEP = 0.01
"""Rates are printed with two decimals."""

CLOCK_RATIO = 2.0
"""GlobalRate has a clock of its own. Where the stamps say that this much more, or less, time went by than it says, they jumped."""

YEAR_S = 366 * 86_400.0
RECENT = 64
CAUSES: tuple[StallCause, ...] = ("none known", "checkpoint", "evaluation", "set-up")
"""The later one explains more: after a new start no steps of a checkpoint are left over."""

_COLUMNS = ("at_s", "resolution_s", "step", "rate", "global_rate", "steps_per_s", "cause", "before_s", "before_step", "before_rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """From one step line to a later one, in order. Shape of each column: [n].

    Attributes:
        start_s: on the scale of the stamps.
        step: the one that it starts from.
        cause: index into CAUSES.
        follows: whether it starts where the one before ended; not after a clock that was set.
        backward_stamps, jumped_stamps: intervals that are in none of the columns.
    """

    start_s: Floats
    seconds: Floats
    steps: Floats
    step: npt.NDArray[np.int64]
    cause: npt.NDArray[np.int64]
    follows: npt.NDArray[np.bool_]
    backward_stamps: int = 0
    jumped_stamps: int = 0


@dataclass(slots=True)
class StepSeries:
    """The lines so far."""

    lines: int = 0
    first: StepLine | None = None
    last: StepLine | None = None
    last_rate: float | None = None
    last_global_rate: float | None = None
    last_steps_per_s: float | None = None
    _clock_s: float = 0.0
    _every: int = 1
    _cause: int = 0
    _kept: array[float] = field(default_factory=lambda: array("d"))
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, line: StepLine, cause: StallCause = "none known") -> None:
        """The next line. `cause`: what the run was seen to do since the last one. Steps rise from line to line."""
        before, before_s = self.last, self._clock_s
        self._clock_s += line.gap_s or 0.0
        at_s, resolution_s = self._time_of(line)
        now_s, then_s = at_s, before_s if before is not None and before.t_s is None and line.gap_s is not None else None
        if before is not None and then_s is None:
            then_s = clock_of(before)[0]
        if before is not None and now_s is not None and then_s is not None and now_s > then_s and line.step > before.step:
            self._recent.append((now_s - then_s) / (line.step - before.step))
        self._cause = max(self._cause, CAUSES.index(cause))
        self.lines += 1
        if (self.lines - 1) % self._every == 0:
            row = (at_s, resolution_s, line.step, line.samples_per_s, line.global_samples_per_s, line.steps_per_s, self._cause)
            known = (before.t_s, before.step, before.samples_per_s) if before is not None else (None, None, None)
            self._kept.extend(np.nan if value is None else value for value in (*row, *known))
            self._cause = 0
            if len(self._kept) >= MOST_LINES * len(_COLUMNS):
                self._thin()
        self.first, self.last = self.first or line, line
        self.last_rate = _known(line.samples_per_s, self.last_rate)
        self.last_global_rate = _known(line.global_samples_per_s, self.last_global_rate)
        self.last_steps_per_s = _known(line.steps_per_s, self.last_steps_per_s)

    def _time_of(self, line: StepLine) -> tuple[float | None, float]:
        if line.t_s is None and line.gap_s is not None:
            return self._clock_s, GAP_S
        return clock_of(line)

    def _thin(self) -> None:
        rows = np.asarray(self._kept).reshape(-1, len(_COLUMNS))
        causes = rows[:, _COLUMNS.index("cause")]
        causes[2::2] = np.maximum(causes[2::2], causes[1:-1:2])
        self._cause = int(causes[-1])
        self._kept = array("d", rows[::2].tobytes())
        self._every *= 2

    def recent_pace_s(self) -> float | None:
        """Seconds per step of the middle one of the last lines; None without any."""
        return median(self._recent) if self._recent else None

    def column(self, name: str) -> Floats:
        """Of the lines that were kept; NaN where a line does not say it."""
        rows = np.asarray(self._kept, dtype=np.float64).reshape(-1, len(_COLUMNS))
        return rows[:, _COLUMNS.index(name)]

    def intervals(self) -> Intervals:
        """Between lines that are far enough apart for their stamps, without those that a clock that was set made."""
        rows: list[tuple[float, float, float, int, int, bool]] = []
        clocks: list[float] = []
        backward, follows, cause = 0, False, 0
        at_s, resolution_s, step, rate = (self.column(name).tolist() for name in ("at_s", "resolution_s", "step", "global_rate"))
        anchor: int | None = None
        for place, why in enumerate(self.column("cause").tolist()):
            cause = max(cause, int(why))
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
                rows.append((at_s[anchor], seconds, steps, int(step[anchor]), cause, follows))
                clocks.append(_by_global_rate(step[anchor], rate[anchor], step[place], rate[place]) / seconds)
                anchor, cause, follows = place, 0, True
        columns = [np.asarray(column) for column in zip(*rows, strict=True)] if rows else [np.empty(0)] * 6
        start_s, seconds_s, steps_, first, causes, following = columns
        jumped = _jumped(np.asarray(clocks), seconds_s, steps_)
        kept = ~jumped
        follows_jump = np.concatenate((np.zeros(1, dtype=bool), jumped))[: len(jumped)]
        return Intervals(
            start_s=start_s[kept],
            seconds=seconds_s[kept],
            steps=steps_[kept],
            step=first[kept].astype(np.int64),
            cause=causes[kept].astype(np.int64),
            follows=(following.astype(bool) & ~follows_jump)[kept],
            backward_stamps=backward,
            jumped_stamps=int(jumped.sum()),
        )


def _by_global_rate(step: float, rate: float, later_step: float, later_rate: float) -> float:
    """Time between two lines by GlobalRate's own clock, for a batch size of one; NaN where its decimals do not tell."""
    if not (rate > 0 and later_rate > 0):
        return np.nan
    passed = later_step / later_rate - step / rate
    error = RATE_STEP / 2 * (later_step / later_rate**2 + step / rate**2)
    return passed if abs(passed) > 4 * error else np.nan


def _jumped(clocks: Floats, seconds: Floats, steps: Floats) -> npt.NDArray[np.bool_]:
    if len(clocks) == 0:
        return np.zeros(0, dtype=bool)
    jumped = seconds > YEAR_S
    known = np.isfinite(clocks)
    if known.sum() > 2:
        usual = float(np.median(clocks[known]))
        pace_s = weighted_median(seconds / steps, steps)
        apart = known & ((clocks <= usual / CLOCK_RATIO) | (clocks >= usual * CLOCK_RATIO))
        jumped |= apart & (seconds > CLOCK_RATIO * pace_s * steps) & (usual > 0)
    return jumped


def weighted_median(values: Floats, weights: Floats) -> float:
    """The smallest value that half of the weight does not exceed; shapes [n >= 1]."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(passed, passed[-1] / 2)])


def clock_of(line: StepLine) -> tuple[float | None, float]:
    """When the line was written, and how finely that is known: by its stamp, else by the Estimator's steps per second so far."""
    if line.t_s is not None:
        return line.t_s, line.resolution_s
    if not line.steps_per_s:
        return None, 0.0
    elapsed_s = line.step / line.steps_per_s
    return elapsed_s, elapsed_s * max(HALF_PRECISION_RATIO, 0.005 / line.steps_per_s)


def _known(value: float | None, otherwise: float | None) -> float | None:
    return otherwise if value is None else value
