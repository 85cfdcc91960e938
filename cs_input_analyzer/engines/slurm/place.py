"""Where a task runs: its CPUs, and what the kernel did to its control group. Read on the node, by its agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["oom_kills", "worker_cpus"]


def worker_cpus(
    allowed: Sequence[int], tasks_per_node: int, cpus_per_task: int, local_rank: int, threads_per_core: int
) -> tuple[int, ...]:
    """The CPUs of one task: those that Slurm bound it to, or, where it binds nothing, its part of what there is.

    Slurm binds to whole cores, so a task of one CPU may have both threads of a core: that is what it gets in training, too. Where
    it does not bind, tasks take neighbouring CPUs in turn, and share them only when there are not enough.
    """
    rounded = -(-cpus_per_task // threads_per_core) * threads_per_core
    if len(allowed) <= rounded:
        return tuple(allowed)
    first = local_rank * cpus_per_task
    return tuple(sorted({allowed[(first + offset) % len(allowed)] for offset in range(cpus_per_task)}))


def oom_kills(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """Processes that the kernel has ended for the memory of our control group, version 2 (`memory.events`) or 1
    (`memory.oom_control`)."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return 0
    total = 0
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers not in ("", "memory"):
            continue
        folder = root / ("memory" if controllers else "") / path.lstrip("/")
        for name in ("memory.events", "memory.oom_control"):
            try:
                fields = dict(pair.split() for pair in (folder / name).read_text().splitlines() if len(pair.split()) == 2)
            except OSError:
                continue
            total = max(total, int(fields.get("oom_kill", 0)))
    return total
