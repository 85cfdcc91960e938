"""Parse the lines of console logs that say something about speed: one line in, at most one `Line` out. Pure.

The grammars are those that public releases of the model zoo and its launcher print (0.6 to 2.10): the `| Train …` line with
whatever later releases append, the `| Streamer …` line of an input worker, the Estimator's `global step`, the lines that end a
training, and the phases of a start. A line that was cut inside its numbers gives nothing: every pattern ends in text after its
last number.
"""

from __future__ import annotations

import functools
import math
import re
from datetime import date
from typing import Any, Literal, NamedTuple

from cs_input_analyzer.records import RunPhase

# A log that has lines of steps, or of their end, holds one of these.
STEP_LINES = re.compile(rb"Rate=|steps/sec\)|global_step|raining |rocessed ")
# Each line that `parse_line` understands holds one of these; to search for them first makes a large log quick to read.
WORTH_PARSING = re.compile(
    STEP_LINES.pattern
    + rb"|aving checkpoint|aved checkpoint|final checkpoint|Compil|initial|rogramm|prime the data pipeline|Streamer"
    + rb"|begun streaming|Beginning appliance run"
)
_MARKS: tuple[tuple[str, RunPhase, Literal["begin", "end"]], ...] = (
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
_NUMBER = r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?|[-+]?(?:nan|inf)"  # bounded: of text without an end
# The names of the groups are fields of `Line`.
_DEVICE_LINE = re.compile(
    r"\| (?P<mode>Train|Eval) Device=(?P<device>[^,|]{0,80}), "
    r"(?:GlobalStep=(?P<global_step>\d{1,18}), Batch=\d{1,18}|Step=(?P<step>\d{1,18}))"
    r"(?:, (?!Rate=)[A-Za-z_]+=[^,|]{0,80}){0,8}, "
    rf"Rate=(?P<rate>{_NUMBER}) samples/sec, GlobalRate=(?P<global_rate>{_NUMBER}) samples/sec"
)
_STREAMER_LINE = re.compile(
    rf"\| Streamer Step=\d{{1,18}}, Rate=(?:{_NUMBER}) steps/sec, GlobalRate=(?P<steps_per_s>{_NUMBER}) steps/sec"
)
_ESTIMATOR_LINES = (
    re.compile(rf"global step (?P<step>\d{{1,18}}): .{{0,200}}?\((?P<steps_per_s>{_NUMBER}) steps/sec\)"),
    re.compile(r"global_step = (?P<step>\d{1,18}), "),
)
_FINISHED = re.compile(
    rf"(?P<verb>Training finished with|Training [Cc]omplete\. Completed|Processed) (?P<samples>\d{{1,18}}) "
    rf"(?:training )?samples?(?:\(s\))? in (?P<duration_s>{_NUMBER}) seconds(?:, (?P<rate>{_NUMBER}) samples ?/ ?second)?"
)
_EVALUATED = "Saving dict for "  # results of an Estimator's evaluation, the global step among them
_STAMP = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_MARK_STEP = re.compile(r"(?:step:? |checkpoints? (?:for )?)(\d{1,18})\b")
_MARK_SECONDS = re.compile(rf"(?: in:? | took |CreationTime=)({_NUMBER}) seconds")
# `srun --label` writes `3: `, `mpirun --tag-output` `[1,3]<stdout>:`, torchrun `[default3]:`. Programs themselves write `[rank 3]`,
# `rank3:` or `worker-3 |`.
_RANK = re.compile(
    r"\s*(?:(\d{1,6}): |\[(?:\d{1,6},)?(\d{1,6})\](?:<\w+>)?[:\s]|\[?(?:rank|worker|task|default)[ _:-]?(\d{1,6})\]?\s?[:|\s])",
    re.IGNORECASE,
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")
DAY_S = 86_400

Kind = Literal["step", "evaluation", "begin", "end", "finished", "streamer"]


class Line(NamedTuple):
    """One row of the table that a log is read into. What a line does not say, or says as NaN, is None.

    Attributes:
        kind: `step` and `evaluation` count steps; `begin` and `end` are those of a phase; `finished` ends a training; `streamer` is
            the line of one input worker.
        t_s, resolution_s: its time stamp on a scale of its own (seconds since a day of the year 1), and what that can tell apart.
        rate, global_rate: `Rate` and `GlobalRate`, samples per second; of a `finished` line `rate` is that of the whole training.
        steps_per_s: the Estimator's: steps so far over the time so far, as its last line agrees with that of the whole training.
        duration_s: of a phase whose `end` states it; of a whole training.
        includes_start: whether that time holds compile, programming and checkpoints, too, as in releases since 1.9.
    """

    kind: Kind
    t_s: float | None = None
    resolution_s: float = 0.0
    rank: str | None = None
    device: str = ""
    step: int | None = None
    rate: float | None = None
    global_rate: float | None = None
    steps_per_s: float | None = None
    phase: RunPhase | None = None
    duration_s: float | None = None
    samples: int | None = None
    includes_start: bool = False


def parse_line(raw: bytes) -> Line | None:
    """Return what one line says, or None if it is none of ours. Never raise, whatever the bytes."""
    text = raw.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "Rate=" in text:
        match = _last(_DEVICE_LINE, text)
        if match is not None:
            kind: Kind = "evaluation" if match["mode"] == "Eval" else "step"
            step = int(match["step"] or match["global_step"])
            return _line(kind, text, match.start(), match, device=match["device"], step=step)
        match = _last(_STREAMER_LINE, text)
        return None if match is None else _line("streamer", text, match.start(), match)
    if "steps/sec)" in text or "global_step = " in text:
        match = next((found for pattern in _ESTIMATOR_LINES if (found := _last(pattern, text))), None)
        if match is None:
            return None
        return _line("evaluation" if _EVALUATED in text[: match.start()] else "step", text, match.start(), match)
    if "sample" in text and " seconds" in text and (match := _last(_FINISHED, text)) is not None:
        return _line("finished", text, match.start(), match, includes_start=match["verb"] == "Processed")
    return _mark(text)


def _mark(text: str) -> Line | None:
    found = next((mark for mark in _MARKS if mark[0] in text), None)
    if found is None:
        return None
    words, phase, edge = found
    place = text.find(words)
    step = _MARK_STEP.search(text, place) if phase == "checkpoint" else None
    seconds = _MARK_SECONDS.search(text, place) if edge == "end" else None
    duration_s = number_of(float(seconds[1])) if seconds else None
    return _line(edge, text, place, phase=phase, step=int(step[1]) if step else None, duration_s=duration_s)


def _line(kind: Kind, text: str, end: int, match: re.Match[str] | None = None, **fields: Any) -> Line:
    """Return the numbers that the match names, with the last time stamp before `end`."""
    for name, value in match.groupdict().items() if match is not None else ():
        if value is not None and name in Line._fields and name not in fields:
            fields[name] = int(value) if name in ("step", "samples") else number_of(float(value))
    t_s, resolution_s = _stamp(text, end)
    label = _RANK.match(text)
    rank = None if label is None else str(int(label[1] or label[2] or label[3]))
    return Line(kind, t_s, resolution_s, rank, **fields)


def _last(pattern: re.Pattern[str], text: str, end: int | None = None) -> re.Match[str] | None:
    """Return the last match: before it may stand the rest of a line that was cut without its newline."""
    found = None
    for match in pattern.finditer(text, 0, len(text) if end is None else end):
        found = match
    return found


def _stamp(text: str, end: int) -> tuple[float | None, float]:
    """Return the last time stamp before `end`, and what it can tell apart; (None, 0) without one that a calendar has."""
    found = _last(_STAMP, text, end)
    if found is None:
        return None, 0.0
    day, (hours, minutes, seconds) = _day(found["day"]), (int(found[2]), int(found[3]), int(found[4]))
    if day is None or hours > 23 or minutes > 59 or seconds > 60:
        return None, 0.0
    digits = found[5] or ""
    fraction = int(digits) / 10 ** len(digits) if digits else 0.0
    return day * DAY_S + hours * 3600 + minutes * 60 + seconds + fraction, 10.0 ** -len(digits)


@functools.lru_cache(maxsize=64)
def _day(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal()
    except ValueError:
        return None


def number_of(value: object) -> float | None:
    """Return the number, or None for anything else: NaN, infinity, `true`, and less than zero, as nothing here can be negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value) if not isinstance(value, int) or value.bit_length() < 1024 else math.inf
    return number if math.isfinite(number) and number >= 0 else None
