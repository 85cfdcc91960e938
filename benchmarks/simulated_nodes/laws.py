"""Rates by closed formulas: Amdahl's and Gunther's laws for a worker, asymptotic bounds for a node and a storage."""

from __future__ import annotations

import math
from functools import cache

from benchmarks.simulated_nodes.truth import Node, Rates, Truth, WorkerRate


def rates_of(truth: Truth) -> Rates:
    """Return the rates of a truth whose `simulates` is `law`."""
    node, pipeline = truth.node, truth.pipeline

    @cache
    def rate(nodes: int, tasks: int, cpus: int) -> WorkerRate:
        growth = cpus / (1 + pipeline.contention * (cpus - 1) + pipeline.coherence * cpus * (cpus - 1))
        one_lock_s = max(pipeline.serial_s, pipeline.python_s, pipeline.handoff_s)
        most = 1 / one_lock_s if one_lock_s else math.inf
        lone = min(growth / pipeline.cpu_s, most)
        # Contention costs time of the CPUs: threads wait for each other's caches, and spin.
        used = min(cpus, lone * pipeline.cpu_s * (cpus / growth if lone < most else 1.0))
        speed = _speed(node, tasks * used)
        if cpus > node.cpus // node.sockets:
            speed /= node.remote_slowdown
        worker = lone * speed
        for limit, demand in (
            (node.memory_bytes_per_s, pipeline.memory_bytes),
            (truth.cluster.storage_bytes_per_s and truth.cluster.storage_bytes_per_s / nodes, pipeline.read_bytes),
        ):
            if limit and demand:
                worker = min(worker, limit / demand / tasks)
        return WorkerRate(
            samples_per_s=worker,
            cpu_s_per_sample=used / (lone * speed),
            serial_s=pipeline.serial_s / speed,
            python_s=pipeline.python_s / speed,
        )

    return rate


def _speed(node: Node, busy: float) -> float:
    """Return the speed of one of `busy` CPUs over that of a lone one: the clock falls, then threads share cores."""
    cores = min(max(busy, 1.0), node.cores)
    clock = 1 - (1 - node.all_core_clock) * math.log2(cores) / max(1.0, math.log2(node.cores))
    shared = max(0.0, min(busy, node.cpus) - node.cores)
    return clock * (cores + node.smt_gain * shared) / (cores + shared)
