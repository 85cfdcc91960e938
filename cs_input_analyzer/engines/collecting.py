"""Build the result of a launch from the journals of its workers, for every engine."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from cs_input_analyzer.engines.scratch import Scratch
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.records import Estimate, Layout, Measurement, PipelineGraph, Profile, SamplesPerElement, WorkerResult
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFailure:
    """Describe why no worker of a launch gave a rate.

    `stage` is `load`, `import`, `build`, `isolation`, `refused`, `first_batch`, `hang`, `exit`, `sampling`, or one of these:
    `fault`, a mistake of ours; `version`, this TensorFlow lacks a part that we need; `journal`, the results could not be written;
    `worker`; `engine`, the engine ended the worker. `where`: the place in the user's code, with a colon; empty if it is not known.
    """

    stage: str
    kind: str
    message: str
    details: str
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """Hold the result of one finished launch: numbers, pipeline, and the failure if there is no rate.

    Attributes:
        pipeline: as the first worker built it.
        files: paths and sizes of the files that the first worker's pipeline names, sorted by path.
        starting_s: seconds from the call of `run` until the workers had imported TensorFlow and built their pipelines.
        is_interrupted: whether Ctrl-C ended the launch; the result then holds the measurements until then.
        outcomes: of the plan's candidates, in their order; None if the engine does not try them.
    """

    measurement: Measurement
    pipeline: PipelineGraph | None
    files: tuple[tuple[str, int], ...]
    profile: Profile | None
    failure: WorkerFailure | None
    starting_s: float
    transient_s: float
    source_samples_per_s: Estimate | None = None
    is_interrupted: bool = False
    outcomes: Outcomes | None = None


def results_of(
    plan: WorkPlan, journals: Sequence[Journal], endings: Sequence[Ending], nodes: Sequence[str]
) -> tuple[WorkerResult, ...]:
    """Return the results of the workers of a launch, in their common window. `nodes`: the node of each worker."""
    whole_s = [journal.whole_s for journal in journals]
    until_s = min((seconds for seconds in whole_s if seconds is not None), default=None)
    results = []
    for journal, ending, node, index in zip(journals, endings, nodes, plan.worker_indices, strict=True):
        result = worker_result(journal, ending, index=index, node=node, until_s=until_s)
        unwritten = _unwritten(ending)
        if unwritten is not None and result.status != "done":  # keep the events that it wrote before
            result = replace(result, status="lost", message=unwritten)
        results.append(result)
    return tuple(results)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Hold the raw results of a launch.

    Attributes:
        workers: the result of each worker, by rank.
        first: the journal of the first worker.
        ending: how the first worker ended.
        notes: remarks on the hosts, for the user.
        ended_first: the stage of the failure if Slurm or the kernel ended the first worker; None if its own code did.
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
    outcomes = outcomes_of(first.events, len(plan.candidates)) if plan.candidates else None
    if outcomes is not None and not outcomes.is_over:  # the worker was lost while it tried them
        outcomes = replace(outcomes, ended=how_it_ended(ending), was_late=ending.killed_for == "deadline")
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
        outcomes=outcomes,
    )


def how_it_ended(ending: Ending) -> str:
    """Return how a process ended, with the last line that it printed."""
    ways: dict[Killed, str] = {"deadline": "the time limit of this run was reached", "interrupt": "interrupted", **OVERUSED}
    code = ending.returncode
    if ending.killed_for is not None:
        return ways[ending.killed_for]
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else ""
        remark = {9: ", most likely by the kernel, because memory ran out", 11: ", a fault in native code"}
        how = f"killed by signal {-code}{f' ({name})' if name else ''}{remark.get(-code, '')}"
    else:
        how = f"exited with status {code}"
    printed = [line.strip() for line in _without_chatter(ending.output_tail).splitlines() if line.strip()]
    return f"{how}; its last line of output: {printed[-1][:300]}" if printed else how


def _failure(collected: Collected) -> WorkerFailure:
    """Return the failure of the first worker, in the user's terms."""
    journal, ending = collected.first, collected.ending
    failed = journal.last("failed")
    if failed is not None:
        return WorkerFailure(
            **{name: failed[name] for name in ("stage", "kind", "message", "details")}, where=failed.get("where", "")
        )
    data_error = journal.last("data_error")
    if data_error is not None:
        kind, message, where = data_error["kind"], data_error["message"], data_error["where"]
        return WorkerFailure(stage="sampling", kind=kind, message=message, details="", where=where)
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
    """Return the message for a worker that could not write its journal; None for other workers."""
    _, said, reason = ending.output_tail.rpartition(UNWRITTEN)
    if ending.returncode != EXIT_UNWRITTEN or not said:
        return None
    return f"a worker could not write its results: {storage_advice(reason.strip())}"


def temporary_scratch() -> Scratch:
    """Create a private folder for temporary files. Raise LaunchError with advice if that fails."""
    try:
        return Scratch(Path(tempfile.gettempdir()))
    except OSError as error:
        raise LaunchError(f"cannot create a temporary folder: {storage_advice(error.strerror or str(error))}") from None


def storage_advice(reason: str) -> str:
    """Return the reason why temporary files cannot be written, and how to fix it."""
    try:
        folder = tempfile.gettempdir()
    except OSError:
        return f"{reason}; set TMPDIR to a folder with some free space"
    return f"{reason.lower()} in {folder}; free some space there, or set TMPDIR to another folder"


def _without_chatter(output: str) -> str:
    """Remove TensorFlow's own log lines of its import. Keep its errors."""
    return "".join(line for line in output.splitlines(keepends=True) if not _CHATTER.match(line))
