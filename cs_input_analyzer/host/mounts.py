"""Find the file system of a file in the kernel's list of mounts, and whether other hosts share it."""

from __future__ import annotations

import functools
import os
from importlib.resources import files
from typing import Any

import psutil
import yaml


def file_system_of(path: str) -> tuple[str | None, bool | None]:
    """Return the type of the file system that holds `path`, links resolved, and whether it is a network or cluster file system.

    Return (None, None) if the list of mounts cannot be read. Sharing is None for types that may be either: layers (`overlay`),
    unknown FUSE programs, folders of a virtual machine's host.
    """
    real = os.path.realpath(path)
    try:
        above = [mount for mount in psutil.disk_partitions(all=True) if is_below(real, mount.mountpoint)]
    except OSError:
        return None, None
    # At the same point the later mount lies over the earlier one, as a triggered automount does.
    best = max(reversed(above), key=lambda mount: len(mount.mountpoint), default=None)
    return (best.fstype, is_shared(best.fstype)) if best is not None else (None, None)


def is_shared(kind: str) -> bool | None:
    """Return whether this type of file system serves files to several hosts; None if the type does not tell."""
    family, name = ("fuse", kind.removeprefix("fuse.")) if kind.startswith("fuse.") else ("kernel", kind)
    types = packaged("file_systems.yaml")
    known = types[family]
    # FUSE clients, such as `fuse.glusterfs`, serve the same files as the kernel's client.
    if name.lower() in {*known["shared"], *types["kernel"]["shared"]}:
        return True
    return False if name.lower() in known["local"] else None


@functools.cache
def packaged(name: str) -> dict[str, Any]:
    """Return the mapping in a YAML file of this package."""
    loaded: dict[str, Any] = yaml.safe_load((files(__package__) / name).read_text(encoding="utf-8"))
    return loaded


def is_below(path: str, point: str) -> bool:
    """Return whether `path` is the folder `point`, or in it."""
    return path == point or path.startswith(point.rstrip("/") + "/")
