"""How fast a node's CPU is beside one of this host: the number with its error, the model, the option."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import make_host

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.host import cluster
from cs_input_analyzer.host.node_speed import model_of, with_speed_of_same_model
from cs_input_analyzer.records import Cluster, Estimate, Options
from cs_input_analyzer.units import parse_estimate


def resolve(declared: Cluster | None = None, **options: object) -> Cluster:
    return cluster.resolve(Options(**options), make_host(cpu_budget=6), declared=declared)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2", (1.2, 1.2, 1.2)),
        ("1.2x", (1.2, 1.2, 1.2)),
        (" 1.2 +- 5 % ", (1.14, 1.2, 1.26)),
        ("2±50%", (1.0, 2.0, 3.0)),
        ("1e7+/-1.5%", (9.85e6, 1e7, 1.015e7)),
    ],
)
def test_a_number_with_its_error(text: str, expected: tuple[float, float, float]) -> None:
    found = parse_estimate(text)
    assert (found.low, found.estimate, found.high) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "fast", "1.2+-5", "1.2+-", "0", "-1", "nan", "inf", "1.2+-100%", "1.2 1.3", "1e999"])
def test_what_is_no_such_number(text: str) -> None:
    with pytest.raises(UsageError):
        parse_estimate(text)


STATED = parse_estimate("1.2+-5%")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (1.0, 1.0, "this host")),
        ({"storage_bytes_per_s": 1e9}, (1.0, 1.0, "this host")),
        ({"nodes": 4}, (1.0, 1.0, "this host")),
        ({"nodes": 4, "cpus_per_node": 64}, None),
        ({"cluster": "andromeda"}, None),
        ({"cluster": "andromeda", "node_speed_ratio": STATED}, (1.2, 1.26, "stated")),
    ],
)
def test_how_fast_the_nodes_are_and_why(options: dict[str, Any], expected: tuple[float, float, str] | None) -> None:
    found = resolve(**options)
    if expected is None:
        assert found.speed_ratio is None
    else:
        assert (found.speed_ratio.estimate, found.speed_ratio.high) == pytest.approx(expected[:2], rel=1e-3)
        assert found.speed_basis == expected[2]


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("AMD EPYC 7713 64-Core Processor", "EPYC 7713"),
        ("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", "XEON GOLD 6248"),
        ("Intel(R) Xeon(R) CPU           E5-2660 v2 @ 2.20GHz", "XEON E5-2660 V2"),
        ("Intel(R) Xeon(R) CPU E5-2660 0 @ 2.20GHz", "XEON E5-2660"),
        ("INTEL(R) XEON(R) PLATINUM 8592+", "XEON PLATINUM 8592+"),
        ("AMD Ryzen 9 5950X 16-Core Processor", "AMD RYZEN 9 5950X 16-CORE PROCESSOR"),
        ("AMD EPYC Processor", None),
        ("Intel Core Processor (Haswell, no TSX, IBRS)", None),
        ("", None),
        (None, None),
    ],
)
def test_the_model_is_found_in_what_a_kernel_writes(text: str | None, model: str | None) -> None:
    assert model_of(text) == model


def test_nodes_of_the_same_model_are_as_fast_and_of_another_nothing_is_known() -> None:
    host = make_host(cpu_model="AMD EPYC 7713 64-Core Processor")
    nodes = resolve(cluster="andromeda")
    found = with_speed_of_same_model(nodes, host)
    assert (found.speed_ratio.estimate, found.speed_basis) == (1, "same model")
    assert found.speed_ratio.low < 1 < found.speed_ratio.high
    for model in ("AMD EPYC 7702P", "AMD EPYC Processor", None):
        assert with_speed_of_same_model(nodes, replace(host, cpu_model=model)) == nodes
    stated = resolve(cluster="andromeda", node_speed_ratio=Estimate.exact(1.5))
    unknown = resolve(nodes=4, cpus_per_node=64)  # nodes of another size are not this host, and their model is not known
    for known in (stated, unknown, resolve()):
        assert with_speed_of_same_model(known, host) == known


def test_a_speed_without_nodes_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--node-speed .* add --cluster or --nodes"):
        resolve(node_speed_ratio=Estimate.exact(1.2))


def test_a_file_may_hold_it_and_an_option_wins(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("nodes: 2\ncpus_per_node: 4\nmemory_per_node: 8GiB\nnode_speed: 1.3\nmemory_bandwidth: 150GB/s\n")
    found = resolve(cluster=str(path))
    assert (found.speed_ratio, found.speed_basis) == (Estimate.exact(1.3), "stated")
    assert found.memory_bandwidth_bytes_per_s_per_node == 1.5e11
    assert resolve(cluster=str(path), node_speed_ratio=Estimate.exact(1.5)).speed_ratio == Estimate.exact(1.5)


def test_options_win_over_a_cluster_that_was_declared_in_python() -> None:
    declared = Cluster(nodes=8, cpus_per_node=64, memory_bytes_per_node=2**30)
    assert resolve(declared=declared) == declared
    found = resolve(declared=declared, nodes=4, storage_bytes_per_s=1e9)
    assert (found.nodes, found.storage_bytes_per_s, found.cpus_per_node) == (4, 1e9, 64)
    assert found.source == "declared, with nodes, storage_bytes_per_s from flags"
    for ratio in (0.0, 5e-324, 1e-3, 1e3, 1e30):  # that no two CPUs have
        with pytest.raises(UsageError, match="times as fast as one of this host"):
            resolve(declared=replace(declared, speed_ratio=Estimate.exact(ratio)))
