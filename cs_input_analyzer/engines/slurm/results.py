"""Read the journals and the last output of the workers of a step from the shared folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal

from cs_input_analyzer.engines.collecting import Collected, results_of
from cs_input_analyzer.engines.slurm.jobs import MEMORY
from cs_input_analyzer.engines.slurm.node_worker import OUTPUT, journal_bytes
from cs_input_analyzer.engines.slurm.step import Task
from cs_input_analyzer.records import WorkerResult
from cs_input_analyzer.worker.journal import Journal, WorkPlan, read_journal
from cs_input_analyzer.worker.summary import Ending

# A file server shows a write of another machine after a while (NFS: some seconds). A later file counts as missing.
VISIBLE_S = 10.0
LOOK_AGAIN_S = 0.2
# Reading waits for the file server, not for a CPU.
READERS = 16
# Batch gaps are kept for launches of up to this many workers. A picture needs only a few.
MOST_TRACED = 64


def collect(folder: Path, tasks: Sequence[Task], plan: WorkPlan) -> Collected:
    """Return the results of the tasks of a step."""
    journals = read_journals(folder, tasks)
    endings = [_ending(folder, task) for task in tasks]
    found = results_of(plan, journals, endings, [task.node or "unknown" for task in tasks])
    if len(tasks) > MOST_TRACED:
        found = tuple(replace(result, batch_gaps_s=()) for result in found)
    return Collected(
        workers=tuple(map(_explained, found, journals, tasks)),
        first=journals[0],
        ending=endings[0],
        ended_first=_ended(tasks[0]),
    )


def read_journals(folder: Path, tasks: Sequence[Task]) -> list[Journal]:
    """Return the journal of each task. Wait until it is as long as its node reported."""
    deadline_s = time.monotonic() + VISIBLE_S

    def read(task: Task) -> Journal:
        place = _place(folder, task)
        while task.ended and journal_bytes(place) < task.ended["journal_bytes"] and time.monotonic() < deadline_s:
            time.sleep(LOOK_AGAIN_S)
        return read_journal(place)

    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(read, tasks))


def _place(folder: Path, task: Task) -> Path:
    return folder / f"worker-{task.rank}"


def _ended(task: Task) -> Literal["engine", "exit"] | None:
    """Return the stage of the failure if Slurm or the kernel ended this worker; None if its own code did."""
    why = task.lost or (task.ended["why"] if task.ended else "")
    if not why:
        return None
    return "engine" if task.lost and MEMORY not in why else "exit"


def _explained(found: WorkerResult, journal: Journal, task: Task) -> WorkerResult:
    """Add the engine's reason for a worker's end to its result. Keep its measurements."""
    if found.status == "done":
        return found
    if task.lost:
        return replace(found, status="lost", message=task.lost)
    ended = task.ended or {"journal_bytes": 0, "why": ""}
    if ended["journal_bytes"] and not journal.events:
        return replace(found, status="lost", message="its results are missing: none of them arrived in the shared folder")
    if ended["why"] and found.status == "lost":
        return replace(found, message=f"{found.message}: {ended['why']}")
    return found


def _ending(folder: Path, task: Task) -> Ending:
    ended = task.ended or {}
    try:
        tail = (_place(folder, task) / OUTPUT).read_text(errors="replace")
    except OSError:
        tail = ""
    return Ending(returncode=ended.get("returncode"), killed_for=ended.get("killed_for"), output_tail=tail)
