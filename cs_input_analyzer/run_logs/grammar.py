"""The lines of console logs that say something about speed: one line in, at most one event out. Pure.

The grammars are those that public releases of the model zoo and its launcher print (0.6 to 2.10): the `| Train …` line with
whatever later releases append to it, the `| Streamer …` line of an input worker, the Estimator's `global step`, the lines of
TensorFlow's own Estimator, the lines that end a training, and the phases of a start. A line that was cut inside its numbers gives
nothing: every pattern ends in text that follows its last number.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from datetime import date
from typing import Literal

from cs_input_analyzer.records import RunPhase

Edge = Literal["begin", "end"]

NEEDLES: tuple[bytes, ...] = (
    b"Rate=",
    b"steps/sec)",
    b"global_step",
    b"raining ",
    b", step = ",
    b"rocessed ",
    b" checkpoint",
    b"Compil",
    b"initial",
    b"rogramm",
    b"prime the data pipeline",
    b"Streamer",
    b"begun streaming",
    b"Beginning appliance run",
    b"tall detected",
)
"""Each line that `parse_line` understands holds one of these; looking for them first is what makes a large log quick to read. The
longer a word, the faster it is looked for."""

STEP_NEEDLES = NEEDLES[:6]
"""One of them is in a log that tells of steps, or of how they ended."""

_MARKS: tuple[tuple[str, RunPhase, Edge], ...] = (
    ("Compiling the model", "compile", "begin"),
    ("Compile was successful", "compile", "end"),
    ("Compile artifacts successfully", "compile", "end"),
    ("About to send initial weights", "weights", "begin"),
    ("Finished sending initial weights", "weights", "end"),
    ("weight initialization on CPU in", "weights", "end"),
    ("pre-initialized weights took", "weights", "end"),
    ("IteratorCreationTime=", "priming", "end"),
    ("Programming CS-", "programming", "begin"),
    ("Programming Cerebras", "programming", "begin"),
    ("Waiting for device programming", "programming", "begin"),
    ("Fabric programmed", "programming", "end"),
    ("Device programming is complete", "programming", "end"),
    ("to prime the data pipeline", "priming", "begin"),
    ("Streamers are ready", "priming", "end"),
    ("begun streaming input data", "priming", "end"),
    ("Beginning appliance run", "train", "begin"),
    ("Saving checkpoint at", "checkpoint", "begin"),
    ("Taking final checkpoint", "checkpoint", "begin"),
    ("Saving checkpoints for", "checkpoint", "begin"),
    ("before saving checkpoint", "checkpoint", "begin"),
    ("after saving checkpoint", "checkpoint", "end"),
    ("Saved checkpoint", "checkpoint", "end"),
)
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)"
_DEVICE_LINE = re.compile(
    r"\| (?P<mode>Train|Eval) Device=(?P<device>[^,|]{0,80}), "
    r"(?:GlobalStep=(?P<global_step>\d{1,18}), Batch=\d{1,18}|Step=(?P<step>\d{1,18}))"
    r"(?:, (?!Rate=)[A-Za-z_]+=[^,|]{0,80}){0,8}, "
    rf"Rate=(?P<rate>{_NUMBER}) samples/sec, GlobalRate=(?P<total>{_NUMBER}) samples/sec"
)
_STREAMER_LINE = re.compile(
    rf"\| Streamer Step=(?P<step>\d{{1,18}}), Rate=(?P<rate>{_NUMBER}) steps/sec, GlobalRate=(?P<total>{_NUMBER}) steps/sec"
)
# What is left where a search kept no more than the rates of a line.
_RATE = re.compile(rf"\b(?P<name>GlobalRate|Rate)=(?P<rate>{_NUMBER})(?= samples/sec|,|\s*$)")
_STEPS_PER_S = re.compile(r"global_step/sec: (?P<rate>\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*$")
_GAP_LINE = re.compile(rf", step = (?P<step>\d{{1,18}}) \((?P<gap>{_NUMBER}) sec\)")
_STEPS_LINE = re.compile(rf"global step (?P<step>\d{{1,18}}): .{{0,200}}?\((?P<rate>{_NUMBER}) steps/sec\)")
_LOSS_LINE = re.compile(r"global_step = (?P<step>\d{1,18}), ")
_EVALUATED = "Saving dict for "  # results of an Estimator's evaluation, the global step among them
_FINISHED = re.compile(
    rf"(?P<verb>Training finished with|Training [Cc]omplete\. Completed|Processed) (?P<samples>\d{{1,18}}) "
    rf"(?:training )?samples?(?:\(s\))? in (?P<seconds>{_NUMBER}) seconds(?:, (?P<rate>{_NUMBER}) samples ?/ ?second)?"
)
# absl's: a letter for the level, month and day, no year.
_ABSL_STAMP = re.compile(r"\b[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9})\b")
_ABSL_YEAR = 2000
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_MARK_STEP = re.compile(r"(?:step:? |checkpoints? (?:for )?)(\d{1,18})\b")
_MARK_SECONDS = re.compile(rf"(?: in:? | took |CreationTime=)({_NUMBER}) seconds")
# `srun --label` writes `3: `, `mpirun --tag-output` `[1,3]<stdout>:`, programs themselves `[rank 3]`, `rank3:` or `worker-3 |`.
_RANK = re.compile(
    r"\s*(?:(\d{1,6}): |\[(?:\d{1,6},)?(\d{1,6})\](?:<\w+>)?[:\s]|\[?(?:rank|worker|task)[ _:-]?(\d{1,6})\]?\s?[:|\s])",
    re.IGNORECASE,
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")
DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """A line that counts steps. What it does not say, or says as NaN, is None.

    Attributes:
        t_s, resolution_s: its time stamp on a scale of its own (seconds since a day of the year 1), and what that can tell apart.
        samples_per_s: `Rate`; global_samples_per_s: `GlobalRate`.
        steps_per_s: the Estimator's: steps so far over the time so far, as its last line agrees with that of the whole training.
        gap_s: seconds since the line before, as TensorFlow's own Estimator prints them.
    """

    t_s: float | None
    resolution_s: float
    rank: str | None
    step: int
    device: str = ""
    is_eval: bool = False
    samples_per_s: float | None = None
    global_samples_per_s: float | None = None
    steps_per_s: float | None = None
    gap_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The begin or the end of a phase. `duration_s`: where the line states it."""

    t_s: float | None
    rank: str | None
    phase: RunPhase
    edge: Edge
    step: int | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end of a training. `samples_per_s` only where the line states it: what the seconds hold differs between releases.

    `includes_start`: as releases since 1.9 print it, whose seconds hold compile, programming and checkpoints, too.
    """

    t_s: float | None
    rank: str | None
    samples: int
    seconds: float | None
    samples_per_s: float | None
    includes_start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """Rates without a step. `steps_per_s`: of an Estimator, or of one input worker where `is_streamer`."""

    t_s: float | None
    rank: str | None
    samples_per_s: float | None = None
    global_samples_per_s: float | None = None
    steps_per_s: float | None = None
    is_streamer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """The run says that it stands still."""

    t_s: float | None
    rank: str | None


Event = StepLine | Mark | Finished | Printed | Stalled


def parse_line(raw: bytes) -> Event | None:
    """What one line says; None where it is none of ours. Never raises, whatever the bytes."""
    text = raw.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "Rate=" in text:
        return _device_line(text) or _streamer_line(text) or _rates(text)
    if "steps/sec)" in text or "global_step = " in text or ", step = " in text:
        return _estimator_line(text)
    if "global_step/sec: " in text:
        return _rates(text)
    if "tall detected" in text:
        return Stalled(t_s=_stamp(text, len(text))[0], rank=_rank(text))
    return _finished(text) if "sample" in text and " seconds" in text else _mark(text)


def _streamer_line(text: str) -> Printed | None:
    match = _last(_STREAMER_LINE, text)
    if match is None:
        return None
    t_s, _ = _stamp(text, match.start())
    return Printed(t_s=t_s, rank=_rank(text), steps_per_s=_number(match["total"]), is_streamer=True)


def _rates(text: str) -> Printed | None:
    """Of a line that names a device or a worker and could not be read, nothing: its numbers may be cut."""
    if " Device=" in text or "| Streamer" in text:
        return None
    found = {match["name"]: _number(match["rate"]) for match in _RATE.finditer(text)}
    steps = _STEPS_PER_S.search(text)
    if not found and steps is None:
        return None
    return Printed(
        t_s=_stamp(text, len(text))[0],
        rank=_rank(text),
        samples_per_s=found.get("Rate"),
        global_samples_per_s=found.get("GlobalRate"),
        steps_per_s=_number(steps["rate"]) if steps is not None else None,
    )


def _device_line(text: str) -> StepLine | None:
    match = _last(_DEVICE_LINE, text)
    if match is None:
        return None
    stamp = _stamp(text, match.start())
    return StepLine(
        t_s=stamp[0],
        resolution_s=stamp[1],
        rank=_rank(text),
        step=int(match["step"] or match["global_step"]),
        device=match["device"],
        is_eval=match["mode"] == "Eval",
        samples_per_s=_number(match["rate"]),
        global_samples_per_s=_number(match["total"]),
    )


def _estimator_line(text: str) -> StepLine | None:
    match = _last(_STEPS_LINE, text) or _last(_LOSS_LINE, text) or _last(_GAP_LINE, text)
    if match is None:
        return None
    stamp = _stamp(text, match.start())
    rate = _number(match["rate"]) if match.re is _STEPS_LINE else None
    return StepLine(
        t_s=stamp[0],
        resolution_s=stamp[1],
        rank=_rank(text),
        step=int(match["step"]),
        is_eval=_EVALUATED in text[: match.start()],
        steps_per_s=rate,
        gap_s=_number(match["gap"]) if match.re is _GAP_LINE else None,
    )


def _finished(text: str) -> Event | None:
    match = _last(_FINISHED, text)
    if match is None:
        return _mark(text)
    return Finished(
        t_s=_stamp(text, match.start())[0],
        rank=_rank(text),
        samples=int(match["samples"]),
        seconds=_number(match["seconds"]),
        samples_per_s=_number(match["rate"]) if match["rate"] is not None else None,
        includes_start=match["verb"] == "Processed",
    )


def _mark(text: str) -> Mark | None:
    for words, phase, edge in _MARKS:
        place = text.find(words)
        if place >= 0:
            step = _MARK_STEP.search(text, place) if phase == "checkpoint" else None
            seconds = _MARK_SECONDS.search(text, place) if edge == "end" else None
            return Mark(
                t_s=_stamp(text, place)[0],
                rank=_rank(text),
                phase=phase,
                edge=edge,
                step=int(step[1]) if step else None,
                duration_s=_number(seconds[1]) if seconds else None,
            )
    return None


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match: before it may stand the rest of a line that was cut without its newline."""
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


