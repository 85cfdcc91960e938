"""The CPUs that a launch grants are the CPUs that TensorFlow and its AUTOTUNE see; a quota of the control group counts as well."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import make_work_plan

from cs_input_analyzer.engines import LaunchResult, LocalLauncher
from cs_input_analyzer.machines.host import CGROUP
from cs_input_analyzer.records import Layout
from cs_input_analyzer.worker.load import write_pickled
from tests.functional.running import ran

CPUS = len(os.sched_getaffinity(0))


# --- what TensorFlow sees -------------------------------------------------------------------------------------------------------


def tells_what_autotune_sees(params: dict[str, Any]) -> Any:
    """Runs its own pipeline until AUTOTUNE has been through its first rounds, and writes down what its model said."""
    import json
    import os
    import time

    import tensorflow as tf

    def busy(x: Any) -> Any:
        square = tf.random.stateless_uniform([100, 100], [1, 2]) + tf.cast(x, tf.float32) * 0
        for _ in range(3):
            square = tf.linalg.matmul(square, square) * 1e-3
        return x + tf.cast(tf.reduce_sum(square) * 0, x.dtype)

    def pipeline() -> Any:
        mapped = tf.data.Dataset.range(1 << 40).map(busy, num_parallel_calls=-1)
        return mapped.batch(4, num_parallel_calls=-1, drop_remainder=True).prefetch(-1)

    iterator = iter(pipeline())
    budgets, parallelism = set(), set()
    end_s = time.monotonic() + 1.2
    while time.monotonic() < end_s:
        next(iterator)
        model = tf.data.experimental.get_model_proto(iterator)
        budgets.add(model.optimization_params.cpu_budget)
        for node in model.nodes.values():
            parallelism |= {p.state_value for p in node.parameters if p.tunable and p.name == "parallelism"}
    with open(params["to"], "w") as file:
        cpus = sorted(os.sched_getaffinity(0))
        json.dump({"cpus": cpus, "budgets": sorted(budgets), "parallelism": sorted(parallelism)}, file)
    return pipeline()


def launched(launcher: LocalLauncher, cpus: int, to: Path) -> LaunchResult:
    import cloudpickle

    # By value: the worker cannot import this test.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        pickled = write_pickled(cloudpickle.dumps(([], cloudpickle.dumps(tells_what_autotune_sees))), to.parent)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    plan = make_work_plan(
        "tells_what_autotune_sees",
        pickled=str(pickled),
        params_json=json.dumps({"to": str(to)}),
        deadline_s=launcher.now_s() + 90,
    )
    return launcher.run(launcher.start(Layout(nodes=1, tasks_per_node=1, cpus_per_task=cpus)), plan)


@pytest.mark.tf
@pytest.mark.parametrize("cpus", [1, 2])
def test_autotune_has_the_cpus_of_the_launch_and_not_the_hosts(launcher: LocalLauncher, tmp_path: Path, cpus: int) -> None:
    """An interleave would be an exception: its `parallelism` is bounded by `cycle_length`, whatever the CPUs."""
    if cpus > CPUS:
        pytest.skip(f"this machine grants {CPUS} CPU")
    found = launched(launcher, cpus, tmp_path / "seen.json")
    assert found.failure is None
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert len(seen["cpus"]) == cpus
    assert seen["budgets"] == [cpus]
    assert max(seen["parallelism"]) <= cpus
    (worker,) = found.measurement.workers
    chosen = {tuned.op: tuned.value for tuned in worker.tuned if tuned.parameter == "parallelism"}
    assert chosen
    assert max(chosen.values()) <= cpus


# --- the quota of a control group -----------------------------------------------------------------------------------------------


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A private control group (version 1) with half a CPU, and a group inside it; gone afterwards."""
    base = next((CGROUP / name for name in ("cpu", "cpu,cpuacct") if (CGROUP / name / "cpu.cfs_quota_us").exists()), None)
    if base is None:
        pytest.skip("no cpu controller of version 1 with quotas on this machine")
    own = [line.split(":", 2)[2].strip("/") for line in Path("/proc/self/cgroup").read_text().splitlines() if ":cpu" in line]
    outer = base / (own[0] if own else "") / f"cs_input_analyzer_test_{os.getpid()}"
    inner = outer / "step"
    try:
        outer.mkdir()
        inner.mkdir()
        (outer / "cpu.cfs_quota_us").write_text("50000")
        (inner / "cgroup.procs").stat()
    except OSError as error:
        _remove(inner, outer)
        pytest.skip(f"no control group can be made here: {error}")
    yield inner
    _remove(inner, outer)


def _remove(*groups: Path) -> None:
    for group in groups:
        try:
            group.rmdir()
        except OSError:
            continue


@pytest.mark.slow
def test_a_real_quota_below_the_affinity_takes_cpus_away(real_group: Path) -> None:
    code = (
        "import json, os, pathlib, sys\n"
        "pathlib.Path(sys.argv[1], 'cgroup.procs').write_text(str(os.getpid()))\n"
        "from cs_input_analyzer.machines.host import cpu_budget, cpu_sets, cgroup_quota_cpus\n"
        "budget, source = cpu_budget()\n"
        "print(json.dumps([cgroup_quota_cpus(), budget, source, cpu_sets(1, 2, budget), len(os.sched_getaffinity(0))]))\n"
    )
    run = ran([sys.executable, "-c", code, str(real_group)])
    quota, budget, source, sets, affinity = json.loads(run.stdout)
    assert quota == 0.5
    assert affinity == CPUS
    assert budget == 1
    assert source == ("cgroup quota" if CPUS > 1 else "affinity")
    assert [len(cpus) for cpus in sets] == [1]
