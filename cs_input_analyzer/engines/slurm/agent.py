"""Runs in each task of a job step: starts the worker of the task, forwards orders to it, and reports what becomes of it.

    srun's stdin  ── ping, order, go, start, leave, sum, end ──▶ agent ── stdin ──▶ worker, journal in the shared folder
    srun's stdout ◀── here, pong, heard, alive, ended, told ──── agent

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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter

from cs_input_analyzer.engines.tf_config import tf_config_of
from cs_input_analyzer.engines.worker_process import WorkerProcess, fresh_process, memory_limit
from cs_input_analyzer.machines.host import oom_kills, read_host, threads_per_core, worker_cpus
from cs_input_analyzer.records import WorkerResult
from cs_input_analyzer.worker.journal import EVENTS, STAMPS, read_journal
from cs_input_analyzer.worker.summary import worker_result

LOOK, WORK = "look", "work"
ENDED_BY_SLURM = "Slurm told the task to end"
# What each node writes into the shared folder.
SEEN = "seen-"
# Files of a worker's folder, beside its journal.
RESULT, OUTPUT = "result.json", "output.txt"

POLL_S = 0.05
ALIVE_S = 1.0


def main(arguments: Sequence[str]) -> NoReturn:
    """`look FOLDER` or `work FOLDER TASKS_PER_NODE CPUS_PER_TASK MEMORY_LIMIT ISOLATED`, inside an srun task.

    A limit of 0 is none; ISOLATED is 0 or 1.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    folder = Path(arguments[1])
    orders = _Orders()
    try:
        if arguments[0] == LOOK:
            _look(folder, orders)
        else:
            tasks, cpus, limit, is_isolated = (int(argument) for argument in arguments[2:6])
            _Agent(folder, tasks, cpus, limit or None, is_isolated=bool(is_isolated)).run(orders)
    except (BrokenPipeError, _Ended):  # the launcher is gone, or Slurm wants this task to end
        pass
    os._exit(0)


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
        if not self.is_open:
            time.sleep(patience_s)
            return
        if not select.select([0], [], [], patience_s)[0]:
            return
        block = os.read(0, 1 << 16)
        self.is_open = bool(block)
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            order = json.loads(line)
            if order["do"] == "ping":  # nothing may come between: its clock is being read
                _say("pong", id=order["id"], at_s=time.time())
            else:
                yield order


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


# --- before any worker: what is this node, and does it see the shared folder? -----------------------------------------------------


def _look(folder: Path, orders: _Orders) -> None:
    began_s = time.monotonic()
    problem = _problem_with(folder)
    write_s = time.monotonic() - began_s
    os.environ.pop("SLURM_CPUS_PER_TASK", None)  # it may be another component's
    host = replace(read_host(), threads_per_core=threads_per_core())  # of all of the node, not of the CPU that this look was given
    _say("here", node=_node(), host=asdict(host), cwd=os.getcwd(), problem=problem, write_s=write_s)
    while orders.is_open:
        for _ in orders.poll(ALIVE_S):
            pass


def _problem_with(folder: Path) -> str:
    """Why this node cannot use the shared folder; empty where it can."""
    try:
        with (folder / f"{SEEN}{_node()}").open("w") as file:
            file.write(_node())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


# --- one worker -------------------------------------------------------------------------------------------------------------------


