"""What runs of before saw of this host when nothing disturbed it: a small file in the user's cache folder. No rates, no plans.

A host may be disturbed for the whole of a run (a neighbour on the same cores), which no look within that run shows. The file holds,
of each of the last runs on a host, the fastest reference loop by the CPUs that were in use. Two runs that end at once may lose what
one of them saw: the next one sees it again.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cs_input_analyzer.records import Host, Measurement, QuietLoop

__all__ = ["known_loops", "remember"]

# As many runs as tell a quiet moment from none. A host that became slower for good is believed after as many.
RUNS = 20
FILE = "hosts.json"
Loops = tuple[QuietLoop, ...]
_HOSTS: TypeAdapter[dict[str, list[Loops]]] = TypeAdapter(dict[str, list[Loops]])


def known_loops(host: Host, folder: Path | None = None) -> Loops:
    """The fastest that runs of before saw on this host; empty where there is nothing that can be read.

    Args:
        folder: of the file; None is the user's cache folder.
    """
    return _fastest(loop for run in _read(folder or _folder()).get(_name(host), []) for loop in run)


def remember(host: Host, measurements: Iterable[Measurement], folder: Path | None = None) -> None:
    """Adds what workers of a run saw themselves, beside what was known before. Raises OSError where the file cannot be written."""
    folder = folder or _folder()
    known = {loop.cpu_s for loop in host.quiet_loops}
    seen = _fastest(
        QuietLoop(launch.layout.cpus_per_node, loop_s)
        for launch in measurements
        for worker in launch.workers
        if worker.noise is not None and (loop_s := worker.noise.undisturbed_s) is not None and loop_s not in known
    )
    hosts = _read(folder)
    hosts[_name(host)] = [*hosts.get(_name(host), []), seen][-RUNS:]
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=FILE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_HOSTS.dump_json(hosts))
        Path(name).replace(folder / FILE)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _fastest(loops: Iterable[QuietLoop]) -> Loops:
    found: dict[int, float] = {}
    for loop in loops:
        if loop.cpu_s > 0 and math.isfinite(loop.cpu_s):
            found[loop.cpus] = min(loop.cpu_s, found.get(loop.cpus, math.inf))
    return tuple(QuietLoop(cpus, cpu_s) for cpus, cpu_s in sorted(found.items()))


def _read(folder: Path) -> dict[str, list[Loops]]:
    """A file that is not there, or was damaged, is as good as none."""
    try:
        return _HOSTS.validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return {}


def _name(host: Host) -> str:
    """Of the machine and of what the loop runs on: another CPU under the same name is another host, another Python another loop."""
    return f"{host.hostname}, {host.cpus} CPUs, {host.cpu_model}, Python {host.python_version}"


def _folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("cs_input_analyzer"))
