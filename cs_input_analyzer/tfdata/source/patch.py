"""Make a patch of the user's files from changes of statements.

Changes of one statement are combined if they change different parts of it. Changes that cannot be combined, or whose statement has
moved, are left to be done by hand.
"""

from __future__ import annotations

import ast
import difflib
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Generic, Protocol, TypeVar

from cs_input_analyzer.tfdata.source.statements import find_statement

_TOKENS = re.compile(r"\w+|\s+|.", re.DOTALL)
CONTEXT_LINES = 3
NO_CALL = "no single call of your code makes this change"
MEETS = "it changes the same part of the statement as another fix"


class Change(Protocol):
    """Describe a statement at `source` (`path:line`) and its new text, as a finding or a `SourceChange` holds it."""

    @property
    def source(self) -> str | None:
        """Return the place of the statement."""

    @property
    def before(self) -> str | None:
        """Return the present text."""

    @property
    def after(self) -> str | None:
        """Return the new text."""


_Change = TypeVar("_Change", bound=Change)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """Hold one file: its present text and its new text."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePatch(Generic[_Change]):
    """Hold a patch. `applied`: changes that are in `files`. `by_hand`: the others, each with the reason."""

    files: tuple[FilePatch, ...]
    applied: tuple[_Change, ...]
    by_hand: tuple[tuple[_Change, str], ...]


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    """Replace characters `begin` to `end` of a file by `text`."""

    begin: int
    end: int
    text: str


def make_patch(changes: Sequence[_Change], texts: Mapping[str, str]) -> SourcePatch[_Change]:
    """Put all changes into the files. `texts`: path, as in `Finding.source`, to text; a file may be missing.

    Lines keep their kind of newlines. A file that would be no valid Python is not changed.
    """
    spans: dict[str, list[_Span]] = {}
    applied: list[_Change] = []
    by_hand: list[tuple[_Change, str]] = []
    for change in changes:
        path, found = _spans_of(change, texts, spans)
        if isinstance(found, str):
            by_hand.append((change, found))
        else:
            spans.setdefault(path, []).extend(span for span in found if span not in spans.get(path, []))
            applied.append(change)
    files = []
    for path, wanted in spans.items():
        after = texts[path]
        for span in sorted(wanted, reverse=True):
            after = _replaced(after, span)
        try:
            ast.parse(_plain(after))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            broken = [change for change in applied if _place(change)[0] == path]
            applied = [change for change in applied if change not in broken]
            by_hand += [(change, "put together with the other fixes it is no Python any more") for change in broken]
            continue
        files.append(FilePatch(path=path, before=texts[path], after=after))
    return SourcePatch(files=tuple(files), applied=tuple(applied), by_hand=tuple(by_hand))


def _replaced(text: str, span: _Span) -> str:
    """Replace a span, which counts each newline as one character. New lines end like the line that they stand in."""
    ends = [match.start() - count for count, match in enumerate(re.finditer("\r\n", text))]
    begin, end = (place + bisect_left(ends, place) for place in (span.begin, span.end))
    newlines = re.findall(r"\r?\n", text[begin:]) or re.findall(r"\r?\n", text)[-1:]  # a last line may have none
    added = span.text.replace("\n", newlines[0]) if newlines else span.text
    return text[:begin] + added + text[end:]


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _spans_of(change: Change, texts: Mapping[str, str], taken: Mapping[str, list[_Span]]) -> tuple[str, list[_Span] | str]:
    """Return the file of a change and its spans there, or the reason why there are none."""
    path, line = _place(change)
    if change.before is None or change.after is None:
        return path, NO_CALL
    if path not in texts or line is None:
        return path, "your file cannot be read as UTF-8 text"
    statement = find_statement(_plain(texts[path]), line)
    if statement is None or statement.code != change.before:
        return path, "that line is not what it was when it was measured"
    begin = statement.begin
    found = [_Span(begin + span.begin, begin + span.end, span.text) for span in _differences(change.before, change.after)]
    others = [(one, other) for one in found for other in taken.get(path, []) if one != other]
    if any(one.begin <= other.end and other.begin <= one.end for one, other in others):
        return path, MEETS
    return path, found


def _place(change: Change) -> tuple[str, int | None]:
    path, _, line = (change.source or "").rpartition(":")
    return path, int(line) if line.isdigit() else None


def _differences(before: str, after: str) -> Iterator[_Span]:
    """Yield the differences word by word: fixes of one statement conflict only if they change the same words."""
    old, new = _TOKENS.findall(before), _TOKENS.findall(after)
    for tag, begin, end, new_begin, new_end in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if tag != "equal":
            start = len("".join(old[:begin]))
            yield _Span(start, start + len("".join(old[begin:end])), "".join(new[new_begin:new_end]))


def unified_diff(files: Sequence[FilePatch], root: PurePath) -> str:
    """Return the patch as text, for `patch -p0` or `git apply` in `root`. Raise ValueError for a file outside of it."""
    lines: list[str] = []
    for file in files:
        name = f"./{PurePath(file.path).relative_to(root).as_posix()}"
        name = f"{name}\t" if " " in name else name  # which ends it
        old, new = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (file.before, file.after))
        lines += difflib.unified_diff(old, new, name, name, n=CONTEXT_LINES)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
