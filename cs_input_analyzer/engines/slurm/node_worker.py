"""Report the events and the end of one worker of a node."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

from cs_input_analyzer.engines.worker_process import WorkerProcess
from cs_input_analyzer.host.machine import oom_kills
from cs_input_analyzer.worker.journal import EVENTS
from cs_input_analyzer.worker.summary import Ending, Killed

# The file beside a worker's journal with the end of its output.
OUTPUT = "output.txt"


def say(rank: int, what: str, **fields: object) -> None:
    """Send the launcher a message about one worker."""
    os.write(1, (json.dumps({"rank": rank, "say": what, **fields}) + "\n").encode())


def node() -> str:
    """Return Slurm's name of this node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def journal_bytes(folder: Path) -> int:
    """Return the length of a worker's journal as this machine sees it; 0 if there is none."""
    try:
        return (folder / EVENTS).stat().st_size
    except OSError:
        return 0


class NodeWorker:
    """Watch one worker of this node and report to the launcher. `process` is None until the worker was started."""

    def __init__(self, rank: int, folder: Path) -> None:
        self.rank, self.folder = rank, folder
        self.process: WorkerProcess | None = None
        self.ending: Ending | None = None
        self._oom_kills = oom_kills()

    def watch(self, *, is_leaving: bool) -> None:
        """Report new events and the end of the worker."""
        process = self.process
        if self.ending is not None:
            return
        if process is None:
            if is_leaving:
                self.end("interrupt")
            return
        process.watch()
        ending = process.finish() if is_leaving or process.is_over else None
        heard = process.news()
        if heard:
            say(self.rank, "heard", kinds=heard)
        if ending is not None:
            self._tell_end(ending)

    def end(self, why: Killed) -> None:
        """End the worker. If it was not started yet, it never will be."""
        if self.process is not None:
            self.process.kill(why)
        elif self.ending is None:
            self._tell_end(Ending(returncode=None, killed_for=why, output_tail=""))

    def _tell_end(self, ending: Ending) -> None:
        self.ending = ending
        with suppress(OSError):  # the reader needs no output
            (self.folder / OUTPUT).write_text(ending.output_tail)
        is_oom = ending.returncode == -signal.SIGKILL and ending.killed_for is None and oom_kills() > self._oom_kills
        say(
            self.rank,
            "ended",
            returncode=ending.returncode,
            killed_for=ending.killed_for,
            why="the kernel ended it because its control group ran out of memory" if is_oom else "",
            journal_bytes=journal_bytes(self.folder),
        )
