"""Workers as processes of this host: what they see of themselves, how they end, and what is left of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from cs_input_analyzer.engines import LaunchResult, LocalLauncher
from cs_input_analyzer.engines.starting import WorkerKind
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.records import Candidate, Edit, Layout, SourceChange
from cs_input_analyzer.tfdata.load import write_pickled
from tests.builders import make_work_plan
from tests.engines.launching import check_places, launched, plan_for
from tests.functional.running import sleeps_left
from tests.tf_versions import HAS_COSTS, needs_costs
from tests.waiting import comes, is_running

pytestmark = pytest.mark.tf

BUDGET = min(2, len(os.sched_getaffinity(0)))


def test_workers_that_were_never_ordered_are_gone_after_close() -> None:
    launcher = LocalLauncher(cpu_budget=BUDGET, kind=WorkerKind(forks=False))
    handle = launcher.start(Layout.parse("1x2x1"))
    started = psutil.Process().children(recursive=True)
    assert len({process.pid for process in handle.processes} & {process.pid for process in started}) == 2
    with pytest.raises(LaunchError, match="one node"):
        launcher.start(Layout.parse("2x1x1"))
    launcher.close()
    # Who holds the files of a launch ends a moment after its last worker.
    assert comes(lambda: not any(is_running(process) for process in started))
    assert not launcher.folder.exists()


# --- what a worker sees of itself --------------------------------------------------------------------------------------------


def test_each_worker_has_its_own_place(open_launcher: LocalLauncher, tmp_path: Path) -> None:
    params = {"to": f"{tmp_path}/seen-", "batch_size": 4, "nested": {"list": [1, "two", None]}}
    of_step = {"batch_size": 4096, "has_demand": True}  # compared, not counted
    chosen = {"num_workers": 5, "worker_indices": (1, 3), "params_json": json.dumps(params), **of_step}
    found = launched(open_launcher, "tells_what_it_sees", "1x2x1", **chosen)
    assert [worker.index for worker in found.measurement.workers] == [1, 3]
    assert [(worker.status, worker.message) for worker in found.measurement.workers] == [("done", "")] * 2
    assert found.failure is None
    assert (found.pipeline.batch_size, found.pipeline.samples_per_element.value) == (4, 4)
    assert all(each.samples_per_s.estimate == pytest.approx(4 * each.batches_per_s) for each in found.measurement.workers)
    assert found.measurement.num_workers == 5
    assert found.measurement.samples_per_s is not None
    assert found.profile is not None
    assert len({worker.first_batch_digest for worker in found.measurement.workers}) == 1

    seen = [json.loads((tmp_path / f"seen-{index}.json").read_text()) for index in (1, 3)]
    check_places(seen, (1, 3), 5, params, os.getcwd())
    assert all(told["visible"] == "-1" and told["temporary"].startswith(str(open_launcher.folder)) for told in seen)
    assert all(told["in_environment"] == os.environ.get("TMPDIR") for told in seen)  # data may be staged there
    assert seen[0]["tf_config"]["cluster"] == seen[1]["tf_config"]["cluster"]


def test_a_batch_size_of_a_step_that_is_no_multiple_is_refused(launcher: LocalLauncher, tmp_path: Path) -> None:
    params = {"to": f"{tmp_path}/seen-", "batch_size": 4}
    found = launched(launcher, "tells_what_it_sees", params_json=json.dumps(params), batch_size=6, has_demand=True)
    assert found.failure.stage == "load"
    assert "a batch size of 6 is no multiple of the 4 samples" in found.failure.message


def test_a_function_that_cannot_be_imported_travels_pickled(launcher: LocalLauncher, tmp_path: Path) -> None:
    import cloudpickle

    size = 6

    def local_function(params: dict[str, Any]) -> Any:
        import tensorflow as tf

        return tf.data.Dataset.range(1 << 40).map(lambda x: x + 1).batch(size + params["more"], drop_remainder=True)

    file = write_pickled(cloudpickle.dumps(([], cloudpickle.dumps(local_function))), tmp_path)
    found = launched(launcher, "local_function", pickled=str(file), params_json='{"more": 1}')
    assert found.failure is None
    assert found.pipeline.batch_size == 7


def test_a_pickled_function_that_somebody_has_replaced_is_not_run(launcher: LocalLauncher, tmp_path: Path) -> None:
    import cloudpickle

    (tmp_path / "sent").mkdir()
    file = write_pickled(cloudpickle.dumps(([], cloudpickle.dumps(lambda: None))), tmp_path / "sent")
    ran = tmp_path / "ran"
    file.write_bytes(cloudpickle.dumps(([], cloudpickle.dumps(ran.touch))))
    found = launched(launcher, "local_function", pickled=str(file))
    assert "is not the input function that was sent" in found.failure.message
    assert not ran.exists()


@needs_costs
def test_autotune_has_the_cpus_of_the_launch_and_not_the_hosts(open_launcher: LocalLauncher, tmp_path: Path) -> None:
    """An interleave would be an exception: its `parallelism` is bounded by `cycle_length`, whatever the CPUs."""
    params = json.dumps({"to": str(tmp_path / "seen.json")})
    found = launched(open_launcher, "tells_what_autotune_sees", "1x1x1", params_json=params)
    assert found.failure is None
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert (len(seen["cpus"]), seen["budgets"]) == (1, [1])
    (worker,) = found.measurement.workers
    chosen = [tuned.value for tuned in worker.tuned if tuned.parameter == "parallelism"]
    assert max(chosen) == max(seen["parallelism"]) == 1


@pytest.mark.parametrize("extra", [0, 1])
def test_workers_that_share_cpus_say_nothing_of_other_programs(open_launcher: LocalLauncher, extra: int) -> None:
    """Each would count the others as other programs, and its rate would be raised to that on idle CPUs."""
    found = launched(open_launcher, "endless", f"1x{BUDGET + extra}x1", params_json="{}")
    known = [worker.noise.others_ratio is not None for worker in found.measurement.measured_workers]
    assert known == [not extra] * (BUDGET + extra)


# --- how workers end ---------------------------------------------------------------------------------------------------------


def test_a_worker_that_stops_delivering_keeps_what_it_measured(launcher: LocalLauncher) -> None:
    # Long enough to see elements on a busy machine; then it blocks for ever.
    choices = {"max_window_s": 60.0, "deadline_s": launcher.now_s() + 12, "target_error_ratio": 1e-9}
    found = launched(launcher, "blocks_after_a_while", f"1x1x{BUDGET}", **choices)
    (worker,) = found.measurement.workers
    assert (worker.status, found.failure) == ("deadline", None)
    assert worker.message == "ended by us at its deadline while sampling"
    assert worker.samples_per_s.estimate < 110  # a hundredth of a second each
    assert 0 < worker.steady_state.batches < 60
    rows = {op.name: op for op in found.profile.ops}
    if HAS_COSTS:
        assert rows["from_generator"].wait_s_per_sample > 0.001  # what it cost was written on the way


def test_a_bad_record_of_one_worker_does_not_shorten_the_look_at_the_others(launcher: LocalLauncher) -> None:
    seconds = {"min_window_s": 3.0, "max_window_s": 3.0}
    found = launched(launcher, "second_worker_meets_a_bad_record_early", "1x2x1", **seconds)
    first, second = found.measurement.workers
    assert second.status == "data_error"
    assert "nine" in second.message
    assert first.status == "done"
    sampled_s = first.steady_state.transient_s + first.steady_state.window_s - first.first_batch_s
    assert sampled_s > 0.5  # the first batch of the window may come late on a busy host
    assert first.steady_state.stopped_by == "budget"


def test_what_a_worker_starts_ends_with_it_and_its_input_is_empty(launcher: LocalLauncher) -> None:
    """The watch over stray processes (conftest) fails this test for what is left."""
    found = launched(launcher, "leaves_processes_behind")
    assert found.failure is None
    assert sleeps_left() == []


# --- a fix that ends it ---------------------------------------------------------------------------------------------------------

CRASHING = """
import os
import tensorflow as tf

