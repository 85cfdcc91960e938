"""What a caller of Python gives, as the type that is needed: no text for a number, no number for a truth."""

from __future__ import annotations

import numbers
import os
import reprlib
from typing import Any

from cs_input_analyzer.errors import UsageError

__all__ = ["typed"]


def typed(name: str, value: Any, hint: Any) -> Any:
    """`value` where it is of that type; a path becomes its text, a number of numpy's one of Python's. Raises UsageError."""
    from pydantic import TypeAdapter, ValidationError

    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, numbers.Number) and not isinstance(value, (bool, int, float)):
        value = int(value) if isinstance(value, numbers.Integral) else float(value) if isinstance(value, numbers.Real) else value
    try:
        return TypeAdapter(hint).validate_python(value, strict=True)
    except ValidationError as error:
        message = error.errors(include_url=False, include_context=False)[0]["msg"]
        raise UsageError(f"{name}={reprlib.repr(value)}: {message[:1].lower()}{message[1:]}") from None
