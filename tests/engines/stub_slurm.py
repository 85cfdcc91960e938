"""Slurm's programs, as far as an engine inside an allocation calls them: one process plays srun and all tasks of its step.

    stub_slurm.py PROGRAM ARGUMENT…

STUB_SLURM is JSON: the seed, the shares of tasks that meet each fault, and what becomes of srun itself. Tasks speak the protocol of
`engines/slurm/agent.py`, delayed at random, and leave the journal and the result of a worker that delivers `rate(rank)`.
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from cs_input_analyzer.engines.slurm.agent import LOOK, RESULT, SEEN
from cs_input_analyzer.machines.counters import CounterReader
from cs_input_analyzer.machines.host import read_host
from cs_input_analyzer.records import Estimate, WorkerResult
from cs_input_analyzer.worker.journal import EVENTS, STAMPS, JournalWriter

FAULTS = ("never", "silent", "killed", "unwritten", "short", "late")
STEPS = ("whole", "refused", "dies", "hangs")
ALIVE_S = 1.0
LATE_S = 1.0


def rate(rank: int) -> float:
    return 1000.0 + rank


def fates(tasks: int, chosen: dict[str, Any]) -> list[str]:
    """What becomes of each task: a fault, or `fine`."""
    shares = chosen["faults"]
    draw = random.Random(chosen["seed"])
    return draw.choices([*shares, "fine"], [*shares.values(), 1 - sum(shares.values())], k=tasks)


class Step:
    """One job step. Everything that its tasks are to say has a time; the loop says it then."""

    def __init__(self, options: dict[str, str], program: list[str]) -> None:
        self.chosen = json.loads(os.environ["STUB_SLURM"])
        self.tasks, self.per_node = int(options["--ntasks"]), int(options["--ntasks-per-node"])
        self.is_look, self.folder = program[0] == LOOK, Path(program[1])
        self.fates = ["fine"] * self.tasks if self.is_look else fates(self.tasks, self.chosen)
        self.how = "whole" if self.is_look else self.chosen["step"]
        self.draw = random.Random(self.chosen["seed"] + 1)
        self.agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.number = itertools.count()
        self.silent: set[int] = set()
        self.ended: set[int] = set()
        self.window_s = 0.0
        result = WorkerResult(index=0, node="", status="done", samples_per_s=Estimate.exact(0.0))
        self.result = TypeAdapter(WorkerResult)
        self.template = result
        self.counters = CounterReader().read()

    def at(self, delay_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self.agenda, (time.monotonic() + delay_s, next(self.number), do))

    def say(self, rank: int, what: str, **fields: object) -> None:
        if rank not in self.silent:
            sys.stdout.write(json.dumps({"rank": rank, "say": what, **fields}) + "\n")

    def soon(self, longest_s: float, rank: int, what: str, **fields: object) -> None:
        self.at(self.draw.uniform(0, longest_s), lambda: self.say(rank, what, **fields))

    def run(self) -> None:
        if self.how == "refused":
            sys.stderr.write("srun: error: Unable to create step for job 7: Memory required by task is not available\n")
            sys.exit(1)
        if self.how == "hangs":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        host = asdict(read_host())
        for rank in range(self.tasks):
            if self.fates[rank] == "never":
                self.silent.add(rank)
            node = f"n{rank // self.per_node}"
            if self.is_look:
                (self.folder / f"{SEEN}{node}").write_text(node)
                self.say(rank, "here", node=node, host=host, cwd=os.getcwd(), problem="", write_s=0.0)
            else:
                (self.folder / f"worker-{rank}").mkdir()
                self.soon(0.5, rank, "here", node=node, problem="", step="3", is_bound=True)
                self.at(0.5, lambda rank=rank: self.say(rank, "heard", kinds=["imported"]))  # type: ignore[misc]
        self.at(ALIVE_S, self.live)
        self.loop()

    def live(self) -> None:
        for rank in range(self.tasks):
            self.say(rank, "alive")
        self.at(ALIVE_S, self.live)

    def loop(self) -> None:
        rest = b""
        while True:
            while self.agenda and self.agenda[0][0] <= time.monotonic():
                heapq.heappop(self.agenda)[2]()
            sys.stdout.flush()
            patience_s = max(0.0, self.agenda[0][0] - time.monotonic())
            if not select.select([0], [], [], patience_s)[0]:
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

    def on_ping(self, id: int) -> None:
        for rank in range(self.tasks):
            self.say(rank, "pong", id=id, at_s=time.time())

    def on_order(self, **order: Any) -> None:
        for rank in range(self.tasks):
            built_s = self.draw.uniform(0, 1)
            self.at(built_s, lambda rank=rank: self.say(rank, "heard", kinds=["built", "first_batch"]))  # type: ignore[misc]
            if self.fates[rank] == "silent":
                self.at(self.draw.uniform(0, 2.5), lambda rank=rank: self.silent.add(rank))  # type: ignore[misc]

    def on_go(self, *, window_s: float) -> None:
        self.window_s = window_s
        for rank in range(self.tasks):
            self.soon(0.3, rank, "heard", kinds=["ready"])

    def on_start(self, *, at_s: float, ahead_s: object) -> None:
        if self.how == "dies":
            self.at(self.draw.uniform(0, self.window_s), self.die)
        for rank in range(self.tasks):
            if self.fates[rank] in ("killed", "silent"):
                self.at(0.2, lambda rank=rank: self.end(rank, at_s))  # type: ignore[misc]
            else:
                self.at(at_s - time.time() + self.window_s, lambda rank=rank: self.done(rank, at_s))  # type: ignore[misc]

    def die(self) -> None:
        sys.stdout.flush()
        os._exit(1)

    def journal(self, rank: int, began_s: float, *, is_whole: bool) -> None:
        journal = JournalWriter(self.folder / f"worker-{rank}")
        journal.event("imported", import_s=0.1)
        journal.event("built", build_s=0.1, pipeline=None, file_count=None, files=[])
        journal.event("first_batch", first_batch_s=0.1, bytes=64, samples=4)
        journal.event("sampling", counters=asdict(self.counters), at_s=began_s)
        journal.chunk(began_s + 4 / rate(rank) * np.arange(1, 41), None, self.counters)
        if is_whole:
            journal.event("done", stopped_by="budget", epochs=0)
            journal.event("over")

    def done(self, rank: int, began_s: float) -> None:
        if self.fates[rank] == "never":
            return
        self.journal(rank, began_s, is_whole=True)
        self.say(rank, "heard", kinds=["done", "over"])

    def end(self, rank: int, began_s: float) -> None:
        if rank not in self.ended:
            self.ended.add(rank)
            self.journal(rank, began_s, is_whole=False)
            self.say_ended(rank, returncode=-9, is_whole=False)

    def say_ended(self, rank: int, *, returncode: int, is_whole: bool) -> None:
        place = self.folder / f"worker-{rank}"
        sizes = {name: (place / name).stat().st_size if (place / name).exists() else 0 for name in (EVENTS, STAMPS)}
        times = {"start_s": time.time() - self.window_s, "end_s": time.time()}
        state = {"returncode": returncode, "killed_for": None, "why": "", "is_whole": is_whole}
        self.say(rank, "ended", **state, **times, sizes=sizes)

    def on_leave(self) -> None:
        for rank in range(self.tasks):
            if rank not in self.ended:
                self.say_ended(rank, returncode=0, is_whole=True)

    def on_end(self) -> None:
        self.on_leave()

    def on_sum(self, **order: object) -> None:
        for rank in range(self.tasks):
            if rank in self.ended or rank in self.silent:
                self.say(rank, "told", bytes=None, problem="")
                continue
            speed = Estimate.exact(rate(rank))
            text = self.result.dump_json(replace(self.template, index=rank, node=f"n{rank // self.per_node}", samples_per_s=speed))
            path, fault = self.folder / f"worker-{rank}" / RESULT, self.fates[rank]
            if fault == "unwritten":
                self.say(rank, "told", bytes=None, problem="no space left on device")
                continue
            if fault == "late":
                self.at(LATE_S, lambda path=path, text=text: path.write_bytes(text) and None)  # type: ignore[misc]
            else:
                path.write_bytes(text[: len(text) // 2] if fault == "short" else text)
            self.say(rank, "told", bytes=len(text), problem="")


def main(program: str, arguments: list[str]) -> None:
    if program == "srun":
        options = dict(word.split("=", 1) for word in arguments if word.startswith("--") and "=" in word)
        at = next(place for place, word in enumerate(arguments) if not word.startswith("--"))
        own = arguments[at:]
        Step(options, own[own.index("cs_input_analyzer.engines.slurm.agent") + 1 :]).run()
    elif program == "scontrol" and "job" in arguments:
        sys.stdout.write(f"JobId=7 NumNodes=1 NumCPUs={os.environ['STUB_CPUS']}\n")
    elif program == "squeue":
        sys.stdout.write("RUNNING|None|n[0-9]\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
