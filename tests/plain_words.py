"""A list of words that cost a reader a second reading, and a command that finds them: `python tests/plain_words.py`.

It searches the comments, docstrings and texts of the code, and the pages in docs. It prints the place, the words, and what to say.
A pattern belongs in the list only if it is hardly ever right.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from bisect import bisect
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Pattern, and what to say instead. A blank in a pattern also matches a line break.
WORDS = (
    (r"\b(None|[Ee]mpty|[Ss]ilent) where\b", "None if, empty if, silent if"),
    (r"\b[Rr]aises \w+ (where|if)\b", "Raise … if"),
    (r"\bof before\b", "earlier, previous"),
    (r"\b(so|as) many (nodes|tasks|workers|CPUs|samples|batches|draws|times|steps) (as are|the|that is)\b", "this number of"),
    (r"\bof so many\b|\bon so many\b|\bwith so many\b|\bat most so many\b", "of N, on this number of"),
    (
        r"\b(that|where|what|if|CPUs) nobody\b|\bnobody (said|saw|sees|knows|else uses|asked|marked|here)\b",
        "unknown, unmarked, idle CPUs",
    ),
    (r"\b(?!there\b)\w+ is none\b(?! of)", "is not one, does not count"),
    (r"\bsays? nothing (of|about what)\b", "shows nothing about"),
    (r"\b(while it|that|which) will do\b(?= ?[,.;:)]|$)", "is enough, meets the demand"),
    (r"\bmoot\b", "irrelevant"),
    (r"\b(launches|workers|processes|runs|rates|batches|shards) alike\b", "equal …, … of the same kind"),
    (r"\b(is|was) (said|told)\b(?! (apart|to|otherwise|the|by|as)\b)", "is reported, is shown, is known"),
    (r"\bwhence\b", "from where, the source of"),
    (r"\bin vain\b", "without effect, saves nothing"),
    (r"\bend(s|ed)? well\b", "succeed, not fail"),
    (r"\bquiet (level|node|nodes)\b", "idle node"),
    (r"\bbatch (stall|pause)s?\b", "batch gap"),
    (r"\bstood in for\b", "replaced by a stand-in"),
    (r"\bothers had\b", "other programs used"),
    (r"\bwafer eats\b", "the accelerator takes"),
    (r"\bmend(s|ed|ing)?\b", "fix, repair"),
    (r"\bwritten nowhere\b", "not saved"),
    (r"\bare no more\b(?= ?[,.;:)])", "were removed"),
    (r"\bare none of\b", "do not count as, are not"),
    (r"\bis no peek\b", "reads more than one element"),
    (r"\bnot come to\b", "not reached, not tried"),
)
# A docstring that begins with a clause. Ruff's D401 finds most of them, but not these.
FIRST_WORDS = r'"""(Whether|What|Of|Where) '

# Rooms that are not yet rewritten: empty this list.
NOT_YET = ("tests/",)
# Written by others, kept as it was, or about the words themselves.
LEFT_OUT = ("CHANGELOG.md", "docs/run-schema.json", "tests/plain_words.py", "reports/templates/vendor")
SUFFIXES = {".py", ".md", ".toml", ".html", ".js"}
HIDDEN = {".git", ".venv", "build", "dist", "__snapshots__", "__pycache__", "data", "saved"}


def _spaced(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(" ", r"[\s#]+"))


PATTERNS = tuple((_spaced(pattern), instead) for pattern, instead in WORDS)
FIRST = _spaced(FIRST_WORDS)
# Before Python 3.12 the code in an f-string is part of its text.
CODE_IN_TEXT = re.compile(r"\{[^{}\n]*\}")


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a file that people read, with the line on which each begins."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, text
        return
    start, lines = 0, list[str]()  # a comment of several lines is one text
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if lines and token.start[0] != start + len(lines):
                yield start, "\n".join(lines)
                lines = []
            start = start if lines else token.start[0]
            lines.append(token.string)
        elif token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield token.start[0], CODE_IN_TEXT.sub("{}", token.string)
    if lines:
        yield start, "\n".join(lines)


def hits_in(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the words, and what to say instead."""
    for first, text in texts_of(path):
        ends = [match.start() for match in re.finditer("\n", text)]
        for pattern, instead in PATTERNS:
            for match in pattern.finditer(text):
                yield first + bisect(ends, match.start() - 1), " ".join(match[0].replace("#", " ").split()), instead
        if path.suffix == ".py" and (match := FIRST.match(text)):
            yield first, match[1], "begin with a verb: Return whether, Return, Yield"


def files(root: Path = ROOT) -> list[Path]:
    """Return the files of the project that are searched."""
    found = [path for path in sorted(root.rglob("*")) if path.suffix in SUFFIXES and path.is_file()]
    kept = [path for path in found if not HIDDEN.intersection(path.relative_to(root).parts)]
    return [path for path in kept if not str(path.relative_to(root)).startswith((*LEFT_OUT, *NOT_YET))]


def complaints(root: Path = ROOT) -> list[str]:
    """Return a line for each place: file, line, words, what to say instead."""
    return [
        f"{path.relative_to(root)}:{line}: {words!r}: say {instead}"
        for path in files(root)
        for line, words, instead in sorted(hits_in(path))
    ]


if __name__ == "__main__":
    found = complaints()
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)
