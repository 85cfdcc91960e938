"""Find the files of a run at a path, and read them: its log, its journal, its events, and the two documents.

Of each kind the newest counts. A file that is a day older than the newest one belongs to another run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import RunSource, RunSourceKind
from cs_input_analyzer.runs.console_log import LoggedRun, read_console_log
from cs_input_analyzer.runs.event_files import TAGS, EventScalars
from cs_input_analyzer.runs.grammar import STEP_LINES, WORTH_PARSING
from cs_input_analyzer.runs.journal import EVENT, Journal, read_journal
from cs_input_analyzer.runs.log_file import LogFile
from wafer_model import WaferModelError
from wafer_model.vendor_files import CompileReport, Performance, read_compile_report, read_performance_json

Document = TypeVar("Document")

# A folder may be a home directory; a note says that the rest was not searched.
MOST_ENTRIES = 50_000
DEEPEST = 8
MOST_FILES = 64
STALE_S = 86_400.0
LOOKED_FOR = (
    "lines such as `| Train Device=…, Step=…, Rate=…`, `global step …: loss = … (… steps/sec)` or `Training finished with …`, "
    "performance.json, compile_report.txt, TensorBoard event files, steps.jsonl"
)

# `model.ckpt-500.index` of TensorFlow, `checkpoint_500.mdl` of PyTorch; later releases leave the ending out.
_CHECKPOINT_NAME = re.compile(r"model[.-]ckpt-(\d{1,18})(?:\..*)?$|checkpoint_(\d{1,18})(?:\.mdl)?$")
_NAMES: dict[RunSourceKind, re.Pattern[str]] = {
    "performance.json": re.compile(r"^performance\.json$"),
    "event files": re.compile(r"\.tfevents\."),
    "step journal": re.compile(r"\.jsonl$"),
    "compile report": re.compile(r"compile_report.*\.txt$"),
    "console log": re.compile(
        r"\.(log|out|err|txt|stdout|stderr)(\.\d+)?(\.gz)?$|^(stdout|stderr|nohup\.out|log)$|\.[eo]\d+$", re.IGNORECASE
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file that may belong to a run."""

    path: Path
    kind: RunSourceKind
    modified_s: float


@dataclass(slots=True)
class RunFiles:
    """The files of a run, as they were read.

    Attributes:
        log: the newest run of the newest log.
        saved_steps: the steps of the checkpoints, by their names.
    """

    sources: list[RunSource] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    log: LoggedRun | None = None
    journal: Journal | None = None
    events: LoggedRun | None = None
    performance: Performance | None = None
    compile_report: CompileReport | None = None
    saved_steps: tuple[int, ...] = ()
    runs_found: int = 1


def read_files(path: Path) -> RunFiles:
    """Read what is at `path`, a file or a folder.

    Raises:
        UsageError: nothing of a run is there, or the one file cannot be read; the message says what was looked for.
    """
    files = RunFiles()
    is_folder = path.is_dir()
    found = _in_folder(path, files) if is_folder else _one_file(path, files)
    by_kind = {kind: [one for one in found if one.kind == kind][:MOST_FILES] for kind in _NAMES}
    if is_folder:
        by_kind = _recent(by_kind, files)
    _take_log(by_kind["console log"], files)
    _take_journal(by_kind["step journal"], files)
    _take_events(by_kind["event files"], files)
    files.performance = _document(by_kind["performance.json"], read_performance_json, files, is_folder)
    files.compile_report = _document(by_kind["compile report"], read_compile_report, files, is_folder)
    if not (files.log or files.journal or files.events or files.performance or files.compile_report):
        tried = "; ".join(f"{source.path}: {source.note}" for source in files.sources if source.note)
        raise UsageError(f"{path}: no trace of a run in it{f' ({tried})' if tried else ''}; looked for {LOOKED_FOR}")
    return files


# --- finding -----------------------------------------------------------------------------------------------------------------


def _one_file(path: Path, files: RunFiles) -> list[Found]:
    try:
        modified_s = path.stat().st_mtime
        if path.is_char_device() or path.is_block_device():
            raise UsageError(f"{path}: a device, which may never end; give a log, or the folder of a run")
        if path.is_file():  # a pipe is opened once, when it is read
            with path.open("rb"):
                pass
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"{path}: cannot be read: {reason}; give a log, or the folder of a run") from None
    _in_folder(path.parent, files, deepest=0)  # for the names of checkpoints
    kind = _kind_by_name(path.name) or ("performance.json" if path.suffix == ".json" else "console log")
    return [Found(path=path, kind=kind, modified_s=modified_s)]


def _in_folder(folder: Path, files: RunFiles, deepest: int = DEEPEST) -> list[Found]:
    """Return the files that may belong to a run, the newest first, and keep the steps in names of checkpoints."""
    found: list[Found] = []
    steps: set[int] = set()
    entries = 0
    for here, below, names in os.walk(folder):
        matches = (_CHECKPOINT_NAME.match(name) for name in (*below, *names))  # newer releases write a folder for each checkpoint
        steps.update(int(match[1] or match[2]) for match in matches if match is not None)
        below.sort()
        if len(Path(here).parts) - len(folder.parts) >= deepest:
            below.clear()
        for name in names if deepest else ():
            kind = _kind_by_name(name)
            path = Path(here) / name
            with suppress(OSError):  # not readable, or gone meanwhile
                if kind is not None and path.is_file():
                    found.append(Found(path=path, kind=kind, modified_s=path.stat().st_mtime))
        entries += len(names)
        if entries > MOST_ENTRIES:
            files.notes.append(f"the folder holds more than {MOST_ENTRIES:,} files: only the first were searched")
            break
    files.saved_steps = tuple(sorted(steps))
    return sorted(found, key=lambda one: (-one.modified_s, str(one.path)))


