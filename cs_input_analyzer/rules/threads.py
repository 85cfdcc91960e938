"""Rules of CPUs and threads."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from cs_input_analyzer.pipeline.op_traits import PRIVATE_THREADS, number_of
from cs_input_analyzer.planning.evidence import cpus_of_task, finding, widest_cpus
from cs_input_analyzer.records import Case, Edit, Finding, Noise, Op, Scalar, others_ratio
from cs_input_analyzer.units import counted, format_ratio


def starved_threads(case: Case) -> Iterator[Finding]:
    """An option of the dataset gives its ops fewer threads than there are CPUs.

    `options.threading.private_threadpool_size = k` runs all parallel calls of this dataset on k threads: with k below the CPUs of
    the task the rest of them idle, and more parallel calls than threads wait for each other.

    Fix: leave the pool size out (TensorFlow then takes as many threads as CPUs), or set it to the CPUs of the task.

    A warning for a pool smaller than the task's CPUs, or than the parallel calls that the code asks for. For your information where
    it is only smaller than the widest task that was measured: the plan may have taken small tasks because of it.

    Silent without such an option, and for pools at least as large as the CPUs of any task, planned or measured.
    """
    for op in case.pipeline.ops:
        if threads := _threads(op):  # 0 lets TensorFlow choose
            yield from _small_pool(case, op, threads)


def _small_pool(case: Case, op: Op, threads: int) -> Iterator[Finding]:
    cpus, widest = cpus_of_task(case), widest_cpus(case)
    calls = [n for other in case.pipeline.ops if (n := number_of(other, "num_parallel_calls")) is not None]
    if threads >= max(widest or 1, *calls, 1):
        return
    starved = threads < max(cpus or 1, *calls, 1)
    if cpus is not None and threads < cpus:
        short = f"for {cpus} CPUs a task"
    else:
        short = f"for {max(calls)} parallel calls" if starved else f"too few for the {widest} CPUs that a task had here"
    message = f"a private pool of {counted(threads, 'thread')} runs all ops of this dataset, {short}"
    fix = "leave options.threading.private_threadpool_size out, or set it to the CPUs of the task"
    evidence = {"private_threadpool_size": threads, "cpus_per_task": cpus, "parallel_calls": max(calls, default=None)}
    edits = (Edit(kind="use-private-threads", op=op.name, value=cpus),) if cpus is not None and threads < cpus else ()
    yield finding(op, message, fix, evidence, is_warning=starved, edits=edits)


STOLEN_RATIO = 0.05
TAKEN_RATIO = 0.1


def oversubscribed_cpus(case: Case) -> Iterator[Finding]:
    """More threads want to run than there are CPUs for them.

    A launch that asks for more CPUs than a node has makes its tasks take turns, and the slowest one sets the pace. The same happens
    from outside: other jobs on the measuring host, or a hypervisor that gives its CPUs to several virtual machines.

    Fix: tasks_per_node x cpus_per_task at most the CPUs of a node; measure on an idle or exclusive node (`--exclusive`).

    A warning for the launch in use today (`--current`) where it does not fit its nodes. For your information where the host was
    busy: the hypervisor took 5 % of the CPU time or more, or others had 10 % of the workers' CPUs.

    Silent on an idle host, where such numbers were not read, and for launches that fit.
    """
    today = next((a for a in case.plan.alternatives if a.is_current), None) if case.plan is not None else None
    if today is not None and today.layout.cpus_per_node > case.cluster.cpus_per_node:
        wanted, there = today.layout.cpus_per_node, case.cluster.cpus_per_node
        message = f"the launch in use today, {today.layout}, wants {wanted} CPUs of nodes that have {there}"
        fix = f"keep tasks_per_node x cpus_per_task at {there} or below"
        evidence: dict[str, Scalar] = {"layout": str(today.layout), "cpus_per_node_wanted": wanted, "cpus_per_node": there}
        yield finding(None, message, fix, evidence, is_warning=True)
    # A worker alone on the host, so that nobody of ours was in its way.
    alone = [m.noise for m in case.measurements if m.layout.tasks == 1 and m.noise is not None]
    host_cpus = case.host.cpu_budget if case.host is not None else None
    stolen, taken = _median(alone, "steal_ratio"), others_ratio(case.measurements, host_cpus)
    facts = []
    if stolen is not None and stolen >= STOLEN_RATIO:
        facts.append(f"the hypervisor took {format_ratio(stolen)} of the CPU time")
    if taken is not None and taken >= TAKEN_RATIO:
        facts.append(f"others had {format_ratio(taken)} of the workers' CPUs")
    if facts:
        message = f"the measuring host was busy with something else: {' and '.join(facts)}"
        fix = "measure on an idle or exclusive node"
        evidence = {"steal_ratio": stolen, "others_ratio": taken, "launches": len(alone)}
        yield finding(None, message, fix, evidence)


def _median(noises: list[Noise], name: str) -> float | None:
    """None where no launch has it."""
    values = [value for noise in noises if (value := getattr(noise, name)) is not None]
    return median(values) if values else None


BUDGET = "autotune.cpu_budget"
PARALLELISM = ("parallelism", "num_parallel_calls")
TOO_MANY_RATIO = 2
FIX = "bind tasks to their CPUs (srun --cpu-bind=cores), and leave autotune.cpu_budget out or set it to cpus_per_task"


def autotune_sees_host(case: Case) -> Iterator[Finding]:
    """AUTOTUNE counts on more CPUs than the task has.

    AUTOTUNE divides the CPUs that TensorFlow sees: those of the process's affinity, or what `options.autotune.cpu_budget` says, or
    the threads of the dataset's own pool. A container quota (cgroup) is not seen, nor is `cpus_per_task` where Slurm does not bind
    tasks to CPUs. Then every task of a node tunes itself to the whole machine: many times too many parallel calls, each with a
    buffer, that take turns on the few CPUs there are.

    Fix: leave `cpu_budget` out or set it to `cpus_per_task`; bind the tasks (`srun --cpu-bind=cores`), so that TensorFlow counts
    right; where only a quota limits the job, set `options.threading.private_threadpool_size` to it.

    A warning for a budget of at least twice the task's CPUs, and where AUTOTUNE was seen to choose that many parallel calls for a
    `map`. For your information where a quota limits this host, as it may limit the nodes.

    Silent where the numbers agree. Parallel calls of an `interleave` beyond the CPUs are no fault: they wait for files.
    """
    found = [*_from_option(case), *_from_tuning(case)]
    yield from found[:1] or _from_quota(case)


def _from_option(case: Case) -> Iterator[Finding]:
    cpus = cpus_of_task(case)
    for op in case.pipeline.ops:
        budget = op.parameters.get(BUDGET)
        if cpus is None or not isinstance(budget, int) or budget <= cpus:
            continue
        message = f"AUTOTUNE is told to use {budget} CPUs, and a task has {cpus}"
        fix = "leave options.autotune.cpu_budget out, or set it to cpus_per_task"
        evidence = {"cpu_budget": budget, "cpus_per_task": cpus}
        yield finding(op, message, fix, evidence, is_warning=budget >= TOO_MANY_RATIO * cpus)


def _from_tuning(case: Case) -> Iterator[Finding]:
    maps = {
        op.name
        for op in case.pipeline.ops
        if op.kind in ("Map", "ParallelMap", "ParallelBatch") and (number_of(op, "num_parallel_calls") or 0) <= 0
    }
    for measurement in case.measurements:
        cpus = measurement.layout.cpus_per_task
        for worker in measurement.workers:
            for tuned in worker.tuned:
                if tuned.op not in maps or tuned.parameter not in PARALLELISM or tuned.value < max(4, TOO_MANY_RATIO * cpus):
                    continue
                pool = next((op for op in case.pipeline.ops if (_threads(op) or 0) > cpus), None)
                cause = f": {PRIVATE_THREADS}={_threads(pool)} gives it the threads for them" if pool is not None else ""
                message = f"AUTOTUNE chose {tuned.value:.0f} parallel calls in a task of {cpus} CPUs{cause}"
                fix = FIX if pool is None else f"leave options.{PRIVATE_THREADS} out, or set it to cpus_per_task"
                evidence: dict[str, Scalar] = {"parallel_calls": tuned.value, "cpus_per_task": cpus}
                yield finding(tuned.op if pool is None else pool.name, message, fix, evidence, is_warning=True)


def _threads(op: Op) -> int | None:
    """Threads of a pool of the dataset's own, which this op gives it."""
    name = {"Options": PRIVATE_THREADS, "PrivateThreadPool": "num_threads"}.get(op.kind)
    return number_of(op, name) if name is not None else None


