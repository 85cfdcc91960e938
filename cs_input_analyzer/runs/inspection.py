"""Read the files of a run and return a `RunInspection`, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import cs_input_analyzer
from cs_input_analyzer.records import (
    SCHEMA_VERSION,
    Analysis,
    Layout,
    PhaseSpan,
    RunInspection,
    RunPhase,
    RunRates,
    Stall,
    StepWorker,
    Tool,
)
from cs_input_analyzer.runs import verdict as evidence
from cs_input_analyzer.runs.advice import Demand, change_of, doubt_of, first_demand
from cs_input_analyzer.runs.console_log import LoggedRun, Writer
from cs_input_analyzer.runs.files import RunFiles, read_files
from cs_input_analyzer.runs.grammar import Line
from cs_input_analyzer.runs.pace import Pace, average_rate, pace_of
from wafer_model.vendor_files import Performance

ORDER: tuple[RunPhase, ...] = ("compile", "weights", "programming", "priming", "train", "checkpoint", "evaluation")
# Below this part of the middle worker's rate. Under round-robin a group is as fast as its slowest, so a tenth matters.
STRAGGLER_RATIO = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The best source of the steps of the run."""

    run: LoggedRun
    writer: Writer
    pace: Pace


def inspect_run(path: Path | str, *, current: Layout | None = None, analysis: Analysis | None = None) -> RunInspection:
    """Return what the files at `path` (one of them, or the folder of a run) say about the run's input.

    Args:
        current: the launch of the run.
        analysis: a saved analysis of the same input function; its capacity model is asked which launch would do.

    Raises:
        UsageError: nothing of a run is there, or the one file given cannot be read.
    """
    files = read_files(Path(path))
    steps = _steps(files)
    rates = _rates(files, steps)
    # The rate of one worker is no rate of the run.
    rate = _reached(rates) if files.journal is None or files.journal.workers == 1 else None
    notes = [*files.notes, *_notes(files, steps)]
    # A short last batch makes no other input: the full one is compared.
    full = _first(files.journal.batch_size if files.journal is not None else None, rates.batch_size)
    if analysis is not None and (doubt := doubt_of(analysis, rate, full)):
        notes.append(f"the analysis is of another network or input, as it seems, and is not used: {doubt}")
        analysis = None
    performance, estimate = files.performance, _expected(files, analysis)
    found = _clues(files, steps, rate, estimate)
    verdict = evidence.verdict_of(found)
    unstarved = evidence.accelerator_rate(rates.steady_samples_per_s, verdict.wait_ratio)
    demand = estimate or first_demand(
        (unstarved.estimate if unstarved is not None else None, "what it would have taken without waiting for input"),
        (rates.undisturbed_samples_per_s, "what the accelerator took between its pauses"),
    )
    stalls: tuple[Stall, ...] = ()
    if steps is not None:
        stalls = tuple(replace(pause, start_s=steps.run.since_first(pause.start_s)) for pause in steps.pace.pauses)
    return RunInspection(
        schema_version=SCHEMA_VERSION,
        tool=Tool(name="cs_input_analyzer", version=cs_input_analyzer.__version__),
        path=str(path),
        sources=tuple(files.sources),
        verdict=verdict.name,
        confidence=verdict.confidence,
        evidence={name: value for clue in found for name, value in clue.values.items()},
        reasons=verdict.reasons,
        timeline=_timeline(steps.run if steps is not None else files.log, performance),
        rates=rates,
        stalls=stalls,
        stall_count=steps.pace.stall_count if steps is not None else 0,
        workers=_workers(performance.worker_samples_per_s if performance is not None else ()),
        change=change_of(verdict.name, rate, demand, current, analysis),
        runs_found=files.runs_found,
        notes=tuple(notes),
        spans=steps.pace.spans if steps is not None else (),
    )


