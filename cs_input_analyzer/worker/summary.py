"""Turn a worker's journal into a WorkerResult, and several of them into a Measurement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.host.counters import Counters
from cs_input_analyzer.model.estimates import total
from cs_input_analyzer.model.steady_state import Window, batch_gap, rate_of, steady_window
from cs_input_analyzer.records import (
    CacheChoice,
    Estimate,
    IgnoredErrors,
    Layout,
    Measurement,
    PipelineGraph,
    Profile,
    SteadyState,
    StopReason,
    TunedParameter,
    WorkerResult,
    WorkerStatus,
)
from cs_input_analyzer.tfdata.costs import CostEvidence, profile_of
from cs_input_analyzer.tfdata.messages import with_type
from cs_input_analyzer.tfdata.threads import reader_ops
from cs_input_analyzer.tfdata.visits import OpCounts, per_sample, records_per_sample, visit_ratios, well_seen
from cs_input_analyzer.worker.bytes_read import Reads, bytes_per_sample
from cs_input_analyzer.worker.journal import Journal
from cs_input_analyzer.worker.noise import epoch_gap_s, moved_parameters, noise_between
from cs_input_analyzer.worker.parts import marginal_costs

# Batch gaps that are kept of a worker: enough to see how they scatter.
TRACE = 512
# With fewer stamps in the common window of a launch there is no rate.
FEWEST_STAMPS = 3
# Fewer batches after a cache was filled are less certain than those before.
LEAST_STAMPS = 10
# The stage of a worker that has written nothing yet.
IMPORTING = "importing TensorFlow"
Killed = Literal["start", "deadline", "memory", "storage", "interrupt"]
OVERUSED: dict[Killed, str] = {
    "memory": "it used more memory than allowed",
    "storage": "its files (caches and snapshots are redirected while measuring) took half of the space that was free for them",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Describe how a worker process ended.

    `killed_for`: why the parent ended it; None if it did not. `start`: it had not built its pipeline in time.
    """

    returncode: int | None
    killed_for: Killed | None
    output_tail: str


def worker_result(journal: Journal, ending: Ending, *, index: int, node: str, until_s: float | None = None) -> WorkerResult:
    """Return the numbers of one worker. `until_s`: end of the common window of the launch, since it was told to sample."""
    status, message = status_of(journal, ending)
    imported, built, first = journal.last("imported"), journal.last("built"), journal.last("first_batch")
    stamps = journal.stamps_s if until_s is None else journal.stamps_s[journal.stamps_s - journal.told_s <= until_s]
    if len(stamps) < FEWEST_STAMPS:  # it began late: its own window tells more of its rate than nothing
        stamps = journal.stamps_s
    window = _steady_window(journal, stamps)
    base = WorkerResult(
        index=index,
        node=node,
        status=status if window is not None or status != "done" else "lost",
        message=message if window is not None or status != "done" else "the dataset ended before two batches could be timed",
        import_s=imported["import_s"] if imported else None,
        build_s=built["build_s"] if built else None,
        first_batch_s=first["first_batch_s"] if first else None,
        first_batch_digest=first.get("digest") if first else None,
        **journal.said("memory"),
        tuned=_tuned(journal),
        buffered_bytes=_buffered_bytes(journal),
        file_count=built["file_count"] if built else None,
        writes=tuple(built.get("writes", ())) if built else (),
        ignored=tuple(IgnoredErrors(**each) for each in (journal.last("ignored") or {"each": ()})["each"]),
    )
    per_batch = _samples_per_batch(journal, window) if window else None
    if window is None or per_batch is None or first is None:
        return base
    return _with_rates(base, journal, window, per_batch, float(first["bytes"]) / max(1, first["samples"] or 1))


