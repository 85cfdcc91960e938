"""Everything that can go wrong in a way the user should read about.

One base class; the children are named for what the user did or what failed under them. A message says what happened, where,
and what to do next. Only `cli` catches these; `exit_code` is what the command then ends with (the table is in docs/interfaces.md).
"""

from __future__ import annotations


class AnalyzerError(Exception):
    """Base of all expected failures. `exit_code` is the status of the command that met it."""

    exit_code = 70


class UsageError(AnalyzerError):
    """An option, a file or a number that the user can put right (exit 2)."""

    exit_code = 2


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
    """Ctrl-C or SIGTERM (exit 130). `analysis` holds what was measured before it; None when nothing was."""

    exit_code = 130
    analysis: object | None = None
