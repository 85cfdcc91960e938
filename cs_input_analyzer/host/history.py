"""Keep errors and plans of earlier runs, in two small files of the user's cache folder.

One holds the errors of predictions that `validate` launched here. The other holds the last planned launch for the same pipeline,
files, cluster and demand. If two runs end together, one entry may be lost; the next run adds it.
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

# The newest errors of machines of one kind.
ERRORS = 20
PLANS, PLANS_FILE = 200, "plans.json"
ERRORS_FILE = "prediction_errors.json"

_SITES = dict[str, list[float]]
_PLANS = dict[str, KeptPlan]


def known(host: Host) -> Host:
    """Return the host with the errors of predictions on machines of its kind. Return it unchanged if nothing can be read."""
    return replace(host, site_errors=tuple(_read(_SITES, ERRORS_FILE).get(_site(host), ())))


def remember_errors(host: Host, errors: Sequence[float]) -> None:
    """Add errors of predictions: natural logarithms of the delivered rate over the predicted one.

    Raises:
        OSError: the file cannot be written.
        LaunchError: the file cannot be written.
    """
    sites = _read(_SITES, ERRORS_FILE)
    sites[_site(host)] = [*sites.get(_site(host), []), *errors][-ERRORS:]
    _write(ERRORS_FILE, msgspec.json.encode(sites))


def kept_plan(key: str) -> KeptPlan | None:
    """Return the plan that was remembered last under this key; None if there is none."""
    return _read(_PLANS, PLANS_FILE).get(key)


def remember_plan(key: str, plan: KeptPlan) -> None:
    """Remember a plan under a key. A plan that was kept keeps its age.

    Raises:
        OSError: the file cannot be written.
        LaunchError: the file cannot be written.
    """
    plans = _read(_PLANS, PLANS_FILE)
    plans.pop(key, None)
    newest = [*plans.items(), (key, plan)][-PLANS:]
    _write(PLANS_FILE, msgspec.json.encode(dict(newest)))


def _read(kind: type[dict[str, Value]], name: str) -> dict[str, Value]:
    """Return the content of a file. A missing or damaged file counts as empty."""
    try:
        return msgspec.json.decode((cache_folder() / name).read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UsageError):  # the last of a record that cannot be made of its numbers
        return {}


def _write(name: str, text: bytes) -> None:
    write_text_atomically(cache_folder() / name, text.decode())


def _site(host: Host) -> str:
    """Return a name of machines like this one: the nodes of a cluster share what each has learnt."""
    return f"{host.cpus} CPUs, {host.cpu_model}"
