"""Adds up what was seen of one run, entry by entry: phases, intervals, seconds. Pure; entries carry their times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from cs_input_analyzer.monitoring import phases, waiting
from cs_input_analyzer.monitoring.phases import EndedBy, Phase, Step

KEPT_INTERVALS = 1024
KEPT_CALLS = 4096
LONGEST_S = 1e9
"""Thirty years: a stretch that long is a clock that was set."""

OnEvent = Callable[..., object]
"""`(event, **fields)`: called with each event that belongs in the record of the run."""


EventKind = Literal["sync", "log", "checkpoint", "pass", "end", "error", "loaded", "pause"]


class Event(NamedTuple):
    """Something else; of a stretch, `began_s` to `at_s`.

    `sync` and `log`: the user's code waited for the accelerator. `pass`: one over the data begins, `end`: it is over. `error`: the
    iterator raised, `text` says what; the step that it was asked for never began. `loaded`: the executable is, rates count from
    here. `pause`: what comes until the next step is not training.
    """

    kind: EventKind
    at_s: float
    began_s: float = 0.0
    text: str = ""


@dataclass(slots=True)
class RunAccounting:
    """Attributes:
    began_s: when the watching began; the times of events count from there.
    steps: that are over or under way.
    intervals: the last ones that synchronisations ended and that count.
    calls: seconds and steps of the last steady calls, wait included.
    phases_s: seconds by phase.
    """

    began_s: float
    on_event: OnEvent
    steps: int = 0
    intervals: deque[waiting.Interval] = field(default_factory=lambda: deque(maxlen=KEPT_INTERVALS))
    calls: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=KEPT_CALLS))
    phases_s: dict[str, float] = field(default_factory=dict)
    _history: phases.History = field(default_factory=phases.History)
    _interval: waiting.OpenInterval = field(default_factory=waiting.OpenInterval)
    _open: Step | None = None
    _passes: int = 0
    _is_marked: bool = False
    _is_first: bool = True

    def add(self, entry: Step | Event) -> None:
        """The next entry. One that belongs nowhere (a mark where no step is under way) is passed over."""
        if isinstance(entry, Step):
            self._end_step(entry.asked_s, "next")
            self._open = entry
            self.steps += entry.steps
            return
        if entry.kind in ("sync", "log", "end"):
            self._end_step(entry.at_s, entry.kind)
            return
        if entry.kind == "checkpoint":
            self._checkpoint(entry)
            return
        if entry.kind != "loaded":
            self._drop()  # of a loop that was left in the middle, nobody saw when its last step was over
        known = {"at_s": self._since(entry.at_s), "step": self.steps}
        if entry.kind == "pass":
            self._passes += 1
            self.on_event("epoch", **known, epoch=self._passes)
        elif entry.kind in ("error", "loaded"):
            self.on_event(entry.kind, **known, **({"kind": entry.text} if entry.text else {}))

    def _since(self, at_s: float) -> float:
        return round(at_s - self.began_s, 6)

    def _end_step(self, at_s: float, ended_by: EndedBy) -> None:
        """The step under way is over, by the next one's beginning or by a mark."""
        step, self._open = self._open, None
        if step is None:
            return
        body_s = at_s - step.asked_s - (step.wait_s or 0.0)
        step = step._replace(body_s=body_s, ended_by=ended_by, is_first=self._is_first, is_marked=self._is_marked)
        self._is_marked = False
        if not (_runs_forwards(step.wait_s or 0.0) and _runs_forwards(step.body_s)):
            self._interval.is_sound = False  # the clock was set back: what lies across that is not known
            return
        phase, self._history = phases.label(self._history, step)
        self._is_first = False
        self._account(step, phase)
        closed = waiting.add(self._interval, step, phase)
        if closed is not None:
            self.intervals.append(closed)

    def _account(self, step: Step, phase: Phase) -> None:
        wait, body = step.wait_s or 0.0, step.body_s
        if phase == "start_up":
            self._spend("start_up", self.began_s, step.asked_s - self.began_s)
            if step.wait_s is not None:
                self._spend("fill", step.asked_s, wait)
            self._spend("start_up", step.asked_s + wait, body)
        elif phase == "epoch_edge" and step.wait_s is not None:
            self._spend("epoch_edge", step.asked_s, wait)
            self._add_seconds("steady", body)
        elif phase == "checkpoint":
            self._add_seconds("steady", wait)
            if not step.is_marked:  # else its mark said how long the checkpoint took
                self._spend("checkpoint", step.asked_s + wait, body, found=True)
        elif phase == "epoch_edge":
            self._spend("epoch_edge", step.asked_s, body)
        else:
            self._add_seconds(phase, wait + body)
        if phase == "steady":
            self.calls.append((wait + body, step.steps))
        self.on_event(
            "step",
            step=self.steps,
            steps=step.steps,
            at_s=self._since(step.asked_s),
            samples=step.samples,
            wait_s=step.wait_s,
            step_s=body,
            phase=phase,
        )

    def _spend(self, phase: str, at_s: float, duration_s: float, found: bool | None = None) -> None:
        if not _runs_forwards(duration_s):
            return
        self._add_seconds(phase, duration_s)
        when = {"at_s": self._since(at_s), "duration_s": round(duration_s, 6), "step": self.steps}
        if phase == "checkpoint":
            self.on_event("checkpoint", **when, found=bool(found))
        else:
            self.on_event("phase", phase=phase, **when)

    def _add_seconds(self, phase: str, seconds: float) -> None:
        self.phases_s[phase] = self.phases_s.get(phase, 0.0) + seconds

    def _checkpoint(self, entry: Event) -> None:
        """Inside a step it is that step's; between two, the next ones may be the spike after it."""
        if entry.at_s > entry.began_s:
            self._spend("checkpoint", entry.began_s, entry.at_s - entry.began_s, found=False)
        if self._open is not None:
            self._is_marked = True
        else:
            self._history = self._history._replace(before="checkpoint")
            self._interval.is_sound &= self._interval.began_s is None

    def _drop(self) -> None:
        self._open, self._is_marked = None, False
        self._interval.reset()


def _runs_forwards(seconds: float) -> bool:
    return 0 <= seconds <= LONGEST_S  # not so for NaN either
