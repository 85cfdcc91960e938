"""What kind of time a training step was: getting ready, steady, saving a checkpoint, catching up after it. Pure.

Only steady steps say whether the input keeps up. The first step of a run also traces and compiles, and its batch comes when buffers
have filled; the first batch of a later pass waits for that again. While a checkpoint is written nothing is trained, and then
results that were ready meanwhile arrive in a burst.

A pause that nobody marked is found by its size: a step that took `PAUSE_RATIO` times as long as any lately, its wait for input left
out. Two things look alike and are none: a loop that synchronises now and then without saying so (its pauses are where
nearly all time goes, so pauses may not be more than half of it), and a run that becomes slower for good (the next step is as long).
"""

from __future__ import annotations

from statistics import median
from typing import Literal, NamedTuple

Phase = Literal["start_up", "fill", "steady", "checkpoint", "spike", "epoch_edge"]
EndedBy = Literal["next", "sync", "log", "end"]

PAUSE_RATIO = 5.0
SHORTEST_PAUSE_S = 0.2
"""Below, a long step is the host's business with others; a checkpoint that quick hides nothing."""
SPIKE_RATIO = 0.5
MOST_PAUSED_RATIO = 0.5
ENOUGH = 5
"""Steady steps before anything is found in comparison with them."""
KEPT = 128


class Step(NamedTuple):
    """One turn of the loop as the host sees it, or `steps` of them in one call.

    Attributes:
        asked_s: when its input was asked for, on the caller's clock.
        wait_s: until the input was there; None where that happens out of sight.
        body_s: from then on until the next input was asked for, or until the mark that ended it; 0 while it is under way.
        ended_by: `sync` and `log` are marks of the user's: the accelerator had finished.
        opens_pass: the first one of a pass over the data; `is_first`: of the run.
        is_marked: the user marked a checkpoint in it, or it followed one.
    """

    asked_s: float
    wait_s: float | None
    body_s: float
    samples: float | None = None
    steps: int = 1
    ended_by: EndedBy = "next"
    is_first: bool = False
    opens_pass: bool = False
    is_marked: bool = False

    @property
    def duration_s(self) -> float:
        return (self.wait_s or 0.0) + self.body_s


class History(NamedTuple):
    """What the next step is compared with.

    Attributes:
        bodies_s: of one training step, of the last steady steps; `synced_s`: of those that a synchronisation ended, as such a step
            also waits for all that was dispatched before it.
        trained_s, paused_s: time since the first step, and that of pauses that were found.
        before: phase of the step before; None at the start.
    """

    bodies_s: tuple[float, ...] = ()
    synced_s: tuple[float, ...] = ()
    trained_s: float = 0.0
    paused_s: float = 0.0
    before: Phase | None = None

    def like(self, step: Step) -> tuple[float, ...]:
        """The bodies of steps that ended as this one does."""
        return self.synced_s if step.ended_by in ("sync", "log") else self.bodies_s


def label(history: History, step: Step) -> tuple[Phase, History]:
    """The phase of a step, and the history with it. Times below zero (a clock that was set back) are for the caller to drop."""
    phase = _phase(history, step)
    if phase != "steady":
        is_found = phase == "checkpoint" and not step.is_marked
        paused = history.paused_s + (step.body_s if is_found else 0.0)
        trained = history.trained_s + (0.0 if step.is_first else step.duration_s)
        return phase, history._replace(trained_s=trained, paused_s=paused, before=phase)
    history = history._replace(trained_s=history.trained_s + step.duration_s, before=phase)
    bodies = (*history.like(step)[1 - KEPT :], step.body_s / step.steps)
    is_synced = step.ended_by in ("sync", "log")
    return phase, history._replace(synced_s=bodies) if is_synced else history._replace(bodies_s=bodies)


def _phase(history: History, step: Step) -> Phase:
    if step.is_marked:
        return "checkpoint"
    if step.is_first:
        return "start_up"
    if step.opens_pass:
        return "epoch_edge"
    like, body_s = history.like(step), step.body_s / step.steps
    if len(like) < ENOUGH:
        return "steady"
    if history.before in ("checkpoint", "spike") and body_s < SPIKE_RATIO * median(like):
        return "spike"
    is_long = step.body_s > SHORTEST_PAUSE_S and body_s > PAUSE_RATIO * max(like) and history.before != "checkpoint"
    paused_s, trained_s = history.paused_s + step.body_s, history.trained_s + step.duration_s
    return "checkpoint" if is_long and paused_s <= MOST_PAUSED_RATIO * trained_s else "steady"
