"""Keep what earlier runs saw of this host when it was idle, in a small file of the user's cache folder.

A host may be disturbed for a whole run, by a neighbour on the same cores. No look within that run shows it. So the file holds two
figures of each of the last runs: the fastest reference loop by the number of CPUs in use, and the share of the idle host's rate
that its launches got. It holds no rates and no plans. Two runs that end together may lose one of their entries; the next adds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.files import write_text_atomically
from cs_input_analyzer.model.capacity import fastest_loops_s
from cs_input_analyzer.records import Host, Measurement, QuietLoop

# As many runs as tell a quiet moment from none. One that became slower for good is believed after three quarters of them.
RUNS = 20
FILE = "hosts.json"


@dataclass(frozen=True, slots=True)
class _Run:
    """What one run saw: its fastest loops, and what its launches got of the quiet level, None where it has no model."""

    loops: tuple[QuietLoop, ...]
    kept_ratio: float | None


_HOSTS: TypeAdapter[dict[str, list[_Run]]] = TypeAdapter(dict[str, list[_Run]])


def known(host: Host) -> Host:
    """The host with what runs of before saw of it. Of the loops the lower quartile, as some runs never met a quiet moment; of a few
    runs, the fastest. As it is where there is nothing that can be read."""
    runs = _read(_folder()).get(_name(host), [])
    seen: dict[int, list[float]] = {}
    for loop in (loop for run in runs for loop in run.loops):
        seen.setdefault(loop.cpus, []).append(loop.cpu_s)
    loops = tuple(QuietLoop(cpus, sorted(values)[(len(values) - 1) // 4]) for cpus, values in sorted(seen.items()))
    return replace(host, quiet_loops=loops, kept_ratios=tuple(run.kept_ratio for run in runs if run.kept_ratio is not None))


def remember(host: Host, measurements: Iterable[Measurement], kept_ratio: float | None) -> None:
    """Add a run to the file: its fastest reference loops, and the share of the idle host's rate that its launches got.

    Raises:
        OSError, UsageError, LaunchError: the file cannot be written.
    """
    folder = _folder()
    hosts = _read(folder)
    run = _Run(tuple(QuietLoop(cpus, cpu_s) for cpus, cpu_s in sorted(fastest_loops_s(measurements).items())), kept_ratio)
    hosts[_name(host)] = [*hosts.get(_name(host), []), run][-RUNS:]
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomically(folder / FILE, _HOSTS.dump_json(hosts).decode())


def _read(folder: Path) -> dict[str, list[_Run]]:
    """A file that is not there, or was damaged, is as good as none."""
    try:
        return _HOSTS.validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError, UsageError):  # the last of a record that cannot be made of its numbers
        return {}


def _name(host: Host) -> str:
    """Of the machine and of what the loop runs on: another CPU under the same name is another host, another Python another loop."""
    return f"{host.hostname}, {host.cpus} CPUs, {host.cpu_model}, Python {host.python_version}"


def _folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("cs_input_analyzer"))
