"""Patterns that texts of others meet take time in proportion to their length: ten times the letters, not a hundred times the time.

No time is asserted but a bound against what takes the square, which these took seconds to minutes of before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.host.node_speed import model_of
from cs_input_analyzer.masking import masked_command, masked_params
from cs_input_analyzer.model.node_list import expand_nodelist
from cs_input_analyzer.records import Layout
from cs_input_analyzer.report.to_html import _breakable
from cs_input_analyzer.report.to_markdown import _plain
from cs_input_analyzer.tfdata.messages import plain_message
from cs_input_analyzer.units import parse_bytes, parse_bytes_per_s, parse_estimate, parse_per_s, parse_seconds, visible

N = 100_000
BOUND_S = 10.0
READERS: dict[str, Callable[[str], object]] = {
    "html": _breakable,
    "markdown": _plain,
    "visible": visible,
    "nodes": expand_nodelist,
    "layout": Layout.parse,
    "size": parse_bytes,
    "bandwidth": parse_bytes_per_s,
    "estimate": parse_estimate,
    "rate": parse_per_s,
    "time": parse_seconds,
    "model": model_of,
    "command": masked_command,
    "params": lambda text: masked_params({"token": text, text: "a", "url": f"s3://{text}", "n": [text]}),
    "message": lambda text: plain_message(ValueError(text)),
}
UNITS = (
    "x",
    "/",
    "a/",
    " ",
    "\n",
    ",",
    "[",
    "n[",
    "1",
    "1,",
    "0",
    "a1",
    "(",
    "=",
    "a=",
    "--a ",
    "://",
    "a@",
    "@ ",
    "`",
    ":",
    "token",
    "A",
)


@pytest.mark.parametrize("name", READERS)
def test_a_hundred_thousand_letters_are_read_in_time(name: str) -> None:
    began_s = time.process_time()
    for unit in UNITS:
        for text in (unit * (N // len(unit)), f"1{unit * (N // len(unit))}!"):
            with suppress(UsageError):
                READERS[name](text)
    assert time.process_time() - began_s < BOUND_S


@pytest.mark.parametrize(
    ("text", "names"),
    [("n1", ["n1"]), ("a[1,3],b", ["a1", "a3", "b"]), ("n[1-2],m[07,9]x", ["n1", "n2", "m07x", "m9x"]), ("a,b,c", ["a", "b", "c"])],
)
def test_commas_inside_of_brackets_end_no_name(text: str, names: list[str]) -> None:
    assert list(expand_nodelist(text)) == names


@pytest.mark.parametrize("text", ["", ",", "a,,b", "n[1,2", "n1],a", "n[[1]]", "n[1],"])
def test_what_is_no_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="node"):
        expand_nodelist(text)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("a/b/c", "a/<wbr>b/<wbr>c"),
        ("at /data/x.py:3", "at /<wbr>data/<wbr>x.py:3"),
        ("samples/s", "samples/s"),
        ("a/b/", "a/b/"),
        ("/", "/"),
        ("<a/b/c>", "&lt;a/<wbr>b/<wbr>c&gt;"),
    ],
)
def test_a_path_may_be_broken_behind_its_slashes_and_a_unit_may_not(path: str, shown: str) -> None:
    assert str(_breakable(path)) == shown


def test_a_message_keeps_its_words_without_the_names_of_nodes() -> None:
    text = "bad shape   [[{{node map/x}}]] more"
    assert plain_message(ValueError(text)) == "bad shape"
    assert plain_message(ValueError("bad [Op:IteratorGetNext] name: ")) == "bad"
    assert plain_message(ValueError("plain words  [x]")) == "plain words  [x]"
    assert model_of("Some CPU 9374F 32-Core") == "SOME 9374F 32-CORE"
    assert model_of("virtual machine") is None
