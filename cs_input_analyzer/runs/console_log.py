"""Lines of a console log become the runs in it: their phases, and the steps of each writer.

A file may hold the output of several ranks in turn, with a label or without, and several runs. Steps of one writer rise. So a line
whose step does not rise begins another writer, or another run after the lines of a start. A line belongs to the writer of its label
whose steps it continues at the same distance, else whose last step it follows most closely.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from cs_input_analyzer.records import PhaseSpan, RunPhase, StallCause
from cs_input_analyzer.runs.grammar import Line, parse_line
from cs_input_analyzer.runs.rates import is_kept
from cs_input_analyzer.runs.table import CAUSES, Floats, Integers, Interval, Intervals, intervals_of

# An interval ends where it is this much longer than what its time stamps can tell apart.
FINE_RATIO = 10
# Estimators print steps per second with two decimals. The releases of 2021 round them to a 16-bit float before.
HALF_PRECISION_RATIO = 2.0**-11
_NUMBERS = ("t_s", "resolution_s", "step", "rate", "global_rate", "steps_per_s")


@dataclass
class Writer:
    """The step lines of one source, in order; their steps rise.

    Attributes:
        causes: for each line, what the run did since the line before (index into CAUSES).
        pending_cause: the same since the last line.
    """

    rank: str | None
    device: str
    first_index: int
    last_index: int
    lines: list[Line] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)
    pending_cause: int = 0

    def add(self, line: Line, index: int) -> None:
        """Take the next line; `index` is its place in the log."""
        self.lines.append(line)
        self.causes.append(self.pending_cause)
        self.last_index, self.pending_cause = index, 0

    def explain(self, cause: StallCause) -> None:
        """Note why the next line comes late."""
        self.pending_cause = max(self.pending_cause, CAUSES.index(cause))

    @property
    def last_step(self) -> int:
        """Return the last step that it logged."""
        return self.lines[-1].step or 0

    def continues_at(self, step: int) -> bool:
        """Return whether this step follows its last one at the distance of the last two."""
        return len(self.lines) > 1 and step - self.last_step == self.last_step - (self.lines[-2].step or 0)

    def last(self, name: str) -> float | None:
        """Return the last number of that name."""
        return next((value for line in reversed(self.lines) if (value := getattr(line, name)) is not None), None)

    def table(self) -> StepTable:
        """Return the lines as columns; None becomes NaN."""
        numbers = {name: np.asarray([getattr(line, name) for line in self.lines], dtype=np.float64) for name in _NUMBERS}
        return StepTable(**numbers, cause=np.asarray(self.causes, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class StepTable:
    """One row for each step line. Shape of each column: [n]."""

    t_s: Floats
    resolution_s: Floats
    step: Floats
    rate: Floats
    global_rate: Floats
    steps_per_s: Floats
    cause: Integers

    def rows(self, places: Integers) -> StepTable:
        """Return the rows at these places."""
        return StepTable(**{column.name: getattr(self, column.name)[places] for column in fields(self)})

    @cached_property
    def before(self) -> dict[str, Floats]:
        """Stamp, step and Rate of the line before; NaN for the first line."""
        return {name: np.concatenate(([np.nan], getattr(self, name)[:-1])) for name in ("t_s", "step", "rate")}

    @cached_property
    def clock(self) -> tuple[Floats, Floats]:
        """When each line was written, and how finely that is known: by its stamp, else by the Estimator's steps per second."""
        with np.errstate(divide="ignore", invalid="ignore"):
            elapsed_s = np.where(self.steps_per_s > 0, self.step / self.steps_per_s, np.nan)
            coarse_s = elapsed_s * np.maximum(HALF_PRECISION_RATIO, 0.005 / self.steps_per_s)
        has_stamp = np.isfinite(self.t_s)
        return np.where(has_stamp, self.t_s, elapsed_s), np.where(has_stamp, self.resolution_s, coarse_s)

    def intervals(self) -> tuple[Intervals, int]:
        """Return the intervals between lines that are far enough apart for their stamps, and how many stamps run backwards."""
        rows: list[Interval] = []
        backward, follows, cause = 0, False, 0
        at_s, resolution_s, step = (column.tolist() for column in (*self.clock, self.step))
        anchor: int | None = None
        for place, why in enumerate(self.cause.tolist()):
            cause = max(cause, why)
            if at_s[place] != at_s[place]:  # NaN: no time
                continue
            if anchor is None:
                anchor, cause = place, 0
                continue
            seconds, steps = at_s[place] - at_s[anchor], step[place] - step[anchor]
            coarse_s = max(resolution_s[place], resolution_s[anchor])
            if seconds < -coarse_s or steps <= 0:
                backward += 1
                anchor, cause, follows = place, 0, False
            elif seconds > 0 and seconds >= FINE_RATIO * coarse_s:  # else too near to tell: the interval goes on
                rows.append(Interval(at_s[anchor], seconds, steps, step[anchor], cause, follows))
                anchor, cause, follows = place, 0, True
        return intervals_of(rows), backward


