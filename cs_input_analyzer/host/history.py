"""Keep what launches of earlier runs got of this host, in a small file of the user's cache folder.

A host may be busy for a whole run, and quiet for the next. No look within one run shows it. The file holds one ratio for each of
the last runs, and no rates or plans. Two runs that end together may lose one of their entries; the next adds it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cs_input_analyzer.files import write_text_atomically
from cs_input_analyzer.records import Host

# As many runs as tell a quiet moment from none.
RUNS = 20
FILE = "host_ratios.json"

_HOSTS: TypeAdapter[dict[str, list[float]]] = TypeAdapter(dict[str, list[float]])


def known(host: Host) -> Host:
    """Return the host with what launches of earlier runs got of it; as it is if nothing can be read."""
    return replace(host, kept_ratios=tuple(_read(_folder()).get(_name(host), ())))


def remember(host: Host, kept_ratio: float) -> None:
    """Add a run to the file: the share of an idle host's rate that its launches got.

    Raises:
        OSError, LaunchError: the file cannot be written.
    """
    folder = _folder()
    hosts = _read(folder)
    hosts[_name(host)] = [*hosts.get(_name(host), []), kept_ratio][-RUNS:]
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomically(folder / FILE, _HOSTS.dump_json(hosts).decode())


def _read(folder: Path) -> dict[str, list[float]]:
    """Return the ratios by host. A file that is not there, or was damaged, is as good as none."""
    try:
        return _HOSTS.validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return {}


def _name(host: Host) -> str:
    """Return a name of the machine: another CPU under the same name is another host."""
    return f"{host.hostname}, {host.cpus} CPUs, {host.cpu_model}"


def _folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("cs_input_analyzer"))
