"""The first pass over the data was measured, and later ones will be faster: no cache was full yet.

Where the pipeline has a `cache`, the first pass fills it, and does all the work before it. A window that ends earlier, because the
pass is long, says nothing about the passes that read the cache. Windows that were measured after the cache was full decide alone.

The first pass over a dataset also reads its files from storage; where a node's memory holds its part of the files, all later
passes read from the page cache. A run that starts with an empty page cache measures the first pass, or some mixture of both, and a
plan made of it has more workers than later passes need.

Fix: for a `cache`, a larger `--max-seconds`, or fewer files. For the files, `--cache warm` measures the later passes, `--cache
cold` the first one for certain; or run again, now that the files have been read.

A warning where no window was of a full `cache`, and where the last measurement was still cold and reading holds the worker back, so
that the plan depends on it; else for your information.

Silent where you chose `--cache cold` or `warm`, where the plan rests on cold reads on purpose, where a node's memory cannot
hold its files anyway (CSI503), where nine tenths of them were in memory, where reading them again and again left nothing in
memory (a file system that is not cached), and where the kernel does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.op_kinds import KEEPERS
from cs_input_analyzer.planning.capacity import dataset_bytes_per_node
from cs_input_analyzer.planning.evidence import READING, bottleneck
from cs_input_analyzer.records import Case, Finding
from cs_input_analyzer.units import format_ratio

WARM_RATIO = 0.9
FILLING_RATIO = 0.02


def find(case: Case) -> Iterator[Finding]:
    yield from _own_cache(case)
    if case.plan is not None and case.plan.cache_state != "as-is":
        return
    if any(measurement.cache_state != "as-is" for measurement in case.measurements) or not _fits(case):
        return
    known = [m.page_cache_ratio for m in case.measurements if m.page_cache_ratio is not None]
    is_filling = len(known) == 1 or (len(known) > 1 and max(known) >= known[0] + FILLING_RATIO)
    if not is_filling or known[0] >= WARM_RATIO:
        return
    reading = bottleneck(case, READING) if known[-1] < WARM_RATIO else None
    effect = "and reading them held the worker back: later passes will be faster" if reading else "later passes may be faster"
    yield Finding(
        severity="warning" if reading else "info",
        message=f"only {format_ratio(known[0])} of the files were in memory when measuring began; {effect}",
        evidence={
            "page_cache_ratio": known[0],
            "last_page_cache_ratio": known[-1],
            "limited_by": reading.kind if reading else None,
        },
        fix="measure with --cache warm for the later passes, or with --cache cold for the first",
    )


def _own_cache(case: Case) -> Iterator[Finding]:
    """Every window ended before the pipeline's own cache was full."""
    measured = [m for m in case.measurements if m.measured_workers]
    if not measured or not all(m.is_filling_cache for m in measured):
        return
    op = next((op for op in case.pipeline.ops if op.kind in KEEPERS and op.within is None), None)
    yield Finding(
        severity="warning",
        message="the cache of the pipeline was not full when measuring ended: all numbers are of the first pass",
        op=op.name if op else None,
        evidence={"windows": len(measured)},
        fix="measure longer (--max-seconds), until a first pass is through, or fewer files",
    )


def _fits(case: Case) -> bool:
    """Whether a node keeps its part of the files in memory after the first pass."""
    files, plan = case.pipeline.files, case.plan
    if files is None:
        return False
    need = dataset_bytes_per_node(files, plan, is_sharded=case.is_sharded) if plan is not None else files.bytes
    used = plan.memory_bytes_per_node or 0 if plan is not None else 0
    return need <= case.cluster.memory_bytes_per_node - used
