"""A worker was lost while others went on.

One of several workers died, hung until its deadline, or used more memory than allowed. The numbers of the others are kept, and
what it had measured until then; the sums over a layout hold those who delivered.

Fix: the message says what it was doing; a pipeline that fails in one shard of several will fail in training. A worker that was
killed by signal 9 most likely met the kernel's out-of-memory killer: fewer tasks per node, or smaller buffers.

Silent when all workers delivered.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.records import Case, Finding, WorkerResult

CODE = "CSI502"
NAME = "worker-lost"


def find(case: Case) -> Iterator[Finding]:
    seen: dict[tuple[int, str], list[WorkerResult]] = {}
    for measurement in case.measurements:
        for worker in measurement.workers:
            if worker.status in ("lost", "deadline"):
                seen.setdefault((worker.index, str(measurement.layout)), []).append(worker)
    for (index, layout), lost in seen.items():
        launches = [m for m in case.measurements if str(m.layout) == layout and any(w.index == index for w in m.workers)]
        times = f" in {len(lost)} of {len(launches)} launches" if len(launches) > 1 else ""
        yield Finding(
            code=CODE,
            severity="warning",
            message=f"worker {index} of layout {layout} was lost{times}: {lost[0].message}",
            evidence={
                "worker": index,
                "layout": layout,
                "launches_lost": len(lost),
                "launches": len(launches),
                "workers_left": min(len(m.measured_workers) for m in launches),
            },
            fix=_fix(lost[0]),
        )


def _fix(worker: WorkerResult) -> str:
    kept = "what it measured until then is kept" if worker.samples_per_s is not None else "its numbers are not in the sums"
    if "memory" in worker.message:
        return f"start fewer workers at once, shrink shuffle and prefetch buffers, or allow more with --worker-memory; {kept}"
    return f"run that worker's shard alone to see why; {kept}"
