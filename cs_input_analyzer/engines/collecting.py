"""Builds the result of a launch from the journals that its workers leave; for every engine."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from cs_input_analyzer.engines.interface import LaunchResult, WorkerFailure
from cs_input_analyzer.engines.scratch import Scratch
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.records import Layout, PipelineGraph, SamplesPerElement, WorkerResult
from cs_input_analyzer.tfdata.samples import with_samples
from cs_input_analyzer.trial.fixes import Outcomes, outcomes_of
from cs_input_analyzer.worker.journal import EXIT_UNWRITTEN, UNWRITTEN, Journal, WorkPlan
from cs_input_analyzer.worker.summary import (
    OVERUSED,
    Ending,
    Killed,
    measurement_of,
    profile_from,
    source_rate,
    stage_of,
    status_of,
    worker_result,
)

_CHATTER = re.compile(r"[IW]\d{4} \d\d|WARNING: All log messages before absl|To enable the following instructions")


def results_of(
    plan: WorkPlan, journals: Sequence[Journal], endings: Sequence[Ending], nodes: Sequence[str]
) -> tuple[WorkerResult, ...]:
    """Return the results of the workers of a launch, in the window that they share. `nodes`: where each of them ran."""
    whole_s = [journal.whole_s for journal in journals]
    until_s = min((seconds for seconds in whole_s if seconds is not None), default=None)
    return tuple(
        _blaming_storage(worker_result(journal, ending, index=index, node=node, until_s=until_s), ending)
        for journal, ending, node, index in zip(journals, endings, nodes, plan.worker_indices, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a launch left.

    Attributes:
        workers: the result of each worker, by rank.
        first: the journal of the first worker.
        ending: how the first worker ended.
        notes: what the user should know of the hosts.
        ended_first: the stage of the failure if Slurm or the kernel ended the first worker, and not its own code.
    """

    workers: tuple[WorkerResult, ...]
    first: Journal
    ending: Ending
    notes: tuple[str, ...] = ()
    ended_first: Literal["engine", "exit"] | None = None


def launch_result(layout: Layout, plan: WorkPlan, collected: Collected, *, starting_s: float, is_interrupted: bool) -> LaunchResult:
    """Return the result of a launch."""
    workers, first, ending = collected.workers, collected.first, collected.ending
    built = first.last("built")
    fields = built["pipeline"] if built else None
    pipeline = msgspec.convert(fields, PipelineGraph) if fields else None
    counted = (first.last("first_batch") or {}).get("counted")
    if pipeline is not None and counted is not None:
        pipeline = with_samples(pipeline, msgspec.convert(counted, SamplesPerElement))
    cache = first.last("cache")
    measurement = measurement_of(
        layout,
        plan.num_workers,
        workers,
        cache_state=plan.cache,
        role=plan.role,
        why=plan.why,
        page_cache_ratio=cache["ratio"] if cache else None,
    )
    return LaunchResult(
        measurement=replace(measurement, notes=collected.notes),
        pipeline=pipeline,
        files=tuple((str(path), int(size)) for path, size in built["files"]) if built else (),
        profile=profile_from(first, layout, pipeline, workers[0]) if pipeline else None,
        failure=_failure(collected) if measurement.samples_per_s is None else None,
        starting_s=starting_s,
        transient_s=max((worker.steady_state.transient_s for worker in workers if worker.steady_state), default=0.0),
        source_samples_per_s=source_rate(first, pipeline) if pipeline else None,
        is_interrupted=is_interrupted,
        outcomes=_outcomes(plan, first, ending),
    )


def _outcomes(plan: WorkPlan, journal: Journal, ending: Ending) -> Outcomes | None:
    """The outcomes of the fixes that the first worker tried; where it was lost while it tried them, with the reason."""
    if not plan.candidates:
        return None
    outcomes = outcomes_of(journal.events, len(plan.candidates))
    return outcomes if outcomes.is_over else replace(outcomes, ended=how_it_ended(ending), was_late=ending.killed_for == "deadline")


def how_it_ended(ending: Ending) -> str:
    """Describes how a process ended: by what, and the last line that it printed."""
    ways: dict[Killed, str] = {"deadline": "the time of this run was over", "interrupt": "interrupted", **OVERUSED}
    code = ending.returncode
    if ending.killed_for is not None:
        return ways[ending.killed_for]
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else ""
        remark = {9: ", most likely by the kernel, as memory had run out", 11: ", a fault of native code"}
        how = f"killed by signal {-code}{f' ({name})' if name else ''}{remark.get(-code, '')}"
    else:
        how = f"exited with status {code}"
    printed = [line.strip() for line in _without_chatter(ending.output_tail).splitlines() if line.strip()]
    return f"{how}; the last that it printed: {printed[-1][:300]}" if printed else how


def _failure(collected: Collected) -> WorkerFailure:
    """Return the failure of the first worker, in the user's terms."""
    journal, ending = collected.first, collected.ending
    failed = journal.last("failed")
    if failed is not None:
        return WorkerFailure(stage=failed["stage"], kind=failed["kind"], message=failed["message"], details=failed["details"])
    data_error = journal.last("data_error")
    if data_error is not None:
        return WorkerFailure(stage="sampling", kind=data_error["kind"], message=data_error["message"], details="")
    unwritten = _unwritten(ending)
    if unwritten is not None:
        return WorkerFailure(stage="journal", kind="JournalError", message=unwritten, details="")
    status, message = status_of(journal, ending)
    if status == "done":
        return WorkerFailure(stage="sampling", kind="TooFew", message="", details="")
    stage = "hang" if ending.killed_for in ("start", "deadline") else "exit"
    return WorkerFailure(
        stage=collected.ended_first or stage,
        kind=ending.killed_for or stage_of(journal),
        message=collected.workers[0].message if collected.ended_first else message,
        details=_without_chatter(ending.output_tail)[-2000:],
    )


def _unwritten(ending: Ending) -> str | None:
    """The message for a worker that could not write its journal; None for others."""
    _, said, reason = ending.output_tail.rpartition(UNWRITTEN)
    if ending.returncode != EXIT_UNWRITTEN or not said:
        return None
    return f"what a worker measured could not be written down: {storage_advice(reason.strip())}"


def _blaming_storage(result: WorkerResult, ending: Ending) -> WorkerResult:
    """Adds the reason to the result of a worker that could not write its journal; what it had written before is kept."""
    unwritten = _unwritten(ending)
    return result if unwritten is None or result.status == "done" else replace(result, status="lost", message=unwritten)


def temporary_scratch() -> Scratch:
    """A private folder where temporary files are kept. Raises LaunchError with advice where there can be none."""
    try:
        return Scratch(Path(tempfile.gettempdir()))
    except OSError as error:
        raise LaunchError(f"no temporary folder can be made: {storage_advice(error.strerror or str(error))}") from None


def storage_advice(reason: str) -> str:
    """Describes what is wrong with the folder for temporary files, and what to do."""
    try:
        folder = tempfile.gettempdir()
    except OSError:
        return f"{reason}; set TMPDIR to a folder with some free space"
    return f"{reason.lower()} in {folder}; free some space there, or set TMPDIR to another folder"


def _without_chatter(output: str) -> str:
    """Removes what TensorFlow logs about itself while it is imported; its errors stay."""
    return "".join(line for line in output.splitlines(keepends=True) if not _CHATTER.match(line))
