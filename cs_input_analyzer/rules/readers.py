"""Rules of reading: the number of files that are read at a time."""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.model.evidence import (
    PAYING_RATIO,
    READING,
    bottleneck,
    files_read,
    finding,
    is_idle,
    reads_at_once,
    share_of,
    widest_cpus,
)
from cs_input_analyzer.records import Case, Edit, EditKind, Finding, Op
from cs_input_analyzer.tfdata.folding import folding_of, joint_of
from cs_input_analyzer.tfdata.lineage import freeing_shuffle, upstream
from cs_input_analyzer.tfdata.op_traits import (
    THREADS_PER_FILE,
    cost_of,
    fixed_number,
    has_written_cycle,
    is_made_by_reader,
    made_by,
    opens_files,
    reader_call,
)
from cs_input_analyzer.tfdata.source.code import AUTOTUNE
from cs_input_analyzer.tfdata.threads import inside, reader_ops
from cs_input_analyzer.units import counted

# Four readers keep a local disk or a page cache busy; more help only with slow storage.
ENOUGH_READERS = 4


def short_cycle(case: Case) -> Iterator[Finding]:
    """An `interleave`, or a reader with `num_parallel_reads`, reads from too few files at a time.

    Slow storage gives more to more readers, and the cycle limits their number, whatever `num_parallel_calls` says.
    TensorFlow chooses a cycle by the CPUs of the task, not by the storage. That is too few if reads only wait.

    Fix: a longer cycle, and as many calls. If reads only wait and an unseeded shuffle of the records follows, the fix
    reads enough files at once to keep the CPUs busy (Little's law). The order of the elements changes with the cycle.
    So the fix needs such a shuffle, or a training that needs no order.

    Silent if reading does not hold the worker back. Silent without a measurement if more than one file is read at a
    time. Silent if a cycle in your code reads from four files (or all) and a third of the CPUs at a time. Silent if
    reads do not wait or their order counts, and TensorFlow chose the cycle or your code takes it from the CPUs.
    """
    ops = case.pipeline.ops
    for op in ops:
        cycle = op.parameters.get("cycle_length")
        if op.kind != "ParallelInterleave" or not isinstance(cycle, int) or op.within is not None:
            continue
        if not opens_files(op, ops):
            continue
        calls = op.parameters.get("num_parallel_calls")
        if not isinstance(calls, int) or calls < 1:
            cost = cost_of(op, case.profile)
            calls = cost.parallelism if cost is not None and cost.parallelism else cycle
        # The number of calls, or of open files if that is smaller.
        now = max(1.0, min(cycle, calls) if cycle > 0 else calls)
        reads = reads_at_once(case, now) if freeing_shuffle(op, ops) is not None else None
        if reads is not None and reads >= PAYING_RATIO * now:
            yield _waiting(op, now, reads, case)
        elif fixed_number(op, "cycle_length") and (has_written_cycle(op, ops) or _has_written_reads(op, ops)):
            yield from _fixed(op, cycle, case)


def _has_written_reads(op: Op, ops: tuple[Op, ...]) -> bool:
    """Return whether the code gives a reader a number of parallel reads: with AUTOTUNE TensorFlow makes another op of it."""
    return is_made_by_reader(op, ops) and "num_parallel_calls" not in op.parameters


