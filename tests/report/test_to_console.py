"""The console report: complete, within its width, the same in a pipe, and nothing in it acts on the terminal."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from builders import (
    make_alternative,
    make_analysis,
    make_bare_analysis,
    make_budget,
    make_consumption,
    make_finding,
    make_graph,
    make_launch_lines,
    make_layout,
    make_measurement,
    make_op,
    make_plan,
    make_worker,
)
from hostile import HOSTILE, hostile
from hypothesis import HealthCheck, given, settings
from record_strategies import analyses
from rendered import to_console
from rich.cells import cell_len

from cs_input_analyzer.records import Analysis, Options, SamplesPerElement
from cs_input_analyzer.report import render
from cs_input_analyzer.report.wording import visible

ESCAPE = "\x1b"


def copied_lines(analysis: Analysis) -> set[str]:
    """What is never wrapped."""
    plan = analysis.recommendation
    launch = plan.launch if plan is not None else None
    texts = [analysis.command] + ([launch.defaults, launch.csrun_cpu or "", launch.csrun_wse, launch.srun] if launch else [])
    return {line.rstrip(" ") for text in texts for line in visible(text).split("\n")}


def too_long(analysis: Analysis, width: int) -> list[str]:
    copied = copied_lines(analysis)
    report = to_console(analysis, width=width)
    return [line for line in report.split("\n") if cell_len(line) > width and line not in copied]


def words(text: str) -> str:
    """The text with its line breaks taken out, to look for sentences in it."""
    return re.sub(r"\s+", " ", text)


# --- layout ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("analysis", [make_analysis(), make_bare_analysis()], ids=["usual", "bare"])
def test_no_line_is_longer_than_the_width(analysis: Analysis, width: int) -> None:
    assert too_long(analysis, width) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_keeps_the_width(name: str) -> None:
    assert too_long(hostile(make_analysis(), HOSTILE[name]), 80) == []


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses())
def test_any_analysis_keeps_the_width(analysis: Analysis) -> None:
    assert too_long(analysis, 80) == []


def test_without_a_width_it_is_eighty() -> None:
    assert to_console(make_analysis()) == to_console(make_analysis(), width=80)


def test_the_surroundings_do_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = to_console(make_analysis())
    for name, value in {"COLUMNS": "33", "FORCE_COLOR": "1", "TERM": "dumb", "NO_COLOR": "1", "TTY_COMPATIBLE": "1"}.items():
        monkeypatch.setenv(name, value)
        assert to_console(make_analysis()) == before
        assert ESCAPE in to_console(make_analysis(), color=True)


def test_color_is_all_that_color_changes() -> None:
    plain, colored = to_console(make_analysis()), to_console(make_analysis(), color=True)
    assert ESCAPE not in plain
    assert ESCAPE in colored
    stripped = re.sub(r"\x1b\[[\d;]*m", "", colored)
    assert [line.rstrip() for line in stripped.split("\n")] == plain.split("\n")


def test_no_line_ends_in_spaces() -> None:
    assert [line for line in to_console(make_analysis()).split("\n") if line != line.rstrip()] == []


# --- hostile text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_from_outside_acts_on_the_terminal(name: str, color: bool) -> None:
    report = to_console(hostile(make_analysis(), HOSTILE[name]), color=color)
    ours = re.sub(r"\x1b\[[\d;]*m", "", report) if color else report
    assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", ours) == []
    if name == "terminal":
        assert "\\x1b[31mred" in ours


def test_markup_is_shown_and_not_obeyed() -> None:
    report = to_console(make_analysis(findings=(make_finding(message="[red]x[/red] [/] [bold"),)), color=True)
    assert "[red]x[/red] [/] [bold" in report


# --- content -----------------------------------------------------------------------------------------------------------------


def test_launch_lines_can_be_copied() -> None:
    analysis = make_analysis()
    assert analysis.recommendation is not None
    launch = analysis.recommendation.launch
    assert launch is not None
    lines = to_console(analysis, width=60).split("\n")
    for text in (launch.defaults, launch.csrun_wse, launch.srun, analysis.command):
        for line in text.split("\n"):
            assert line in lines
    assert "sbatch" in to_console(analysis)


def test_the_line_that_compiles_stands_before_the_one_that_trains_where_there_is_one() -> None:
    compiles = "csrun_cpu python run.py --mode=compile_only --params configs/of_a_folder_with_a_long_name/params_resnet50.yaml"
    launch = make_launch_lines(csrun_cpu=compiles)
    lines = to_console(make_analysis(recommendation=make_plan(launch=launch))).split("\n")
    assert lines.index("Compile first, without the wafer:") < lines.index(compiles) < lines.index(launch.csrun_wse)
    assert "Compile first" not in to_console(make_analysis())


@pytest.mark.parametrize("launch", [None, make_launch_lines()])
def test_the_plan_is_also_in_the_variables_of_the_vendors_launcher(launch: Any) -> None:
    lines = to_console(make_analysis(recommendation=make_plan("3x4x2", launch=launch))).split("\n")
    first = lines.index("DEF_NODES=3")
    assert lines[first : first + 3] == ["DEF_NODES=3", "DEF_TASKS=4", "DEF_CPUS=2"]


def test_the_three_lines_are_there_without_launch_text() -> None:
    lines = to_console(make_analysis(recommendation=make_plan("3x5x7", launch=None))).split("\n")
    assert {"nodes: 3", "tasks_per_node: 5", "cpus_per_task: 7"} <= set(lines)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("input_bound", "starves"),
        ("balanced", "supply lies between the demand"),
        ("accelerator_bound", "keeps up"),
        ("unknown", "cannot be said"),
    ],
)
def test_the_first_line_answers(verdict: str, expected: str) -> None:
    first = to_console(make_analysis(verdict=verdict, confidence=0.93)).split("\n")[0]
    assert expected in first
    assert ("93 % sure" in first) == (verdict != "unknown")


def test_what_an_element_holds_and_why_is_in_the_first_lines() -> None:
    samples = SamplesPerElement(value=256, source="batch(256), data.py:3")
    run = make_analysis(pipeline=make_graph(samples_per_element=samples), options=Options(batch_size=1024))
    for shape in ("console", "html"):
        text = " ".join(render(run, shape, full=True).split())
        assert "1 element = 256 samples (batch(256), data.py:3); a step of 1024 samples is 4 elements" in text
    assert "1 element = 256 samples" in "".join(to_console(run).splitlines()[1:6])


def test_a_run_of_before_whose_batch_size_was_typed_says_so() -> None:
    typed, stepped = Options(batch_size=1024), Options(batch_size=1024, step_time_s=0.1)
    assert "1024 samples an element, as --batch-size said then" in " ".join(to_console(make_analysis(options=typed)).split())
    assert "as --batch-size said then" not in " ".join(to_console(make_analysis(options=stepped)).split())


def test_supply_and_demand_stand_beside_the_verdict() -> None:
    top = to_console(make_analysis()).split("── Launch")[0]
    assert "supply  14,500 samples/s (13,340 to 15,660), recommended launch 2x16x2" in top
    assert "demand  7,000 samples/s" in top
    assert "--demand" not in top


def test_the_supply_of_a_launch_in_use_is_that_of_its_layout() -> None:
    used = make_layout("2x8x2")
    report = to_console(make_analysis(verdict_layout=used, options=Options(current=used), verdict="balanced"))
    assert "supply  7,400 samples/s (7,252 to 7,548), launch in use 2x8x2" in report


def test_a_step_time_says_where_the_demand_comes_from() -> None:
    report = to_console(
        make_analysis(options=Options(step_time_s=0.05), consumption=make_consumption(5120.0, source="step_time", batch_size=256))
    )
    assert "demand  5,120 samples/s from 50 ms a step of 256 samples" in report


def test_without_a_demand_it_says_how_to_give_one() -> None:
    report = words(
        to_console(
            make_analysis(
                consumption=None,
                verdict="unknown",
                confidence=None,
                recommendation=make_plan(meets_demand=None, headroom_ratio=None),
            )
        )
    )
    assert "--demand SAMPLES_PER_S" in report
    assert "--step-time SECONDS --batch-size N" in report


def test_a_demand_that_nothing_was_measured_for_is_still_shown() -> None:
    report = words(to_console(make_bare_analysis(consumption=make_consumption(), command="demo")))
    assert "demand 7,000 samples/s" in report
    assert "nothing was measured" in report
    assert "--demand SAMPLES_PER_S" not in report


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            {"meets_demand": False, "probability": 0.23},
            "NOT met: reached with a probability of 0.23 only (10 % headroom asked for)",
        ),
        ({"meets_demand": True, "probability": 0.997}, "met with a probability of > 0.99 (10 % headroom asked for)"),
        ({"meets_demand": True}, "met (10 % headroom asked for)"),  # a run of before
    ],
)
def test_whether_the_plan_meets_the_demand_is_said_with_its_probability(plan: dict[str, Any], said: str) -> None:
    report = words(to_console(make_analysis(recommendation=make_plan(limited_by="declared storage ceiling", **plan))))
    assert said in report
    assert ("no launch of this cluster does better, limited by declared storage ceiling" in report) is (not plan["meets_demand"])


def test_a_host_that_was_busy_is_said_beside_the_verdict() -> None:
    busy = make_finding("CSI506", message="the measuring host was busy with something else")
    report = words(to_console(make_analysis(findings=(busy,)), full=False))
    assert "busy with something else; repeat, or give --max-seconds 120" in report.partition("Launch")[0]


@pytest.mark.parametrize(
    ("basis", "expected"), [("measured", "was measured"), ("declared", "declared one"), ("unverified", "unverified")]
)
def test_the_basis_of_the_storage_is_said(basis: str, expected: str) -> None:
    assert expected in words(to_console(make_analysis(recommendation=make_plan(storage=basis))))


@pytest.mark.parametrize("confirmed_by", [None, 99, -1])
def test_a_plan_that_was_not_confirmed(confirmed_by: int | None) -> None:
    report = words(to_console(make_analysis(recommendation=make_plan(confirmed_by=confirmed_by, extrapolation_ratio=1.0))))
    assert "none: the plan lies inside what was measured; not measured again" in report


def test_workers_that_did_not_end_well_are_told_with_their_message() -> None:
    measurement = dataclasses.replace(
        make_measurement("1x3x1", (800.0, None, 700.0)),
        workers=(
            make_worker(800.0, index=0),
            make_worker(None, index=1, message="killed by signal 9"),
            make_worker(700.0, index=2, status="data_error", message="corrupted record at 4711\nin shard-3.tfrecord"),
        ),
    )
    report = to_console(make_analysis(measurements=(measurement,)))
    assert "1x3x1, worker 1 on probe-01: lost: killed by signal 9" in report
    assert "corrupted record at 4711" in report
    assert "in shard-3.tfrecord" in report
    assert "1 data error" in words(report)


def test_a_thousand_lost_workers_are_counted() -> None:
    report = to_console(make_analysis(measurements=(make_measurement("1x1000x1", [None] * 1000),)))
    assert "995 more workers" in report
    assert report.count("worker ") < 20


def test_a_worker_count_that_was_only_announced_is_shown() -> None:
    assert "4 of 16" in to_console(make_analysis())
    announced_as_started = to_console(make_analysis(measurements=(make_measurement("1x2x1"),)))
    (row,) = [line for line in announced_as_started.split("\n") if line.startswith("1x2x1")]
    assert " of " not in row


def test_op_costs_need_a_profile() -> None:
    with_profile, without = to_console(make_analysis()), to_console(make_analysis(profile=None))
    assert "Cost of each op" in with_profile
    assert "82 %" in with_profile
    assert "Cost of each op" not in without


def test_ops_inside_another_are_indented() -> None:
    report = to_console(make_analysis(profile=None))
    assert re.search(r"^  tf_record ", report, re.MULTILINE)
    assert re.search(r"^interleave ", report, re.MULTILINE)
    assert "num_parallel_calls=8" in report
    assert "input_fn.py:24" in report


def test_ops_that_hold_each_other_end() -> None:
    circle = (make_op("map", name="a", within="b"), make_op("map", name="b", within="a"))
    assert "Pipeline" in to_console(make_analysis(pipeline=make_graph(ops=circle)))


def test_an_op_that_joins_says_what() -> None:
    ops = (make_op("map", name="a"), make_op("map", name="b"), make_op("zip", inputs=("a", "b"), parameters={}))
    assert "joins a + b" in to_console(make_analysis(pipeline=make_graph(ops=ops)))


def test_findings_carry_source_evidence_fix_and_gain() -> None:
    report = words(to_console(make_analysis()))
    for part in (
        "warning CSI101:",
        "input_fn.py:23 (map)",
        "share_ratio=0.82",
        "tf.data.AUTOTUNE",
        "1.8 times (1.71 to 1.89) the rate",
    ):
        assert part in report
    assert "not proven" not in report


def test_a_gain_that_was_not_measured_is_not_claimed() -> None:
    report = to_console(make_analysis(findings=(make_finding(measured_gain=None),)))
    assert "times" not in report.split("── Findings")[1].split("── Measured")[0]


def test_alternatives_and_validation_are_shown_where_they_exist() -> None:
    report = to_console(make_analysis(), width=200)
    for part in ("Alternatives", "3x8x2", "one node more, half the memory per node", "Validation", "-2.9 %"):
        assert part in report
    bare = to_console(make_bare_analysis(), width=200)
    assert "Alternatives" not in bare
    assert "Validation" not in bare


def test_an_alternative_that_fails_says_no() -> None:
    plan = make_plan(alternatives=(make_alternative("4x4x4", meets_demand=False),))
    table = to_console(make_analysis(recommendation=plan), width=200).split("── Alternatives")[1]
    (line,) = [line for line in table.split("\n") if line.startswith("4x4x4")]
    assert " no " in line


def test_the_budget_names_what_was_not_measured() -> None:
    report = words(to_console(make_analysis()))
    assert "budget 49.8 s of 60 s: warm-up 9.1 s, probes 38 s; before that, 7.4 s to import and to build" in report
    assert "not measured storage ceiling, fixes" in report
    assert "nothing was left out" in words(to_console(make_analysis(budget=make_budget(not_measured=()))))


def test_an_interrupted_run_says_so() -> None:
    assert "INTERRUPTED" in to_console(make_bare_analysis())
    assert "nothing was left out" not in to_console(make_bare_analysis())
    assert "INTERRUPTED" not in to_console(make_analysis())


def test_missing_is_never_none() -> None:
    sparse = make_analysis(
        measurements=(make_measurement("1x1x1", (None,)),),
        recommendation=make_plan(memory_bytes_per_node=None, expected_accelerator_utilization=None, launch=None, alternatives=()),
        findings=(make_finding(op=None, source=None, fix=None, evidence={}),),
    )
    assert "None" not in to_console(sparse)
