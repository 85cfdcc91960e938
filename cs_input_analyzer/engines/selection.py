"""Find the host that measures and the cluster to plan for, and open the engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cs_input_analyzer.engines import LocalLauncher
from cs_input_analyzer.engines.slurm import SlurmLauncher
from cs_input_analyzer.engines.starting import WorkerKind
from cs_input_analyzer.errors import Interrupted, Mistakes, UsageError
from cs_input_analyzer.host import cluster, history, machine
from cs_input_analyzer.host.cluster.slurm import SlurmNodes, discover
from cs_input_analyzer.host.node_speed import with_speed_of_same_model
from cs_input_analyzer.model import recommend
from cs_input_analyzer.model.node_list import expand_nodelist
from cs_input_analyzer.records import Cluster, Estimate, Host, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Hold an open engine. Its opener must close the launcher."""

    launcher: LocalLauncher | SlurmLauncher
    host: Host
    cluster: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Hold the host that measures, and the cluster to plan for."""

    host: Host
    cluster: Cluster


def resolve(options: Options, mistakes: Mistakes, *, declared: Cluster | None = None) -> Place | None:
    """Return the host that measures and the cluster to plan for. Note mistakes, and return None if there are any.

    With `--launcher slurm` both are this host until `open_engine` asks Slurm. With `--cluster slurm` this function asks Slurm, if
    there are no mistakes.

    Raises:
        LaunchError: Slurm does not answer.
    """
    with mistakes:
        machine.check_tensorflow()
    if options.launcher == "slurm":
        with mistakes:
            if declared is None and options.cluster is not None:
                cluster.launch_options(options.cluster)  # raises for a file with mistakes
        this_host = machine.read_host()
        return None if mistakes else Place(host=this_host, cluster=cluster.named_host(this_host))
    this_host = machine.read_host()
    with mistakes:
        this_host = machine.read_host(options.cpus)
        this_host = this_host if options.fresh else history.known(this_host)
    for layout in options.probe_layouts:
        with mistakes:  # more tasks than CPUs share them, but one task cannot have more CPUs than there are
            if layout.cpus_per_task > this_host.cpu_budget:
                raise UsageError(
                    f"--probe-layouts {layout}: needs {layout.cpus_per_task} CPUs for a task, and {this_host.cpu_budget} may be "
                    f"used here ({this_host.cpu_budget_source})"
                )
    if mistakes and options.cluster == cluster.SLURM:
        return None
    nodes = None
    with mistakes:
        nodes = _planned_for(options, this_host, declared)
        recommend.check_single_task_nodes(nodes, options)
        if nodes.source != recommend.THIS_HOST:  # a plan for this host is secondary: measuring continues without one
            recommend.check_cluster(nodes, options)
    return None if nodes is None or mistakes else Place(host=this_host, cluster=with_speed_of_same_model(nodes, this_host))


def _planned_for(options: Options, host: Host, declared: Cluster | None) -> Cluster:
    """Return the cluster to plan for. If Slurm counts this host among its nodes, their speed is this host's."""
    if declared is not None or options.cluster != cluster.SLURM:
        return cluster.resolve(options, host, declared=declared)
    found = discover(options.partition, options.exclude_nodes)
    nodes = cluster.resolve(options, host, declared=found.cluster)
    # Slurm's name of a node may differ from its host name. Only processes that Slurm started on the node get the variable.
    name = os.environ.get("SLURMD_NODENAME") or host.hostname.partition(".")[0]
    if name not in found.alike or nodes.speed_ratio is not None:
        return nodes
    return replace(nodes, speed_ratio=Estimate.exact(1.0), speed_basis="this host", cpu_model=nodes.cpu_model or host.cpu_model)


def open_engine(options: Options, place: Place, *, declared: Cluster | None, on_status: Callable[[str], None]) -> Engine:
    """Return the engine that `--launcher` asks for.

    Args:
        place: see `resolve`.
        declared: a cluster given as an object, in place of `--cluster`.
        on_status: called with a line of text while it waits in a queue.

    Raises:
        UsageError: the cluster or the number of CPUs is impossible.
        LaunchError: the engine cannot get its nodes or folders.
        Interrupted: the user pressed Ctrl-C in the queue.
    """
    if options.launcher == "slurm":
        return _on_slurm(options, place.host, declared, on_status)
    launcher = LocalLauncher(
        place.host.cpu_budget,
        options.worker_memory_bytes,
        start_timeout_s=options.start_timeout_s,
        kind=_kind(options),
    )
    return Engine(launcher=launcher, host=place.host, cluster=place.cluster)


def _kind(options: Options) -> WorkerKind:
    return WorkerKind(isolates=not options.on_own_files, has_network=not options.no_network)


def _on_slurm(options: Options, this_host: Host, declared: Cluster | None, on_status: Callable[[str], None]) -> Engine:
    """Return the engine whose workers are tasks of Slurm.

    The plan is for the nodes that measure, with two exceptions: another cluster is named, or we are in an allocation of other
    nodes. Their relative speed is then known only if the user states it.
    """
    # the host that started us, which is another machine to the measuring nodes
    if declared is None and options.cluster == cluster.LOCAL:
        declared = cluster.named_host(this_host)
    is_named = declared is not None or options.cluster not in (None, cluster.SLURM)
    named = cluster.resolve(options, this_host, declared=declared) if is_named else None
    found = discover(
        options.partition or (named.partition if named else None),
        options.exclude_nodes or (named.excluded_nodes if named else ()),
    )
    nodes = named or cluster.resolve(options, this_host, declared=found.cluster)
    is_measured = (named is None or is_kind_of(named, found.cluster)) and is_planned_for(found, os.environ)
    recommend.check_cluster(nodes, options)  # before a job is submitted
    try:
        launcher = SlurmLauncher(options, found.cluster, on_status=on_status, kind=_kind(options))
    except KeyboardInterrupt:
        raise Interrupted("interrupted before Slurm gave its nodes") from None
    if is_measured and nodes.speed_ratio is None:
        nodes = replace(
            nodes, speed_ratio=Estimate.exact(1.0), speed_basis="this host", cpu_model=nodes.cpu_model or launcher.host.cpu_model
        )
    nodes = with_speed_of_same_model(nodes, launcher.host)
    host = launcher.host if options.fresh else history.known(launcher.host)
    return Engine(launcher=launcher, host=host, cluster=replace(nodes, is_measured=is_measured))


def is_kind_of(named: Cluster, found: Cluster) -> bool:
    """Return whether a named cluster has the partition and the kind of nodes that Slurm was asked for."""
    return named.partition is not None and (named.partition, named.cpus_per_node) == (found.partition, found.cpus_per_node)


def is_planned_for(found: SlurmNodes, environ: Mapping[str, str]) -> bool:
    """Return whether the nodes that will measure belong to the nodes to plan for.

    A job of ours asks for no other nodes. An allocation of the user may have other nodes, or not name its nodes.
    """
    if not (environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID")):
        return True
    names = environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST")
    return names is not None and set(expand_nodelist(names)) <= set(found.alike)
