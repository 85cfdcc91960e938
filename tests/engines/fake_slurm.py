"""The one fake of Slurm: its programs as scripts of one line, and a process that plays srun and all agents of its step.

    python -m tests.engines.fake_slurm ARGUMENT…    as srun is called

FAKE_SLURM is JSON: the seed, the shares of workers that meet each fault, and what becomes of srun itself. Agents speak the protocol
of `engines/slurm/agent.py`, delayed at random, and leave the journals of workers that deliver `rate(rank)`.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cs_input_analyzer.engines.slurm import jobs
from cs_input_analyzer.engines.slurm.agent import LOOK
from cs_input_analyzer.host.counters import CounterReader, Counters
from cs_input_analyzer.host.machine import read_host
from cs_input_analyzer.worker.journal import EVENTS, JournalWriter
from tests.waiting import comes

FAULTS = ("never", "silent", "killed", "missing", "cut", "late")
ALIVE_S = 1.0
LATE_S = 1.0


def rate(rank: int) -> float:
    return 1000.0 + rank


def fates(tasks: int, chosen: dict[str, Any]) -> list[str]:
    """What becomes of each task: a fault, or `fine`."""
    shares = chosen["faults"]
    draw = random.Random(chosen["seed"])
    return draw.choices([*shares, "fine"], [*shares.values(), 1 - sum(shares.values())], k=tasks)


def write_journal(folder: Path, counters: Counters, began_s: float, stamps_s: Any, *, is_whole: bool) -> None:
    """As a worker leaves it that read batches of 4 at these times."""
    journal = JournalWriter(folder)
    journal.event("first_batch", first_batch_s=0.1, bytes=64, samples=4)
    journal.event("go", at_s=began_s)
    journal.event("sampling", counters=asdict(counters), at_s=began_s)
    journal.chunk(stamps_s, None, counters, float(stamps_s[-1]))
    if is_whole:
        journal.event("done", stopped_by="budget", epochs=0)


class FakeSlurm:
    """Programs by Slurm's names on PATH. Each notes its words in `log`, then does what its script says."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.shared = folder / "shared"
        self.programs = folder / "bin"
        for made in (self.shared, self.programs):
            made.mkdir()
        for name in jobs.PROGRAMS:
            self.does(name, "exit 0")

    def does(self, name: str, script: str) -> None:
        program = self.programs / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> {self.log}\n{script}\n')
        program.chmod(0o755)

    def calls(self, name: str) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]

    def cancelled_by_name(self, times: int) -> bool:
        """Whether the job was cancelled so often by the name that it was submitted with; waits for it."""
        (name,) = [word for word in self.calls("sbatch")[0].split() if word.startswith("--job-name=")]
        wanted = name.replace("--job-name", "--name")
        return comes(lambda: sum(wanted in call.split() for call in self.calls("scancel")) >= times)


