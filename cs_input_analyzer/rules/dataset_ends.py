"""The dataset ends, so training would stop or wait at the end of each pass.

An accelerator that streams wants an endless input: `repeat()` without a count, with the number of steps set in the run. Here the
data ended within the measuring window and were read again from the start, so the rate includes that restart.

Fix: `dataset.repeat()` (after `shuffle`, before `prefetch`).

Silent for infinite datasets, in evaluation, where one pass is meant, and where the data did not end while we measured.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.records import Case, Finding


def find(case: Case) -> Iterator[Finding]:
    if case.pipeline.is_infinite or case.mode == "eval":
        return
    states = [worker.steady_state for m in case.measurements for worker in m.workers if worker.steady_state is not None]
    passes = max((state.epochs for state in states), default=0)
    if passes == 0:
        return
    last = case.pipeline.ops[-1] if case.pipeline.ops else None
    yield Finding(
        severity="warning",
        message=f"the dataset ended and was read {passes + 1} times within one window; training input should repeat without end",
        op=last.name if last else None,
        evidence={"passes": passes, "elements_per_pass": case.pipeline.cardinality},
        fix="add .repeat() after shuffle and before prefetch, and set the number of steps in the run",
    )
