"""Predicted against launched, on a launcher that invents its numbers. No TensorFlow, no processes, no waiting."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer import api
from cs_input_analyzer.cli import main
from cs_input_analyzer.engines import WorkerFailure
from cs_input_analyzer.errors import InputFunctionError, Interrupted, LaunchError, TargetError, UsageError
from cs_input_analyzer.records import Analysis, Estimate, Host, Layout, Options, Tool
from cs_input_analyzer.report import render
from cs_input_analyzer.request.again import Relaunch
from cs_input_analyzer.request.request import TOOL
from cs_input_analyzer.workflows.validate import delivered, pooled, validate
from tests.builders import make_estimate, make_graph, make_host, make_measurement, make_noise, make_plan, make_steady_state
from tests.fakes import FakeLauncher, Rate
from tests.workflows.test_analysis import analyzed, job, linear, silent, stops_at

HOST = make_host(cpu_budget=4)


def make_run(rate: Rate = linear, **options: Any) -> Analysis:
    """A run whose model was really fitted."""
    return analyzed(FakeLauncher(rate, import_s=1.0), job(30_000, budget=4, max_seconds=300, **options))


RUN = replace(make_run(), tool=TOOL)


def relaunch_of(
    run: Analysis = RUN, layouts: str = "", *, rounds: int = 3, max_seconds: float = 600.0, host: Host = HOST
) -> Relaunch:
    parsed = tuple(Layout.parse(text) for text in layouts.split(",") if text)
    options = Options(max_seconds=max_seconds)
    return Relaunch(runs=(run,), options=options, host=host, cluster=run.cluster, layouts=parsed, rounds=rounds)


def validated(launcher: FakeLauncher, trial: Relaunch) -> Analysis:
    return validate(trial, launcher, silent)  # type: ignore[arg-type]


def rows_of(found: Analysis) -> dict[str, Any]:
    return {str(row.layout): row for row in found.validation.rows}


def notes_of(found: Analysis) -> str:
    return "\n".join(found.validation.notes)


# --- the error ---------------------------------------------------------------------------------------------------------------


def test_a_host_that_behaves_as_modelled_shows_no_error() -> None:
    found = validated(FakeLauncher(linear), relaunch_of(layouts="1x1x1,1x2x1,1x1x2"))
    rows = rows_of(found)
    assert list(rows) == ["1x1x1", "1x2x1", "1x1x2"]
    for row in rows.values():
        assert row.measured_samples_per_s.estimate == pytest.approx(1000.0 * row.layout.cpus_per_node)
        assert abs(row.error_ratio) < 0.02
        assert row.is_inside
        assert row.measured_samples_per_s.count == 3


@settings(max_examples=10, deadline=None)
@given(st.floats(0.05, 20))
def test_the_error_follows_what_is_delivered_and_not_the_prediction(factor: float) -> None:
    trial = relaunch_of(layouts="1x1x1,1x2x2", rounds=2)
    usual = rows_of(validated(FakeLauncher(linear), trial))
    other = rows_of(validated(FakeLauncher(lambda *launch: factor * linear(*launch)), trial))
    for name, row in other.items():
        assert row.predicted_samples_per_s == usual[name].predicted_samples_per_s
        assert 1 + row.error_ratio == pytest.approx((1 + usual[name].error_ratio) / factor)


@pytest.mark.parametrize(("feed", "expected"), [("first-come", 1900.0), ("round-robin", 1800.0)])
def test_a_feed_in_turns_waits_for_the_slowest_worker(feed: Any, expected: float) -> None:
    """A launch that misses a worker delivered nothing that can be compared."""
    assert delivered(make_measurement("1x2x1", [1000.0, None]), feed) is None
    launcher = FakeLauncher(lambda layout, workers, index: 900.0 if index == 1 else 1000.0)
    run = replace(RUN, options=replace(RUN.options, feed=feed))
    row = rows_of(validated(launcher, relaunch_of(run, "1x2x1")))["1x2x1"]
    assert row.measured_samples_per_s.estimate == pytest.approx(expected)


ESTIMATES = st.builds(lambda value, spread: make_estimate(value, spread=spread), st.floats(1, 1e9), st.floats(0, 0.5))


@given(st.lists(ESTIMATES, min_size=1, max_size=6))
def test_pooling_keeps_the_mean_and_is_never_surer_than_each_launch_allows(launches: list[Estimate]) -> None:
    whole = pooled(launches)
    assert whole.count == len(launches)
    assert whole.estimate == pytest.approx(sum(one.estimate for one in launches) / len(launches))
    assert 0 <= whole.low <= whole.estimate <= whole.high
    within = math.sqrt(sum((one.high - one.estimate) ** 2 for one in launches)) / len(launches)
    assert whole.high - whole.estimate >= within - 1e-12 * whole.estimate


@given(ESTIMATES, st.floats(0.01, 0.5))
def test_launches_that_differ_widen_the_interval(one: Estimate, difference: float) -> None:
    alike, apart = [one, one, one], [one.scaled(1 - difference), one, one.scaled(1 + difference)]
    assert pooled(apart).high > pooled(alike).high
    assert pooled(apart).low < pooled(alike).low


def sharded(layout: Layout, num_workers: int, index: int) -> float:
    """The plan's workers read slower shards."""
    return linear(layout, num_workers, index) / (3 if num_workers > 4 else 1)


