"""A fixed `num_parallel_calls` is far from what the task can use.

Far too few calls leave CPUs idle, or waiting for one reply at a time. Far too many only hold more elements in memory, switch
threads and spoil caches: calls beyond the CPUs gain nothing unless they wait. A number that fitted the machine it was written on
is wrong on a task with two CPUs, and on one with sixty.

Fix: `tf.data.AUTOTUNE`, which follows the CPUs of the task. An `interleave` whose order counts needs a `cycle_length` as well: the
one that TensorFlow chooses follows the calls.

Silent for AUTOTUNE, for few calls that do not hold the worker back, for many that wait for most of their time, for up to four
calls per CPU, and for interleaves whose `cycle_length` is the smaller number.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import freeing_shuffle
from cs_input_analyzer.pipeline.op_kinds import THREADED
from cs_input_analyzer.pipeline.op_traits import cost_of, has_written_cycle, is_costly
from cs_input_analyzer.pipeline.source.code import AUTOTUNE
from cs_input_analyzer.planning.evidence import BUSY_RATIO, bottleneck, busy_ratio, widest_cpus
from cs_input_analyzer.records import Case, Edit, Finding, Op
from cs_input_analyzer.units import format_bytes

CALLS_PER_CPU = 4
# Up to this many calls are never many: they wait for storage as often as not.
FEW_CALLS = 16
# Elements in flight that take this share of a task's memory are worth a warning.
MEMORY_RATIO = 0.05


def find(case: Case) -> Iterator[Finding]:
    cpus = widest_cpus(case) or (case.host.cpu_budget if case.host else None)
    for op in case.pipeline.ops:
        calls = op.parameters.get("num_parallel_calls")
        if op.kind not in THREADED or not isinstance(calls, int) or calls < 1 or cpus is None:
            continue
        if calls < cpus:
            yield from _too_few(op, calls, cpus, case)
        elif calls > max(FEW_CALLS, CALLS_PER_CPU * cpus):
            yield from _too_many(op, calls, cpus, case)


def _too_few(op: Op, calls: int, cpus: int, case: Case) -> Iterator[Finding]:
    cycle = op.parameters.get("cycle_length")
    if isinstance(cycle, int) and cycle < calls:
        return
    station = bottleneck(case, ("fixed parallelism", "serial op"))
    busy = busy_ratio(case, op, calls)
    holds_back = (station is not None and station.op == op.name) or (busy or 0.0) >= BUSY_RATIO
    if not holds_back and (case.profile is not None or not is_costly(op)):
        return
    effect = ", and that holds the worker back" if holds_back else ""
    message = f"{op.name} makes {calls} call{'s' if calls > 1 else ''} at a time where a task has {cpus} CPUs{effect}"
    yield _finding(op, case, "warning" if holds_back else "info", message, calls, cpus, {"busy_ratio": busy})


def _too_many(op: Op, calls: int, cpus: int, case: Case) -> Iterator[Finding]:
    cost = cost_of(op, case.profile)
    if cost is not None and (cost.wait_s_per_sample or 0.0) > (cost.self_cpu_s_per_sample or 0.0):
        return
    held = None
    if cost is not None and cost.bytes_out_per_sample is not None and cost.elements_per_sample:
        held = round(calls * cost.bytes_out_per_sample / cost.elements_per_sample)
    tasks = case.plan.tasks_per_node if case.plan else 1
    is_heavy = held is not None and held > MEMORY_RATIO * case.cluster.memory_bytes_per_node / tasks
    message = f"{op.name} makes {calls} calls at a time where a task has {cpus} CPUs"
    message += f", and holds {format_bytes(held)} in them" if held is not None else ""
    yield _finding(op, case, "warning" if is_heavy else "info", message, calls, cpus, {"bytes_in_flight": held})


def _finding(
    op: Op, case: Case, severity: str, message: str, calls: int, cpus: int, more: dict[str, float | int | None]
) -> Finding:
    is_interleave = op.kind == "ParallelInterleave"
    # Without a cycle_length TensorFlow chooses one by the number of calls, and another order comes of it.
    is_ordered = is_interleave and not has_written_cycle(op, case.pipeline.ops) and freeing_shuffle(op, case.pipeline.ops) is None
    return Finding(
        severity="warning" if severity == "warning" else "info",
        message=message,
        op=op.name,
        evidence={"num_parallel_calls": calls, "cpus_per_task": cpus, **more},
        fix=f"give it num_parallel_calls={AUTOTUNE}"
        + (" in place of num_parallel_batches" if "num_parallel_batches" in (op.code or "") else "")
        + (", and a cycle_length, which keeps the order" if is_ordered else ""),
        edits=(Edit(kind="set-parallelism", op=op.name),),
    )
