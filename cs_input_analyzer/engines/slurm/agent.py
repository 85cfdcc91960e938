"""Run on each node of a job step: start the node's workers, forward orders to them, and report their events.

   srun's stdin  ── order, go, end, leave ──▶ agent ── stdin ──▶ workers, journals in the shared folder
   srun's stdout ◀── here, heard, alive, ended ── agent

The workers of a node are forked from one import of TensorFlow. Each worker has the variables and the CPUs of a task of srun.
A message is one line of JSON about one worker, named by its rank. srun copies its stdin to all agents. It passes on the output of
agents line by line, and keeps lines of up to 1 KiB whole. So long texts go through the shared folder. An agent whose stdin ends has
lost its launcher: it ends its workers.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from cs_input_analyzer.engines.collecting import temporary_scratch
from cs_input_analyzer.engines.launch import LaunchOrder
from cs_input_analyzer.engines.scratch import remove_away
from cs_input_analyzer.engines.slurm.node_worker import NodeWorker, node, say
from cs_input_analyzer.engines.starting import WorkerKind, WorkerStarter
from cs_input_analyzer.engines.worker_process import WorkerProcess, memory_limit
from cs_input_analyzer.host.counters import ProcessTree
from cs_input_analyzer.host.machine import numa_cpus, read_host, task_cpus, threads_per_core
from cs_input_analyzer.worker.isolation import AWAY
from cs_input_analyzer.worker.summary import Killed

LOOK, WORK = "look", "work"

POLL_S = 0.05
ALIVE_S = 1.0


def main(arguments: Sequence[str]) -> NoReturn:
    """Handle `look FOLDER CURRENT_FOLDER` or `work FOLDER SETTINGS` in a task of srun. SETTINGS: the JSON of `Settings`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    folder = Path(arguments[1])
    orders = _Orders()
    try:
        if arguments[0] == LOOK:
            _look(folder, arguments[2], orders)
        else:
            _Agent(folder, msgspec.json.decode(arguments[2], type=Settings)).run(orders)
    except (BrokenPipeError, _Ended):  # the launcher is gone, or Slurm ends this task
        pass
    os._exit(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Hold the settings that all nodes of a step share."""

    tasks_per_node: int
    cpus_per_task: int
    memory_limit_bytes: int | None
    kind: WorkerKind


class _Ended(Exception):
    """Signal that Slurm ends this task: the job was cancelled or has reached its time limit."""


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Ended


class _Orders:
    """Read messages of the launcher."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_open = True

    def poll(self, patience_s: float) -> Iterator[dict[str, Any]]:
        """Yield the messages that arrive within `patience_s`. Note if the input has ended."""
        if not select.select([0], [], [], patience_s)[0]:
            return
        block = os.read(0, 1 << 16)
        self.is_open = bool(block)
        *lines, self._rest = (self._rest + block).split(b"\n")
        yield from map(json.loads, lines)


def _show_life(ranks: Sequence[int]) -> None:
    """Report from a separate thread that this node is alive, even while a slow file system blocks the others."""
    try:
        while True:
            time.sleep(ALIVE_S)
            for rank in ranks:
                say(rank, "alive")
    except OSError:
        return


def _cannot_use(folder: Path, error: OSError) -> str:
    """Return why this node cannot use the shared folder, and what to do."""
    return (
        f"node {node()} cannot use {folder.parent}: {(error.strerror or str(error)).lower()}; workers report through a folder "
        "that all nodes share: name one with --shared-dir FOLDER"
    )


def _look(folder: Path, current: str, orders: _Orders) -> None:
    """Report the hardware of this node, and whether it sees the shared and the current folder. No worker runs yet."""
    problem = ""
    if os.getcwd() != current:
        problem = (
            f"node {node()} has no folder {current} (its tasks start in {os.getcwd()}): run this in a folder that all nodes share"
        )
    try:
        (folder / f"seen-{node()}").write_text(node())
    except OSError as error:
        problem = _cannot_use(folder, error)
    os.environ.pop("SLURM_CPUS_PER_TASK", None)  # it may belong to another component
    # Count the whole node, not only the CPU of this task.
    host = replace(read_host(), threads_per_core=threads_per_core(), numa_cpus=numa_cpus(range(os.cpu_count() or 1)))
    rank = int(os.environ["SLURM_PROCID"])
    is_bound = len(os.sched_getaffinity(0)) <= (host.threads_per_core or 1)
    say(rank, "here", node=node(), host=asdict(host), is_bound=is_bound, problem=problem)
    while orders.is_open:  # until the slowest node has reported
        for _ in orders.poll(ALIVE_S):
            pass
        say(rank, "alive")


def variables_of_task(environ: Mapping[str, str], settings: Settings, local: int) -> dict[str, str]:
    """Return the variables that srun gives one task of a node. Derive them from the agent's, which is the node's only task."""
    number, nodes, tasks = int(environ["SLURM_PROCID"]), int(environ["SLURM_NTASKS"]), settings.tasks_per_node
    on_each = str(tasks) if nodes == 1 else f"{tasks}(x{nodes})"
    return {
        "SLURM_PROCID": str(number * tasks + local),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(number),
        "SLURM_GTIDS": ",".join(str(number * tasks + each) for each in range(tasks)),
        "SLURM_CPUS_PER_TASK": str(settings.cpus_per_task),
        "SLURM_NTASKS_PER_NODE": str(tasks),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"), str(nodes * tasks)),
        **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), on_each),
    }