def uneven(layout: Layout, num_workers: int, index: int) -> float:
    """The plan's shards are not alike; no CPUs help, so that the plan is of many workers."""
    del layout
    return 1000.0 * ((1.6 if index % 2 else 0.4) if num_workers > 4 else 1.0)


@pytest.mark.parametrize(
    ("rate", "layout"),
    [(sharded, "1x1x1"), (uneven, "1x2x1"), (lambda *launch: uneven(*launch) * (0.4 if launch[1] > 4 else 1.0), "1x2x1")],
    ids=["slower", "uneven", "slower and uneven"],
)
def test_shards_of_the_planned_launch_are_not_charged_to_launches_that_share_all_files(rate: Rate, layout: str) -> None:
    run = make_run(rate)
    assert run.capacity.shard_ratio.high < 0.9 or run.capacity.slowest_ratio < 0.8
    row = rows_of(validated(FakeLauncher(rate), relaunch_of(run, layout)))[layout]
    assert abs(row.error_ratio) < 0.05


# --- how it is launched ------------------------------------------------------------------------------------------------------


def test_every_round_launches_every_layout_once_and_orders_differ() -> None:
    orders = set()
    for seed in range(6):
        launcher = FakeLauncher(linear)
        run = replace(RUN, options=replace(RUN.options, seed=seed))
        validated(launcher, relaunch_of(run, "1x1x1,1x2x1,1x1x2,1x4x1", rounds=4))
        layouts = [layout for layout, _ in launcher.ran]
        rounds = [tuple(layouts[first : first + 4]) for first in range(0, 16, 4)]
        assert [set(names) for names in rounds] == [{"1x1x1", "1x2x1", "1x1x2", "1x4x1"}] * 4
        orders |= set(rounds)
    assert len(orders) > 6


def test_every_started_task_streams_and_is_told_of_no_others() -> None:
    launcher = FakeLauncher(linear)
    validated(launcher, relaunch_of(layouts="1x1x1,1x3x1,1x1x1", rounds=1))
    assert sorted(layout for layout, _ in launcher.ran) == ["1x1x1", "1x3x1"]  # one that is named twice runs once a round
    for layout, work in launcher.ran:
        tasks = Layout.parse(layout).tasks
        assert work.num_workers == tasks
        assert work.worker_indices == tuple(range(tasks))
        assert not work.want_source


def test_all_windows_are_alike_while_there_is_time() -> None:
    launcher = FakeLauncher(linear, import_s=0.1)
    validated(launcher, relaunch_of(layouts="1x1x1,1x2x1", rounds=20))
    assert len(launcher.ran) == 40
    assert len({work.max_window_s for _, work in launcher.ran}) == 1


def test_the_cache_is_in_the_state_of_the_plan_and_params_and_mode_are_those_of_the_run() -> None:
    options = replace(RUN.options, params_json='{"a": 1}', mode="eval")
    run = replace(RUN, options=options, recommendation=replace(RUN.recommendation, cache_state="cold"))
    launcher = FakeLauncher(linear)
    validated(launcher, relaunch_of(run, "1x1x1"))
    ((_, work),) = launcher.ran[:1]
    assert (work.cache, work.params_json, work.mode, work.target) == ("cold", '{"a": 1}', "eval", run.pipeline.target)


