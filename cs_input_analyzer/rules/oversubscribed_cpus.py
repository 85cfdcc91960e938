"""More threads want to run than there are CPUs for them.

A launch that asks for more CPUs than a node has makes its tasks take turns: each is slower, and the slowest one sets the pace.
The same happens from outside: other jobs on the measuring host, or a hypervisor that gives its CPUs to several virtual
machines. Rates measured then are too low, and not the same twice.

Fix: tasks_per_node x cpus_per_task at most the CPUs of a node; measure on an idle or exclusive node (`--exclusive`).

A warning for the launch in use today (`--current`) where it does not fit its nodes. For your information where the host was
busy: the hypervisor took 5 % of the CPU time or more, or threads that had lost their CPU in the middle of work waited for
another one longer than they ran. (A worker whose own threads outnumber its CPUs waits for half as long.)

Silent on a quiet host, where such numbers were not read, and for launches that fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from cs_input_analyzer.records import Case, Finding, Noise
from cs_input_analyzer.units import format_ratio

STOLEN_RATIO = 0.05
PREEMPTED_RATIO = 1.0  # 0.55 at most in workers alone on a quiet host, all their CPUs busy


def find(case: Case) -> Iterator[Finding]:
    today = next((a for a in case.plan.alternatives if a.is_current), None) if case.plan is not None else None
    if today is not None and today.layout.cpus_per_node > case.cluster.cpus_per_node:
        wanted, there = today.layout.cpus_per_node, case.cluster.cpus_per_node
        yield Finding(
            severity="warning",
            message=f"the launch in use today, {today.layout}, wants {wanted} CPUs of nodes that have {there}",
            evidence={"layout": str(today.layout), "cpus_per_node_wanted": wanted, "cpus_per_node": there},
            fix=f"keep tasks_per_node x cpus_per_task at {there} or below",
        )
    # A worker alone on the host, so that nobody of ours was in its way.
    alone = [m.noise for m in case.measurements if m.layout.tasks == 1 and m.noise is not None]
    stolen, preempted = _median(alone, "steal_ratio"), _median(alone, "preempted_ratio")
    facts = []
    if stolen is not None and stolen >= STOLEN_RATIO:
        facts.append(f"the hypervisor took {format_ratio(stolen)} of the CPU time")
    if preempted is not None and preempted >= PREEMPTED_RATIO:
        facts.append(f"threads that had lost their CPU waited for {preempted:.1f} times as long as they ran")
    if facts:
        yield Finding(
            severity="info",
            message=f"the measuring host was busy with something else: {' and '.join(facts)}",
            evidence={"steal_ratio": stolen, "preempted_ratio": preempted, "launches": len(alone)},
            fix="measure on an idle or exclusive node",
        )


def _median(noises: list[Noise], name: str) -> float | None:
    """None where no launch has it."""
    values = [value for noise in noises if (value := getattr(noise, name)) is not None]
    return median(values) if values else None
