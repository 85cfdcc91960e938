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
from cs_input_analyzer.pipeline.op_traits import has_written_cycle, is_made_by_reader, opens_files, reader_call
from cs_input_analyzer.pipeline.source.code import AUTOTUNE
from cs_input_analyzer.pipeline.threads import inside
from cs_input_analyzer.planning.evidence import READING, bottleneck, files_read, reads_at_once
from cs_input_analyzer.records import Case, Edit, Finding, Op


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    for op in ops:
        count = files_read(case, op)
        if op.within is not None or (count is not None and count < 2) or not opens_files(op, ops):
            continue
        if op.kind == "FlatMap" and is_made_by_reader(op, ops):
            edits = (Edit(kind="interleave", op=op.name, value=_reads(op, case)),)
            yield _finding(op, case, _reader_fix(op, case), edits)
        elif op.kind == "Interleave":
            yield _finding(op, case, *_interleave_fix(op, case))


def _reader_fix(op: Op, case: Case) -> str:
    if freeing_shuffle(op, case.pipeline.ops) is None:
        name = reader_call(op, case.pipeline.ops) or "the reader"
        call = f"interleave(…, cycle_length=1, num_parallel_calls={AUTOTUNE})"
        return f"call {name} for each file in an {call}, which keeps the order"
    return f"give it num_parallel_reads={_reads(op, case) or AUTOTUNE}"


def _interleave_fix(op: Op, case: Case) -> tuple[str, tuple[Edit, ...]]:
    reads, cycle = _reads(op, case), op.parameters.get("cycle_length")
    parallel = Edit(kind="parallelize", op=op.name, value=reads)
    if reads is None:
        fix = f"give it num_parallel_calls={AUTOTUNE}"
        if not has_written_cycle(op, case.pipeline.ops) and freeing_shuffle(op, case.pipeline.ops) is None:
            fix = f"{fix}, and a cycle_length: what TensorFlow chooses is another one in parallel"
        return fix, (parallel,)
    if not isinstance(cycle, int) or cycle < reads:
        fix = f"give it cycle_length={reads}, num_parallel_calls={reads}"
        return fix, (Edit(kind="set-cycle-length", op=op.name, value=reads), parallel)
    return f"give it num_parallel_calls={reads}", (parallel,)


def _reads(op: Op, case: Case) -> int | None:
    """Files at once where reads only wait; None where AUTOTUNE will do, or the order counts."""
    return reads_at_once(case) if freeing_shuffle(op, case.pipeline.ops) is not None else None


def _finding(op: Op, case: Case, fix: str, edits: tuple[Edit, ...]) -> Finding:
    station = bottleneck(case, (*READING, "serial op"))
    names = {op.name, None, *(other.name for other in inside(op, case.pipeline.ops))}
    holds_back = station is not None and station.op in names
    return Finding(
        severity="warning" if holds_back else "info",
        message=f"{op.name} reads one file at a time" + (", which holds the worker back" if holds_back else ""),
        op=op.name,
        evidence={
            "files": files_read(case, op),
            "ceiling_samples_per_s": station.samples_per_s if station and holds_back else None,
        },
        fix=fix,
        edits=edits,
    )