MOST_WRITERS = 64
MOST_SPANS = 1000
# Writers without a label whose rates, or last steps, differ by more are not of one run.
APART_RATIO = 1.5
# Of each kind of line, as many are all parsed; beyond, they become rarer.
ALL_PARSED_BITS = 14
SETTING_UP: tuple[RunPhase, ...] = ("compile", "weights", "programming", "priming", "train")


@dataclass(slots=True)
class LoggedRun:
    """One run as the log has it, on the scale of its stamps. `streamed`: the last line of an input worker."""

    writers: list[Writer] = field(default_factory=list)
    spans: list[PhaseSpan] = field(default_factory=list)
    finished: Line | None = None
    checkpoint_count: int = 0
    streamed: Line | None = None
    last_eval: Line | None = None
    first_s: float | None = None
    train_began_s: float | None = None
    _open: dict[RunPhase, Line] = field(default_factory=dict)
    _evaluated: Line | None = None

    def add(self, line: Line, index: int = 0) -> None:
        """Take the next line; `index` is its place in the log."""
        if line.t_s is not None:
            self.first_s = line.t_s if self.first_s is None else self.first_s
        if line.kind == "step":
            self._add_step(line, index)
        elif line.kind == "evaluation":
            self.explain("evaluation")
            self.last_eval = line if line.global_rate is not None else self.last_eval
            self._evaluated = line._replace(step=None)
            self._open.setdefault("evaluation", self._evaluated)
        elif line.kind in ("begin", "end"):
            self._add_mark(line)
        elif line.kind == "streamer":
            self.streamed = line
        else:
            self.finished = line

    def explain(self, cause: StallCause) -> None:
        """Note why the next line of every writer comes late."""
        for writer in self.writers:
            writer.explain(cause)

    def end(self) -> None:
        """Close the run: phases that are still open have no end."""
        self._end_evaluation()
        for phase, line in self._open.items():
            self._close(phase, line, None)
        self._open.clear()

    def writer_groups(self) -> list[list[Writer]]:
        """Return the writers that were at work at a time, one group after the other; an empty one if there is none."""
        groups: list[list[Writer]] = []
        reach = -1
        for writer in sorted(self.writers, key=lambda each: each.first_index):
            if writer.first_index > reach:
                groups.append([])
            groups[-1].append(writer)
            reach = max(reach, writer.last_index)
        return groups or [[]]

    @property
    def is_mixed(self) -> bool:
        """Return whether unlabelled writers go at different paces, or by different rates: two runs in one file."""
        writers = [writer for writer in self.writer_groups()[-1] if writer.rank is None]
        rates = [writer.last("global_rate") or writer.last("steps_per_s") for writer in writers]
        values = ([rate for rate in rates if rate], [writer.last_step for writer in writers if writer.last_step])
        return any(max(known) > APART_RATIO * min(known) for known in values if known)

    def since_first(self, at_s: float | None) -> float | None:
        """Return the time since the first stamp; None also for a stamp before it: a clock that was set."""
        return at_s - self.first_s if at_s is not None and self.first_s is not None and at_s >= self.first_s else None

    def _add_step(self, line: Line, index: int) -> None:
        self._end_evaluation()
        writer = follower(self.writers, line)
        if writer is None:
            if len(self.writers) >= MOST_WRITERS:
                return
            writer = Writer(rank=line.rank, device=line.device, first_index=index, last_index=index)
            self.writers.append(writer)
        writer.add(line, index)

    def _add_mark(self, mark: Line) -> None:
        phase = mark.phase
        assert phase is not None
        self.explain("checkpoint" if phase == "checkpoint" else "set-up")
        if phase == "train":
            self.train_began_s = mark.t_s if self.train_began_s is None else self.train_began_s
            return
        began = self._open.get(phase)
        if mark.kind == "begin":
            if began is not None and mark.step is not None and began.step != mark.step:
                self._close(phase, began, None)
                began = None
            self._open[phase] = began or mark
            return
        self._open.pop(phase, None)
        before = next((span for span in reversed(self.spans) if span.phase == phase), None)
        # By a second line, or by another rank.
        is_repeated = before is not None and (phase != "checkpoint" or mark.step is None or mark.step == before.step)
        if began is not None or not is_repeated:
            self._close(phase, began, mark)

    def _end_evaluation(self) -> None:
        began = self._open.pop("evaluation", None)
        if began is not None:
            self._close("evaluation", began, self._evaluated)

    def _close(self, phase: RunPhase, began: Line | None, ended: Line | None) -> None:
        if phase == "checkpoint":
            self.checkpoint_count += 1
        begin_s = began.t_s if began is not None else None
        end_s = ended.t_s if ended is not None else None
        duration_s = ended.duration_s if ended is not None else None
        if duration_s is None and begin_s is not None and end_s is not None and end_s >= begin_s:
            duration_s = end_s - begin_s
        if begin_s is None and end_s is not None:
            begin_s = end_s - (duration_s or 0.0)
        step = next((each.step for each in (began, ended) if each is not None and each.step is not None), None)
        if len(self.spans) < MOST_SPANS:
            self.spans.append(PhaseSpan(phase=phase, start_s=begin_s, duration_s=duration_s, step=step))


