"""Find the nodes that will feed the accelerator: from a file, a preset, options, Slurm or this host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.host.cluster.checks import checked
from cs_input_analyzer.host.cluster.file import from_mapping, is_file, read_file
from cs_input_analyzer.host.cluster.slurm import discover
from cs_input_analyzer.host.mounts import packaged
from cs_input_analyzer.model.recommend import THIS_HOST
from cs_input_analyzer.records import Cluster, Estimate, Host, Options
from wafer_model import WaferModelError
from wafer_model.names import find_name

# Fields of a cluster that are options under the same name.
SIZE_FLAGS = ("nodes", "cpus_per_node", "memory_bytes_per_node")
FLAGS = (*SIZE_FLAGS, "storage_bytes_per_s")

PRESETS = "cluster/presets.yaml"

LOCAL = "local"
SLURM = "slurm"


def resolve(options: Options, host: Host, *, declared: Cluster | None = None) -> Cluster:
    """Return the cluster that `--cluster` and the other options describe; this host if they name none.

    Args:
        declared: a cluster given as an object, in place of `--cluster`; options override it too.

    Raises:
        UsageError: unknown name, unreadable file, numbers that no cluster has, or a partition of `slurm` without a usable node.
        LaunchError: Slurm does not answer.
    """
    found = _with_flags(_chosen(options, host) if declared is None else declared, options)
    if options.node_speed_ratio is not None:
        found = replace(found, speed_ratio=options.node_speed_ratio, speed_basis="stated")
    return checked(found)


def names_file(choice: str | None) -> bool:
    """Return whether this value of `--cluster` names a file."""
    return choice is not None and choice not in (LOCAL, SLURM, *preset_names()) and is_file(choice)


def launch_options(choice: str) -> dict[str, Any]:
    """Return the values for launches in the file that `--cluster` names, by their fields in the options. Raise UsageError."""
    return dict(read_file(Path(choice)).launch) if names_file(choice) else {}


def _chosen(options: Options, host: Host) -> Cluster:
    choice = options.cluster
    if choice == SLURM:
        return discover(options.partition, options.exclude_nodes).cluster
    if choice is None or choice == LOCAL:
        return this_host(host)
    if names_file(choice):
        found = read_file(Path(choice)).cluster
        excluded = options.exclude_nodes or found.excluded_nodes
        return replace(found, partition=options.partition or found.partition, excluded_nodes=excluded)
    otherwise = f"; `{LOCAL}` is this host, `{SLURM}` what Slurm has, and a file ends in .yaml"
    try:
        return preset(find_name(choice, preset_names(), "preset", otherwise=otherwise))
    except WaferModelError as error:
        raise UsageError(f"--cluster {choice}: no such file; {error}") from None


def named_host(host: Host) -> Cluster:
    """Return one node like this host, under the name by which other machines know it."""
    here = this_host(host)
    return replace(here, name=host.hostname, source=host.hostname, speed_ratio=None, speed_basis="stated")


def this_host(host: Host) -> Cluster:
    """Return one node like the machine that measures, with the CPUs that it may use."""
    return Cluster(
        nodes=1,
        cpus_per_node=host.cpu_budget,
        memory_bytes_per_node=host.memory_bytes,
        name=THIS_HOST,
        threads_per_core=host.threads_per_core,
        cpu_model=host.cpu_model,
        speed_ratio=Estimate.exact(1.0),
        speed_basis="this host",
        source=THIS_HOST,
    )


def preset_names() -> tuple[str, ...]:
    """Return the names of the published clusters."""
    return tuple(packaged(PRESETS))


def preset(name: str) -> Cluster:
    """Return a published cluster. `presets.yaml` has its numbers and their sources."""
    entry = packaged(PRESETS)[name]
    values = {key: field["value"] for key, field in entry.items() if isinstance(field, dict)}
    source = f"preset {name}: {entry['source']}"
    return from_mapping(values, f"the preset {name}", name=name, source=source).cluster


def _with_flags(cluster: Cluster, options: Options) -> Cluster:
    """Return the cluster with the sizes and the storage that the options give."""
    given: dict[str, Any] = {name: getattr(options, name) for name in FLAGS if getattr(options, name) is not None}
    has_speed = options.node_speed_ratio is not None
    is_this_host = cluster.source == THIS_HOST
    if is_this_host and has_speed and not any(name in given for name in SIZE_FLAGS):
        raise UsageError("--node-speed sets nodes apart from this host, but there are none: add --cluster or --nodes")
    named = [*given, *(["node_speed_ratio"] if has_speed else [])]
    if not named:
        return cluster
    if is_this_host and "nodes" in given:
        given["name"] = "cluster"
    if is_this_host and "cpus_per_node" in given:
        # Nodes of another size are not this host, so its processor, speed and threads do not apply.
        given |= {"cpu_model": None, "speed_ratio": None, "threads_per_core": None}
    source = "flags" if set(SIZE_FLAGS) <= set(given) else f"{cluster.source}, with {', '.join(named)} from flags"
    return replace(cluster, **given, source=source)
