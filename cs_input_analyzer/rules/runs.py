"""Rules of what happened while measuring: workers that failed, memory, and figures that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.op_kinds import KEEPERS, WRITERS
from cs_input_analyzer.planning.capacity import dataset_bytes_per_node
from cs_input_analyzer.planning.capacity.assumptions import WORKER_CPU
from cs_input_analyzer.planning.evidence import READING, bottleneck, finding, free_bytes_per_node
from cs_input_analyzer.records import Case, Finding, Scalar, WorkerResult
from cs_input_analyzer.units import format_bytes, format_count, format_ratio


def corrupt_record(case: Case) -> Iterator[Finding]:
    """The data could not be read to the end.

    A record in the middle of a file failed its checksum, a file was cut short, or a function of the pipeline raised on one element.
    What was measured before it stands, but training would stop here too: `tf.data` gives no element after an error.

    Fix: write the named file again from its source, or give the user of the job permission to read it. `dataset.ignore_errors()`
    hides the loss, and hides it every epoch.

    Silent when every worker read without an error.
    """
    seen: set[str] = set()
    for measurement in case.measurements:
        for worker in measurement.workers:
            _, _, what = worker.message.partition(": ")  # without the number of batches, which differs from run to run
            if worker.status != "data_error" or what in seen:
                continue
            seen.add(what)
            message = f"worker {worker.index} met an element that cannot be read, {worker.message}"
            fix = f"{_mend(worker.message)}; training stops at this element too"
            evidence: dict[str, Scalar] = {"worker": worker.index, "layout": str(measurement.layout)}
            yield finding(None, message, fix, evidence, severity="error")


def errors_ignored(case: Case) -> Iterator[Finding]:
    """An `ignore_errors` drops elements that fail, and nothing says so.

    Training then sees fewer samples than the data hold. Each pass drops them again. Where a reader fails, it drops the rest of its
    file.

    Fix: mend the data, or the function that fails; then remove `ignore_errors`. Until then, `ignore_errors(log_warning=True)`
    prints each error. The share is that of the first elements before it (at most 10,000, or one second).

    Silent where none of those elements failed, where they were not looked at, and inside the functions of other ops.
    """
    ops = {op.name: op for op in case.pipeline.ops}
    seen: set[str] = set()
    for ignored in (each for m in case.measurements for worker in m.workers for each in worker.ignored if each.dropped):
        if ignored.op in seen or ignored.op not in ops:
            continue
        seen.add(ignored.op)
        count = f"{ignored.dropped} of {ignored.elements} elements"
        message = f"{ignored.op} drops {count} that were looked at; first error: {ignored.error}"
        fix = "mend the data or the function that fails, and remove ignore_errors; log_warning=True prints each error"
        evidence: dict[str, Scalar] = {"elements": ignored.elements, "dropped": ignored.dropped}
        yield finding(ops[ignored.op], message, fix, evidence, severity="error")


def _mend(message: str) -> str:
    if "Permission denied" in message:
        return "give the user of the job permission to read the named file"
    if "something writes to it" in message:
        return "let whatever writes the named file finish first, and read only files that are complete"
    if "No space left" in message:
        return "free some space, or set TMPDIR to another folder: file caches and snapshots go there while measuring"
    return "write the damaged file again from its source"


def worker_lost(case: Case) -> Iterator[Finding]:
    """A worker was lost while others went on.

    One of several workers died, or used more memory than allowed. The numbers of the others are kept, and what it had measured
    until then; the sums over a layout hold those who delivered.

    Fix: the message says what it was doing; a pipeline that fails in one shard of several will fail in training. A worker that was
    killed by signal 9 most likely met the kernel's out-of-memory killer: fewer tasks per node, or smaller buffers.

    A worker that we ended when the time of this run was over is not lost. It is reported for your information where it had stopped
    giving elements, or where the others of its launch were through.

    Silent when all workers delivered, and for launches that had too little time.
    """
    seen: dict[tuple[int, str], list[WorkerResult]] = {}
    for measurement in case.measurements:
        for worker in measurement.workers:
            # A worker that gives elements ends its window by itself: then it was late, and not short of time.
            is_behind = worker.samples_per_s is not None or any(other.status == "done" for other in measurement.workers)
            if worker.status == "lost" or (worker.status == "deadline" and is_behind):
                seen.setdefault((worker.index, str(measurement.layout)), []).append(worker)
    for (index, layout), lost in seen.items():
        launches = [m for m in case.measurements if str(m.layout) == layout and any(w.index == index for w in m.workers)]
        times = f" in {len(lost)} of {len(launches)} launches" if len(launches) > 1 else ""
        is_lost = any(worker.status == "lost" for worker in lost)
        message = f"worker {index} of layout {layout} was {'lost' if is_lost else 'not done in time'}{times}: {lost[0].message}"
        fix = _after_loss(lost[0])
        yield finding(None, message, fix, {"launches_lost": len(lost), "launches": len(launches)}, is_warning=is_lost)


def _after_loss(worker: WorkerResult) -> str:
    kept = "what it measured until then is kept" if worker.samples_per_s is not None else "its numbers are not in the sums"
    if "memory" in worker.message:
        return f"start fewer workers at once, shrink shuffle and prefetch buffers, or allow more with --worker-memory; {kept}"
    if worker.status == "deadline":
        return f"give it more time (--max-seconds, --start-timeout); where it is late again, run its shard alone to see why; {kept}"
    return f"run that worker's shard alone to see why; {kept}"


def dataset_exceeds_memory(case: Case) -> Iterator[Finding]:
    """A node of the plan cannot keep its part of the dataset in memory.

    The page cache makes the second pass over the files fast only where they fit beside the workers. Where they do not, every pass
    reads from storage, and a rate measured with the files in the cache is not the rate of training.

    With `--cache as-is` (the default) the analyzer then measures again with cold files, and plans on that: the finding is for your
    information. A warning where the plan rests on cached files all the same, because you chose `--cache warm` or the time was up.

    Fix: nodes with more memory, more nodes (each reads a smaller share), or smaller records; `--cache cold` measures the worst
    case.

    Silent where the files fit, where no files were found, and without a plan.
    """
    plan, (need, room) = case.plan, _need_and_room(case)
    if plan is None or case.pipeline.files is None or need <= room:
        return
    is_cold = plan.cache_state == "cold"
    basis = "the plan rests on cold reads" if is_cold else "but the plan rests on files in the cache, which training will not find"
    message = f"each node reads {format_bytes(need)} and has {format_bytes(room)} left to keep them in: {basis}"
    fix = None if is_cold else "measure with --cache cold, or give --max-seconds more time"
    evidence = {"bytes_per_node": need, "free_bytes_per_node": round(room), "cache_state": plan.cache_state}
    yield finding(None, message, fix, evidence, severity="info" if is_cold else "warning")


WARM_RATIO = 0.9
FILLING_RATIO = 0.02


def cold_cache(case: Case) -> Iterator[Finding]:
    """The first pass over the data was measured, and later ones will be faster: no cache was full yet.

    Where the pipeline has a `cache`, the first pass fills it, and does all the work before it. A window that ends earlier says
    nothing about the passes that read the cache.

    The first pass also reads the files from storage; where a node's memory holds its part of them, all later passes read from the
    page cache. A run that starts with an empty page cache measures the first pass, or some mixture of both, and a plan made of it
    has more workers than later passes need.

    Fix: for a `cache`, a larger `--max-seconds`, or fewer files. For the files, `--cache warm` measures the later passes, `--cache
    cold` the first one for certain; or run again, now that the files have been read.

    A warning where no window was of a full `cache`, and where the last measurement was still cold and reading holds the worker
    back, so that the plan depends on it; else for your information.

    Silent where you chose `--cache cold` or `warm`, where the plan rests on cold reads on purpose, where a node's memory cannot
    hold its files anyway (CSI503), where nine tenths of them were in memory, where reading them again and again left nothing in
    memory (a file system that is not cached), and where the kernel does not tell.
    """
    yield from _own_cache(case)
    if case.plan is not None and case.plan.cache_state != "as-is":
        return
    need, room = _need_and_room(case)
    if any(one.cache_state != "as-is" for one in case.measurements) or case.pipeline.files is None or need > room:
        return
    known = [m.page_cache_ratio for m in case.measurements if m.page_cache_ratio is not None]
    is_filling = len(known) == 1 or (len(known) > 1 and max(known) >= known[0] + FILLING_RATIO)
    if not is_filling or known[0] >= WARM_RATIO:
        return
    reading = bottleneck(case, READING) if known[-1] < WARM_RATIO else None
    effect = "and reading them held the worker back: later passes will be faster" if reading else "later passes may be faster"
    message = f"only {format_ratio(known[0])} of the files were in memory when measuring began; {effect}"
    fix = "measure with --cache warm for the later passes, or with --cache cold for the first"
    evidence = {"page_cache_ratio": known[0], "last_page_cache_ratio": known[-1], "limited_by": reading.kind if reading else None}
    yield finding(None, message, fix, evidence, is_warning=reading is not None)


def _own_cache(case: Case) -> Iterator[Finding]:
    """Every window ended before the pipeline's own cache was full."""
    measured = [m for m in case.measurements if m.measured_workers]
    if not measured or not all(m.is_filling_cache for m in measured):
        return
    op = next((op for op in case.pipeline.ops if op.kind in KEEPERS and op.within is None), None)
    message = "the cache of the pipeline was not full when measuring ended: all numbers are of the first pass"
    fix = "measure longer (--max-seconds), until a first pass is through, or fewer files"
    evidence = {"windows": len(measured)}
    yield finding(op, message, fix, evidence, is_warning=True)


