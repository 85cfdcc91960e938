"""Reports what becomes of one worker of a node: its news and its end."""

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

# In a worker's folder, beside its journal: the end of what it printed.
OUTPUT = "output.txt"


def say(rank: int, what: str, **fields: object) -> None:
    """Send the launcher a message about one worker."""
    os.write(1, (json.dumps({"rank": rank, "say": what, **fields}) + "\n").encode())


def node() -> str:
    """Return Slurm's name of this node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def journal_bytes(folder: Path) -> int:
    """Return the length of a worker's journal, as far as this machine sees it; 0 if there is none."""
    try:
        return (folder / EVENTS).stat().st_size
    except OSError:
        return 0


class NodeWorker:
    """One worker of this node, and what the launcher is told of it. `process` is None until it was started."""

    def __init__(self, rank: int, folder: Path) -> None:
        self.rank, self.folder = rank, folder
        self.process: WorkerProcess | None = None
        self.ending: Ending | None = None
        self._oom_kills = oom_kills()

    def watch(self, *, is_leaving: bool) -> None:
        """Report its news and its end."""
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
        """End it. One that was not started yet never is."""
        if self.process is not None:
            self.process.kill(why)
        elif self.ending is None:
            self._tell_end(Ending(returncode=None, killed_for=why, output_tail=""))

    def _tell_end(self, ending: Ending) -> None:
        self.ending = ending
        with suppress(OSError):  # the reader does without it
            (self.folder / OUTPUT).write_text(ending.output_tail)
        is_oom = ending.returncode == -signal.SIGKILL and ending.killed_for is None and oom_kills() > self._oom_kills
        say(
            self.rank,
            "ended",
            returncode=ending.returncode,
            killed_for=ending.killed_for,
            why="the kernel ended it for the memory of its control group" if is_oom else "",
            journal_bytes=journal_bytes(self.folder),
        )
