"""Keep what earlier runs saw and planned, in small files of the user's cache folder.

A host may be busy for a whole run, and quiet for the next. No look within one run shows it, so one file holds what the launches of
each of the last runs got of an idle host. Another holds how far predictions were off that `validate` launched here. The third holds
the launch that was planned last for the same pipeline, files, cluster and demand. Two runs that end together may lose one of their
entries; the next adds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import msgspec

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.files import cache_folder, write_text_atomically
from cs_input_analyzer.records import Host, KeptPlan

Value = TypeVar("Value")

# As many runs as tell a quiet moment from none.
RUNS = 20
FILE = "host_ratios.json"
PLANS, PLANS_FILE = 200, "plans.json"
ERRORS_FILE = "prediction_errors.json"

_HOSTS = dict[str, list[float]]
_PLANS = dict[str, KeptPlan]


def known(host: Host) -> Host:
    """Return the host with what launches of earlier runs got of it; as it is if nothing can be read."""
    kept, errors = _read(_HOSTS, FILE).get(_name(host), ()), _read(_HOSTS, ERRORS_FILE).get(_site(host), ())
    return replace(host, kept_ratios=tuple(kept), site_errors=tuple(errors))


def remember(host: Host, kept_ratio: float) -> None:
    """Add a run to the file: the share of an idle host's rate that its launches got.

    Raises:
        OSError, LaunchError: the file cannot be written.
    """
    _add(FILE, _name(host), [kept_ratio])


def remember_errors(host: Host, errors: Sequence[float]) -> None:
    """Add what launches gave over what was predicted of them, natural logarithms.

    Raises:
        OSError, LaunchError: the file cannot be written.
    """
    _add(ERRORS_FILE, _site(host), errors)


def _add(file: str, key: str, numbers: Sequence[float]) -> None:
    hosts = _read(_HOSTS, file)
    hosts[key] = [*hosts.get(key, []), *numbers][-RUNS:]
    _write(file, msgspec.json.encode(hosts))


def kept_plan(key: str) -> KeptPlan | None:
    """Return the plan that was remembered last under this key; None if there is none."""
    return _read(_PLANS, PLANS_FILE).get(key)


def remember_plan(key: str, plan: KeptPlan) -> None:
    """Remember a plan under a key. A plan that was kept stays as old as it is.

    Raises:
        OSError, LaunchError: the file cannot be written.
    """
    plans = _read(_PLANS, PLANS_FILE)
    plans.pop(key, None)
    newest = [*plans.items(), (key, plan)][-PLANS:]
    _write(PLANS_FILE, msgspec.json.encode(dict(newest)))


def _read(kind: type[dict[str, Value]], name: str) -> dict[str, Value]:
    """Return what a file holds. One that is not there, or was damaged, is as good as an empty one."""
    try:
        return msgspec.json.decode((cache_folder() / name).read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UsageError):  # the last of a record that cannot be made of its numbers
        return {}


def _write(name: str, text: bytes) -> None:
    write_text_atomically(cache_folder() / name, text.decode())


def _name(host: Host) -> str:
    """Return a name of the machine: another CPU under the same name is another host."""
    return f"{host.hostname}, {host.cpus} CPUs, {host.cpu_model}"


def _site(host: Host) -> str:
    """Return a name of machines like this one: the nodes of a cluster share what was learnt of each."""
    return f"{host.cpus} CPUs, {host.cpu_model}"