begun = 0

def counted(value):
    # The process dies when a third iterator begins: the first one samples, two more are compared.
    global begun
    begun += value == 0
    if begun == 3:
        os.abort()
    return value

def crashing():
    return tf.data.Dataset.range(10**6).map(lambda value: tf.numpy_function(counted, [value], tf.int64)).map(tf.identity)
"""


@pytest.mark.slow
def test_a_crash_names_the_fix_that_ran_and_keeps_what_was_told(launcher: LocalLauncher, tmp_path: Path) -> None:
    """What was measured, and told of the fixes before, survives whatever a fix does to the process."""
    tried = (Edit(kind="set-buffer", op="map"), Edit(kind="insert-prefetch", op="map"), Edit(kind="insert-prefetch", op="map_2"))
    candidates = tuple(Candidate(name="CSI000", edits=(edit,)) for edit in tried)
    path = tmp_path / "pipelines_of_fixes.py"
    path.write_text(CRASHING)
    window = {"min_window_s": 0.3, "max_window_s": 0.3, "deadline_s": launcher.now_s() + 60}
    plan = make_work_plan(f"{path}:crashing", candidates=candidates, fixes_s=12.0, **window)
    found = launcher.run(launcher.start(Layout.parse("1x1x1")), plan)
    assert not found.outcomes.is_over
    assert found.outcomes.each[0].reason == "map is no prefetch; the buffer of a shuffle decides the order"
    assert found.outcomes.running == 1
    assert found.measurement.samples_per_s is not None  # and what was sampled before is kept
    assert found.outcomes.ended.startswith("killed by signal 6 (SIGABRT)")
    assert not found.outcomes.was_late


@pytest.mark.slow
@pytest.mark.parametrize("has_more", [True, False])
def test_what_was_sampled_is_told_before_parts_run_alone(launcher: LocalLauncher, has_more: bool) -> None:
    told: list[LaunchResult] = []
    plan = plan_for("endless", launcher, want_source=has_more)
    found = launcher.run(launcher.start(Layout.parse("1x1x1")), plan, told.append)
    assert len(told) == has_more
    for early in told:
        assert early.failure is None
        assert early.measurement.samples_per_s == found.measurement.samples_per_s
        assert early.profile is not None


DRAWN = """
import random

