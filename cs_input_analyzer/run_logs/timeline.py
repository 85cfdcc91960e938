"""When the run did what: its phases and its stalls, in seconds since its first time stamp. Pure."""

from __future__ import annotations

from dataclasses import replace

from cs_input_analyzer.records import PhaseSpan, RunPhase, Stall
from cs_input_analyzer.run_logs.console_log import LoggedRun
from cs_input_analyzer.run_logs.pace import Pace
from wafer_model.performance_json import Performance

MOST_STALLS = 20
ORDER: tuple[RunPhase, ...] = ("compile", "weights", "programming", "priming", "train", "checkpoint", "evaluation")


def timeline_of(run: LoggedRun | None, performance: Performance | None) -> tuple[PhaseSpan, ...]:
    """By start; phases without one first, in the order in which runs have them."""
    spans: list[PhaseSpan] = []
    if run is not None:
        for span in run.spans:
            start_s = _since_first(run, span.begin_s)
            spans.append(PhaseSpan(phase=span.phase, start_s=start_s, duration_s=span.duration_s, step=span.step))
        spans += _training(run)
    if performance is not None:
        stated = (("compile", performance.compile_time_s), ("programming", performance.programming_time_s))
        for phase, seconds in stated:
            if seconds is not None and not any(span.phase == phase and span.duration_s is not None for span in spans):
                spans.append(PhaseSpan(phase=phase, start_s=None, duration_s=seconds))  # type: ignore[arg-type]
    return tuple(sorted(spans, key=lambda span: (span.start_s is not None, span.start_s or 0.0, ORDER.index(span.phase))))


def _since_first(run: LoggedRun, at_s: float | None) -> float | None:
    """None also where the stamp lies before the first one: a clock that was set."""
    return at_s - run.first_s if at_s is not None and run.first_s is not None and at_s >= run.first_s else None


def _training(run: LoggedRun) -> list[PhaseSpan]:
    """From the line that announces it, else from the first step line, to the last step line."""
    writers = run.newest_writers()
    if not writers:
        return []
    stamps = [writer.lines[0].t_s for writer in writers if writer.lines[0].t_s is not None]
    began_s = run.train_began_s if run.train_began_s is not None else min(stamps, default=None)
    ends = [writer.lines[-1].t_s for writer in writers if writer.lines[-1].t_s is not None]
    duration_s = max(ends) - began_s if ends and began_s is not None and max(ends) >= began_s else None
    if not stamps and run.finished is not None:
        duration_s = run.finished.duration_s
    return [
        PhaseSpan(
            phase="train",
            start_s=_since_first(run, began_s),
            duration_s=duration_s,
            step=max(writer.last_step for writer in writers),
        )
    ]


def shown_stalls(run: LoggedRun, pace: Pace) -> tuple[Stall, ...]:
    """The longest of both kinds, by start: those without a cause, and the pauses that have one."""
    lost = [stall for stall in (*pace.stalls, *pace.explained) if stall.lost_s > 0]
    longest = sorted(lost, key=lambda stall: -stall.lost_s)[:MOST_STALLS]
    return tuple(
        replace(stall, start_s=_since_first(run, stall.start_s)) for stall in sorted(longest, key=lambda stall: stall.step)
    )
