"""Describe errors of the user's code: messages without TensorFlow's noise, tracebacks with the user's frames only."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.failed_op import failed_op
from cs_input_analyzer.tfdata.graph import files_by_reader, graph_def_of, is_library, is_users_own
from cs_input_analyzer.tfdata.messages import MESSAGE_LIMIT, named_message, plain_message, type_of
from cs_input_analyzer.worker import isolation
from cs_input_analyzer.worker.bytes_read import LEAST_BUFFERS, has_counted_reads
from cs_input_analyzer.worker.journal import JournalWriter

TRACEBACK_LIMIT = 8000
# Stages of failures that are not the user's: a mistake of ours, and a release of TensorFlow that lacks what we need.
FAULT, VERSION = "fault", "version"
# The stage of a write that our isolation refuses: not the user's mistake either.
REFUSED = "refused"
# As TensorFlow writes it, and as Python does.
_REFUSED_PATH = re.compile(
    r"(?P<first>\S+); (?:Read-only file system|Value too large for defined data type)"
    r"|\[Errno (?:30|75)\] [^:\n]*: '(?P<last>[^'\n]+)'"
)
_OURS = str(Path(__file__).parents[1]) + os.sep
# The longest time to look for a changed file.
CHANGED_FILES_S = 1.0
# The longest time to look for a damaged file, and the records between two looks at the clock.
DAMAGED_FILE_S, RECORDS_AT_ONCE = 2.0, 1000

# TensorFlow puts this before the message of an error inside a tf.function, and the sampling loop is one.
_LOOP_FRAMES = re.compile(
    r"\AGraph execution error:\s+(?:Detected at node [^\n]*\n(?:<stack traces unavailable>\n|\s*File [^\n]*\n|\s*\n)*)+"
)


def report_failure(journal: JournalWriter, stage: str, error: BaseException, where: str = "") -> None:
    """Write an error at a stage of the worker's life to the journal, the user's or ours. `where`: the text of `place_of`."""
    details, message = user_traceback(error), plain_message(error) + _first_version_advice(error)
    if not details and stage != "load" and _is_ours(error):
        lacks = _lacking_in_tensorflow(error)
        stage, message = (VERSION, lacks) if lacks else (FAULT, f"{type(error).__name__}: {message}")
        details = "" if lacks else "".join(traceback.format_exception(error))
    if refused := refused_write(error):
        stage, message = REFUSED, refused
    journal.event(
        "failed",
        stage=stage,
        kind=type_of(error),
        where=where,
        message=message[:MESSAGE_LIMIT],
        details=details[-TRACEBACK_LIMIT:],
    )


def refused_write(error: BaseException) -> str:
    """Return a sentence about a write that our isolation refuses; empty for other errors."""
    here, cause = isolation.here(), error
    if here.level == "own files":
        return ""
    while not isinstance(cause, OSError) and (cause.__cause__ or cause.__context__) is not None:
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    number = cause.errno if isinstance(cause, OSError) else None
    named = _REFUSED_PATH.search(str(error))
    path = os.fspath(cause.filename) if isinstance(cause, OSError) and isinstance(cause.filename, str) else ""
    path = path or ((named.group("first") or named.group("last")) if named else "")
    is_read_only = number == errno.EROFS or (named is not None and os.strerror(errno.EROFS) in str(error))
    is_others = number == errno.EOVERFLOW or (named is not None and os.strerror(errno.EOVERFLOW) in str(error))
    if is_others:
        return (
            f"{path} belongs to another user and gets no private copy: cs_input_analyzer refused this write. Write below the "
            "current folder instead, or let the code write for real by --on-own-files"
        )
    if is_read_only and here.level == "private copies":
        return (
            f"cs_input_analyzer refused to write {path}: the folder holds data, so it is read-only "
            "while batches are read. --on-own-files lets the code write for real"
        )
    if is_read_only:
        return (
            f"cs_input_analyzer refused to write {path}: private copies of your files are not possible here ({here.why}), so "
            "they are read-only while the code runs. --on-own-files lets it write for real"
        )
    return ""


def lacking_numbers(ops: Sequence[Op]) -> tuple[str, ...]:
    """Return a sentence for each number of this pipeline that this TensorFlow cannot report."""
    import tensorflow as tf

    from cs_input_analyzer.worker.meter import model_reader

    if model_reader() is not None:
        return ()
    costs = (
        f"exact costs of ops need TensorFlow 2.17; this is {tf.__version__}. Costs shown are from parts of the pipeline run alone"
    )
    read = f"bytes read per sample need TensorFlow 2.17 if a window fills fewer than {LEAST_BUFFERS} read buffers"
    return (costs, read) if has_counted_reads(ops) else (costs,)


def _is_ours(error: BaseException) -> bool:
    """Return whether our own code raised the error, or asked TensorFlow for a missing name, and no user code ran."""
    if not isinstance(error, AttributeError | ImportError | NameError | AssertionError | LookupError | RecursionError):
        return False
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    while frames and isinstance(error, AttributeError | ImportError) and is_library(frames[-1], ("tensorflow",)):
        frames.pop()  # modules of TensorFlow are loaded by code of its own
    return bool(frames) and frames[-1].startswith(_OURS)


def _lacking_in_tensorflow(error: BaseException) -> str:
    """Return a sentence about the name that this TensorFlow lacks; empty for other errors."""
    owner: Any = getattr(error, "obj", None)
    module = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", None) or ""
    name = getattr(error, "name", None)
    if isinstance(error, ImportError):
        module, name = name or "", str(error)
    if not name or str(module).partition(".")[0] not in ("tensorflow", "keras") or "tensorflow" not in sys.modules:
        return ""
    import tensorflow as tf

    public = str(module).replace("tensorflow._api.v2", "tf")
    return f"TensorFlow {tf.__version__} lacks {public}.{name}, which the measurement needs: install a newer TensorFlow"


def _has(holder: Any, *names: str) -> bool:
    """Return whether `holder.a.b` exists for the names `a`, `b`."""
    for name in names:
        holder = getattr(holder, name, None)
    return holder is not None


_LACKING = re.compile(r"(?:module '([\w.]+)'|(?:type object )?'(\w+)'(?: object)?) has no attribute '(\w+)'")


def _first_version_advice(error: BaseException) -> str:
    """Return advice on code that was written for TensorFlow 1; empty for other errors."""
    # AutoGraph raises the error anew, with its text alone.
    lacking = _LACKING.search(plain_message(error)) if isinstance(error, AttributeError) else None
    if lacking is None or "tensorflow" not in sys.modules:
        return ""
    import tensorflow as tf

    owner, name = lacking.group(1) or lacking.group(2), lacking.group(3)
    first: Any = tf.compat.v1
    if lacking.group(1):
        inside = [part for part in owner.split(".")[1:] if part not in ("_api", "v2")]
        is_lost = owner.partition(".")[0] == "tensorflow" and ((not inside and name == "contrib") or _has(first, *inside, name))
    else:
        kind = "Iterator" if "Iterator" in owner else "Dataset" if "Dataset" in owner else ""
        is_lost = bool(kind) and _has(first.data, kind, name)
    if not is_lost:
        return ""
    lost = " tf.contrib is in no release since 2.0, also not in tf.compat.v1." if name == "contrib" else ""
    return (
        f"; the code is written for TensorFlow 1, and this is {tf.__version__}.{lost} Convert it by tf_upgrade_v2 --infile "
        "OLD.py --outfile NEW.py, or import tensorflow.compat.v1 as tf"
    )


def place_of(error: BaseException, dataset: Any, ops: Sequence[Op], files: Sequence[tuple[str, int]] = ()) -> str:
    """Return `map_2 in data.py:12: ` for the op that raised the error, and `parse in data.py:7` for the Python line in it.

    Leave out the op if it is not sure. Name the damaged one of `files` (path, size) behind a reader of records.
    """
    message = _LOOP_FRAMES.sub("", str(getattr(error, "message", None) or error))
    op = failed_op(message, dataset, ops)
    places = {op.source: op.name} if op is not None else {}
    own = [(f"{path}:{line}", name) for path, line, name, _ in _FRAME.findall(message) if is_users_own(path)]
    for source, name in own[-1:]:
        places.setdefault(source, name)
    named = [named_place(name, source) for source, name in places.items()]
    if op is not None and files and (damage := _DAMAGE.search(message)):
        held = files_by_reader(graph_def_of(dataset), dict(files)).get(op.name, ())
        named += _damaged_file([path for path, size in held if size > int(damage[1])], damage[0])
    return f"{', '.join(named)}: " if named else ""


def named_place(name: str, source: str | None) -> str:
    """Return `map_2 in data.py:12`; the name alone if its line is not known."""
    return f"{name} in {os.path.basename(source)}" if source else name


def element_error(error: BaseException, files: Sequence[tuple[str, int]]) -> str:
    """Return the error of an element without the frames of our loop, and the file (path, size) that changed meanwhile."""
    return (
        refused_write(error)[:MESSAGE_LIMIT]
        or (_LOOP_FRAMES.sub("", plain_message(error)).strip() + _changed_file(files))[:MESSAGE_LIMIT]
    )


def user_traceback(error: BaseException) -> str:
    """Return the traceback of `error` without our frames and TensorFlow's; empty if it has none of the user's.

    TensorFlow wraps an error in a Python function of the pipeline. The function's own traceback is in its text.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_library(frame.filename)]
    shown = [*traceback.format_list(frames), *_frames_in(str(error))]
    if not shown and not isinstance(error, SyntaxError):
        return ""
    last = traceback.format_exception_only(error) if isinstance(error, SyntaxError) else [named_message(error, None), "\n"]
    return "".join(["Traceback (most recent call last):\n", *shown, *last])