class Step:
    """One job step. Everything that its agents are to say has a time; the loop says it then."""

    def __init__(self, options: dict[str, str], program: list[str]) -> None:
        chosen = json.loads(os.environ["FAKE_SLURM"])
        self.is_look, self.folder = program[0] == LOOK, Path(program[1])
        self.per_node = 1 if self.is_look else json.loads(program[2])["tasks_per_node"]
        tasks = int(options["--ntasks"]) * self.per_node
        self.fates = ["fine"] * tasks if self.is_look else fates(tasks, chosen)
        self.how = "whole" if self.is_look else chosen["step"]
        self.draw = random.Random(chosen["seed"] + 1)
        self.agenda: list[tuple[float, int, Callable[..., None], tuple[Any, ...], dict[str, Any]]] = []
        self.number = itertools.count()
        self.silent = {rank for rank, fate in enumerate(self.fates) if fate == "never"}
        self.ended: set[int] = set()
        self.bytes_of: dict[int, int] = {}
        self.window_s = 0.0
        self.counters = CounterReader().read()

    def at(self, delay_s: float, do: Callable[..., None], *what: Any, **fields: Any) -> None:
        heapq.heappush(self.agenda, (time.monotonic() + delay_s, next(self.number), do, what, fields))

    def say(self, rank: int, what: str, **fields: object) -> None:
        if rank not in self.silent:
            sys.stdout.write(json.dumps({"rank": rank, "say": what, **fields}) + "\n")

    def run(self) -> None:
        if self.how == "refused":
            sys.stderr.write("srun: error: Unable to create step for job 7: Memory required by task is not available\n")
            sys.exit(1)
        if self.how == "hangs":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        host = asdict(read_host())
        for rank in range(len(self.fates)):
            here = {"node": f"n{rank // self.per_node}", "problem": ""}
            if self.is_look:
                self.say(rank, "here", host=host, is_bound=True, **here)
            else:
                (self.folder / f"worker-{rank}").mkdir()
                self.at(self.draw.uniform(0, 0.5), self.say, rank, "here", step="3", **here)
                self.at(0.5, self.say, rank, "heard", kinds=["imported"])
        self.at(ALIVE_S, self.live)
        self.loop()

    def live(self) -> None:
        for rank in range(len(self.fates)):
            self.say(rank, "alive")
        self.at(ALIVE_S, self.live)

    def loop(self) -> None:
        rest = b""
        while True:
            while self.agenda and self.agenda[0][0] <= time.monotonic():
                *_, do, what, fields = heapq.heappop(self.agenda)
                do(*what, **fields)
            sys.stdout.flush()
            if not select.select([0], [], [], max(0.0, self.agenda[0][0] - time.monotonic()))[0]:
                continue
            block = os.read(0, 1 << 20)
            if not block and self.how == "hangs":
                time.sleep(3600)
            if not block:
                return
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                order = json.loads(line)
                getattr(self, f"on_{order.pop('do')}")(**order)

    def on_order(self, **order: object) -> None:
        for rank, fate in enumerate(self.fates):
            self.at(self.draw.uniform(0, 1), self.say, rank, "heard", kinds=["built", "first_batch"])
            if fate == "silent":
                self.at(self.draw.uniform(0, 2.5), self.silent.add, rank)

    def on_go(self, *, window_s: float) -> None:
        self.window_s, began_s = window_s, time.time()
        if self.how == "dies":
            self.at(self.draw.uniform(0, window_s), os._exit, 1)
        for rank, fate in enumerate(self.fates):
            if fate in ("killed", "silent"):
                self.at(0.2, self.end, rank, began_s)
            elif fate != "never":
                self.at(window_s, self.journal, rank, began_s, is_whole=True)
                self.at(window_s, self.say, rank, "heard", kinds=["done", "over"])

    def journal(self, rank: int, began_s: float, *, is_whole: bool) -> None:
        """Write the journal of a worker; then others see as much of it as its fate lets them."""
        stamps_s = began_s + 4 / rate(rank) * np.arange(1, 41)
        file = self.folder / f"worker-{rank}" / EVENTS
        write_journal(file.parent, self.counters, began_s, stamps_s, is_whole=is_whole)
        self.bytes_of[rank] = file.stat().st_size
        if self.fates[rank] == "missing":
            file.unlink()
        elif self.fates[rank] == "cut":
            os.truncate(file, self.bytes_of[rank] - 40)
        elif self.fates[rank] == "late":
            file.rename(file.with_suffix(".late"))

    def end(self, rank: int, began_s: float) -> None:
        self.journal(rank, began_s, is_whole=False)
        self.say_ended(rank, -9)

    def say_ended(self, rank: int, returncode: int) -> None:
        self.ended.add(rank)
        about = {"killed_for": None, "why": "", "journal_bytes": self.bytes_of.get(rank, 0)}
        self.say(rank, "ended", returncode=returncode, **about)

    def on_leave(self) -> None:
        for rank in set(range(len(self.fates))) - self.ended:
            self.say_ended(rank, 0)
        for file in self.folder.glob("worker-*/*.late"):
            self.at(LATE_S, file.rename, file.with_name(EVENTS))

    def on_end(self, **order: object) -> None:
        self.on_leave()


if __name__ == "__main__":
    given = dict(word.split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
    Step(given, sys.argv[sys.argv.index("cs_input_analyzer.engines.slurm.agent") + 1 :]).run()