def _stamp(text: str, end: int) -> tuple[float | None, float]:
    """The last time stamp before `end`, and what it can tell apart; (None, 0) without one that a calendar has."""
    found = None
    for match in _STAMP.finditer(text, 0, end):
        found = match
    if found is None:
        return _absl_stamp(text, end)
    day, (hours, minutes, seconds) = _day(found[1]), (int(found[2]), int(found[3]), int(found[4]))
    if day is None or hours > 23 or minutes > 59 or seconds > 60:
        return None, 0.0
    digits = found[5] or ""
    fraction = int(digits) / 10 ** len(digits) if digits else 0.0
    return day * DAY_S + hours * 3600 + minutes * 60 + seconds + fraction, 10.0 ** -len(digits)


def _absl_stamp(text: str, end: int) -> tuple[float | None, float]:
    """As `_stamp`, in a leap year: only differences count."""
    match = _ABSL_STAMP.search(text, 0, end)
    if match is None:
        return None, 0.0
    day = _day(f"{_ABSL_YEAR}-{match[1]}-{match[2]}")
    hours, minutes, seconds = int(match[3]), int(match[4]), int(match[5])
    if day is None or hours > 23 or minutes > 59 or seconds > 60:
        return None, 0.0
    fraction = int(match[6]) / 10 ** len(match[6])
    return day * DAY_S + hours * 3600 + minutes * 60 + seconds + fraction, 10.0 ** -len(match[6])


@functools.lru_cache(maxsize=64)
def _day(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal()
    except ValueError:
        return None


def _rank(text: str) -> str | None:
    match = _RANK.match(text)
    return None if match is None else str(int(match[1] or match[2] or match[3]))


def _number(text: str) -> float | None:
    """None for NaN, infinity, and less than zero: nothing here can be negative."""
    value = float(text)
    return value if math.isfinite(value) and value >= 0 else None
