"""How fast a node's CPU is beside one of this host: the text that carries it, the ratio, the loop on every core, the flags."""

from __future__ import annotations

import math
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import make_estimate, make_host
from hypothesis import given
from hypothesis import strategies as st
from test_host import topology

from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.machines import cluster
from cs_input_analyzer.machines.node_speed import (
    format_reference,
    model_of,
    one_cpu_per_core,
    ratio_by_loop,
    ratio_by_model,
    read_reference,
    spread_of,
)
from cs_input_analyzer.records import Cluster, Estimate, Options
from cs_input_analyzer.units import parse_estimate

PYTHON = "3.11.2"
rates = st.builds(lambda rate, spread: make_estimate(rate, spread=spread), st.floats(1e6, 1e8), st.floats(0.0, 0.5))


def resolve(loop: Estimate | None = None, declared: Cluster | None = None, **options: object) -> Cluster:
    asked = []

    def run() -> Estimate:
        asked.append(1)
        assert loop is not None, "the loop must not run where nothing is compared"
        return loop

    found = cluster.resolve(Options(**options), make_host(cpu_budget=6), declared=declared, loop=run)  # type: ignore[arg-type]
    assert len(asked) == (loop is not None)
    return found


# --- texts ----------------------------------------------------------------------------------------------------------------------


@given(rates)
def test_what_one_host_prints_another_reads(rate: Estimate) -> None:
    read = read_reference(format_reference(rate, PYTHON), PYTHON)
    assert read.estimate == pytest.approx(rate.estimate, rel=1e-6)
    # Rounded up to a tenth of a percent, and never to none at all.
    assert read.low <= rate.low * 1.000001
    assert read.high >= rate.high * 0.999999
    assert 0.0009 * rate.estimate <= read.high - read.estimate <= rate.high - rate.estimate + 0.0011 * rate.estimate


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


@pytest.mark.parametrize("text", ["", "@3.11", "12@", "12@3", "fast@3.11", "12@3.11@3.11", "12+-1.5%@3.11.2", "10000000+-1.5%@3.9"])
def test_what_is_no_reference_of_this_python(text: str) -> None:
    with pytest.raises(UsageError, match=r"Python 3\.9 on the node .* 3\.11 here" if text.endswith("@3.9") else None):
        read_reference(text, PYTHON)


# --- the ratio ------------------------------------------------------------------------------------------------------------------


@given(st.floats(0.1, 10), rates, st.floats(0.0, 0.5))
def test_the_ratio_there_and_back_is_one(ratio: float, here: Estimate, spread: float) -> None:
    node = make_estimate(ratio * here.estimate, spread=spread)
    there, back = ratio_by_loop(node, here, is_same_cpu=False), ratio_by_loop(here, node, is_same_cpu=False)
    assert there.estimate * back.estimate == pytest.approx(1)
    assert there.low < there.estimate < there.high
    assert there.low * back.high <= 1.0000001


@given(rates)
def test_the_interval_holds_the_errors_of_both_and_of_other_programs(node: Estimate) -> None:
    sure, unsure = make_estimate(1e7, spread=0.0), make_estimate(1e7, spread=0.2)

    def width(here: Estimate, is_same_cpu: bool) -> float:
        found = ratio_by_loop(node, here, is_same_cpu=is_same_cpu)
        return math.log(found.high / found.low)

    assert width(sure, True) <= width(sure, False) < width(unsure, False)
    assert width(sure, True) < width(unsure, True)
    assert width(sure, False) > 2 * math.log(1.09)


# --- the cluster ----------------------------------------------------------------------------------------------------------------

STATED = parse_estimate("1.2+-5%")


@pytest.mark.parametrize(
    ("loop", "options", "expected"),
    [
        (None, {}, (1.0, 1.0, "this host")),
        (None, {"storage_bytes_per_s": 1e9}, (1.0, 1.0, "this host")),
        (None, {"nodes": 4}, (1.0, 1.0, "this host")),
        (None, {"nodes": 4, "cpus_per_node": 64}, None),
        (None, {"cluster": "andromeda"}, None),
        (None, {"cluster": "andromeda", "node_speed_ratio": STATED}, (1.2, 1.26, "stated")),
        # Of another CPU the loop says less than of one of this model.
        (1e7, {"cluster": "andromeda", "node_reference": "15000000+-2%@3.11"}, (1.5, 1.653, "reference loop")),
        (1e7, {"cluster": "alcf-cs2-01", "node_reference": "15000000+-2%@3.11"}, (1.5, 1.53, "reference loop")),
    ],
)
def test_how_fast_the_nodes_are_and_why(
    loop: float | None, options: dict[str, Any], expected: tuple[float, float, str] | None
) -> None:
    found = resolve(None if loop is None else Estimate.exact(loop), **options)
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