def test_rounds_that_do_not_fit_the_time_are_left_out_whole_and_named() -> None:
    launcher = FakeLauncher(linear, import_s=1.0)
    found = validated(launcher, relaunch_of(layouts="1x1x1,1x2x1", rounds=50, max_seconds=40.0))
    counts = Counter(layout for layout, _ in launcher.ran)
    assert 1 <= counts["1x1x1"] == counts["1x2x1"] < 50
    assert f"1x1x1, 1x2x1 measured in {counts['1x1x1']} of 50 rounds: the time was up" in notes_of(found)


# --- what goes into the run --------------------------------------------------------------------------------------------------


def test_launches_join_the_measurements_and_earlier_ones_make_way() -> None:
    first = validated(FakeLauncher(linear), relaunch_of(layouts="1x1x1,1x2x1"))
    again = validated(FakeLauncher(linear), relaunch_of(first, "1x1x2", rounds=2))
    for found, count in ((first, 6), (again, 2)):
        assert found.measurements[: len(RUN.measurements)] == RUN.measurements
        assert [m.role for m in found.measurements[len(RUN.measurements) :]] == ["validate"] * count
    assert list(rows_of(again)) == ["1x1x2"]
    assert replace(again, measurements=RUN.measurements, validation=RUN.validation) == RUN


def test_a_validated_run_can_be_saved_read_and_shown(tmp_path: Path) -> None:
    found = validated(FakeLauncher(linear), relaunch_of(layouts="1x1x1"))
    path = tmp_path / "run.json"
    path.write_text(render(found, "json"))
    assert api.load_analysis(path).validation == found.validation
    for form in ("console", "html"):
        assert "1 of 1 measured rates lie inside the predicted interval" in " ".join(render(found, form, full=True).split())


# --- which layouts -----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 20), st.integers(1, 20), st.integers(1, 16), st.floats(10, 600))
def test_what_is_chosen_fits_this_host_and_the_time_and_has_the_plan_in_it(
    nodes: int, tasks: int, cpus: int, budget: int, seconds: float
) -> None:
    layout = Layout(nodes=nodes, tasks_per_node=tasks, cpus_per_task=cpus)
    workers = max(1, (nodes - 1) * tasks)
    plan = make_plan(layout, input_workers=workers)
    host = make_host(cpu_budget=budget)
    launcher = FakeLauncher(linear, import_s=0.0)
    found = validated(launcher, relaunch_of(replace(RUN, recommendation=plan), host=host, rounds=1, max_seconds=seconds))
    rows = found.validation.rows
    assert len({row.layout for row in rows}) == len(rows)
    assert all(row.layout.nodes == 1 and row.layout.cpus_per_node <= budget for row in rows)
    recommended = rows[0].layout
    roles = [row.role for row in rows]
    assert roles[0] == ("recommended" if recommended == plan.streaming else "part of the plan")
    assert set(roles[1:]) <= {"neighbour"}
    part = Layout(nodes=1, tasks_per_node=min(tasks, workers), cpus_per_task=cpus)
    if part.cpus_per_node <= budget:
        assert recommended == part
    else:
        assert recommended.cpus_per_task == min(cpus, budget)
        assert (recommended.tasks_per_node + 1) * recommended.cpus_per_task > budget
        assert "the largest part of it that fits here" in notes_of(found)


def test_neighbours_are_one_step_away_or_half_or_double() -> None:
    plan = make_plan("4x4x2", input_workers=12)
    host = make_host(cpu_budget=16)
    found = validated(FakeLauncher(linear), relaunch_of(replace(RUN, recommendation=plan), host=host, rounds=1))
    expected = {"1x4x2", "1x3x2", "1x5x2", "1x4x3", "1x4x1", "1x2x4", "1x8x1", "1x2x2", "1x8x2"}
    assert set(rows_of(found)) == expected
    assert "4x4x2 streams from 12 workers; launched was 1x4x2, what one node of it holds" in notes_of(found)
    hurried = relaunch_of(replace(RUN, recommendation=plan), host=host, rounds=1, max_seconds=8)
    found = validated(FakeLauncher(linear, import_s=0.0), hurried)
    assert "no time for" in notes_of(found)
    assert len(rows_of(found)) < 4


