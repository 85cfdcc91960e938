"""What went wrong in the user's code, in words: messages without TensorFlow's noise, tracebacks of the user's frames only."""

from __future__ import annotations

import os
import re
import time
import traceback
from collections.abc import Sequence

from cs_input_analyzer.pipeline.graph import is_library
from cs_input_analyzer.worker.journal import JournalWriter

# A message may hold a whole tensor.
MESSAGE_LIMIT = 4000
TRACEBACK_LIMIT = 8000
# Looking for a file that has changed takes at most so long.
CHANGED_FILES_S = 1.0

# TensorFlow puts this before the message of an error inside a tf.function, and the sampling loop is one.
_LOOP_FRAMES = re.compile(
    r"\AGraph execution error:\s+(?:Detected at node [^\n]*\n(?:<stack traces unavailable>\n|\s*File [^\n]*\n|\s*\n)*)+"
)


def report_failure(journal: JournalWriter, stage: str, error: BaseException) -> None:
    """Writes to the journal what the user's code, or ours, raised at a stage of the worker's life."""
    journal.event(
        "failed",
        stage=stage,
        kind=type(error).__name__,
        message=plain_message(error)[:MESSAGE_LIMIT],
        details=user_traceback(error)[-TRACEBACK_LIMIT:],
    )


def named_message(error: BaseException, limit: int | None = MESSAGE_LIMIT) -> str:
    """The type of the error and its plain message, at most `limit` characters."""
    return f"{type(error).__name__}: {plain_message(error)}"[:limit]


def element_error(error: BaseException, files: Sequence[tuple[str, int]]) -> str:
    """The error of an element without the frames of our own loop, and the file (paths and sizes) that changed while it was read."""
    return (_LOOP_FRAMES.sub("", plain_message(error)).strip() + _changed_file(files))[:MESSAGE_LIMIT]


def user_traceback(error: BaseException) -> str:
    """The traceback of `error` without our frames and TensorFlow's; empty when nothing of the user's is in it. An error in a
    Python function of the pipeline reaches us as TensorFlow's; the function's own traceback is in its text."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_library(frame.filename)]
    shown = [*traceback.format_list(frames), *_frames_in(str(error))]
    if not shown and not isinstance(error, SyntaxError):
        return ""
    last = traceback.format_exception_only(error) if isinstance(error, SyntaxError) else [named_message(error, None), "\n"]
    return "".join(["Traceback (most recent call last):\n", *shown, *last])


def plain_message(error: BaseException) -> str:
    """What `error` says in its own words: without TensorFlow's names of nodes, and the traceback that its text may hold."""
    text = str(getattr(error, "message", None) or error)
    for pattern in _TENSORFLOWS_NOISE:
        text = pattern.sub("", text)
    if text.startswith("in user code:"):  # AutoGraph's: the traceback, then what was raised
        text = text.rstrip().rpartition("\n")[2].strip().removeprefix(f"{type(error).__name__}: ")
    return text.strip() or type(error).__name__


# Node names before and after a message, and the traceback of a Python function within it.
_TENSORFLOWS_NOISE = (
    re.compile(r"\nTraceback \(most recent call last\):.*", re.DOTALL),
    re.compile(r"\s*\[\[\{\{node .*", re.DOTALL),
    re.compile(r"\{\{\w+ [^}]*\}\}\s*"),
    re.compile(r"\s*\[Op:\w+\].*", re.DOTALL),
)
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+), in ([^\n*]+?)[ *]*\n +([^\n]+)\n', re.MULTILINE)


def _frames_in(text: str) -> list[str]:
    """The user's frames of a traceback that a message carries, written as Python writes them."""
    return [
        f'  File "{path}", line {line}, in {name}\n    {code}\n'
        for path, line, name, code in _FRAME.findall(text)
        if not is_library(path)
    ]


def _changed_file(files: Sequence[tuple[str, int]]) -> str:
    """The first file that is gone, or of another size than when the pipeline was built; empty where there is none."""
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