def _from_quota(case: Case) -> Iterator[Finding]:
    host = case.host
    if host is None or "quota" not in host.cpu_budget_source or host.cpu_budget * TOO_MANY_RATIO > host.cpus:
        return
    message = f"a quota gives this process {host.cpu_budget} of {host.cpus} CPUs, which TensorFlow does not see"
    evidence: dict[str, Scalar] = {"cpu_budget": host.cpu_budget, "cpus": host.cpus, "source": host.cpu_budget_source}
    yield finding(None, message, FIX, evidence)


# So near to the limit, Python, the file system's client and the training itself have no room for threads of theirs.
NEAR_LIMIT_RATIO = 0.8
POOLS_RATIO = 4


def too_many_threads(case: Case) -> Iterator[Finding]:
    """The tasks of a node start more threads than the node allows, or than its CPUs are for.

    Each task has TensorFlow's pools (as many threads as CPUs that it sees, several times), the pool of the dataset's options, and a
    thread for each parallel call. All threads of a user together are limited (`ulimit -u`), and those of a container (`pids.max`):
    at the limit a task ends with `pthread_create failed` or `Resource temporarily unavailable`, often after hours.

    Fix: fewer tasks for each node, smaller `private_threadpool_size` and `num_parallel_calls`; or raise the limit (`ulimit -u`,
    `--pids-limit` of the container).

    A warning where the threads of the plan's tasks, as many as a measured worker had, come to four fifths of the measuring host's
    limit, which the nodes are taken to have, too. For your information where the private pools of the tasks have four times as many
    threads as the node has CPUs.

    Silent where no limit is known, without a plan, and where the threads were not counted.
    """
    plan, host = case.plan, case.host
    if plan is None:
        return
    tasks, counts = plan.tasks_per_node, [w.threads for m in case.measurements for w in m.workers if w.threads is not None]
    limit, each = host.thread_limit if host is not None else None, max(counts, default=0)
    pool = max((op for op in case.pipeline.ops if _threads(op)), key=lambda op: _threads(op) or 0, default=None)
    if host is not None and limit is not None and each * tasks >= NEAR_LIMIT_RATIO * limit:
        where = f"the limit is {limit:,} ({host.thread_limit_source})"
        message = f"{tasks} tasks of {each} threads each come to {each * tasks:,} on a node; {where}"
        fix = f"start fewer tasks on a node, give {PRIVATE_THREADS} and num_parallel_calls smaller numbers, or raise the limit"
        yield finding(pool, message, fix, {"threads_per_task": each, "thread_limit": limit}, is_warning=True)
    elif pool is not None and (size := _threads(pool) or 0) * tasks > POOLS_RATIO * case.cluster.cpus_per_node:
        message = f"{tasks} tasks with a private pool of {size} threads each run on the {case.cluster.cpus_per_node} CPUs of a node"
        fix = f"leave options.{PRIVATE_THREADS} out, or set it to cpus_per_task"
        yield finding(pool, message, fix, {"private_threadpool_size": size, "cpus_per_node": case.cluster.cpus_per_node})