def read_console_log(lines: Iterable[bytes]) -> tuple[list[LoggedRun], int]:
    """Return the runs of a log, the newest last, and how many of its lines say something. Never raise.

    Of a long log not each line with a rate is parsed: the intervals between lines are then longer.
    """
    runs, count, rates = [LoggedRun()], 0, 0
    starting: list[Line] = []
    for raw in lines:
        if b"Rate=" in raw:
            rates += 1
            if not is_kept(rates, ALL_PARSED_BITS):
                continue
        line = parse_line(raw)
        if line is None:
            continue
        count += 1
        run = runs[-1]
        if line.phase in SETTING_UP and run.writers:
            starting.append(line)  # of this run or of the next: the step after it decides
            continue
        if starting and line.kind in ("step", "evaluation"):
            if line.kind == "step" and (run.finished is not None or follower(run.writers, line) is None):
                run = LoggedRun()
                runs.append(run)
            for mark in starting:
                run.add(mark)
            starting.clear()
        run.add(line, count)
    for mark in starting:
        runs[-1].add(mark)
    for run in runs:
        run.end()
    return runs, count


def follower(writers: list[Writer], line: Line) -> Writer | None:
    """Return the writer that wrote this line, too.

    It has the same label and a smaller step. Its own distance between steps decides, then the largest step, then the latest line.
    """
    step = line.step or 0
    fitting = [one for one in writers if one.rank == line.rank and one.device == line.device and one.last_step < step]
    return max(fitting, key=lambda writer: (writer.continues_at(step), writer.last_step, writer.last_index), default=None)