def status_of(journal: Journal, ending: Ending) -> tuple[WorkerStatus, str]:
    """Return the status of the worker, and a message for the user."""
    failed, data_error = journal.last("failed"), journal.last("data_error")
    if data_error is not None:
        return "data_error", f"after {data_error['batches']} batches: {data_error['where']}{data_error['message']}"
    if failed is not None and journal.last("done") is None:  # after that nothing of it can be lost
        has_rates = len(journal.stamps_s) > 1
        return ("data_error" if has_rates else "lost"), failed.get("where", "") + with_type(failed["kind"], failed["message"])
    if journal.last("done") is not None:  # whatever it did at exit, its work was done
        return "done", ""
    stage = stage_of(journal)
    killed: dict[Killed, tuple[WorkerStatus, str]] = {
        "start": ("deadline", f"ended by us, as it had not built its pipeline in time, while {stage}"),
        "deadline": ("deadline", f"ended by us at its deadline while {stage}"),
        "interrupt": ("interrupted", f"interrupted while {stage}"),
        **{why: ("lost", f"ended while {stage}: {words}") for why, words in OVERUSED.items()},
    }
    if ending.killed_for is not None:
        return killed[ending.killed_for]
    if ending.returncode is not None and ending.returncode < 0:
        reason = "; the kernel may have run out of memory" if ending.returncode == -9 else ""
        return "lost", f"killed by signal {-ending.returncode} while {stage}{reason}"
    return "lost", f"exited with status {ending.returncode} while {stage}"


# The work of a worker after these events. Other events, such as changes by AUTOTUNE, do not end a stage.
STAGES = dict.fromkeys(("sampling", "chunk", "epoch"), "sampling") | {
    "memory": "finishing",
    "go": "waiting to sample",
    "first_batch": "waiting to sample",
    "built": "waiting for the first batch",
    "building": "building the pipeline in the input function",
    "loading": "importing the target, or running the script up to its data",
    "imported": "waiting for its order",
}


def stage_of(journal: Journal) -> str:
    """Return what the worker did when it wrote its last event."""
    return next((STAGES[event["event"]] for event in reversed(journal.events) if event["event"] in STAGES), IMPORTING)


def measurement_of(
    layout: Layout,
    num_workers: int,
    workers: Sequence[WorkerResult],
    *,
    cache_state: CacheChoice = "as-is",
    role: Literal["probe", "validate"] = "probe",
    why: str = "",
    page_cache_ratio: float | None = None,
) -> Measurement:
    """Return the launch as a whole: the sum over the workers with a rate, with independent errors."""
    alive = [worker for worker in workers if worker.samples_per_s is not None]
    slowest = min(alive, key=_rate, default=None)
    shared = [worker.shared_bytes for worker in alive if worker.shared_bytes is not None]
    return Measurement(
        layout=layout,
        num_workers=num_workers,
        cache_state=cache_state,
        role=role,
        why=why,
        isolation="process",
        workers=tuple(workers),
        samples_per_s=total([worker.samples_per_s for worker in alive if worker.samples_per_s is not None]) if alive else None,
        page_cache_ratio=page_cache_ratio,
        shared_bytes=max(shared, default=None),
        noise=slowest.noise if slowest else None,
        steady_state=slowest.steady_state if slowest else None,
    )


def profile_from(journal: Journal, layout: Layout, pipeline: PipelineGraph, worker: WorkerResult) -> Profile | None:
    """Return the costs of each op of one worker; None if it ended before it wrote them."""
    costs = journal.last("costs")
    if costs is None or worker.cpu_s_per_sample is None or worker.steady_state is None:
        return None
    samples = _all_samples(journal)
    if not samples or worker.samples_per_s is None:
        return None
    seen = {name: OpCounts(**counts) for name, counts in costs["seen"].items()}
    cache = journal.last("cache")
    fair, visits = _visits(journal, pipeline, seen)
    restart_cpu_s = sum(event["restart_cpu_s"] for event in journal.events if event["event"] == "epoch")
    parts = {event["op"]: event["cpu_s_per_element"] for event in journal.events if event["event"] == "part"}
    evidence = CostEvidence(
        layout=layout,
        ops=pipeline.ops,
        spent=per_sample(fair, visits),
        cpu_s_per_sample=worker.cpu_s_per_sample,
        tuned=_tuned(journal),
        harness_us=costs["harness_us"],
        merged={other: name for name, counts in seen.items() for other in counts.merged},
        absent={other for counts in seen.values() for other in counts.absent},
        restart_cpu_s_per_sample=restart_cpu_s / samples,
        buffered={name: float(counts.buffered_elements) for name, counts in seen.items()},
        cached_ratio=cache["ratio"] if cache else None,
        preempted_ratio=worker.noise.preempted_ratio if worker.noise else None,
        marginal=marginal_costs(pipeline.ops, parts, visits),
        has_all_parts=None not in parts.values(),
        elements_per_sample=len(journal.stamps_s) / samples,
        start_s_per_sample=costs.get("start_s", 0.0) / samples,
        elapsed_s_per_sample=1 / worker.samples_per_s.estimate if worker.samples_per_s.estimate > 0 else None,
    )
    polls = costs.get("polls") or {"count": None, "taken_s": 0.0, "over_s": 0.0}
    ratio = polls["taken_s"] / polls["over_s"] if polls["over_s"] > 0 else None
    return replace(profile_of(evidence), poll_count=polls["count"], poll_time_ratio=ratio)


