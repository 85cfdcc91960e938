"""Find the statement of a line in the user's file by Python's syntax tree, and the rules that a comment there switches off."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import re
import sys
from dataclasses import dataclass
from importlib.metadata import distributions

# A chain of twenty calls fits; the rest of a longer statement is cut off.
LONGEST_CODE = 2000
# `# csi: ignore` or `# csi: ignore=CSI103, CSI2`, also behind another comment.
_COMMENT = re.compile(r"#\s*csi:\s*ignore\b(?:\s*=\s*(?P<codes>[A-Za-z]\w*(?:\s*,\s*[A-Za-z]\w*)*))?", re.IGNORECASE)
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
EVERY_RULE = "CSI"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Hold the lines of a file with one statement; for a compound one (`for`, `with`) those of its head.

    Attributes:
        begin: position of their first character in the file.
        ignored: codes of rules, or prefixes of them.
    """

    code: str
    begin: int
    ignored: tuple[str, ...] = ()


def code_at(source: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the code of a statement (cut if very long), by `path:line`, and the rules ignored there; else (None, ())."""
    path, _, line = (source or "").rpartition(":")
    if not path or not line.isdigit():
        return None, ()
    found = find_statement("".join(linecache.getlines(path)), int(line))
    if found is None:
        return None, ()
    if len(found.code) <= LONGEST_CODE:
        return found.code, found.ignored
    return f"{found.code[: LONGEST_CODE - 1]}…", found.ignored


def find_statement(text: str, line: int) -> Statement | None:
    """Return the innermost statement of a Python file on a line; None if there is none, or the file does not parse."""
    found = [node for node in statements(text) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    if not found:
        return None
    innermost = found[-1]
    first, last = innermost.lineno, innermost.end_lineno or innermost.lineno
    inner = [node.lineno for node in ast.walk(innermost) if isinstance(node, ast.stmt) and node is not innermost]
    if inner:
        last = max(first, min(inner) - 1)
    lines = text.split("\n")
    code = "\n".join(lines[first - 1 : last])
    codes = [re.findall(r"\w+", match["codes"].upper()) if match["codes"] else [EVERY_RULE] for match in _COMMENT.finditer(code)]
    ignored = tuple(dict.fromkeys(one for several in codes for one in several))
    return Statement(code=code, begin=sum(len(one) + 1 for one in lines[: first - 1]), ignored=ignored)


@functools.lru_cache(maxsize=16)
def statements(text: str) -> tuple[ast.stmt, ...]:
    """Return all statements, each after those that hold it."""
    try:
        return tuple(node for node in ast.walk(_parsed(text)) if isinstance(node, ast.stmt))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a file that changed since it was imported
        return ()


def _parsed(text: str) -> ast.Module:
    """Return the syntax tree of a Python file. Try again if another thread parses, too, as Python 3.11 does for a traceback."""
    try:
        return ast.parse(text)
    except SystemError:
        return ast.parse(text)


def is_installed(filename: str) -> bool:
    """Return whether a file belongs to an installed package.

    It is below `site-packages`, or in another folder of `sys.path` with an installer's record (pip's `--target`, a module of a
    cluster).
    """
    if _INSTALLED.search(filename):
        return True
    above = (folder for folder in sys.path if folder and filename.startswith(folder.rstrip(os.sep) + os.sep))
    return any(filename[len(folder.rstrip(os.sep)) + 1 :].partition(os.sep)[0] in _names_installed(folder) for folder in above)


@functools.cache
def _names_installed(folder: str) -> frozenset[str]:
    """Return the names that installers recorded in a folder: packages, and modules of one file."""
    lines = (line for found in distributions(path=[folder]) for line in (found.read_text("RECORD") or "").splitlines())
    return frozenset(re.split("[/,]", line, maxsplit=1)[0] for line in lines)
