"""Watch one training run: between its loop, its recorder and its outputs.

A step costs some microseconds; the verdict is worked out at log steps. A failure in here is logged once; then the training
goes on unwatched.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import cs_input_analyzer
from cs_input_analyzer.runs import rates
from cs_input_analyzer.runs.outputs import SCALARS, Outputs, console_line, training_task
from cs_input_analyzer.runs.recorder import Recorder, wait_share
from cs_input_analyzer.runs.settings import Settings
from cs_input_analyzer.runs.table import intervals_of, monitored, steady_rate
from cs_input_analyzer.runs.verdict import Clue, InputAlone, Verdict, from_input_alone, from_wait, verdict_of

FORMAT = 1
FEWEST_CALLS = 8
# The verdict is worked out again when there are this many more intervals.
JUDGE_AGAIN_RATIO = 1 / 32

EventKind = Literal["sync", "checkpoint", "pass", "end", "error", "loaded", "pause", "evaluation"]
"""`sync`: the accelerator is done. `pause`: what comes until the next step is no training. `evaluation`: one within a training."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _never_raises(method: _Method) -> _Method:
    """Make a failure of ours end the watching, not the training."""

    @functools.wraps(method)
    def guarded(self: Watch, *args: Any, **kwargs: Any) -> Any:
        if not self.is_watching:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.give_up(error)
            return None

    return guarded  # type: ignore[return-value]


