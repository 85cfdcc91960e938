"""What is the same for every engine: the orders of workers, and what is made of the journals that they leave."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace

from pydantic import TypeAdapter

from cs_input_analyzer.launch.interface import Launched, WorkerFailure, WorkPlan
from cs_input_analyzer.measure.fixes import outcomes_of
from cs_input_analyzer.measure.journal import EXIT_UNWRITTEN, UNWRITTEN, Journal, Order
from cs_input_analyzer.measure.summary import Ending, measurement_of, profile_from, source_rate, stage_of, status_of, worker_result
from cs_input_analyzer.records import Layout, PipelineGraph, WorkerResult

__all__ = ["launched_of", "order_of", "results_of", "storage_advice"]

_CHATTER = re.compile(r"[IW]\d{4} \d\d|WARNING: All log messages before absl|To enable the following instructions")


def order_of(plan: WorkPlan, index: int, tf_config: str, *, is_first: bool, is_alone: bool, left_s: float) -> Order:
    """What one worker is told. Only the first of a launch tells its graph, its costs and what else is asked for.

    `left_s`: until it is ended. A worker that was slow to start tries fixes for a shorter time, rather than being ended amid them.
    """
    return Order(
        target=plan.target,
        pickled=plan.pickled,
        params_json=plan.params_json,
        mode=plan.mode,
        num_workers=plan.num_workers,
        worker_index=index,
        tf_config=tf_config,
        batch_size=plan.batch_size,
        target_error_ratio=plan.target_error_ratio,
        # Side by side all sample for the same time: one that stopped early would leave its CPUs to the others.
        min_window_s=plan.min_window_s if is_alone else plan.max_window_s,
        max_window_s=plan.max_window_s,
        want_graph=is_first,
        want_costs=is_first,
        cache=plan.cache,
        want_source=is_first and plan.want_source,
        want_prefixes=is_first and plan.want_prefixes,
        candidates=plan.candidates if is_first else (),
        fixes_s=max(0.0, min(plan.fixes_s, left_s)),
    )


def results_of(plan: WorkPlan, journals: Sequence[Journal], endings: Sequence[Ending], node: str) -> tuple[WorkerResult, ...]:
    """Of workers on one host, in the window that they share."""
    # A worker that met its end early says nothing about how long the others may be looked at.
    whole = [journal for journal in journals if journal.last("done") and not journal.last("data_error")]
    ends = [float(journal.stamps_s[-1]) for journal in whole if len(journal.stamps_s)]
    until_s = min(ends, default=None)
    return tuple(
        _blaming_storage(worker_result(journal, ending, index=index, node=node, until_s=until_s), ending)
        for journal, ending, index in zip(journals, endings, plan.worker_indices, strict=True)
    )


def launched_of(
    layout: Layout,
    plan: WorkPlan,
    workers: Sequence[WorkerResult],
    first: Journal,
    ending: Ending,
    *,
    is_interrupted: bool,
    is_forked: bool,
) -> Launched:
    """A launch that is over, of the results of its workers and what the first of them wrote down."""
    built = first.last("built")
    fields = built["pipeline"] if built else None
    pipeline = TypeAdapter(PipelineGraph).validate_python(fields) if fields else None
    cache = first.last("cache")
    measurement = measurement_of(
        layout, plan.num_workers, workers, cache_state=plan.cache, page_cache_ratio=cache["ratio"] if cache else None
    )
    return Launched(
        measurement=measurement,
        pipeline=pipeline,
        files=tuple((str(path), int(size)) for path, size in built["files"]) if built else (),
        profile=profile_from(first, layout, pipeline, workers[0]) if pipeline else None,
        failure=_failure(first, ending) if measurement.samples_per_s is None else None,
        import_s=0.0 if is_forked else max((worker.import_s or 0.0 for worker in workers), default=0.0),
        transient_s=max((worker.steady_state.transient_s for worker in workers if worker.steady_state), default=0.0),
        source_samples_per_s=source_rate(first, pipeline) if pipeline else None,
        is_interrupted=is_interrupted,
        outcomes=outcomes_of(first.events, len(plan.candidates)) if plan.candidates else None,
    )


def _failure(journal: Journal, ending: Ending) -> WorkerFailure:
    """The first worker's failure, in the user's terms."""
    failed = journal.last("failed")
    if failed is not None:
        return WorkerFailure(stage=failed["stage"], kind=failed["kind"], message=failed["message"], details=failed["details"])
    data_error = journal.last("data_error")
    if data_error is not None:
        return WorkerFailure(stage="sampling", kind=data_error["kind"], message=data_error["message"], details="")
    unwritten = _unwritten(ending)
    if unwritten is not None:
        return WorkerFailure(stage="journal", kind="JournalError", message=unwritten, details="")
    _, message = status_of(journal, ending)
    stage = "hang" if ending.killed_for == "deadline" else "exit"
    return WorkerFailure(
        stage=stage,
        kind=ending.killed_for or stage_of(journal),
        message=message,
        details=_without_chatter(ending.output_tail)[-2000:],
    )


def _unwritten(ending: Ending) -> str | None:
    """What to tell about a worker that could not write its journal; None for others."""
    _, said, reason = ending.output_tail.rpartition(UNWRITTEN)
    if ending.returncode != EXIT_UNWRITTEN or not said:
        return None
    return f"what a worker measured could not be written down: {storage_advice(reason.strip())}"


def _blaming_storage(result: WorkerResult, ending: Ending) -> WorkerResult:
    """Says of a worker that could not write its journal why it was lost; what it had written before is kept."""
    unwritten = _unwritten(ending)
    return result if unwritten is None or result.status == "done" else replace(result, status="lost", message=unwritten)


def storage_advice(reason: str) -> str:
    """What is wrong with the folder for temporary files, and what to do."""
    try:
        folder = tempfile.gettempdir()
    except OSError:
        return f"{reason}; set TMPDIR to a folder with some free space"
    return f"{reason.lower()} in {folder}; free some space there, or set TMPDIR to another folder"


def _without_chatter(output: str) -> str:
    """Without what TensorFlow logs about itself while it is imported; its errors stay."""
    return "".join(line for line in output.splitlines(keepends=True) if not _CHATTER.match(line))
