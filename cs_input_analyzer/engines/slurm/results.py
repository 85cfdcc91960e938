"""Reads the results that the tasks of a step left in the shared folder, and the journals of those that could not write theirs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cs_input_analyzer.engines.slurm.agent import ENDED_BY_SLURM, OUTPUT, RESULT
from cs_input_analyzer.engines.slurm.step import Task
from cs_input_analyzer.records import WorkerResult
from cs_input_analyzer.worker.journal import EVENTS, Journal, read_journal
from cs_input_analyzer.worker.summary import Ending, worker_result

# A file server shows what another machine wrote after a while (NFS: some seconds); what has not come by then is missing.
VISIBLE_S = 10.0
LOOK_AGAIN_S = 0.2
# Reading waits for the file server, not for a CPU: side by side, and not all in memory at once.
READERS = 16
AT_ONCE = 256

_RESULT = TypeAdapter(WorkerResult)


def collect(
    folder: Path, tasks: Sequence[Task], indices: Sequence[int], ahead_s: Sequence[float], until_s: float | None
) -> tuple[tuple[WorkerResult, ...], Journal, Ending]:
    """The result of each task by rank, and the first one's journal and ending.

    Args:
        indices: TF_CONFIG index of each rank; ahead_s: how far the clock of its node is ahead of ours.
        until_s: end of the window that all share, on our clock; None where nobody had one.
    """
    _wait_until_visible(folder, tasks)
    told = [task.told["bytes"] if task.told is not None and not task.lost else None for task in tasks]
    workers = []
    for task, found in zip(tasks, read_results(folder, told), strict=True):
        if found is None:
            found = _from_journal(folder, task, indices[task.rank], None if until_s is None else until_s + ahead_s[task.rank])
        workers.append(_explained(found, task))
    first = tasks[0]
    return tuple(workers), read_journal(_place(folder, first.rank)), _ending(folder, first)


def read_results(folder: Path, told: Sequence[int | None]) -> Iterator[WorkerResult | None]:
    """What each rank wrote down; None where it said that it wrote nothing, or the file is missing, cut short, or not ours.

    Args:
        told: bytes that each said it wrote; None for those that did not get so far.
    """
    with ThreadPoolExecutor(READERS) as pool:
        for begin in range(0, len(told), AT_ONCE):
            ranks = range(begin, min(begin + AT_ONCE, len(told)))
            texts = pool.map(lambda rank: _whole(_place(folder, rank) / RESULT, told[rank]), ranks)
            yield from map(_parsed, texts)


def _place(folder: Path, rank: int) -> Path:
    return folder / f"worker-{rank}"


def _whole(path: Path, size: int | None) -> bytes | None:
    if size is None:
        return None
    try:
        text = path.read_bytes()
    except OSError:
        return None
    return text if len(text) == size else None


def _parsed(text: bytes | None) -> WorkerResult | None:
    try:
        return None if text is None else _RESULT.validate_json(text)
    except ValidationError:
        return None


def _wait_until_visible(folder: Path, tasks: Sequence[Task]) -> None:
    """Until the files that tasks said they wrote are here as long as they said; what is not by `VISIBLE_S` is taken as missing."""
    missing = [(_place(folder, task.rank) / RESULT, task.told["bytes"]) for task in tasks if task.told and task.told["bytes"]]
    first = tasks[0]
    if first.ended is not None:
        missing.append((_place(folder, first.rank) / EVENTS, first.ended["sizes"][EVENTS]))
    deadline_s = time.monotonic() + VISIBLE_S
    while True:
        missing = [(path, size) for path, size in missing if not _is_there(path, size)]
        if not missing or time.monotonic() > deadline_s:
            return
        time.sleep(LOOK_AGAIN_S)


def _is_there(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size >= size
    except OSError:
        return False


def _from_journal(folder: Path, task: Task, index: int, until_s: float | None) -> WorkerResult:
    """Of a worker that could not tell itself: whatever its journal holds."""
    journal = read_journal(_place(folder, task.rank))
    found = worker_result(journal, _ending(folder, task), index=index, node=task.node or "unknown", until_s=until_s)
    if journal.events or task.lost:
        return found
    return replace(found, status="lost", message="its results are missing: nothing of them arrived in the shared folder")


def _explained(found: WorkerResult, task: Task) -> WorkerResult:
    """With what the engine knows of its end. What it had measured stays."""
    if task.lost and found.status != "done":
        return replace(found, status="lost", message=task.lost)
    why = task.ended["why"] if task.ended else ""
    if why.startswith(ENDED_BY_SLURM) and found.status != "done":
        return replace(found, status="lost", message=why)
    if why and found.status == "lost":
        return replace(found, message=f"{found.message}: {why}")
    if task.told and task.told["problem"] and found.status != "done":
        return replace(found, message=f"{found.message}; its results could not be written: {task.told['problem']}")
    return found


def _ending(folder: Path, task: Task) -> Ending:
    ended = task.ended or {}
    try:
        tail = (_place(folder, task.rank) / OUTPUT).read_text(errors="replace")
    except OSError:
        tail = ""
    return Ending(returncode=ended.get("returncode"), killed_for=ended.get("killed_for"), output_tail=tail)
