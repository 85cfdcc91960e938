"""The files were not in this host's memory while it was measured.

The first pass over a dataset reads it from storage; where a node's memory holds its part of the files, all later passes read
from the page cache. A run that starts with an empty cache measures the first pass, or some mixture of both, and a plan made of
it has more workers than later passes need.

Fix: `--cache warm` measures the later passes, `--cache cold` the first one for certain; or run again, now that the files have
been read.

A warning where the last measurement was still cold and reading holds the worker back, so that the plan depends on it; else for
your information.

Silent where you chose `--cache cold` or `warm`, where the plan rests on cold reads on purpose, where a node's memory cannot
hold its files anyway (CSI503), where nine tenths of them were in memory, where reading them again and again left nothing in
memory (a file system that is not cached), and where the kernel does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.capacity import dataset_bytes_per_node
from cs_input_analyzer.evidence import READING, bottleneck
from cs_input_analyzer.records import Case, Finding
from cs_input_analyzer.units import format_ratio

CODE = "CSI505"
NAME = "cold-cache"
WARM_RATIO = 0.9
FILLING_RATIO = 0.02


def find(case: Case) -> Iterator[Finding]:
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
        code=CODE,
        severity="warning" if reading else "info",
        message=f"only {format_ratio(known[0])} of the files were in memory when measuring began; {effect}",
        evidence={
            "page_cache_ratio": known[0],
            "last_page_cache_ratio": known[-1],
            "limited_by": reading.kind if reading else None,
        },
        fix="measure with --cache warm for the later passes, or with --cache cold for the first",
    )


def _fits(case: Case) -> bool:
    """Whether a node keeps its part of the files in memory after the first pass."""
    files, plan = case.pipeline.files, case.plan
    if files is None:
        return False
    need = dataset_bytes_per_node(files, plan, is_sharded=case.is_sharded) if plan is not None else files.bytes
    used = plan.memory_bytes_per_node or 0 if plan is not None else 0
    return need <= case.cluster.memory_bytes_per_node - used
