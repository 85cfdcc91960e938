"""One node, then more: when the storage that they share is said to be the limit, when not, and how high it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from builders import make_estimate, make_measurement, make_noise, make_worker

from cs_input_analyzer.model import capacity
from cs_input_analyzer.records import Layout, Measurement, Scaling, WorkerResult
from cs_input_analyzer.workflows.probing.launches import scaling_nodes

BYTES_PER_SAMPLE = 1000.0
NODE_PER_S = 10_000.0  # what a node's two workers deliver alone, together
COST_S = 1.5e-4


def launch(nodes: int, total_per_s: float, *, busy: str = "waits", **changes: Any) -> Measurement:
    """`nodes` × 2 workers that deliver `total_per_s` together. `busy`: what they do with the time they lose."""
    rate = total_per_s / nodes / 2
    queued = 0.0 if busy == "waits" else max(0.0, NODE_PER_S / 2 / rate - 1)
    workers = tuple(worker(rate, queued) for _ in range(2 * nodes))
    given = {"workers": workers, "num_workers": len(workers), "samples_per_s": make_estimate(total_per_s)}
    return make_measurement(f"{nodes}x2x1", **(given | changes))


def worker(rate: float, queued: float = 0.0, **known: Any) -> WorkerResult:
    usual = {"samples_per_s": make_estimate(rate, spread=0.03), "noise": make_noise(run_queue_wait_ratio=queued)}
    usual |= {"cpu_s_per_sample": COST_S, "bytes_read_per_sample": BYTES_PER_SAMPLE}
    return make_worker(rate, **(usual | known))


def under(ceiling_per_s: float, nodes: Sequence[int], **choices: Any) -> Scaling:
    return capacity.scaling_of([launch(n, min(n * NODE_PER_S, ceiling_per_s), **choices) for n in nodes], "as-is")


def test_nodes_that_keep_their_rate_show_no_ceiling() -> None:
    found = under(1e9, (1, 2, 4))
    assert found.ceiling_bytes_per_s is None
    assert found.kept_ratio.estimate == pytest.approx(1.0)
    assert "not what limits" in found.note
    assert found.nodes == 4
    assert [point.workers for point in found.points] == [2, 4, 8]


@pytest.mark.parametrize(
    ("ceiling_per_s", "nodes"), [(10_000, (1, 2, 3)), (20_000, (1, 2, 4)), (25_000, (1, 4)), (3_000, (1, 2, 3, 4))]
)
def test_a_flat_total_is_the_ceiling(ceiling_per_s: float, nodes: tuple[int, ...]) -> None:
    found = under(ceiling_per_s, nodes)
    truth = ceiling_per_s * BYTES_PER_SAMPLE
    assert found.ceiling_bytes_per_s.estimate == pytest.approx(truth, rel=0.15)
    assert found.ceiling_bytes_per_s.low <= truth * 1.02
    assert found.ceiling_bytes_per_s.estimate >= truth * 0.9
    assert "shared storage gives" in found.note


def test_what_goes_into_the_run_queue_is_no_ceiling_of_the_storage() -> None:
    found = under(10_000, (1, 2, 4), busy="queues")
    assert found.kept_ratio.high < 0.9
    assert found.ceiling_bytes_per_s is None
    assert "CPUs or slow nodes" in found.note


def test_noise_in_the_run_queue_does_not_hide_the_storage() -> None:
    """Workers that wait for most of their time anyway, while something else wants the CPUs too."""
    launches = [launch(nodes, 1_000) for nodes in (1, 2, 3)]
    noises = [make_noise(run_queue_wait_ratio=queued) for queued in (0.1, 1.5, 2.5)]
    busy = [replace(m, workers=tuple(replace(w, noise=n) for w in m.workers)) for m, n in zip(launches, noises, strict=True)]
    assert capacity.scaling_of(busy, "as-is").ceiling_bytes_per_s is not None


def test_one_slow_node_is_no_ceiling() -> None:
    rates = [NODE_PER_S / 2 * (0.2 if index < 2 else 1.0) for index in range(6)]
    slow = launch(3, sum(rates), workers=tuple(map(worker, rates)))
    found = capacity.scaling_of([launch(1, NODE_PER_S), slow], "as-is")
    assert found.kept_ratio.high < 0.9
    assert found.ceiling_bytes_per_s is None


def test_what_cannot_be_known_is_not_claimed() -> None:
    launches = [launch(n, 10_000) for n in (1, 4)]
    mute = [replace(m, workers=tuple(replace(w, noise=None) for w in m.workers)) for m in launches]
    found = capacity.scaling_of(mute, "as-is")
    assert found.ceiling_bytes_per_s is None
    assert "it is not known whether" in found.note


@pytest.mark.parametrize(
    "others",
    [
        [],
        [launch(1, 10_000)],
        [launch(4, 10_000, cache_state="cold")],
        [launch(4, 10_000, role="validate")],
        [launch(4, 10_000, num_workers=99)],
        [replace(launch(4, 10_000), layout=Layout.parse("4x1x2"))],
        [replace(launch(4, 10_000), workers=launch(4, 10_000).workers[1:])],  # one was lost
    ],
)
def test_one_number_of_nodes_alone_says_nothing(others: list[Measurement]) -> None:
    assert capacity.scaling_of([launch(1, 10_000), *others], "as-is") is None


def test_all_nodes_come_first_then_one() -> None:
    assert [scaling_nodes(nodes) for nodes in (1, 2, 4, 6)] == [(1,), (2, 1), (4, 1, 2), (6, 1, 4, 2)]


# --- stragglers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [(100, 101, 60, 99), (100, 101, 99), (100, 95, 92), (100, 50), (60,), (100, 100, 130)])
def test_a_straggler_is_named_and_workers_that_are_about_alike_are_none(values: tuple[float, ...]) -> None:
    workers = tuple(worker(rate, node=f"n{number}") for number, rate in enumerate(values))
    found = make_measurement(f"{len(values)}x1x1", workers=workers).stragglers
    assert [straggler.node for straggler in found] == (["n2"] if len(values) == 4 else [])