_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+), in ([^\n*]+?)[ *]*\n +([^\n]+)\n', re.MULTILINE)


def _frames_in(text: str) -> list[str]:
    """Return the user's frames of a traceback in a message, in Python's format."""
    return [
        f'  File "{path}", line {line}, in {name}\n    {code}\n'
        for path, line, name, code in _FRAME.findall(text)
        if not is_library(path)
    ]


_DAMAGE = re.compile(r"(?:corrupted|truncated) record at (\d+)")


def _damaged_file(paths: Sequence[str], damage: str) -> list[str]:
    """Return the only one of these record files in which TensorFlow finds this damage; nothing if several have it, or none."""
    import tensorflow as tf

    deadline_s, found = time.monotonic() + DAMAGED_FILE_S, list[str]()
    for path in paths:
        try:
            for _ in tf.data.TFRecordDataset(path).map(tf.strings.length).batch(RECORDS_AT_ONCE):
                if time.monotonic() > deadline_s:
                    return found
        except tf.errors.OpError as error:
            said = _DAMAGE.search(str(error))
            found += [path] if said and said[0] == damage else []
        if len(found) > 1:
            return []
    return found


def _changed_file(files: Sequence[tuple[str, int]]) -> str:
    """Return a note on the first file that is gone or has changed its size since the build; empty if there is none."""
    deadline_s = time.monotonic() + CHANGED_FILES_S
    for path, size in files:
        if time.monotonic() > deadline_s or "://" in path:
            return ""
        try:
            now = os.stat(path).st_size
        except OSError as error:
            return f" ({path}: {(error.strerror or str(error)).lower()}; it was there when the pipeline was built)"
        if now != size:
            return f" ({path} had {size} bytes when the pipeline was built and has {now} now: something writes to it)"
    return ""