class _Agent:
    """Starts, watches and ends one worker."""

    def __init__(
        self, folder: Path, tasks_per_node: int, cpus_per_task: int, memory_limit_bytes: int | None, *, is_isolated: bool
    ) -> None:
        self._rank = int(os.environ["SLURM_PROCID"])
        local = int(os.environ.get("SLURM_LOCALID", "0"))
        allowed = sorted(os.sched_getaffinity(0))
        cpus = worker_cpus(allowed, tasks_per_node, cpus_per_task, local, threads_per_core() or 1)
        self._folder = folder / f"worker-{self._rank}"
        try:
            self._folder.mkdir()
        except OSError as error:
            _say("here", node=_node(), problem=(error.strerror or str(error)).lower(), is_bound=False)
            os._exit(1)
        self._tasks_per_node, self._memory_limit_bytes = tasks_per_node, memory_limit_bytes
        started = fresh_process(self._folder, cpus, is_isolated=is_isolated)
        self._worker = WorkerProcess(self._folder, started, memory_limit(self._memory_limit_bytes, self._tasks_per_node))
        self._deadline_s: float | None = None  # of building, and once the pipeline is built, of the rest
        self._sample_s = 0.0
        self._is_built = False
        self._is_over = self._is_leaving = False
        self._ahead_s = 0.0
        self._index = self._rank
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
        except _Ended:
            self._worker.kill("interrupt")
            self._finish(why=ENDED_BY_SLURM)
            raise
        finally:
            if not self._is_over:
                self._worker.kill("interrupt")
                self._worker.finish()

    def _watch(self) -> None:
        if self._is_over:
            return
        heard = self._worker.news()
        if heard:
            _say("heard", kinds=heard)
        if "built" in heard:
            self._is_built, self._deadline_s = True, time.monotonic() + self._sample_s
        self._worker.watch()
        if self._deadline_s is not None and time.monotonic() > self._deadline_s:
            self._worker.kill("deadline" if self._is_built else "start")
        if self._worker.is_over or self._is_leaving:
            self._finish()

    def _finish(self, why: str = "") -> None:
        if self._is_over:
            return
        self._is_over = True
        self._ending = self._worker.finish()
        heard = self._worker.news()
        if heard:
            _say("heard", kinds=heard)
        try:
            (self._folder / OUTPUT).write_text(self._ending.output_tail)
        except OSError:
            pass  # the reader does without it
        journal = read_journal(self._folder)
        sampling = journal.last("sampling")
        sizes = {name: _size(self._folder / name) for name in (EVENTS, STAMPS)}
        _say(
            "ended",
            returncode=self._ending.returncode,
            killed_for=self._ending.killed_for,
            why=why or ("the kernel ended it for the memory of its control group" if oom_kills() > self._oom_kills else ""),
            start_s=sampling.get("at_s") if sampling else None,
            end_s=float(journal.stamps_s[-1]) if len(journal.stamps_s) else None,
            is_whole=journal.last("done") is not None and journal.last("data_error") is None,
            sizes=sizes,
        )

    # What the launcher may ask, by the `do` of its message.

    def _on_order(
        self,
        *,
        order: Mapping[str, Any],
        indices: Sequence[int],
        addresses: Sequence[str],
        start_s: float,
        sample_s: float,
    ) -> None:
        """`order`: the fields of an `Order`, but for what differs from worker to worker. `start_s`: until the pipeline
        must be built; `sample_s`: from then on until the worker must be done."""

        self._index = indices[self._rank]
        self._deadline_s, self._sample_s = time.monotonic() + start_s, sample_s
        self._worker.memory_limit_bytes = memory_limit(
            self._memory_limit_bytes, self._tasks_per_node
        )  # the launch before this one has let its memory go
        own = {"worker_index": self._index, "tf_config": tf_config_of(addresses, self._index), "is_first": self._rank == 0}
        self._worker.send(json.dumps({**order, **own}) + "\n")

    def _on_go(self, *, window_s: float) -> None:
        self._worker.send(f"{window_s} barrier\n")

    def _on_start(self, *, at_s: float, ahead_s: Sequence[float]) -> None:
        self._ahead_s = ahead_s[self._rank]
        self._worker.send(f"{at_s + self._ahead_s}\n")

    def _on_leave(self) -> None:
        self._is_leaving = True

    def _on_end(self) -> None:
        self._worker.kill("interrupt")

    def _on_sum(self, *, until_s: float | None, has_trace: bool) -> None:
        """Writes down this worker's numbers in the window that all share, so that the launcher need not read every journal."""

        until_s = None if until_s is None else until_s + self._ahead_s
        found = worker_result(read_journal(self._folder), self._ending, index=self._index, node=_node(), until_s=until_s)
        text = TypeAdapter(WorkerResult).dump_json(found if has_trace else replace(found, batch_gaps_s=()))
        place = self._folder / f"{RESULT}.part"
        try:
            place.write_bytes(text)
            place.replace(self._folder / RESULT)
        except OSError as error:
            _say("told", bytes=None, problem=(error.strerror or str(error)).lower())
        else:
            _say("told", bytes=len(text), problem="")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


if __name__ == "__main__":
    main(sys.argv[1:])