def test_the_chief_of_a_launch_of_one_node_does_not_stream_here_either() -> None:
    plan = make_plan("1x3x1", single_task_nodes=0, input_workers=2)
    rows = rows_of(validated(FakeLauncher(linear), relaunch_of(replace(RUN, recommendation=plan), rounds=1)))
    assert [str(row.layout) for row in rows.values() if row.role == "recommended"] == ["1x2x1"]


HEAVY = replace(RUN, capacity=replace(RUN.capacity, private_bytes=2**40))
FEW_FILES = replace(RUN, capacity=replace(RUN.capacity, is_sharded=True, file_count=2))
PLANLESS = replace(RUN, recommendation=None)


@pytest.mark.parametrize(
    ("run", "layouts", "words"),
    [
        (RUN, "2x1x1", "spans 2 nodes, and this host is one"),
        (RUN, "1x1x1,1x5x1", "--layouts 1x5x1: needs 5 CPUs, and 4 may be used here"),
        (RUN, "1x1x1,1x2x1,1x3x1,1x4x1", "give more time, or fewer --layouts"),
        (HEAVY, "1x1x1", "of memory per node"),
        (HEAVY, "", "not even one worker"),
        (FEW_FILES, "1x3x1", "2 files"),
        (replace(RUN, capacity=None), "", "no capacity model"),
        (PLANLESS, "", "--layouts 1x1x1"),
    ],
)
def test_what_cannot_be_launched_is_refused_by_name(run: Analysis, layouts: str, words: str) -> None:
    launcher = FakeLauncher(linear)
    with pytest.raises(UsageError, match=words):
        validated(launcher, relaunch_of(run, layouts, max_seconds=10.0))
    assert launcher.ran == []


def test_few_files_or_no_plan_leave_what_can_be_launched() -> None:
    assert max(row.layout.tasks for row in rows_of(validated(FakeLauncher(linear), relaunch_of(FEW_FILES))).values()) <= 2
    assert rows_of(validated(FakeLauncher(linear), relaunch_of(PLANLESS, "1x1x1")))["1x1x1"].role == "neighbour"


# --- what goes wrong ---------------------------------------------------------------------------------------------------------


def test_a_round_that_lost_a_worker_is_left_out_and_named() -> None:
    launcher = FakeLauncher(linear)

    def loses_one(layout: Layout, workers: int, index: int) -> float | None:
        return None if str(layout) == "1x2x1" and index == 1 and len(launcher.ran) <= 2 else linear(layout, workers, index)

    launcher.rate = loses_one
    found = validated(launcher, relaunch_of(layouts="1x1x1,1x2x1"))
    row = rows_of(found)["1x2x1"]
    assert row.measured_samples_per_s.estimate == pytest.approx(2000.0)
    assert row.measured_samples_per_s.count == 2
    assert "1x2x1 measured in 2 of 3 rounds: a worker gave no rate" in notes_of(found)


def test_a_layout_that_always_loses_a_worker_has_no_row_and_the_others_stand() -> None:
    launcher = FakeLauncher(lambda layout, workers, index: None if index == 1 else linear(layout, workers, index))
    found = validated(launcher, relaunch_of(layouts="1x1x1,1x2x1"))
    assert list(rows_of(found)) == ["1x1x1"]
    assert "1x2x1 measured in 0 of 3 rounds: a worker gave no rate" in notes_of(found)
    with pytest.raises(InputFunctionError, match="a worker gave no rate"):
        validated(launcher, relaunch_of(layouts="1x2x1"))


class ChangedLauncher(FakeLauncher):
    """The workers of the launches in `changes` are others."""

    changes: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def run(self, *args: Any, **known: Any) -> Any:
        result = super().run(*args, **known)
        measured = result.measurement
        workers = tuple(replace(worker, **self.changes.get(str(measured.layout), {})) for worker in measured.workers)
        return replace(result, measurement=replace(measured, workers=workers))


