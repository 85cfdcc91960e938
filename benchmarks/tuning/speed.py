"""Original, tuned and AUTOTUNE-everywhere side by side in one fresh process: rates in turns, and the share of the host they use."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.in_process import built, fresh
from cs_input_analyzer.records import Edit, PipelineGraph

VARIANTS = ("original", "tuned", "autotune")


def speeds_of(
    target: str, params: Mapping[str, Any], edits: Sequence[Edit], *, rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Return what `measured` does, in a fresh process on the CPUs of this one."""
    found: dict[str, list[float]] = fresh(measured, target, params, [asdict(edit) for edit in edits], rounds, seconds)
    return found


def autotune_everywhere(pipeline: PipelineGraph) -> tuple[Edit, ...]:
    """Return the edits of an expert who does not look: AUTOTUNE for every parallel call, and a prefetch at the end."""
    edits: list[Edit] = []
    for op in (op for op in pipeline.ops if op.within is None):
        if op.kind in ("Map", "Batch"):
            edits.append(Edit(kind="parallelize", op=op.name))
        elif op.kind == "FlatMap":
            edits.append(Edit(kind="interleave", op=op.name))
        elif op.kind in ("ParallelMap", "ParallelInterleave", "ParallelBatch"):
            edits.append(Edit(kind="set-parallelism", op=op.name))
    if pipeline.ops[-1].kind != "Prefetch":
        edits.append(Edit(kind="insert-prefetch", op=pipeline.ops[-1].name))
    return tuple(edits)


def _with_all_that_apply(dataset: Any, edits: Sequence[Edit]) -> Any:
    from cs_input_analyzer.tfdata.edits import EditError, apply

    kept: list[Edit] = []
    for edit in edits:
        try:
            apply(dataset, [*kept, edit])
        except EditError:
            continue
        kept.append(edit)
    return apply(dataset, kept) if kept else dataset


def measured(
    target: str, params: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Return, round by round, samples/s of each variant, and how much of the host the tuned one used, from 0 to 1.

    `tuned_cpus`: of all CPUs, waits for one included, as others may hold them; `tuned_thread`: of its busiest thread, likewise.
    """
    from cs_input_analyzer.tfdata.edits import apply
    from cs_input_analyzer.worker.sampling import SamplingLoop

    dataset, pipeline = built(target, params)
    edits = [Edit(**edit) for edit in chosen]
    variants = {
        "original": dataset,
        "tuned": apply(dataset, edits) if edits else dataset,
        "autotune": _with_all_that_apply(dataset, autotune_everywhere(pipeline)),
    }
    batch = pipeline.batch_size or 1
    loop = SamplingLoop()
    iterators = {name: iter(variant) for name, variant in variants.items()}
    seen: dict[str, list[float]] = {name: [] for name in (*VARIANTS, "tuned_cpus", "tuned_thread")}
    for name in VARIANTS:  # caches fill, AUTOTUNE settles
        _window(loop, iterators[name], seconds * 2)
    for _ in range(rounds):
        for name in random.sample(VARIANTS, len(VARIANTS)):
            _window(loop, iterators[name], seconds / 4)  # what the buffers gathered meanwhile
            before_s = _wanted_s()
            batches, took_s = _window(loop, iterators[name], seconds)
            seen[name].append(batches * batch / took_s)
            if name == "tuned":
                shares = [(wanted_s - before_s.get(thread, 0.0)) / took_s for thread, wanted_s in _wanted_s().items()]
                seen["tuned_cpus"].append(min(1.0, sum(shares) / len(os.sched_getaffinity(0))))
                seen["tuned_thread"].append(min(1.0, max(shares)))
    return seen


def _window(loop: Any, iterator: Any, seconds: float) -> tuple[int, float]:
    """Batches that came in `seconds`, and in how many seconds they came."""
    began_s, batches = time.perf_counter(), 0
    until_s = time.time() + seconds
    while time.time() < until_s:
        chunk = loop(iterator, 1 << 14, until_s)
        batches += len(chunk.stamps_s)
        if chunk.ended or chunk.error is not None:
            raise RuntimeError(f"the pipeline ended: {chunk.error or 'repeat() is missing'}")
    return batches, time.perf_counter() - began_s


def _wanted_s() -> dict[str, float]:
    """Seconds that each thread has run or waited to run (schedstat(5): nanoseconds of both come first)."""
    found = {}
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as counters:
                run_ns, wait_ns, *_ = counters.read().split()
        except OSError:  # it has ended
            continue
        found[thread] = (int(run_ns) + int(wait_ns)) * 1e-9
    return found
