"""Read `steps.jsonl`, the record of a monitor; its keys are in docs/monitoring.md.

Its wait share counts for more than anything that a log can say: it was measured where the input is taken.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from cs_input_analyzer.records import Estimate, StallCause
from cs_input_analyzer.runs.console_log import LoggedRun
from cs_input_analyzer.runs.grammar import Line, number_of
from cs_input_analyzer.runs.log_file import LogFile

EVENT = re.compile(b'"event":')
STAMP_S = 1e-6
# Of the phases of a step, those that explain a long one. Release 0.1 wrote `spike`, too.
PHASES: dict[str, StallCause] = {"start_up": "set-up", "epoch_edge": "set-up", "checkpoint": "checkpoint", "spike": "checkpoint"}
# With as many stretches from one log step to the next, the times of single steps are not needed; an asynchronous loop only shows
# when it dispatched them. A stretch with the begin of a pass in it shows no steady rate.
ENOUGH_STRETCHES = 2
MOST_WORDS = 60


@dataclass(slots=True)
class Journal:
    """The newest run of a journal. A second `start` in the file begins another one.

    Attributes:
        began_s: on the clock of Unix; that of the file if the run does not say it.
        last_step_s: since its beginning.
        workers: how many the launch has; this is one of them.
        batch_size: of a full batch.
        samples_per_step: over the whole run, short batches included.
        verdict: the monitor's own last one; `why` is its reason.
        note: on how the file was read.
    """

    path: Path
    began_s: float
    note: str = ""
    workers: int = 1
    batch_size: float | None = None
    samples_per_step: float | None = None
    wait_ratio: Estimate | None = None
    verdict: str = "unknown"
    why: str = ""
    runs: int = 0
    run: LoggedRun = field(default_factory=LoggedRun)
    steps: int = 0
    last_step_s: float = 0.0


def read_journal(path: Path, modified_s: float) -> Journal:
    """Return the newest run of a journal. Lines that are no JSON, or not of this kind, are left out. Never raise."""
    file, journal = LogFile(path), Journal(path=path, began_s=modified_s)
    entries: list[dict[str, Any]] = []
    bad_lines = 0
    for raw in file.lines(EVENT):
        try:
            entry = json.loads(raw)
        except (ValueError, RecursionError):
            bad_lines += 1
            continue
        if isinstance(entry, dict) and entry.get("event") == "start":
            entries = []
            journal = Journal(
                path=path,
                began_s=number_of(entry.get("time_unix_s")) or journal.began_s,
                workers=_whole(entry.get("workers")) or 1,
                batch_size=number_of(entry.get("batch_size")) or None,
                runs=journal.runs + 1,
            )
        elif isinstance(entry, dict):
            entries.append(entry)
    log_entries = [entry for entry in entries if entry.get("event") == "log"]
    _count_steps(log_entries)
    is_logged = _stretches(entries) >= ENOUGH_STRETCHES
    if not is_logged:
        _rate_steps(entries)
    for index, entry in enumerate(entries):
        _add(journal, entry, index, "log" if is_logged else "step")
    journal.run.end()
    bad = f"{bad_lines} line(s) are no JSON" if bad_lines else ""
    journal.note = "; ".join(text for text in (file.trouble, bad) if text)
    return journal


def _count_steps(log_entries: list[dict[str, Any]]) -> None:
    """Set the step of each log line to the steps that the monitor saw, plus those of the run that it goes on from.

    The monitor's own lines, before the user's first one, do not count the latter. The names of checkpoints do.
    """
    counted = [
        (entry, step, steps)
        for entry in log_entries
        if (step := _whole(entry.get("step"))) is not None and (steps := _whole(entry.get("steps"))) is not None
    ]
    for entry, _, steps in counted:
        _, last_step, last_steps = counted[-1]
        entry["step"] = steps + max(0, last_step - last_steps)


def _stretches(entries: list[dict[str, Any]]) -> int:
    """Return how many log steps follow another one of the same pass. Keras may have a single one in each pass."""
    events = [entry.get("event") for entry in entries if entry.get("event") in ("log", "epoch")]
    return sum(pair == ("log", "log") for pair in pairwise(events))


def _rate_steps(entries: list[dict[str, Any]]) -> None:
    """Give the rates of each log step to the step before it."""
    step: dict[str, Any] = {}
    for entry in entries:
        if entry.get("event") == "step":
            step = entry
        elif entry.get("event") == "log":
            step.update({key: entry.get(key) for key in ("rate", "global_rate")})


def _add(journal: Journal, entry: dict[str, Any], index: int, read_by: str) -> None:
    """Take an entry; those with the event `read_by` are the step lines of the run."""
    event, at_s, step = entry.get("event"), number_of(entry.get("at_s")), _whole(entry.get("step"))
    if event == read_by and step is not None and at_s is not None:
        rate, global_rate = number_of(entry.get("rate")), number_of(entry.get("global_rate"))
        journal.run.add(Line("step", at_s, STAMP_S, step=step, rate=rate, global_rate=global_rate), index)
    if event == "step" and step is not None and at_s is not None:
        journal.steps, journal.last_step_s = max(journal.steps, step), max(journal.last_step_s, at_s)
    if event in ("step", "phase") and (cause := PHASES.get(str(entry.get("phase")))) is not None:
        journal.run.explain(cause)  # the line stands where the step began: the next one shows how long it took
    elif event == "checkpoint":
        seconds = number_of(entry.get("duration_s"))
        end_s = None if at_s is None or seconds is None else at_s + seconds
        journal.run.add(Line("begin", at_s, phase="checkpoint", step=step))
        journal.run.add(Line("end", end_s, phase="checkpoint", step=step, duration_s=seconds))
    elif event == "evaluation":
        seconds = number_of(entry.get("duration_s"))
        journal.run.add(Line("evaluation", at_s))
        journal.run.add(Line("evaluation", None if at_s is None or seconds is None else at_s + seconds))
    elif event == "epoch":
        journal.run.explain("set-up")  # between two passes: the next line comes late
    elif event in ("verdict", "end"):
        journal.wait_ratio = _share(entry.get("wait_ratio")) or journal.wait_ratio
        journal.verdict = str(entry.get("verdict"))
        journal.why = " ".join(str(entry.get("why") or "").split()[:MOST_WORDS])
        samples, steps = number_of(entry.get("samples")), _whole(entry.get("steps"))
        if event == "end" and samples and steps and samples > 0 and steps > 0:
            journal.samples_per_step = samples / steps


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
