"""Each rule: when it fires, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer import rules
from cs_input_analyzer.records import Case, Finding, Training
from tests.builders import (
    make_case,
    make_cluster,
    make_files,
    make_graph,
    make_measurement,
    make_plan,
    make_steady_state,
    make_worker,
)

GIB = 2**30


def found(code: str, case: Case) -> list[Finding]:
    return [finding for finding in rules.find(case) if finding.code == code]


def roomy(**overrides: Any) -> Case:
    """A case in which nothing is wrong."""
    settings: dict[str, Any] = {
        "pipeline": make_graph(
            "tensor_slices > shard > interleave > shuffle*2560 > map*8 > batch > prefetch",
            files=make_files(count=1024, bytes=64 * GIB, largest_bytes=2**26, smallest_bytes=2**26),
            is_infinite=True,
            cardinality=None,
        ),
        "is_sharded": True,
        "measurements": (make_measurement("1x1x2"),),
        "plan": make_plan("5x16x2", input_workers=79, cache_state="as-is", memory_bytes_per_node=20 * GIB),
        "cluster": make_cluster(memory_bytes_per_node=256 * GIB),
    }
    return make_case(**(settings | overrides))


def test_no_rule_fires_where_nothing_is_wrong() -> None:
    assert rules.find(roomy()) == ()


@pytest.mark.parametrize(
    ("gib", "is_sharded", "cache_state", "severity"),
    [
        (2000, True, "cold", "info"),
        (2000, True, "as-is", "warning"),
        (2000, True, "warm", "warning"),
        (300, False, "as-is", "warning"),
        (300, True, "as-is", None),
        (200, False, "as-is", None),
    ],
)
def test_a_dataset_that_a_node_cannot_keep_is_told(gib: int, is_sharded: bool, cache_state: str, severity: str | None) -> None:
    case = roomy()
    assert case.plan is not None
    pipeline = replace(case.pipeline, files=make_files(count=1024, bytes=gib * GIB))
    plan = replace(case.plan, cache_state=cache_state)  # type: ignore[arg-type]
    findings = found("CSI503", replace(case, pipeline=pipeline, plan=plan, is_sharded=is_sharded))
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_a_worker_lost_in_several_launches_is_one_finding() -> None:
    gone = make_worker(None, index=1, status="lost", message="killed by signal 9")
    well = make_measurement("1x2x1", [1000.0, 1000.0])
    bad = replace(well, workers=(well.workers[0], gone))
    (finding,) = found("CSI502", roomy(measurements=(bad, well, bad)))
    assert finding.evidence["launches_lost"] == 2
    assert finding.evidence["launches"] == 3
    assert "in 2 of 3 launches" in finding.message
    assert "signal 9" in finding.message
    assert found("CSI502", roomy(measurements=(well,))) == []


def test_a_worker_that_our_own_deadline_ended_is_not_called_lost() -> None:
    late = make_worker(None, index=1, status="deadline", message="ended at its deadline while waiting for the first batch")
    both = make_measurement("1x2x1", [1000.0, 1000.0])
    short = replace(both, workers=tuple(replace(late, index=index) for index in range(2)))
    assert found("CSI502", roomy(measurements=(short,))) == []  # there was no time for any of them
    (behind,) = found("CSI502", roomy(measurements=(replace(both, workers=(both.workers[0], late)),)))
    assert behind.severity == "info"
    assert "lost" not in behind.message
    assert "waiting for the first batch" in behind.message
    stuck = make_worker(1000.0, status="deadline", message="ended at its deadline while sampling")
    (blocked,) = found("CSI502", roomy(measurements=(replace(make_measurement("1x1x1"), workers=(stuck,)),)))
    assert blocked.severity == "info"
    assert "not done in time" in blocked.message
    assert "--max-seconds" in (blocked.fix or "")


def test_one_damaged_record_is_one_finding_however_often_it_is_met() -> None:
    def broken(batches: int) -> Any:
        worker = make_worker(1000.0, status="data_error", message=f"after {batches} batches: corrupted record at 12")
        return replace(make_measurement("1x1x1"), workers=(worker,))

    assert len(found("CSI501", roomy(measurements=(broken(3), broken(5))))) == 1


@pytest.mark.parametrize(
    ("epochs", "is_infinite", "mode", "fires"),
    [(2, False, "train", True), (0, False, "train", False), (2, False, "eval", False), (2, True, "train", False)],
)
def test_a_dataset_that_ended_in_training_is_told(epochs: int, is_infinite: bool, mode: str, fires: bool) -> None:
    worker = make_worker(1000.0, steady_state=make_steady_state(epochs=epochs))
    measurement = replace(make_measurement("1x1x1"), workers=(worker,))
    pipeline = replace(roomy().pipeline, is_infinite=is_infinite)
    assert bool(found("CSI302", roomy(measurements=(measurement,), pipeline=pipeline, mode=mode))) is fires


@pytest.mark.parametrize(
    ("cardinality", "training", "others", "batches"),
    [
        (100, Training(steps=10_000), {"is_sharded": False}, 100 * 79),  # each worker has all of them
        (10, Training(steps=1000), {"is_sharded": False}, 10 * 79),
        (10, Training(steps=1000), {"is_sharded": True}, 10),  # the first launch had one worker
        (10, Training(steps=1000, epochs=100), {"is_sharded": True}, None),
        (1000, Training(steps=1000), {"is_sharded": True}, None),
        (10, Training(steps=1000), {"is_sharded": True, "mode": "eval"}, None),
        (10, Training(), {"is_sharded": True}, None),
        (None, Training(steps=1000), {"measurements": ()}, None),
        (None, Training(steps=10_000), {}, 64 * GIB / 146_800 / 256 / 0.8),
        (None, Training(steps=2_000), {}, None),  # as many as that, roughly
    ],
)
def test_data_that_end_before_the_steps_do_are_told(
    cardinality: int | None, training: Training, others: dict[str, Any], batches: float | None
) -> None:
    pipeline = replace(roomy().pipeline, is_infinite=False, cardinality=cardinality)
    worker = make_worker(steady_state=make_steady_state(epochs=0))
    launch = replace(make_measurement("1x1x1"), workers=(worker,))
    findings = found("CSI302", roomy(**({"pipeline": pipeline, "training": training, "measurements": (launch,)} | others)))
    wanted = batches is not None and training.steps is not None and batches < training.steps
    assert [finding.severity for finding in findings] == (["warning"] if wanted else [])
    assert all(finding.evidence["batches"] == pytest.approx(batches) for finding in findings)


@pytest.mark.parametrize(("directory", "fires"), [("/data/mnist/3.0.1", False), ("/data/v3", True), ("/data/3.0.1/train", True)])
def test_the_files_of_tensorflow_datasets_are_not_to_be_written_by_hand(directory: str, fires: bool) -> None:
    pipeline = replace(roomy().pipeline, files=make_files(count=8, bytes=GIB, directory=directory))
    assert bool(found("CSI301", roomy(pipeline=pipeline, is_sharded=True))) is fires


def test_a_redirected_cache_is_told() -> None:
    pipeline = replace(roomy().pipeline, redirected=("/data/cache",))
    (finding,) = found("CSI203", roomy(pipeline=pipeline))
    assert "/data/cache" in finding.message