def _visits(
    journal: Journal, pipeline: PipelineGraph, seen: Mapping[str, OpCounts]
) -> tuple[dict[str, OpCounts], dict[str, float]]:
    """Return the ops that were seen well enough, and the elements of each op for one sample. The worker must have given samples."""
    samples = _all_samples(journal)
    full = pipeline.samples_per_element.value if pipeline.samples_per_element else None
    batch = samples / len(journal.stamps_s)
    fill_ratio = min(1.0, batch / full) if full else 1.0
    last = next((counts for counts in seen.values() if counts.head == pipeline.ops[-1].name and counts.elements > 0), None)
    polled = last.elements * batch if last is not None else samples  # of many short passes, few are polled
    fair = well_seen(seen, visit_ratios(pipeline.ops, seen, 1 / batch, fill_ratio=fill_ratio), polled)
    told = journal.last("counted")  # by a part of the pipeline that ran alone, if snapshots told nothing
    counts = {name: OpCounts(name, elements=count) for name, count in told["elements"].items()} if told and not fair else fair
    return fair, visit_ratios(pipeline.ops, counts, 1 / batch, fill_ratio=fill_ratio)


def source_rate(journal: Journal, pipeline: PipelineGraph) -> Estimate | None:
    """Return the ceiling of the readers alone, in samples/s.

    A record may hold many samples, or a part of one; the counted elements of the ops tell. Return None if they do not, or if the
    readers were not run alone.
    """
    source, costs = journal.last("source"), journal.last("costs")
    if source is None or source["window"] is None or not _all_samples(journal):
        return None
    seen = {name: OpCounts(**counts) for name, counts in costs["seen"].items()} if costs is not None else {}
    fair, visits = _visits(journal, pipeline, seen)
    records = records_per_sample(pipeline.ops, fair, visits, reader_ops(pipeline.ops))
    return None if records is None else rate_of(Estimate(**source["window"]), source["records_per_batch"] / records)


def _steady_window(journal: Journal, stamps_s: npt.NDArray[np.float64]) -> Window | None:
    """Return the steady window of one state of the pipeline.

    That is the state after its `cache` was filled, or before it if too few batches came after.
    """
    filled = journal.last("cache_filled")
    passes = [int(event["batches"]) for event in journal.events if event["event"] == "epoch"]
    if filled is None:
        return steady_window(stamps_s, passes)
    batches = int(filled["batches"])
    if len(stamps_s) - batches < LEAST_STAMPS:
        return steady_window(stamps_s[:batches])
    window = steady_window(stamps_s[batches:], [end - batches for end in passes])
    return None if window is None else replace(window, first=window.first + batches)


def _is_filling_cache(journal: Journal, window: Window) -> bool | None:
    """Return whether the window is of the pass that fills a cache; None if that cannot be seen."""
    filling, filled = journal.last("cache_filling"), journal.last("cache_filled")
    if filling is None:
        return False
    if filled is not None:
        return bool(window.first < filled["batches"])
    return True if filling["is_seen"] else None


