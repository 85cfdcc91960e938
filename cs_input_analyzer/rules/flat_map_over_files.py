"""A `flat_map` opens one file after the other.

Nothing is read while the next file is opened, and never from more than one at a time. On storage with some milliseconds of latency
many small files are mostly waiting; a worker with several CPUs reads and checks records on one of them.

Fix: `interleave` with `num_parallel_calls=tf.data.AUTOTUNE`, which opens files ahead and reads several at a time. Where a shuffle
of the records without a seed follows, the order is free and the cycle may be as long as you like; where the order must stay,
`cycle_length=1` keeps it, and the next files are still opened ahead. A shuffle of the names of the files frees no order in them,
and one of batches none of the records. AUTOTUNE stops at the number of CPUs: reads that only wait for the storage
need a number, which is worked out from its latency (Little's law) and what the CPUs could take.

Silent for `interleave`, for a flat_map that reads no files (every `from_generator` is one), and over a single file.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import freeing_shuffle
from cs_input_analyzer.pipeline.op_traits import is_made_by_reader, opens_files
from cs_input_analyzer.pipeline.source.code import AUTOTUNE
from cs_input_analyzer.pipeline.threads import inside
from cs_input_analyzer.planning.evidence import READING, bottleneck, files_read, reads_at_once
from cs_input_analyzer.records import Case, Edit, Finding


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    for op in ops:
        if op.kind != "FlatMap" or op.within or not opens_files(op, ops):
            continue
        count = files_read(case, op)
        if is_made_by_reader(op, ops) or (count is not None and count < 2):  # CSI105 is about the former
            continue
        station = bottleneck(case, (*READING, "serial op"))
        read = f"{count:,} files" if count is not None else "files"
        is_moot = freeing_shuffle(op, ops) is not None
        reads = reads_at_once(case) if is_moot else None
        reads_slowly = station is not None and (station.op in {op.name, *(other.name for other in inside(op, ops)), None})
        yield Finding(
            severity="warning" if reads_slowly else "info",
            message=f"{op.name} reads {read} one after the other" + (", which limits the worker" if reads_slowly else ""),
            op=op.name,
            evidence={
                "files": count,
                "ceiling_samples_per_s": station.samples_per_s if station and reads_slowly else None,
                "reads_at_once": reads,
            },
            fix=f"use interleave(…, {'' if is_moot else 'cycle_length=1, '}num_parallel_calls={reads or AUTOTUNE})",
            edits=(Edit(kind="interleave", op=op.name, value=reads),),
        )
