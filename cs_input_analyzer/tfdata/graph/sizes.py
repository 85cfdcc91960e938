"""Read the sizes of the files that a graph names: from the kernel, or for a store (`gs://`) by `tf.io.gfile`."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

# A network file system answers in a millisecond, a store in tens of them. So many questions are asked at a time.
ASKING_THREADS = 32
ASKED_AT_ONCE = 512
# Of more files than these only this many are asked about, evenly spread. The others count with their mean size, if all are files.
ASKED_LOCAL = 100_000
ASKED_REMOTE = 2048
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

Sized = tuple[tuple[str, int], ...]


def existing(names: Iterable[str], known: Mapping[str, int] | None = None) -> Sized:
    """Return the regular files among these, with their sizes, by path. `known`: sizes that were read before."""
    known = known or {}
    paths = sorted(set(names))
    asked = [path for path in paths if path not in known]
    local, remote = [path for path in asked if not _SCHEME.match(path)], [path for path in asked if _SCHEME.match(path)]
    # The first of a store is asked about alone: one that cannot be reached, or refuses, is not asked two thousand times.
    is_answering = bool(remote) and _remote_size(remote[0]) is not None
    stored = _sizes(remote, _remote_size, ASKED_REMOTE, at_once=1) if is_answering else {}
    on_disk = _sizes(local, _local_size, ASKED_LOCAL)
    if len(local) > ASKED_LOCAL and 0 < len(on_disk) < len(local):
        # Some are texts that are no files, such as labels. Each must be asked about to tell which.
        on_disk = _sizes(local, _local_size, len(local))
    found = on_disk | stored | {path: known[path] for path in paths if path in known}
    return tuple(sorted(found.items()))


def folder_of(paths: Sequence[str]) -> str:
    """Return the common folder of all these files; `gs://bucket` keeps its scheme. Files of different stores have none: `/`."""
    schemes = {match.group() if (match := _SCHEME.match(path)) else "" for path in paths}
    if schemes == {""}:
        return os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    if len(schemes) > 1:
        return "/"
    (scheme,) = schemes
    return scheme + os.path.commonpath([os.path.dirname(path.removeprefix(scheme)) for path in paths])


def _sizes(paths: Sequence[str], size_of: Callable[[str], int | None], most: int, at_once: int = ASKED_AT_ONCE) -> dict[str, int]:
    """Return the sizes of the files among these. Ask about at most `most` of them, `at_once` by one thread."""
    step = max(1, -(-len(paths) // most))
    asked = paths[::step]
    parts = [asked[start : start + at_once] for start in range(0, len(asked), at_once)]
    with ThreadPoolExecutor(ASKING_THREADS if len(parts) > 1 else 1) as pool:
        answers = pool.map(lambda part: [(path, size_of(path)) for path in part], parts)
        found = {path: size for part in answers for path, size in part if size is not None and size >= 0}
    if step == 1 or len(found) < len(asked):  # some are no files, so that nothing can be said of the others
        return found
    return dict.fromkeys(paths, sum(found.values()) // len(found)) | found


def _local_size(path: str) -> int | None:
    """Return the bytes of a regular file; None if it is no regular file, no path at all, or gone."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _remote_size(path: str) -> int | None:
    """Return the bytes of a file, or -1 if there is no such file; None if TensorFlow cannot ask: then reading tells why."""
    import tensorflow as tf

    try:
        status = tf.io.gfile.stat(path)
    except tf.errors.NotFoundError:
        return -1
    except (tf.errors.OpError, ValueError):
        return None
    return -1 if status.is_directory else int(status.length)
