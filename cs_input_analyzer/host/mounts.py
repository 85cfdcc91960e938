"""Which file system a file is on, and whether other hosts share it: from the kernel's own list of mounts."""

from __future__ import annotations

import functools
import os
from importlib.resources import files
from typing import Any

import psutil
import yaml


def file_system_of(path: str) -> tuple[str | None, bool | None]:
    """The type of the file system that holds `path`, links resolved, and whether it is a network or cluster file system.

    (None, None) where the list of mounts cannot be read. Sharing is None for types that may be either: layers (`overlay`), unknown
    FUSE programs, folders of a virtual machine's host.
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
    """Whether files of this type of file system are served to several hosts; None where the type does not tell."""
    family, name = ("fuse", kind.removeprefix("fuse.")) if kind.startswith("fuse.") else ("kernel", kind)
    types = packaged("file_systems.yaml")
    known = types[family]
    # FUSE clients of a kernel's file system, as `fuse.glusterfs`, serve the same files as that does.
    if name.lower() in {*known["shared"], *types["kernel"]["shared"]}:
        return True
    return False if name.lower() in known["local"] else None


@functools.cache
def packaged(name: str) -> dict[str, Any]:
    """The mapping in a YAML file of this package."""
    loaded: dict[str, Any] = yaml.safe_load((files(__package__) / name).read_text(encoding="utf-8"))
    return loaded


def is_below(path: str, point: str) -> bool:
    """Whether `path` is the folder `point`, or in it."""
    return path == point or path.startswith(point.rstrip("/") + "/")
