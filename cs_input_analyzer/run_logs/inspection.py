"""A path -> `RunInspection`: the stages in order."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import cs_input_analyzer
from cs_input_analyzer.monitoring.verdict import accelerator_rate
from cs_input_analyzer.records import (
    SCHEMA_VERSION,
    Analysis,
    Estimate,
    Layout,
    PhaseSpan,
    RunInspection,
    RunPhase,
    RunRates,
    Stall,
    StepWorker,
    Tool,
    VerdictName,
)
from cs_input_analyzer.run_logs import clues as evidence
from cs_input_analyzer.run_logs.batch_size import average_rate
from cs_input_analyzer.run_logs.change import Demand, change_of, doubt_of
from cs_input_analyzer.run_logs.console_log import LoggedRun
from cs_input_analyzer.run_logs.gather import Gathered, gather
from cs_input_analyzer.run_logs.grammar import Line
from cs_input_analyzer.run_logs.pace import Pace, pace_of
from cs_input_analyzer.run_logs.steps import Writer
from cs_input_analyzer.run_logs.workers import is_mixed, middle_wait, missing_journals, workers_of
from wafer_model.performance_json import Performance

ORDER: tuple[RunPhase, ...] = ("compile", "weights", "programming", "priming", "train", "checkpoint", "evaluation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The best source of the steps of the run."""

    run: LoggedRun
    writer: Writer
    pace: Pace


def inspect_run(path: Path | str, *, current: Layout | None = None, analysis: Analysis | None = None) -> RunInspection:
    """What the files at `path` (one of them, or the folder of a run) say about the run's input.

    Args:
        current: the launch of the run.
        analysis: a saved analysis of the same input function; its capacity model is asked which launch would do.

    Raises:
        UsageError: nothing of a run is there, or the one file given cannot be read.
    """
    gathered = gather(Path(path))
    steps = _steps(gathered)
    workers = workers_of(gathered)
    rates = _rates(gathered, steps, workers)
    missing = missing_journals(gathered)
    rate = _reached(rates) if missing == 0 else None  # of some of the workers, it is the rate of nothing
    notes = list(gathered.notes)
    if analysis is not None and (doubt := doubt_of(analysis, rate, rates.batch_size)):
        notes.append(f"the analysis is of another network or input, as it seems, and is not used: {doubt}")
        analysis = None
    estimate = _estimated(gathered, analysis)
    timeline = _timeline(steps.run if steps is not None else gathered.log, gathered.performance)
    found = _clues(gathered, steps, rate, estimate)
    verdict, confidence = _verdict(found, gathered)
    if is_mixed(gathered):
        notes.append("steps of several runs are mixed in this log, without a label: no verdict on them together")
    if missing:
        notes.append(f"{missing} of the workers left no journal here: the rates are those of the others alone")
    notes += _notes(steps)
    change = change_of(verdict, rate, estimate or _demand(rates, middle_wait(gathered)), current, analysis)
    return RunInspection(
        schema_version=SCHEMA_VERSION,
        tool=Tool(name="cs_input_analyzer", version=cs_input_analyzer.__version__),
        path=str(path),
        sources=tuple(gathered.sources),
        verdict=verdict,
        confidence=confidence,
        evidence={name: value for clue in found for name, value in clue.values.items()},
        reasons=tuple(clue.says for clue in sorted(found, key=lambda clue: -abs(math.log(clue.odds))) if clue.says),
        timeline=timeline,
        rates=rates,
        stalls=_stalls(steps) if steps is not None else (),
        stall_count=steps.pace.stall_count if steps is not None else 0,
        workers=workers,
        change=change,
        runs_found=gathered.runs_found,
        notes=tuple(notes),
    )


def _clues(gathered: Gathered, steps: Steps | None, rate: float | None, estimate: Demand | None) -> tuple[evidence.Clue, ...]:
    pace = steps.pace if steps is not None else None
    return (
        *evidence.from_wait(middle_wait(gathered)),
        *evidence.from_suspicion(None if _is_our_own(gathered) else gathered.performance),
        *evidence.from_estimate(rate, estimate),
        *evidence.from_bursts(pace),
        *evidence.from_stalls(pace),
        *evidence.from_pauses(pace, steps.run.checkpoint_count if steps is not None else 0),
    )


def _verdict(found: tuple[evidence.Clue, ...], gathered: Gathered) -> tuple[VerdictName, float | None]:
    verdict, confidence = evidence.verdict_of(found)
    if is_mixed(gathered):
        return "unknown", None
    is_balanced = bool(gathered.journals) and all(journal.verdict == "balanced" for journal in gathered.journals)
    return ("balanced", evidence.SURE) if verdict == "unknown" and is_balanced else (verdict, confidence)


def _steps(gathered: Gathered) -> Steps | None:
    """The log where it has steps, else the journal, else the events; of several writers the one that got furthest."""
    for run in filter(None, (gathered.log, *(journal.best for journal in gathered.journals), gathered.events)):
        writers = run.newest_writers()
        if writers:
            writer = max(writers, key=lambda each: len(each.lines))
            stated = next((journal.batch_size for journal in gathered.journals if journal.best is run), None)
            pace = pace_of(writer, run.finished, batch_size=stated, saved=gathered.saved_steps)
            return Steps(run=run, writer=writer, pace=pace)
    return None