def _need_and_room(case: Case) -> tuple[float, float]:
    """Bytes of the files that a node reads, and those of its memory that the workers of the plan leave for them."""
    files, room = case.pipeline.files, free_bytes_per_node(case)
    if files is None or case.plan is None:
        return files.bytes if files is not None else 0, room
    return dataset_bytes_per_node(files, case.plan, is_sharded=case.is_sharded), room


# CPU time is counted by the scheduler's ticks, and readers run alone for a second: so far apart, neither explains the difference.
OVER_RATIO = 1.15
FAR_RATIO = 1.5
# A worker that leaves so much of its CPUs idle is not held back by them.
IDLE_RATIO = 0.4


def tables_disagree(case: Case) -> Iterator[Finding]:
    """Two figures of this run contradict each other; the message says which of them is believed.

    The same worker is measured in several ways, which must agree: the CPU time that the kernel counts and the CPUs there are, the
    readers run alone and the whole pipeline, how busy CPUs are and what limits the plan. Where they do not, one of them is about
    something else, or was disturbed. What was run is believed before what was worked out.

    Fix: measure again for longer, with nothing else on this host, and see whether it stays.

    Silent where the figures agree within their errors, and where only one of them was measured.
    """
    for message, evidence in (*_cpus(case), *_readers(case), *_limits(case)):
        fix = "measure again for longer (--max-seconds), with nothing else on this host"
        yield finding(None, message, fix, evidence)


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
    """The readers run alone against the rate of the whole."""
    alone = case.storage.source_samples_per_s if case.storage is not None else None
    rates = [w.samples_per_s for m in case.measurements if m.layout.tasks == 1 for w in m.measured_workers if w.samples_per_s]
    if alone is None or not rates or any(op.kind in KEEPERS | WRITERS for op in case.pipeline.ops):
        return
    whole = max(rates, key=lambda rate: rate.low)
    if whole.low > FAR_RATIO * alone.high:
        yield (
            f"the readers alone gave {format_count(alone.estimate)} samples/s, the whole pipeline {format_count(whole.estimate)}: "
            "the latter is believed, and the readers are no limit",
            {"readers_samples_per_s": alone.estimate, "worker_samples_per_s": whole.estimate},
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
