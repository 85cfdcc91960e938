"""Findings on the terminal and on the page: the same facts, the change of code, and nothing that is not so."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import pytest
from builders import make_alternative, make_analysis, make_estimate, make_finding, make_layout, make_plan
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Analysis, Edit, Finding, Fixes
from cs_input_analyzer.report import render, render_tuning
from cs_input_analyzer.report.findings import LONGEST_CHANGE, change_of, finding_cards

BEFORE = "    ds = (\n        ds.map(f)\n        .batch(4)\n    )"
AFTER = "    ds = (\n        ds.map(f, num_parallel_calls=8)\n        .batch(4)\n    )"
EDIT = Edit(kind="parallelize", op="map")


def fixes(**more: object) -> Fixes:
    settings = {"codes": ("CSI101", "CSI201"), "edits": (EDIT,), "measured_gain": make_estimate(2.5, spread=0.04)}
    return Fixes(**(settings | {"layout": make_layout("1x1x2"), "elements": 512} | more))  # type: ignore[arg-type]


def words(analysis: Analysis, form: str) -> str:
    """The report's text on one line, without the page's tags, scripts and styles."""
    text = render(analysis, form, full=True)  # type: ignore[arg-type]
    if form == "html":
        text = html.unescape(re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", "", text, flags=re.DOTALL))
    return re.sub(r"\s+", " ", text)


both = pytest.mark.parametrize("form", ["console", "html"])


def test_a_change_shows_what_changes_with_a_line_around_it() -> None:
    assert change_of(BEFORE, AFTER) == (
        (" ", "ds = ("),
        ("-", "    ds.map(f)"),
        ("+", "    ds.map(f, num_parallel_calls=8)"),
        (" ", "    .batch(4)"),
    )


def test_what_does_not_change_is_not_shown() -> None:
    assert [change_of(*codes) for codes in ((None, None), (BEFORE, None), (BEFORE, BEFORE), ("", ""))] == [()] * 4
    assert change_of(None, "ds = ds.cache()") == (("+", "ds = ds.cache()"),)
    assert change_of("ds = ds.cache()", "") == (("-", "ds = ds.cache()"),)


lines = st.lists(st.sampled_from(["a", "b", "c(", "  d", ""]), max_size=30).map("\n".join)


@given(lines, lines)
def test_every_changed_line_is_in_it_unless_it_is_cut(before: str, after: str) -> None:
    change = change_of(before, after)
    assert len(change) <= LONGEST_CHANGE
    if not change or change[-1] == (" ", "…"):
        return
    for mark, text in (("-", before), ("+", after)):
        shown = [line.strip() for sign, line in change if sign == mark]
        assert all(line in [part.strip() for part in text.split("\n")] for line in shown)
    assert before != after


def test_the_page_marks_the_change_for_who_does_not_see_colors() -> None:
    changed = make_analysis(findings=(make_finding(before=BEFORE, after=AFTER),))
    assert "- ds.map(f) + ds.map(f, num_parallel_calls=8) " in words(changed, "console")
    page = render(changed, "html")
    assert "<del>-     ds.map(f)</del>" in page
    assert "<ins>+     ds.map(f, num_parallel_calls=8)</ins>" in page
    assert 'class="change"' not in render(make_analysis(findings=(make_finding(),)), "html")


def test_findings_stand_by_gain_and_then_by_severity() -> None:
    findings = (
        make_finding("CSI001", severity="info", measured_gain=None, proven=False),
        make_finding("CSI002", measured_gain=make_estimate(1.2)),
        make_finding("CSI003", severity="error", measured_gain=None, proven=False),
        make_finding("CSI004", measured_gain=make_estimate(3.0)),
        # Whether it gains anything cannot be told from noise, or whether it is the same pipeline.
        make_finding("CSI005", severity="info", measured_gain=make_estimate(9.0, spread=0.95)),
        make_finding("CSI006", severity="info", measured_gain=make_estimate(9.0), proven=False),
    )
    assert [card.code[-1] for card in finding_cards(findings)] == ["4", "2", "3", "1", "5", "6"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["CSI104", "CSI1 04", ""]), st.none() | st.sampled_from(["map", "a b/<c>", "é"])), max_size=8
    )
)
def test_any_names_make_good_anchors(names: list[tuple[str, str | None]]) -> None:
    anchors = [card.anchor for card in finding_cards(tuple(make_finding(code, op=op) for code, op in names))]
    assert len(set(anchors)) == len(names)
    assert all(re.fullmatch(r"finding-[A-Za-z0-9_-]+", anchor) for anchor in anchors)
    if names == [("CSI104", "map")] * 2:
        assert anchors == ["finding-CSI104-map", "finding-CSI104-map-2"]


def tried(**more: Any) -> Finding:
    return make_finding(edits=(EDIT,), **more)


STANDINGS = [
    (tried(proven=True, verified_elements=40, pass_elements=64), "same elements, verified on 40 of 64", "not verified"),
    (
        tried(proven=True, verified_elements=2000, most_gain=1.5),
        "by the costs of the ops 1.5 times at most), same elements, verified on 2,000 of an unknown number",
        "not verified",
    ),
    (
        make_finding(before="ds.map(f)", after=None, source_check="it fails with it: TypeError"),
        "not shown: it fails with it: TypeError",
        "not run:",
    ),
    (tried(proven=False, measured_gain=None), "advice only: it was not tried", "proven"),
    (tried(proven=False, measured_gain=None, unproven_because="it is random"), "advice only: it is random", "not tried"),
    (make_finding(proven=False, measured_gain=None), "give it num_parallel_calls", "advice only"),
    (tried(measured_gain=make_estimate(1.01, spread=0.2)), "told from noise", "slower"),
    (tried(measured_gain=make_estimate(1.01, spread=0.05)), "tried without gain: 10% at most", "told from noise"),
    (tried(measured_gain=make_estimate(0.8, spread=0.05)), "the pipeline was slower with it", "cannot be told"),
]


@both
@pytest.mark.parametrize(("finding", "said", "not_said"), STANDINGS)
def test_it_says_how_sure_a_fix_is(form: str, finding: Finding, said: str, not_said: str) -> None:
    text = words(make_analysis(findings=(finding,)), form)
    assert said in text
    assert not_said not in text


@pytest.mark.parametrize(("gain", "slower"), [(0.8, True), (0.98, False), (1.01, False), (2.0, False)])
def test_a_short_report_says_which_fix_made_the_pipeline_slower(gain: float, slower: bool) -> None:
    analysis = make_analysis(findings=(tried(measured_gain=make_estimate(gain, spread=0.05)),))
    brief = render(analysis, "console")
    assert ("(tried: slower)" in brief) == slower
    assert ("×" in brief) == (gain > 1.5)


@both
def test_all_fixes_together_and_what_they_do_to_the_plan(form: str) -> None:
    then = make_alternative("3x16x2", note="all fixes applied")
    analysis = make_analysis(recommendation=make_plan("8x16x2"), fixes=fixes(plan=then))
    said = words(analysis, form)
    assert "2.5 times" in said
    assert "CSI101, CSI201" in said
    assert "same elements, verified on 512 of an unknown number" in said
    assert "8 nodes -> 3 nodes: 3x16x2" in said

    assert "nothing to change" not in said
    assert "all fixes" not in words(make_analysis(fixes=None, findings=(make_finding(edits=()),)), form)


UNTRIED = tried(
    proven=False, measured_gain=None, unproven_because="not measured: no time was left; --max-seconds 120 gives it time"
)
REFUSED = tried(proven=False, measured_gain=None, unproven_because="element 0 differs")
NOISY, NO_GAIN, SLOWER, GAIN = (
    tried(measured_gain=make_estimate(ratio, spread=spread))
    for ratio, spread in ((1.1, 0.1), (1.0, 0.05), (0.8, 0.05), (1.21, 0.04))
)
FATES = [
    ((UNTRIED,), "not tried: CSI101: no time was left; --max-seconds 120", "nothing to change|without gain|too noisy"),
    ((NOISY,), "tried, too noisy to tell: CSI101 1.1", "nothing to change|without gain|not tried"),
    ((NO_GAIN,), "tried without gain: CSI101 1 times", "too noisy|not tried"),
    ((NO_GAIN, SLOWER), "nothing to change", "too noisy|not tried"),
    ((REFUSED,), "cannot be kept: CSI101: element 0 differs", "nothing to change|not tried|too noisy"),
    ((NO_GAIN, UNTRIED), "tried without gain", "nothing to change"),
    ((NO_GAIN, NOISY), "tried without gain", "nothing to change"),
    ((make_finding(edits=()),), "no finding proposes a change that can be tried", "nothing to change|tried without"),
    ((GAIN,), "gained at first", "nothing to change|without gain|not tried:"),
]


@both
@pytest.mark.parametrize(("found", "said", "not_said"), FATES)
def test_nothing_to_change_is_said_only_where_all_was_measured(
    form: str, found: tuple[Finding, ...], said: str, not_said: str
) -> None:
    none = fixes(codes=(), edits=(), measured_gain=None, none_because="CSI101 gained at first" if found == (GAIN,) else "")
    text = words(make_analysis(fixes=none, findings=found), form)
    assert said in text
    assert not re.search(not_said, text)


def test_two_rounds_are_no_gain_however_narrow_their_interval() -> None:
    gain = make_estimate(1.21, spread=0.04)
    assert not tried(measured_gain=replace(gain, count=2)).is_gain
    assert tried(measured_gain=replace(gain, count=3)).is_gain


@both
def test_findings_that_comments_left_out_are_counted(form: str) -> None:
    assert "2 findings ignored by comments" in words(make_analysis(ignored_count=2), form)
    assert "ignored by comments" not in words(make_analysis(ignored_count=0), form)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"edits": (EDIT,), "unproven_because": "not measured: no time was left"}, "not tried: CSI101: no time was left"),
        ({"edits": ()}, "none of the findings proposes a change that could be tried"),
    ],
)
def test_tune_says_why_nothing_was_kept(more: dict[str, Any], said: str) -> None:
    finding = make_finding(proven=False, measured_gain=None, **more)
    text = " ".join(render_tuning(make_analysis(findings=(finding,), fixes=None), width=80).split())
    assert said in text
    assert ("none of the findings" in text) == (not more["edits"])
