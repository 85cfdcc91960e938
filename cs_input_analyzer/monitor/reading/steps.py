"""Step lines of one writer, taken one by one in constant memory: how much time so many steps took, and what was special about it.

Between two lines lies an interval. It is `plain`, or something that the run was seen to do explains its length (a checkpoint, an
evaluation, a set-up), or it catches up after a checkpoint: the wafer computes on while the user's host still downloads, so the
steps after it arrive faster than they were made. Only plain intervals say how fast the run trains.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from cs_input_analyzer.monitor.reading.grammar import StepLine
from cs_input_analyzer.records import StallCause

MOST_POINTS = 4096
"""Points that are kept of anything: beyond it every second one is joined with its neighbour, or dropped."""

FINE_RATIO = 10
"""An interval ends where it is this much longer than what its time stamps can tell apart."""

BIN_RATIO = 1.02
"""Paces (seconds per step) this close are counted together."""

LONGEST_KEPT = 256
CATCHING_UP_RATIO = 0.7
"""Below this share of the pace before the checkpoint a step after it was made during it."""

HALF_PRECISION_RATIO = 2.0**-11
"""Of steps per second as Estimators print it: two decimals, and in the releases of 2021 rounded to a 16-bit float before."""

CLOCK_SAMPLES = 5
CLOCK_RATIO = 2.0
"""GlobalRate has a clock of its own. Where the stamps say that this much more, or less, time went by than it says, they jumped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """From one step line to a later one. `start_s` on the scale of the stamps."""

    start_s: float
    seconds: float
    steps: int
    step: int
    cause: StallCause

    @property
    def pace_s(self) -> float:
        return self.seconds / self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePoint:
    """A logged Rate beside the time of the steps that led to it (line to line). `before`: the Rate of the line before."""

    seconds: float
    steps: int
    resolution_s: float
    rate: float
    before: float


