"""A line of the user's file -> the statement it is part of, by Python's own syntax tree, and the rules that a comment there
switches off."""

from __future__ import annotations

import ast
import functools
import io
import linecache
import os
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from typing import Any

# A chain of twenty calls fits; the rest of a longer statement is cut off.
LONGEST_CODE = 2000
# `# csi: ignore` or `# csi: ignore=CSI103, CSI2`, also behind another comment.
_COMMENT = re.compile(r"#\s*csi:\s*ignore\b(?:\s*=\s*(?P<codes>[A-Za-z]\w*(?:\s*,\s*[A-Za-z]\w*)*))?", re.IGNORECASE)
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
EVERY_RULE = "CSI"
_BLOCKS = ("body", "orelse", "finalbody")
_PARTS_OF_NO_HEAD = (*_BLOCKS, "handlers", "cases", "decorator_list")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a file, as written with the indentation of its first line; of a compound one (`for`, `with`) the head alone.
    `begin`, `end`: characters of the file; `ignored`: codes of rules, or prefixes of them."""

    code: str
    begin: int
    end: int
    first_line: int
    ignored: tuple[str, ...] = ()


def code_at(source: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The code of a statement (cut where it is very long), by `path:line`, and the rules ignored there; (None, ()) without."""
    path, _, line = (source or "").rpartition(":")
    if not path or not line.isdigit():
        return None, ()
    text = "".join(linecache.getlines(path))
    found = find_statement(text, int(line))
    if found is None:
        return None, ()
    if len(found.code) <= LONGEST_CODE:
        return found.code, found.ignored
    return f"{found.code[: LONGEST_CODE - 1]}…", found.ignored


def find_statement(text: str, line: int) -> Statement | None:
    """The innermost statement of a Python file on a line (several, `a = 1; b = 2`, are one); None where there is none, or
    the file does not parse."""
    file = _read(text)
    found = _innermost(file.statements, line)
    if not found:
        return None
    first, last = found[0], found[-1]
    begin = file.offset(first.lineno, first.col_offset)
    end = _end_of(text, file, last)
    indent = file.starts[first.lineno - 1]
    begin = indent if not text[indent:begin].strip() else begin
    return Statement(
        code=text[begin:end],
        begin=begin,
        end=end,
        first_line=first.lineno,
        ignored=file.ignored_on(first.lineno, text.count("\n", 0, end) + 1),
    )


@dataclass(frozen=True, slots=True)
class _File:
    """A parsed file: its lines, where each starts, and its comments by line where any of them speaks to us."""

    lines: tuple[str, ...]
    starts: tuple[int, ...]
    statements: tuple[ast.stmt, ...]
    comments: dict[int, str]

    def offset(self, line: int, column: int) -> int:
        """Characters before a place that the syntax tree names by line and UTF-8 column."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode(errors="ignore"))

    def ignored_on(self, first: int, last: int) -> tuple[str, ...]:
        found: list[str] = []
        for line in range(first, last + 1):
            for match in _COMMENT.finditer(self.comments.get(line, "")):
                found += re.findall(r"\w+", match["codes"].upper()) if match["codes"] else [EVERY_RULE]
        return tuple(dict.fromkeys(found))


@functools.lru_cache(maxsize=16)
def _read(text: str) -> _File:
    lines = tuple(re.findall(r"[^\n]*\n|[^\n]+", text))
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    try:
        statements = tuple(ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a file that changed since it was imported
        statements = ()
    return _File(lines, tuple(starts), statements, dict(_comments(text)) if _COMMENT.search(text) else {})


def _comments(text: str) -> Iterator[tuple[int, str]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):  # what was found before stands
        return


def _innermost(statements: Sequence[ast.stmt], line: int) -> list[ast.stmt]:
    """The statements on a line that hold no other one on it; more than one only where semicolons divide them."""
    found = [statement for statement in statements if statement.lineno <= line <= (statement.end_lineno or statement.lineno)]
    for statement in found:
        for inner in _blocks_of(statement):
            if deeper := _innermost(inner, line):
                return deeper
    return found


def _blocks_of(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in _BLOCKS:
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _end_of(text: str, file: _File, statement: ast.stmt) -> int:
    """Where a statement ends; a compound one with the colon before its first block."""
    if not any(_blocks_of(statement)):
        return file.offset(statement.end_lineno or statement.lineno, statement.end_col_offset or 0)
    head = [node for name, part in ast.iter_fields(statement) if name not in _PARTS_OF_NO_HEAD for node in _nodes_of(part)]
    ends = [file.offset(node.end_lineno, node.end_col_offset) for node in head if getattr(node, "end_lineno", None)]
    return text.index(":", max(ends, default=file.offset(statement.lineno, statement.col_offset))) + 1


def _nodes_of(part: object) -> Iterator[Any]:
    for node in part if isinstance(part, list) else [part]:
        if isinstance(node, ast.AST):
            yield from ast.walk(node)


def is_installed(filename: str) -> bool:
    """Whether it is of a package that was installed: below `site-packages`, or into another folder of `sys.path` (pip's `--target`,
    a module of a cluster), where the installer left a record of it."""
    if _INSTALLED.search(filename):
        return True
    above = (folder for folder in sys.path if folder and filename.startswith(folder.rstrip(os.sep) + os.sep))
    return any(filename[len(folder.rstrip(os.sep)) + 1 :].partition(os.sep)[0] in _names_installed(folder) for folder in above)


@functools.cache
def _names_installed(folder: str) -> frozenset[str]:
    """What installers recorded in a folder: its packages, and modules that are one file."""
    lines = (line for found in distributions(path=[folder]) for line in (found.read_text("RECORD") or "").splitlines())
    return frozenset(re.split("[/,]", line, maxsplit=1)[0] for line in lines)
