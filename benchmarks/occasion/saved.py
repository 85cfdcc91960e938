"""All occasions that were measured, in one compressed file: one occasion a line, in the order of time. Only ever appended to."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("occasions.jsonl.xz")


def saved(path: Path = DATA) -> list[dict[str, Any]]:
    """Return the occasions of a file; none if it is not there. Raise ValueError: a line is no JSON."""
    if not path.exists():
        return []
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def add(occasion: dict[str, Any], path: Path = DATA) -> None:
    """Append an occasion as a stream of its own: a compressed file may hold several."""
    with lzma.open(path, "at", encoding="utf-8") as file:
        file.write(json.dumps(occasion, separators=(",", ":")) + "\n")