def test_a_first_pass_that_fills_a_cache_is_not_compared_with_the_rate_of_a_full_one() -> None:
    launcher = ChangedLauncher(linear)
    launcher.changes = {"1x2x1": {"steady_state": make_steady_state(is_filling_cache=True)}}
    found = validated(launcher, relaunch_of(layouts="1x1x1,1x2x1"))
    assert list(rows_of(found)) == ["1x1x1"]
    assert "1x2x1 measured in 0 of 3 rounds: its cache was not full" in notes_of(found)
    with pytest.raises(UsageError, match=r"nothing to compare: 1x2x1 .* --max-seconds"):
        validated(launcher, relaunch_of(layouts="1x2x1"))


def test_a_host_that_is_busier_than_in_the_run_is_noted() -> None:
    idle, launcher = make_noise(others_ratio=0.02), ChangedLauncher(linear)
    measured = tuple(replace(m, workers=tuple(replace(worker, noise=idle) for worker in m.workers)) for m in RUN.measurements)
    launcher.changes = {"1x1x1": {"noise": make_noise(others_ratio=0.6)}}
    found = validated(launcher, relaunch_of(replace(RUN, measurements=measured), "1x1x1"))
    assert notes_of(found) == "other programs used 60 % of the CPUs, 2 % when the run was measured"
    assert not found.validation.is_alike  # type: ignore[union-attr]


@pytest.mark.parametrize("start", [lambda launcher: analyzed(launcher, job()), lambda launcher: validated(launcher, relaunch_of())])
def test_a_function_that_fails_ends_at_the_first_launch_with_its_own_error(start: Callable[[FakeLauncher], Analysis]) -> None:
    failure = WorkerFailure(stage="build", kind="ValueError", message="no vocabulary", details="line 3")
    launcher = FakeLauncher(lambda layout, workers, index: None, failure=failure)
    with pytest.raises(InputFunctionError, match="no vocabulary") as raised:
        start(launcher)
    assert raised.value.details == "line 3"
    assert len(launcher.ran) == 1


@pytest.mark.parametrize("done", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [(KeyboardInterrupt(), Interrupted, "interrupted"), (LaunchError("no space left"), LaunchError, "no space left")],
    ids=["interrupt", "full disk"],
)
def test_what_was_measured_before_the_end_is_kept_and_said(
    done: int, error: BaseException, raised: type[Exception], words: str
) -> None:
    launcher, is_interrupted = FakeLauncher(linear, on_run=stops_at(done, error)), raised is Interrupted
    if not done:
        with pytest.raises(raised, match=words):
            validated(launcher, relaunch_of(layouts="1x1x1,1x2x1"))
        return
    found = validated(launcher, relaunch_of(layouts="1x1x1,1x2x1"))
    assert (found.validation.interrupted, found.interrupted) == (is_interrupted, False)
    assert sum(row.measured_samples_per_s.count for row in found.validation.rows) == done
    assert words in notes_of(found)
    assert ("INTERRUPTED" in render(found, "console", full=True)) is is_interrupted


# --- another host, another version -------------------------------------------------------------------------------------------


def test_nothing_is_noted_where_nothing_differs() -> None:
    filled = tuple(replace(m, page_cache_ratio=float(index > 0)) for index, m in enumerate(RUN.measurements))
    for run in (RUN, replace(RUN, measurements=filled)):
        found = validated(FakeLauncher(linear), relaunch_of(run, "1x1x1"))
        assert notes_of(found) == ""
        assert found.validation.is_alike


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": replace(HOST, tensorflow_version=None)}, "TensorFlow 2.18.0, now unknown"),
        (
            {"host": replace(HOST, cpu_model="Xeon")},
            "CPU model AMD EPYC 7702P, now Xeon; so the predicted rates are on an idle node",
        ),
        ({"run": replace(RUN, tool=Tool(name="cs_input_analyzer", version="0"))}, f"analyzer 0, now {TOOL.version}"),
        ({"run": replace(RUN, interrupted=True)}, "the run was interrupted"),
        ({"run": replace(RUN, pipeline=make_graph("tf_record > batch"))}, "not the one of the run any more"),
        (
            {"run": replace(RUN, measurements=tuple(replace(m, page_cache_ratio=0.1) for m in RUN.measurements))},
            "100 % of the files were in the page cache, 10 % when the run was measured",
        ),
    ],
)
def test_what_differs_from_the_run_is_noted(changes: dict[str, Any], words: str) -> None:
    found = validated(FakeLauncher(linear), relaunch_of(**{"run": RUN, "layouts": "1x1x1", **changes}))
    assert words in notes_of(found)
    assert len(found.validation.notes) == 1  # type: ignore[union-attr]
    assert not found.validation.is_alike  # type: ignore[union-attr]  # later runs learn nothing from it
    assert words.split(",")[0] in " ".join(render(found, "console", full=True).split())