def _fixed(op: Op, cycle: int, case: Case) -> Iterator[Finding]:
    calls = fixed_number(op, "num_parallel_calls")
    now = min(cycle, calls) if calls is not None and calls > 0 else cycle
    most = files_read(case, op)
    better = max(ENOUGH_READERS, -(-(widest_cpus(case) or 1) // THREADS_PER_FILE))
    better = min(better, most or better)
    station = bottleneck(case, (*READING, "fixed parallelism"))
    if better <= now or (station is None and (case.stations or now > 1)):
        return
    wanted: list[tuple[EditKind, str]] = []
    if cycle < better:
        wanted.append(("set-cycle-length", "num_parallel_reads" if is_made_by_reader(op, case.pipeline.ops) else "cycle_length"))
    if calls is not None and 0 < calls < better:
        wanted.append(("set-parallelism", "num_parallel_calls"))
    message = f"{op.name} reads from {counted(now, 'file')} at a time, {better} at a time may read faster"
    fix = f"give it {' and '.join(f'{argument}={better}' for _, argument in wanted)}"
    fix += ", if you need no order of its elements" if cycle < better else ""
    evidence = {"cycle_length": cycle, "reads_at_once_now": now, "files": most}
    yield finding(op, message, fix, evidence, edits=tuple(Edit(kind=kind, op=op.name, value=better) for kind, _ in wanted))


def _waiting(op: Op, now: float, reads: int, case: Case) -> Finding:
    # A reader with `num_parallel_reads` makes one call per file of its cycle, and has no number of calls.
    has_calls = "num_parallel_calls" in op.parameters
    kinds: tuple[EditKind, ...] = ("set-cycle-length", "set-parallelism") if has_calls else ("set-cycle-length",)
    few = counted(round(now), "file")
    message = f"{op.name} reads from {few} at a time and mostly waits for them; {reads} would keep the CPUs busy"
    fix = f"read {reads} files at once: the storage answers slowly, and AUTOTUNE stops at the number of CPUs"
    evidence = {"reads_at_once_now": now, "reads_at_once": reads, "files": files_read(case, op)}
    edits = tuple(Edit(kind=kind, op=op.name, value=reads) for kind in kinds)
    return finding(op, message, fix, evidence, is_warning=True, edits=edits)


def flat_map_over_files(case: Case) -> Iterator[Finding]:
    """A `flat_map` opens one file after the other.

    Nothing is read while the next file is opened, and only one file is read at a time.

    Fix: `interleave` with `num_parallel_calls=tf.data.AUTOTUNE`, which opens files ahead and reads several at a time.
    If no unseeded shuffle of the records follows, the order must stay: `cycle_length=1` keeps it, and the next files
    are still opened ahead. AUTOTUNE stops at the number of CPUs. Reads that only wait for the storage need a number,
    which follows from the latency of the storage (Little's law) and the capacity of the CPUs.

    Silent for `interleave`, for a single file, and for a flat_map that reads no files (every `from_generator` is one).
    Silent if it did not run, as before a full cache. Silent if there are several readers, and the graph does not say
    how many files each has.
    """
    ops = case.pipeline.ops
    for op, count in _one_at_a_time(case, ("FlatMap",)):
        if is_made_by_reader(op, ops):  # CSI105 is about that
            continue
        is_moot, reads = freeing_shuffle(op, ops) is not None, _reads(op, case)
        how = f"{f'{count:,} files' if count is not None else 'files'} one after the other"
        fix = f"use interleave(…, {'' if is_moot else 'cycle_length=1, '}num_parallel_calls={reads or AUTOTUNE})"
        yield _one_by_one(op, case, how, fix, (Edit(kind="interleave", op=op.name, value=reads),))


def _one_at_a_time(case: Case, kinds: tuple[str, ...]) -> Iterator[tuple[Op, int | None]]:
    """Yield the ops of these kinds that read several files on one thread, with the number of files.

    The number is None if the graph does not name the files. A single reader may then have several files; of several
    readers none is known to.
    """
    ops = case.pipeline.ops
    for op in ops:
        if op.kind not in kinds or op.within is not None or not opens_files(op, ops) or is_idle(case, op):
            continue
        count = files_read(case, op)
        if count > 1 if count is not None else len(reader_ops(ops)) < 2:
            yield op, count


def _one_by_one(op: Op, case: Case, how: str, fix: str, edits: tuple[Edit, ...]) -> Finding:
    holds_back = _holds_back(case, (op, *inside(op, case.pipeline.ops)))
    name = made_by(op, case.pipeline.ops) if is_made_by_reader(op, case.pipeline.ops) else op.name
    message = f"{name} reads {how}" + (", which holds the worker back" if holds_back else "")
    evidence = {"reads_at_once_now": 1, "reads_at_once": edits[0].value, "files": files_read(case, op)}
    return finding(op, message, fix, evidence, is_warning=holds_back, edits=edits)


def _holds_back(case: Case, ops: tuple[Op, ...]) -> bool:
    """Return whether reading holds the worker back, on the thread of one of these ops or in the storage."""
    return bottleneck(case, (*READING, "serial op"), at={None, *(op.name for op in ops)}) is not None


def sequential_reads(case: Case) -> Iterator[Finding]:
    """A reader takes one file after the other, or several in turn, on one thread.

    `tf.data.TFRecordDataset(files)` reads its files in sequence unless `num_parallel_reads` is given. An `interleave`
    without `num_parallel_calls` reads from several files, but only from one at a time. Either way the pipeline waits
    for every read.

    Fix: `num_parallel_reads=tf.data.AUTOTUNE` in the reader, or `num_parallel_calls=tf.data.AUTOTUNE` in the
    `interleave`. The interleave keeps its order if it has a `cycle_length`; the reader mixes its files. If no unseeded
    shuffle of the records follows, an `interleave` with `cycle_length=1` in place of the reader keeps the order. Reads
    that only wait for the storage need a number, because AUTOTUNE stops at the number of CPUs. An interleave then needs
    a cycle of that length.

    A loop with `data = data.concatenate(one(file))` is slower still: each element passes through up to one op per file.
    Fix: `tf.data.Dataset.from_tensor_slices(files).interleave(one)`.

    Silent if several files are read at a time, and for a single file. Silent if it did not run, as before a full cache.
    Silent if there are several readers, and the graph does not say how many files each has. Silent for a `concatenate`
    of a few datasets, or of different ones. See CSI104 for `flat_map`.
    """
    ops = case.pipeline.ops
    yield from _concatenated(case)
    for op, _ in _one_at_a_time(case, ("FlatMap", "Interleave")):
        if op.kind == "FlatMap" and is_made_by_reader(op, ops):
            reads = _reads(op, case)
            fix = f"give it num_parallel_reads={reads or AUTOTUNE}"
            if freeing_shuffle(op, ops) is None:
                call = f"interleave(…, cycle_length=1, num_parallel_calls={AUTOTUNE})"
                fix = f"call {reader_call(op, ops) or 'the reader'} for each file in an {call}, which keeps the order"
            yield _one_by_one(op, case, "one file at a time", fix, (Edit(kind="interleave", op=op.name, value=reads),))
        elif op.kind == "Interleave":
            yield _one_by_one(op, case, "one file at a time", *_interleave_fix(op, case))


def _concatenated(case: Case) -> Iterator[Finding]:
    """Yield a finding for datasets of one file each that a loop concatenates."""
    ops = case.pipeline.ops
    last = joint_of(ops)
    if last is None or last.kind != "Concatenate":
        return
    folding, before = folding_of(ops), upstream(last, ops)
    readers, joins = reader_ops(before), {op.name for op in folding.groups.get(folding.firsts.get(last.name, ""), ())}
    branches = [name for op in (*before, last) if op.name in joins for name in op.inputs if name not in joins]
    are_alike = len({folding.label(name) for name in branches}) == 1 and len(branches) == len(joins) + 1
    if not are_alike or len(readers) != len(branches) or any(op.files is None or op.files.count != 1 for op in readers):
        return
    holds_back = _holds_back(case, (last, *before))
    message = f"{last.name} is the last of {len(joins)} in a row, which join {len(branches)} datasets of one file each: an element "
    message += f"passes up to {len(joins)} of them" + (", and this holds the worker back" if holds_back else "")
    keeps = "" if freeing_shuffle(last, ops) is not None else "cycle_length=1, "
    order = "keeps the order" if keeps else "changes the order, as the shuffle behind it does"
    call = f"tf.data.Dataset.from_tensor_slices(files).interleave(one, {keeps}num_parallel_calls={AUTOTUNE})"
    fix = f"make one dataset of all files, with the function `one` that reads a file: {call}, which {order}"
    evidence = {"datasets": len(branches), "files": len(readers), "share_ratio": share_of(case, (*before, last))}
    yield finding(last, message, fix, evidence, is_warning=holds_back)


def _interleave_fix(op: Op, case: Case) -> tuple[str, tuple[Edit, ...]]:
    reads, cycle = _reads(op, case), op.parameters.get("cycle_length")
    parallel = Edit(kind="parallelize", op=op.name, value=reads)
    if reads is None:
        fix = f"give it num_parallel_calls={AUTOTUNE}"
        if not has_written_cycle(op, case.pipeline.ops) and freeing_shuffle(op, case.pipeline.ops) is None:
            fix = f"{fix}, and a cycle_length: TensorFlow chooses another one in parallel"
        return fix, (parallel,)
    if not isinstance(cycle, int) or cycle < reads:
        fix = f"give it cycle_length={reads}, num_parallel_calls={reads}"
        return fix, (Edit(kind="set-cycle-length", op=op.name, value=reads), parallel)
    return f"give it num_parallel_calls={reads}", (parallel,)


def _reads(op: Op, case: Case) -> int | None:
    """Return the number of files to read at once if reads only wait.

    Return None if AUTOTUNE is enough, or if the order counts.
    """
    return reads_at_once(case) if freeing_shuffle(op, case.pipeline.ops) is not None else None
