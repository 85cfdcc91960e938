"""Extract the plain words of an error of TensorFlow, or of the user's functions inside it."""

from __future__ import annotations

import re

# A message may hold a whole tensor.
MESSAGE_LIMIT = 4000
_TRACEBACK = "\nTraceback (most recent call last):"
# Node names before and after a message, the op and iterator before it, the traceback of a Python function within it, and a name
# that a batch of Examples does not have.
_TENSORFLOWS_NOISE = (
    re.compile(r"Error in user-defined function passed to [^\n]{0,300}? transformation with iterator: \S+: "),
    re.compile(re.escape(_TRACEBACK) + ".*", re.DOTALL),
    re.compile(r"(?<!\s)\s*\[\[\{\{node .*", re.DOTALL),
    re.compile(r"\{\{\w+ [^}]*\}\}\s*"),
    re.compile(r"\bName: <unknown>, "),
    re.compile(r"(?<!\s)\s*\[Op:\w+\].*", re.DOTALL),
)


def named_message(error: BaseException, limit: int | None = MESSAGE_LIMIT) -> str:
    """Return the type of the error and its plain message, at most `limit` characters."""
    return with_type(type_of(error), plain_message(error))[:limit]


def type_of(error: BaseException) -> str:
    """Return the type of the error; empty if its message begins with the type of a Python error that TensorFlow wrapped."""
    is_wrapped = _TRACEBACK in str(error) and plain_message(error).partition(": ")[0].isidentifier()
    return "" if is_wrapped else type(error).__name__


def with_type(name: str, message: str) -> str:
    """Return a message behind the type of its error, which may be empty."""
    return f"{name}: {message}" if name else message


def plain_message(error: BaseException) -> str:
    """Return the words of `error` alone: without TensorFlow's names of nodes, and the traceback that its text may hold."""
    text = str(getattr(error, "message", None) or error)
    for pattern in _TENSORFLOWS_NOISE:
        text = pattern.sub("", text)
    if text.startswith("in user code:"):  # AutoGraph's: the traceback, then what was raised
        text = text.rstrip().rpartition("\n")[2].strip().removeprefix(f"{type(error).__name__}: ")
    return text.strip() or type(error).__name__