def test_another_processor_is_a_machine_of_unknown_speed() -> None:
    """Where the run came from a like machine its prediction is sharp; elsewhere the interval has to say that it does not know."""
    here, elsewhere = (
        rows_of(validated(FakeLauncher(linear), relaunch_of(layouts="1x1x1", host=replace(HOST, cpu_model=model))))["1x1x1"]
        for model in (HOST.cpu_model, "Xeon")
    )
    width = [row.predicted_samples_per_s.relative_half_width_ratio for row in (here, elsewhere)]
    assert width[1] > 1.5 * width[0]


# --- through the doors -------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text(render(replace(RUN, pipeline=replace(RUN.pipeline, target="os.path:join")), "json"))
    return path


def edited(saved: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    document = json.loads(saved.read_text())
    change(document)
    saved.write_text(json.dumps(document))
    return saved


def says(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    return shown.err


KNOWN = "sample_pipelines.fc_mnist:train_input_fn"


def aimed_at(target: str) -> Callable[[dict[str, Any]], None]:
    return lambda run: run["pipeline"].update(target=target)


def without_a_model(run: dict[str, Any]) -> None:
    run["pipeline"]["target"] = KNOWN
    del run["capacity"]


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        (aimed_at("notebook:train.<locals>.input_fn"), ["--yes"], "handed over in Python"),
        (aimed_at("__main__:input_fn"), ["--yes"], "handed over in Python"),
        (aimed_at(""), ["--yes"], "not understood"),
        # A worker that no host can hold: should an option get through after all, nothing is started.
        (lambda run: run["capacity"].update(private_bytes=2**60), ["--yes", "--layouts", "1x1x1,"], "--layouts 1x1x1: needs"),
        (lambda run: run["capacity"].update(private_bytes=2**60), ["--yes", "--layouts", ","], "names no layout"),
        # A target that is typed again is believed.
        (aimed_at(KNOWN), ["--target", "other.py:input_fn"], f"is a run of {KNOWN}"),
        (without_a_model, ["--target", KNOWN], "no capacity model"),
        (without_a_model, ["--yes"], "no capacity model"),
    ],
)
def test_what_cannot_be_validated_is_refused(
    saved: Path, capsys: pytest.CaptureFixture[str], change: Any, arguments: list[str], words: str
) -> None:
    edited(saved, change)
    assert words in says(capsys, ["validate", str(saved), *arguments])
    if words in ("handed over in Python", "not understood"):
        with pytest.raises(TargetError):
            api.load_analysis(saved).validate()


def test_a_run_without_what_was_added_to_the_model_is_read_and_validated(saved: Path) -> None:
    def older(run: dict[str, Any]) -> None:
        del run["capacity"]["host_threads_per_core"], run["capacity"]["whole_slowest_ratio"], run["host"]["threads_per_core"]

    run = api.load_analysis(edited(saved, older))
    assert run.capacity.host_threads_per_core is run.capacity.whole_slowest_ratio is run.host.threads_per_core is None
    host = make_host(cpu_budget=4, threads_per_core=2)  # now it is known: the run's own host, whose probes paid for its threads
    row = rows_of(validated(FakeLauncher(linear), relaunch_of(run, "1x4x1", host=host)))["1x4x1"]
    assert abs(row.error_ratio) < 0.05


def test_code_that_a_file_names_is_shown_and_not_run(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trap = f"script:1:python -m timeit -n1 -r1 __import__('pathlib').Path('{tmp_path}/hit').touch()"
    edited(saved, lambda run: (run["pipeline"].update(target=trap), run.pop("capacity")))
    said = says(capsys, ["validate", str(saved)])
    assert "add --yes if you trust it" in said
    assert "python -m timeit" in said
    assert not (tmp_path / "hit").exists()
    for command in (["report", str(saved)], ["compare", str(saved), str(saved)]):
        main(command)
    assert not (tmp_path / "hit").exists()
