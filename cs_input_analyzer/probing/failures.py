"""What to tell the user where no launch gave a single rate."""

from __future__ import annotations

import re

from cs_input_analyzer.errors import InputFunctionError, LaunchError, TargetError, UsageError
from cs_input_analyzer.launch import WorkerFailure

__all__ = ["failure_of"]

_NO_FILE = ("No files matched", "No such file or directory", "does not exist")


def failure_of(failure: WorkerFailure, max_seconds: float) -> TargetError | UsageError | InputFunctionError | LaunchError:
    """What to tell the user when no worker gave a single rate."""
    if failure.stage == "load":
        return TargetError(failure.message)
    if failure.stage in ("journal", "engine"):
        return LaunchError(failure.message)
    if failure.stage == "import":
        if failure.kind == "SystemExit":
            return TargetError(
                "importing the target ended the interpreter (sys.exit): guard its script part by if __name__ == '__main__'"
            )
        return TargetError(f"the target cannot be imported: {failure.kind}: {failure.message}{_where(failure.details)}")
    if failure.kind in ("NotFoundError", "FileNotFoundError", "InvalidArgumentError") and any(
        t in failure.message for t in _NO_FILE
    ):
        pattern = re.search(r"No files matched pattern: ([^'\n]+)", failure.message)
        what = pattern.group(1) if pattern else failure.message.splitlines()[0]
        return UsageError(f"no file matches: {what} (relative paths are taken from the current folder)")
    if failure.kind == "Empty":
        return InputFunctionError(
            "the dataset gave no element: its file list is empty, a filter drops everything, or a shard has no file"
        )
    if failure.kind == "SystemExit":
        return InputFunctionError("the input function called sys.exit instead of returning a dataset", failure.details)
    if failure.stage == "hang":
        return InputFunctionError(
            f"the input function hung: a worker was {failure.message}; --max-seconds is {max_seconds:g}, more buys more patience",
            failure.details,
        )
    if failure.stage == "exit":
        if failure.kind == "importing TensorFlow":
            return LaunchError(f"a worker did not come up: {failure.message}\n{failure.details}".rstrip())
        return InputFunctionError(f"the worker was lost: {failure.message}", failure.details)
    return InputFunctionError(f"the input function failed: {failure.kind}: {failure.message}", failure.details)


def _where(details: str) -> str:
    """` (file.py:12)`: the last line of the traceback that is the user's."""
    lines = [line.strip() for line in details.splitlines() if line.strip().startswith('File "')]
    if not lines:
        return ""
    path, _, rest = lines[-1].removeprefix('File "').partition('", line ')
    return f" ({path}:{rest.split(',')[0]})"
