"""Turn the events of a monitored loop into its step table, and find the time that the accelerator waited for input. Pure.

A host that dispatches asynchronously runs ahead: it may wait for input while the accelerator still works on earlier batches. So
its wait counts only between two points at which both are done: synchronisations. In between, the dispatches d_1 … d_n and the end
E are known. With c seconds for a step, the accelerator ends at max_j (d_j + (n - j + 1) c) (Lindley 1952). That this is E gives
c = min_j (E - d_j) / (n - j + 1). For the rest of the interval, T - n c, it stood still. That was for input, as far as the host
waited for input in that time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cs_input_analyzer.model.estimates import half_width_of_mean
from cs_input_analyzer.model.steady_state import block_means
from cs_input_analyzer.records import Estimate
from cs_input_analyzer.runs.table import CHECKPOINT, Booleans, Floats, Interval, Intervals

KEPT_INTERVALS = 1024
# Of an interval that nothing ends. The bound on the time of a step from the last dispatches stays true.
KEPT_DISPATCHES = 4096
# Thirty years: a stretch that long is a clock that was set.
LONGEST_S = 1e9

OnEvent = Callable[..., object]
"""`(event, **fields)`: called with each event for the journal of the run."""


class Step(NamedTuple):
    """One turn of the loop, or `steps` of them in one call.

    Attributes:
        asked_s: when its input was asked for, on the caller's clock.
        wait_s: until the input was there; None if that happens out of sight.
        opens_pass: whether it is the first of a pass over the data.
    """

    asked_s: float
    wait_s: float | None
    samples: float | None
    steps: int
    opens_pass: bool


@dataclass(slots=True)
class Recorder:
    """The record of one run.

    Attributes:
        began_s: when the watching began; the times of events count from there.
        steps: over or under way.
        rows: the last intervals; `closed` counts all of them.
    """

    began_s: float
    on_event: OnEvent
    steps: int = 0
    rows: deque[Interval] = field(default_factory=lambda: deque(maxlen=KEPT_INTERVALS))
    closed: int = 0
    _open: Step | None = None
    _is_first: bool = True
    _is_marked: bool = False
    _opens_pass: bool = True
    # The interval in the making: from when it counts, the host's wait in it, when its steps were dispatched.
    _start_s: float | None = None
    _wait_s: float = 0.0
    _dispatches: list[tuple[float, int]] = field(default_factory=list)
    _steps: int = 0
    _cause: int = 0
    _follows: bool = False

    def begin_step(self, asked_s: float, wait_s: float | None, samples: float | None, steps: int) -> None:
        """Take a step that begins; the one before it is over."""
        self.end_step(asked_s, is_synced=False)
        self._open = Step(asked_s, wait_s, samples, steps, self._opens_pass)
        self._opens_pass = False
        self.steps += steps

    def begin_pass(self) -> None:
        """Say that the next step opens a pass over the data."""
        self.drop()
        self._opens_pass = True

    def drop(self) -> None:
        """Leave out the open interval: the end of the last step of an interrupted loop is unknown."""
        self._open, self._is_marked = None, False
        self._drop_interval()

    def since(self, at_s: float) -> float:
        """Return the time since the watching began."""
        return round(at_s - self.began_s, 6)

    def end_step(self, at_s: float, *, is_synced: bool) -> None:
        """End the step under way, if there is one. `is_synced`: the accelerator was done, too."""
        step, self._open = self._open, None
        if step is None:
            return
        wait_s = step.wait_s or 0.0
        body_s = at_s - step.asked_s - wait_s
        if not (_runs_forwards(wait_s) and _runs_forwards(body_s)):
            self._drop_interval()  # the clock was set back: the time across that is unknown
            self._is_marked = False
            return
        self._tell(step, body_s)
        if self._is_first or (step.opens_pass and step.wait_s is None):
            self._is_first = self._is_marked = False  # it holds the start, or waits until buffers have filled
            self._drop_interval()
            return
        if self._start_s is None:
            self._start_s = step.asked_s + (wait_s if step.opens_pass else 0.0)
        self._wait_s += 0.0 if step.opens_pass else wait_s
        self._cause = max(self._cause, CHECKPOINT if self._is_marked else 0)
        self._is_marked = False
        self._steps += step.steps
        self._dispatches.append((step.asked_s + wait_s, step.steps))
        if len(self._dispatches) > KEPT_DISPATCHES:
            del self._dispatches[: KEPT_DISPATCHES // 2]
        if not is_synced and step.wait_s is not None:
            return  # the interval goes on
        seconds = at_s - self._start_s
        if seconds > 0:
            busy_s = compute_s(self._dispatches, at_s)
            first = self.steps - self._steps
            row = Interval(self._start_s, seconds, self._steps, first, self._cause, self._follows, self._wait_s, busy_s)
            self.rows.append(row)
            self.closed += 1
        self._drop_interval(follows=True)

    def _drop_interval(self, *, follows: bool = False) -> None:
        """Begin the next interval with the next step."""
        self._start_s, self._wait_s, self._steps, self._cause = None, 0.0, 0, 0
        self._dispatches.clear()
        self._follows = follows

    def _tell(self, step: Step, body_s: float) -> None:
        """Write the step, with its phase."""
        phase = "steady"
        if self._is_marked:
            phase = "checkpoint"
        elif self._is_first:
            phase = "start_up"
        elif step.opens_pass:
            phase = "epoch_edge"
        self.on_event(
            "step",
            step=self.steps,
            steps=step.steps,
            at_s=self.since(step.asked_s),
            samples=step.samples,
            wait_s=step.wait_s,
            step_s=body_s,
            phase=phase,
        )

    def checkpoint(self, began_s: float, at_s: float) -> None:
        """Take a marked checkpoint: of the step under way, else at the beginning of the interval to come."""
        duration_s = at_s - began_s
        if duration_s > 0 and _runs_forwards(duration_s):
            self.on_event("checkpoint", at_s=self.since(began_s), duration_s=round(duration_s, 6), step=self.steps)
        if self._open is not None:
            self._is_marked = True
            return
        self._cause = CHECKPOINT
        if self._start_s is None and _runs_forwards(duration_s):
            self._start_s = began_s


def _runs_forwards(seconds: float) -> bool:
    return 0 <= seconds <= LONGEST_S  # not so for NaN either


# c rests on one or two of several steps. A busy host changes these by about this share.
COMPUTE_ERROR_RATIO = 0.15
ENOUGH_ROWS = 5


def compute_s(dispatches: Sequence[tuple[float, int]], end_s: float) -> float:
    """Return the longest time of a step with which all are done by `end_s`. `dispatches`: (when, how many steps), in order."""
    least, steps = math.inf, 0
    for dispatched_s, count in reversed(dispatches):
        steps += count
        least = min(least, (end_s - dispatched_s) / steps)
    return max(0.0, least)


def starved_s(table: Intervals) -> Floats:
    """Return how long the accelerator stood still for input in each interval. Shape: [n].

    The c of a single step is exact. Of several steps, the median over all such intervals counts.
    """
    several = table.steps > 1
    typical = float(np.median(table.compute_s[several])) if several.any() else 0.0
    idle = table.seconds - table.steps * np.where(several, typical, table.compute_s)
    return np.minimum(table.wait_s, np.maximum(0.0, idle))


def wait_share(table: Intervals, counts: Booleans) -> Estimate | None:
    """Return the share of time that the accelerator waited for input, over the rows that count; None without one.

    The interval is that of a ratio of means over blocks of neighbouring rows (Cochran 1977, chapter 6), with Student's t. Fewer
    than five rows show too little of their scatter: then it is the error of c, up to the host's own wait.
    """
    if not counts.any():
        return None
    starved, seconds = starved_s(table)[counts], table.seconds[counts]
    total, count = float(seconds.sum()), int(counts.sum())
    share = min(1.0, float(starved.sum()) / total)
    if count >= ENOUGH_ROWS:
        blocks, _ = block_means(starved - share * seconds)
        half = count * half_width_of_mean(blocks) / total
        return Estimate(estimate=share, low=max(0.0, share - half), high=min(1.0, share + half), count=count)
    busy_s = np.where(table.steps > 1, table.steps * table.compute_s, 0.0)[counts].sum()
    half = COMPUTE_ERROR_RATIO * float(busy_s) / total / math.sqrt(count)
    waited = min(1.0, float(table.wait_s[counts].sum()) / total)
    return Estimate(estimate=share, low=max(0.0, share - half), high=max(share, min(share + half, waited)), count=count)
