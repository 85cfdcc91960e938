"""A reader takes one file after the other, or several in turn, on one thread.

`tf.data.TFRecordDataset(files)` reads its files in sequence unless `num_parallel_reads` is given, and `interleave` without
`num_parallel_calls` reads from several files but only one at a time. Either way the pipeline waits for every read, and checking and
copying the records takes one CPU however many there are.

Fix: `num_parallel_reads=tf.data.AUTOTUNE` in the reader, or `num_parallel_calls=tf.data.AUTOTUNE` in the `interleave`. The
interleave keeps its order if it has a `cycle_length`; the reader mixes its files. Where no shuffle of the records without a seed
follows, an `interleave` with `cycle_length=1` in its place keeps the order, and opens the next files ahead. Reads that only wait
for the storage need a number instead, as AUTOTUNE stops at the number of CPUs, and an interleave a cycle of that length.

Silent where several files are read at a time, over a single file, and for `flat_map`, which CSI104 is about.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import freeing_shuffle
from cs_input_analyzer.pipeline.op_traits import call_number, has_written_cycle, is_made_by_reader, opens_files, reader_call
from cs_input_analyzer.pipeline.source.code import AUTOTUNE, with_argument
from cs_input_analyzer.pipeline.threads import inside
from cs_input_analyzer.planning.evidence import READING, bottleneck, files_read, reads_at_once
from cs_input_analyzer.records import Case, Edit, Finding, Op

CODE = "CSI105"
NAME = "sequential-reads"


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    for op in ops:
        count = files_read(case, op)
        if op.within is not None or (count is not None and count < 2) or not opens_files(op, ops):
            continue
        if op.kind == "FlatMap" and is_made_by_reader(op, ops):
            yield _finding(op, case, *_reader_fix(op, case))
        elif op.kind == "Interleave":
            yield _finding(op, case, *_interleave_fix(op, case))


def _reader_fix(op: Op, case: Case) -> tuple[str, str | None, tuple[Edit, ...]]:
    reader, reads = reader_call(op, case.pipeline.ops), _reads(op, case)
    edits = (Edit(kind="interleave", op=op.name, value=reads),)
    if freeing_shuffle(op, case.pipeline.ops) is None:
        name = reader or "the reader"
        fix = f"call {name} for each file in an interleave(…, cycle_length=1, num_parallel_calls={AUTOTUNE}), which keeps the order"
        return fix, None, edits
    number = AUTOTUNE if reads is None else str(reads)
    changed = with_argument(op.code, reader, "num_parallel_reads", number) if reader else None
    return f"give it num_parallel_reads={number}", changed, edits


def _interleave_fix(op: Op, case: Case) -> tuple[str, str | None, tuple[Edit, ...]]:
    nth, reads, cycle = call_number(op, case.pipeline.ops), _reads(op, case), op.parameters.get("cycle_length")
    if reads is None:
        fix = f"give it num_parallel_calls={AUTOTUNE}"
        changed = with_argument(op.code, "interleave", "num_parallel_calls", AUTOTUNE, nth=nth)
        if not has_written_cycle(op, case.pipeline.ops) and freeing_shuffle(op, case.pipeline.ops) is None:
            fix, changed = f"{fix}, and a cycle_length: what TensorFlow chooses is another one in parallel", None
        return fix, changed, (Edit(kind="parallelize", op=op.name),)
    fix, changed = f"num_parallel_calls={reads}", op.code
    edits: tuple[Edit, ...] = (Edit(kind="parallelize", op=op.name, value=reads),)
    if not isinstance(cycle, int) or cycle < reads:
        fix = f"cycle_length={reads}, {fix}"
        changed = with_argument(changed, "interleave", "cycle_length", str(reads), nth=nth)
        edits = (Edit(kind="set-cycle-length", op=op.name, value=reads), *edits)
    return f"give it {fix}", with_argument(changed, "interleave", "num_parallel_calls", str(reads), nth=nth), edits


def _reads(op: Op, case: Case) -> int | None:
    """Files at once where reads only wait; None where AUTOTUNE will do, or the order counts."""
    return reads_at_once(case) if freeing_shuffle(op, case.pipeline.ops) is not None else None


def _finding(op: Op, case: Case, fix: str, changed: str | None, edits: tuple[Edit, ...]) -> Finding:
    station = bottleneck(case, (*READING, "serial op"))
    names = {op.name, None, *(other.name for other in inside(op, case.pipeline.ops))}
    holds_back = station is not None and station.op in names
    return Finding(
        code=CODE,
        severity="warning" if holds_back else "info",
        message=f"{op.name} reads one file at a time" + (", which holds the worker back" if holds_back else ""),
        op=op.name,
        source=op.source,
        evidence={
            "files": files_read(case, op),
            "ceiling_samples_per_s": station.samples_per_s if station and holds_back else None,
        },
        fix=fix,
        before=op.code,
        after=changed,
        edits=edits,
    )
