"""The agent of a node whose workers only keep a journal, without TensorFlow: for tests of how tasks, nodes and jobs end.

What it is ordered to run may be named `hangs` or `eats_memory`: that is what it does after some batches then.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from cs_input_analyzer.engines.bootstrap import command, started
from cs_input_analyzer.engines.slurm import agent
from cs_input_analyzer.engines.starting import WorkerKind
from cs_input_analyzer.host.counters import CounterReader
from cs_input_analyzer.worker.journal import JournalWriter
from cs_input_analyzer.worker.process import die_with

BATCHES = 10  # of a chunk
CHUNK_S = 0.1


def main(arguments: Sequence[str]) -> None:
    if arguments[0] == "worker":
        _work(Path(arguments[1]))
        return
    agent.WorkerStarter = LightStarter  # type: ignore[misc, assignment]
    agent.main(arguments)


class LightStarter:
    """Starts workers that import nothing."""

    def __init__(self, scratch: Path, kind: WorkerKind) -> None:
        self._scratch = scratch

    def is_ready(self) -> bool:
        return True

    def start(self, folder: Path, *_: object) -> subprocess.Popen[bytes]:
        return started(command("tests.slurm.light_agent", "worker", str(folder)), self._scratch)

    def close(self) -> None:
        """Nothing of it is left: workers end with the agent."""


def _work(folder: Path) -> None:
    """A worker that delivers a batch of 4 samples every 10 ms, for as long as it is told to."""
    die_with(os.getppid())
    journal, counters = JournalWriter(folder), CounterReader()
    journal.event("imported", import_s=0.1)
    order = sys.stdin.readline()
    if not order:
        return
    journal.event("built", build_s=0.1, pipeline=None, file_count=None, files=[])
    journal.event("first_batch", first_batch_s=0.1, bytes=64, samples=4)
    window_s, began_s = float(sys.stdin.readline()), time.time()
    journal.event("go", at_s=began_s)
    journal.event("sampling", counters=asdict(counters.read()), at_s=began_s)
    for chunk in range(int(window_s / CHUNK_S)):
        time.sleep(CHUNK_S)
        if chunk == 12 and "hangs" in order:
            time.sleep(600)
        if chunk == 12 and "eats_memory" in order:
            held = bytearray(b"x") * (2 << 30)
            time.sleep(len(held))
        stamps_s = began_s + CHUNK_S * (chunk + np.arange(1, BATCHES + 1) / BATCHES)
        journal.chunk(stamps_s, None, counters.read(), time.time())
    journal.event("done", stopped_by="budget", epochs=0)
    journal.event("over")