class _Agent:
    """Start, watch and end the workers of this node."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._settings = settings
        first = int(os.environ["SLURM_PROCID"]) * settings.tasks_per_node
        ranks = range(first, first + settings.tasks_per_node)
        self._workers = [NodeWorker(rank, folder / f"worker-{rank}") for rank in ranks]
        try:
            for worker in self._workers:
                worker.folder.mkdir()
        except OSError as error:
            for rank in ranks:
                say(rank, "here", node=node(), problem=_cannot_use(folder.parent, error))
            os._exit(1)
        # An overlay takes no layer from a network file system, so the private files of the launch stay on this node.
        self._scratch = temporary_scratch() if settings.kind.isolates else None
        self._starter = WorkerStarter(folder.parent, settings.kind)
        self._is_started = self._is_leaving = False
        step = os.environ.get("SLURM_STEP_ID") or os.environ.get("SLURM_STEPID", "")
        for rank in ranks:
            say(rank, "here", node=node(), problem="", step=step)

    def run(self, orders: _Orders) -> None:
        """Handle messages until the launcher closes the connection."""
        threading.Thread(target=_show_life, args=([worker.rank for worker in self._workers],), daemon=True).start()
        try:
            while orders.is_open:
                for order in orders.poll(POLL_S):
                    getattr(self, f"_on_{order.pop('do')}")(**order)
                if not self._is_started and self._starter.is_ready():
                    self._start()
                for worker in self._workers:
                    worker.watch(is_leaving=self._is_leaving)
        finally:
            self._close()

    def _start(self) -> None:
        """Start the workers that are still wanted, after TensorFlow was imported."""
        self._is_started = True
        settings, tree = self._settings, ProcessTree()
        place = None if self._scratch is None else self._scratch.folder
        sets = task_cpus(os.sched_getaffinity(0), settings.tasks_per_node, settings.cpus_per_task)
        for local, (worker, cpus) in enumerate(zip(self._workers, sets, strict=True)):
            if worker.ending is not None:
                continue
            variables = variables_of_task(os.environ, settings, local)
            started = self._starter.start(worker.folder, cpus, place, variables)
            if place is not None:
                (worker.folder / f"{AWAY}{place.name}").symlink_to(place)  # its disk space is watched
                place = None
            worker.process = WorkerProcess(worker.folder, started, memory_limit(settings.memory_limit_bytes), tree)

    def _close(self) -> None:
        """End the remaining workers without a report: the step ended them, not their own code."""
        processes = [worker.process for worker in self._workers if worker.process is not None]
        try:
            for process in processes:
                process.kill("interrupt")
            for process in processes:
                process.finish()
        finally:
            for worker in self._workers:  # the launcher's host may not have the file system
                remove_away(worker.folder)
            self._starter.close()
            if self._scratch is not None:
                self._scratch.close()

    # One method for each message of the launcher, named by its `do`.

    def _on_order(self, *, order: Mapping[str, Any]) -> None:
        launch_order = msgspec.convert(order, LaunchOrder)
        # The previous launch has freed its memory by now.
        limit_bytes = memory_limit(self._settings.memory_limit_bytes, self._settings.tasks_per_node)
        for worker in self._workers:
            if worker.process is not None:
                worker.process.memory_limit_bytes = limit_bytes
                worker.process.send(launch_order.of(worker.rank).to_line())

    def _on_go(self, *, window_s: float) -> None:
        for worker in self._workers:
            if worker.process is not None:
                worker.process.send(f"{window_s}\n")

    def _on_end(self, *, ranks: Sequence[int], why: Killed) -> None:
        for worker in self._workers:
            if worker.rank in ranks:
                worker.end(why)

    def _on_leave(self) -> None:
        self._is_leaving = True
        for worker in self._workers:
            if worker.process is not None:
                worker.process.leave()


if __name__ == "__main__":
    main(sys.argv[1:])