@dataclass(slots=True)
class StepSeries:
    """What is known of the lines so far."""

    lines: int = 0
    first: StepLine | None = None
    last: StepLine | None = None
    first_gap_steps: int = 0
    last_rate: float | None = None
    last_global_rate: float | None = None
    last_steps_per_s: float | None = None
    backward_stamps: int = 0
    jumped_stamps: int = 0
    paces: dict[int, list[float]] = field(default_factory=dict)  # bin -> steps, seconds, intervals; plain ones
    plain: list[tuple[int, float]] = field(default_factory=list)  # steps, seconds; joined as there get more
    longest: list[tuple[float, int, Interval]] = field(default_factory=list)  # plain ones, a heap
    explained: list[Interval] = field(default_factory=list)
    rate_points: list[RatePoint] = field(default_factory=list)
    elapsed: list[tuple[float, float]] = field(default_factory=list)  # stamp, steps / GlobalRate
    _anchor: StepLine | None = None
    _before: StepLine | None = None
    _cause: StallCause = "none known"
    _catch_up_left: float = 0.0
    _catch_up_pace_s: float | None = None
    _plain_joined: int = 1
    _plain_open: list[tuple[int, float]] = field(default_factory=list)
    _elapsed_every: int = 1
    _rate_every: int = 1
    _clock: list[float] = field(default_factory=list)

    def add(self, line: StepLine, cause: StallCause = "none known") -> None:
        """The next line. `cause`: what the run was seen to do since the last one. Steps rise from line to line."""
        self.lines += 1
        self.first = self.first or line
        self.first_gap_steps = self.first_gap_steps or line.step - self.first.step
        self.last = line
        self.last_rate = _known(line.samples_per_s, self.last_rate)
        self.last_global_rate = _known(line.global_samples_per_s, self.last_global_rate)
        self.last_steps_per_s = _known(line.steps_per_s, self.last_steps_per_s)
        self._cause = cause if cause != "none known" else self._cause
        self._take_rate(line)
        self._take_elapsed(line)
        self._take_time(line)
        self._before = line

    def _take_time(self, line: StepLine) -> None:
        anchor = self._anchor
        now_s, resolution_s = clock_of(line)
        if now_s is None:
            return
        if anchor is None:
            self._anchor, self._cause = line, "none known"
            return
        began_s, coarse_s = clock_of(anchor)
        assert began_s is not None
        seconds, steps = now_s - began_s, line.step - anchor.step
        coarse_s = max(resolution_s, coarse_s)
        if seconds < -coarse_s or steps <= 0:
            self.backward_stamps += 1
            self._anchor, self._cause, self._catch_up_left = line, "none known", 0.0
            return
        if seconds < FINE_RATIO * coarse_s or seconds <= 0:
            return  # too near to tell: the interval goes on
        if self._stamps_jumped(anchor, line, seconds):
            self.jumped_stamps += 1
        else:
            self._file(Interval(start_s=began_s, seconds=seconds, steps=steps, step=anchor.step, cause=self._cause))
        self._anchor, self._cause = line, "none known"

    def _file(self, interval: Interval) -> None:
        if interval.cause != "none known":
            self._catch_up_pace_s = self.usual_pace_s()
            if self._catch_up_pace_s is not None and interval.cause == "checkpoint":
                self._catch_up_left = interval.seconds / self._catch_up_pace_s - interval.steps
            if len(self.explained) < MOST_POINTS:
                self.explained.append(interval)
            return
        if self._catch_up_left > 0 and self._catch_up_pace_s is not None:
            if interval.pace_s < CATCHING_UP_RATIO * self._catch_up_pace_s:
                self._catch_up_left += interval.seconds / self._catch_up_pace_s - interval.steps
                return
            self._catch_up_left = 0.0
        entry = self.paces.setdefault(round(math.log(interval.pace_s, BIN_RATIO)), [0.0, 0.0, 0.0])
        entry[0] += interval.steps
        entry[1] += interval.seconds
        entry[2] += 1
        self._keep_plain(interval)
        item = (interval.pace_s, -self.lines, interval)
        if len(self.longest) < LONGEST_KEPT:
            heapq.heappush(self.longest, item)
        elif item > self.longest[0]:
            heapq.heapreplace(self.longest, item)

    def _keep_plain(self, interval: Interval) -> None:
        self._plain_open.append((interval.steps, interval.seconds))
        if len(self._plain_open) < self._plain_joined:
            return
        self.plain.append(_joined(self._plain_open))
        self._plain_open.clear()
        if len(self.plain) >= MOST_POINTS:
            self.plain = [_joined(self.plain[place : place + 2]) for place in range(0, len(self.plain), 2)]
            self._plain_joined *= 2

    def _take_rate(self, line: StepLine) -> None:
        before = self._before
        if before is None or line.samples_per_s is None or before.samples_per_s is None or line.t_s is None or before.t_s is None:
            return
        seconds, steps = line.t_s - before.t_s, line.step - before.step
        if seconds <= 0 or steps <= 0 or line.samples_per_s <= 0 or self.lines % self._rate_every:
            return
        self.rate_points.append(
            RatePoint(
                seconds=seconds,
                steps=steps,
                resolution_s=max(line.resolution_s, before.resolution_s),
                rate=line.samples_per_s,
                before=before.samples_per_s,
            )
        )
        if len(self.rate_points) >= MOST_POINTS:
            self.rate_points = self.rate_points[::2]
            self._rate_every *= 2

    def _take_elapsed(self, line: StepLine) -> None:
        if line.t_s is None or not line.global_samples_per_s or self.lines % self._elapsed_every:
            return
        self.elapsed.append((line.t_s, line.step / line.global_samples_per_s))
        if len(self.elapsed) >= MOST_POINTS:
            self.elapsed = self.elapsed[::2]
            self._elapsed_every *= 2

    def _stamps_jumped(self, anchor: StepLine, line: StepLine, seconds: float) -> bool:
        """Whether GlobalRate's own clock saw another time go by than the stamps did (daylight saving, a clock that was set)."""
        if line.t_s is None or not anchor.global_samples_per_s or not line.global_samples_per_s:
            return False
        by_rate = (line.step / line.global_samples_per_s - anchor.step / anchor.global_samples_per_s) / seconds
        if len(self._clock) < CLOCK_SAMPLES:
            self._clock.append(by_rate)
            return False
        usual = sorted(self._clock)[CLOCK_SAMPLES // 2]
        if usual <= 0 or usual / CLOCK_RATIO < by_rate < usual * CLOCK_RATIO:
            return False
        pace = self.usual_pace_s()
        return pace is not None and seconds > CLOCK_RATIO * pace * (line.step - anchor.step)

    def plain_intervals(self) -> list[tuple[int, float]]:
        """Steps and seconds, in order; neighbours joined where there were many."""
        return self.plain + ([_joined(self._plain_open)] if self._plain_open else [])

    def usual_pace_s(self) -> float | None:
        """Seconds per step that half of the plain steps keep below; None without any."""
        half, passed = sum(entry[0] for entry in self.paces.values()) / 2, 0.0
        for _, entry in sorted(self.paces.items()):
            passed += entry[0]
            if passed >= half:
                return entry[1] / entry[0]
        return None

    def slower_than(self, pace_s: float) -> Iterator[list[float]]:
        """Steps, seconds and count of the plain intervals above a pace (as far as the bins tell them apart)."""
        return (entry for entry in self.paces.values() if entry[1] / entry[0] > pace_s)


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


def _joined(intervals: list[tuple[int, float]]) -> tuple[int, float]:
    return sum(steps for steps, _ in intervals), sum(seconds for _, seconds in intervals)
