"""Read and write the file of a cluster: its nodes, and how jobs are launched on them.

The form is in docs/interfaces.md. A file may hold the keys in `KEYS` only, and must hold those in `REQUIRED`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cs_input_analyzer.errors import Mistakes, UsageError
from cs_input_analyzer.gone import gone_message
from cs_input_analyzer.host.cluster.checks import checked
from cs_input_analyzer.model.launch_lines import check_lines
from cs_input_analyzer.model.node_list import expand_nodelist
from cs_input_analyzer.model.recommend import THIS_HOST
from cs_input_analyzer.records import Cluster, Options
from cs_input_analyzer.records.machine import MOST_CPUS_PER_NODE
from cs_input_analyzer.units import parse_bytes, parse_bytes_per_s, parse_estimate
from wafer_model.foreign import text_of, yaml_of

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """Hold the content of a file. `launch`: values for fields of the options, by their names."""

    cluster: Cluster
    launch: Mapping[str, Any]


def is_file(choice: str) -> bool:
    """Return whether this value of `--cluster` means a file."""
    return Path(choice).suffix in SUFFIXES or Path(choice).is_file()


def read_file(path: Path) -> ClusterFile:
    """Return the content of a cluster file.

    Raises:
        UsageError: the file cannot be read, is not YAML, or has wrong keys and values; it names all of them.
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
    return from_mapping(data, where, name=path.stem, source=str(path))


def from_mapping(data: object, where: str, *, name: str, source: str) -> ClusterFile:
    """Return the content of a file or a preset.

    Args:
        where: names the file in messages.
        name: of the cluster, if the mapping has none.
        source: of the cluster, if the mapping has none.

    Raises:
        UsageError: all wrong keys and values.
    """
    if not isinstance(data, dict):
        raise UsageError(f"{where} must be a mapping of keys to values, with the keys {', '.join(REQUIRED)}")
    mistakes = Mistakes()
    for key in data:
        if key not in KEYS:
            mistakes.note(f"{where}: {gone_message('option', str(key)) or _unknown(str(key))}")
    missing = [key for key in REQUIRED if data.get(key) is None]
    if missing:
        mistakes.note(f"{where} misses {', '.join(missing)}")
    fields = {"name": name, "source": source} | _values(data, _OF_CLUSTER, where, mistakes)
    launch = _values(data, _OF_LAUNCH, where, mistakes)
    mistakes.raise_any()
    try:
        return ClusterFile(checked(Cluster(**fields)), launch)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _unknown(key: str) -> str:
    near = get_close_matches(key, KEYS, n=1)
    return f"unknown key {key}; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}")


def _values(
    data: Mapping[Any, Any], readers: Mapping[str, tuple[str, Callable[[Any], Any]]], where: str, mistakes: Mistakes
) -> dict[str, Any]:
    """Return the values of these keys by the names of their fields. Note impossible values."""
    found: dict[str, Any] = {}
    for key, (field, read) in readers.items():
        if data.get(key) is None:
            continue
        try:
            value = read(data[key])
            _check(field, value)
            found[field] = value
        except UsageError as error:
            mistakes.note(f"{where}: {key}: {error}")
    return found


def _check(field: str, value: Any) -> None:
    """Raise UsageError for a value that no cluster, or no launch line, can hold."""
    if field in Cluster.__dataclass_fields__:
        others: dict[str, Any] = {
            "nodes": 1,
            "cpus_per_node": MOST_CPUS_PER_NODE,
            "memory_bytes_per_node": 1 << 30,
            "source": "in this file",
        }
        checked(Cluster(**others | {field: value}))
    else:
        check_lines(Options(**{field: value}))


