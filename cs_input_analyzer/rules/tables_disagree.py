"""Two figures of this run contradict each other; the message says which of them is believed.

The same worker is measured in several ways, which must agree: the CPU time that the kernel counts and the CPUs there are, the
readers run alone and the cost table, how busy CPUs are and what limits the plan, the rate and the time between two batches. Where
they do not, one of them is about something else, or was disturbed. Rates are timed batch by batch and are believed before
costs; what was run is believed before what was worked out.

Fix: measure again for longer, with nothing else on this host, and see whether it stays.

Silent where the figures agree within their errors, and where only one of them was measured.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.op_kinds import KEEPERS, WRITERS, kinds_with
from cs_input_analyzer.pipeline.threads import inside, reader_ops
from cs_input_analyzer.planning.capacity import WORKER_CPU
from cs_input_analyzer.planning.evidence import widest_cpus
from cs_input_analyzer.records import Case, Finding
from cs_input_analyzer.units import format_count

# CPU time is counted by the scheduler's ticks, and readers run alone for a second: so far apart, neither explains the difference.
OVER_RATIO = 1.15
FAR_RATIO = 1.5
# A worker that leaves so much of its CPUs idle is not held back by them.
IDLE_RATIO = 0.4
# Readers that run alone keep at least one thread busy; a table that shows less than this of that time misses them.
# What is less than a third of the whole is no matter.
LEAST_SHOWN_RATIO = 0.1
TELLING_RATIO = 0.3
BETWEEN_PASSES_RATIO = 0.5


def find(case: Case) -> Iterator[Finding]:
    for message, evidence in (*_cpus(case), *_readers(case), *_limits(case), *_passes(case)):
        yield Finding(
            severity="info",
            message=message,
            evidence=evidence,
            fix="measure again for longer (--max-seconds), with nothing else on this host",
        )


_Contradiction = tuple[str, dict[str, str | float | int | bool | None]]


def _cpus(case: Case) -> Iterator[_Contradiction]:
    """CPU used against CPUs given (utilization law): a worker is bound to its CPUs, so that it cannot have used more."""
    used = [
        (worker.samples_per_s.estimate * worker.cpu_s_per_sample / m.layout.cpus_per_task, m.layout)
        for m in case.measurements
        for worker in m.measured_workers
        if m.isolation == "process" and worker.samples_per_s is not None and worker.cpu_s_per_sample is not None
    ]
    ratio, layout = max(used, key=lambda one: one[0], default=(0.0, None))
    if layout is not None and ratio > OVER_RATIO:
        cpus = layout.cpus_per_task
        yield (
            f"a worker of {layout} used {ratio * cpus:.2f} of its {cpus} CPUs by its CPU time and its rate: the rate is believed, "
            f"and the cost of a sample is at least {1 - 1 / ratio:.0%} too high",
            {"layout": str(layout), "cpus_used": ratio * cpus, "cpus": cpus},
        )


def _readers(case: Case) -> Iterator[_Contradiction]:
    """The readers run alone against the rate of the whole, and against their rows."""
    ops, alone = case.pipeline.ops, case.storage.source_samples_per_s if case.storage is not None else None
    rates = [w.samples_per_s for m in case.measurements if m.layout.tasks == 1 for w in m.measured_workers if w.samples_per_s]
    reading = reader_ops(ops)
    cpus = widest_cpus(case)
    if alone is None or not rates or not reading or not cpus or any(op.kind in KEEPERS | WRITERS for op in ops):
        return
    whole = max(rates, key=lambda rate: rate.low)
    evidence: dict[str, str | float | int | bool | None] = {
        "readers_samples_per_s": alone.estimate,
        "worker_samples_per_s": whole.estimate,
    }
    if whole.low > FAR_RATIO * alone.high:
        yield (
            f"the readers alone gave {format_count(alone.estimate)} samples/s, the whole pipeline {format_count(whole.estimate)}: "
            "the latter is believed, and the readers are no limit",
            evidence,
        )
        return
    if any(op.kind not in kinds_with("reads") for op in reading):  # a map that reads files does more than what was run alone of it
        return
    holders = {op.name for op in ops if any(one in reading for one in (op, *inside(op, ops)))}
    rows = [row for row in case.profile.ops if row.name in holders] if case.profile is not None else []
    cpu_s = sum(row.self_cpu_s_per_sample or 0.0 for row in rows)
    thread_s = cpu_s + sum(max(0.0, row.wait_s_per_sample or 0.0) for row in rows)
    all_s = (case.profile.cpu_s_per_sample if case.profile is not None else None) or 0.0
    if cpu_s * alone.low > FAR_RATIO * cpus and cpu_s > TELLING_RATIO * all_s:
        yield (
            f"the cost table gives the readers {cpu_s * 1e6:.3g} µs of CPU for a sample, but alone they gave one in "
            f"{cpus / alone.estimate * 1e6:.3g} µs of all CPUs: the latter is believed, and their rows hold what others cost",
            {**evidence, "readers_cpu_s_per_sample": cpu_s},
        )
    if case.profile is not None and whole.estimate > TELLING_RATIO * alone.high and thread_s * alone.high < LEAST_SHOWN_RATIO:
        yield (
            f"the readers alone took {1e6 / alone.estimate:.3g} µs for a sample, but the cost table shows them busy for "
            f"{thread_s * 1e6:.3g} µs: the former is believed, and what they cost stands at other rows, or at none",
            {**evidence, "readers_thread_s_per_sample": thread_s},
        )


def _limits(case: Case) -> Iterator[_Contradiction]:
    """What limits the plan against how busy its workers' CPUs were, or would have been: waiting for a CPU is no idleness."""
    if case.plan is None or case.plan.limited_by != WORKER_CPU:
        return
    cpus = case.plan.cpus_per_task
    busy = [
        worker.samples_per_s.estimate * worker.cpu_s_per_sample * (1 + worker.noise.run_queue_wait_ratio) / cpus
        for m in case.measurements
        for worker in m.measured_workers
        if m.layout.cpus_per_task == cpus and worker.samples_per_s is not None and worker.cpu_s_per_sample is not None
        if worker.noise is not None and worker.noise.run_queue_wait_ratio is not None
    ]
    idle = 1 - max(busy, default=1.0)
    if idle > IDLE_RATIO:
        first = case.stations[0] if case.stations else None
        named = f" ({first.kind}{f' {first.op}' if first.op else ''} holds one back)" if first and first.kind != "CPU" else ""
        yield (
            f"the plan is limited by the CPUs of its workers, which are idle {idle:.0%} of the time{named}: that more CPUs help is "
            "believed, as it was measured; what they add is not computing but calls that wait side by side",
            {"idle_ratio": idle, "cpus_per_task": cpus},
        )


def _passes(case: Case) -> Iterator[_Contradiction]:
    """The rate against the time between batches: where passes are short, most of the time is their restart."""
    for m in case.measurements:
        for worker in m.measured_workers:
            state, gap = worker.steady_state, worker.batch_gap_s
            if state is None or not state.epoch_gap_s or gap is None or gap.p50 <= 0 or not worker.batches_per_s:
                continue
            restarting = state.epochs * state.epoch_gap_s / (state.window_s + state.transient_s)
            agree = gap.p50 * worker.batches_per_s > 1 - BETWEEN_PASSES_RATIO  # each batch is a pass
            if restarting > BETWEEN_PASSES_RATIO and not agree:
                yield (
                    f"batches come every {gap.p50 * 1e3:.3g} ms, but a worker of {m.layout} gave one in "
                    f"{1e3 / worker.batches_per_s:.3g} ms: {min(restarting, 1.0):.0%} of the time went between the end of one pass "
                    "and the first batch of the next; the rate, with it, is believed",
                    {"restart_ratio": min(restarting, 1.0), "passes": state.epochs, "epoch_gap_s": state.epoch_gap_s},
                )
                return
