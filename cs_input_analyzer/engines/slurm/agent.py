"""Runs in each task of a job step: starts the worker of the task, forwards orders to it, and reports what becomes of it.

    srun's stdin  ── order, go, end, leave, sum ───▶ agent ── stdin ──▶ worker, journal in the shared folder
    srun's stdout ◀── here, heard, alive, ended, told ── agent

Messages are lines of JSON. srun copies its stdin to every task; what tasks print it passes on line by line, whole as long as a line
is short (1 KiB), so anything long goes through the shared folder. An agent whose stdin ends has lost its launcher: it takes its
worker along.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter

from cs_input_analyzer.engines.collecting import temporary_scratch
from cs_input_analyzer.engines.worker_process import WorkerProcess, fresh_process, memory_limit
from cs_input_analyzer.machines.host import oom_kills, read_host, threads_per_core, worker_cpus
from cs_input_analyzer.planning.tf_config import of_worker
from cs_input_analyzer.records import WorkerResult
from cs_input_analyzer.worker.isolation import AWAY, Wanted
from cs_input_analyzer.worker.journal import read_journal
from cs_input_analyzer.worker.summary import Killed, worker_result

LOOK, WORK = "look", "work"
# Files of a worker's folder, beside its journal.
RESULT, OUTPUT = "result.json", "output.txt"

POLL_S = 0.05
ALIVE_S = 1.0


def main(arguments: Sequence[str]) -> NoReturn:
    """`look FOLDER CURRENT_FOLDER` or `work FOLDER SETTINGS`, inside an srun task. SETTINGS: those of `Settings`, as JSON."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    folder = Path(arguments[1])
    orders = _Orders()
    try:
        if arguments[0] == LOOK:
            _look(folder, arguments[2], orders)
        else:
            _Agent(folder, Settings(**json.loads(arguments[2]))).run(orders)
    except (BrokenPipeError, _Ended):  # the launcher is gone, or Slurm wants this task to end
        pass
    os._exit(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all tasks of a step have in common. `isolates`, `has_network`, `is_script`: as `LocalLauncher`."""

    tasks_per_node: int
    cpus_per_task: int
    memory_limit_bytes: int | None
    isolates: bool
    has_network: bool
    is_script: bool


class _Ended(Exception):
    """Slurm told this task to end: the job was cancelled, or its time is over."""


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Ended


class _Orders:
    """Messages from the launcher, as they come."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_open = True

    def poll(self, patience_s: float) -> Iterator[dict[str, Any]]:
        if not select.select([0], [], [], patience_s)[0]:
            return
        block = os.read(0, 1 << 16)
        self.is_open = bool(block)
        *lines, self._rest = (self._rest + block).split(b"\n")
        yield from map(json.loads, lines)


def _say(what: str, **fields: object) -> None:
    line = json.dumps({"rank": int(os.environ.get("SLURM_PROCID", "0")), "say": what, **fields}) + "\n"
    os.write(1, line.encode())


def _show_life() -> None:
    """From a thread of its own: a file system that lets everything else wait is not a node that died."""
    try:
        while True:
            time.sleep(ALIVE_S)
            _say("alive")
    except OSError:
        return


def _node() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _cannot_use(folder: Path, error: OSError) -> str:
    """Says why this node cannot use the shared folder, and what to do."""
    return (
        f"node {_node()} cannot use {folder.parent}: {(error.strerror or str(error)).lower()}; workers report through a folder "
        "that all nodes share: --shared-dir FOLDER names one"
    )


def _look(folder: Path, current: str, orders: _Orders) -> None:
    """Before any worker is started: what this node is, and whether it sees the shared folder and the current one."""
    problem = ""
    if os.getcwd() != current:
        problem = f"node {_node()} has no {current} (its tasks start in {os.getcwd()}): run this in a folder that all nodes see"
    try:
        (folder / f"seen-{_node()}").write_text(_node())
    except OSError as error:
        problem = _cannot_use(folder, error)
    os.environ.pop("SLURM_CPUS_PER_TASK", None)  # it may be another component's
    host = replace(read_host(), threads_per_core=threads_per_core())  # of all of the node, not of the CPU that this look was given
    _say("here", node=_node(), host=asdict(host), problem=problem)
    while orders.is_open:  # until the slowest of the nodes has been looked at
        for _ in orders.poll(ALIVE_S):
            pass
        _say("alive")


class _Agent:
    """Starts, watches and ends one worker."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._rank = self._index = int(os.environ["SLURM_PROCID"])
        local = int(os.environ.get("SLURM_LOCALID", "0"))
        allowed = sorted(os.sched_getaffinity(0))
        cpus = worker_cpus(allowed, settings.cpus_per_task, local, threads_per_core() or 1)
        self._folder = folder / f"worker-{self._rank}"
        try:
            self._folder.mkdir()
        except OSError as error:
            _say("here", node=_node(), problem=_cannot_use(folder.parent, error))
            os._exit(1)
        self._settings = settings
        # An overlay takes no layer from the file system of a network: what the launch writes on this node stays on it.
        self._scratch = temporary_scratch() if settings.isolates and local == 0 else None
        isolated = None
        if settings.isolates:
            place = None if self._scratch is None else self._scratch.folder
            isolated = Wanted(launch=folder, place=place, has_network=settings.has_network)
        started = fresh_process(self._folder, folder.parent, cpus, isolated=isolated, is_script=settings.is_script)
        if self._scratch is not None:
            (self._folder / f"{AWAY}{self._scratch.folder.name}").symlink_to(self._scratch.folder)  # its space is watched
        self._worker = WorkerProcess(self._folder, started, memory_limit(settings.memory_limit_bytes, settings.tasks_per_node))
        self._is_over = self._is_leaving = False
        self._oom_kills = oom_kills()
        step = os.environ.get("SLURM_STEP_ID") or os.environ.get("SLURM_STEPID", "")
        _say("here", node=_node(), problem="", step=step, is_bound=len(cpus) == len(allowed))

    def run(self, orders: _Orders) -> None:
        """Handles messages until the launcher closes the connection."""
        threading.Thread(target=_show_life, daemon=True).start()
        try:
            while orders.is_open:
                for order in orders.poll(POLL_S):
                    getattr(self, f"_on_{order.pop('do')}")(**order)
                self._watch()
        finally:
            if not self._is_over:
                self._worker.kill("interrupt")
                self._finish()
            if self._scratch is not None:
                self._scratch.close()

    def _watch(self) -> None:
        if self._is_over:
            return
        self._tell_news()
        self._worker.watch()
        if self._worker.is_over or self._is_leaving:
            self._finish()

    def _tell_news(self) -> None:
        heard = self._worker.news()
        if heard:
            _say("heard", kinds=heard)

    def _finish(self) -> None:
        self._is_over = True
        self._ending = self._worker.finish()
        self._tell_news()
        try:
            (self._folder / OUTPUT).write_text(self._ending.output_tail)
        except OSError:
            pass  # the reader does without it
        _say(
            "ended",
            returncode=self._ending.returncode,
            killed_for=self._ending.killed_for,
            why="the kernel ended it for the memory of its control group" if oom_kills() > self._oom_kills else "",
            whole_s=read_journal(self._folder).whole_s,
        )

    # What the launcher may ask, by the `do` of its message.

    def _on_order(self, *, order: Mapping[str, Any], indices: Sequence[int], addresses: Sequence[str]) -> None:
        """`order`: the fields of an `Order`, but for what differs from worker to worker."""
        self._index = indices[self._rank]
        # The launch before this one has let its memory go.
        self._worker.memory_limit_bytes = memory_limit(self._settings.memory_limit_bytes, self._settings.tasks_per_node)
        own = {"worker_index": self._index, "tf_config": of_worker(addresses, self._index), "is_first": self._rank == 0}
        self._worker.send(json.dumps({**order, **own}) + "\n")

    def _on_go(self, *, window_s: float) -> None:
        self._worker.send(f"{window_s}\n")

    def _on_end(self, *, ranks: Sequence[int], why: Killed) -> None:
        if self._rank in ranks:
            self._worker.kill(why)

    def _on_leave(self) -> None:
        self._is_leaving = True

    def _on_sum(self, *, until_s: float | None, has_trace: bool) -> None:
        """Writes down this worker's numbers in the window that all share, so that the launcher need not read every journal."""
        found = worker_result(read_journal(self._folder), self._ending, index=self._index, node=_node(), until_s=until_s)
        text = TypeAdapter(WorkerResult).dump_json(found if has_trace else replace(found, batch_gaps_s=()))
        place = self._folder / f"{RESULT}.part"
        try:
            place.write_bytes(text)
            place.replace(self._folder / RESULT)
        except OSError as error:
            _say("told", problem=(error.strerror or str(error)).lower())
        else:
            _say("told", problem="")


if __name__ == "__main__":
    main(sys.argv[1:])
