"""Lines of a console log become the runs in it: their phases, and the steps of each writer.

A file may hold the output of several ranks in turn, with a label or without, and of several runs, one after the other or at once.
Steps of one writer rise. So a line whose step does not rise begins another writer, or after the lines of a start another run; and a
line belongs to the writer whose last step it follows best.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cs_input_analyzer.records import PhaseSpan, RunPhase, StallCause
from cs_input_analyzer.run_logs.grammar import Line, parse_line
from cs_input_analyzer.run_logs.steps import Writer

MOST_WRITERS = 64
MOST_SPANS = 1000
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
    last_s: float | None = None
    train_began_s: float | None = None
    _open: dict[RunPhase, Line] = field(default_factory=dict)
    _evaluated: Line | None = None

    def add(self, line: Line, index: int = 0) -> None:
        """The next line; `index` is its place among all of the log."""
        if line.t_s is not None:
            self.first_s = line.t_s if self.first_s is None else self.first_s
            self.last_s = line.t_s if self.last_s is None else max(self.last_s, line.t_s)
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
        """Something explains why the next line of every writer comes late."""
        for writer in self.writers:
            writer.explain(cause)

    def end(self) -> None:
        """Nothing more will come: phases that are still open have no end."""
        self._end_evaluation()
        for phase, line in self._open.items():
            self._close(phase, line, None)
        self._open.clear()

    def newest_writers(self) -> list[Writer]:
        """The writers that were at work last."""
        return self.writer_groups()[-1]

    def writer_groups(self) -> list[list[Writer]]:
        """Those that were at work at a time, one group after the other; an empty one where there is none."""
        groups: list[list[Writer]] = []
        reach = -1
        for writer in sorted(self.writers, key=lambda each: each.first_index):
            if writer.first_index > reach:
                groups.append([])
            groups[-1].append(writer)
            reach = max(reach, writer.last_index)
        return groups or [[]]

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
        if began is not None or not self._is_repeated(mark):
            self._close(phase, began, mark)

    def _end_evaluation(self) -> None:
        began = self._open.pop("evaluation", None)
        if began is not None:
            self._close("evaluation", began, self._evaluated)

    def _is_repeated(self, mark: Line) -> bool:
        """Whether this end was reported before: releases end some phases with two lines, and each of several ranks reports it."""
        before = next((span for span in reversed(self.spans) if span.phase == mark.phase), None)
        return before is not None and (mark.phase != "checkpoint" or mark.step is None or mark.step == before.step)

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
    """The runs of a log, the newest last, and how many of its lines say something. Never raises."""
    runs, count = [LoggedRun()], 0
    starting: list[Line] = []
    for raw in lines:
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
    """The writer that wrote this line, too: same label, a smaller step, and of several the one that it follows best."""
    fitting = [
        writer
        for writer in writers
        if writer.rank == line.rank and writer.device == line.device and writer.last_step < (line.step or 0)
    ]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    return min(fitting, key=lambda writer: _misfit(writer, line, fitting))


def _misfit(writer: Writer, line: Line, others: list[Writer]) -> tuple[bool, int, int]:
    """Small for the likelier writer: it did not stop before another began, is near in steps, waits longest."""
    is_over = any(other.first_index > writer.last_index and len(other.lines) > 1 for other in others)
    return is_over, (line.step or 0) - writer.last_step, writer.last_index
