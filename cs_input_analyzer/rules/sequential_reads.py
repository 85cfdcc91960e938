"""A reader takes one file after the other, or several in turn, on one thread.

`tf.data.TFRecordDataset(files)` reads its files in sequence unless `num_parallel_reads` is given, and `interleave` without
`num_parallel_calls` reads from several files but only one at a time. Either way the pipeline waits for every read, and checking and
copying the records takes one CPU however many there are.

Fix: `num_parallel_reads=tf.data.AUTOTUNE` in the reader, or `num_parallel_calls=tf.data.AUTOTUNE` in the `interleave`. The
interleave keeps its order; the reader mixes its files, so shuffle after it or keep it as it is where the order counts. Reads that
only wait for the storage need a number instead, as AUTOTUNE stops at the number of CPUs, and an interleave a cycle of that length.

Silent where several files are read at a time, over a single file, and for `flat_map`, which CSI104 is about.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.evidence import READING, bottleneck, reads_at_once
from cs_input_analyzer.lineage import after
from cs_input_analyzer.op_traits import READER_CALLS, call_number, is_random_order
from cs_input_analyzer.records import Case, Edit, Finding, Op
from cs_input_analyzer.source_code import AUTOTUNE, count_calls, with_argument
from cs_input_analyzer.threads import READERS, inside

CODE = "CSI105"
NAME = "sequential-reads"


def find(case: Case) -> Iterator[Finding]:
    ops, files = case.pipeline.ops, case.pipeline.files
    if files is not None and files.count < 2:
        return
    for op in ops:
        inner = inside(op, ops)
        if op.within is not None or READERS.isdisjoint(other.kind for other in inner):
            continue
        if op.kind == "FlatMap" and not _is_written(op, inner):
            yield _finding(op, case, *_reader_fix(op, case))
        elif op.kind == "Interleave":
            yield _finding(op, case, *_interleave_fix(op, case))


def _is_written(op: Op, inner: tuple[Op, ...]) -> bool:
    """Whether the user wrote the flat_map: a reader in its function then has a flat_map of its own."""
    return count_calls(op.code, "flat_map") > 0 if op.code else any(other.kind == "FlatMap" for other in inner)


def _reader_fix(op: Op, case: Case) -> tuple[str, str | None, tuple[Edit, ...]]:
    reader = next((name for name in READER_CALLS if count_calls(op.code, name) == 1), None)
    reads = _reads(op, case)
    number = AUTOTUNE if reads is None else str(reads)
    changed = with_argument(op.code, reader, "num_parallel_reads", number) if reader else None
    return f"give it num_parallel_reads={number}", changed, (Edit(kind="interleave", op=op.name, value=reads),)


def _interleave_fix(op: Op, case: Case) -> tuple[str, str | None, tuple[Edit, ...]]:
    nth, reads, cycle = call_number(op, case.pipeline.ops), _reads(op, case), op.parameters.get("cycle_length")
    if reads is None:
        changed = with_argument(op.code, "interleave", "num_parallel_calls", AUTOTUNE, nth=nth)
        return f"give it num_parallel_calls={AUTOTUNE}", changed, (Edit(kind="parallelize", op=op.name),)
    fix, changed = f"num_parallel_calls={reads}", op.code
    edits: tuple[Edit, ...] = (Edit(kind="parallelize", op=op.name, value=reads),)
    if not isinstance(cycle, int) or cycle < reads:
        fix = f"cycle_length={reads}, {fix}"
        changed = with_argument(changed, "interleave", "cycle_length", str(reads), nth=nth)
        edits = (Edit(kind="set-cycle-length", op=op.name, value=reads), *edits)
    return f"give it {fix}", with_argument(changed, "interleave", "num_parallel_calls", str(reads), nth=nth), edits


def _reads(op: Op, case: Case) -> int | None:
    """Files at once where reads only wait; None where AUTOTUNE will do, or the order counts."""
    return reads_at_once(case) if any(is_random_order(other) for other in after(op, case.pipeline.ops)) else None


def _finding(op: Op, case: Case, fix: str, changed: str | None, edits: tuple[Edit, ...]) -> Finding:
    station = bottleneck(case, (*READING, "serial op"))
    names = {op.name, None, *(other.name for other in inside(op, case.pipeline.ops))}
    holds_back = station is not None and station.op in names
    files = case.pipeline.files
    return Finding(
        code=CODE,
        severity="warning" if holds_back else "info",
        message=f"{op.name} reads one file at a time" + (", which holds the worker back" if holds_back else ""),
        op=op.name,
        source=op.source,
        evidence={
            "files": files.count if files else None,
            "ceiling_samples_per_s": station.samples_per_s if station and holds_back else None,
        },
        fix=fix,
        before=op.code,
        after=changed,
        edits=edits,
    )
