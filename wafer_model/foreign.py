"""Read files that others wrote, in bounded time and memory."""

from __future__ import annotations

import math
from pathlib import Path
from reprlib import repr as short
from typing import Any

from wafer_model.errors import WaferModelError

MOST_BYTES = 1 << 18
"""The largest document that is read whole; real runs and networks take a tenth of it. Dense YAML of this size takes two seconds."""
MOST_LEVELS = 64
MOST_VALUES = 500_000
LONGEST_NUMBER = 4300


def text_of(path: Path, *, most_bytes: int = MOST_BYTES, is_cut: bool = False) -> str:
    """Return the UTF-8 text of a file; `is_cut`: of a longer one its beginning, up to the last whole line.

    Raises:
        OSError: it cannot be read. ValueError: it is longer, or not UTF-8.
    """
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        if not is_cut:
            raise ValueError(f"it has more than {most_bytes:,} bytes")
        content = content[: content.rfind(b"\n") + 1]
    return content.decode("utf-8")


def yaml_of(text: str) -> Any:
    """Return the values of YAML.

    Raises:
        ValueError: no YAML, nested too deeply, or aliases that repeat each other; the text is one line.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where PyYAML was built so, a tenth of the time
    levels = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if levels > MOST_LEVELS:
                raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
        reader = loader(text)
        root = reader.get_single_node()
        if root is not None and _values(root, {}) > MOST_VALUES:
            raise ValueError("an alias repeats too much, or contains itself, or a number has thousands of digits")
        return None if root is None else reader.construct_document(root)
    except (yaml.YAMLError, RecursionError) as error:
        for name in ("context_mark", "problem_mark"):
            if getattr(getattr(error, name, None), "buffer", None) is not None:
                getattr(error, name).buffer = None  # else the message quotes the line, which may hold a secret
        raise ValueError(" ".join(str(error).split())) from None
    except (AttributeError, KeyError, TypeError, OverflowError):  # of the reader, for a tag that does not fit its value
        raise ValueError("a value does not fit its tag") from None


def _values(node: Any, known: dict[int, int]) -> int:
    """Return how many values a node has with its aliases written out; more than MOST_VALUES if one contains itself."""
    if isinstance(node.value, str):  # a number of many digits, or of many parts by sixty, takes the square of its length
        is_number = node.tag.endswith((":int", ":float")) and len(node.value) > LONGEST_NUMBER
        return MOST_VALUES + 1 if is_number else 1
    if id(node) not in known:
        known[id(node)] = MOST_VALUES + 1  # until it is known
        parts = (part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,)))
        known[id(node)] = 1 + sum(_values(part, known) for part in parts)
    return known[id(node)]


def number_of(value: object, where: str) -> float:
    """Return a number that is finite and not negative, also of its text.

    Raises:
        WaferModelError: it is no such number (names the place).
    """
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):  # no digits, or digits without an end
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise WaferModelError(f"{where} must be a number that is not negative, got {short(value)}")
    return number
