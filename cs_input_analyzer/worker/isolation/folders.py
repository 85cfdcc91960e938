"""Make private folders on the file systems of the user's own files, and remove them."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

import psutil

from cs_input_analyzer.host.mounts import is_below

# Names of private folders on other file systems than the worker's, and of the links to them.
AWAY = ".cs_input_analyzer-away-"


def private_folder(path: Path, folder: Path) -> Path:
    """Return a private folder on the file system of `path`. Return `folder` if that is the same, or if there can be none."""
    beside = path.parent
    while not beside.is_dir():
        beside = beside.parent
    device = beside.stat().st_dev
    if device == folder.stat().st_dev:
        return folder
    for link in folder.glob(f"{AWAY}*"):
        if link.exists() and link.stat().st_dev == device:
            return link.resolve()
    place = beside / f"{AWAY}{secrets.token_hex(8)}"
    link = folder / place.name
    try:
        link.symlink_to(place)  # before there is anything to be removed
        place.mkdir(mode=0o700)
    except OSError:
        link.unlink(missing_ok=True)
        return folder
    return place


def remove_tree(folder: Path) -> None:
    """Remove a folder and its content. Leave mounts in it and the targets of links alone.

    An overlay leaves folders that cannot be read, and user code may make others.
    """
    with suppress(OSError):
        real = os.path.realpath(folder)
        mounted = {found.mountpoint for found in psutil.disk_partitions(all=True) if is_below(found.mountpoint, real)}
        if real not in mounted:
            _remove_below(real, mounted)
            os.rmdir(real)


def _remove_below(folder: str, mounted: Set[str]) -> None:
    try:
        entries = list(os.scandir(folder))
    except PermissionError:
        os.chmod(folder, stat.S_IRWXU)
        entries = list(os.scandir(folder))
    for entry in entries:
        if entry.path in mounted:
            continue
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                _remove_below(entry.path, mounted)
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)