def _kind_by_name(name: str) -> RunSourceKind | None:
    return next((kind for kind, pattern in _NAMES.items() if pattern.search(name)), None)


def _recent(by_kind: dict[RunSourceKind, list[Found]], files: RunFiles) -> dict[RunSourceKind, list[Found]]:
    """Leave out logs without steps, journals without events, and the files that are a day older than the newest one."""
    logs = [one for one in by_kind["console log"] if next(LogFile(one.path).lines(STEP_LINES), None) is not None]
    journals = [one for one in by_kind["step journal"] if next(LogFile(one.path).lines(EVENT), None) is not None]
    known = {**by_kind, "console log": logs, "step journal": journals}
    newest = max((one.modified_s for kind in known.values() for one in kind), default=0.0)
    aside = [one for kind in known.values() for one in kind if one.modified_s < newest - STALE_S]
    if aside:
        names = ", ".join(str(one.path) for one in aside[:3])
        files.notes.append(f"left aside, more than a day older than the newest file: {names}{', …' if len(aside) > 3 else ''}")
    return {kind: [one for one in found if one not in aside] for kind, found in known.items()}


# --- reading -----------------------------------------------------------------------------------------------------------------


def _take_log(found: list[Found], files: RunFiles) -> None:
    """Take the newest log that holds a run."""
    for place, one in enumerate(found):
        file = LogFile(one.path)
        runs, count = read_console_log(file.lines(WORTH_PARSING))
        note = file.trouble if count else "none of the lines that were looked for"
        files.sources.append(RunSource(path=str(file.path), kind="console log", note=note))
        if count:
            files.notes += [f"left aside: {other.path}, an older log" for other in found[place + 1 :]]
            files.log = runs[-1]
            files.runs_found = max(1, len(runs) + len(runs[-1].writer_groups()) - 1)
            return


def _take_journal(found: list[Found], files: RunFiles) -> None:
    """Take the journal of the newest run.

    If others were still at work when it began, take that of most workers, then of most steps: a loop over validation data has a
    monitor of its own, and so has an evaluator.
    """
    read = []
    for one in found:
        journal = read_journal(one.path, one.modified_s)
        if journal.runs or journal.run.writers:
            read.append(journal)
        else:
            files.sources.append(RunSource(path=str(one.path), kind="step journal", note="no steps of the monitor in it"))
    if not read:
        return
    newest_s = max(journal.began_s for journal in read)
    at_work = [each for each in read if each.began_s == newest_s or each.began_s + each.last_step_s > newest_s]
    files.journal = chosen = max(at_work, key=lambda each: (each.workers, each.steps, each.began_s))
    files.sources.append(RunSource(path=str(chosen.path), kind="step journal", note=chosen.note))
    files.runs_found = max(files.runs_found, chosen.runs)
    files.notes += [f"left aside: {other.path}, another journal" for other in read if other is not chosen]
    if chosen.workers > 1:
        files.notes.append(f"the journal is of one of {chosen.workers} workers: its rates are its own")


def _take_events(found: list[Found], files: RunFiles) -> None:
    """Take all files of the folder whose newest file has our scalars, as one run."""
    if not found:
        return
    if files.journal is not None or (files.log is not None and files.log.writers):
        files.notes.append("the event files were not read: the steps are in the log")
        return
    for folder in dict.fromkeys(one.path.parent for one in found):
        run, count = LoggedRun(), 0
        for one in sorted((each for each in found if each.path.parent == folder), key=lambda each: each.path.name):
            scalars = EventScalars(path=one.path)
            run.explain("set-up")  # each start of a training begins a file
            for line in scalars.lines():
                count += 1
                run.add(line, count)
            note = "; ".join(filter(None, (scalars.trouble, "" if scalars.found_tags else "none of our scalars in it")))
            files.sources.append(RunSource(path=str(one.path), kind="event files", note=note))
        if run.writers:
            run.end()
            files.events = run
            files.runs_found = max(files.runs_found, len(run.writer_groups()))
            return
    files.notes.append(f"the event files hold none of {', '.join(TAGS[:3])}")


def _document(found: list[Found], read: Callable[[Path], Document], files: RunFiles, is_folder: bool) -> Document | None:
    """Return the newest document. One that cannot be read is named; if it is all that was asked for, it is an error."""
    for one in found:
        try:
            document = read(one.path)
        except (WaferModelError, UsageError, OSError) as error:
            if not is_folder:
                raise UsageError(str(error)) from None
            files.sources.append(RunSource(path=str(one.path), kind=one.kind, note=f"not used: {error}"))
            continue
        files.sources.append(RunSource(path=str(one.path), kind=one.kind))
        return document
    return None
