"""A deterministic order is asked for where a shuffle without a seed makes it moot.

An op that keeps the order hands over nothing until its slowest call is done: one large file or slow read holds up all that is ready
behind it. A shuffle without a seed gives another order in every run, so the order before it leaves no trace.

Fix: `deterministic=False` at the op. It is advice only: the analyzer never makes a pipeline less deterministic by itself.

Silent where no shuffle of its own elements follows (one of batches does not mix the samples in them, and a `take` shows which came
first), where the shuffle has a seed (or `tf.random.set_seed` was called), where `deterministic=False` is set, and where nothing is
set and the op does not wait for its calls longer than it works.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.edits.statement import argument_set
from cs_input_analyzer.pipeline.lineage import freeing_shuffle
from cs_input_analyzer.pipeline.op_traits import cost_of, option
from cs_input_analyzer.records import Case, Finding, Op

_ORDERED = ("ParallelMap", "ParallelInterleave", "ParallelBatch", "ParallelFilter")


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    for op in ops:
        if op.kind not in _ORDERED or not _is_forced(op, case):
            continue
        shuffle = freeing_shuffle(op, ops)
        if shuffle is None:
            continue
        cost = cost_of(op, case.profile)
        yield Finding(
            severity="info",
            message=f"{op.name} keeps its elements in order, and {shuffle.name} then shuffles them without a seed",
            op=op.name,
            evidence={
                "deterministic": str(op.parameters.get("deterministic")),
                "shuffle": shuffle.name,
                "wait_s_per_sample": cost.wait_s_per_sample if cost else None,
            },
            fix="give it deterministic=False",
            before=op.code,
            after=argument_set(op, ops, "deterministic", "False"),
        )


def _is_forced(op: Op, case: Case) -> bool:
    said = op.parameters.get("deterministic")
    if said == "true":
        # A reader with num_parallel_reads says so by itself, and cannot be changed.
        return op.code is None or "deterministic" in op.code
    if said != "default" or option(case.pipeline.ops, "deterministic") is False:
        return False
    cost = cost_of(op, case.profile)
    waits = cost is not None and (cost.wait_s_per_sample or 0.0) > (cost.self_cpu_s_per_sample or 0.0)
    return option(case.pipeline.ops, "deterministic") is True or waits
