"""Launches to run: what each is to show, and which of the announced workers it starts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from cs_input_analyzer.records import Host, Layout

# Where in their lists of files the workers of each round begin: in the middle first, as the first files may be unlike the others.
BEGIN_RATIOS = (0.5, 0.9, 0.0)


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A launch to run: its layout, the announced worker count, the workers to start, its purpose, and its round."""

    layout: Layout
    num_workers: int
    indices: tuple[int, ...]
    why: str
    round_number: int = 0

    @property
    def begin_ratio(self) -> float:
        """Return the share of their lists of files at which its workers begin."""
        return BEGIN_RATIOS[self.round_number % len(BEGIN_RATIOS)]


def probe_of(layout: Layout, why: str = "") -> LaunchRequest:
    """Return a launch of which all workers run; of a first probe the layout says why."""
    if not why and layout.tasks > 1:
        why = "what workers leave each other"
    elif not why:
        why = "cost on one CPU" if layout.cpus_per_task == 1 else "one worker on several CPUs"
    return LaunchRequest(layout, layout.tasks, tuple(range(layout.tasks)), why)


def misfit(layout: Layout, host: Host, nodes: int = 1) -> str | None:
    """Return why that number of nodes like this host cannot launch a layout; None if they can."""
    if layout.nodes > nodes:
        have = "this host is one" if nodes == 1 else f"there are {nodes} here"
        return f"spans {layout.nodes} nodes, and {have}"
    if layout.cpus_per_node > host.cpu_budget:
        return f"needs {layout.cpus_per_node} CPUs, and {host.cpu_budget} may be used here ({host.cpu_budget_source})"
    return None


def scaling_nodes(most: int) -> tuple[int, ...]:
    """Return the numbers of nodes to measure on, the most informative first: all, one, then powers of two downwards."""
    between = [1 << power for power in range(1, most.bit_length()) if 1 << power < most]
    return tuple(dict.fromkeys([most, 1, *reversed(between)]))


def shard_indices(file_bytes: Sequence[int], num_workers: int, count: int, draw: random.Random) -> tuple[int, ...]:
    """Which `count` of `num_workers` workers to start: the one with the most bytes, the one with the fewest, others at random.

    Shards are taken to be every `num_workers`-th file, which is what `Dataset.shard` and the usual slicing give.
    """
    if count >= num_workers:
        return tuple(range(num_workers))
    if file_bytes:
        sums = [sum(file_bytes[index::num_workers]) for index in range(num_workers)]
        ends = [max(range(num_workers), key=sums.__getitem__), min(range(num_workers), key=sums.__getitem__)]
    else:
        ends = []
    others = [index for index in range(num_workers) if index not in ends]
    draw.shuffle(others)
    return tuple(sorted(list(dict.fromkeys([*ends, *others]))[:count]))
