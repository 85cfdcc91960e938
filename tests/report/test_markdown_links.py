"""GitHub makes links, mentions and references of plain text, escaped or not: here no text of a user can become one."""

from __future__ import annotations

import re

import pytest
from builders import make_analysis, make_finding

from cs_input_analyzer.report import render
from cs_input_analyzer.report.document import Document, Section, Text
from cs_input_analyzer.report.to_markdown import to_markdown

LINKS = """
    www.evil.com/x WWW.evil.com (www.evil.com) *www.evil.com* http://evil.com HTTPS://evil.com ftp://evil.com ada@evil.com
    a.b-c_d+e@evil.co.uk mailto:ada@evil.com xmpp:ada@evil.com/x <ada@evil.com> <http://evil.com> @team @org/team #12 GH-12
    org/repo#12 org/repo@a1b2c3d4e5f6 a1b2c3d4e5f6a7b8 ssh://evil.com x://y
"""
PLAIN = """
    data/www/x.py:3 wwwhat a:b resnet/input_fn.py:train_input_fn batch# 12:30:45 facade 1234567 deadbeef GH x-y_z http:/x
"""
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)


def of_message(text: str) -> str:
    """The line of a finding that says this."""
    lines = render(make_analysis(findings=(make_finding(message=text, fix=None),)), "md").split("\n")
    return next(line for line in lines if "CSI101" in line)


@pytest.mark.parametrize("text", LINKS.split())
def test_what_would_be_a_link_stands_as_code(text: str) -> None:
    line = of_message(f"before {text} behind")
    assert f"`{text}`" in line
    assert text not in CODE.sub("", line)


@pytest.mark.parametrize("text", [*PLAIN.split(), "1,234 samples/s", "# samples", "mail to ada", "50 %"])
def test_what_is_none_stays_plain(text: str) -> None:
    line = of_message(f"before {text} behind")
    assert f"`{text}`" not in line
    assert text in line.replace("\\", "")


def test_code_ends_no_cell_of_a_table_and_no_code() -> None:
    line = of_message("a|b@c `x@y`` |www.x|")
    assert line.count("|") == line.count("\\|")
    assert "b@c" not in CODE.sub("", line)
    assert "x@y" not in CODE.sub("", line)


BEGINNINGS = {
    "- a": "\\- a",
    "+ a": "\\+ a",
    "1. a": "1\\. a",
    "12) a": "12\\) a",
    "=====": "\\=====",
    "    a": "a",
    "1.5 times as fast": "1.5 times as fast",
    "15 samples": "15 samples",
}


def test_no_text_begins_a_list_a_heading_or_code() -> None:
    texts = tuple(Text(text=text) for text in BEGINNINGS)
    document = Document(kind="run", title="t", first=(Section(anchor="a", title="s", parts=texts, level="both"),))
    assert set(BEGINNINGS.values()) <= set(to_markdown(document).split("\n"))
