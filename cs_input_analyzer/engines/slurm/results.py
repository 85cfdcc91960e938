"""Reads the results that the tasks of a step left in the shared folder, and the journals of those that could not write theirs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec

from cs_input_analyzer.engines.collecting import Collected
from cs_input_analyzer.engines.slurm.jobs import MEMORY
from cs_input_analyzer.engines.slurm.node_worker import OUTPUT, RESULT
from cs_input_analyzer.engines.slurm.step import Task
from cs_input_analyzer.records import WorkerResult
from cs_input_analyzer.worker.journal import read_journal
from cs_input_analyzer.worker.summary import Ending, worker_result

# A file server shows what another machine wrote after a while (NFS: some seconds); what has not come by then is missing.
VISIBLE_S = 10.0
LOOK_AGAIN_S = 0.2
# Reading waits for the file server, not for a CPU.
READERS = 16


def collect(folder: Path, tasks: Sequence[Task], indices: Sequence[int], until_s: float | None) -> Collected:
    """Return what the tasks of a step left.

    Args:
        indices: TF_CONFIG index of each rank.
        until_s: end of the window that all share, since they were told to sample; None where nobody had one.
    """
    written = [task.rank for task in tasks if task.told is not None and not task.told["problem"]]
    found = dict(zip(written, read_results(folder, written), strict=True))
    workers = tuple(
        _explained(found.get(task.rank) or _from_journal(folder, task, indices[task.rank], until_s), task) for task in tasks
    )
    return Collected(
        workers=workers,
        first=read_journal(_place(folder, tasks[0].rank)),
        ending=_ending(folder, tasks[0]),
        ended_first=_ended(tasks[0]),
    )


def _ended(task: Task) -> Literal["engine", "exit"] | None:
    """Return the stage of a failure if Slurm or the kernel ended this task's worker; None if its own code did."""
    why = task.lost or (task.ended["why"] if task.ended else "")
    if not why:
        return None
    return "engine" if task.lost and MEMORY not in why else "exit"


def read_results(folder: Path, ranks: Sequence[int]) -> Iterator[WorkerResult | None]:
    """What each of these ranks wrote down; None where the file is missing, cut short, or not ours."""
    deadline_s = time.monotonic() + VISIBLE_S

    def read(rank: int) -> WorkerResult | None:
        path = _place(folder, rank) / RESULT
        while not path.exists() and time.monotonic() < deadline_s:
            time.sleep(LOOK_AGAIN_S)
        try:
            return msgspec.json.decode(path.read_bytes(), type=WorkerResult)
        except (OSError, msgspec.DecodeError):
            return None

    with ThreadPoolExecutor(READERS) as pool:
        yield from pool.map(read, ranks)


def _place(folder: Path, rank: int) -> Path:
    return folder / f"worker-{rank}"


def _from_journal(folder: Path, task: Task, index: int, until_s: float | None) -> WorkerResult:
    """Of a worker that could not tell itself: whatever its journal holds."""
    journal = read_journal(_place(folder, task.rank))
    found = worker_result(journal, _ending(folder, task), index=index, node=task.node or "unknown", until_s=until_s)
    if journal.events or task.lost:
        return found
    return replace(found, status="lost", message="its results are missing: nothing of them arrived in the shared folder")


def _explained(found: WorkerResult, task: Task) -> WorkerResult:
    """With what the engine knows of its end. What it had measured stays."""
    if found.status == "done":
        return found
    if task.lost:
        return replace(found, status="lost", message=task.lost)
    if task.ended and task.ended["why"] and found.status == "lost":
        return replace(found, message=f"{found.message}: {task.ended['why']}")
    if task.told and task.told["problem"]:
        return replace(found, message=f"{found.message}; its results could not be written: {task.told['problem']}")
    return found


def _ending(folder: Path, task: Task) -> Ending:
    ended = task.ended or {}
    try:
        tail = (_place(folder, task.rank) / OUTPUT).read_text(errors="replace")
    except OSError:
        tail = ""
    return Ending(returncode=ended.get("returncode"), killed_for=ended.get("killed_for"), output_tail=tail)
