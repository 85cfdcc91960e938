"""Laws of the first screen: never green over a launch that is wrong, never recommended if it does not feed the demand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import make_analysis, make_consumption, make_estimate, make_finding, make_layout, make_plan
from hypothesis import given
from hypothesis import strategies as st
from scenes import SCENES, fed, scene

from cs_input_analyzer.records import Options
from cs_input_analyzer.report import render
from cs_input_analyzer.report.document import Bars, Copyable
from cs_input_analyzer.report.first_screen import WRONG_TRAINING, first_screen, headline, launch_title, mark_of, next_command
from cs_input_analyzer.rules import RULES

NOT_WRONG = sorted({rule.code for rule in RULES} - {*WRONG_TRAINING})


@pytest.mark.parametrize("code", WRONG_TRAINING)
@pytest.mark.parametrize("verdict", ["accelerator_bound", "balanced", "unknown"])
def test_what_trains_wrongly_is_red_and_named(code: str, verdict: Any) -> None:
    run = replace(fed(findings=(make_finding(code, severity="info"),)), verdict=verdict)
    assert mark_of(run) == "unsafe"
    assert headline(run).startswith("DO NOT LAUNCH YET")
    assert code in headline(run)
    assert "recommended" not in launch_title(run)
    assert f"! {code}" in render(run, "console")


@pytest.mark.parametrize("code", NOT_WRONG)
def test_other_findings_leave_the_verdict_as_it_is(code: str) -> None:
    run = fed(findings=(make_finding(code),))
    assert mark_of(run) == "accelerator_bound"
    assert headline(run) == headline(fed())
    assert "Before you launch" not in render(run, "console")


def test_every_code_of_wrong_training_is_a_rule() -> None:
    assert {*WRONG_TRAINING} <= {rule.code for rule in RULES}


@given(st.floats(0.01, 0.89))
def test_the_headline_and_the_bars_tell_the_same_share(ratio: float) -> None:
    today = make_layout("1x8x2")
    run = scene(
        verdict="input_bound",
        verdict_layout=today,
        supply=make_estimate(10_000.0 * ratio),
        consumption=make_consumption(10_000.0),
        options=Options(current=today),
    )
    waits = float(headline(run).split()[-5])
    (bars,) = (part for section in first_screen(run, (), {}, "") for part in section.parts if isinstance(part, Bars))
    supply = next(bar for bar in bars.rows if bar.label == "today")
    covers = float(supply.text.split("covers ")[1].split()[0])
    assert waits + covers == pytest.approx(100, abs=0.11)
    wanted = next(bar for bar in bars.rows if bar.label == "demand")
    assert supply.ratio / wanted.ratio == pytest.approx(ratio)


@pytest.mark.parametrize(("meets", "is_recommended"), [(True, True), (False, False), (None, False)])
def test_only_a_launch_that_feeds_the_demand_is_recommended(meets: bool | None, is_recommended: bool) -> None:
    run = scene(recommendation=make_plan(meets_demand=meets))
    assert ("recommended" in launch_title(run)) == is_recommended
    assert ("does NOT feed" in render(run, "console")) == (meets is False)


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (
            "cs_input_analyzer analyze a.py:fn --params p.yaml --json run.json --set 'a=b c'",
            "a.py:fn --params p.yaml --set 'a=b c'",
        ),
        ("cs_input_analyzer demo --json run.json", "of.a:target"),
        ("csia.analyze(…)", "of.a:target"),
        ("cs_input_analyzer analyze 'open quote", "of.a:target"),
        ("cs_input_analyzer analyze a.py:fn --set api_key=***", "of.a:target"),
    ],
)
def test_tune_is_typed_with_the_options_that_made_the_run(command: str, typed: str) -> None:
    run = SCENES["serial map"]()
    run = replace(run, command=command, pipeline=replace(run.pipeline, target="of.a:target"))
    assert next_command(run, "run.json") == f"cs_input_analyzer tune {typed} --write-patch faster.patch"


def test_a_rate_without_its_launch_line_has_one_to_copy_and_one_without_a_plan_none() -> None:
    def copied(run: Any) -> list[Copyable]:
        return [part for section in first_screen(run, (), {}, "") for part in section.parts if isinstance(part, Copyable)]

    assert len(copied(fed())) == 1
    assert copied(make_analysis(recommendation=None, no_plan="no worker delivered")) == []
