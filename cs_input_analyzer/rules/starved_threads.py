"""An option of the dataset gives its ops fewer threads than there are CPUs.

`options.threading.private_threadpool_size = k` runs all parallel calls of this dataset on k threads: with k below the CPUs of
the task the rest of them idle, and more parallel calls than threads wait for each other. `max_intra_op_parallelism = 1` keeps
each single TensorFlow op on one thread, which is good for a `map` over samples with many calls in parallel, and starves one big
op that works on a whole batch.

Fix: leave the pool size out (TensorFlow then takes as many threads as CPUs), or set it to the CPUs of the task; leave
`max_intra_op_parallelism` out where one op does most of the work.

A warning for a pool smaller than the task's CPUs, or than the parallel calls that the code asks for. For your information where it
is only smaller than the widest task that was measured: the plan may have taken small tasks because of it. For
`max_intra_op_parallelism` only for your information, and only where a `map` was measured to keep one thread busy while CPUs
idle.

Silent without such options, and for pools at least as large as the CPUs of any task, planned or measured.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.op_kinds import MAPS
from cs_input_analyzer.planning.evidence import cpus_of_task, widest_cpus
from cs_input_analyzer.records import Case, Edit, Finding, Op
from cs_input_analyzer.units import counted

POOL = "threading.private_threadpool_size"
INTRA_OP = "threading.max_intra_op_parallelism"


def find(case: Case) -> Iterator[Finding]:
    for op in case.pipeline.ops:
        if op.kind not in ("Options", "PrivateThreadPool", "MaxIntraOpParallelism"):
            continue
        threads = _number(op, POOL if op.kind == "Options" else "num_threads")
        if threads is not None and threads > 0:  # 0 lets TensorFlow choose
            yield from _small_pool(case, op, threads)
        limit = _number(op, INTRA_OP if op.kind == "Options" else "max_intra_op_parallelism")
        if limit is not None and limit > 0:
            yield from _single_op(case, op, limit)


def _small_pool(case: Case, op: Op, threads: int) -> Iterator[Finding]:
    cpus, widest = cpus_of_task(case), widest_cpus(case)
    calls = [n for other in case.pipeline.ops if (n := _number(other, "num_parallel_calls")) is not None]
    if threads >= max(widest or 1, *calls, 1):
        return
    starved = threads < max(cpus or 1, *calls, 1)
    if cpus is not None and threads < cpus:
        short = f"for {cpus} CPUs a task"
    else:
        short = f"for {max(calls)} parallel calls" if starved else f"too few for the {widest} CPUs that a task had here"
    yield Finding(
        severity="warning" if starved else "info",
        message=f"a private pool of {counted(threads, 'thread')} runs all ops of this dataset, {short}",
        op=op.name,
        evidence={
            "private_threadpool_size": threads,
            "cpus_per_task": cpus,
            "widest_task_cpus": widest,
            "parallel_calls": max(calls, default=None),
        },
        fix="leave options.threading.private_threadpool_size out, or set it to the CPUs of the task",
        edits=(Edit(kind="use-private-threads", op=op.name, value=cpus),) if cpus is not None and threads < cpus else (),
    )


def _single_op(case: Case, op: Op, limit: int) -> Iterator[Finding]:
    serial = case.profile.serial if case.profile is not None else None
    busy = next((other for other in case.pipeline.ops if serial is not None and other.name == serial.op), None)
    if serial is None or busy is None or busy.kind not in MAPS or serial.idle_cpus < limit:
        return
    yield Finding(
        severity="info",
        message=f"each op may use {limit} thread{'s' if limit > 1 else ''}: "
        f"{busy.name} keeps one busy while {serial.idle_cpus:.1f} CPUs idle",
        op=op.name,
        evidence={"max_intra_op_parallelism": limit, "busy_op": busy.name, "idle_cpus": serial.idle_cpus},
        fix="leave options.threading.max_intra_op_parallelism out, or map over samples with parallel calls",
    )


def _number(op: Op, name: str) -> int | None:
    value = op.parameters.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
