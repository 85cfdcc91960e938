"""The error that the user reads if no launch gave a rate."""

from __future__ import annotations

import re

from cs_input_analyzer.engines import WorkerFailure
from cs_input_analyzer.errors import (
    AnalyzerError,
    InputFunctionError,
    LaunchError,
    NotIsolatedError,
    TargetError,
    UsageError,
)
from cs_input_analyzer.model.evidence import is_endless
from cs_input_analyzer.records import Options, PipelineGraph
from cs_input_analyzer.tfdata.messages import with_type
from cs_input_analyzer.tfdata.op_kinds import kinds_with
from cs_input_analyzer.worker.capture import missing_advice
from cs_input_analyzer.worker.failures import FAULT, REFUSED, VERSION, named_place
from cs_input_analyzer.worker.isolation import NOT_ISOLATED
from cs_input_analyzer.worker.summary import IMPORTING

_PARAMS = (
    "give it by --params (on the command line also by `--set KEY=VALUE`), or analyze the script that trains, "
    "`cs_input_analyzer python run.py ARGS`: scripts add to the params before they use them"
)
_NO_PARAMS = f"; the input function was called without params. Where it is a key of them, {_PARAMS}"
_LACKING_PARAMS = f"; where it is a key of the params, {_PARAMS}"
# What TensorFlow 2.21 says of a store: the first of a scheme that its wheel has no file system for, the second of `gs://`.
_NO_SCHEME = re.compile(r"File system scheme '([^']+)' not implemented(?: \(file: '([^']*)'\))?")
_NOT_READ = re.compile(
    r"HTTP response code 40[13]|Anonymous caller|does not have storage\.|PERMISSION_DENIED|UNAUTHENTICATED|libcurl code \d+[^\n]*"
)
_STORED = re.compile(r"gs://[^\s'\"]+")
# As TensorFlow writes it of a pattern and of a path, and as Python does.
_PATH = re.compile(
    r"No files matched pattern: (?P<first>[^'\n]+)|\A(?P<path>[^;\n]+); No such file or directory"
    r"|\[Errno 2\] No such file or directory: '(?P<last>[^'\n]+)'"
)
_NO_FILE = ("No files matched", "No such file or directory", "does not exist")


def failure_of(
    failure: WorkerFailure, options: Options, *, is_script: bool = False, pipeline: PipelineGraph | None = None
) -> AnalyzerError:
    """Return the error for the user when no worker gave a single rate.

    Args:
        is_script: of a script, which makes its params itself.
        pipeline: None if it was not built.
    """
    if failure.stage == "load":
        return TargetError(failure.message)
    if failure.stage == NOT_ISOLATED:
        return NotIsolatedError(failure.message)
    if failure.stage in (VERSION, REFUSED):
        return UsageError(failure.message)
    if failure.stage == FAULT:
        return AnalyzerError(
            f"a fault of cs_input_analyzer, not of the input function: {failure.message}\n{failure.details}".rstrip()
        )
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
        return UsageError(f"{failure.where}{_no_file(failure.message)}")
    if (about_store := _of_store(failure.message)) is not None:
        return UsageError(about_store)
    if failure.kind == "Empty":
        return InputFunctionError(failure.message)
    if failure.kind == "TooFew":
        return InputFunctionError(
            "the dataset ended after too few elements for a rate, and does not begin anew: it needs more data"
        )
    if failure.kind == "SystemExit":
        return InputFunctionError("the input function called sys.exit instead of returning a dataset", failure.details)
    if failure.stage == "hang":
        return _hung(failure, options, pipeline)
    if failure.stage == "exit":
        if failure.kind == IMPORTING:
            return LaunchError(f"a worker did not come up: {failure.message}\n{failure.details}".rstrip())
        return InputFunctionError(f"the worker was lost: {failure.message}", failure.details)
    lacks_key = failure.kind == "KeyError" and failure.stage == "build" and not is_script
    of_params = _NO_PARAMS if options.params_json is None else _LACKING_PARAMS
    advice = of_params if lacks_key else missing_advice(failure.message)
    return InputFunctionError(
        f"the input function failed: {failure.where}{with_type(failure.kind, failure.message)}{advice}", failure.details
    )


def _hung(failure: WorkerFailure, options: Options, pipeline: PipelineGraph | None) -> AnalyzerError:
    """Return the error of a worker that was ended by its deadline."""
    name, seconds = (
        ("--start-timeout", options.start_timeout_s) if failure.kind == "start" else ("--max-seconds", options.max_seconds)
    )
    message = f"a worker was {failure.message}; {name} is {seconds:g}, a larger one waits longer"
    if IMPORTING in failure.message:
        return LaunchError(f"{message}\n{failure.details}".rstrip())
    told = f"the input function hung, or needs more time: {message}{_endless_filter(pipeline)}"
    return InputFunctionError(told, failure.details)


def _no_file(message: str) -> str:
    """Return a sentence about the path that is not there, or the pattern that matches nothing."""
    named = _PATH.search(message)
    path = (named["first"] or named["path"] or named["last"]) if named else message.splitlines()[0]
    relative = "" if path.startswith("/") else " (relative paths are taken from the current folder)"
    return f"{'no file matches:' if re.search(r'[*?[]', path) or not named else 'there is no file'} {path}{relative}"


def _endless_filter(pipeline: PipelineGraph | None) -> str:
    """Return a remark on the filters of an endless pipeline, whose first batch never came; empty without one."""
    if pipeline is None or not is_endless(pipeline):
        return ""
    filters = [named_place(op.name, op.source) for op in pipeline.ops if op.kind in kinds_with("filter")]
    return f". If no element passes {' or '.join(filters)}, the endless repeat never gives a batch" if filters else ""


def _where(details: str) -> str:
    """` (file.py:12)`: the last line of the traceback that is the user's."""
    lines = [line.strip() for line in details.splitlines() if line.strip().startswith('File "')]
    if not lines:
        return ""
    path, _, rest = lines[-1].removeprefix('File "').partition('", line ')
    return f" ({path}:{rest.split(',')[0]})"


def _of_store(message: str) -> str | None:
    """Return the remedy if the data are in an object store that could not be read.

    Return None if the cause is something else.
    """
    if (scheme := _NO_SCHEME.search(message)) is not None:
        name = scheme.group(2) or f"{scheme.group(1)}://…"
        return (
            f"this TensorFlow cannot read {name}: it reads mounted file systems and gs://. Mount the store, copy the data to a "
            "file system, install a file system for it (tensorflow-io), or read it in a generator with fsspec"
        )
    path, said = _STORED.search(message), _NOT_READ.search(message)
    if path is None or said is None:
        return None
    return (
        f"this host cannot read {path.group()}: {said.group()}. Where it lacks credentials, give GOOGLE_APPLICATION_CREDENTIALS "
        "the path of a service account's key (on every node of the plan), or run `gcloud auth application-default login`"
    )
