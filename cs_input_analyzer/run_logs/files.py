"""Finds the files of a run at a path, and says of which kind each is."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import RunSourceKind
from cs_input_analyzer.run_logs.grammar import STEP_NEEDLES
from cs_input_analyzer.run_logs.scan import BLOCK_BYTES, GZIP_MAGIC, LogFile

HEAD_BYTES = 1 << 16
# A folder may be a home directory; what is beyond is said to be.
MOST_ENTRIES = 50_000
DEEPEST = 8

# `model.ckpt-500.index` of TensorFlow, `checkpoint_500.mdl` of PyTorch; later releases leave the ending out.
_CHECKPOINT_NAME = re.compile(r"model[.-]ckpt-(\d{1,18})(?:\..*)?$|checkpoint_(\d{1,18})(?:\.mdl)?$")
_NAMES: dict[RunSourceKind, re.Pattern[str]] = {
    "performance.json": re.compile(r"^performance\.json$"),
    "event files": re.compile(r"\.tfevents\."),
    "step journal": re.compile(r"\.jsonl$"),
    "compile report": re.compile(r"compile_report.*\.txt$"),
    "console log": re.compile(
        r"\.(log|out|err|txt|stdout|stderr)(\.\d+)?(\.gz)?$|^(stdout|stderr|nohup\.out|log)$|\.o\d+$", re.IGNORECASE
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file that may belong to a run."""

    path: Path
    kind: RunSourceKind
    modified_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """What is at a path: the newest file first. `note`: where not all of a folder was searched.

    `saved_steps`: those of the checkpoints that lie there, by their names.
    """

    found: tuple[Found, ...]
    note: str = ""
    saved_steps: tuple[int, ...] = ()


def find_files(path: Path) -> RunFiles:
    """The files at `path` that may belong to a run; beside one file only the names of checkpoints are read.

    Raises:
        UsageError: there is no such path, or it cannot be read.
    """
    try:
        if path.is_dir():
            return _files_in_folder(path)
        modified_s = path.stat().st_mtime
        if path.is_char_device() or path.is_block_device():
            raise UsageError(f"{path}: a device, which may never end; give a log, or the folder of a run")
        if path.is_file():  # a pipe is opened once, when it is read
            with path.open("rb"):
                pass
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"{path}: cannot be read: {reason}; give a log, or the folder of a run") from None
    found = (Found(path=path, kind=_kind_of_file(path), modified_s=modified_s),)
    return RunFiles(found=found, saved_steps=_files_in_folder(path.parent, deepest=0).saved_steps)


def _files_in_folder(folder: Path, deepest: int = DEEPEST) -> RunFiles:
    found: list[Found] = []
    steps: set[int] = set()
    entries, note = 0, ""
    for here, below, names in os.walk(folder, onerror=None):
        for name in (*below, *names):  # newer releases write a folder for each checkpoint
            if (match := _CHECKPOINT_NAME.match(name)) is not None:
                steps.add(int(match[1] or match[2]))
        below.sort()
        if len(Path(here).parts) - len(folder.parts) >= deepest:
            below.clear()
        for name in names if deepest else ():
            kind = _kind_by_name(name)
            if kind is not None and (one := _stat(Path(here) / name, kind)) is not None:
                found.append(one)
        entries += len(names)
        if entries > MOST_ENTRIES:
            note = f"the folder holds more than {MOST_ENTRIES:,} files: only the first were searched"
            break
    newest_first = tuple(sorted(found, key=lambda one: (-one.modified_s, str(one.path))))
    return RunFiles(found=newest_first, note=note, saved_steps=tuple(sorted(steps)))


def _stat(path: Path, kind: RunSourceKind) -> Found | None:
    try:
        return Found(path=path, kind=kind, modified_s=path.stat().st_mtime) if path.is_file() else None
    except OSError:
        return None


def _kind_by_name(name: str) -> RunSourceKind | None:
    return next((kind for kind, pattern in _NAMES.items() if pattern.search(name)), None)


def _kind_of_file(path: Path) -> RunSourceKind:
    """Of a file that the user named: by its name where that is sure, else by how it begins."""
    named = _kind_by_name(path.name)
    if named in ("performance.json", "event files", "step journal") or not path.is_file():
        return named or "console log"
    head = next(LogFile(path).blocks(), b"")[:HEAD_BYTES]  # unpacked; empty where it cannot be read
    if head.lstrip()[:1] == b"{":
        return "step journal" if b'"event"' in head.split(b"\n", 1)[0] else "performance.json"
    if b"Samples/s" in head and (b"Estimated Overall Performance" in head or b"Kernel Name" in head):
        return "compile report"
    return "console log"


def may_hold_steps(path: Path) -> bool:
    """Whether a log has lines of steps, in its first or its last blocks."""
    blocks = LogFile(path).blocks()
    first = next(blocks, b"")
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == GZIP_MAGIC
            file.seek(max(0, path.stat().st_size - BLOCK_BYTES))
            last = b"" if is_packed else file.read(BLOCK_BYTES)
    except OSError:
        last = b""
    return any(needle in first or needle in last for needle in STEP_NEEDLES)
