"""Slurm's notation of node lists, `n[1-3,07],gpu2`, to host names."""

from __future__ import annotations

import math
import re
from itertools import product

from cs_input_analyzer.errors import UsageError

MOST_HOSTS = 1_000_000


def expand_nodelist(text: str) -> tuple[str, ...]:
    """Host names from Slurm's notation: `n[1-3,07],gpu2` -> n1 n2 n3 n07 gpu2; several brackets multiply, the last fastest.

    Raises:
        UsageError: not a node list.
    """
    hosts: list[str] = []
    for item in _items(text.strip()):
        pieces = re.split(r"\[([^\[\]]*)\]", item)
        if not item or any(char in "[]" or char.isspace() for piece in pieces[::2] for char in piece):
            raise UsageError(f"not a Slurm node list: {text!r}")
        choices = [_expand_ranges(piece, text) if index % 2 else [piece] for index, piece in enumerate(pieces)]
        if len(hosts) + math.prod(len(choice) for choice in choices) > MOST_HOSTS:
            raise UsageError(f"a Slurm node list of more than {MOST_HOSTS:,} nodes: {text!r}")
        hosts += ["".join(parts) for parts in product(*choices)]
    return tuple(hosts)


def _items(text: str) -> list[str]:
    """Return the parts between commas that are outside of brackets."""
    found, begin, is_inside = [], 0, False
    for match in re.finditer(r"[\[\],]", text):
        if match[0] != ",":
            is_inside = match[0] == "["
        elif not is_inside:
            found.append(text[begin : match.start()])
            begin = match.end()
    return [*found, text[begin:]]


def _expand_ranges(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for part in inside.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if match is None:
            raise UsageError(f"not a Slurm node list: {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MOST_HOSTS:
            raise UsageError(f"not a range of nodes: {part!r} in {text!r}")
        numbers += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return numbers
