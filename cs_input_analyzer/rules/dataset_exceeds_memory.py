"""A node of the plan cannot keep its part of the dataset in memory.

The page cache makes the second pass over the files fast only where they fit beside the workers. Where they do not, every pass reads
from storage, and a rate measured with the files in the cache is not the rate of training.

With `--cache as-is` (the default) the analyzer then measures again with cold files, and plans on that: the finding is for your
information. A warning where the plan rests on cached files all the same, because you chose `--cache warm` or the time was up.

Fix: nodes with more memory, more nodes (each reads a smaller share), or smaller records; `--cache cold` measures the worst case.

Silent where the files fit, where no files were found, and without a plan.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.planning.capacity import dataset_bytes_per_node
from cs_input_analyzer.records import Case, Finding
from cs_input_analyzer.units import format_bytes


def find(case: Case) -> Iterator[Finding]:
    files, plan = case.pipeline.files, case.plan
    if files is None or plan is None:
        return
    need = dataset_bytes_per_node(files, plan, is_sharded=case.is_sharded)
    room = case.cluster.memory_bytes_per_node - (plan.memory_bytes_per_node or 0)
    if need <= room:
        return
    is_cold = plan.cache_state == "cold"
    basis = "the plan rests on cold reads" if is_cold else "but the plan rests on files in the cache, which training will not find"
    yield Finding(
        severity="info" if is_cold else "warning",
        message=f"each node reads {format_bytes(need)} and has {format_bytes(max(0, room))} left to keep them in: {basis}",
        evidence={"bytes_per_node": need, "free_bytes_per_node": max(0, room), "cache_state": plan.cache_state},
        fix=None if is_cold else "measure with --cache cold, or give --max-seconds more time",
    )
