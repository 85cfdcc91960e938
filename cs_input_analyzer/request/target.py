"""Check the target of a request, and give a function of Python to the workers."""

from __future__ import annotations

import contextlib
import functools
import os
import reprlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cs_input_analyzer.errors import TargetError, UsageError, check_text
from cs_input_analyzer.model.params import params_to_json
from cs_input_analyzer.tfdata import load
from cs_input_analyzer.worker import capture

Target = str | Callable[..., object]


def check_target(target: Any) -> None:
    """Raise TargetError unless this is a function that workers can be given, or the name of one in a file that exists."""
    if isinstance(target, str):
        check_text("the target", target, TargetError)
        with contextlib.suppress(FileNotFoundError):  # it was removed: who looks for files there says so
            check_text("the current folder", os.getcwd(), TargetError)
        if capture.is_script(target):
            capture.parse_script(target)
        else:
            load.parse_target(target)
    elif type(target).__module__.startswith("tensorflow"):
        raise TargetError(
            "the target is a TensorFlow object; pass the function that builds the dataset, so that workers can call it "
            "(of a dataset itself, csia.tuning(dataset) says what is slow in it)"
        )
    elif not callable(target):
        raise TargetError(
            f"the target is {reprlib.repr(target)}: pass the input function, or its name, path/file.py:function or "
            "package.module:function"
        )


def check_importable(target: str) -> None:
    """Raise TargetError for a target that workers cannot find by its name."""
    module, _, name = target.rpartition(":")
    if not capture.is_script(target) and (module == "__main__" or "<" in name):
        raise TargetError(
            f"this run is of {target}, a function handed over in Python, which no worker can import by that name; put the function "
            "into a file, analyze path/file.py:function, and validate the run of that"
        )
    check_target(target)


def script_words(target: Any) -> tuple[str, ...]:
    """Return the Python of the user's command that decides the execution mode; nothing for a function."""
    return (capture.parse_script(target).python,) if isinstance(target, str) and capture.is_script(target) else ()


def name_of(function: Callable[..., object]) -> str:
    """Return `package.module:function`, for a partial that of its function."""
    inner: Any = function.func if isinstance(function, functools.partial) else function
    return f"{inner.__module__}:{getattr(inner, '__qualname__', 'function')}"


def params_json_of(params: Mapping[str, Any] | None) -> str | None:
    """Return the params as JSON, or None without any. Raise UsageError for values that cannot reach the workers."""
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise UsageError(f"params={reprlib.repr(params)}: a dictionary is needed, as the input function gets it")
    try:
        return params_to_json(params)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"params must be plain values (numbers, texts, lists, mappings) to reach the workers: {error}") from None


def pickled_into(folder: Path, function: Callable[..., object]) -> Path:
    """Write the function, with the places of its modules, into a file for the workers. Return the file."""
    import cloudpickle

    try:
        content = cloudpickle.dumps((list(sys.path), cloudpickle.dumps(function)))
    except Exception as error:  # whatever the user's objects raise when they are pickled
        raise TargetError(
            f"the input function cannot travel to the workers: {type(error).__name__}: {error}. Define it in a module, and let it "
            "build datasets, tables and locks itself instead of capturing them"
        ) from None
    return load.write_pickled(content, folder)
