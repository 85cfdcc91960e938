"""Rules of CPUs and threads."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from cs_input_analyzer.model.evidence import bottleneck, cpus_of_task, finding, widest_cpus
from cs_input_analyzer.records import Case, Edit, Finding, Scalar, others_ratio
from cs_input_analyzer.tfdata.op_traits import PRIVATE_THREADS, number_of
from cs_input_analyzer.units import counted, format_ratio


def starved_threads(case: Case) -> Iterator[Finding]:
    """An option of the dataset gives its ops fewer threads than there are CPUs.

    `options.threading.private_threadpool_size = k` runs all parallel calls of this dataset on k threads. If k is below
    the CPUs of the task, the other CPUs are idle. If k is below the number of parallel calls, they wait for each other.

    Fix: remove the pool size (TensorFlow then uses one thread per CPU), or set it to the CPUs of the task. A pool with
    a thread for each CPU, but fewer threads than parallel calls, needs a thread for each call: without the option there
    would be fewer.

    A warning for a pool smaller than the task's CPUs, or than the parallel calls of an op that holds the worker back.
    For your information if it is smaller than other parallel calls, or only than the widest measured task: the plan may
    have taken small tasks because of it.

    Silent without such an option, and for pools at least as large as the CPUs of any task, planned or measured.
    """
    pools = {"Options": PRIVATE_THREADS, "PrivateThreadPool": "num_threads"}
    cpus, widest = cpus_of_task(case), widest_cpus(case)
    calls = [n for op in case.pipeline.ops if (n := number_of(op, "num_parallel_calls")) is not None]
    most = max(calls, default=0)
    for op in case.pipeline.ops:
        threads = number_of(op, pools[op.kind]) if op.kind in pools else None
        if not threads or threads >= max(widest or 1, most):  # 0 lets TensorFlow choose
            continue
        station = bottleneck(case, ("fixed parallelism",))
        fix, wanted = f"leave options.{PRIVATE_THREADS} out, or set it to the CPUs of the task", cpus
        is_short = cpus is not None and threads < cpus
        if is_short:
            short = f"for {cpus} CPUs a task"
        elif threads < most:
            short, wanted = f"for {most} parallel calls", most
            fix = f"set options.{PRIVATE_THREADS} to {most}, if the calls wait for something else than a CPU"
        else:
            short, wanted = f"too few for the {widest} CPUs that a task had here", None
        message = f"a private pool of {counted(threads, 'thread')} runs all ops of this dataset, {short}"
        evidence = {"private_threadpool_size": threads, "cpus_per_task": cpus, "parallel_calls": most or None}
        edits = (Edit(kind="use-private-threads", op=op.name, value=wanted),) if wanted is not None else ()
        yield finding(op, message, fix, evidence, is_warning=is_short or (station is not None and threads < most), edits=edits)


STOLEN_RATIO = 0.05
TAKEN_RATIO = 0.1


def oversubscribed_cpus(case: Case) -> Iterator[Finding]:
    """More threads want to run than there are CPUs for them.

    A launch that asks for more CPUs than a node has makes its tasks take turns, and the slowest task limits the rate.
    Other jobs on the measuring host have the same effect, and so does a hypervisor that shares its CPUs among virtual
    machines.

    Fix: tasks_per_node x cpus_per_task at most the CPUs of a node; measure on an idle or exclusive node
    (`--exclusive`).

    A warning if the launch in use today (`--current`) does not fit its nodes. For your information if the host was
    busy: the hypervisor took 5 % of the CPU time or more, or other programs used 10 % of the workers' CPUs.

    Silent on an idle host, if these numbers could not be read, and for launches that fit.
    """
    today = next((a for a in case.plan.alternatives if a.is_current), None) if case.plan is not None else None
    if today is not None and today.layout.cpus_per_node > case.cluster.cpus_per_node:
        wanted, there = today.layout.cpus_per_node, case.cluster.cpus_per_node
        message = f"the launch in use today, {today.layout}, wants {wanted} CPUs of nodes that have {there}"
        fix = f"keep tasks_per_node x cpus_per_task at {there} or below"
        evidence: dict[str, Scalar] = {"layout": str(today.layout), "cpus_per_node_wanted": wanted, "cpus_per_node": there}
        yield finding(None, message, fix, evidence, is_warning=True)
    # Launches of one worker, so that no other worker of ours competed with it.
    alone = [m.noise for m in case.measurements if m.layout.tasks == 1 and m.noise is not None]
    steals = [noise.steal_ratio for noise in alone if noise.steal_ratio is not None]
    stolen, taken = median(steals) if steals else None, others_ratio(case.measurements)
    facts = []
    if stolen is not None and stolen >= STOLEN_RATIO:
        facts.append(f"the hypervisor took {format_ratio(stolen)} of the CPU time")
    if taken is not None and taken >= TAKEN_RATIO:
        facts.append(f"other programs used {format_ratio(taken)} of the workers' CPUs")
    if facts:
        message = f"the measuring host was busy with something else: {' and '.join(facts)}"
        fix = "measure on an idle or exclusive node"
        evidence = {"steal_ratio": stolen, "others_ratio": taken, "launches": len(alone)}
        yield finding(None, message, fix, evidence)
