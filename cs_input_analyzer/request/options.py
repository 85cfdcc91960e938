"""Read keywords and texts into the options record, for the command line and for Python alike.

All mistakes are noted before anything is raised. A field that cannot be read has its default while the others are checked.
"""

from __future__ import annotations

import functools
import numbers
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, get_type_hints

from cs_input_analyzer.errors import Mistakes, UsageError, check_text, typed
from cs_input_analyzer.host import cluster as clusters
from cs_input_analyzer.host.cluster.file import LAUNCH_FIELDS
from cs_input_analyzer.model.launch_lines import check_lines
from cs_input_analyzer.model.node_list import expand_nodelist
from cs_input_analyzer.records import Cluster, Layout, Options
from cs_input_analyzer.request.checks import contradictions, problems
from cs_input_analyzer.request.keywords import SHORT
from cs_input_analyzer.rules import check_codes
from cs_input_analyzer.units import parse_bytes, parse_bytes_per_s, parse_estimate, parse_per_s, parse_seconds

# What the vendor's launcher takes where its options say nothing.
SITE_DEFAULTS = ("DEF_NODES", "DEF_TASKS", "DEF_CPUS")

SLURM_SECONDS = 180.0
"""The time for measuring with Slurm: workers of full nodes take longer to start there."""

NO_LAUNCH = Layout(nodes=1, tasks_per_node=1, cpus_per_task=1)
"""In place of the site's defaults, if no launch in use today is judged."""


def read_options(mistakes: Mistakes, /, **choices: Any) -> Options | None:
    """Return the options record, checked, or None if there are mistakes.

    Args:
        mistakes: notes what is wrong. Whether options fit each other is asked only if each of them is valid.
        choices: the fields of `Options`, `demand` and `step_time`. Texts may stand for numbers with a unit (`7k`, `160ms`,
            `128GiB`), for `current`, and for lists of layouts, codes and names (`1x1x1,1x2x1`).
    """
    if choices.get("max_seconds") is None:
        choices["max_seconds"] = SLURM_SECONDS if choices.get("launcher") == "slurm" else Options().max_seconds
    options = Options(**_read(choices, mistakes))
    for problem in problems(options):
        mistakes.note(problem)
    with mistakes:
        check_lines(options)
    if mistakes:
        return None
    for problem in contradictions(options):
        mistakes.note(problem)
    return None if mistakes else options


def _read(choices: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    """Return the fields that were given and could be read."""
    read: dict[str, Any] = {}
    for keyword, value in choices.items():
        name = SHORT.get(keyword, keyword)
        if value is not None and name != keyword and choices.get(name) is not None:
            mistakes.note(f"{keyword} and {name} are the same: give one")
        elif not (value is None and name in read):
            with mistakes:
                read[name] = typed(keyword, _parsed(keyword, name, value), _hints()[name])
                for part in read[name] if isinstance(read[name], tuple) else (read[name],):
                    check_text(keyword, part if isinstance(part, str) else "")
    if read.get("current") is None:
        with mistakes:
            read["current"] = current_from(os.environ)
    return read


def _parsed(keyword: str, name: str, value: Any) -> Any:
    """Return a value as its field holds it. Raise UsageError, which names the keyword, for a text that cannot be read."""
    if name in _FROM_TEXT and isinstance(value, str):
        try:
            return _FROM_TEXT[name](value)
        except UsageError as error:
            raise UsageError(f"{keyword}={reprlib.repr(value)}: {error}") from None
    if name == "node_speed_ratio" and isinstance(value, numbers.Real):
        return parse_estimate(str(value))
    if name in _UNNAMED:
        try:
            return _FROM_ANY[name](value)
        except UsageError as error:
            message = str(error)
            raise UsageError(message if message.startswith(f"{name}=") else f"{name}={reprlib.repr(value)}: {message}") from None
    return _FROM_ANY[name](value) if name in _FROM_ANY else value


@functools.cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Options)


def as_cluster(cluster: Any, mistakes: Mistakes) -> tuple[Cluster | None, str | None]:
    """Return a cluster, given as such or as a mapping of the record's fields, and its name; of a text that names one only that."""
    with mistakes:
        if isinstance(cluster, Mapping):
            try:
                cluster = Cluster(**cluster)
            except TypeError:
                others = [field.name for field in fields(Cluster)][3:]
                raise UsageError(
                    f"cluster={reprlib.repr(dict(cluster))}: a mapping has the fields of csia.Cluster; nodes, cpus_per_node and "
                    f"memory_bytes_per_node must be there, and of others there are: {', '.join(others)}"
                ) from None
        if isinstance(cluster, Cluster):
            return cluster, cluster.name
        return None, None if cluster is None else str(typed("cluster", cluster, str))
    return None, None


