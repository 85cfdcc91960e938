"""Rules of the measurement itself: workers that failed, memory, and caches."""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.model.capacity import dataset_bytes_per_node
from cs_input_analyzer.model.evidence import READING, bottleneck, finding, free_bytes_per_node, is_full, windows_of
from cs_input_analyzer.records import CACHED_RATIO, Case, Finding, Measurement, Scalar, WorkerResult
from cs_input_analyzer.tfdata.op_kinds import KEEPERS
from cs_input_analyzer.units import format_bytes, format_ratio

# Words of a reading error -> what to do.
_REMEDIES = {
    "Permission denied": "give the user of the job permission to read the named file",
    "something writes to it": "let whatever writes the named file finish first, and read only files that are complete",
    "No space left": "free some space, or set TMPDIR to another folder: file caches and snapshots go there while measuring",
    **dict.fromkeys(
        ("corrupted record", "truncated", "checksum", "inflate() failed", "DataLoss"),
        "write the damaged file again from its source",
    ),
    **dict.fromkeys(
        ("Cannot batch tensors", "Cannot add tensor to the batch", "pad to a smaller size"),
        "pad, crop or resize the elements to one shape before the batch",
    ),
}
_ELSE = "repair the function that fails, or the data of this element"


def corrupt_record(case: Case) -> Iterator[Finding]:
    """The data could not be read to the end.

    A record in the middle of a file failed its checksum, a file was cut short, or a function of the pipeline raised on
    one element. Measurements before the error are kept. Training would stop here too: `tf.data` gives no element after
    an error.

    Fix: write a damaged file again from its source, or give the user of the job permission to read it. If elements
    differ in shape, pad, crop or resize them before the batch. Else repair the function that failed, or the data of the
    element. `dataset.ignore_errors()` would hide the loss in every epoch.

    Silent if every worker read without an error.
    """
    seen: set[str] = set()
    for measurement in case.measurements:
        for worker in measurement.workers:
            _, _, what = worker.message.partition(": ")  # without the number of batches, which differs from run to run
            if worker.status != "data_error" or what in seen:
                continue
            seen.add(what)
            message = f"worker {worker.index} met an element that cannot be read, {worker.message}"
            remedy = next((remedy for words, remedy in _REMEDIES.items() if words in worker.message), _ELSE)
            fix = f"{remedy}; training stops at this element too"
            evidence: dict[str, Scalar] = {"worker": worker.index, "layout": str(measurement.layout)}
            yield finding(None, message, fix, evidence, severity="error")


def errors_ignored(case: Case) -> Iterator[Finding]:
    """An `ignore_errors` silently drops elements that fail.

    Training then sees fewer samples than the data hold. Each pass drops them again. If a reader fails, the rest of its
    file is dropped.

    Fix: repair the data or the failing function, then remove `ignore_errors`. Until then,
    `ignore_errors(log_warning=True)` prints each error. The finding gives the dropped share of the first elements (at
    most 10,000, or one second). Shuffles and caches are left out of this count, because they would have to be filled
    first.

    Silent if none of those elements failed, if they were not checked, and inside the functions of other ops.
    """
    ops = {op.name: op for op in case.pipeline.ops}
    seen: set[str] = set()
    for ignored in (each for m in case.measurements for worker in m.workers for each in worker.ignored if each.dropped):
        if ignored.op in seen or ignored.op not in ops:
            continue
        seen.add(ignored.op)
        count = f"{ignored.dropped} of {ignored.elements} elements"
        message = f"{ignored.op} drops {count} that were looked at; first error: {ignored.error}"
        fix = "repair the data or the failing function, and remove ignore_errors; log_warning=True prints each error"
        evidence: dict[str, Scalar] = {"elements": ignored.elements, "dropped": ignored.dropped}
        yield finding(ops[ignored.op], message, fix, evidence, severity="error")


def worker_lost(case: Case) -> Iterator[Finding]:
    """A worker was lost while others went on.

    One of several workers died, or used more memory than allowed. Its measurements until then are kept, and so are the
    numbers of the others. The sums of a launch cover the workers that delivered.

    Fix: see the message for the worker's last activity. A pipeline that fails in one shard of several will fail in
    training. Signal 9 most likely came from the kernel's out-of-memory killer: use fewer tasks per node, or smaller
    buffers.

    Silent if all workers delivered, and for workers that only ran out of time.
    """
    causes: dict[str, list[tuple[Measurement, WorkerResult]]] = {}
    for measurement in case.measurements:
        for worker in measurement.workers:
            if worker.status == "lost":
                causes.setdefault(worker.message, []).append((measurement, worker))
    for said, met in causes.items():  # one finding for all workers with the same message
        (launch, first), met_by = met[0], {(worker.index, str(one.layout)) for one, worker in met}
        launches = [one for one in case.measurements if one.layout == launch.layout and len(one.workers) > first.index]
        more = f" (and {len(met_by) - 1} more workers)" if len(met_by) > 1 else ""
        hit = sum(any(one is other for other, _ in met) for one in launches)
        times = f" in {hit} of {len(launches)} launches" if len(launches) > 1 else ""
        message = f"worker {first.index} of layout {launch.layout} was lost{times}{more}: {said}"
        evidence = {"workers": len(met), "launches_lost": hit, "launches": len(launches)}
        fix = "run that worker's shard alone to see why"
        if "memory" in said:
            fix = "start fewer workers at once, shrink shuffle and prefetch buffers, or allow more with --worker-memory"
        kept = "what it measured until then is kept" if first.samples_per_s is not None else "its numbers are not in the sums"
        yield finding(None, message, f"{fix}; {kept}", evidence, is_warning=True)