def _steps(files: RunFiles) -> Steps | None:
    """Return the first of log, journal and events that gives a steady rate, else the first that has steps.

    A log without time stamps may lie beside the journal of the same run. Of several writers, the one that got furthest counts.
    """
    journal = files.journal
    sources: list[Steps] = []
    for run in filter(None, (files.log, journal.run if journal is not None else None, files.events)):
        writers = run.writer_groups()[-1]
        if writers:
            writer = max(writers, key=lambda each: len(each.lines))
            stated = journal.samples_per_step or journal.batch_size if journal is not None and journal.run is run else None
            pace = pace_of(writer, run.finished, batch_size=stated, saved=files.saved_steps)
            sources.append(Steps(run=run, writer=writer, pace=pace))
    return next((one for one in sources if one.pace.steady_steps_per_s is not None), sources[0] if sources else None)


def _expected(files: RunFiles, analysis: Analysis | None) -> Demand | None:
    """Return the rate that the compiler of the run expects, else the demand of the analysis."""
    performance, report = files.performance, files.compile_report
    wanted = analysis.consumption if analysis is not None else None
    return first_demand(
        (performance.estimated_samples_per_s if performance is not None else None, "est_samples_per_sec"),
        (report.samples_per_s if report is not None else None, "the compile report"),
        (wanted.samples_per_s.estimate if wanted is not None else None, "the demand of the analysis"),
    )


def _clues(files: RunFiles, steps: Steps | None, rate: float | None, estimate: Demand | None) -> tuple[evidence.Clue, ...]:
    if files.log is not None and files.log.is_mixed:
        return ()
    journal = files.journal
    wait_ratio = journal.wait_ratio if journal is not None else None
    judged = evidence.from_monitor(journal.verdict, journal.why) if journal is not None and wait_ratio is None else ()
    # A monitor that read the input alone knows more than its uneven steps tell.
    shows_pace = all(clue.odds == 1.0 for clue in judged)
    expected_per_s, source = (estimate.samples_per_s, estimate.source) if estimate is not None else (None, "")
    return (
        *((evidence.from_wait(wait_ratio, steps=None),) if wait_ratio is not None else ()),
        *judged,
        *evidence.from_suspicion(files.performance),
        *evidence.from_estimate(rate, expected_per_s, source),
        *(evidence.from_pace(steps.pace, steps.run.checkpoint_count) if steps is not None and shows_pace else ()),
    )


def _rates(files: RunFiles, steps: Steps | None) -> RunRates:
    """Return the rates as the files state them: performance.json first, then the log; and those of the steps."""
    performance, report, log = files.performance or Performance(path=""), files.compile_report, files.log or LoggedRun()
    nothing = Line("finished")
    finished = log.finished or nothing
    rates = RunRates(
        average_samples_per_s=_first(performance.samples_per_s, None if finished.includes_start else average_rate(finished)),
        estimated_samples_per_s=_first(performance.estimated_samples_per_s, report.samples_per_s if report is not None else None),
        total_samples=_first(finished.samples, performance.total_samples),
        total_time_s=_first(finished.duration_s, performance.total_time_s),
        rate_samples_per_s=performance.recent_samples_per_s,
        evaluation_samples_per_s=(log.last_eval or nothing).global_rate,
        worker_steps_per_s=(log.streamed or nothing).steps_per_s,
    )
    if steps is None:
        return rates
    pace, writer = steps.pace, steps.writer
    steady = pace.steady_steps_per_s.scaled(pace.batch_size) if pace.steady_steps_per_s and pace.batch_size else None
    return replace(
        rates,
        rate_samples_per_s=_first(writer.last("rate"), rates.rate_samples_per_s),
        global_rate_samples_per_s=writer.last("global_rate"),
        steady_samples_per_s=steady,
        undisturbed_samples_per_s=_undisturbed(pace),
        steady_steps_per_s=pace.steady_steps_per_s,
        batch_size=pace.batch_size,
    )


