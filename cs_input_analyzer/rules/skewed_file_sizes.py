"""Files of very different size make shards of very different size.

Workers divide files, not samples. A worker with a large file has more to read for each pass: in training that repeats, samples
of the small shards are seen more often than those of the large ones; without a repeat, or in evaluation, the small shards end
first and the accelerator waits for the large one. Where large files also hold larger samples, their worker is the slowest, and
a round-robin feed goes at its pace.

Fix: write the data again into files of equal size, and as many that a worker gets several: differences average out.

A warning where the largest shard of the plan is at least half as large again as the mean one, or where the measured shards
differ in speed and hold the worker back; for your information where files merely differ.

Silent where the largest file is less than twice the mean, where workers do not divide files, and for a single worker.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.planning.evidence import bottleneck, workers_of
from cs_input_analyzer.records import Case, FileSet, Finding
from cs_input_analyzer.units import format_bytes

SKEWED_RATIO = 2.0  # largest file over mean file
UNEVEN_RATIO = 1.5  # largest shard over mean shard


def find(case: Case) -> Iterator[Finding]:
    files, workers = case.pipeline.files, workers_of(case)
    if files is None or files.count < 2 or files.bytes == 0 or not case.is_sharded or workers == 1:
        return
    skew = files.largest_bytes * files.count / files.bytes
    if skew < SKEWED_RATIO:
        return
    uneven = _largest_shard_ratio(files, workers) if workers and workers <= files.count else None
    slowest = bottleneck(case, ("slowest shard",))
    is_bad = slowest is not None or (uneven is not None and uneven >= UNEVEN_RATIO)
    shard = next((op for op in case.pipeline.ops if op.kind == "Shard"), None)
    effect = f": the largest of {workers} shards is at least {uneven:.1f} times the mean" if uneven else ""
    yield Finding(
        severity="warning" if is_bad else "info",
        message=f"the largest file has {format_bytes(files.largest_bytes)}, "
        f"the mean one {format_bytes(files.bytes / files.count)}{effect}",
        op=shard.name if shard else None,
        evidence={
            "largest_bytes": files.largest_bytes,
            "smallest_bytes": files.smallest_bytes,
            "largest_over_mean_ratio": skew,
            "largest_shard_ratio": uneven,
            "slowest_over_mean_rate_ratio": case.capacity.slowest_ratio if case.capacity else None,
            "workers": workers,
        },
        fix=f"write the data into {max(files.count, 4 * (workers or 1))} files or more, of equal size",
    )


def _largest_shard_ratio(files: FileSet, workers: int) -> float:
    """Bytes of the shard that holds the largest file over those of a mean shard, its other files taken as the mean of the rest."""
    in_shard = files.count / workers
    rest = (files.bytes - files.largest_bytes) / (files.count - 1)
    return (files.largest_bytes + (in_shard - 1) * rest) / (files.bytes / workers)
