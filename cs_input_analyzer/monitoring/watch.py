"""Watches one training run: between its loop, its accounting and its outputs.

During a step only clocks are read and one entry is put on a list. Everything else (phases, intervals, lines for files) is done for
many steps at once: every `CHUNK` entries, at log steps, and in the end. Whatever fails in here is said once on the log, and then
the training goes on unwatched.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import cs_input_analyzer
from cs_input_analyzer.monitoring import advice, rates
from cs_input_analyzer.monitoring.accounting import Event, EventKind, RunAccounting
from cs_input_analyzer.monitoring.outputs import SCALARS, Outputs, console_line, performance
from cs_input_analyzer.monitoring.phases import Step
from cs_input_analyzer.monitoring.settings import Settings
from cs_input_analyzer.monitoring.task import training_task
from cs_input_analyzer.monitoring.verdict import Verdict, by_wait
from cs_input_analyzer.monitoring.waiting import wait_share

CHUNK = 48
FORMAT = 1

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _never_raises(method: _Method) -> _Method:
    """A failure of ours ends the watching, not the training."""

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
        judge: makes the verdict; by default from the share of time waiting.
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
        self.accounting = RunAccounting(began_s=self.began_s, on_event=self.outputs.line)
        self.verdict = by_wait(None, steps=0)
        self.advice = ""
        self.judge: Callable[[], Verdict] = self._by_wait
        self.compile_s: float | None = None
        self.current: object = None
        self.steps = 0
        self.samples: float | None = 0.0
        self._saved = advice.saved_run(settings.analysis)
        self._rates: rates.Rates | None = None
        self._console = settings.console
        self._entries: list[Step | Event] = []
        self._opens_pass = True
        self._next_log = settings.log_every
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
            smoothing=settings.smoothing,
        )

    # --- during a step ------------------------------------------------------------------------------------------------------

    @_never_raises
    def took(self, asked_s: float, got_s: float | None, samples: float | None, count: int = 1) -> None:
        """`count` steps begin: their input was asked for, and there (None: out of sight), at these times."""
        if self._rates is None:
            self._rates = rates.Rates(since_s=asked_s, smoothing=self.settings.smoothing)
        self._over = (self.samples, asked_s)
        if 0 < self._next_log <= self.steps:
            self._next_log = self.steps + self.settings.log_every
            self._log(self.steps, None, asked_s)
        wait_s = None if got_s is None else got_s - asked_s
        self._entries.append(Step(asked_s, wait_s, 0.0, samples, count, "next", False, self._opens_pass))
        self._opens_pass = False
        self.steps += count
        self.samples = None if self.samples is None or samples is None else self.samples + samples
        if len(self._entries) >= CHUNK:
            self._digest()

    def now(self) -> float:
        """The clock; one that fails ends the watching."""
        try:
            return self.clock()
        except Exception as error:
            self.give_up(error)
            return self.began_s

    # --- now and then -------------------------------------------------------------------------------------------------------

    @_never_raises
    def mark(self, kind: EventKind, at_s: float | None = None, began_s: float = 0.0, text: str = "") -> None:
        """Something else than a step, now or at `at_s`; the kinds are those of `accounting.Event`."""
        now = self.clock() if at_s is None else at_s
        if kind == "loaded":
            self._rates = rates.Rates(since_s=now, total_samples=self.samples or 0.0, smoothing=self.settings.smoothing)
        elif kind == "pass":
            self._opens_pass = True
        elif kind in ("end", "error"):
            self._over = (self.samples, now)
        self._entries.append(Event(kind, now, began_s, text))
        if len(self._entries) >= CHUNK:
            self._digest()

    @_never_raises
    def uncount(self, steps: int, samples: float | None) -> None:
        """Takes back steps that turn out not to have run, at the short end of a pass."""
        self.steps -= steps
        self.samples = None if self.samples is None or samples is None else self.samples - samples

    @_never_raises
    def log(self, step: int | None, loss: Any, then_every: int = 0) -> None:
        """A log step that somebody calls for; reading the loss is what synchronises, and comes first.

        `then_every`: steps to the next line of our own; 0: none, as the user's code logs.
        """
        value = _number(loss)
        now = self.clock()
        self._next_log = self.steps + then_every if then_every else 0
        self._over = (self.samples, now)
        self._entries.append(Event("log", now))
        self._log(self.steps if step is None else step, value, now)

    def end_pass(self, at_s: float) -> None:
        """The data are at their end: the last step is over."""
        self.mark("end", at_s)
        self.finish()

    def failed(self, at_s: float, error: BaseException) -> None:
        self.mark("error", at_s, text=type(error).__name__)
        self.finish()

    @_never_raises
    def finish(self) -> None:
        """Brings everything on disk up to date. May be called again."""
        self._digest()
        self._judge()
        if self._written != (self.steps, self.verdict):
            self._written = self.steps, self.verdict
            seen = self.seen
            self.outputs.line(
                "end",
                at_s=self._since(self.clock()),
                steps=self.steps,
                samples=self.samples,
                rate=seen.rate_per_s if seen else None,
                global_rate=seen.global_per_s if seen else None,
                **self._verdict_fields(),
                phases={phase: round(seconds, 6) for phase, seconds in self.accounting.phases_s.items()},
                dropped_lines=self.outputs.dropped,
            )
            wanted = None if self._saved is None else self._saved.consumption
            expected_per_s = self.settings.est_samples_per_sec or (wanted.samples_per_s.estimate if wanted else None)
            self.outputs.performance(performance(seen, self.verdict, compile_s=self.compile_s, expected_per_s=expected_per_s))
        self.outputs.settle()

    @_never_raises
    def bring_up_to_date(self) -> None:
        self._digest()
        self._judge()

    def close(self) -> None:
        """`finish`, and the files closed."""
        if self.steps:
            self.finish()
        self.is_watching = False
        self.outputs.close()

    def give_up(self, error: Exception) -> None:
        self.is_watching = False
        self.outputs.warn(f"the input monitor stopped, training goes on: {type(error).__name__}: {error}")

    @property
    def seen(self) -> rates.Rates | None:
        """The rates up to the last step that is over; where nothing was logged yet, that is their first sampling point."""
        samples, at_s = self._over
        if self._rates is None or samples is None:
            return None
        return rates.sampled(self._rates, samples, at_s)

    # --- for many steps at once ---------------------------------------------------------------------------------------------

    def _digest(self) -> None:
        entries, self._entries = self._entries, []
        for entry in entries:
            self.accounting.add(entry)
        self.outputs.flush()

    def _by_wait(self) -> Verdict:
        intervals = tuple(self.accounting.intervals)
        return by_wait(wait_share(intervals), steps=sum(interval.steps for interval in intervals) or self.steps)

    def _judge(self) -> None:
        before, self.verdict = self.verdict, self.judge()
        if self.verdict.name == before.name:
            return
        if self.verdict.name == "input_bound" and self._saved is not None and not self.advice:
            rate = self.seen.global_per_s if self.seen is not None else None
            self.advice = advice.of_run(self._saved, rate, self.verdict.wait_ratio, self.task.workers)
        self.outputs.line("verdict", at_s=self._since(self.clock()), step=self.steps, **self._verdict_fields())
        if "input_bound" in (before.name, self.verdict.name):
            self._print(self.verdict.text(self.advice))

    def _log(self, step: int, loss: float | None, now_s: float) -> None:
        self._digest()
        if self._rates is not None and self.samples is not None:
            self._rates = rates.sampled(self._rates, self.samples, now_s)
        self._judge()
        rate = self._rates.rate_per_s if self._rates else None
        whole = self._rates.global_per_s if self._rates else None
        waited = self.verdict.wait_ratio.estimate if self.verdict.wait_ratio else None
        self._print(console_line(self.device, step, loss, rate, whole))
        self.outputs.scalars(step, dict(zip(SCALARS, (rate, whole, waited), strict=True)))
        self.outputs.line("log", step=step, at_s=self._since(now_s), loss=loss, rate=rate, global_rate=whole, wait_ratio=waited)
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

    def _since(self, at_s: float) -> float:
        return round(at_s - self.began_s, 6)


def _visible_device() -> str:
    """`GPU` where this process has TensorFlow and that sees one; asks without initialising any device."""
    tensorflow = sys.modules.get("tensorflow")
    try:
        return "GPU" if tensorflow is not None and tensorflow.config.list_physical_devices("GPU") else "CPU"
    except Exception:
        return "CPU"


def _number(loss: Any) -> float | None:
    """A loss as a number; a tensor is read, which waits for the accelerator. None for what is none."""
    if loss is None:
        return None
    try:
        return float(loss)
    except Exception:  # whatever a framework raises; the user's own code meets it too where it matters
        return None
