"""Lines of a console log -> the runs in it: their phases, and the steps of each writer. One pass, constant memory.

A file may hold the output of several ranks in turn, with a label or without, and of several runs, one after the other or at once.
Steps of one writer rise. So a line whose step does not rise begins another writer, or after the lines of a start another run; and a
line belongs to the writer whose last step, and pace, it follows best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cs_input_analyzer.records import RunPhase, StallCause
from cs_input_analyzer.run_logs.grammar import Event, Finished, Mark, Printed, Stalled, StepLine, parse_line
from cs_input_analyzer.run_logs.steps import StepSeries, clock_of

MOST_WRITERS = 64
MOST_SPANS = 1000
SETTING_UP: tuple[RunPhase, ...] = ("compile", "weights", "programming", "priming", "train")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A phase on the scale of the stamps."""

    phase: RunPhase
    begin_s: float | None
    duration_s: float | None
    step: int | None


@dataclass(slots=True)
class Writer:
    """One source of step lines. `first_index`, `last_index`: places of its lines among all of the log."""

    rank: str | None
    device: str
    first_index: int
    last_index: int
    series: StepSeries = field(default_factory=StepSeries)
    pauses_seen: int = 0


@dataclass(slots=True)
class LoggedRun:
    """One run as the log has it."""

    writers: list[Writer] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    finished: Finished | None = None
    checkpoint_count: int = 0
    unplaced_lines: int = 0
    stalls_said: int = 0
    printed: Printed | None = None  # the last rates without a step
    streamed: Printed | None = None  # of an input worker
    last_eval: StepLine | None = None
    first_s: float | None = None
    last_s: float | None = None
    train_began_s: float | None = None
    _open: dict[RunPhase, Mark] = field(default_factory=dict)
    _pauses: list[StallCause] = field(default_factory=list)
    _pauses_dropped: int = 0
    _evaluated: Mark | None = None

    @property
    def has_steps(self) -> bool:
        return bool(self.writers)

    def take_mark(self, mark: Mark) -> None:
        self._see(mark.t_s)
        if mark.phase == "checkpoint":
            self.pause("checkpoint")
        elif self.has_steps:
            self.pause("set-up")
        if mark.phase == "train":
            self.train_began_s = mark.t_s if self.train_began_s is None else self.train_began_s
            return
        began = self._open.get(mark.phase)
        if mark.edge == "begin":
            if began is None:
                self._open[mark.phase] = mark
            elif began.step != mark.step and mark.step is not None:
                self._close(began, None)
                self._open[mark.phase] = mark
            return
        self._open.pop(mark.phase, None)
        if began is not None or not self._is_repeated(mark):
            self._close(began, mark)

    def take_step(self, line: StepLine, index: int) -> None:
        self._see(line.t_s)
        if line.is_eval:
            self.pause("evaluation")
            self._open.setdefault("evaluation", Mark(t_s=line.t_s, rank=line.rank, phase="evaluation", edge="begin"))
            self.last_eval = line if line.global_samples_per_s is not None else self.last_eval
            self._evaluated = Mark(t_s=line.t_s, rank=line.rank, phase="evaluation", edge="end")
            return
        self._end_evaluation()
        writer = follower(self.writers, line)
        if writer is None:
            if len(self.writers) >= MOST_WRITERS:
                self.unplaced_lines += 1
                return
            writer = Writer(rank=line.rank, device=line.device, first_index=index, last_index=index)
            writer.pauses_seen = self._pause_count()
            self.writers.append(writer)
        writer.series.add(line, self._cause_since(writer.pauses_seen))
        writer.pauses_seen = self._pause_count()
        writer.last_index = index

    def take_printed(self, printed: Printed) -> None:
        self._see(printed.t_s)
        if printed.is_streamer:
            self.streamed = printed
            return
        before = self.printed or printed
        self.printed = replace(
            printed,
            samples_per_s=_known(printed.samples_per_s, before.samples_per_s),
            global_samples_per_s=_known(printed.global_samples_per_s, before.global_samples_per_s),
            steps_per_s=_known(printed.steps_per_s, before.steps_per_s),
        )

    def take_finished(self, finished: Finished) -> None:
        self._see(finished.t_s)
        self.finished = finished

    def pause(self, cause: StallCause) -> None:
        """Something that explains why the next line of every writer comes late."""
        self._pauses.append(cause)
        if len(self._pauses) > MOST_SPANS:  # writers that stopped long ago do not need to know each of them
            del self._pauses[: MOST_SPANS // 2]
            self._pauses_dropped += MOST_SPANS // 2

    def end(self) -> None:
        """Nothing more will come: phases that are still open have no end."""
        self._end_evaluation()
        for mark in self._open.values():
            self._close(mark, None)
        self._open.clear()

    def _end_evaluation(self) -> None:
        began = self._open.pop("evaluation", None)
        if began is not None:
            self._close(began, self._evaluated)

    def _is_repeated(self, mark: Mark) -> bool:
        """Whether this end was told before: releases end some phases with two lines, and of several ranks each tells it."""
        before = next((span for span in reversed(self.spans) if span.phase == mark.phase), None)
        return before is not None and (mark.phase != "checkpoint" or mark.step is None or mark.step == before.step)

    def _close(self, began: Mark | None, ended: Mark | None) -> None:
        mark = began or ended
        assert mark is not None
        if mark.phase == "checkpoint":
            self.checkpoint_count += 1
        begin_s = began.t_s if began is not None else None
        stated_s = ended.duration_s if ended is not None else None
        seen_s = ended.t_s - begin_s if ended is not None and ended.t_s is not None and begin_s is not None else None
        duration_s = stated_s if stated_s is not None else seen_s if seen_s is not None and seen_s >= 0 else None
        if begin_s is None and ended is not None and ended.t_s is not None:
            begin_s = ended.t_s if duration_s is None else ended.t_s - duration_s
        step = next((each.step for each in (began, ended) if each is not None and each.step is not None), None)
        if len(self.spans) < MOST_SPANS:
            self.spans.append(Span(phase=mark.phase, begin_s=begin_s, duration_s=duration_s, step=step))

    def _see(self, t_s: float | None) -> None:
        if t_s is not None:
            self.first_s = t_s if self.first_s is None else self.first_s
            self.last_s = t_s if self.last_s is None else max(self.last_s, t_s)

    def _pause_count(self) -> int:
        return self._pauses_dropped + len(self._pauses)

    def _cause_since(self, seen: int) -> StallCause:
        """What explains a long interval, if anything was seen in it. After a new start no steps of a checkpoint are left over."""
        since = self._pauses[max(0, seen - self._pauses_dropped) :]
        order: tuple[StallCause, ...] = ("set-up", "evaluation", "checkpoint")
        return next((cause for cause in order if cause in since), "none known")


@dataclass(slots=True)
class LogBook:
    """The runs of a log so far, the newest last."""

    runs: list[LoggedRun] = field(default_factory=lambda: [LoggedRun()])
    runs_dropped: int = 0
    events: int = 0
    _starting: list[Mark] = field(default_factory=list)

    def take(self, event: Event) -> None:
        self.events += 1
        run = self.runs[-1]
        if isinstance(event, Mark) and event.phase in SETTING_UP and run.has_steps:
            self._starting.append(event)  # of this run or of the next: the step after it tells
            del self._starting[:-MOST_SPANS]
        elif isinstance(event, StepLine):
            if self._starting:
                run = self._begun(event)
            run.take_step(event, self.events)
        elif isinstance(event, Mark):
            run.take_mark(event)
        elif isinstance(event, Printed):
            run.take_printed(event)
        elif isinstance(event, Stalled):
            run.stalls_said += 1
        else:
            run.take_finished(event)

    def _begun(self, line: StepLine) -> LoggedRun:
        """The run that the lines of a start belong to."""
        run = self.runs[-1]
        if not line.is_eval and (run.finished is not None or follower(run.writers, line) is None):
            run = LoggedRun()
            self.runs.append(run)
            if len(self.runs) > 2:  # an older run is only counted
                del self.runs[0]
                self.runs_dropped += 1
        for mark in self._starting:
            run.take_mark(mark)
        self._starting.clear()
        return run

    def end(self) -> None:
        for mark in self._starting:
            self.runs[-1].take_mark(mark)
        self._starting.clear()
        for run in self.runs:
            run.end()


def read_console_log(lines: Iterable[bytes]) -> LogBook:
    """All runs of a log, from the lines that may say something. Never raises."""
    book = LogBook()
    for raw in lines:
        event = parse_line(raw)
        if event is not None:
            book.take(event)
    book.end()
    return book


def follower(writers: list[Writer], line: StepLine) -> Writer | None:
    """The writer that wrote this line, too: same label, a smaller step, and of several the one that it follows best."""
    fitting = [
        writer
        for writer in writers
        if writer.rank == line.rank
        and writer.device == line.device
        and writer.series.last is not None
        and writer.series.last.step < line.step
    ]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    return min(fitting, key=lambda writer: _misfit(writer, line, fitting))


def _misfit(writer: Writer, line: StepLine, others: list[Writer]) -> tuple[bool, int, int, int]:
    """Small for the likelier writer: it did not stop before another began, has the right pace, is near in steps, waits longest."""
    last = writer.series.last
    assert last is not None
    is_over = any(other.first_index > writer.last_index and other.series.lines > 1 for other in others)
    usual, now_s, then_s = writer.series.recent_pace_s(), clock_of(line)[0], clock_of(last)[0]
    off = 0
    if usual is not None and now_s is not None and then_s is not None and now_s > then_s:
        off = abs(round(math.log2((now_s - then_s) / ((line.step - last.step) * usual))))
    return is_over, off, line.step - last.step, writer.last_index


def newest_writers(run: LoggedRun) -> tuple[list[Writer], int]:
    """The writers that were at work last, and how many groups of them, one after the other, were before."""
    groups: list[list[Writer]] = []
    reach = -1
    for writer in sorted(run.writers, key=lambda each: each.first_index):
        if not groups or writer.first_index > reach:
            groups.append([])
        groups[-1].append(writer)
        reach = max(reach, writer.last_index)
    return (groups[-1] if groups else []), max(0, len(groups) - 1)


def _known(value: float | None, otherwise: float | None) -> float | None:
    return otherwise if value is None else value