def dataset_exceeds_memory(case: Case) -> Iterator[Finding]:
    """A node of the plan cannot keep its part of the dataset in memory.

    The page cache makes the second pass over the files fast only if they fit beside the workers. Otherwise every pass
    reads from storage, and a rate measured with cached files is not the rate of training.

    With `--cache as-is` (the default) the analyzer then measures again with cold files, and plans with that rate: the
    finding is for your information. A warning if the plan still rests on cached files, because you chose `--cache warm`
    or time ran out.

    Fix: nodes with more memory, more nodes (each reads a smaller share), or smaller records; `--cache cold` measures
    the worst case.

    Silent if the files fit, if no files were found, and without a plan.
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


FILLING_RATIO = 0.02


def cold_cache(case: Case) -> Iterator[Finding]:
    """The first pass over the data was measured, and later passes will be faster: no cache was full yet.

    If the pipeline has a `cache`, the first pass fills it, and does all the work before it. A measurement that ends
    earlier says nothing about the passes that read the cache.

    The first pass also reads the files from storage. If a node's memory holds its part of them, all later passes read
    from the page cache. A run that starts with an empty page cache measures the first pass, or a mixture of both. Its
    plan has more workers than later passes need.

    Fix: for a `cache`, a larger `--max-seconds`, or fewer files. For the files, `--cache warm` measures the later
    passes, and `--cache cold` the first one. Or run again, because the files are in memory now.

    A warning if no window was of a full `cache`, or if that cannot be seen. Before TensorFlow 2.17, and with autotune
    off, it is seen only if the graph tells how long the first pass is. A warning if the last measurement was still cold
    and reading holds the worker back, so that the plan depends on it. Else for your information.

    Silent about the files if a full `cache` feeds the measured passes, which read no file. Silent if you chose `--cache
    cold` or `warm`, or if the plan rests on cold reads on purpose. Silent if a node's memory cannot hold its files
    anyway (CSI503). Silent if 95 % of them or more were in memory, or if the kernel does not tell. Silent if reading
    them again left nothing more in memory (a file system that is not cached).
    """
    yield from _own_cache(case)
    is_fed = any(op.kind == "Cache" and op.within is None and is_full(case, op) for op in case.pipeline.ops)
    if is_fed or (case.plan is not None and case.plan.cache_state != "as-is"):
        return
    need, room = _need_and_room(case)
    if any(one.cache_state != "as-is" for one in case.measurements) or case.pipeline.files is None or need > room:
        return
    known = [m.page_cache_ratio for m in case.measurements if m.page_cache_ratio is not None]
    is_filling = len(known) == 1 or (len(known) > 1 and max(known) >= known[0] + FILLING_RATIO)
    if not is_filling or known[0] >= CACHED_RATIO:
        return
    reading = bottleneck(case, READING) if known[-1] < CACHED_RATIO else None
    effect = "and reading them held the worker back: later passes will be faster" if reading else "later passes may be faster"
    message = f"only {format_ratio(known[0])} of the files were in memory when measuring began; {effect}"
    fix = "measure with --cache warm for the later passes, or with --cache cold for the first"
    evidence = {"page_cache_ratio": known[0], "last_page_cache_ratio": known[-1], "limited_by": reading.kind if reading else None}
    yield finding(None, message, fix, evidence, is_warning=reading is not None)


def _own_cache(case: Case) -> Iterator[Finding]:
    """Yield a finding if the pipeline's own cache was never seen full."""
    measured = [m for m in case.measurements if m.measured_workers]
    states = windows_of(measured)
    if measured and all(m.is_filling_cache for m in measured):
        message = "the cache of the pipeline was not full when measuring ended: all numbers are of the first pass"
        fix = "measure longer (--max-seconds), until a first pass is through, or fewer files"
    elif states and all(state.is_filling_cache is None for state in states):
        message = "whether the cache of the pipeline was full cannot be seen: the numbers may be of the slower first pass"
        fix = "measure with TensorFlow 2.17 or newer, and with autotune on, which shows it"
    else:
        return
    op = next((op for op in case.pipeline.ops if op.kind in KEEPERS and op.within is None), None)
    yield finding(op, message, fix, {"windows": len(measured)}, is_warning=True)


def _need_and_room(case: Case) -> tuple[float, float]:
    """Return the bytes of the files that a node reads, and the memory that the workers of the plan leave for them."""
    files, room = case.pipeline.files, free_bytes_per_node(case)
    if files is None or case.plan is None:
        return files.bytes if files is not None else 0, room
    return dataset_bytes_per_node(files, case.plan, is_sharded=case.is_sharded), room
