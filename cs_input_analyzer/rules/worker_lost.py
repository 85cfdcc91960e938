"""A worker was lost while others went on.

One of several workers died, hung until its deadline, or used more memory than allowed. The numbers of the others are kept, and
the sums over a layout hold only those.

Fix: the message says what it was doing; a pipeline that fails in one shard of several will fail in training.

Silent when all workers delivered.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.records import Case, Finding

CODE = "CSI502"
NAME = "worker-lost"


def find(case: Case) -> Iterator[Finding]:
    for measurement in case.measurements:
        for worker in measurement.workers:
            if worker.status not in ("lost", "deadline"):
                continue
            yield Finding(
                code=CODE,
                severity="warning",
                message=f"worker {worker.index} of layout {measurement.layout} was lost: {worker.message}",
                evidence={
                    "worker": worker.index,
                    "layout": str(measurement.layout),
                    "workers_left": len(measurement.measured_workers),
                },
                fix="run that worker's shard alone to see why; its numbers are not in the sums",
            )