def _undisturbed(pace: Pace) -> float | None:
    """Return the rate between lost gaps, or within bursts, if there are any."""
    if pace.batch_size is None or pace.usual_steps_per_s is None:
        return None
    is_bursty = pace.burst_ratio is not None and pace.burst_ratio >= evidence.BURST_RATIO
    if not is_bursty and pace.stall_share_ratio < evidence.STALL_SHARE_RATIO:
        return None
    return pace.usual_steps_per_s * pace.batch_size * (pace.burst_ratio if is_bursty and pace.burst_ratio else 1.0)


def _reached(rates: RunRates) -> float | None:
    """Return the rate of training: steady if it is known, else over the run."""
    if rates.steady_samples_per_s is not None:
        return rates.steady_samples_per_s.estimate
    return _first(rates.global_rate_samples_per_s, rates.average_samples_per_s, rates.rate_samples_per_s)


def _workers(rates: tuple[float | None, ...]) -> tuple[StepWorker, ...]:
    """Return the `ordinals` of performance.json, with those that lag behind; empty for one worker alone."""
    known = [rate for rate in rates if rate is not None]
    if len(rates) < 2:
        return ()
    limit = STRAGGLER_RATIO * (max(known) if len(known) == 2 else median(known)) if len(known) > 1 else 0.0
    return tuple(
        StepWorker(name=f"ordinal {place}", samples_per_s=rate, is_straggler=rate is not None and rate < limit)
        for place, rate in enumerate(rates)
    )


def _notes(files: RunFiles, steps: Steps | None) -> list[str]:
    if steps is None:
        return ["no line of a training step was found"]
    pace = steps.pace
    backward, is_rated = pace.backward_stamps, pace.steady_steps_per_s is not None
    is_mixed = files.log is not None and files.log.is_mixed
    said = (
        (is_mixed, "steps of several runs are mixed in this log, without a label: no verdict on them together"),
        (pace.contradiction, pace.contradiction),
        (backward, f"time stamps that run backwards: {backward:,}; those intervals are in no rate"),
        (pace.holds_checkpoints, "no interval between lines is free of checkpoints: the steady rate holds them, too"),
        (not is_rated, "too few lines with times for a steady rate"),
        (is_rated and pace.batch_size is None, "the samples of a step are not in the log: its steady rate is in steps"),
    )
    return [text for is_so, text in said if is_so]


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _timeline(run: LoggedRun | None, performance: Performance | None) -> tuple[PhaseSpan, ...]:
    """Return the phases by start; those without one first, in the order in which runs have them."""
    spans: list[PhaseSpan] = []
    if run is not None:
        spans = [replace(span, start_s=run.since_first(span.start_s)) for span in (*run.spans, *_training(run))]
    if performance is not None:
        stated = (("compile", performance.compile_time_s), ("programming", performance.programming_time_s))
        for phase, seconds in stated:
            if seconds is not None and not any(span.phase == phase and span.duration_s is not None for span in spans):
                spans.append(PhaseSpan(phase=phase, start_s=None, duration_s=seconds))  # type: ignore[arg-type]
    return tuple(sorted(spans, key=lambda span: (span.start_s is not None, span.start_s or 0.0, ORDER.index(span.phase))))


def _training(run: LoggedRun) -> list[PhaseSpan]:
    """Return the span from the line that announces training, else from the first step line, to the last step line."""
    writers = run.writer_groups()[-1]
    if not writers:
        return []
    began, ended = ([stamp for writer in writers if (stamp := writer.lines[place].t_s) is not None] for place in (0, -1))
    began_s = run.train_began_s if run.train_began_s is not None else min(began, default=None)
    duration_s = max(ended) - began_s if ended and began_s is not None and max(ended) >= began_s else None
    if not began and run.finished is not None:
        duration_s = run.finished.duration_s
    return [PhaseSpan(phase="train", start_s=began_s, duration_s=duration_s, step=max(writer.last_step for writer in writers))]
