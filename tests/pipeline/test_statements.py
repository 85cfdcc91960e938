"""The user's statement at a line, as written, and the comments in it that switch rules off."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.pipeline.source.statements import LONGEST_CODE, code_at, find_statement

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
        # csi: ignore=CSI999
        ds = ds.cache(); ds = ds.repeat()
    else: ds = ds.take(3)
    text = "# csi: ignore"
    größe = ds.shuffle(5); täglich = ds.filter("é(")
    for batch in ds.map(
        f
    ):
        # between
        print(batch)  # csi: ignore
    with tf.device("cpu"): ds = ds.skip(1)
    try:
        ds = ds.prefetch(1)
    except ValueError:
        ds = ds.unbatch()
    match params:
        case {"a": 1}:
            ds = ds.enumerate()
    return ds
'''


def line_of(text: str) -> int:
    (line,) = [number for number, written in enumerate(FILE.split("\n"), start=1) if text in written]
    return line


@pytest.mark.parametrize(
    ("at", "code", "ignored"),
    [
        ("range(10)", "    ds = tf.data.Dataset.range(10)", ()),
        ("x + 1", "    ds = ds.map(lambda x: x + 1)", ("CSI101",)),
        ("parse", None, ("CSI103", "CSI2", "CSI")),
        ("32,", None, ("CSI103", "CSI2", "CSI")),
        ("ds.cache", "        ds = ds.cache(); ds = ds.repeat()", ()),
        ("take(3)", "ds = ds.take(3)", ()),
        ('"# csi', '    text = "# csi: ignore"', ()),
        ("größe", '    größe = ds.shuffle(5); täglich = ds.filter("é(")', ()),
        ("for batch", "    for batch in ds.map(\n        f\n    ):", ()),
        ("skip", "ds = ds.skip(1)", ()),
        ("prefetch", "        ds = ds.prefetch(1)", ()),
        ("unbatch", "        ds = ds.unbatch()", ()),
        ("enumerate", "            ds = ds.enumerate()", ()),
        ("def train", "def train_input_fn(params):", ()),
        ("print", "        print(batch)", ("CSI",)),
        ("case", "    match params:", ()),
    ],
)
def test_the_innermost_statement_is_found_with_its_comments(at: str, code: str | None, ignored: tuple[str, ...]) -> None:
    found = find_statement(FILE, line_of(at))
    if code is not None:
        assert found.code == code
    assert found.ignored == ignored


def test_a_chain_is_given_as_it_is_written() -> None:
    found = find_statement(FILE, line_of(".batch("))
    lines = FILE.split("\n")[line_of("ds = (") - 1 : line_of("# CSI: Ignore")]
    assert found.code == "\n".join(lines).removesuffix("  # CSI: Ignore")


@pytest.mark.parametrize("line", [0, -1, 3, 4, 10_000])
def test_where_there_is_no_statement_there_is_none(line: int) -> None:
    assert find_statement(FILE, line) is None


@pytest.mark.parametrize("text", ["", "def f(:\n  x", "\0", "x = 1\n\x0c\ny = (\n"])
def test_a_file_that_is_no_python_has_no_statements(text: str) -> None:
    assert find_statement(text, 1) is None


@given(st.integers(1, FILE.count("\n")))
def test_a_statement_stands_where_it_says_and_parses(line: int) -> None:
    found = find_statement(FILE, line)
    if found is None:
        return
    assert FILE[found.begin : found.end] == found.code
    assert FILE.count("\n", 0, found.begin) + 1 == found.first_line
    assert found.first_line <= line
    if not found.code.endswith(":"):
        ast.parse(found.code.lstrip())


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