import tensorflow as tf

def drawn():
    numbers = list(range(40))
    random.shuffle(numbers)
    dataset = tf.data.Dataset.from_tensor_slices(numbers)
    dataset = dataset.map(tf.identity)
    return dataset.repeat().batch(4)
"""


@pytest.mark.slow
def test_a_worker_proves_the_changed_source_also_where_the_function_draws(launcher: LocalLauncher, tmp_path: Path) -> None:
    """The order of the numbers is drawn anew each time that the function runs."""
    path = tmp_path / "pipelines_that_draw.py"
    path.write_text(DRAWN)
    before = "    dataset = dataset.map(tf.identity)"
    change = SourceChange(source=f"{path}:10", before=before, after=before.replace("y)", "y, num_parallel_calls=2)"))
    fix = Candidate(name="CSI101", edits=(Edit(kind="parallelize", op="map", value=2),), change=change)
    window = {"min_window_s": 0.3, "max_window_s": 0.3, "deadline_s": launcher.now_s() + 60}
    plan = make_work_plan(f"{path}:drawn", candidates=(fix,), texts=((str(path), DRAWN),), fixes_s=12.0, **window)
    found = launcher.run(launcher.start(Layout.parse("1x1x1")), plan)
    (outcome,) = found.outcomes.each
    assert (outcome.source, outcome.source_reason, outcome.is_proven) == ("proven", "", True), outcome
    assert path.read_text() == DRAWN
