"""Everything that can go wrong in a way the user should read about.

One base class; the children are named for what the user did or what failed under them. A message says what happened, where,
and what to do next. Only `cli` catches these; `exit_code` is what the command then ends with (the table is in docs/interfaces.md).
"""

from __future__ import annotations

import numbers
import os
import reprlib
from types import TracebackType
from typing import Any, Literal, get_args, get_origin


class AnalyzerError(Exception):
    """Base of all expected failures. `exit_code` is the status of the command that met it."""

    exit_code = 70


class UsageError(AnalyzerError):
    """An option, a file or a number that the user can correct (exit 2).

    Attributes:
        lines: one sentence for each mistake, if several were found together; empty if the message is of one.
    """

    exit_code = 2
    lines: tuple[str, ...] = ()


class NotIsolatedError(UsageError):
    """Foreign code would run on the user's own files, and the user has not said that it may (exit 2)."""


class TargetError(UsageError):
    """The target cannot be found, imported or called (exit 2)."""


class InputFunctionError(AnalyzerError):
    """The user's input function raised, hung, exited or gave no element (exit 3).

    `details` is shown under the message: the traceback trimmed to the user's frames, or the tail of what the worker printed.
    """

    exit_code = 3

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class LaunchError(AnalyzerError):
    """A launcher, the cluster or the storage failed under us (exit 4)."""

    exit_code = 4


class Interrupted(AnalyzerError):
    """Ctrl-C or SIGTERM (exit 130). `analysis` holds the measurements before it; None if there are none."""

    exit_code = 130
    analysis: object | None = None


class Mistakes:
    """The usage errors of one call, so that the user reads all of them at once: `with mistakes:` notes one and goes on after it."""

    def __init__(self) -> None:
        self._found: list[UsageError] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, UsageError):
            self._found.append(error)
        return isinstance(error, UsageError)

    def note(self, message: str) -> None:
        """Add a mistake."""
        self._found.append(UsageError(message))

    def raise_any(self) -> None:
        """Raise the only one as it is, and several as one UsageError that has a line for each."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            lines = tuple(dict.fromkeys(line for error in self._found for line in (error.lines or (str(error),))))
            together = UsageError("\n".join(lines))
            together.lines = lines
            raise together


def check_text(what: str, name: str, kind: type[UsageError] = UsageError) -> None:
    """Raise UsageError, or its `kind`, for a name that is not UTF-8: no saved run and no order to a worker can hold it.

    Python has half a surrogate pair for each byte of such a name.
    """
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise kind(f"{what} {name!a}: this name is not UTF-8, and no report can hold it; rename the file or the folder")


def typed(name: str, value: Any, hint: Any) -> Any:
    """Return the value if it is of that type. Raise UsageError if it is not.

    A path becomes its text, and a number of numpy's becomes one of Python's.
    """
    import msgspec

    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, numbers.Number) and not isinstance(value, (bool, int, float)):
        value = int(value) if isinstance(value, numbers.Integral) else float(value) if isinstance(value, numbers.Real) else value
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        words = [word for part in (hint, *get_args(hint)) if get_origin(part) is Literal for word in get_args(part)]
        expected = f"expected {' or '.join(map(repr, words))}" if words else str(error).replace(" | null", " or None")
        raise UsageError(f"{name}={reprlib.repr(value)}: {expected[:1].lower()}{expected[1:]}") from None
