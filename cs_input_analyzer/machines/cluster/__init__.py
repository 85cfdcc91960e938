"""Which nodes will feed the accelerator: from a file, a named preset, flags, or this host.

A cluster file is a small YAML mapping (`KEYS` below are all it may hold; only `nodes`, `cpus_per_node` and `memory_per_node` must
be there):

    name: lab
    nodes: 8
    cpus_per_node: 64          # as Slurm counts them
    threads_per_core: 1        # 2 where SMT is on
    memory_per_node: 128GiB
    network_per_node: 100Gb/s  # each direction
    storage_bandwidth: 5GB/s   # the shared file system, all nodes together
    memory_bandwidth: 150GB/s  # of one node
    node_speed: 1.2            # one CPU of a node over one of the host that measures; or
    node_reference: 10234567+-1.5%@3.11   # what `cs_input_analyzer reference` prints on a node
    cpu_model: AMD EPYC 7713

Flags win over whatever they name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.machines.cluster.slurm import discover
from cs_input_analyzer.machines.mounts import packaged
from cs_input_analyzer.machines.node_speed import (
    checked_ratio,
    is_same_model,
    ratio_by_loop,
    ratio_by_model,
    read_reference,
)
from cs_input_analyzer.planning.recommend import THIS_HOST
from cs_input_analyzer.records import Cluster, Estimate, Host, Options
from cs_input_analyzer.units import parse_bytes, parse_bytes_per_s, parse_estimate
from wafer_model import WaferModelError
from wafer_model.foreign import text_of, yaml_of
from wafer_model.names import find_name

REQUIRED = ("nodes", "cpus_per_node", "memory_per_node")
RATES = ("network_per_node", "storage_bandwidth", "memory_bandwidth")
SPEEDS = ("node_speed", "node_reference")
KEYS = ("name", *REQUIRED, "threads_per_core", *RATES, *SPEEDS, "cpu_model", "source")

# Fields of a cluster that are flags under the same name.
SIZE_FLAGS = ("nodes", "cpus_per_node", "memory_bytes_per_node")
FLAGS = (
    *SIZE_FLAGS,
    "storage_bytes_per_s",
    "network_bytes_per_s_per_node",
    "threads_per_core",
    "memory_bandwidth_bytes_per_s_per_node",
)
SPEED_FLAGS = ("node_speed_ratio", "node_reference")

PRESETS = "cluster/presets.yaml"

LOCAL = "local"
SLURM = "slurm"


def resolve(
    options: Options, host: Host, *, declared: Cluster | None = None, loop: Callable[[], Estimate] | None = None
) -> Cluster:
    """The cluster that `--cluster` and the flags describe; this host where they say nothing.

    Args:
        declared: a cluster given as such, in place of `--cluster`; flags win over it, too.
        loop: runs the reference loop on this host, for its rate; asked only where the rate of a node is given to compare it with.
            Without it that speed is left unknown.

    Raises:
        UsageError: unknown name, unreadable file, numbers that no cluster has, or a partition of `slurm` without a usable node.
        LaunchError: `slurm` does not answer.
    """
    cluster, node_rate = (declared, None) if declared is not None else _chosen(options, host)
    found = _with_flags(cluster, options)
    if options.node_reference is not None:
        node_rate = read_reference(options.node_reference, host.python_version)
    if options.node_speed_ratio is not None:
        found = replace(found, speed_ratio=options.node_speed_ratio, speed_basis="stated")
    elif node_rate is not None and loop is not None:
        is_same_cpu = is_same_model(found.cpu_model, host.cpu_model)
        found = replace(found, speed_ratio=ratio_by_loop(node_rate, loop(), is_same_cpu=is_same_cpu), speed_basis="reference loop")
    return _checked(found)


def with_speed_of_models(cluster: Cluster, host: Host) -> Cluster:
    """With the speed of its nodes by published scores, where it is not known better and both models are known.

    Args:
        host: the one that measures.
    """
    ratio = ratio_by_model(cluster.cpu_model, host.cpu_model) if cluster.speed_ratio is None else None
    return cluster if ratio is None else replace(cluster, speed_ratio=ratio, speed_basis="CPU models")


def _chosen(options: Options, host: Host) -> tuple[Cluster, Estimate | None]:
    """The cluster of that name or file, and the rate of the reference loop on its nodes, where its file holds that."""
    choice = options.cluster
    if choice == SLURM:
        return discover(options.partition, options.exclude_nodes).cluster, None
    if choice is None or choice == LOCAL:
        return this_host(host), None
    if choice not in preset_names() and (Path(choice).suffix in (".yaml", ".yml", ".json") or Path(choice).is_file()):
        return read_file(Path(choice), host.python_version)
    otherwise = f"; `{LOCAL}` is this host, `{SLURM}` what Slurm has, and a file ends in .yaml"
    try:
        return preset(find_name(choice, preset_names(), "preset", otherwise=otherwise)), None
    except WaferModelError as error:
        raise UsageError(f"--cluster {choice}: no such file; {error}") from None


def this_host(host: Host) -> Cluster:
    """One node like the machine that measures, with the CPUs that it may use."""
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


def read_file(path: Path, python_version: str) -> tuple[Cluster, Estimate | None]:
    """The cluster in a YAML file, and the rate of the reference loop on a node where the file holds it.

    Raises:
        UsageError: the file cannot be read, is not YAML, holds an unknown key, misses a required one, or a value that is no number.
    """
    where = f"the cluster file {path}"
    try:
        data: object = yaml_of(text_of(path))
    except OSError as error:
        raise UsageError(f"cannot read {where}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{where} is not UTF-8 text") from None
    except ValueError as error:
        raise UsageError(f"{where} is not YAML: {error}") from None
    cluster = _checked(_from_mapping(data, where, path.stem, str(path)))
    text = data.get("node_reference") if isinstance(data, dict) else None
    try:
        return cluster, None if text is None else read_reference(str(text), python_version)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def preset_names() -> tuple[str, ...]:
    """The clusters known by name."""
    return tuple(packaged(PRESETS))


def preset(name: str) -> Cluster:
    """A published cluster; its numbers and their sources are in `presets.yaml`."""
    entry = packaged(PRESETS)[name]
    values = {key: field["value"] for key, field in entry.items() if isinstance(field, dict)}
    source = f"preset {name}: {entry['source']}"
    return _checked(_from_mapping(values, f"the preset {name}", name, source))


def _from_mapping(data: object, where: str, name: str, source: str) -> Cluster:
    if not isinstance(data, dict):
        raise UsageError(f"{where} must be a mapping of keys to values, with the keys {', '.join(REQUIRED)}")
    unknown = [str(key) for key in data if key not in KEYS]
    if unknown:
        raise UsageError(f"{where} has unknown keys: {', '.join(unknown)}; allowed are {', '.join(KEYS)}")
    missing = [key for key in REQUIRED if data.get(key) is None]
    if missing:
        raise UsageError(f"{where} misses {', '.join(missing)}")
    if all(data.get(key) is not None for key in SPEEDS):
        raise UsageError(f"{where} holds both {' and '.join(SPEEDS)}: both say how fast a node's CPU is, give one of them")
    try:
        network, storage, memory = (None if data.get(key) is None else parse_bytes_per_s(str(data[key])) for key in RATES)
        return Cluster(
            nodes=_whole(data, "nodes"),
            cpus_per_node=_whole(data, "cpus_per_node"),
            memory_bytes_per_node=parse_bytes(str(data["memory_per_node"])),
            name=str(data.get("name") or name),
            threads_per_core=None if data.get("threads_per_core") is None else _whole(data, "threads_per_core"),
            cpu_model=None if data.get("cpu_model") is None else str(data["cpu_model"]),
            network_bytes_per_s_per_node=network,
            storage_bytes_per_s=storage,
            speed_ratio=None if data.get("node_speed") is None else checked_ratio(parse_estimate(str(data["node_speed"]))),
            memory_bandwidth_bytes_per_s_per_node=memory,
            source=f"{source} ({data['source']})" if data.get("source") else source,
        )
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _whole(data: Mapping[object, object], key: str) -> int:
    value = data[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{key} must be a whole number, got {value!r}")
    return value


def _with_flags(cluster: Cluster, options: Options) -> Cluster:
    """The cluster with what flags say of it. How fast its nodes are is left to `resolve`."""
    given: dict[str, Any] = {name: getattr(options, name) for name in FLAGS if getattr(options, name) is not None}
    speeds = [name for name in SPEED_FLAGS if getattr(options, name) is not None]
    is_this_host = cluster.source == THIS_HOST
    if is_this_host and speeds and not any(name in given for name in SIZE_FLAGS):
        option = speeds[0].removesuffix("_ratio").replace("_", "-")
        raise UsageError(f"--{option} sets nodes apart from this host, but there are none: add --cluster or --nodes")
    if not given and not speeds:
        return cluster
    named = [*given, *speeds]
    if is_this_host and "nodes" in given:
        given["name"] = "cluster"
    if is_this_host and "cpus_per_node" in given:
        # Nodes of another size are not this host, so its processor, its speed and its threads are not theirs.
        given = {"cpu_model": None, "speed_ratio": None, "threads_per_core": None} | given
    source = "flags" if set(SIZE_FLAGS) <= set(given) else f"{cluster.source}, with {', '.join(named)} from flags"
    return replace(cluster, **given, source=source)


def _checked(cluster: Cluster) -> Cluster:
    """Refuses what the record itself cannot tell to be wrong."""
    if cluster.speed_ratio is not None:
        checked_ratio(cluster.speed_ratio)
    if cluster.threads_per_core is not None and cluster.threads_per_core > cluster.cpus_per_node:
        raise UsageError(f"{cluster.threads_per_core} threads per core do not fit {cluster.cpus_per_node} CPUs ({cluster.source})")
    for name in (*(() if cluster.partition is None else (cluster.partition,)), *cluster.excluded_nodes):
        if not re.fullmatch(r"[^\s,\[\]]+", name):
            raise UsageError(f"not the name of one partition or node of Slurm: {name!r} ({cluster.source})")
    return cluster