# --- values ---------------------------------------------------------------------------------------------------------------------


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"must be a whole number, got {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool) or not str(value).strip():
        raise UsageError(f"must be a text, got {value!r}")
    return str(value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"must be true or false, got {value!r}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    """Return a list of texts, also from one text with commas."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list):
        raise UsageError(f"must be a list, or a text with commas, got {value!r}")
    return tuple(_text(part).strip() for part in parts)


def _nodes(value: Any) -> tuple[str, ...]:
    lists = [value] if isinstance(value, str) else _texts(value)
    return tuple(name for text in lists if text.strip() for name in expand_nodelist(text))


def _source(value: Any) -> str:
    if _text(value) == THIS_HOST:
        raise UsageError(f"{THIS_HOST!r} names no machine: write which one")
    return _text(value)


_OF_CLUSTER: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "name": ("name", _text),
    "nodes": ("nodes", _whole),
    "cpus_per_node": ("cpus_per_node", _whole),
    "threads_per_core": ("threads_per_core", _whole),
    "memory_per_node": ("memory_bytes_per_node", lambda value: parse_bytes(_text(value))),
    "network_per_node": ("network_bytes_per_s_per_node", lambda value: parse_bytes_per_s(_text(value))),
    "storage_bandwidth": ("storage_bytes_per_s", lambda value: parse_bytes_per_s(_text(value))),
    "memory_bandwidth": ("memory_bandwidth_bytes_per_s_per_node", lambda value: parse_bytes_per_s(_text(value))),
    "node_speed": ("speed_ratio", lambda value: parse_estimate(_text(value))),
    "cpu_model": ("cpu_model", _text),
    "partition": ("partition", _text),
    "exclude_nodes": ("excluded_nodes", _nodes),
    "source": ("source", _source),
}
_OF_LAUNCH: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "shared_nodes": ("shared_nodes", _switch),
    "cyclic": ("cyclic", _switch),
    "container": ("container", _text),
    "mount_dirs": ("mount_dirs", _texts),
    "srun_args": ("srun_args", _text),
    "sbatch_args": ("sbatch_args", _text),
}
REQUIRED = ("nodes", "cpus_per_node", "memory_per_node")
KEYS = (*_OF_CLUSTER, *_OF_LAUNCH)
LAUNCH_FIELDS = tuple(field for field, _ in _OF_LAUNCH.values())


# --- writing --------------------------------------------------------------------------------------------------------------------

# Facts that neither Slurm nor a host knows of its nodes, each with an example of its value.
_TO_ADD = {"network_per_node": "100Gb/s", "storage_bandwidth": "5GB/s", "memory_bandwidth": "150GB/s", "node_speed": "1.2"}


def file_text(cluster: Cluster) -> str:
    """Return the text of a file from which `read_file` makes an equal cluster.

    It leaves out the speed of the nodes, because that depends on the host that measures.
    """
    import yaml

    values: dict[str, Any] = {}
    for key, (field, _) in _OF_CLUSTER.items():
        value = getattr(cluster, field)
        if value is not None and value != () and field != "speed_ratio":
            values[key] = _WRITERS.get(key, lambda value: value)(value)
    lines = ["# A cluster for `cs_input_analyzer analyze --cluster FILE`; all keys are in docs/interfaces.md. Add what you know:"]
    lines += [f"# {key}: {example}" for key, example in _TO_ADD.items() if key not in values]
    return "\n".join([*lines, yaml.safe_dump(values, sort_keys=False, width=120)])


def _size(size: int) -> str:
    units = (("GiB", 1 << 30), ("GB", 10**9), ("MiB", 1 << 20), ("MB", 10**6), ("KiB", 1 << 10))
    return next((f"{size // factor}{unit}" for unit, factor in units if size % factor == 0), f"{size}B")


def _rate(bytes_per_s: float) -> str:
    """Return the shortest text that is read as exactly this rate."""
    texts = (f"{bytes_per_s / 1e9:g}GB/s", f"{bytes_per_s!r}B/s")
    return next(text for text in texts if text is texts[-1] or parse_bytes_per_s(text) == bytes_per_s)


_WRITERS: Mapping[str, Callable[[Any], Any]] = {
    "memory_per_node": _size,
    "network_per_node": _rate,
    "storage_bandwidth": _rate,
    "memory_bandwidth": _rate,
    "exclude_nodes": list,
}
