"""Two input functions launched in turns, on a launcher that invents its numbers. No TensorFlow, no processes, no waiting."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cs_input_analyzer as csia
from cs_input_analyzer.cli import main
from cs_input_analyzer.engines import LaunchResult, WorkPlan
from cs_input_analyzer.engines.launch import OnSampled
from cs_input_analyzer.errors import AnalyzerError, InputFunctionError, Interrupted, UsageError
from cs_input_analyzer.records import Analysis, Comparison, Layout, Options, Tool
from cs_input_analyzer.report import render
from cs_input_analyzer.report.to_json import to_json
from cs_input_analyzer.request.again import Relaunch
from cs_input_analyzer.workflows import launched
from cs_input_analyzer.workflows.compare import compare
from cs_input_analyzer.workflows.remeasure import measured_in_turns
from tests.builders import make_analysis, make_graph, make_host, make_measurement
from tests.fakes import FakeLauncher, FakeLaunchHandle

HOST = make_host(cpu_budget=2)
TOOL = Tool(name="cs_input_analyzer", version="0")


def run_of(target: str, *layouts: str) -> Analysis:
    measured = tuple(make_measurement(layout, (1000.0,) * Layout.parse(layout).tasks) for layout in layouts)
    return make_analysis(pipeline=make_graph(target=target), measurements=measured)


OLD, NEW = (run_of(f"data.py:{name}", "1x1x1", "1x2x1") for name in ("old", "new"))


@dataclass
class Drifting(FakeLauncher):
    """A host that becomes faster and slower with time, for whoever runs; targets have `speeds`."""

    rate: Any = None
    speeds: dict[str, float] = field(default_factory=dict)
    draw: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    drift: float = 0.0
    spread: float = 0.02

    def run(self, handle: FakeLaunchHandle, plan: WorkPlan, on_sampled: OnSampled | None = None) -> LaunchResult:  # type: ignore[override]
        self.drift += self.draw.normal(0, 0.02)
        level = 1000 * self.speeds.get(plan.target, 1.0) * float(np.exp(self.drift + self.draw.normal(0, self.spread)))
        self.rate = lambda *_: level * handle.layout.cpus_per_task
        return super().run(handle, plan)


def in_turns(
    launcher: FakeLauncher, old: Analysis = OLD, new: Analysis = NEW, layouts: str = "", max_seconds: float = 300.0
) -> tuple[Analysis, Analysis, int, AnalyzerError | None]:
    wanted, options = tuple(Layout.parse(text) for text in layouts.split(",") if text), Options(max_seconds=max_seconds)
    again = Relaunch(runs=(old, new), options=options, host=HOST, cluster=old.cluster, layouts=wanted, rounds=3)
    return measured_in_turns(again, launcher, lambda *_: None)  # type: ignore[arg-type]


def compared(launcher: FakeLauncher, **choices: Any) -> Comparison:
    old, new, rounds, stopped = in_turns(launcher, **choices)
    return compare(old, new, tool=TOOL, rounds=rounds, stopped=stopped)


def test_both_take_their_turn_in_each_round_and_only_these_launches_count() -> None:
    launcher = Drifting()
    found = compared(launcher)
    ran = [(plan.target, layout) for layout, plan in launcher.ran]
    assert len(ran) == 12
    for first in range(0, 12, 4):
        assert sorted(ran[first : first + 4]) == [
            (f"data.py:{name}", layout) for name in ("new", "old") for layout in ("1x1x1", "1x2x1")
        ]
    assert found.rounds == 3
    assert {row.old_samples_per_s.count for row in found.rates} == {3}
    assert "in turns" in render(found, "console", full=True)


@pytest.mark.parametrize(("speed", "least", "most"), [(1.0, 0.0, 0.1), (0.85, 0.9, 1.0)])
def test_on_a_host_that_drifts_equal_code_is_equal_and_a_slowdown_of_15_percent_is_seen(
    speed: float, least: float, most: float
) -> None:
    draw = np.random.default_rng(7)
    tripped = [
        any(row.change != "no difference seen" for row in compared(Drifting(speeds={"data.py:new": speed}, draw=draw)).rates)
        for _ in range(60)
    ]
    assert least <= np.mean(tripped) <= most


def test_what_both_have_measured_is_launched_as_far_as_it_fits_the_host_and_the_time() -> None:
    old = run_of("data.py:old", "1x1x1", "1x1x2", "1x2x2", "1x1x4")
    launcher = Drifting()
    in_turns(launcher, old=old, new=run_of("data.py:new", "1x1x2", "1x2x2", "1x1x1"))
    assert {layout for layout, _ in launcher.ran} == {"1x1x1", "1x1x2"}
    launcher = Drifting()
    in_turns(launcher, max_seconds=12.0)
    assert {layout for layout, _ in launcher.ran} == {"1x1x1"}


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"new": run_of("data.py:new", "1x1x2")}, "no launch in common"),
        ({"layouts": "1x4x1"}, "needs 4 CPUs, and 2 may be used"),
        ({"max_seconds": 3.0}, "give more time"),
    ],
)
def test_what_cannot_be_launched_is_refused_before_anything_runs(choices: dict[str, Any], said: str) -> None:
    launcher = Drifting()
    with pytest.raises(UsageError, match=said):
        in_turns(launcher, **choices)
    assert launcher.ran == []


def test_what_there_is_at_ctrl_c_is_kept_and_marked() -> None:
    old, new, rounds, stopped = in_turns(Drifting(interrupt_inside=9))
    launches = len(old.measurements) + len(new.measurements)
    assert (launches, rounds, isinstance(stopped, Interrupted)) == (10, 2, True)
    found = compare(old, new, tool=TOOL, rounds=rounds, stopped=stopped)
    assert found.interrupted
    assert "the measuring ended early" in found.not_compared[-1]
    with pytest.raises(Interrupted):
        in_turns(Drifting(interrupt_inside=0))


def test_a_side_without_a_rate_is_no_comparison() -> None:
    class Broken(Drifting):
        def run(self, handle: FakeLaunchHandle, plan: WorkPlan, on_sampled: OnSampled | None = None) -> LaunchResult:  # type: ignore[override]
            found = super().run(handle, plan)
            is_lost = plan.target == "data.py:new"
            return replace(found, measurement=make_measurement(handle.layout, (None,))) if is_lost else found

    with pytest.raises(InputFunctionError, match=r"data\.py:new"):
        in_turns(Broken())


def test_code_that_a_file_names_is_not_run_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for name, run in (("old", OLD), ("new", NEW)):
        files.append(str(tmp_path / f"{name}.json"))
        Path(files[-1]).write_text(to_json(run))
    assert main(["compare", *files, "--measure"]) == 2
    assert "data.py:old" in capsys.readouterr().err
    monkeypatch.setattr(launched, "compare", lambda old, new, **_: compare(old, new, tool=TOOL, rounds=3))
    written = tmp_path / "compared.json"
    assert main(["compare", *files, "--measure", "--yes", "-q", "--json", str(written)]) == 0
    found = json.loads(written.read_text())
    assert ([found["old"]["path"], found["new"]["path"]], found["rounds"]) == (files, 3)


def test_the_same_code_is_not_launched_twice() -> None:
    run = run_of("os.path:join", "1x1x1")
    with pytest.raises(UsageError, match=r"both name os\.path:join with the same params: keep the old version"):
        csia.compare(run, run, measure=True)
