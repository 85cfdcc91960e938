"""The loop of measuring and planning, on a launcher that invents its numbers. No TensorFlow, no processes, no waiting."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.engines import LaunchResult, WorkerFailure, WorkPlan
from cs_input_analyzer.engines.launch import OnSampled
from cs_input_analyzer.errors import AnalyzerError, InputFunctionError, Interrupted, LaunchError, TargetError, UsageError
from cs_input_analyzer.model import buffers, capacity
from cs_input_analyzer.records import Analysis, Cluster, Layout, Options, SamplesPerElement, Tool
from cs_input_analyzer.request.keywords import in_keywords
from cs_input_analyzer.request.request import Request
from cs_input_analyzer.units import format_rate
from cs_input_analyzer.workflows.analyze import analyze
from cs_input_analyzer.workflows.probing.failures import failure_of
from cs_input_analyzer.workflows.probing.launches import shard_indices
from cs_input_analyzer.workflows.probing.probing import Probing
from tests.builders import (
    make_estimate,
    make_files,
    make_graph,
    make_host,
    make_read_rate,
    make_steady_state,
    make_storage,
    make_work_plan,
)
from tests.fakes import FakeLauncher, FakeLaunchHandle
from wafer_model import from_rate

TOOL = Tool(name="cs_input_analyzer", version="0")
CLUSTER = Cluster(nodes=8, cpus_per_node=64, memory_bytes_per_node=256 * 2**30, threads_per_core=1)


def linear(layout: Layout, num_workers: int, index: int) -> float:
    """1,000 samples/s per CPU, whoever else runs."""
    del num_workers, index
    return 1000.0 * layout.cpus_per_task


def job(demand: float | None = None, cluster: Cluster = CLUSTER, budget: int = 2, **options: Any) -> Request:
    return Request(
        target="data.py:train_input_fn",
        pickled=None,
        options=Options(**options),
        host=make_host(cpu_budget=budget),
        cluster=cluster,
        consumption=None if demand is None else from_rate(demand),
        tool=TOOL,
        command="test",
        created_at="2026-01-01T00:00:00+00:00",
    )


def silent(what: str, ratio: float) -> None:
    assert what
    assert 0 <= ratio <= 1


def analyzed(launcher: FakeLauncher, wanted: Request) -> Analysis:
    return analyze(wanted, launcher, silent)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def unhurried() -> tuple[FakeLauncher, Analysis]:
    """A run with time for everything, and what launched it."""
    launcher = FakeLauncher(linear, import_s=1.0)
    return launcher, analyzed(launcher, job(demand=30_000, max_seconds=300))


@dataclass(slots=True)
class UsedUp(FakeLauncher):
    """Its workers see an end of data that claim to have none."""

    def run(self, handle: FakeLaunchHandle, plan: WorkPlan, on_sampled: OnSampled | None = None) -> LaunchResult:  # type: ignore[override]
        found = FakeLauncher.run(self, handle, plan)
        state = make_steady_state(epochs=2, pass_elements=12, stopped_by="data_end")
        workers = tuple(replace(worker, steady_state=state) for worker in found.measurement.workers)
        return replace(found, measurement=replace(found.measurement, workers=workers))


@dataclass(slots=True)
class Cancelled(FakeLauncher):
    """Its second launch does not come up."""

    def start(self, layout: Layout) -> FakeLaunchHandle:
        if self.ran:
            raise LaunchError("the Slurm job is over")
        return FakeLauncher.start(self, layout)


def test_an_engine_that_fails_cuts_the_measuring_short() -> None:
    found = analyzed(Cancelled(linear), job(demand=500))
    assert found.measurements
    assert found.budget.cut_short == "the Slurm job is over"
    assert found.recommendation is not None
    with pytest.raises(LaunchError, match="is over"):
        analyzed(Cancelled(linear, ran=[("1x1x1", make_work_plan())]), job(demand=500))


@pytest.mark.parametrize("current", [None, "1x2x1"])
def test_data_that_ended_for_good_have_no_plan_and_no_verdict(current: str | None) -> None:
    wanted = job(demand=500, current=None if current is None else Layout.parse(current))
    found = analyzed(UsedUp(linear, pipeline=make_graph(is_infinite=True)), wanted)
    assert (found.verdict, found.recommendation, found.confidence) == ("unknown", None, None)
    assert "12 elements" in (found.no_plan or "")
    assert (found.findings[0].code, found.findings[0].severity) == ("CSI302", "error")


def test_it_measures_one_cpu_the_budget_and_several_workers_then_the_plan(unhurried: tuple[FakeLauncher, Analysis]) -> None:
    launcher, found = unhurried
    plan, works = found.recommendation, [(layout, work) for layout, work in launcher.ran if not work.candidates]
    assert {layout for layout, _ in works[:3]} == {"1x1x1", "1x1x2", "1x2x1"}
    assert plan.meets_demand
    assert found.measurements[plan.confirmed_by].num_workers == pytest.approx(plan.input_workers, rel=0.1)
    assert found.verdict == "accelerator_bound"
    assert not found.budget.not_measured
    assert all(measurement.why for measurement in found.measurements)
    # The planned size is launched again, and profiled alone.
    deciding = [m for m in found.measurements if m.layout.cpus_per_task == plan.cpus_per_task]
    assert len(deciding) >= 2
    assert (found.profile.layout.tasks_per_node, found.profile.layout.cpus_per_task) == (1, plan.cpus_per_task)
    assert [point.cpus for point in found.capacity.points if point.tasks == 1] == [1, 2]
    # Later rounds run the plan, with its worker count announced, on other files.
    assert {work.num_workers for _, work in works[3:]} == {plan.input_workers}
    assert {work.begin_ratio for _, work in works[:3]} == {0.5}
    assert {work.begin_ratio for _, work in works[3:]} <= {0.9, 0.0}


def test_a_plan_of_one_node_whose_chief_does_not_stream_is_measured_twice() -> None:
    launcher = FakeLauncher(linear, import_s=1.0)
    one = replace(CLUSTER, nodes=1, cpus_per_node=8, source="this host")
    plan = analyzed(launcher, job(demand=1e8, cluster=one, budget=8, max_seconds=300)).recommendation
    assert plan.input_workers == plan.tasks_per_node - 1
    shape = f"1x{plan.input_workers}x{plan.cpus_per_task}"
    assert [layout for layout, work in launcher.ran if work.num_workers == plan.input_workers and layout == shape] == [shape] * 2


@pytest.mark.parametrize(
    ("demand", "current", "verdict", "meets_demand"),
    [
        (None, None, "unknown", None),
        (30_000, None, "accelerator_bound", True),
        (30_000, "1x2x1", "input_bound", True),  # the launch in use today is judged
        (1e8, None, "input_bound", False),
    ],
)
def test_the_verdict_is_on_the_launch_of_today_or_else_on_the_plan(
    demand: float | None, current: str | None, verdict: str, meets_demand: bool | None
) -> None:
    found = analyzed(FakeLauncher(linear), job(demand=demand, current=current and Layout.parse(current)))
    plan = found.recommendation
    assert (found.verdict, plan.meets_demand) == (verdict, meets_demand)
    assert (found.confidence is None) == (demand is None)
    assert found.verdict_layout == (None if demand is None else Layout.parse(current) if current else plan.layout)
    if meets_demand is False:
        assert plan.headroom_ratio < 0
        assert plan.limited_by


@pytest.mark.parametrize(("typed", "of_demand", "told"), [(None, 96, 96), (64, 96, 64), (None, None, None)])
def test_workers_compare_the_batch_size_that_was_typed_or_that_the_demand_was_made_for(
    typed: int | None, of_demand: int | None, told: int | None
) -> None:
    launcher = FakeLauncher(linear)
    wanted = job(demand=3_000, batch_size=typed, samples_per_element=32, demand_samples_per_s=3_000.0)
    found = analyzed(launcher, replace(wanted, consumption=replace(wanted.consumption, batch_size=of_demand)))
    probes = [plan for _, plan in launcher.ran if not plan.candidates]
    assert {(plan.batch_size, plan.samples_per_element, plan.has_demand) for plan in probes} == {(told, 32, True)}
    assert found.options.batch_size == typed


def test_windows_are_long_enough_for_some_slow_batches() -> None:
    """256 samples a batch, 0.6 s each: eight take 5 s, where a window of this budget would take 4."""

    def slow(layout: Layout, num_workers: int, index: int) -> float:
        return linear(layout, num_workers, index) * 0.4

    launcher = FakeLauncher(slow)
    analyzed(launcher, job(demand=3_000, max_seconds=60.0))
    first, *later = [plan.max_window_s for _, plan in launcher.ran]
    assert first == pytest.approx(4.0)  # nothing is known yet
    assert max(later) > 8 * 256 / 400 * 0.99
    assert launcher.clock_s <= 61


@dataclass(slots=True)
class Noting(FakeLauncher):
    """Notes in which order launches come up and run."""

    noted: list[tuple[str, int]] = field(default_factory=list)

    def start(self, layout: Layout) -> FakeLaunchHandle:
        self.noted.append(("starts", layout.nodes))
        return FakeLauncher.start(self, layout)

    def run(self, handle: FakeLaunchHandle, plan: WorkPlan, on_sampled: OnSampled | None = None) -> LaunchResult:  # type: ignore[override]
        self.noted.append(("runs", handle.layout.nodes))
        return FakeLauncher.run(self, handle, plan)


def test_all_nodes_and_one_are_measured_before_numbers_between_come_up() -> None:
    """A host that imports TensorFlow in the workers of all numbers at once may have no time left to measure any."""
    launcher = Noting(linear, nodes=6)
    found = analyzed(launcher, job(demand=30_000, max_seconds=300))
    assert [point.nodes for point in found.scaling.points] == [1, 2, 4, 6]
    last = launcher.noted.index(("runs", 6))
    assert not {("starts", 2), ("starts", 4)} & set(launcher.noted[:last])


def test_a_host_without_hardware_threads_has_not_seen_what_it_costs_to_share_a_core() -> None:
    nodes = replace(CLUSTER, cpus_per_node=2, threads_per_core=2)
    rates = []
    for threads in (1, 2):
        host = make_host(cpu_budget=2, threads_per_core=threads)
        found = analyzed(FakeLauncher(linear), replace(job(cluster=nodes), host=host))
        assert found.capacity.host_threads_per_core == threads
        rates.append(found.recommendation.predicted_samples_per_s.low / found.recommendation.nodes)
    assert rates[0] < 0.8 * rates[1]


def test_slower_shards_at_the_planned_worker_count_change_the_plan() -> None:
    """Alone a worker reads everything from the cache; with its share of many workers it is three times slower."""

    def sharded(layout: Layout, num_workers: int, index: int) -> float:
        return linear(layout, num_workers, index) / (3 if num_workers > 2 else 1)

    naive = analyzed(FakeLauncher(linear), job(demand=30_000)).recommendation
    launcher = FakeLauncher(sharded)
    plan = analyzed(launcher, job(demand=30_000, max_seconds=300)).recommendation
    assert plan.input_workers * plan.cpus_per_task >= 2.5 * naive.input_workers * naive.cpus_per_task
    assert plan.meets_demand


def test_a_short_budget_measures_one_layout_and_names_the_rest() -> None:
    launcher = FakeLauncher(linear, import_s=8.0)
    found = analyzed(launcher, job(demand=30_000, max_seconds=10))
    assert launcher.ran[0][0] in ("1x1x1", "1x1x2")
    assert found.budget.not_measured
    assert found.recommendation is not None


def test_chosen_layouts_are_measured_instead_of_ours() -> None:
    launcher = FakeLauncher(linear)
    analyzed(launcher, job(probe_layouts=(Layout.parse("1x1x2"),)))
    assert launcher.ran[0][0] == "1x1x2"
    assert all(layout != "1x1x1" for layout, plan in launcher.ran if plan.num_workers == 1)


def test_one_lost_worker_of_two_is_a_warning_and_the_rest_stands() -> None:
    def one_lost(layout: Layout, num_workers: int, index: int) -> float | None:
        return None if index == 1 and layout.tasks_per_node == 2 else linear(layout, num_workers, index)

    found = analyzed(FakeLauncher(one_lost), job())
    assert [finding.code for finding in found.findings if finding.code.startswith("CSI5")] == ["CSI502"]
    assert found.recommendation is not None


def stops_at(count: int, error: BaseException) -> Callable[[int], None]:
    """What a launcher does before its launch of that number."""

    def on_run(done: int) -> None:
        if done == count:
            raise error

    return on_run


@pytest.mark.parametrize(
    "launcher", [FakeLauncher(linear, on_run=stops_at(1, KeyboardInterrupt())), FakeLauncher(linear, interrupt_inside=0)]
)
def test_interrupted_after_or_inside_the_first_launch_keeps_it(launcher: FakeLauncher) -> None:
    found = analyzed(launcher, job(demand=30_000))
    assert found.interrupted
    assert len(launcher.ran) == len(found.measurements) == 1
    assert found.recommendation.nodes
    with pytest.raises(Interrupted):
        analyzed(FakeLauncher(linear, on_run=stops_at(0, KeyboardInterrupt())), job())


def test_files_seen_by_a_worker_of_several_betray_sharding_in_python() -> None:
    graph = make_graph("from_tensor_slices > TFRecordDataset > batch > prefetch", files=make_files(count=3))
    assert not graph.is_sharded
    launcher = FakeLauncher(linear, pipeline=graph)
    found = analyzed(launcher, job(demand=30_000))
    assert found.recommendation.input_workers > 3  # nothing said that the files are shared out


REQUEST, READING = "Error executing an HTTP request:", "\n\t when reading metadata of gs://bucket/x"


@pytest.mark.parametrize(
    ("failure", "error", "words"),
    [
        (("load", "TargetError", "wants x", ""), TargetError, "wants x"),
        (("import", "SystemExit", "0", ""), TargetError, "__main__"),
        (("import", "ImportError", "no foo", '  File "/a/data.py", line 3, in <module>'), TargetError, "/a/data.py:3"),
        (("build", "InvalidArgumentError", "No files matched pattern: x*", ""), UsageError, "no file matches: x* (relative"),
        (("build", "InvalidArgumentError", "No files matched pattern: x", ""), UsageError, "there is no file x (relative"),
        (("first_batch", "NotFoundError", "/x; No such file or directory", ""), UsageError, "there is no file /x"),
        (
            ("build", "FileNotFoundError", "[Errno 2] No such file or directory: 'x'", ""),
            UsageError,
            "there is no file x (relative",
        ),
        (
            ("first_batch", "Empty", "the dataset gave no element: filter in data.py:4 got elements and gave none", ""),
            InputFunctionError,
            "no element: filter in",
        ),
        (("sampling", "TooFew", "", ""), InputFunctionError, "too few elements"),
        (("build", "SystemExit", "3", ""), InputFunctionError, "sys.exit"),
        (("hang", "deadline", "ended by us while waiting to sample", ""), InputFunctionError, "--max-seconds is 60, a larger"),
        (("hang", "start", "ended by us while building the pipeline", ""), InputFunctionError, "--start-timeout is 300, a larger"),
        (("hang", "start", "ended by us while importing TensorFlow", ""), LaunchError, "--start-timeout is 300, a larger"),
        (("version", "AttributeError", "TensorFlow 2.16 lacks tf.lost", ""), UsageError, "2.16 lacks"),
        (("fault", "KeyError", "KeyError: 'x'", "meter.py"), AnalyzerError, "a fault of cs_input_analyzer, not of the input"),
        (("exit", "building the pipeline", "exited with status 7", ""), InputFunctionError, "status 7"),
        (("exit", "importing TensorFlow", "exited with status 1", "libfoo"), LaunchError, "libfoo"),
        (
            ("build", "KeyError", "'vocab_size'", ""),
            InputFunctionError,
            "'vocab_size'; the input function was called",
        ),
        (("build", "UnimplementedError", "File system scheme 's3' not implemented (file: 's3://b/x')", ""), UsageError, "fsspec"),
        (("first_batch", "PermissionDeniedError", f"{REQUEST} HTTP response code 403 {READING}", ""), UsageError, "GOOGLE_APPL"),
        (("build", "FailedPreconditionError", f"{REQUEST} libcurl code 6 meaning 'no host' {READING}", ""), UsageError, "no host"),
        (("first_batch", "PermissionDeniedError", "/data/x; Permission denied", ""), InputFunctionError, "Permission denied"),
        (("build", "UnavailableError", f"{REQUEST} HTTP response code 503 {READING}", ""), InputFunctionError, "503"),
    ],
)
def test_every_failure_becomes_the_right_error(failure: tuple[str, str, str, str], error: type[AnalyzerError], words: str) -> None:
    stage, kind, message, details = failure
    found = failure_of(WorkerFailure(stage=stage, kind=kind, message=message, details=details), Options())
    assert type(found) is error
    assert words in str(found)


def test_a_first_batch_that_never_came_names_the_filters_before_an_endless_repeat() -> None:
    late = WorkerFailure(stage="hang", kind="deadline", message="ended by us while waiting for the first batch", details="")
    for chain, is_told in (("range > filter > repeat > batch", True), ("range > repeat > batch", False), ("filter > batch", False)):
        told = str(failure_of(late, Options(), pipeline=make_graph(chain, is_infinite="repeat" in chain)))
        assert told.endswith("If no element passes filter in input_fn.py:21, the endless repeat never gives a batch") is is_told


def test_a_failure_tells_the_place_before_the_error_once() -> None:
    told = WorkerFailure(stage="first_batch", kind="", message="KeyError: 1", details="", where="map in data.py:9: ")
    assert str(failure_of(told, Options())) == "the input function failed: map in data.py:9: KeyError: 1"


def test_params_are_advised_only_where_they_may_lack_a_key() -> None:
    for stage, kind, is_script in (("build", "ValueError", False), ("first_batch", "KeyError", False), ("build", "KeyError", True)):
        failure = WorkerFailure(stage=stage, kind=kind, message="'vocab_size'", details="")
        assert "--set" not in str(failure_of(failure, Options(), is_script=is_script))


def test_a_missing_key_names_params_as_they_are_given() -> None:
    failure = WorkerFailure(stage="build", kind="KeyError", message="'vocab_size'", details="")
    for options, is_without in ((Options(), True), (Options(params_json="{}"), False)):
        told = str(failure_of(failure, options))
        assert ("was called without params" in told) is is_without
        assert "give it by --params (" in told
        assert "give it by params (" in in_keywords(told)


@given(st.lists(st.integers(0, 10**9), max_size=60), st.integers(1, 50), st.integers(1, 8), st.integers(0, 5))
def test_shard_indices_are_distinct_workers_with_the_largest_and_the_smallest(
    sizes: list[int], workers: int, count: int, seed: int
) -> None:
    indices = shard_indices(sizes, workers, count, random.Random(seed))
    assert len(indices) == len(set(indices)) == min(count, workers)
    assert all(0 <= index < workers for index in indices)
    if sizes and count >= 2:
        sums = [sum(sizes[index::workers]) for index in range(workers)]
        assert max(sums) in {sums[index] for index in indices}
        assert min(sums) in {sums[index] for index in indices}


def big(gib: float) -> FakeLauncher:
    """Cold files are read at a third of the rate; the dataset is so large."""
    graph = make_graph("from_tensor_slices > shard > TFRecordDataset > batch", files=make_files(count=4096, bytes=int(gib * 2**30)))
    launcher = FakeLauncher(linear, pipeline=graph, import_s=1.0)
    launcher.rate = lambda layout, workers, index: (
        linear(layout, workers, index) / (3 if launcher.ran[-1][1].cache == "cold" else 1)
    )
    return launcher


def test_a_dataset_larger_than_a_nodes_memory_is_planned_on_cold_reads() -> None:
    launcher = big(8 * 1024)
    found = analyzed(launcher, job(demand=30_000, max_seconds=300))
    plan = found.recommendation
    assert plan.cache_state == "cold"
    assert {m.cache_state for m in found.measurements} == {"as-is", "cold"}
    hurried = big(8 * 1024)
    hurried.import_s = 3.0
    short = analyzed(hurried, job(demand=30_000, max_seconds=16))
    assert short.recommendation.cache_state == "as-is"
    assert any("cold reads" in what for what in short.budget.not_measured)
    warm = analyzed(big(8), job(demand=30_000, max_seconds=300)).recommendation
    assert warm.cache_state == "as-is"
    assert plan.input_workers * plan.cpus_per_task > 2 * warm.input_workers * warm.cpus_per_task


@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_a_chosen_cache_state_is_kept_whatever_the_size(cache: str) -> None:
    found = analyzed(big(8 * 1024), job(demand=30_000, max_seconds=300, cache=cache))
    assert {m.cache_state for m in found.measurements} <= {cache, "warm"}
    assert found.recommendation.cache_state == cache


def probing_of(
    launcher: FakeLauncher, *layouts: str, told: Callable[[str, float], object] = silent, max_seconds: float = 60.0, **options: Any
) -> Probing:
    """An analysis on four CPUs that has launched these."""
    wanted = Options(max_seconds=max_seconds, **options)
    probing = Probing("a.py:f", None, wanted, make_host(cpu_budget=4), launcher, told)  # type: ignore[arg-type]
    probing.measure_first(tuple(map(Layout.parse, layouts)))
    return probing


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        ({1: 50e8, 2: 90e8, 4: 95e8, 8: 96e8}, 96e8),
        ({1: 50e8, 2: 90e8, 4: 180e8, 8: 350e8}, None),  # more streams would have drawn more
        ({1: 10.0, 2: 11.0}, "launches"),  # workers themselves drew more than the bare reads
        ({}, None),
    ],
)
def test_what_the_storage_gives_one_host_is_no_less_than_workers_drew(
    drawn: dict[int, float], expected: float | str | None
) -> None:
    reads = [make_read_rate(streams, bytes_per_s=rate, cache_state="cold") for streams, rate in drawn.items()]
    probing = probing_of(big(8), "1x1x1", "1x4x1", max_seconds=300.0, cache="cold")
    probing.results.storage = make_storage(reads=tuple(reads))
    found = probing.results.fit().host_read_bytes_per_s
    if expected == "launches":
        worker = probing.results.measurements[0].workers[0]
        assert found >= worker.samples_per_s.estimate * worker.bytes_read_per_sample
    else:
        assert found == expected


@pytest.mark.parametrize("is_measured", [True, False])
def test_a_storage_that_nodes_share_limits_the_plan_where_they_are_those_of_the_plan(is_measured: bool) -> None:
    launcher = FakeLauncher(lambda layout, workers, index: linear(layout, workers, index) / layout.nodes, nodes=4, import_s=1.0)
    found = analyzed(launcher, job(demand=30_000, cluster=replace(CLUSTER, is_measured=is_measured), max_seconds=300))
    assert found.scaling.ceiling_bytes_per_s is not None
    assert found.cluster.measured_storage_bytes_per_s == (found.scaling.ceiling_bytes_per_s if is_measured else None)
    assert found.recommendation.storage == ("measured" if is_measured else "unverified")


def test_a_function_that_shards_only_among_several_is_sharded() -> None:
    whole = make_graph("from_tensor_slices > TFRecordDataset > batch", files=make_files(count=3))
    parts = make_graph("from_tensor_slices > shard > TFRecordDataset > batch", files=make_files(count=3))
    launcher = FakeLauncher(linear, import_s=1.0)
    launcher.on_run = lambda count: setattr(launcher, "pipeline", whole if count == 0 else parts)
    found = analyzed(launcher, job(demand=30_000, max_seconds=300))
    assert found.recommendation.input_workers <= 3
    assert not found.pipeline.is_sharded


def test_a_shard_of_records_is_not_limited_by_the_number_of_files() -> None:
    launcher = FakeLauncher(linear, import_s=1.0)
    launcher.pipeline = make_graph("tf_record > shard > batch", files=make_files(count=3))
    found = analyzed(launcher, job(demand=30_000, max_seconds=300))
    assert found.recommendation.input_workers > 3
    assert "CSI301" not in [one.code for one in found.findings]


@pytest.mark.parametrize("refilling", [None, 0.2])
def test_a_plan_says_how_much_of_the_time_the_accelerator_works(refilling: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "refill_ratio", lambda case: refilling)
    found = analyzed(FakeLauncher(linear, import_s=1.0), job(demand=10_000_000, max_seconds=300)).recommendation
    fed = found.predicted_samples_per_s.estimate / 10_000_000
    assert fed < 1
    assert found.expected_accelerator_utilization.estimate == pytest.approx(fed * (1 - (refilling or 0.0)))


def test_the_model_in_the_run_predicts_what_the_plan_says() -> None:
    """The first run on shards is fast, the next, of fewer workers, slow: the plan is nearer to the first and rests on the last."""
    for seconds in (14, 26, 41):
        announced: list[int] = []

        def uneven(layout: Layout, num_workers: int, index: int, announced: list[int] = announced) -> float:
            if num_workers > 4 and num_workers not in announced:
                announced.append(num_workers)
            factor = 1.0 if num_workers <= 4 else 2.0 if num_workers == announced[0] else 0.7
            return factor * linear(layout, num_workers, index)

        found = analyzed(FakeLauncher(uneven, import_s=1.0), job(demand=30_000, max_seconds=seconds))
        plan, model = found.recommendation, found.capacity
        said = capacity.predict(model, CLUSTER, plan.layout, single_task_nodes=plan.single_task_nodes, feed="round-robin")
        assert said.samples_per_s.estimate == pytest.approx(plan.predicted_samples_per_s.estimate)


# --- the wafer's batch -------------------------------------------------------------------------------------------------------


def test_a_wafer_without_a_batch_size_takes_that_of_the_pipeline_it_saw() -> None:
    samples = SamplesPerElement(value=256, source="batch(256)")
    launcher = FakeLauncher(linear, pipeline=make_graph(samples_per_element=samples))
    found = analyzed(launcher, job(wafer="bert_large", sequence_length=128))
    assert found.consumption.batch_size == 256
    assert found.options.wafer_mode == found.consumption.mode
    assert found.recommendation.meets_demand is not None
    assert {plan.batch_size for _, plan in launcher.ran} == {None}
    assert all(plan.has_demand for _, plan in launcher.ran if not plan.candidates)


def test_without_time_to_read_the_files_it_is_told_where_they_are_and_what_the_readers_alone_gave(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.tfrecord").write_bytes(bytes(1000))
    launcher = FakeLauncher(linear, files=tuple((str(path), 1000) for path in tmp_path.iterdir()))
    told: list[str] = []
    probing = probing_of(launcher, "1x1x1", told=lambda what, spent: told.append(what))
    probing.results.source_samples_per_s = make_estimate(21_000.0)
    launcher.clock_s = 62.0  # the first launch took 3 s to start, and these do not count
    probing.measure_storage()
    assert probing.results.storage.file_system
    assert probing.results.storage.reads == ()
    assert probing.results.storage.source_samples_per_s == make_estimate(21_000.0)
    assert "the storage by itself" in probing.seconds.budget().not_measured
    rate = probing.results.measurements[0].samples_per_s
    known = f"{format_rate(rate.estimate)} measured in 1x1x1, 82 % of the CPU in map (input_fn.py:23)"
    assert told[-1] == f"{known}; reading the files without TensorFlow"
