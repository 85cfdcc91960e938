"""A `skip` reads what it throws away, at every start.

`skip(n)` has no way to jump: it asks for n elements and drops them. After the readers that means reading, and after a `map`
also decoding, everything that is skipped, before the first batch comes; again at each restart of the job, and again in each
pass if the `repeat` comes after it. Skipping to where the last run stopped costs more the longer the training is.

Fix: save and restore the iterator (`tf.train.Checkpoint(iterator=...)`) instead of skipping to a step; put validation samples
into files of their own instead of skipping them; at least skip before the expensive `map`, and before the `batch`.

A warning where what is skipped takes a second or more at the measured rate, or (where nothing was measured) is a thousand
samples or more; else for your information.

Silent where only file names are skipped, and for the first lines of each file (inside an `interleave` or `flat_map`).
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import downstream, reads_names_only, upstream
from cs_input_analyzer.pipeline.samples import samples_reaching
from cs_input_analyzer.planning.evidence import rate_of_worker
from cs_input_analyzer.records import Case, Finding, Op
from cs_input_analyzer.units import format_count, format_seconds

LONG_S = 1.0
MANY_SAMPLES = 1000


def find(case: Case) -> Iterator[Finding]:
    for op in case.pipeline.ops:
        count = op.parameters.get("count")
        if op.kind != "Skip" or op.within is not None or not isinstance(count, int) or count <= 0:
            continue
        if reads_names_only(op, case.pipeline.ops):
            continue
        size, rate = samples_reaching(op, case.pipeline.ops), rate_of_worker(case)
        samples = count * size if size else None
        seconds = samples / rate if samples and rate else None
        is_long = seconds >= LONG_S if seconds is not None else (samples or count) >= MANY_SAMPLES
        is_repeated = any(later.kind == "Repeat" for later in downstream(op, case.pipeline.ops))
        amount = f"{format_count(samples)} samples" if samples else f"{format_count(count)} elements"
        took = f", about {format_seconds(seconds)}" if seconds is not None else ""
        yield Finding(
            severity="warning" if is_long else "info",
            message=f"{amount} are {_done(op, case)} and dropped at every {'pass' if is_repeated else 'start'}{took}",
            op=op.name,
            evidence={"count": count, "samples": samples, "seconds": seconds, "in_every_pass": is_repeated},
            fix="restore the iterator from a checkpoint, or keep what is skipped in files of its own, in place of skip",
        )


def _done(op: Op, case: Case) -> str:
    kinds = {earlier.kind for earlier in upstream(op, case.pipeline.ops)}
    return "read and decoded" if kinds & {"Map", "ParallelMap", "ParseExample"} else "read"
