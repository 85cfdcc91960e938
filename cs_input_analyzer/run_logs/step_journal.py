"""`steps.jsonl`, which the monitor leaves behind (see the docstring of `cs_input_analyzer.monitoring`), one worker's.

Its own verdict and wait share count for more than anything that a log can say: they were measured where the input is taken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from cs_input_analyzer.records import Estimate, StallCause, VerdictName
from cs_input_analyzer.run_logs.console_log import LoggedRun
from cs_input_analyzer.run_logs.grammar import Mark, StepLine

EVENTS = ("start", "log", "phase", "checkpoint", "verdict", "end", "step")
NEEDLES: tuple[bytes, ...] = tuple(f'"event":{space}"{name}"'.encode() for name in EVENTS for space in (" ", ""))
VERDICTS: tuple[VerdictName, ...] = ("input_bound", "balanced", "accelerator_bound", "unknown")
STAMP_S = 1e-6
# Of the phases of a step, those that explain a long one.
PHASES: dict[str, StallCause] = {
    "start_up": "set-up",
    "fill": "set-up",
    "epoch_edge": "set-up",
    "checkpoint": "checkpoint",
    "spike": "checkpoint",
}


@dataclass(slots=True)
class Journal:
    """One worker's newest run. A second `start` in the file begins another one. `last_step_s`: since its beginning."""

    worker: str | None = None
    batch_size: float | None = None
    workers: int | None = None
    began_unix_s: float | None = None
    verdict: VerdictName | None = None
    why: str = ""
    wait_ratio: Estimate | None = None
    samples: float | None = None
    steps: int = 0
    last_step_s: float = 0.0
    is_ended: bool = False
    runs: int = 0
    bad_lines: int = 0
    run: LoggedRun = field(default_factory=LoggedRun)
    from_steps: LoggedRun = field(default_factory=LoggedRun)
    _index: int = 0

    @property
    def best(self) -> LoggedRun:
        """By the log steps, where there are some; else by the single steps."""
        return self.run if self.run.writers and self.run.writers[0].series.lines > 2 else self.from_steps


def read_step_journal(lines: Iterable[bytes]) -> Journal:
    """The newest run of a journal. Lines that are no JSON, or not of this kind, are counted and left out. Never raises."""
    journal = Journal()
    for raw in lines:
        try:
            entry = json.loads(raw)
        except (ValueError, RecursionError):
            journal.bad_lines += 1
            continue
        if isinstance(entry, dict):
            if entry.get("event") == "start" and journal.runs:
                journal = Journal(runs=journal.runs, bad_lines=journal.bad_lines)
            _take(journal, entry)
    journal.run.end()
    journal.from_steps.end()
    return journal


def _take(journal: Journal, entry: dict[str, object]) -> None:
    journal._index += 1
    event, at_s, step = entry.get("event"), _number(entry.get("at_s")), _whole(entry.get("step"))
    if event == "start":
        journal.runs += 1
        journal.worker = str(entry["worker"]) if entry.get("worker") is not None else None
        journal.batch_size = _number(entry.get("batch_size")) or None
        journal.workers = _whole(entry.get("workers"))
        journal.began_unix_s = _number(entry.get("time_unix_s"))
    elif event == "log" and step is not None:
        rate, whole = _number(entry.get("rate")), _number(entry.get("global_rate"))
        journal.run.take_step(_line(at_s, step, rate, whole), journal._index)
    elif event == "step" and step is not None and at_s is not None:
        journal.steps, journal.last_step_s = max(journal.steps, step), max(journal.last_step_s, at_s)
        journal.from_steps.take_step(_line(at_s, step, None, None), journal._index)
        cause = PHASES.get(str(entry.get("phase")))
        if cause is not None:  # the line stands where the step began: the next one tells how long it took
            journal.from_steps.pause(cause)
    elif event == "phase":
        cause = PHASES.get(str(entry.get("phase")))
        if cause is not None:
            journal.run.pause(cause)
    elif event == "checkpoint":
        for run in (journal.run, journal.from_steps):
            run.take_mark(Mark(t_s=at_s, rank=None, phase="checkpoint", edge="begin", step=step))
            seconds = _number(entry.get("duration_s"))
            end_s = None if at_s is None or seconds is None else at_s + seconds
            run.take_mark(Mark(t_s=end_s, rank=None, phase="checkpoint", edge="end", step=step, duration_s=seconds))
    elif event in ("verdict", "end"):
        _take_verdict(journal, entry)


def _take_verdict(journal: Journal, entry: dict[str, object]) -> None:
    name = entry.get("verdict")
    journal.verdict = next((known for known in VERDICTS if known == name), journal.verdict)
    journal.why = str(entry.get("why") or journal.why)
    journal.wait_ratio = _share(entry.get("wait_ratio")) or journal.wait_ratio
    if entry.get("event") == "end":
        journal.is_ended = True
        journal.samples = _number(entry.get("samples"))


def _line(at_s: float | None, step: int, rate: float | None, whole: float | None) -> StepLine:
    return StepLine(t_s=at_s, resolution_s=STAMP_S, rank=None, step=step, samples_per_s=rate, global_samples_per_s=whole)


def _share(value: object) -> Estimate | None:
    if not isinstance(value, dict):
        return None
    estimate, low, high = (_number(value.get(key)) for key in ("estimate", "low", "high"))
    if estimate is None or low is None or high is None or not low <= estimate <= high <= 1:
        return None
    return Estimate(estimate=estimate, low=low, high=high)


def _number(value: object) -> float | None:
    """A finite number that is not negative; None for everything else, `true` included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) else None
