"""One worker process seen from beside it: from its launcher on this host, or from the agent of its task on another."""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import psutil

from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.launch.bootstrap import command, environment
from cs_input_analyzer.launch.forking import ForkedProcess
from cs_input_analyzer.measure.journal import EVENTS, read_journal
from cs_input_analyzer.measure.summary import Ending, Killed

__all__ = ["EXIT_GRACE_S", "OUTPUT_TAIL_BYTES", "POLL_S", "WorkerProcess", "fresh_process"]

POLL_S = 0.03
CHILDREN_S = 1.0
OUTPUT_TAIL_BYTES = 64 * 1024
EXIT_GRACE_S = 5.0


class WorkerProcess:
    """One worker seen from its parent: sends its order, watches its memory, keeps the tail of what it prints, ends it."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes] | ForkedProcess, memory_limit_bytes: int | None) -> None:
        self.folder = folder
        self._process = process
        self.killed_for: Killed | None = None
        self._memory_limit_bytes = memory_limit_bytes
        self._seen_bytes = 0
        self._children: list[psutil.Process] = []
        self._children_at_s = 0.0
        self._heard: set[str] = set()
        self._tail: collections.deque[bytes] = collections.deque()
        self._tail_bytes = 0
        self._drain = threading.Thread(target=self._keep_tail, args=(process.stdout,), daemon=True)
        self._drain.start()

    def send(self, line: str) -> None:
        """Sends one line; a worker that is gone already is found out by `poll`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            return

    def has_said(self, *kinds: str) -> bool:
        """Whether any of these events has been written; looks only when the file has grown."""
        try:
            size = (self.folder / EVENTS).stat().st_size
        except OSError:
            return False
        if size != self._seen_bytes:
            self._seen_bytes = size
            self._heard = {str(event["event"]) for event in read_journal(self.folder).events}
        return not self._heard.isdisjoint(kinds)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def watch_memory(self) -> None:
        """Ends the worker when it and its children hold more than their limit: before the kernel ends something else.

        Looking for children reads every process of the host, a millisecond here and tens of them on a busy node: now and then.
        """
        if self._memory_limit_bytes is None or self.is_over:
            return
        now_s = time.monotonic()
        try:
            process = psutil.Process(self._process.pid)
            if now_s - self._children_at_s >= CHILDREN_S:
                self._children_at_s, self._children = now_s, process.children(recursive=True)
            held = process.memory_info().rss + sum(child.memory_info().rss for child in self._children if child.is_running())
        except psutil.Error:
            self._children = []
            return
        if held > self._memory_limit_bytes:
            self.kill("memory")

    def kill(self, reason: Killed) -> None:
        """Ends the worker and everything it started."""
        if self.is_over:
            return
        self.killed_for = reason
        self._end_group()

    def finish(self) -> Ending:
        """Waits for a worker that is done; one that hangs while exiting is ended, and that is not held against it.

        Its memory is watched to the end: what it still does may hold more than the measuring did.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        deadline_s = time.monotonic() + EXIT_GRACE_S
        while not self.is_over and time.monotonic() < deadline_s:
            self.watch_memory()
            time.sleep(POLL_S)
        self._end_group()  # also what it forked and left behind
        self._process.wait()
        self._drain.join(timeout=1.0)
        tail = b"".join(self._tail)[-OUTPUT_TAIL_BYTES:]
        return Ending(returncode=self._process.returncode, killed_for=self.killed_for, output_tail=tail.decode(errors="replace"))

    def _end_group(self) -> None:
        strays: list[psutil.Process] = []
        try:
            strays = psutil.Process(self._process.pid).children(recursive=True)  # those that left the group too
        except psutil.Error:
            pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        for stray in strays:
            try:
                stray.kill()
            except psutil.Error:
                continue

    def _keep_tail(self, stream: IO[bytes] | None) -> None:
        """Drains what the worker prints, so that it never blocks, and keeps the end of it, so that we never drown."""
        if stream is None:
            return
        while block := os.read(stream.fileno(), 1 << 16):
            self._tail.append(block)
            self._tail_bytes += len(block)
            while self._tail_bytes > 2 * OUTPUT_TAIL_BYTES and len(self._tail) > 1:
                self._tail_bytes -= len(self._tail.popleft())


def fresh_process(folder: Path, cpus: Sequence[int]) -> subprocess.Popen[bytes]:
    """A worker by command line. Temporary files go to its folder: AutoGraph's would outlive a process that is killed."""
    try:
        return subprocess.Popen(
            command("cs_input_analyzer.measure.worker", str(folder), ",".join(map(str, cpus)), str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**environment(), "TMPDIR": str(folder)},
            start_new_session=True,  # Ctrl-C is the parent's to handle; and the whole group can be ended at once
        )
    except OSError as error:
        raise LaunchError(f"a worker process could not be started: {error}") from error
