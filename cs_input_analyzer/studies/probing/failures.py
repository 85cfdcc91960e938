"""The error that the user reads where no launch gave a single rate."""

from __future__ import annotations

import re

from cs_input_analyzer.engines import WorkerFailure
from cs_input_analyzer.errors import InputFunctionError, LaunchError, TargetError, UsageError
from cs_input_analyzer.records import Options
from cs_input_analyzer.worker.capture import missing_advice
from cs_input_analyzer.worker.summary import IMPORTING

__all__ = ["failure_of"]

_PARAMS = (
    "; where it is a key of the params, give it by --set KEY=VALUE, or analyze the script that trains, "
    "cs_input_analyzer python run.py ARGS: scripts add to the params before they use them"
)
_NO_FILE = ("No files matched", "No such file or directory", "does not exist")


def failure_of(
    failure: WorkerFailure, options: Options, *, is_script: bool = False
) -> TargetError | UsageError | InputFunctionError | LaunchError:
    """The error for the user when no worker gave a single rate; `is_script`: of a script, which makes its params itself."""
    if failure.stage == "load":
        return TargetError(failure.message)
    if failure.stage in ("journal", "engine"):
        return LaunchError(failure.message)
    if failure.stage == "import":
        if failure.kind == "SystemExit":
            return TargetError(
                "importing the target ended the interpreter (sys.exit): guard its script part by if __name__ == '__main__'"
            )
        what = f"the target cannot be imported: {failure.kind}: {failure.message}{_where(failure.details)}"
        return TargetError(f"{what}{missing_advice(failure.message)}")
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
        name, seconds = (
            ("--start-timeout", options.start_timeout_s) if failure.kind == "start" else ("--max-seconds", options.max_seconds)
        )
        message = f"a worker was {failure.message}; {name} is {seconds:g}, more buys more patience"
        if IMPORTING in failure.message:
            return LaunchError(f"{message}\n{failure.details}".rstrip())
        return InputFunctionError(f"the input function hung: {message}", failure.details)
    if failure.stage == "exit":
        if failure.kind == IMPORTING:
            return LaunchError(f"a worker did not come up: {failure.message}\n{failure.details}".rstrip())
        return InputFunctionError(f"the worker was lost: {failure.message}", failure.details)
    lacks_key = failure.kind == "KeyError" and failure.stage == "build" and not is_script
    advice = _PARAMS if lacks_key else missing_advice(failure.message)
    return InputFunctionError(f"the input function failed: {failure.kind}: {failure.message}{advice}", failure.details)


def _where(details: str) -> str:
    """` (file.py:12)`: the last line of the traceback that is the user's."""
    lines = [line.strip() for line in details.splitlines() if line.strip().startswith('File "')]
    if not lines:
        return ""
    path, _, rest = lines[-1].removeprefix('File "').partition('", line ')
    return f" ({path}:{rest.split(',')[0]})"
