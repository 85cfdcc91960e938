"""A worker was lost while others went on.

One of several workers died, or used more memory than allowed. The numbers of the others are kept, and
what it had measured until then; the sums over a layout hold those who delivered.

Fix: the message says what it was doing; a pipeline that fails in one shard of several will fail in training. A worker that was
killed by signal 9 most likely met the kernel's out-of-memory killer: fewer tasks per node, or smaller buffers.

A worker that we ended when the time of this run was over is not lost. It is reported for your information where it had stopped
giving elements, or where the others of its launch were through: it may block, be much slower, or have begun late on a busy host.

Silent when all workers delivered, and for launches that had too little time.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.records import Case, Finding, Measurement, WorkerResult


def find(case: Case) -> Iterator[Finding]:
    seen: dict[tuple[int, str], list[WorkerResult]] = {}
    for measurement in case.measurements:
        for worker in measurement.workers:
            if worker.status == "lost" or (worker.status == "deadline" and _is_behind(worker, measurement)):
                seen.setdefault((worker.index, str(measurement.layout)), []).append(worker)
    for (index, layout), lost in seen.items():
        launches = [m for m in case.measurements if str(m.layout) == layout and any(w.index == index for w in m.workers)]
        times = f" in {len(lost)} of {len(launches)} launches" if len(launches) > 1 else ""
        is_lost = any(worker.status == "lost" for worker in lost)
        yield Finding(
            severity="warning" if is_lost else "info",
            message=f"worker {index} of layout {layout} was {'lost' if is_lost else 'not done in time'}{times}: {lost[0].message}",
            evidence={
                "worker": index,
                "layout": layout,
                "launches_lost": len(lost),
                "launches": len(launches),
                "workers_left": min(len(m.measured_workers) for m in launches),
            },
            fix=_fix(lost[0]),
        )


def _is_behind(worker: WorkerResult, measurement: Measurement) -> bool:
    """Whether it, and not the time that it had, kept it from being done: a worker that gives elements ends its window by itself."""
    return worker.samples_per_s is not None or any(other.status == "done" for other in measurement.workers)


def _fix(worker: WorkerResult) -> str:
    kept = "what it measured until then is kept" if worker.samples_per_s is not None else "its numbers are not in the sums"
    if "memory" in worker.message:
        return f"start fewer workers at once, shrink shuffle and prefetch buffers, or allow more with --worker-memory; {kept}"
    if worker.status == "deadline":
        return f"give it more time (--max-seconds, --start-timeout); where it is late again, run its shard alone to see why; {kept}"
    return f"run that worker's shard alone to see why; {kept}"
