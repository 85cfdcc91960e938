"""Laws of the first screen: never green over a launch that is wrong, never recommended if it does not feed the demand."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from builders import (
    make_analysis,
    make_consumption,
    make_estimate,
    make_finding,
    make_layout,
    make_measurement,
    make_plan,
    make_station,
    make_worker,
)
from hypothesis import given
from hypothesis import strategies as st
from scenes import SCENES, fed, scene

from cs_input_analyzer.cli import cli
from cs_input_analyzer.records import Options
from cs_input_analyzer.report import render
from cs_input_analyzer.report.document import Bars, Copyable, Section, Text
from cs_input_analyzer.report.first_screen import (
    NOT_TUNED,
    WRONG_TRAINING,
    first_screen,
    headline,
    launch_title,
    mark_of,
    next_command,
    why,
)
from cs_input_analyzer.report.run_document import run_document
from cs_input_analyzer.report.to_console import to_console
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


@pytest.mark.parametrize(("verdict", "first"), [("input_bound", "CSI401"), ("accelerator_bound", "CSI307")])
def test_what_makes_it_slow_comes_before_the_form_of_the_elements(verdict: Any, first: str) -> None:
    """Three warnings without a measured gain, of which two fit: Python in the pipeline must be one where the input is slow."""
    found = tuple(make_finding(code, measured_gain=None, proven=False) for code in ("CSI307", "CSI308", "CSI401"))
    told = render(replace(fed(findings=found), verdict=verdict), "console")
    assert re.findall(r"CSI\d+", told)[0] == first


def test_every_code_of_wrong_training_is_a_rule() -> None:
    assert {*WRONG_TRAINING} <= {rule.code for rule in RULES}


@given(st.floats(0.05, 0.85))
def test_the_headline_and_the_bars_tell_the_same_share(ratio: float) -> None:
    today = make_layout("1x8x2")
    run = scene(
        verdict="input_bound",
        verdict_layout=today,
        supply=make_estimate(10_000.0 * ratio),
        consumption=make_consumption(10_000.0),
        options=Options(current=today),
    )
    waits = float(headline(run).split("waits ")[1].split()[0])
    (bars,) = (part for section in first_screen(run, (), {}, "") for part in section.parts if isinstance(part, Bars))
    supply = next(bar for bar in bars.rows if bar.label == "today")
    covers = float(supply.text.split("covers ")[1].split()[0])
    assert waits + covers == pytest.approx(100, abs=0.11)
    wanted = next(bar for bar in bars.rows if bar.label == "demand")
    assert supply.ratio / wanted.ratio == pytest.approx(ratio)
    low, high = (float(end) for end in re.findall(r"\((?:[<>] )?([\d.]+) to (?:[<>] )?([\d.]+) %\)", headline(run))[0])
    assert low <= waits <= high


@pytest.mark.parametrize(
    ("meets", "probability", "doubt"),
    [
        (True, 0.95, None),
        (False, 0.7, "it may not feed the demand (70 % sure that it does)"),
        (False, 0.2, "it does NOT feed the demand"),
        (False, None, "it does NOT feed the demand"),
        (None, None, None),
    ],
)
def test_only_a_launch_that_feeds_the_demand_is_recommended(
    meets: bool | None, probability: float | None, doubt: str | None
) -> None:
    run = scene(recommendation=make_plan(meets_demand=meets, probability=probability))
    assert ("recommended" in launch_title(run)) == (meets is True)
    assert re.findall(r"it \w+ (?:not|NOT) feed.*(?=: no launch)", render(run, "console")) == ([doubt] if doubt else [])


def test_it_says_why_measuring_ended_early() -> None:
    assert "cut short" not in render(scene(), "console")
    run = scene(budget=replace(scene().budget, cut_short="the Slurm job is over"))
    assert "cut short  the Slurm job is over; what was measured by then counts" in render(run, "console")


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (
            "cs_input_analyzer analyze a.py:fn --params p.yaml --json run.json --set 'a=b c'",
            "a.py:fn --params p.yaml --set 'a=b c'",
        ),
        (
            "cs_input_analyzer analyze --full a.py:fn --json=run.json --container 'a b' --fail-on warning --seed 3",
            "a.py:fn --seed 3",
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


def test_no_command_is_proposed_that_a_function_of_a_notebook_cannot_have() -> None:
    run = SCENES["serial map"]()
    run = replace(run, pipeline=replace(run.pipeline, target="__main__:train_input_fn"))
    assert next_command(run, "run.json") == "cs_input_analyzer report run.json --full"


def test_tune_has_every_other_option_of_analyze() -> None:
    of_analyze, of_tune = ({word for option in cli.commands[name].params for word in option.opts} for name in ("analyze", "tune"))
    assert of_analyze - of_tune <= NOT_TUNED.keys()


def test_tune_is_not_typed_without_the_params_that_the_run_had() -> None:
    run = SCENES["serial map"]()
    run = replace(run, command="cs_input_analyzer demo", options=replace(run.options, params_json='{"batch_size": 8}'))
    assert "tune" not in next_command(run, "run.json")


def test_a_limit_is_named_once_whether_or_not_the_worker_is_at_it() -> None:
    at = make_station("serial op", op="map", source="data.py:3")
    for used in (0.5, 0.99):
        run = scene(recommendation=make_plan(limited_by="serial op map"), stations=(replace(at, utilization_ratio=used),))
        assert sum("serial op map" in part.text for part in why(run)) == 1


def test_only_a_busy_host_asks_for_an_idle_one() -> None:
    def run(severity: Any) -> str:
        return render(fed(findings=(make_finding("CSI506", severity=severity, message="the reason"),)), "console")

    assert "an idle host" in run("info")
    assert "an idle host" not in run("warning")
    assert "the reason" in run("warning")


def test_a_change_behind_the_width_of_the_line_is_seen() -> None:
    before = f"dataset = dataset.map({'a' * 80})"
    found = make_finding(before=before, after=f"{before}.cache()", measured_gain=make_estimate(1.5))
    shown = [line for line in render(fed(findings=(found,)), "console").splitlines() if line.strip()[:2] in ("+ ", "- ")]
    assert len(shown) == 2
    assert shown[1].endswith(".cache()")
    assert max(map(len, shown)) <= 80


def test_a_rate_without_its_launch_line_has_one_to_copy_and_one_without_a_plan_none() -> None:
    def copied(run: Any) -> list[Copyable]:
        return [part for section in first_screen(run, (), {}, "") for part in section.parts if isinstance(part, Copyable)]

    assert len(copied(fed())) == 1
    assert copied(make_analysis(recommendation=None, no_plan="no worker delivered")) == []


def test_of_a_worker_that_failed_a_full_screen_keeps_the_reason() -> None:
    reason = "TFRecordDataset in data.py:39, {}/shards/part-2.tfrecord: corrupted record"
    lost = make_worker(status="data_error", message=f"after 74 batches: {reason.format('/a/long/path/of/folders')} at 34812")
    document = run_document(fed(measurements=(make_measurement(workers=(lost,)),)))
    full = Section(anchor="a", title="", parts=(Text(text="word " * 90),) * 20, level="both")
    shown = to_console(replace(document, first=(full,)))
    assert reason.format("…") in " ".join(shown.split())
