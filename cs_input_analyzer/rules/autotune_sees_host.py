"""AUTOTUNE counts on more CPUs than the task has.

AUTOTUNE divides the CPUs that TensorFlow sees: those of the process's affinity, or what `options.autotune.cpu_budget` says. A
container quota (cgroup) is not seen, nor is `cpus_per_task` where Slurm does not bind tasks to CPUs. Then every task of a node
tunes itself to the whole machine: many times too many parallel calls, each with a buffer, that take turns on the few CPUs there
are.

Fix: leave `cpu_budget` out or set it to `cpus_per_task`; bind the tasks (`srun --cpu-bind=cores`), so that TensorFlow counts
right; where only a quota limits the job, set `options.threading.private_threadpool_size` to it.

Where the dataset's own thread pool is larger than the task (`options.threading.private_threadpool_size`), that is the number which
AUTOTUNE counts on, and the finding names it.

A warning for a budget of at least twice the task's CPUs, and where AUTOTUNE was seen to choose that many parallel calls for a
`map`. For your information where a quota limits this host, as it may limit the nodes.

Silent where the numbers agree. Parallel calls of an `interleave` beyond the CPUs are no fault: they wait for files.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.planning.evidence import cpus_of_task
from cs_input_analyzer.records import Case, Finding, Op

BUDGET = "autotune.cpu_budget"
POOL = "threading.private_threadpool_size"
PARALLELISM = ("parallelism", "num_parallel_calls")
TOO_MANY_RATIO = 2
FIX = "bind tasks to their CPUs (srun --cpu-bind=cores), and leave autotune.cpu_budget out or set it to cpus_per_task"


def find(case: Case) -> Iterator[Finding]:
    found = [*_from_option(case), *_from_tuning(case)]
    yield from found[:1] or _from_quota(case)


def _from_option(case: Case) -> Iterator[Finding]:
    cpus = cpus_of_task(case)
    for op in case.pipeline.ops:
        budget = op.parameters.get(BUDGET)
        if cpus is None or not isinstance(budget, int) or budget <= cpus:
            continue
        yield Finding(
            severity="warning" if budget >= TOO_MANY_RATIO * cpus else "info",
            message=f"AUTOTUNE is told to use {budget} CPUs, and a task has {cpus}",
            op=op.name,
            evidence={"cpu_budget": budget, "cpus_per_task": cpus},
            fix="leave options.autotune.cpu_budget out, or set it to cpus_per_task",
        )


def _from_tuning(case: Case) -> Iterator[Finding]:
    maps = {op.name: op for op in case.pipeline.ops if op.kind in ("Map", "ParallelMap", "ParallelBatch") and not _is_written(op)}
    for measurement in case.measurements:
        cpus = measurement.layout.cpus_per_task
        for worker in measurement.workers:
            for tuned in worker.tuned:
                if tuned.op not in maps or tuned.parameter not in PARALLELISM or tuned.value < max(4, TOO_MANY_RATIO * cpus):
                    continue
                pool = next((op for op in case.pipeline.ops if (_threads(op) or 0) > cpus), None)
                cause = f": {POOL}={_threads(pool)} gives it the threads for them" if pool is not None else ""
                yield Finding(
                    severity="warning",
                    message=f"AUTOTUNE chose {tuned.value:.0f} parallel calls in a task of {cpus} CPUs{cause}",
                    op=tuned.op if pool is None else pool.name,
                    evidence={
                        "parallel_calls": tuned.value,
                        "cpus_per_task": cpus,
                        "layout": str(measurement.layout),
                        "private_threadpool_size": _threads(pool) if pool is not None else None,
                    },
                    fix=FIX if pool is None else f"leave options.{POOL} out, or set it to cpus_per_task",
                )


def _is_written(op: Op) -> bool:
    """Whether the user chose the number of parallel calls."""
    calls = op.parameters.get("num_parallel_calls")
    return isinstance(calls, int) and calls > 0


def _threads(op: Op) -> int | None:
    """Threads of a pool of the dataset's own, which this op gives it."""
    name = {"Options": POOL, "PrivateThreadPool": "num_threads"}.get(op.kind)
    threads = op.parameters.get(name) if name is not None else None
    return threads if isinstance(threads, int) and not isinstance(threads, bool) else None


def _from_quota(case: Case) -> Iterator[Finding]:
    host = case.host
    if host is None or "quota" not in host.cpu_budget_source or host.cpu_budget * TOO_MANY_RATIO > host.cpus:
        return
    yield Finding(
        severity="info",
        message=f"a quota gives this process {host.cpu_budget} of {host.cpus} CPUs, which TensorFlow does not see",
        evidence={"cpu_budget": host.cpu_budget, "cpus": host.cpus, "source": host.cpu_budget_source},
        fix=FIX,
    )
