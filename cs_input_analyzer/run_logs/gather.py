"""Path -> what its files say of the newest run: its log, journals, events, and the two documents.

Of each kind the newest counts; of journals, those of all workers of one launch. What is a day older than the newest file and the
run is left aside, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import RunSource, RunSourceKind
from cs_input_analyzer.run_logs.console_log import LoggedRun, read_console_log
from cs_input_analyzer.run_logs.event_files import TAGS, EventScalars
from cs_input_analyzer.run_logs.files import Found, find_files, may_hold_steps
from cs_input_analyzer.run_logs.grammar import NEEDLES
from cs_input_analyzer.run_logs.scan import READ_WHOLE, LogFile
from cs_input_analyzer.run_logs.step_journal import Journal, read_step_journal
from wafer_model import WaferModelError
from wafer_model.compile_report import CompileReport, read_compile_report
from wafer_model.performance_json import Performance, read_performance_json

Document = TypeVar("Document")

STALE_S = 86_400.0
TOGETHER_S = 600.0
MOST_FILES = 64
LOOKED_FOR = (
    "lines such as `| Train Device=…, Step=…, Rate=…`, `global step …: loss = … (… steps/sec)` or `Training finished with …`, "
    "performance.json, compile_report.txt, TensorBoard event files, steps.jsonl"
)


@dataclass(slots=True)
class Gathered:
    """What was read. `log`: the newest run of the newest log; `journals`: several only of workers of one launch."""

    sources: list[RunSource] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    log: LoggedRun | None = None
    journals: list[Journal] = field(default_factory=list)
    events: LoggedRun | None = None
    performance: Performance | None = None
    compile_report: CompileReport | None = None
    saved_steps: tuple[int, ...] = ()
    runs_found: int = 0


def gather(path: Path) -> Gathered:
    """Reads what is at `path`, a file or a folder.

    Raises:
        UsageError: nothing of a run is there, or the one file cannot be read; the message says what was looked for.
    """
    files = find_files(path)
    gathered = Gathered(saved_steps=files.saved_steps)
    if files.note:
        gathered.notes.append(files.note)
    is_folder = path.is_dir()
    recent = _recent(files.found, gathered) if is_folder else files.found
    _take_log([one for one in recent if one.kind == "console log"], gathered, is_folder)
    aside = _take_journals([one for one in recent if one.kind == "step journal"], gathered)
    has_steps = bool(gathered.journals or (gathered.log is not None and gathered.log.writers))
    _take_events([one for one in recent if one.kind == "event files"], gathered, has_steps)
    recent = tuple(one for one in recent if one.kind != "performance.json" or one.path.parent not in aside)
    gathered.performance = _document(recent, "performance.json", read_performance_json, gathered, is_folder)
    gathered.compile_report = _document(recent, "compile report", read_compile_report, gathered, is_folder)
    if not (gathered.log or gathered.journals or gathered.events or gathered.performance or gathered.compile_report):
        tried = "; ".join(f"{source.path}: {source.note}" for source in gathered.sources if source.note)
        raise UsageError(f"{path}: no trace of a run in it{f' ({tried})' if tried else ''}; looked for {LOOKED_FOR}")
    gathered.runs_found = max(gathered.runs_found, 1)
    return gathered


def _recent(found: tuple[Found, ...], gathered: Gathered) -> tuple[Found, ...]:
    """Without the files that are a day older than the newest one of a kind that is sure to be a run's."""
    sure = [one for one in found if one.kind != "console log"]
    logs = [one for one in found if one.kind == "console log"]
    newest_log = next((one for one in logs[:MOST_FILES] if may_hold_steps(one.path)), None)
    known = [*sure, *([newest_log] if newest_log is not None else [])]
    if not known:
        return found[:MOST_FILES]
    newest = max(one.modified_s for one in known)
    fresh = tuple(one for one in found if one.modified_s >= newest - STALE_S)
    aside = [one for one in known if one not in fresh]
    if aside:
        names = ", ".join(str(one.path) for one in aside[:3])
        gathered.notes.append(f"left aside, more than a day older than the newest file: {names}{', …' if len(aside) > 3 else ''}")
    return fresh


