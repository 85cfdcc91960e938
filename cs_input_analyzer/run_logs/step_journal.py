"""Reads `steps.jsonl`, which the monitor leaves behind (its keys are in docs/monitoring.md), of one worker.

Its own verdict and wait share count for more than anything that a log can say: they were measured where the input is taken.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cs_input_analyzer.records import Estimate, StallCause, VerdictName
from cs_input_analyzer.run_logs.console_log import LoggedRun
from cs_input_analyzer.run_logs.grammar import Line, number_of
from cs_input_analyzer.run_logs.scan import LogFile

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


@dataclass(slots=True, eq=False)
class Journal:
    """One worker's newest run. A second `start` in the file begins another one.

    Attributes:
        began_s: on the clock of Unix; that of the file where the run does not say it.
        last_step_s: since its beginning.
        note: on how the file was read.
    """

    path: Path
    began_s: float
    note: str = ""
    worker: str | None = None
    batch_size: float | None = None
    workers: int | None = None
    verdict: VerdictName | None = None
    wait_ratio: Estimate | None = None
    steps: int = 0
    last_step_s: float = 0.0
    runs: int = 0
    bad_lines: int = 0
    by_log_steps: LoggedRun = field(default_factory=LoggedRun)
    by_steps: LoggedRun = field(default_factory=LoggedRun)

    @property
    def best(self) -> LoggedRun:
        """By the log steps, where there are some; else by the single steps."""
        writers = self.by_log_steps.writers
        return self.by_log_steps if writers and len(writers[0].lines) > 2 else self.by_steps


def read_step_journal(path: Path, modified_s: float) -> Journal:
    """The newest run of a journal. Lines that are no JSON, or not of this kind, are counted and left out. Never raises."""
    file, journal = LogFile(path), Journal(path=path, began_s=modified_s)
    for index, raw in enumerate(file.lines(NEEDLES)):
        try:
            entry = json.loads(raw)
        except (ValueError, RecursionError):
            journal.bad_lines += 1
            continue
        if isinstance(entry, dict):
            if entry.get("event") == "start":
                journal = _started(journal, entry)
            else:
                _add(journal, entry, index)
    journal.by_log_steps.end()
    journal.by_steps.end()
    bad = f"{journal.bad_lines} line(s) are no JSON" if journal.bad_lines else ""
    journal.note = "; ".join(text for text in (file.trouble, bad) if text)
    return journal


def _started(before: Journal, entry: dict[str, Any]) -> Journal:
    journal = before
    if before.runs:
        journal = Journal(path=before.path, began_s=before.began_s, runs=before.runs, bad_lines=before.bad_lines)
    journal.runs += 1
    journal.worker = str(entry["worker"]) if entry.get("worker") is not None else None
    journal.batch_size = number_of(entry.get("batch_size")) or None
    journal.workers = _whole(entry.get("workers"))
    journal.began_s = number_of(entry.get("time_unix_s")) or journal.began_s
    return journal


def _add(journal: Journal, entry: dict[str, Any], index: int) -> None:
    event, at_s, step = entry.get("event"), number_of(entry.get("at_s")), _whole(entry.get("step"))
    cause = PHASES.get(str(entry.get("phase")))
    line = Line(
        "step", at_s, STAMP_S, step=step, rate=number_of(entry.get("rate")), global_rate=number_of(entry.get("global_rate"))
    )
    if event == "log" and step is not None:
        journal.by_log_steps.add(line, index)
    elif event == "step" and step is not None and at_s is not None:
        journal.steps, journal.last_step_s = max(journal.steps, step), max(journal.last_step_s, at_s)
        journal.by_steps.add(line, index)
        if cause is not None:  # the line stands where the step began: the next one shows how long it took
            journal.by_steps.explain(cause)
    elif event == "phase" and cause is not None:
        journal.by_log_steps.explain(cause)
    elif event == "checkpoint":
        seconds = number_of(entry.get("duration_s"))
        end_s = None if at_s is None or seconds is None else at_s + seconds
        for run in (journal.by_log_steps, journal.by_steps):
            run.add(Line("begin", at_s, phase="checkpoint", step=step))
            run.add(Line("end", end_s, phase="checkpoint", step=step, duration_s=seconds))
    elif event in ("verdict", "end"):
        journal.verdict = next((known for known in VERDICTS if known == entry.get("verdict")), journal.verdict)
        journal.wait_ratio = _share(entry.get("wait_ratio")) or journal.wait_ratio


def _share(value: object) -> Estimate | None:
    if not isinstance(value, dict):
        return None
    estimate, low, high = (number_of(value.get(key)) for key in ("estimate", "low", "high"))
    if estimate is None or low is None or high is None or not low <= estimate <= high <= 1:
        return None
    return Estimate(estimate=estimate, low=low, high=high)


def _whole(value: object) -> int | None:
    number = number_of(value)
    return int(number) if number is not None and number == int(number) else None