def _with_rates(base: WorkerResult, journal: Journal, window: Window, per_batch: float, bytes_out: float) -> WorkerResult:
    # Over another span than the rate's, the counters could show more used CPUs than there are.
    begin, end = _counters_at(journal, journal.stamps_s[[window.first, window.first + window.batches]])
    samples = window.batches * per_batch
    read_bytes = _difference(begin.read_bytes, end.read_bytes)
    physical_bytes = _difference(begin.physical_read_bytes, end.physical_read_bytes)
    gaps = np.diff(journal.stamps_s[window.first : window.first + window.batches + 1])
    done = journal.last("done")
    stopped_by: StopReason = done["stopped_by"] if done else ("error" if base.status == "data_error" else "budget")
    return replace(
        base,
        samples_per_s=rate_of(window.gap_s, per_batch),
        batches_per_s=1 / window.gap_s.estimate,
        cpu_s_per_sample=(end.cpu_s - begin.cpu_s) / samples,
        batch_gap_s=batch_gap(gaps),
        bytes_read_per_sample=bytes_per_sample(Reads(**journal.said("reads")), per_batch, read_bytes, samples),
        physical_bytes_read_per_sample=physical_bytes / samples if physical_bytes is not None else None,
        bytes_out_per_sample=bytes_out,
        processes=max((counters.processes or 0 for _, counters in journal.readings()), default=0) or None,
        steady_state=SteadyState(
            transient_s=float(journal.stamps_s[window.first] - journal.stamps_s[0]) + (base.first_batch_s or 0.0),
            transient_batches=window.first + 1,
            window_s=window.window_s,
            batches=window.batches,
            blocks=len(window.block_gap_s),
            lag1_autocorrelation=window.lag1_autocorrelation,
            epochs=int(done["epochs"]) if done else 0,
            stopped_by=stopped_by,
            moved=moved_parameters(journal, window),
            epoch_gap_s=epoch_gap_s(journal, journal.stamps_s[: window.first + window.batches + 2]),
            is_filling_cache=_is_filling_cache(journal, window),
            pass_elements=next((int(event["batches"]) + 1 for event in journal.events if event["event"] == "epoch"), None),
        ),
        noise=noise_between(begin, end),
        block_samples_per_s=tuple(per_batch / gap for gap in window.block_gap_s if gap > 0),
        batch_gaps_s=tuple(np.round(gaps, 7)[-TRACE:].tolist()),
    )


def _counters_at(journal: Journal, times_s: npt.NDArray[np.float64]) -> list[Counters]:
    """Return the counters at these times, each interpolated between the two readings around it. Unread counters are None."""
    readings = journal.readings()
    totals: dict[str, list[float | None]] = {}
    for each in fields(Counters):
        known = [(at_s, value) for at_s, counters in readings if (value := getattr(counters, each.name)) is not None]
        at, values = ([one[part] for one in known] for part in (0, 1))
        totals[each.name] = np.interp(times_s, at, values).tolist() if known else [None] * len(times_s)
    found: list[dict[str, Any]] = [{name: values[place] for name, values in totals.items()} for place in range(len(times_s))]
    return [Counters(**one) for one in found]


def _samples_per_batch(journal: Journal, window: Window) -> float | None:
    if journal.samples is not None:
        inside = journal.samples[window.first + 1 : window.first + 1 + window.batches]
        return float(inside.mean()) if len(inside) and inside.sum() > 0 else None
    first = journal.last("first_batch")
    return float(first["samples"]) if first and first["samples"] else None


def _all_samples(journal: Journal) -> float:
    if journal.samples is not None:
        return float(journal.samples.sum())
    first = journal.last("first_batch")
    return len(journal.stamps_s) * float(first["samples"]) if first and first["samples"] else 0.0


def _tuned(journal: Journal) -> tuple[TunedParameter, ...]:
    costs = journal.last("costs")
    return tuple(TunedParameter(**value) for value in costs["tuned"]) if costs else ()


def _buffered_bytes(journal: Journal) -> int | None:
    costs = journal.last("costs")
    if not costs or not costs["seen"]:
        return None
    return sum(max(0, int(counts["buffered_bytes"])) for counts in costs["seen"].values())  # its count can fall below 0


def _difference(begin: float | None, end: float | None) -> float | None:
    return end - begin if begin is not None and end is not None else None


def _rate(worker: WorkerResult) -> float:
    return worker.samples_per_s.estimate if worker.samples_per_s is not None else math.inf