class Watch:
    """The watching of one run.

    Attributes:
        alone: the input by itself, to compare a training with whose waits are out of sight.
        current: the iterator that is watched; others of the same monitor only give their batches.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock = settings.clock
        self.device = settings.device or _visible_device()
        self.is_watching = True
        self.task = training_task(os.environ if settings.environ is None else settings.environ)
        self.outputs = Outputs(settings.log_dir, self.task, tensorboard=settings.tensorboard)
        self.began_s = self.clock()
        self.recorder = Recorder(began_s=self.began_s, on_event=self.outputs.line)
        self.verdict = verdict_of((from_wait(None, steps=0),))
        self.alone = InputAlone(missing="the dataset is read alone after training")
        self.current: object = None
        self.samples: float | None = 0.0
        self._rates: rates.Rates | None = None
        self._console = settings.console
        self._passes = 0
        self._next_log = settings.log_every
        self._judge_at = 1.0
        self._written: tuple[int, Verdict] | None = None
        self._over: tuple[float | None, float] = (0.0, self.began_s)
        self.outputs.line(
            "start",
            format=FORMAT,
            tool=f"cs_input_analyzer {cs_input_analyzer.__version__}",
            worker=self.task.name,
            rank=self.task.rank,
            workers=self.task.workers,
            host=socket.gethostname(),
            time_unix_s=time.time(),
            source=settings.source,
            batch_size=settings.batch_size,
            device=self.device,
        )

    # --- during a step ------------------------------------------------------------------------------------------------------

    @_never_raises
    def took(self, asked_s: float, got_s: float | None, samples: float | None, count: int = 1) -> None:
        """Take `count` steps that begin. Their input was asked for and there (None: out of sight) at these times."""
        if self._rates is None:
            self._rates = rates.Rates(since_s=asked_s)
        self._over = (self.samples, asked_s)
        if 0 < self._next_log <= self.steps:
            self._next_log = self.steps + self.settings.log_every
            self._log(self.steps, None, asked_s)
        self.recorder.begin_step(asked_s, None if got_s is None else got_s - asked_s, samples, count)
        self.samples = None if self.samples is None or samples is None else self.samples + samples

    def now(self) -> float:
        """Return the time. A clock that fails ends the watching."""
        try:
            return self.clock()
        except Exception as error:
            self.give_up(error)
            return self.began_s

    # --- now and then -------------------------------------------------------------------------------------------------------

    @_never_raises
    def mark(self, kind: EventKind, at_s: float | None = None, began_s: float = 0.0, text: str = "") -> None:
        """Take something else than a step, now or at `at_s`. A checkpoint or evaluation began at `began_s`. `text`: an error."""
        now = self.clock() if at_s is None else at_s
        if kind in ("sync", "end"):
            self.recorder.end_step(now, is_synced=kind == "sync")
        elif kind == "checkpoint":
            self.recorder.checkpoint(began_s, now)
        elif kind == "evaluation":
            self.recorder.drop()
            self._event("evaluation", began_s, duration_s=round(now - began_s, 6))
        elif kind == "pass":
            self.recorder.begin_pass()
            self._passes += 1
            self._event("epoch", now, epoch=self._passes)
        elif kind == "loaded":
            self._rates = rates.Rates(since_s=now, total_samples=self.samples or 0.0)
            self._event("loaded", now)
        else:
            self.recorder.drop()
        if kind == "error":
            self._event("error", now, kind=text)
        if kind in ("end", "error"):
            self._over = (self.samples, now)

    def _event(self, event: str, at_s: float, **fields: Any) -> None:
        self.outputs.line(event, at_s=self.recorder.since(at_s), step=self.steps, **fields)

    @_never_raises
    def uncount(self, steps: int, samples: float) -> None:
        """Take back steps that turn out not to have run, at the short end of a pass."""
        self.recorder.steps -= steps
        self.samples = None if self.samples is None else self.samples - samples

    @_never_raises
    def log(self, step: int | None, loss: Any, then_every: int = 0) -> None:
        """Take a log step of the user's. Reading the loss is what synchronises, and comes first.

        Args:
            then_every: steps to the next line of our own; 0: none, as the user's code logs.
        """
        value = _number(loss)
        now = self.clock()
        self._next_log = self.steps + then_every if then_every else 0
        self._over = (self.samples, now)
        self.recorder.end_step(now, is_synced=True)
        self._log(self.steps if step is None else step, value, now)

    def end_pass(self, at_s: float) -> None:
        """Take the end of the data: the last step is over."""
        self.mark("end", at_s)
        self.finish()

    def failed(self, at_s: float, error: BaseException) -> None:
        """Take an error of the iterator."""
        self.mark("error", at_s, text=type(error).__name__)
        self.finish()

    @_never_raises
    def finish(self) -> None:
        """Bring everything on disk up to date. May be called again."""
        self._judge()
        if self._written != (self.steps, self.verdict):
            self._written = self.steps, self.verdict
            seen = self.seen
            self.outputs.line(
                "end",
                at_s=self.recorder.since(self.clock()),
                steps=self.steps,
                samples=self.samples,
                rate=seen.rate_per_s if seen else None,
                global_rate=seen.global_per_s if seen else None,
                **self._verdict_fields(),
            )
        self.outputs.settle()

    @_never_raises
    def bring_up_to_date(self) -> None:
        """Judge what was seen."""
        self._judge()

    def close(self) -> None:
        """Finish, and close the files."""
        if self.steps:
            self.finish()
        self.is_watching = False
        self.outputs.close()

    def give_up(self, error: Exception) -> None:
        """End the watching, with one warning."""
        self.is_watching = False
        self.outputs.warn(f"the input monitor stopped, training goes on: {type(error).__name__}: {error}")

    @property
    def steps(self) -> int:
        """Steps that are over or under way."""
        return self.recorder.steps

    @property
    def seen(self) -> rates.Rates | None:
        """Return the rates up to the last step that is over; if nothing was logged yet, that is their first sampling point."""
        samples, at_s = self._over
        if self._rates is None or samples is None:
            return None
        return rates.sampled(self._rates, samples, at_s)

    # --- at log steps, and in the end ---------------------------------------------------------------------------------------------

    def _clue(self) -> Clue:
        """Return what the step table says."""
        table = intervals_of(self.recorder.rows)
        counts = monitored(table)
        if self.settings.source == "iterator":
            steps = int(table.steps[counts].sum())
            return from_wait(wait_share(table, counts), steps=steps or self.steps)
        calls = table.steps[counts]
        rate = steady_rate(calls, table.seconds[counts]) if len(calls) >= FEWEST_CALLS else None
        return from_input_alone(rate.scaled(self.settings.batch_size or 1) if rate is not None else None, self.alone)

    def _judge(self) -> None:
        self._judge_at = self.recorder.closed * (1 + JUDGE_AGAIN_RATIO)
        before, self.verdict = self.verdict, verdict_of((self._clue(),))
        if self.verdict.name == before.name:
            return
        self._event("verdict", self.clock(), **self._verdict_fields())
        if "input_bound" in (before.name, self.verdict.name):
            self._print(str(self.verdict))

    def _log(self, step: int, loss: float | None, now_s: float) -> None:
        if self._rates is not None and self.samples is not None:
            self._rates = rates.sampled(self._rates, self.samples, now_s)
        if self.recorder.closed >= self._judge_at:
            self._judge()
        rate = self._rates.rate_per_s if self._rates else None
        whole = self._rates.global_per_s if self._rates else None
        waited = self.verdict.wait_ratio.estimate if self.verdict.wait_ratio else None
        self._print(console_line(self.device, step, loss, rate, whole))
        self.outputs.scalars(step, dict(zip(SCALARS, (rate, whole, waited), strict=True)))
        # `step` is the user's: of a run that goes on, say. Only `steps` is sure to count the steps between two lines.
        self.outputs.line(
            "log",
            step=step,
            steps=self.steps,
            at_s=self.recorder.since(now_s),
            loss=loss,
            rate=rate,
            global_rate=whole,
            wait_ratio=waited,
        )
        self.outputs.flush()

    def _print(self, text: str) -> None:
        if self._console is None:
            return
        try:
            self._console(text)
        except Exception as error:
            self._console = None
            self.outputs.warn(f"the input monitor cannot print, training goes on: {type(error).__name__}: {error}")

    def _verdict_fields(self) -> dict[str, Any]:
        share = self.verdict.wait_ratio
        interval = None if share is None else {"estimate": share.estimate, "low": share.low, "high": share.high}
        return {"verdict": self.verdict.name, "why": self.verdict.why, "wait_ratio": interval}


def _visible_device() -> str:
    """Return `GPU` if TensorFlow is loaded and sees one, else `CPU`; no device is initialised."""
    tensorflow = sys.modules.get("tensorflow")
    try:
        return "GPU" if tensorflow is not None and tensorflow.config.list_physical_devices("GPU") else "CPU"
    except Exception:
        return "CPU"


def _number(loss: Any) -> float | None:
    """Return a loss as a number, or None. Reading a tensor waits for the accelerator."""
    if loss is None:
        return None
    try:
        return float(loss)
    except Exception:  # whatever a framework raises; the user's own code meets it too where it matters
        return None
