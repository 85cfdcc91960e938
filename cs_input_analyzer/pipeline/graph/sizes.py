"""Sizes of the files that a graph names: on mounted file systems by the kernel, on a store (`gs://`) by `tf.io.gfile`."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

# A network file system answers in a millisecond, a store in tens of them: many questions are asked at a time.
ASKING_THREADS = 32
ASKED_AT_ONCE = 512
# Of more files of a store so many are asked about, evenly spread; the others count with the mean size of these.
ASKED_REMOTE = 2048
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

Sized = tuple[tuple[str, int], ...]


def existing(names: Iterable[str], known: Mapping[str, int] | None = None) -> Sized:
    """Regular files among these, with their sizes, by path; one that vanishes meanwhile is none. `known`: what was asked before."""
    known = known or {}
    paths = sorted(set(names))
    asked = [path for path in paths if path not in known]
    local, remote = [path for path in asked if not _SCHEME.match(path)], [path for path in asked if _SCHEME.match(path)]
    found = {**_sizes(local), **_sizes_of_remote(remote), **{path: known[path] for path in paths if path in known}}
    return tuple(sorted(found.items()))


def folder_of(paths: Sequence[str]) -> str:
    """The folder that all of these are below; `gs://bucket` keeps its scheme. Files of different stores have none: `/`."""
    schemes = {match.group() if (match := _SCHEME.match(path)) else "" for path in paths}
    if schemes == {""}:
        return os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    if len(schemes) > 1:
        return "/"
    (scheme,) = schemes
    return scheme + os.path.commonpath([os.path.dirname(path.removeprefix(scheme)) for path in paths])


def _sizes(paths: Sequence[str]) -> dict[str, int]:
    if len(paths) <= ASKED_AT_ONCE:
        return dict(_sized(paths))
    parts = [paths[start : start + ASKED_AT_ONCE] for start in range(0, len(paths), ASKED_AT_ONCE)]
    with ThreadPoolExecutor(ASKING_THREADS) as pool:
        return {path: size for part in pool.map(lambda part: list(_sized(part)), parts) for path, size in part}


def _sized(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):  # not a path at all, or gone
            continue
        if stat.S_ISREG(status.st_mode):
            yield path, status.st_size


def _sizes_of_remote(paths: Sequence[str]) -> dict[str, int]:
    """The first file is asked about alone: a store that cannot be reached, or refuses, is not asked two thousand times."""
    if not paths or (first := _remote_size(paths[0])) is None:
        return {}
    step = max(1, -(-len(paths) // ASKED_REMOTE))
    others = paths[step::step]
    with ThreadPoolExecutor(ASKING_THREADS) as pool:
        asked = dict(zip([paths[0], *others], [first, *pool.map(_remote_size, others)], strict=True))
    found = {path: size for path, size in asked.items() if size is not None and size >= 0}
    if step == 1 or len(found) < len(asked):  # some are no files, so that nothing can be said of the others
        return found
    return dict.fromkeys(paths, sum(found.values()) // len(found)) | found


def _remote_size(path: str) -> int | None:
    """Bytes of the file, -1 for what is none; None where TensorFlow cannot ask: then reading fails, and says why."""
    import tensorflow as tf

    try:
        status = tf.io.gfile.stat(path)
    except tf.errors.NotFoundError:
        return -1
    except (tf.errors.OpError, ValueError):
        return None
    return -1 if status.is_directory else int(status.length)