def _take_log(found: list[Found], gathered: Gathered, is_folder: bool) -> None:
    """The newest one that holds lines of steps; of a file that was named, whatever it holds."""
    chosen = [one for one in found[:MOST_FILES] if may_hold_steps(one.path)] if is_folder else found
    if not chosen:
        return
    file = LogFile(chosen[0].path)
    runs, count = read_console_log(file.lines(NEEDLES))
    sampled = f"beyond the first {READ_WHOLE:,} lines that count, a sample of them was read" if file.is_sampled else ""
    note = "; ".join(filter(None, (file.trouble, sampled))) if count else "none of the lines that were looked for"
    gathered.sources.append(RunSource(path=str(chosen[0].path), kind="console log", note=note))
    gathered.notes += [f"left aside: {other.path}, an older log" for other in chosen[1:]]
    if count:
        gathered.log = runs[-1]
        gathered.runs_found = len(runs) + len(runs[-1].writer_groups()) - 1


def _take_journals(found: list[Found], gathered: Gathered) -> set[Path]:
    """The folders of journals that were left aside: what else their monitors wrote there is of no use either."""
    read: list[Journal] = []
    for one in found[:MOST_FILES]:
        journal = read_step_journal(one.path, one.modified_s)
        if journal.runs or journal.best.writers:
            read.append(journal)
        else:
            gathered.sources.append(RunSource(path=str(one.path), kind="step journal", note="no steps of the monitor in it"))
    newest_s = max((journal.began_s for journal in read), default=0.0)
    together = [journal for journal in read if newest_s - journal.began_s <= TOGETHER_S]
    launch = _launch(together) if together else []
    for journal in read:
        if journal in launch:
            gathered.sources.append(RunSource(path=str(journal.path), kind="step journal", note=journal.note))
            gathered.journals.append(journal)
            gathered.runs_found = max(gathered.runs_found, journal.runs)
        else:
            of = "another monitor" if journal in together else "an older run"
            gathered.notes.append(f"left aside: {journal.path}, the journal of {of}")
    return {journal.path.parent for journal in read} - {journal.path.parent for journal in launch}


def _launch(together: list[Journal]) -> list[Journal]:
    """The journals of the newest launch. Workers of one agree in how many they are, and each has a name of its own."""
    first = _leading(together)
    if (first.workers or 1) == 1:
        return [first]
    by_name: dict[str, list[Journal]] = {}
    for journal in together:
        if journal.workers == first.workers:
            by_name.setdefault(journal.worker or str(journal.path.parent), []).append(journal)
    return [_leading(of_one) for of_one in by_name.values()]


def _leading(journals: list[Journal]) -> Journal:
    """The newest one; where others were still at work when it began, the one of most workers, then steps: that is the training.

    A loop over validation data has a monitor of its own beside that, and so has an evaluator, which is no worker.
    """
    newest_s = max(journal.began_s for journal in journals)
    at_work = [each for each in journals if each.began_s == newest_s or each.began_s + each.last_step_s > newest_s]
    return max(at_work, key=lambda each: (each.workers or 1, each.steps, each.began_s))


def _take_events(found: list[Found], gathered: Gathered, has_steps: bool) -> None:
    """All files of the folder whose newest file has our scalars, as one run."""
    if not found:
        return
    if has_steps:
        gathered.notes.append("the event files were not read: the steps are in the log")
        return
    for folder in dict.fromkeys(one.path.parent for one in found[:MOST_FILES]):
        run, count = LoggedRun(), 0
        for one in sorted((each for each in found if each.path.parent == folder), key=lambda each: each.path.name):
            scalars = EventScalars(path=one.path)
            for line in scalars.lines():
                count += 1
                run.add(line, count)
            note = "; ".join(filter(None, (scalars.trouble, "" if scalars.found_tags else "none of our scalars in it")))
            gathered.sources.append(RunSource(path=str(one.path), kind="event files", note=note))
        if run.writers:
            run.end()
            gathered.events = run
            gathered.runs_found = max(gathered.runs_found, len(run.writer_groups()))
            return
    gathered.notes.append(f"the event files hold none of {', '.join(TAGS[:3])}")


def _document(
    found: tuple[Found, ...], kind: RunSourceKind, read: Callable[[Path], Document], gathered: Gathered, is_folder: bool
) -> Document | None:
    """The newest document of a kind. One that cannot be read is named; where it is all that was asked for, it is an error."""
    for one in found:
        if one.kind != kind:
            continue
        try:
            document = read(one.path)
        except (WaferModelError, UsageError, OSError) as error:
            if not is_folder:
                raise UsageError(str(error)) from None
            gathered.sources.append(RunSource(path=str(one.path), kind=kind, note=f"not used: {error}"))
            continue
        gathered.sources.append(RunSource(path=str(one.path), kind=kind))
        return document
    return None
