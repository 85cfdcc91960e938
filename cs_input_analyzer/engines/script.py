"""Find where a user's script takes its data by running it once, and choose the place to analyze."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from cs_input_analyzer.engines.collecting import how_it_ended, temporary_scratch
from cs_input_analyzer.engines.starting import WorkerKind, WorkerStarter
from cs_input_analyzer.engines.worker_process import POLL_S, WorkerProcess, memory_limit
from cs_input_analyzer.errors import AnalyzerError, InputFunctionError, Interrupted, NotIsolatedError, UsageError
from cs_input_analyzer.records import Capture, CaptureCandidate
from cs_input_analyzer.tfdata.graph import is_users_own
from cs_input_analyzer.tfdata.messages import with_type
from cs_input_analyzer.worker.capture import LOOKED_FOR, Script, innermost, missing_advice
from cs_input_analyzer.worker.failures import FAULT, REFUSED, VERSION
from cs_input_analyzer.worker.isolation import NOT_ISOLATED
from cs_input_analyzer.worker.journal import HUNG, Journal, Order, WorkPlan, read_journal
from cs_input_analyzer.worker.summary import Ending

# Training places come first, then evaluation.
PREFERENCE = ("train", "fit", "distribute", "loop", "peek", "evaluate", "predict")
# Of scripts that fail without an accelerator.
ACCELERATOR = re.compile(r"GPU|CUDA|TPU|accelerator|\bdevices?\b", re.IGNORECASE)
OUTPUT_LINES = 12
# The script's own clock starts later than its process, above all on a busy host. It then also writes its stack.
STACK_S = 5.0
# After the first place the script may run as long again as until there, and at least this, to show other places.
OTHERS_S = 10.0
ON_ITS_FILES = (
    "it ran on your own files, because of --on-own-files: it ended at its first place, and --capture 2 continues to the next; "
    "its writes until then are real"
)


def find_captures(
    script: Script,
    seconds: float,
    worker_memory_bytes: int | None = None,
    *,
    packages: Sequence[str] = (),
    last: int | None = None,
    isolates: bool = True,
    has_network: bool = True,
) -> tuple[Capture, float]:
    """Return every place where the script takes data, with the preferred one picked, and the seconds of the search.

    Run the script in a worker, on private copies of all files, with accelerators hidden. End it and all its processes after
    `seconds`. On the user's own files it ends at the first place, unless the script only peeks at the data there.

    Args:
        packages: to replace by stand-ins if they are not installed.
        last: number of the place at which the script ends in any case.
        isolates: whether it runs on private copies; else on the user's own files.
        has_network: whether it has the real network.

    Raises:
        InputFunctionError: the script failed, hung or ended before it took data.
        LaunchError: the process could not be started, or its folder could not be written.
        NotIsolatedError: private copies are not possible here.
    """
    began_s = time.monotonic()
    scratch = temporary_scratch()
    try:
        kind = WorkerKind(forks=False, isolates=isolates, has_network=has_network)
        plan = WorkPlan(target=replace(script, number=last).target, stand_ins=tuple(packages), searches=True)
        with closing(WorkerStarter(scratch.folder, kind)) as starter:
            ending, journal, hung = _run(starter, scratch.folder, plan, seconds, worker_memory_bytes)
    finally:
        scratch.close()
    candidates = tuple(
        CaptureCandidate(**{name: value for name, value in event.items() if name != "event"})
        for event in journal.events
        if event["event"] == "candidate"
    )
    stand_ins = innermost(str(event["name"]) for event in journal.events if event["event"] == "stand_in")
    if not candidates:
        raise _nothing_found(script, ending, journal, seconds, hung, stand_ins)
    best = min(candidates, key=lambda candidate: (PREFERENCE.index(candidate.kind), candidate.number))
    notes = [str(event["text"]) for event in journal.events if event["event"] == "refused"]
    found = Capture(
        command=script.command,
        picked=best.number,
        candidates=candidates,
        stand_ins=stand_ins,
        notes=(*notes, *_ended_early(ending, journal), *([] if isolates else [ON_ITS_FILES])),
    )
    return found, time.monotonic() - began_s


def pick(found: Capture, number: int | None) -> Capture:
    """Return the search with the candidate that `--capture` names, or with the preferred one. Raise UsageError."""
    if number is None:
        return found
    if not any(candidate.number == number for candidate in found.candidates):
        there = "; ".join(f"{one.number}: {one.call} at {one.source}" for one in found.candidates)
        raise UsageError(f"--capture {number}: the script takes data at {there}")
    return replace(found, picked=number)


def _run(
    starter: WorkerStarter, scratch: Path, plan: WorkPlan, seconds: float, worker_memory_bytes: int | None
) -> tuple[Ending, Journal, str]:
    """Run the script. Return how it ended, its journal, and its stack if it hung."""
    (folder := scratch / "script").mkdir()
    started = starter.start(folder, sorted(os.sched_getaffinity(0)), scratch)
    process = WorkerProcess(folder, started, memory_limit(worker_memory_bytes))
    began_s = time.monotonic()
    deadline_s, is_ordered, has_found = began_s + seconds + STACK_S, False, False
    try:
        while not process.is_over and not process.has_said("ended", "failed"):
            if not is_ordered and process.has_said("imported"):
                is_ordered, left_s = True, max(0.0, began_s + seconds - time.monotonic())
                order = Order(plan=plan, worker_index=0, tf_config="", is_first=True, is_alone=True, left_s=left_s)
                process.send(order.to_line())
            if not has_found and process.has_said("candidate"):
                has_found, now_s = True, time.monotonic()
                deadline_s = min(deadline_s, now_s + max(OTHERS_S, now_s - began_s))
            if time.monotonic() > deadline_s:
                process.kill("deadline")
            process.watch()
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        process.kill("interrupt")
        process.finish()
        raise Interrupted("interrupted before anything was measured") from None
    ending = process.finish()
    hung = (folder / HUNG).read_text(errors="replace") if (folder / HUNG).is_file() else ""
    return ending, read_journal(folder), hung


def _ended_early(ending: Ending, journal: Journal) -> tuple[str, ...]:
    """Return a note on why the script did not reach its end, if there may be more candidates."""
    failed, ended = journal.last("failed"), journal.last("ended")
    if failed is not None:
        why = with_type(failed["kind"], failed["message"]).splitlines()[0] + " (its loops and its training got no data there)"
    elif ended is not None:
        why = str(ended["why"])
    else:
        why = "it took too long" if ending.killed_for == "deadline" else how_it_ended(ending)
    return (f"the search stopped after these places, before the script's end: {why}",) if why else ()


def _nothing_found(
    script: Script, ending: Ending, journal: Journal, seconds: float, hung: str, stand_ins: tuple[str, ...]
) -> AnalyzerError:
    what = f"`{script.command}`"
    about = f" (not installed, so stand-ins took their place: {', '.join(stand_ins)})" if stand_ins else ""
    printed = "\n".join(ending.output_tail.strip().splitlines()[-OUTPUT_LINES:])
    failed, ended = journal.last("failed"), journal.last("ended")
    if failed is not None and failed["stage"] == NOT_ISOLATED:
        return NotIsolatedError(failed["message"])
    if failed is not None and failed["stage"] in (VERSION, REFUSED):
        return UsageError(failed["message"])
    if failed is not None and failed["stage"] == FAULT:
        return AnalyzerError(f"a fault of cs_input_analyzer, not of {what}: {failed['message']}\n{failed['details']}".rstrip())
    if failed is not None:
        hidden = "; accelerators are hidden from it" if ACCELERATOR.search(f"{failed['message']} {failed['details']}") else ""
        message = (
            f"{what} failed before it took data: {with_type(failed['kind'], failed['message'])}{about}"
            f"{hidden}{missing_advice(failed['message'])}"
        )
        return InputFunctionError(message, failed["details"] or printed)
    refused = [str(event["text"]) for event in journal.events if event["event"] == "refused"]
    if refused:
        return InputFunctionError(f"{what} takes no tf.data input: {'; '.join(refused)}{about}")
    if ended is not None:
        why = f" ({ended['why']})" if ended["why"] else ""
        return InputFunctionError(f"{what} ended without taking data{why}{about}; looked for: {LOOKED_FOR}", printed)
    if ending.killed_for == "deadline":
        message = f"{what} hung: it had taken no data after {seconds:.0f} s; --start-timeout allows more"
        # The stack lists the innermost frame first. Keep the user's frames, outermost first.
        frames = re.findall(r'^  File "([^"]+)", line (\d+) in (.+)$', hung, re.MULTILINE)
        lines = [f'  File "{path}", line {line}, in {name}' for path, line, name in reversed(frames) if is_users_own(path)]
        return InputFunctionError(f"{message}{about}", "\n".join(["It was at:", *lines]) if lines else printed)
    return InputFunctionError(f"{what} was lost before it took data: {how_it_ended(ending)}{about}", printed)
