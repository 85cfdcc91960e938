"""A `map` makes one call at a time although the task has more CPUs.

Every element waits for the one before it, so one thread sets the pace of the whole pipeline and the other CPUs idle. TensorFlow
makes a plain `map` parallel by itself, but not one that draws random numbers, looks up a table or reads a variable, not one inside
another op's function, and none where `autotune` or `map_parallelization` is switched off.

Fix: `num_parallel_calls=tf.data.AUTOTUNE`. The order of the elements stays. Which random numbers an element gets changes, as it
does from run to run anyway.

Silent where TensorFlow makes the map parallel, on one CPU, over file names and batches that cost next to nothing (below a
twentieth of the CPU time), inside an op that calls it in parallel, and for Python functions that do not wait: they share one lock,
so more calls at a time do not help.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import reads_names_only
from cs_input_analyzer.pipeline.op_traits import calls_python, cost_of, draws, is_costly, why_not_parallelized
from cs_input_analyzer.pipeline.source.code import AUTOTUNE
from cs_input_analyzer.pipeline.threads import is_serial
from cs_input_analyzer.planning.evidence import BUSY_RATIO, bottleneck, busy_ratio, rate_of_worker, widest_cpus
from cs_input_analyzer.records import Case, Edit, Finding, Op

# Below this share of the CPU time, or of all time where it waits, a map is not worth another thread.
SMALL_RATIO = 0.05


def find(case: Case) -> Iterator[Finding]:
    ops, cpus = case.pipeline.ops, widest_cpus(case)
    for op in ops:
        if op.kind != "Map" or not is_serial(op, ops) or cpus == 1 or not _matters(op, case):
            continue
        why, cost = why_not_parallelized(op, ops), cost_of(op, case.profile)
        station = bottleneck(case, ("serial op",))
        busy = busy_ratio(case, op)
        holds_back = (station is not None and station.op == op.name) or (busy or 0.0) >= BUSY_RATIO
        yield Finding(
            severity="warning" if holds_back else "info",
            message=f"{op.name} makes one call at a time: {why}"
            + (", and its one thread holds the worker back" if holds_back else ""),
            op=op.name,
            evidence={
                "cpus_per_task": cpus,
                "share_ratio": cost.share_ratio if cost else None,
                "busy_ratio": busy,
            },
            fix=f"give it num_parallel_calls={AUTOTUNE}",
            edits=(Edit(kind="parallelize", op=op.name),),
        )


def _matters(op: Op, case: Case) -> bool:
    ops, cost = case.pipeline.ops, cost_of(op, case.profile)
    if why_not_parallelized(op, ops) is None:
        return False
    if cost is None:
        is_of_names = op.within is None and reads_names_only(op, ops) and not (is_costly(op) or draws(op))
        return not (calls_python(op) or is_of_names)
    if cost.parallelism is not None and cost.parallelism > 1:  # made parallel after all
        return False
    own_s, wait_s = cost.self_cpu_s_per_sample or 0.0, cost.wait_s_per_sample or 0.0
    waits = wait_s > own_s and (own_s + wait_s) * (rate_of_worker(case) or 0.0) >= SMALL_RATIO
    if calls_python(op):
        return waits
    return waits or cost.share_ratio is None or cost.share_ratio >= SMALL_RATIO
