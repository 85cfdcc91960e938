"""What Python functions of the pipeline read through fsspec (`s3://`, `http://` and others), which no graph names.

What a file of fsspec does not hold yet comes through the fetcher of its cache; whole objects, sizes and listings of stores come
through `fsspec.asyn.sync`. Both are watched where the user's code has imported fsspec; local files are not among them.
"""

from __future__ import annotations

import functools
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

from cs_input_analyzer.pipeline.graph import file_set

# Reads whose time and size are kept.
KEPT_READS = 1024


@dataclass(slots=True)
class FsspecWatch:
    """Reads of this process, whichever thread made them.

    Attributes:
        files: by URL, without what it may hold of a password or signature: the file system, its own path of the file, bytes.
        waited_s: of all threads together, since the last `restart`.
    """

    files: dict[str, tuple[Any, str, int]] = field(default_factory=dict)
    waited_s: float = 0.0
    bytes: int = 0
    _latest: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=KEPT_READS))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.local = field(default_factory=threading.local)
    _is_watching: bool = False

    def watch(self) -> None:
        """From now on, if the user's code has imported fsspec by now."""
        asyn, spec = sys.modules.get("fsspec.asyn"), sys.modules.get("fsspec.spec")
        if self._is_watching or asyn is None or spec is None:
            return
        self._is_watching = True
        asyn.sync = self._timed(asyn.sync, self._parts_of)  # type: ignore[attr-defined]
        buffered = spec.AbstractBufferedFile
        opened = buffered.__init__

        @functools.wraps(opened)
        def opens(file: Any, *args: Any, **kwargs: Any) -> None:
            opened(file, *args, **kwargs)
            if getattr(file, "cache", None) is not None and file.size is not None:
                self._saw_file(file.fs, file.path, file.size)
                file.cache.fetcher = self._timed(file.cache.fetcher)

        buffered.__init__ = opens

    @property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        """URLs and bytes, in order."""
        return tuple(sorted((url, size) for url, (_, _, size) in self.files.items()))

    def restart(self) -> None:
        """Counts from here."""
        with self._lock:
            self.waited_s, self.bytes = 0.0, 0
            self._latest.clear()

    def summary(self) -> Mapping[str, Any] | None:
        """What was read since the last `restart`; None where nothing was. `files` are those since the beginning."""
        with self._lock:
            latest, files = tuple(self._latest), file_set(self.sizes)
        if not latest or files is None:
            return None
        return {
            "files": asdict(files),
            "waited_s": self.waited_s,
            "bytes": self.bytes,
            "latency_s": statistics.median(seconds for seconds, _ in latest),
            "read_bytes": int(statistics.median(size for _, size in latest)),
        }

    @contextmanager
    def reader(self, url: str) -> Iterator[Callable[[int, int], int] | None]:
        """A `raw_reads.Reader` of the files that were seen. Raises OSError, also for what a file system of others raises."""
        file_system, path, _ = self.files[url]
        try:
            with file_system.open(path, "rb") as file:

                def read(offset: int, length: int) -> int:
                    file.seek(offset)
                    return len(file.read(length))

                yield read
        except Exception as error:
            raise OSError(str(error)) from error

    def _timed(self, call: Callable[..., Any], parts_of: Callable[..., Sequence[Any]] = lambda answer, *_: (answer,)) -> Any:
        """`call`, whose time is counted, and the bytes in the parts of its answer; one inside another is a part of that."""

        @functools.wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._thread, "is_reading", False):
                return call(*args, **kwargs)
            self._thread.is_reading = True
            began_s = time.monotonic()
            try:
                answer = call(*args, **kwargs)
            finally:
                self._thread.is_reading = False
            seconds = time.monotonic() - began_s
            sizes = [len(part) for part in parts_of(answer, *args) if isinstance(part, bytes)]
            with self._lock:
                self.waited_s += seconds
                self.bytes += sum(sizes)
                if sizes:
                    self._latest.append((seconds, sum(sizes)))
            return answer

        return timed

    def _parts_of(self, answer: Any, _: Any, function: Any, *args: Any) -> Sequence[Any]:
        """What a coroutine of a file system gave: an object, several by their paths, all of a file of HTTP, or something else."""
        name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
        if name == "async_fetch_all" and args:
            return (getattr(getattr(args[0], "cache", None), "data", None),)
        if name not in ("_cat", "_cat_file") or not args:
            return (answer,)
        contents = answer if isinstance(answer, dict) else {str(args[0]): answer}
        for path, content in contents.items():
            if isinstance(content, bytes):
                self._saw_file(owner, path, len(content))
        return tuple(contents.values())

    def _saw_file(self, file_system: Any, path: Any, size: int) -> None:
        with suppress(Exception):  # a file system of others: whatever it does not know must not end the user's reading
            url = urlsplit(str(file_system.unstrip_protocol(path)))
            name = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
            with self._lock:
                self.files[name] = file_system, path, max(int(size), self.files.get(name, (None, None, 0))[2])
