"""The console report: complete, within its width, the same in a pipe, and nothing in it acts on the terminal."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from builders import (
    make_analysis,
    make_bare_analysis,
    make_budget,
    make_consumption,
    make_finding,
    make_graph,
    make_host,
    make_launch_lines,
    make_layout,
    make_measurement,
    make_op,
    make_plan,
    make_worker,
)
from rendered import to_console

from cs_input_analyzer.records import Options, SamplesPerElement

ESCAPE = "\x1b"


def words(text: str) -> str:
    """The text with its line breaks taken out, to look for sentences in it."""
    return re.sub(r"\s+", " ", text)


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


def test_markup_is_shown_and_not_obeyed() -> None:
    report = to_console(make_analysis(findings=(make_finding(message="[red]x[/red] [/] [bold"),)), color=True)
    assert "[red]x[/red] [/] [bold" in report


def test_launch_lines_can_be_copied_and_the_one_that_compiles_stands_first() -> None:
    compiles = "csrun_cpu python run.py --mode=compile_only --params configs/of_a_folder_with_a_long_name/params_resnet50.yaml"
    launch = make_launch_lines(csrun_cpu=compiles)
    analysis = make_analysis(recommendation=make_plan(launch=launch))
    lines = to_console(analysis, width=60).split("\n")
    for text in (launch.defaults, launch.csrun_wse, launch.srun, analysis.command):
        assert set(text.split("\n")) <= set(lines)
    assert lines.index("Compile first, without the wafer:") < lines.index(compiles) < lines.index(launch.csrun_wse)


@pytest.mark.parametrize("launch", [None, make_launch_lines()])
def test_the_plan_is_also_in_the_variables_of_the_vendors_launcher(launch: Any) -> None:
    lines = to_console(make_analysis(recommendation=make_plan("3x4x2", launch=launch))).split("\n")
    first = lines.index("DEF_NODES=3")
    assert lines[first : first + 3] == ["DEF_NODES=3", "DEF_TASKS=4", "DEF_CPUS=2"]
    assert launch is not None or {"nodes: 3", "tasks_per_node: 4", "cpus_per_task: 2"} <= set(lines)


USED = make_layout("2x8x2")
TYPED, STEPPED = Options(batch_size=1024), Options(batch_size=1024, step_time_s=0.1)
HOLDS = SamplesPerElement(value=256, source="batch(256), data.py:3")
BY_STEPS = make_consumption(5120.0, source="step_time", batch_size=256)
NO_DEMAND = make_plan(meets_demand=None, headroom_ratio=None)
UNMET = make_plan(meets_demand=False, probability=0.23, limited_by="declared storage ceiling")
CASES: list[tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]] = [
    ({"verdict": "accelerator_bound", "confidence": 0.93}, ("keeps up",), ("93 %", " sure")),
    ({"verdict": "unknown", "confidence": 0.93}, ("cannot be said",), ("93 %", " sure")),
    (
        {"pipeline": make_graph(samples_per_element=HOLDS), "options": Options(batch_size=1024)},
        ("1 element = 256 samples (batch(256), data.py:3); a step of 1024 samples is 4 elements",),
        (),
    ),
    ({"options": TYPED}, ("1024 samples an element, as --batch-size said then",), ()),
    ({"options": STEPPED}, (), ("as --batch-size said then",)),
    (
        {},
        (
            "supply 14,500 samples/s (13,340 to 15,660), recommended launch 2x16x2",
            "demand 7,000 samples/s",
            "demand met (10 % headroom asked for)",
            "4 of 16",
            "82 %",
            "num_parallel_calls=8",
            "input_fn.py:24",
            "warning CSI101:",
            "input_fn.py:23 (map)",
            "share_ratio=0.82",
            "1.8 times (1.71 to 1.89) the rate",
            "budget 49.8 s of 60 s: warm-up 9.1 s, probes 38 s; before that, 7.4 s to import and to build",
            "not measured storage ceiling, fixes",
        ),
        ("NOT met", "--demand SAMPLES_PER_S", "not proven", "INTERRUPTED", "None"),
    ),
    (
        {"verdict_layout": USED, "options": Options(current=USED), "verdict": "balanced"},
        ("supply 7,400 samples/s (7,252 to 7,548), launch in use 2x8x2",),
        (),
    ),
    (
        {"options": Options(step_time_s=0.05), "consumption": BY_STEPS},
        ("demand 5,120 samples/s from 50 ms a step of 256 samples",),
        (),
    ),
    (
        {"consumption": None, "verdict": "unknown", "confidence": None, "recommendation": NO_DEMAND},
        ("--demand SAMPLES_PER_S", "--step-time SECONDS --batch-size N"),
        (),
    ),
    (
        {"recommendation": UNMET},
        ("NOT met (10 % headroom asked for): no launch of this cluster does better", "limited by declared storage ceiling"),
        ("0.23", "23 %"),
    ),
    ({"recommendation": make_plan(meets_demand=True, probability=0.997)}, ("met (10 % headroom asked for)",), ("NOT met", "0.99")),
    ({"recommendation": make_plan(storage="unverified")}, ("unverified",), ()),
    (
        {"recommendation": make_plan("2x1x64"), "host": make_host(numa_cpus=32)},
        ("; a task of 64 CPUs spans 2 NUMA nodes of 32",),
        (),
    ),
    *(
        ({"recommendation": make_plan("2x2x32"), "host": make_host(numa_cpus=cpus)}, ("limited by",), ("NUMA",))
        for cpus in (32, 64, None)
    ),
    *(
        (
            {"recommendation": make_plan(confirmed_by=confirmed_by, extrapolation_ratio=1.0)},
            ("none: the plan lies inside what was measured; not measured again",),
            (),
        )
        for confirmed_by in (None, 99, -1)
    ),
    ({"budget": make_budget(not_measured=())}, ("nothing was left out",), ()),
    ({"pipeline": make_graph(ops=(make_op("map", name="a", within="b"), make_op("map", name="b", within="a")))}, ("Pipeline",), ()),
    (
        {"pipeline": make_graph(ops=(make_op("map", name="a"), make_op("map", name="b"), make_op("zip", inputs=("a", "b"))))},
        ("joins a + b",),
        (),
    ),
]


@pytest.mark.parametrize(("given", "said", "not_said"), CASES)
def test_what_the_run_holds_is_said(given: dict[str, Any], said: tuple[str, ...], not_said: tuple[str, ...]) -> None:
    report = words(to_console(make_analysis(**given)))
    assert [part for part in said if part not in report] == []
    assert [part for part in not_said if part in report] == []


def test_a_demand_that_nothing_was_measured_for_is_still_shown() -> None:
    report = words(to_console(make_bare_analysis(consumption=make_consumption(), command="demo")))
    assert "demand 7,000 samples/s" in report
    assert "nothing was measured" in report
    assert "INTERRUPTED" in report
    assert "nothing was left out" not in report
    for absent in ("--demand SAMPLES_PER_S", "Alternatives", "Validation"):
        assert absent not in report


def test_a_host_that_was_busy_is_said_beside_the_verdict() -> None:
    busy = make_finding("CSI506", message="the measuring host was busy with something else")
    report = words(to_console(make_analysis(findings=(busy, make_finding())), full=False))
    assert "busy with something else; repeat, or give --max-seconds 120" in report.partition("Launch")[0]
    assert report.count("busy with something else") == 1
    assert "Findings (1)" in report
    assert "none but that of the busy host" in words(to_console(make_analysis(findings=(busy,)), full=False))


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

    report = to_console(make_analysis(measurements=(make_measurement("1x1000x1", [None] * 1000),)))
    assert "995 more workers" in report
    assert report.count("worker ") < 20


def test_ops_inside_another_are_indented() -> None:
    report = to_console(make_analysis(profile=None))
    assert re.search(r"^  tf_record ", report, re.MULTILINE)
    assert re.search(r"^interleave ", report, re.MULTILINE)
    assert "Cost of each op" not in report


def test_what_to_type_next_closes_the_gap_that_is_there() -> None:
    without_demand, without_room = (
        words(to_console(make_analysis(recommendation=None, verdict="unknown", confidence=None, **given), full=False))
        for given in ({"consumption": None}, {})
    )
    assert "plan RUN.json --demand SAMPLES_PER_S" in without_demand
    assert "plan RUN.json --nodes N --cpus-per-node N --memory-per-node SIZE" in without_room