def test_two_known_models_are_compared_by_published_scores() -> None:
    # Whole servers without hardware threads: 2,228.6 on 128 cores, 1,900.9 on 64.
    ratio = ratio_by_model("AMD EPYC 9334", "AMD EPYC 7702 64-Core Processor")
    assert ratio.estimate == pytest.approx(1900.9 / 64 / (2228.6 / 128), rel=0.2)
    back = ratio_by_model("AMD EPYC 7702", "AMD EPYC 9334")
    assert ratio.estimate * back.estimate == pytest.approx(1) == ratio.low * back.high
    same = ratio_by_model("AMD EPYC 7702", "AMD EPYC 7702 64-Core Processor")
    assert same.estimate == 1
    assert same.high < ratio.high / ratio.estimate
    for unknown in (None, "AMD EPYC Processor", "EPYC 1"):
        assert ratio_by_model(unknown, "AMD EPYC 7702") is ratio_by_model("AMD EPYC 7702", unknown) is None


def test_published_scores_stand_behind_what_was_stated_or_measured() -> None:
    found = cluster.with_speed_of_models(resolve(cluster="andromeda"), make_host())
    assert (found.speed_ratio, found.speed_basis) == (ratio_by_model("EPYC 7713", make_host().cpu_model), "CPU models")
    stated = resolve(cluster="andromeda", node_speed_ratio=Estimate.exact(1.5))
    unknown = resolve(nodes=4, cpus_per_node=64)  # nodes of another size are not this host, and their model is not known
    for known in (stated, unknown, resolve()):
        assert cluster.with_speed_of_models(known, make_host()) == known


@pytest.mark.parametrize(
    "options", [{"node_speed_ratio": Estimate.exact(1.2)}, {"node_reference": "10000000", "storage_bytes_per_s": 1e9}]
)
def test_a_speed_without_nodes_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"--node-(speed|reference) .* add --cluster or --nodes"):
        cluster.resolve(Options(**options), make_host())  # type: ignore[arg-type]


def test_a_file_may_hold_either(tmp_path: Path) -> None:
    smallest, path = "nodes: 2\ncpus_per_node: 4\nmemory_per_node: 8GiB\n", tmp_path / "lab.yaml"
    path.write_text(smallest + "node_speed: 1.3\nmemory_bandwidth: 150GB/s\n")
    found = resolve(cluster=str(path))
    assert (found.speed_ratio, found.speed_basis) == (Estimate.exact(1.3), "stated")
    assert found.memory_bandwidth_bytes_per_s_per_node == 1.5e11
    path.write_text(smallest + "node_reference: 20000000+-1%@3.11\n")
    found = resolve(Estimate.exact(1e7), cluster=str(path))
    assert found.speed_basis == "reference loop"
    assert found.speed_ratio.estimate == pytest.approx(2)
    # A flag wins, and then nothing needs to run here.
    assert resolve(cluster=str(path), node_speed_ratio=Estimate.exact(1.5)).speed_ratio == Estimate.exact(1.5)


def test_flags_win_over_a_cluster_that_was_declared_in_python() -> None:
    declared = Cluster(nodes=8, cpus_per_node=64, memory_bytes_per_node=2**30)
    assert resolve(declared=declared) == declared
    found = resolve(declared=declared, threads_per_core=2, memory_bandwidth_bytes_per_s_per_node=1e11)
    assert (found.threads_per_core, found.memory_bandwidth_bytes_per_s_per_node, found.nodes) == (2, 1e11, 8)
    assert found.source == "declared, with threads_per_core, memory_bandwidth_bytes_per_s_per_node from flags"
    for ratio in (0.0, 5e-324, 1e-3, 1e3, 1e30):  # that no two CPUs have
        with pytest.raises(UsageError, match="times as fast as one of this host"):
            resolve(declared=replace(declared, speed_ratio=Estimate.exact(ratio)))


# --- the loop -------------------------------------------------------------------------------------------------------------------


def test_of_each_core_one_cpu_runs_the_loop(tmp_path: Path) -> None:
    root = topology(tmp_path, {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"})
    assert one_cpu_per_core(64, allowed=(0, 1, 4, 5), root=root) == (0, 1)
    assert one_cpu_per_core(64, allowed=(4, 5, 1), root=root) == (1, 4)
    assert one_cpu_per_core(1, allowed=(0, 1, 4, 5), root=root) == (0,)
    # Where the kernel does not tell, each is taken for a core.
    assert one_cpu_per_core(64, allowed=(2, 3), root=root) == (2, 3)


def test_the_spread_holds_the_middle_ninety_percent() -> None:
    found = spread_of([float(value) for value in range(101)])
    assert (found.low, found.estimate, found.high, found.count) == (5, 50, 95, 101)
    assert spread_of([7.0]) == Estimate(estimate=7.0, low=7.0, high=7.0, count=1)


def test_the_command_prints_what_the_option_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reference", "--cpus", "1"]) == 0
    out, err = capsys.readouterr()
    (line,) = out.splitlines()
    assert read_reference(line, platform.python_version()).estimate > 0
    assert "--node-reference" in err
