"""The simulated nodes obey the laws that they are made of, and a truth that cannot be read is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.simulated_nodes import events, laws
from benchmarks.simulated_nodes.__main__ import TRUTHS, missed_gates, run, summary
from benchmarks.simulated_nodes.truth import Node, Nodes, Pipeline, Truth, read_truth


def truth(simulates: str = "events", **parts: dict[str, Any]) -> Truth:
    node = {"cpus": 8} | parts.get("node", {})
    pipeline = {"parallel_s": 0.004, "element_cv": 0.0} | parts.get("pipeline", {})
    cluster = {"nodes": 4} | parts.get("cluster", {})
    return Truth(name="t", simulates=simulates, node=Node(**node), cluster=Nodes(**cluster), pipeline=Pipeline(**pipeline))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parts", "launch", "rate"),
    [
        ({}, (1, 1, 1), 250),
        ({}, (1, 1, 8), 2000),
        ({}, (1, 8, 1), 250),
        ({"pipeline": {"parallel_s": 0.003, "serial_s": 0.001}}, (1, 1, 8), 1000),  # one thread at a time
        ({"pipeline": {"parallel_s": 0.003, "python_s": 0.001}}, (1, 2, 4), 1000),  # one lock for each process
        ({"node": {"all_core_clock": 0.8}}, (1, 8, 1), 200),
        ({"node": {"threads_per_core": 2, "smt_gain": 0.2}}, (1, 8, 1), 150),  # two threads do 1.2 times the work of one
        ({"node": {"memory_bytes_per_s": 1e9}, "pipeline": {"memory_bytes": 1e6}}, (1, 8, 1), 125),
        ({"cluster": {"storage_bytes_per_s": 1e8}, "pipeline": {"read_bytes": 1e5}}, (1, 8, 1), 125),
        ({"cluster": {"storage_bytes_per_s": 1e8}, "pipeline": {"read_bytes": 1e5}}, (4, 8, 1), 31.25),  # nodes share it
    ],
)
@pytest.mark.parametrize("simulates", ["events", "law"])
def test_both_kinds_of_truth_obey_the_bottleneck_law(
    simulates: str, parts: dict[str, Any], launch: tuple[int, int, int], rate: float
) -> None:
    made = truth(simulates, **parts)
    found = (laws if simulates == "law" else events).rates_of(made)(*launch)
    assert found.samples_per_s == pytest.approx(rate, rel=0.1)
    assert found.samples_per_s * found.cpu_s_per_sample <= launch[2] * 1.1  # no worker uses more CPUs than it has


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- 1", "a truth is a mapping"),
        ("simulates: guess", "a truth is a mapping"),
        ("simulates: law\nnode: {cpus: 8}\npipeline: {parallel_s: 1}\nnoise: {loud: 1}", "noise has the keys"),
        ("simulates: law\nnode: {cpus: 8}", "pipeline"),
        ("simulates: law\nmood: 1", "unknown keys"),
    ],
)
def test_a_truth_that_cannot_be_read_is_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(SystemExit, match=told):
        read_truth(tmp_path / "t.yaml")


def test_a_run_has_what_the_interface_names_and_a_wrong_model_is_seen() -> None:
    path = TRUTHS / "jpeg_64.yaml"
    found = run(path, [1])
    assert {"truth", "cpus", "launches", "worker_starts", "plan", "pick_over_best", "rows"} <= set(found[0])
    assert {"layout", "true_samples_per_s", "predicted_samples_per_s", "inside", "is_plan"} <= set(found[0]["rows"][0])
    good = summary("good", found)
    assert not list(missed_gates([good, good]))
    for row in found[0]["rows"]:
        row["true_samples_per_s"] *= 0.8
    assert list(missed_gates([summary("bad", found), summary("bad", found)]))
