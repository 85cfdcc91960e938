"""Control one worker process, for the launcher on this host and for the agent of a Slurm node."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from cs_input_analyzer.engines.memory_watch import MemoryWatch
from cs_input_analyzer.engines.starting import ForkedProcess
from cs_input_analyzer.host.counters import ProcessTree
from cs_input_analyzer.host.machine import memory_here
from cs_input_analyzer.worker.isolation import AWAY
from cs_input_analyzer.worker.journal import EventTail
from cs_input_analyzer.worker.summary import Ending, Killed

POLL_S = 0.03
OUTPUT_TAIL_BYTES = 64 * 1024
EXIT_GRACE_S = 5.0
SPACE_S = 0.1
# The part of the free memory that the workers of a launch may use together. It is read before they build their pipelines.
MEMORY_RATIO = 0.9
# Smaller files, such as the journal, do not fill a disk.
LEAST_FILLING_BYTES = 2**20


class WorkerProcess:
    """Control one worker: send its order, watch its memory and files, keep the end of its output, and end it.

    `memory_limit_bytes` may change with the free memory. All workers of one machine share one `tree`.
    """

    def __init__(
        self,
        folder: Path,
        process: subprocess.Popen[bytes] | ForkedProcess,
        memory_limit_bytes: int | None,
        tree: ProcessTree | None = None,
    ) -> None:
        self.folder = folder
        self._process = process
        self.killed_for: Killed | None = None
        self.memory_limit_bytes = memory_limit_bytes
        self._memory = MemoryWatch(process.pid, tree or ProcessTree())
        self._events = EventTail(folder)
        # free space at first, for the file system of each folder that it writes to
        self._free_bytes = {folder: _free_bytes(folder)}
        self._look_again_s = 0.0
        self._is_cleared = False
        self._ending: Ending | None = None
        self._leaves_by_s: float | None = None
        self._tail = b""
        self._drain = threading.Thread(target=self._keep_tail, args=(process.stdout,), daemon=True)
        self._drain.start()

    def send(self, line: str) -> None:
        """Send one line. `is_over` notices a worker that is gone already."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()

    def news(self) -> list[str]:
        """Return the kinds of the events that were written since the last call."""
        return self._events.new()

    def has_said(self, *kinds: str) -> bool:
        """Return whether any of these events has been written."""
        self.news()
        return not self._events.kinds.isdisjoint(kinds)

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        """Return whether the worker has ended. End the processes that it left behind."""
        if self._process.poll() is None:
            return False
        self._clear_away()
        return True

    def watch(self) -> None:
        """End the worker if it exceeds its memory limit, or if its files take more space than they leave free.

        So the kernel ends no other process for lack of memory. Caches and snapshots are redirected to the worker's folders.
        """
        if self.is_over:
            return
        if self.memory_limit_bytes is not None and self._memory.is_above(self.memory_limit_bytes):
            self.kill("memory")
        elif self._fills_its_disk():
            self.kill("storage")

    def _fills_its_disk(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._look_again_s:
            return False
        self._look_again_s = now_s + SPACE_S
        for link in self.folder.glob(f"{AWAY}*"):
            self._free_bytes.setdefault(link.readlink(), _free_bytes(link))
        return any(_is_filled_by(folder, free_bytes) for folder, free_bytes in self._free_bytes.items())

    def kill(self, reason: Killed) -> None:
        """End the worker and everything that it started."""
        if self.is_over:
            return
        self.killed_for = reason
        self._end_group()

    def leave(self) -> None:
        """Let a finished worker end by itself."""
        if self._leaves_by_s is None:
            self._leaves_by_s = time.monotonic() + EXIT_GRACE_S
            assert self._process.stdin is not None
            with suppress(OSError):
                self._process.stdin.close()

    def finish(self) -> Ending:
        """Wait for the end of a finished worker. End a worker that hangs while it exits; that is no failure.

        Watch its memory to the end: its exit may need more memory than the measuring did. A second call returns the same.
        """
        if self._ending is not None:
            return self._ending
        self.leave()
        assert self._leaves_by_s is not None
        while not self.is_over and time.monotonic() < self._leaves_by_s:
            self.watch()
            time.sleep(POLL_S)
        if not self.is_over:
            self._end_group()
        self._process.wait()
        self._clear_away()
        self._drain.join(timeout=1.0)
        tail = self._tail.decode(errors="replace")
        self._ending = Ending(returncode=self._process.returncode, killed_for=self.killed_for, output_tail=tail)
        return self._ending

    def _clear_away(self) -> None:
        """End its group once, when its end is first seen. Later the number may belong to another group."""
        if not self._is_cleared:
            self._is_cleared = True
            self._end_group()

    def _end_group(self) -> None:
        strays: list[psutil.Process] = []
        with suppress(psutil.Error):
            strays = psutil.Process(self._process.pid).children(recursive=True)  # also those that left the group
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for stray in strays:
            with suppress(psutil.Error):
                stray.kill()

    def _keep_tail(self, stream: IO[bytes] | None) -> None:
        """Read all output of the worker, so that it never blocks. Keep the end of it."""
        if stream is None:
            return
        while block := os.read(stream.fileno(), 1 << 16):
            self._tail = (self._tail + block)[-OUTPUT_TAIL_BYTES:]


def memory_limit(asked_bytes: int | None, workers: int = 1) -> int:
    """Return the memory limit of each worker: the user's, but at most an equal part of nearly all free memory.

    The host must survive a pipeline that uses too much memory.
    """
    free_bytes = int(memory_here().free_bytes * MEMORY_RATIO / workers)
    return min(asked_bytes or free_bytes, free_bytes)


def _free_bytes(folder: Path) -> int | None:
    """Return the bytes that are free for this user on the file system; None if unknown."""
    try:
        return int(psutil.disk_usage(str(folder)).free)
    except OSError:
        return None


def _is_filled_by(folder: Path, first_free_bytes: int | None) -> bool:
    """Return whether the files in a folder take more of the first free space than they leave free."""
    free_bytes = _free_bytes(folder)
    if free_bytes is None or first_free_bytes is None or free_bytes > first_free_bytes / 2:
        return False  # its files take less than they leave free
    taken_bytes = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                taken_bytes += os.lstat(os.path.join(place, name)).st_blocks * 512
    return taken_bytes > max(free_bytes, LEAST_FILLING_BYTES)
