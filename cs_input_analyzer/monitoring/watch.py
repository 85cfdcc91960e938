"""One monitored training: between its loop, its books and its outputs.

On the way of a step only clocks are read and one entry is put on a list. Everything else (phases, intervals, lines for files) is
done for many steps at once: every `CHUNK` entries, at log steps, and in the end. Whatever goes wrong in here is said once on the
log, and then the training goes on unwatched.
"""

from __future__ import annotations

import functools
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import cs_input_analyzer
from cs_input_analyzer.errors import UsageError, typed
from cs_input_analyzer.monitoring import rates
from cs_input_analyzer.monitoring.books import Books, Event, Took
from cs_input_analyzer.monitoring.outputs import SCALARS, Outputs, console_line, performance, print_line
from cs_input_analyzer.monitoring.place import place_from
from cs_input_analyzer.monitoring.verdict import Verdict, by_wait

if TYPE_CHECKING:
    from cs_input_analyzer.monitoring.phases import Step
    from cs_input_analyzer.monitoring.waiting import Interval

Clock = Callable[[], float]
Console = Callable[[str], object]
Source = Literal["iterator", "keras", "session"]

CHUNK = 48
FLUSH_LINES = 512
FORMAT = 1
LOG_EVERY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a run is watched.

    Attributes:
        batch_size: samples in a full batch; None: read off each batch, where that can be done.
        log_dir: where the run's record goes; None: nowhere.
        log_every: training steps between two lines where the user's code logs none itself; 0: never.
        smoothing: weight of the Rate before in the new one.
        console: called with each line; None: silent.
        expected_per_s: what the accelerator is expected to take, for `est_samples_per_sec`.
    """

    source: Source
    batch_size: int | None = None
    log_dir: str | Path | None = None
    log_every: int = LOG_EVERY
    smoothing: float = rates.SMOOTHING
    device: str = "CPU"
    console: Console | None = print_line
    tensorboard: bool = True
    expected_per_s: float | None = None

    def __post_init__(self) -> None:
        """Raises UsageError."""
        typed("batch_size", self.batch_size, int | None)
        typed("log_dir", self.log_dir, str | None)
        typed("log_every", self.log_every, int)
        typed("smoothing", self.smoothing, float)
        typed("est_samples_per_sec", self.expected_per_s, float | None)
        if self.expected_per_s is not None and not 0 < self.expected_per_s < math.inf:
            raise UsageError(f"est_samples_per_sec {self.expected_per_s}: samples per second, more than 0")
        if self.batch_size is not None and self.batch_size < 1:
            raise UsageError(f"batch_size {self.batch_size}: how many samples a full batch holds, 1 or more")
        if not 0 <= self.smoothing < 1:
            raise UsageError(f"smoothing {self.smoothing}: 0 or more and below 1 (0.4 is usual)")
        if self.log_every < 0:
            raise UsageError(f"log_every {self.log_every}: a number of steps, or 0 for never")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One monitored run so far.

    Attributes:
        samples: handed to the training; None where they cannot be counted.
        rate_per_s, global_per_s: Rate and GlobalRate, samples per second; None until seen.
        advice: which launch would help; empty without a saved analysis, or where nothing is wrong.
        phases_s: seconds by phase.
    """

    steps: int
    samples: float | None
    rate_per_s: float | None
    global_per_s: float | None
    verdict: Verdict
    advice: str
    phases_s: Mapping[str, float]

    def __str__(self) -> str:
        return "\n".join(part for part in (_headline(self.verdict), self.advice) if part)


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
    """The watching of one run. Its clock gives seconds and may be any that mostly goes forwards.

    Attributes:
        judge: makes the verdict; by default from the share of time waiting.
        advise: says which launch would help, asked once when the run is first called input-bound.
        current: the iterator that is watched; others of the same monitor only give their batches.
    """

    def __init__(self, settings: Settings, clock: Clock, environ: Mapping[str, str] | None = None) -> None:
        self.settings = settings
        self.clock = clock
        self.is_watching = True
        self.place = place_from(os.environ if environ is None else environ)
        self.outputs = Outputs(settings.log_dir, self.place, tensorboard=settings.tensorboard)
        self.began_s = clock()
        self.books = Books(began_s=self.began_s, tell=self._record)
        self.verdict = by_wait(None, steps=0)
        self.advice = ""
        self.judge: Callable[[], Verdict] = self._by_wait
        self.advise: Callable[[Watch], str] | None = None
        self.compile_s: float | None = None
        self.current: object = None
        self.steps = 0
        self.samples: float | None = 0.0
        self._rates: rates.Rates | None = None
        self._console = settings.console
        self._entries: list[Took | Event] = []
        self._opens_pass = True
        self._passes = 0
        self._next_log = settings.log_every
        self._told: tuple[int, Verdict] | None = None
        self._over: tuple[float | None, float] = (0.0, self.began_s)
        self._write_start()

    # --- on the way of a step -------------------------------------------------------------------------------------------------

    def took(self, asked_s: float, got_s: float | None, samples: float | None, count: int = 1) -> None:
        """`count` steps begin: their input was asked for, and there (None: out of sight), at these times."""
        if not self.is_watching:
            return
        try:
            if self._rates is None:
                self._rates = rates.started(asked_s, smoothing=self.settings.smoothing)
            self._over = (self.samples, asked_s)
            if 0 < self._next_log <= self.steps:
                self._next_log = self.steps + self.settings.log_every
                self._log(self.steps, None, asked_s)
            self._entries.append(Took(asked_s, got_s, samples, count, self._opens_pass))
            self._opens_pass = False
            self.steps += count
            self.samples = None if self.samples is None or samples is None else self.samples + samples
            if len(self._entries) >= CHUNK:
                self._digest()
        except Exception as error:
            self.give_up(error)

    def sync(self, at_s: float | None = None) -> None:
        """The user's code has waited for the accelerator: it is idle now."""
        if not self.is_watching:
            return
        try:
            self._entries.append(Event("sync", self.clock() if at_s is None else at_s))
            if len(self._entries) >= CHUNK:
                self._digest()
        except Exception as error:
            self.give_up(error)

    def now(self) -> float:
        """The clock; one that fails ends the watching."""
        try:
            return self.clock()
        except Exception as error:
            self.give_up(error)
            return self.began_s

    # --- now and then -----------------------------------------------------------------------------------------------------------

    @_never_raises
    def begin_pass(self) -> None:
        self._passes += 1
        self._opens_pass = True
        self._entries.append(Event("pass", self.clock(), number=self._passes))

    @_never_raises
    def end_pass(self, at_s: float) -> None:
        """The data are at their end: the last step is over."""
        self._over = (self.samples, at_s)
        self._entries.append(Event("end", at_s))

    @_never_raises
    def checkpoint(self, began_s: float, ended_s: float) -> None:
        self._entries.append(Event("checkpoint", ended_s, began_s))

    @_never_raises
    def pause(self) -> None:
        """What comes until the next step is not training, and not looked at."""
        self._entries.append(Event("pause", self.clock()))

    @_never_raises
    def failed(self, at_s: float, error: BaseException) -> None:
        """The iterator raised; the step that it was asked for never began."""
        self._over = (self.samples, at_s)
        self._entries.append(Event("error", at_s, text=type(error).__name__))
        self._write_all()

    @_never_raises
    def loaded(self, at_s: float | None = None) -> None:
        """The executable is loaded: the rates count from here."""
        now = self.clock() if at_s is None else at_s
        self._rates = rates.started(now, total_samples=self.samples or 0.0, smoothing=self.settings.smoothing)
        self._entries.append(Event("loaded", now))

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

    @_never_raises
    def finish(self) -> None:
        """Brings everything on disk up to date. May be called again."""
        self._write_all()

    def close(self) -> None:
        """`finish`, and the files closed."""
        if self.steps:
            self.finish()
        self.is_watching = False
        self.outputs.close()

    def summary(self) -> Summary:
        """What was seen so far."""
        self._up_to_date()
        seen = self.seen
        return Summary(
            steps=self.steps,
            samples=self.samples,
            rate_per_s=seen.rate_per_s if seen else None,
            global_per_s=seen.global_per_s if seen else None,
            verdict=self.verdict,
            advice=self.advice,
            phases_s=dict(self.books.phases_s),
        )

    @property
    def seen(self) -> rates.Rates | None:
        """The rates up to the last step that is over; where nothing was logged yet, that is their first sampling point."""
        samples, at_s = self._over
        if self._rates is None or samples is None:
            return None
        return rates.sampled(self._rates, samples, at_s)

    def give_up(self, error: Exception) -> None:
        self.is_watching = False
        self.outputs.warn(f"the input monitor stopped, training goes on: {type(error).__name__}: {error}")

    # --- behind them ------------------------------------------------------------------------------------------------------------

    def _digest(self) -> None:
        entries, self._entries = self._entries, []
        for entry in entries:
            self.books.add(entry)
        if self.books.is_time_to_judge():
            self._judge()
        if self.outputs.pending >= FLUSH_LINES:
            self.outputs.flush()

    @_never_raises
    def _up_to_date(self) -> None:
        self._digest()
        self._judge()

    def _by_wait(self) -> Verdict:
        return by_wait(self.books.wait_share(), steps=self.books.counted_steps() or self.steps)

    def _judge(self) -> None:
        before, self.verdict = self.verdict, self.judge()
        if self.verdict.name == before.name:
            return
        if self.verdict.name == "input_bound" and self.advise is not None and not self.advice:
            self.advice = self.advise(self)
        self.outputs.line(
            "verdict",
            at_s=self._since(self.clock()),
            step=self.steps,
            verdict=self.verdict.name,
            why=self.verdict.why,
            wait_ratio=_interval(self.verdict),
        )
        if "input_bound" in (before.name, self.verdict.name):
            self._print("\n".join(part for part in (_headline(self.verdict), self.advice) if part))

    def _log(self, step: int, loss: float | None, now_s: float) -> None:
        self._digest()
        if self._rates is not None and self.samples is not None:
            self._rates = rates.sampled(self._rates, self.samples, now_s)
        self._judge()
        rate = self._rates.rate_per_s if self._rates else None
        whole = self._rates.global_per_s if self._rates else None
        waited = self.verdict.wait_ratio.estimate if self.verdict.wait_ratio else None
        self._print(console_line(self.settings.device, step, loss, rate, whole))
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

    def _write_all(self) -> None:
        self._digest()
        self._judge()
        if self._told != (self.steps, self.verdict):
            self._told = self.steps, self.verdict
            seen = self.seen
            self._write_end(seen)
            self.outputs.performance(
                performance(
                    samples=seen.samples if seen else None,
                    elapsed_s=seen.elapsed_s if seen else None,
                    verdict=self.verdict,
                    compile_s=self.compile_s,
                    programming_s=None,
                    expected_per_s=self.settings.expected_per_s,
                )
            )
        self.outputs.flush_all()

    def _write_end(self, seen: rates.Rates | None) -> None:
        self.outputs.line(
            "end",
            at_s=self._since(self.clock()),
            steps=self.steps,
            samples=self.samples,
            rate=seen.rate_per_s if seen else None,
            global_rate=seen.global_per_s if seen else None,
            verdict=self.verdict.name,
            why=self.verdict.why,
            wait_ratio=_interval(self.verdict),
            phases={phase: round(seconds, 6) for phase, seconds in self.books.phases_s.items()},
        )

    def _write_start(self) -> None:
        self.outputs.line(
            "start",
            format=FORMAT,
            tool=f"cs_input_analyzer {cs_input_analyzer.__version__}",
            worker=self.place.name,
            rank=self.place.rank,
            workers=self.place.workers,
            host=socket.gethostname(),
            time_unix_s=time.time(),
            source=self.settings.source,
            batch_size=self.settings.batch_size,
            device=self.settings.device,
            smoothing=self.settings.smoothing,
        )

    def _record(self, event: str, **fields: Any) -> None:
        """What the books tell, as a line."""
        if not self.outputs.is_writing:
            return
        if event == "step":
            step: Step = fields["took"]
            self.outputs.step_line(
                fields["step"], step.steps, fields["at_s"], step.samples, step.wait_s, step.body_s, fields["phase"]
            )
        elif event == "interval":
            interval: Interval = fields["interval"]
            if interval.steps == 1:  # the step's own line says it all
                return
            self.outputs.line(
                event,
                at_s=fields["at_s"],
                by=interval.ended_by,
                steps=interval.steps,
                samples=interval.samples,
                duration_s=interval.duration_s,
                wait_s=interval.wait_s,
                compute_s=interval.compute_s,
                phase=interval.phase,
                counted=interval.is_counted,
            )
        else:
            self.outputs.line(event, **fields)

    def _since(self, at_s: float) -> float:
        return round(at_s - self.began_s, 6)


def _headline(verdict: Verdict) -> str:
    return f"{verdict.name.replace('_', '-')}: {verdict.why}"


def _interval(verdict: Verdict) -> dict[str, float] | None:
    share = verdict.wait_ratio
    return None if share is None else {"estimate": share.estimate, "low": share.low, "high": share.high}


def _number(loss: Any) -> float | None:
    """A loss as a number; a tensor is read, which waits for the accelerator. None for what is none."""
    if loss is None:
        return None
    try:
        return float(loss)
    except Exception:  # whatever a framework raises; the user's own code meets it too where it matters
        return None
