"""Chooses from the options the engine that measures, its host, and the cluster that is planned for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cs_input_analyzer.engines import LocalLauncher
from cs_input_analyzer.engines.slurm import SlurmLauncher
from cs_input_analyzer.engines.starting import WorkerKind
from cs_input_analyzer.errors import Interrupted, Mistakes, UsageError
from cs_input_analyzer.machines import cluster, history, host, node_speed
from cs_input_analyzer.machines.cluster.slurm import SlurmNodes, discover
from cs_input_analyzer.planning import recommend
from cs_input_analyzer.planning.node_list import expand_nodelist
from cs_input_analyzer.records import Cluster, Estimate, Host, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Whoever opened it closes its launcher."""

    launcher: LocalLauncher | SlurmLauncher
    host: Host
    cluster: Cluster


def check(options: Options, mistakes: Mistakes, *, declared: Cluster | None = None) -> None:
    """Notes what `open_engine` would refuse, as far as that shows without Slurm and without running anything."""
    if options.launcher == "slurm" or options.cluster == cluster.SLURM:
        return
    this_host = host.read_host()
    with mistakes:
        this_host = host.read_host(options.cpus)
    with mistakes:
        _check_probes(options, this_host)
    with mistakes:
        if options.node_reference is not None:
            node_speed.read_reference(options.node_reference, this_host.python_version)
    with mistakes:
        nodes = cluster.resolve(replace(options, node_reference=None), this_host, declared=declared)
        recommend.check_single_task_nodes(nodes, options)
        if nodes.source != recommend.THIS_HOST:
            recommend.check_cluster(nodes, options)


def open_engine(options: Options, *, declared: Cluster | None, on_status: Callable[[str], None], is_script: bool) -> Engine:
    """What `--launcher` and `--cluster` ask for.

    Args:
        declared: a cluster given as such, in place of `--cluster`.
        on_status: called with a line of text while it waits in a queue.
        is_script: whether workers run a user's script.

    Raises:
        UsageError: a cluster or a number of CPUs that cannot be.
        LaunchError: the engine cannot have what it needs.
        Interrupted: Ctrl-C while it waited for that.
    """
    if options.launcher == "slurm":
        return _on_slurm(options, declared, on_status, is_script)
    return _here(options, declared, is_script)


def _here(options: Options, declared: Cluster | None, is_script: bool) -> Engine:
    this_host = host.read_host(options.cpus)
    if options.host_history:
        this_host = history.known(this_host)
    _check_probes(options, this_host)
    cores = node_speed.one_cpu_per_core(this_host.cpu_budget)
    nodes = cluster.resolve(options, this_host, declared=declared, loop=lambda: node_speed.node_rate(cores))
    recommend.check_single_task_nodes(nodes, options)
    launcher = LocalLauncher(
        this_host.cpu_budget,
        options.worker_memory_bytes,
        start_timeout_s=options.start_timeout_s,
        kind=_kind(options, is_script),
    )
    return Engine(launcher=launcher, host=this_host, cluster=cluster.with_speed_of_models(nodes, this_host))


def _kind(options: Options, is_script: bool) -> WorkerKind:
    return WorkerKind(isolates=not options.on_own_files, has_network=not options.no_network, is_script=is_script)


def _check_probes(options: Options, this_host: Host) -> None:
    """More tasks than CPUs share them; one task of more CPUs than there are would be measured with fewer than its name says."""
    for layout in options.probe_layouts:
        if layout.cpus_per_task > this_host.cpu_budget:
            raise UsageError(
                f"--probe-layouts {layout}: needs {layout.cpus_per_task} CPUs for a task, and {this_host.cpu_budget} may be used "
                f"here ({this_host.cpu_budget_source})"
            )


def _on_slurm(options: Options, declared: Cluster | None, on_status: Callable[[str], None], is_script: bool) -> Engine:
    """The nodes that measure are those that are planned for, unless another cluster is named, or we are in an allocation of other
    nodes: then how much faster or slower those that are planned for are is not known, unless it is stated."""
    found = discover(options.partition, options.exclude_nodes)
    is_theirs = declared is None and options.cluster in (None, cluster.SLURM)
    is_measured = is_theirs and is_planned_for(found, os.environ)
    this_host = host.read_host()
    if declared is None and options.cluster == cluster.LOCAL:  # where we were started: to the nodes that measure another machine
        login = cluster.this_host(this_host)
        declared = replace(login, name=this_host.hostname, source=this_host.hostname, speed_ratio=None, speed_basis="stated")
    nodes = cluster.resolve(options, this_host, declared=found.cluster if is_theirs else declared, loop=_no_loop)
    recommend.check_cluster(nodes, options)  # before a job is submitted
    try:
        launcher = SlurmLauncher(options, found.cluster, on_status=on_status, kind=_kind(options, is_script))
    except KeyboardInterrupt:
        raise Interrupted("interrupted before Slurm gave its nodes") from None
    if is_measured and nodes.speed_ratio is None:
        nodes = replace(
            nodes, speed_ratio=Estimate.exact(1.0), speed_basis="this host", cpu_model=nodes.cpu_model or launcher.host.cpu_model
        )
    nodes = cluster.with_speed_of_models(nodes, launcher.host)
    return Engine(launcher=launcher, host=launcher.host, cluster=replace(nodes, is_measured=is_measured))


def is_planned_for(found: SlurmNodes, environ: Mapping[str, str]) -> bool:
    """Whether the nodes that will measure are of those that were found to plan for. A job of ours asks for no others; an allocation
    that we are in may be of other nodes, or not say which."""
    if not (environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID")):
        return True
    names = environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST")
    return names is not None and set(expand_nodelist(names)) <= set(found.alike)


def _no_loop() -> Estimate:
    raise UsageError(
        "--node-reference, or node_reference in the cluster file, compares a node with the machine that this was started on, but "
        "with --launcher slurm nodes of Slurm measure: run `reference` on one of them, too, and give the ratio as --node-speed "
        "(none is needed to plan for the nodes that measure)"
    )