def _rates(gathered: Gathered, steps: Steps | None, workers: tuple[StepWorker, ...]) -> RunRates:
    """As the files state them: performance.json first, then the log."""
    performance, report, log = gathered.performance or Performance(path=""), gathered.compile_report, gathered.log or LoggedRun()
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
    steady = pace.steady_steps_per_s.scaled(pace.batch_size) if pace.steady_steps_per_s and pace.batch_size is not None else None
    together = _sum_of_workers(gathered, workers)
    if together is not None and steady is not None and steady.estimate > 0:
        steady = steady.scaled(together / steady.estimate)
    return replace(
        rates,
        rate_samples_per_s=_first(writer.last("rate"), rates.rate_samples_per_s),
        global_rate_samples_per_s=writer.last("global_rate"),
        steady_samples_per_s=steady,
        undisturbed_samples_per_s=_undisturbed(pace),
        steady_steps_per_s=pace.steady_steps_per_s,
        batch_size=pace.batch_size,
    )


def _sum_of_workers(gathered: Gathered, workers: tuple[StepWorker, ...]) -> float | None:
    """Workers that each take a part of the input give its rate together; None where one of them did not say its own."""
    own = [worker.samples_per_s for worker in workers if worker.samples_per_s is not None]
    return math.fsum(own) if len(workers) == len(own) == len(gathered.journals) > 1 else None


def _undisturbed(pace: Pace) -> float | None:
    """Only where there is something that disturbs: between stalls, or within bursts."""
    if pace.batch_size is None or pace.usual_steps_per_s is None:
        return None
    is_bursty = pace.burst_ratio is not None and pace.burst_ratio >= evidence.BURST_RATIO
    if not is_bursty and pace.stall_share_ratio < evidence.STALL_SHARE_RATIO:
        return None
    return pace.usual_steps_per_s * pace.batch_size * (pace.burst_ratio if is_bursty and pace.burst_ratio else 1.0)


def _reached(rates: RunRates) -> float | None:
    """The rate of training: steady where it is known, else over the run."""
    if rates.steady_samples_per_s is not None:
        return rates.steady_samples_per_s.estimate
    return _first(rates.global_rate_samples_per_s, rates.average_samples_per_s, rates.rate_samples_per_s)


def _estimated(gathered: Gathered, analysis: Analysis | None) -> Demand | None:
    """What the accelerator should take, and who says so; the run's own compiler first."""
    if gathered.performance is not None and gathered.performance.estimated_samples_per_s:
        return Demand(samples_per_s=gathered.performance.estimated_samples_per_s, source="est_samples_per_sec")
    if gathered.compile_report is not None:
        return Demand(samples_per_s=gathered.compile_report.samples_per_s, source="the compile report")
    if analysis is not None and analysis.consumption is not None:
        return Demand(samples_per_s=analysis.consumption.samples_per_s.estimate, source="the demand of the analysis")
    return None


def _demand(rates: RunRates, share: Estimate | None) -> Demand | None:
    """What the accelerator would have taken, by the run itself."""
    steady = rates.steady_samples_per_s
    unhindered = accelerator_rate(steady, share) if steady is not None and share is not None else None
    if unhindered is not None:
        return Demand(samples_per_s=unhindered.estimate, source="what it would have taken without waiting for input")
    if rates.undisturbed_samples_per_s is not None:
        return Demand(samples_per_s=rates.undisturbed_samples_per_s, source="what the accelerator took between its pauses")
    return None


def _is_our_own(gathered: Gathered) -> bool:
    """Whether the monitor wrote performance.json: what that suspects is its journal's verdict, and would count twice."""
    performance = gathered.performance
    return performance is not None and any(one.path.parent == Path(performance.path).parent for one in gathered.journals)


def _notes(steps: Steps | None) -> list[str]:
    if steps is None:
        return ["no line of a training step was found"]
    pace = steps.pace
    backward, is_rated = pace.backward_stamps, pace.steady_steps_per_s is not None
    said = (
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
    """By start; phases without one first, in the order in which runs have them."""
    spans: list[PhaseSpan] = []
    if run is not None:
        spans = [replace(span, start_s=_since_first(run, span.start_s)) for span in (*run.spans, *_training(run))]
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
    began, ended = ([stamp for writer in writers if (stamp := writer.lines[place].t_s) is not None] for place in (0, -1))
    began_s = run.train_began_s if run.train_began_s is not None else min(began, default=None)
    duration_s = max(ended) - began_s if ended and began_s is not None and max(ended) >= began_s else None
    if not began and run.finished is not None:
        duration_s = run.finished.duration_s
    return [PhaseSpan(phase="train", start_s=began_s, duration_s=duration_s, step=max(writer.last_step for writer in writers))]


def _stalls(steps: Steps) -> tuple[Stall, ...]:
    return tuple(replace(pause, start_s=_since_first(steps.run, pause.start_s)) for pause in steps.pace.pauses)
