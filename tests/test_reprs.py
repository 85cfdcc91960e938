"""Records are shown in one line that says the essential number."""

from __future__ import annotations

from typing import Any

import pytest

import cs_input_analyzer as csia
from cs_input_analyzer import api
from cs_input_analyzer.units import LINE
from tests.builders import (
    make_alternative,
    make_analysis,
    make_bare_analysis,
    make_estimate,
    make_finding,
    make_measurement,
    make_plan,
)

SHOWN: dict[str, tuple[Any, str]] = {
    "estimate": (make_estimate(7023.0), "7,023"),
    "exact": (csia.Estimate.exact(2.5), "<Estimate 2.5>"),
    "large": (csia.Estimate(estimate=1.5e300, low=1e300, high=2e300), "1.5e+300"),
    "plan": (make_plan(), "2x16x2"),
    "plan that falls short": (make_plan(meets_demand=False), "does NOT feed the demand"),
    "alternative": (make_alternative(), "3x8x2"),
    "finding": (make_finding("CSI101"), "CSI101"),
    "finding with a gain": (make_finding(measured_gain=make_estimate(2.9)), "x2.90"),
    "long finding": (make_finding(message="a\nb\x1b[2J" + "long " * 100), "…>"),
    "measurement": (make_measurement("1x2x1", [1000.0, 1000.0]), "2 of 2 workers"),
    "run": (api._public(make_analysis()), "plan "),
    "run without a plan": (make_bare_analysis(), "no plan"),
    "comparison": (api.compare(make_analysis(), make_analysis()), "times the rate"),
    "monitor": (csia.InputMonitor([1], 8, console=None, environ={}), "<InputMonitor step 0: no rate yet>"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_record_is_shown_in_one_line(name: str) -> None:
    record, words = SHOWN[name]
    shown = repr(record)
    assert words in shown
    assert shown[0] + shown[-1] == "<>"
    assert len(shown) <= LINE
    assert shown.isprintable()


def test_a_record_of_many_is_shown_by_theirs() -> None:
    """A list of findings in a notebook has a line for each."""
    findings = [make_finding("CSI101"), make_finding("CSI104")]
    assert repr(findings) == f"[{findings[0]!r}, {findings[1]!r}]"
