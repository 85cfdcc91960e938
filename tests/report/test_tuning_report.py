"""What `tune` prints where nothing was kept: the reason, and not that there was nothing to try."""

from __future__ import annotations

from cs_input_analyzer.records import Edit, Finding
from cs_input_analyzer.report import render_tuning
from tests.builders import make_analysis, make_finding

EDITS = (Edit(kind="parallelize", op="map"),)


def printed(finding: Finding) -> str:
    return " ".join(render_tuning(make_analysis(findings=(finding,), fixes=None), width=80).split())


def test_a_fix_that_was_not_tried_says_why() -> None:
    text = printed(make_finding(edits=EDITS, proven=False, measured_gain=None, unproven_because="not measured: no time was left"))
    assert "CSI101: not measured: no time was left" in text
    assert "none of the findings" not in text


def test_advice_alone_is_nothing_to_try() -> None:
    text = printed(make_finding(edits=(), proven=False, measured_gain=None))
    assert "none of the findings proposes a change that could be tried" in text