def as_layout(layout: Any) -> Layout | None:
    """Return a layout, given as a record or a text. Raise UsageError, also for a record that cannot be written."""
    return None if layout is None else Layout.parse(str(layout))


def as_layouts(name: str, layouts: Any) -> tuple[Layout, ...]:
    """Layouts as records or texts, or as one text with commas. Raise UsageError, also for a record that cannot be written."""
    if isinstance(layouts, Layout):
        layouts = (layouts,)
    parts: Iterable[Any] = layouts.split(",") if isinstance(layouts, str) else _iterable(name, layouts)
    return tuple(layout for part in parts if str(part).strip() and (layout := as_layout(part)))


def as_codes(codes: Any, name: str = "select and ignore") -> tuple[str, ...]:
    """Codes of rules as a tuple or as `CSI101,CSI2`. Raise UsageError for one that fits no rule."""
    return check_codes(_parts(name, codes))


def as_node_names(nodes: Any) -> tuple[str, ...]:
    """Return names of nodes, from node lists or as `n[1-3],n7`. Raise UsageError for other values."""
    lists = [nodes] if isinstance(nodes, str) else _parts("exclude_nodes", nodes)
    return tuple(name for text in lists if text.strip() for name in expand_nodelist(text))


def _packages(names: Any) -> tuple[str, ...]:
    """Return names of packages, from a tuple or as `spacy,horovod`. Raise UsageError for an impossible name."""
    packages = _parts("stand_ins", names)
    for name in packages:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"--stand-in {name!r}: write the names by which packages are imported, for example spacy,horovod")
    return packages


def _parts(name: str, texts: Any) -> tuple[str, ...]:
    """Texts as such, or as one with commas."""
    if isinstance(texts, str):
        return tuple(part.strip() for part in texts.split(",") if part.strip())
    return tuple(typed(name, text, str) for text in _iterable(name, texts))


def _iterable(name: str, value: Any) -> Iterable[Any]:
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise UsageError(f"{name}={reprlib.repr(value)}: a list is needed, or one text with commas")
    return value


# How a number with a unit is read from its text, and what is no single number from whatever was given.
_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "demand_samples_per_s": parse_per_s,
    "step_time_s": parse_seconds,
    "max_seconds": parse_seconds,
    "start_timeout_s": parse_seconds,
    "queue_timeout_s": parse_seconds,
    "memory_bytes_per_node": parse_bytes,
    "worker_memory_bytes": parse_bytes,
    "storage_bytes_per_s": parse_bytes_per_s,
    "node_speed_ratio": parse_estimate,
}
_FROM_ANY: dict[str, Callable[[Any], Any]] = {
    "select": functools.partial(as_codes, name="select"),
    "ignore": functools.partial(as_codes, name="ignore"),
    "mount_dirs": functools.partial(_parts, "mount_dirs"),
    "stand_ins": _packages,
    "exclude_nodes": as_node_names,
    "current": as_layout,
    "probe_layouts": functools.partial(as_layouts, "probe_layouts"),
}
# Those whose readers do not name them in their errors.
_UNNAMED = ("current", "probe_layouts", "select", "ignore")


def current_from(environ: Mapping[str, str]) -> Layout | None:
    """Return the launch in use today if the site's DEF_NODES, DEF_TASKS and DEF_CPUS are all set.

    Raises:
        UsageError: one of them is no number, even if another is not set.
    """
    values = {name: environ.get(name, "").strip() for name in SITE_DEFAULTS}
    for name, value in values.items():
        if value and not re.fullmatch("[1-9][0-9]{0,6}", value):
            raise UsageError(f"{name}={value}: must be a whole number, 1 or more; set it right, unset it, or give --current NxTxC")
    return Layout.parse("x".join(values.values())) if all(values.values()) else None


# --- what a cluster file says of a launch -----------------------------------------------------------------------------------------


def with_cluster_file(choices: Mapping[str, Any], declared: Cluster | None = None) -> dict[str, Any]:
    """Return the choices, filled up with the launch options of the file that `cluster` names.

    Mistakes in the file are reported where its nodes are read.

    Args:
        choices: the options given by the user.
        declared: a cluster given as such. Then there is no file, whatever its name.
    """
    choice, of_file = choices.get("cluster"), dict[str, Any]()
    if declared is None and isinstance(choice, str):
        with suppress(UsageError):
            of_file = clusters.launch_options(choice)
    return of_file | {name: value for name, value in choices.items() if name not in LAUNCH_FIELDS or value is not None}
