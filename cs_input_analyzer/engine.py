"""Options -> the engine that measures, the host that it measures on, and the cluster that is planned for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cs_input_analyzer import cluster
from cs_input_analyzer.errors import Interrupted, UsageError
from cs_input_analyzer.launch import LocalLauncher
from cs_input_analyzer.launch.slurm import SlurmLauncher, Wish
from cs_input_analyzer.measure import host, node_speed
from cs_input_analyzer.records import Cluster, Estimate, Host, Options

__all__ = ["Engine", "open_engine"]

# Beside the budget of the run a job must last while the last launch is collected.
SPARE_RATIO = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Whoever opened it closes its launcher."""

    launcher: LocalLauncher | SlurmLauncher
    host: Host
    cluster: Cluster


def open_engine(options: Options, *, declared: Cluster | None, told: Callable[[str], None]) -> Engine:
    """What `--launcher` and `--cluster` ask for.

    Args:
        declared: a cluster given as such, in place of `--cluster`.
        told: hears of waiting in a queue.

    Raises:
        UsageError: a cluster or a number of CPUs that cannot be.
        LaunchError: the engine cannot have what it needs.
        Interrupted: Ctrl-C while it waited for that.
    """
    return _on_slurm(options, declared, told) if options.launcher == "slurm" else _here(options, declared)


def _here(options: Options, declared: Cluster | None) -> Engine:
    this_host = host.read_host(options.cpus)
    nodes = cluster.resolve(options, this_host, declared=declared, loop=_loop(this_host))
    return Engine(launcher=LocalLauncher(this_host.cpu_budget, options.worker_memory_bytes), host=this_host, cluster=nodes)


def _on_slurm(options: Options, declared: Cluster | None, told: Callable[[str], None]) -> Engine:
    """The nodes that measure are those that are planned for, unless another cluster is named: then their speeds are told apart."""
    partition = options.partition or os.environ.get("SLURM_JOB_PARTITION")
    found = cluster.discover(partition, options.exclude_nodes)
    is_theirs = declared is None and options.cluster in (None, cluster.SLURM)
    this_host = host.read_host()
    nodes = cluster.resolve(options, this_host, declared=found.cluster if is_theirs else declared, loop=_loop(this_host))
    try:
        extra = shlex.split(options.sbatch_args or "")
    except ValueError as error:
        raise UsageError(f"--sbatch-args is not a readable command line ({error}): {options.sbatch_args!r}") from None
    try:
        launcher = _slurm_launcher(options, found, tuple(extra), told)
    except KeyboardInterrupt:
        raise Interrupted("interrupted before Slurm gave its nodes") from None
    if is_theirs and nodes.speed_ratio is None:
        nodes = replace(
            nodes, speed_ratio=Estimate.exact(1.0), speed_basis="this host", cpu_model=nodes.cpu_model or launcher.host.cpu_model
        )
    return Engine(launcher=launcher, host=launcher.host, cluster=nodes)


def _slurm_launcher(
    options: Options, found: cluster.Found, sbatch_args: tuple[str, ...], told: Callable[[str], None]
) -> SlurmLauncher:
    return SlurmLauncher(
        Wish(
            nodes=options.slurm_nodes,
            most_nodes=min(len(found.usable), found.cluster.nodes),
            partition=found.partition,
            exclude=found.excluded,
            sbatch_args=sbatch_args,
            queue_s=options.queue_timeout_s,
            measure_s=options.max_seconds * SPARE_RATIO,
            shared_dir=None if options.shared_dir is None else Path(options.shared_dir),
        ),
        cpus=options.cpus,
        worker_memory_bytes=options.worker_memory_bytes,
        told=told,
    )


def _loop(this_host: Host) -> Callable[[], Estimate]:
    """Runs the reference loop here; asked only where the rate of a node is given to compare it with."""
    return lambda: node_speed.node_rate(node_speed.one_cpu_per_core(this_host.cpu_budget))
