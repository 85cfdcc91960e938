"""The list of words that cost a second reading: it finds them, and it is silent about ordinary English."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import plain_words


def hits(tmp_path: Path, text: str, name: str = "page.md") -> list[tuple[int, str]]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return sorted((line, words) for line, words, _ in plain_words.hits_in(tmp_path / name))


@pytest.mark.parametrize(
    "text",
    [
        "None where the file is missing",
        "the plan of before",
        "the rate of so many draws",
        "on CPUs that nobody else uses",
        "a launch that is short is none.",
        "this says nothing of the storage",
        "the plan stays while it will do",
        "a shuffle makes the order moot",
        "launches alike differ",
        "on how many elements is said.",
        "others had half of the CPUs",
        "a cache in vain",
        "the package is stood in for",
        "mend the data",
    ],
)
def test_an_old_turn_is_found(tmp_path: Path, text: str) -> None:
    assert len(hits(tmp_path, text)) == 1
    assert hits(tmp_path, text.replace(" ", "\n")), "also over a line break"


@pytest.mark.parametrize(
    "text",
    [
        "Return None if there is none.",
        "It is told apart from the others, as it was told to.",
        "There are no more files than workers.",
        "so many readers know this",
        "The tool will do the rest.",
        "which stands in for the file system",
        "Others had the idea before.",
        "an amendment that is recommended",
    ],
)
def test_ordinary_english_is_not(tmp_path: Path, text: str) -> None:
    assert hits(tmp_path, text) == []


def test_code_is_searched_in_its_texts_only(tmp_path: Path) -> None:
    code = '"""Whether it holds."""\n\nmoot = nobody = 1  # nothing\n# a comment of\n# before\nmessage = f"{moot} is moot"\n'
    assert hits(tmp_path, code, "code.py") == [(1, "Whether"), (4, "of before"), (6, "moot")]


def test_a_docstring_that_begins_with_a_verb_is_not_found(tmp_path: Path) -> None:
    assert hits(tmp_path, '"""Return whether it holds, and what it is."""\n', "code.py") == []


def test_every_pattern_says_what_to_say_instead() -> None:
    assert all(instead and re.compile(pattern) for pattern, instead in plain_words.WORDS)


def test_the_project_holds_none_of_them() -> None:
    assert plain_words.complaints() == []


def test_a_complaint_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("one\n\nNone where\n", encoding="utf-8")
    assert plain_words.complaints(tmp_path) == ["page.md:3: 'None where': say None if, empty if, silent if"]
