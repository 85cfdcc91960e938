"""The user's statement at a line, as written, and the comments in it that switch rules off."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cs_input_analyzer.tfdata.source.statements import LONGEST_CODE, code_at, find_statement, is_installed

FILE = '''\
"""A module."""
import tensorflow as tf


def train_input_fn(params):
    ds = tf.data.Dataset.range(10)
    ds = ds.map(lambda x: x + 1)  # csi: ignore=CSI101
    ds = (
        ds.map(parse)  # slow; # csi: ignore=csi103, CSI2
        .batch(
            32,
        )
    )  # CSI: Ignore
    if params:  # not ours: csi ignore
        ds = ds.cache(); ds = ds.repeat()
    for batch in ds.map(
        f
    ):
        print(batch)  # csi: ignore
    with tf.device("cpu"): ds = ds.skip(1)
    try:
        ds = ds.prefetch(1)
    except ValueError:
        ds = ds.unbatch()
    match params:
        case {"a": 1}:
            größe = ds.enumerate()
    return ds
'''
LINES = FILE.split("\n")


def line_of(text: str) -> int:
    (line,) = [number for number, written in enumerate(LINES, start=1) if text in written]
    return line


@pytest.mark.parametrize(
    ("at", "first", "last", "ignored"),
    [
        ("range(10)", "range(10)", "range(10)", ()),
        ("x + 1", "x + 1", "x + 1", ("CSI101",)),
        ("parse", "ds = (", "CSI: Ignore", ("CSI103", "CSI2", "CSI")),
        ("32,", "ds = (", "CSI: Ignore", ("CSI103", "CSI2", "CSI")),
        ("if params", "if params", "if params", ()),
        ("cache", "cache", "cache", ()),
        ("for batch", "for batch", "):", ()),
        ("print", "print", "print", ("CSI",)),
        ("skip", "skip", "skip", ()),
        ("prefetch", "prefetch", "prefetch", ()),
        ("unbatch", "unbatch", "unbatch", ()),
        ("enumerate", "enumerate", "enumerate", ()),
        ("def train", "def train", "def train", ()),
    ],
)
def test_the_innermost_statement_is_found_with_its_comments(at: str, first: str, last: str, ignored: tuple[str, ...]) -> None:
    found = find_statement(FILE, line_of(at))
    end = next(number for number in range(line_of(first), len(LINES) + 1) if last in LINES[number - 1])
    assert found.code == "\n".join(LINES[line_of(first) - 1 : end])
    assert found.ignored == ignored
    assert FILE[found.begin :].startswith(found.code)


@pytest.mark.parametrize("line", [0, -1, 3, 10_000])
def test_where_there_is_no_statement_there_is_none(line: int) -> None:
    assert find_statement(FILE, line) is None


def test_a_file_that_another_thread_disturbs_is_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 raises SystemError if the garbage collector lets another thread parse in the middle."""
    parse, failures = ast.parse, [SystemError("AST constructor recursion depth mismatch")]

    def disturbed(text: str) -> ast.Module:
        if failures:
            raise failures.pop()
        return parse(text)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert find_statement("x = 1\ny = 2  # of this test alone\n", 2) is not None
    assert not failures


@pytest.mark.parametrize("text", ["", "def f(:\n  x", "\0", "x = 1\n\x0c\ny = (\n"])
def test_a_file_that_is_no_python_has_no_statements(text: str) -> None:
    assert find_statement(text, 1) is None


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_file_is_read_in_its_own_encoding(tmp_path: Path, newline: str) -> None:
    path = tmp_path / "pipeline: 1.py"
    path.write_bytes(f"# -*- coding: latin-1 -*-{newline}größe = ds.batch(2){newline}".encode("latin-1"))
    assert code_at(f"{path}:2") == ("größe = ds.batch(2)", ())


@pytest.mark.parametrize("source", [None, "", "x", ":3", "/nowhere/x.py:3", "/nowhere/x.py:", "<stdin>:1"])
def test_what_cannot_be_read_has_no_code(source: str | None) -> None:
    assert code_at(source) == (None, ())


def test_a_very_long_statement_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "list.py"
    path.write_text(f"ds = tf.data.Dataset.from_tensor_slices({list(range(2000))})\n")
    code, _ = code_at(f"{path}:1")
    assert len(code) == LONGEST_CODE
    assert code.startswith("ds = tf.data.Dataset.from_tensor_slices([0, 1,")


def test_a_package_in_a_folder_of_its_own_is_known_by_its_installers_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "pairs-1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("pairs.py,sha256=x,10\npairs_more/__init__.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name, expected in (("pairs.py", True), ("pairs_more/a.py", True), ("mine.py", False), ("mine/pairs.py", False)):
        assert is_installed(str(tmp_path / name)) == expected
    assert not is_installed(str(tmp_path.parent / "pairs.py"))
