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
    cpu_model: AMD EPYC 7713

Flags win over whatever they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import yaml

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.recommend import THIS_HOST
from cs_input_analyzer.records import Cluster, Host, Options
from cs_input_analyzer.units import parse_bytes, parse_bytes_per_s

__all__ = ["from_file", "preset", "preset_names", "resolve", "this_host"]

REQUIRED = ("nodes", "cpus_per_node", "memory_per_node")
KEYS = ("name", *REQUIRED, "threads_per_core", "network_per_node", "storage_bandwidth", "cpu_model", "source")

LOCAL = "local"
SLURM = "slurm"


def resolve(options: Options, host: Host) -> Cluster:
    """The cluster that `--cluster` and the flags describe; this host where they say nothing.

    Raises:
        UsageError: unknown name, unreadable file, numbers that no cluster has, or `slurm`, which this version cannot ask.
    """
    choice = options.cluster
    if choice == SLURM:
        raise UsageError(
            "--cluster slurm: this version cannot ask Slurm for its nodes. Read them from `sinfo -N -o '%c %m %z'` and give "
            "--nodes N --cpus-per-node N --memory-per-node 128GiB, or a YAML file by --cluster FILE.yaml"
        )
    if choice is None or choice == LOCAL:
        cluster = this_host(host)
    elif choice in preset_names():
        cluster = preset(choice)
    elif Path(choice).suffix in (".yaml", ".yml", ".json") or Path(choice).is_file():
        cluster = from_file(Path(choice))
    else:
        raise UsageError(
            f"--cluster {choice}: no such file or preset; presets are {', '.join(preset_names())}, "
            f"`{LOCAL}` is this host, and a file ends in .yaml"
        )
    return _checked(_with_flags(cluster, options))


def this_host(host: Host) -> Cluster:
    """One node like the machine that measures, with the CPUs that it may use."""
    return Cluster(
        nodes=1,
        cpus_per_node=host.cpu_budget,
        memory_bytes_per_node=host.memory_bytes,
        name=THIS_HOST,
        cpu_model=host.cpu_model,
        source=THIS_HOST,
    )


def from_file(path: Path) -> Cluster:
    """The cluster in a YAML file.

    Raises:
        UsageError: the file cannot be read, is not YAML, holds an unknown key, misses a required one, or a value that is no number.
    """
    try:
        data: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the cluster file {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the cluster file {path} is not UTF-8 text") from None
    except yaml.YAMLError as error:
        raise UsageError(f"the cluster file {path} is not YAML: {' '.join(str(error).split())}") from None
    return _checked(_from_mapping(data, f"the cluster file {path}", path.stem, str(path)))


def preset_names() -> tuple[str, ...]:
    """The clusters known by name."""
    return tuple(_presets())


def preset(name: str) -> Cluster:
    """A published cluster; its numbers and their sources are in `presets.yaml`.

    Raises:
        UsageError: no preset has this name.
    """
    presets = _presets()
    if name not in presets:
        raise UsageError(f"no cluster preset {name!r}; there are {', '.join(presets)}")
    entry = presets[name]
    values = {key: field["value"] for key, field in entry.items() if isinstance(field, dict)}
    source = f"preset {name}: {entry['source']}"
    return _checked(_from_mapping(values, f"the preset {name}", name, source))


def _presets() -> dict[str, dict[str, object]]:
    text = (files(__package__) / "presets.yaml").read_text(encoding="utf-8")
    loaded: dict[str, dict[str, object]] = yaml.safe_load(text)
    return loaded


def _from_mapping(data: object, where: str, name: str, source: str) -> Cluster:
    if not isinstance(data, dict):
        raise UsageError(f"{where} must be a mapping of keys to values, with the keys {', '.join(REQUIRED)}")
    unknown = [str(key) for key in data if key not in KEYS]
    if unknown:
        raise UsageError(f"{where} has unknown keys: {', '.join(unknown)}; allowed are {', '.join(KEYS)}")
    missing = [key for key in REQUIRED if data.get(key) is None]
    if missing:
        raise UsageError(f"{where} misses {', '.join(missing)}")
    storage, network = data.get("storage_bandwidth"), data.get("network_per_node")
    try:
        return Cluster(
            nodes=_whole(data, "nodes"),
            cpus_per_node=_whole(data, "cpus_per_node"),
            memory_bytes_per_node=parse_bytes(str(data["memory_per_node"])),
            name=str(data.get("name") or name),
            threads_per_core=None if data.get("threads_per_core") is None else _whole(data, "threads_per_core"),
            cpu_model=None if data.get("cpu_model") is None else str(data["cpu_model"]),
            network_bytes_per_s_per_node=None if network is None else parse_bytes_per_s(str(network)),
            storage_bytes_per_s=None if storage is None else parse_bytes_per_s(str(storage)),
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
    fields = ("nodes", "cpus_per_node", "memory_bytes_per_node", "storage_bytes_per_s", "network_bytes_per_s_per_node")
    given = [field for field in fields if getattr(options, field) is not None]
    if not given:
        return cluster
    is_this_host = cluster.source == THIS_HOST
    return replace(
        cluster,
        nodes=cluster.nodes if options.nodes is None else options.nodes,
        cpus_per_node=cluster.cpus_per_node if options.cpus_per_node is None else options.cpus_per_node,
        memory_bytes_per_node=(
            cluster.memory_bytes_per_node if options.memory_bytes_per_node is None else options.memory_bytes_per_node
        ),
        storage_bytes_per_s=cluster.storage_bytes_per_s if options.storage_bytes_per_s is None else options.storage_bytes_per_s,
        network_bytes_per_s_per_node=(
            cluster.network_bytes_per_s_per_node
            if options.network_bytes_per_s_per_node is None
            else options.network_bytes_per_s_per_node
        ),
        name="cluster" if is_this_host and options.nodes is not None else cluster.name,
        # Nodes of another size are not this host, so its processor is not theirs.
        cpu_model=None if is_this_host and options.cpus_per_node is not None else cluster.cpu_model,
        source="flags" if set(fields[:3]) <= set(given) else f"{cluster.source}, with {', '.join(given)} from flags",
    )


def _checked(cluster: Cluster) -> Cluster:
    """Refuses numbers that no cluster has."""
    threads = cluster.threads_per_core
    for name, value in (
        ("nodes", cluster.nodes),
        ("CPUs per node", cluster.cpus_per_node),
        ("bytes of memory per node", cluster.memory_bytes_per_node),
        ("threads per core", 1 if threads is None else threads),
    ):
        if value < 1:
            raise UsageError(f"a cluster cannot have {value} {name} ({cluster.source})")
    for name, rate in (("storage", cluster.storage_bytes_per_s), ("network", cluster.network_bytes_per_s_per_node)):
        if rate is not None and not 0 < rate < float("inf"):
            raise UsageError(f"the {name} bandwidth must be a positive number of bytes per second, got {rate} ({cluster.source})")
    if threads is not None and threads > cluster.cpus_per_node:
        raise UsageError(f"{threads} threads per core do not fit {cluster.cpus_per_node} CPUs ({cluster.source})")
    return cluster
