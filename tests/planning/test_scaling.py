"""One node, then more: when the storage that they share is said to be the limit, when not, and how high it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from builders import make_measurement

from cs_input_analyzer.planning import capacity
from cs_input_analyzer.records import Estimate, Layout, Measurement, Noise, Scaling, WorkerResult
from cs_input_analyzer.studies.probing.launches import scaling_nodes

BYTES_PER_SAMPLE = 1000.0
NODE_PER_S = 10_000.0  # what a node's two workers deliver alone, together
COST_S = 1.5e-4


def launch(nodes: int, total_per_s: float, *, busy: str = "waits", **changes: Any) -> Measurement:
    """`nodes` × 2 workers that deliver `total_per_s` together. `busy`: what they do with the time they lose."""
    rate = total_per_s / nodes / 2
    layout = Layout(nodes=nodes, tasks_per_node=2, cpus_per_task=1)
    queued = 0.0 if busy == "waits" else max(0.0, NODE_PER_S / 2 / rate - 1)
    measurement = make_measurement(layout, [rate] * layout.tasks, num_workers=layout.tasks)
    workers = tuple(_of(worker, rate, queued) for worker in measurement.workers)
    total = Estimate(estimate=total_per_s, low=total_per_s * 0.98, high=total_per_s * 1.02, count=8)
    return replace(measurement, **{"workers": workers, "samples_per_s": total, "cache_state": "as-is", **changes})


def _of(worker: WorkerResult, rate: float, queued: float) -> WorkerResult:
    return replace(
        worker,
        samples_per_s=Estimate(estimate=rate, low=rate * 0.97, high=rate * 1.03, count=8),
        cpu_s_per_sample=COST_S,
        bytes_read_per_sample=BYTES_PER_SAMPLE,
        noise=Noise(run_queue_wait_ratio=queued, steal_ratio=0.0),
    )


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
    noises = [Noise(run_queue_wait_ratio=queued, steal_ratio=0.0) for queued in (0.1, 1.5, 2.5)]
    busy = [replace(m, workers=tuple(replace(w, noise=n) for w in m.workers)) for m, n in zip(launches, noises, strict=True)]
    assert capacity.scaling_of(busy, "as-is").ceiling_bytes_per_s is not None


def test_one_slow_node_is_no_ceiling() -> None:
    whole, some = launch(1, NODE_PER_S), launch(3, 3 * NODE_PER_S)
    slow = [_of(w, NODE_PER_S / 2 * (0.2 if index < 2 else 1.0), 0.0) for index, w in enumerate(some.workers)]
    total = sum(w.samples_per_s.estimate for w in slow if w.samples_per_s is not None)
    rate = Estimate(estimate=total, low=total * 0.99, high=total * 1.01, count=8)
    found = capacity.scaling_of([whole, replace(some, workers=tuple(slow), samples_per_s=rate)], "as-is")
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
        [replace(launch(4, 10_000), num_workers=99)],
        [replace(launch(4, 10_000), layout=Layout(nodes=4, tasks_per_node=1, cpus_per_task=2))],
        [replace(launch(4, 10_000), workers=launch(4, 10_000).workers[1:])],  # one was lost
    ],
)
def test_one_number_of_nodes_alone_says_nothing(others: list[Measurement]) -> None:
    assert capacity.scaling_of([launch(1, 10_000), *others], "as-is") is None


def test_all_nodes_come_first_then_one() -> None:
    assert [scaling_nodes(nodes) for nodes in (1, 2, 4, 6)] == [(1,), (2, 1), (4, 1, 2), (6, 1, 4, 2)]


# --- stragglers --------------------------------------------------------------------------------------------------------------


def rates(*values: float) -> Measurement:
    measurement = make_measurement(Layout(nodes=len(values), tasks_per_node=1, cpus_per_task=1), list(values))
    workers = tuple(
        replace(w, node=f"n{i}", samples_per_s=Estimate(estimate=v, low=v * 0.97, high=v * 1.03))
        for i, (w, v) in enumerate(zip(measurement.workers, values, strict=True))
    )
    return replace(measurement, workers=workers)


@pytest.mark.parametrize("values", [(100, 101, 60, 99), (100, 101, 99), (100, 95, 92), (100, 50), (60,), (100, 100, 130)])
def test_a_straggler_is_named_and_workers_that_are_about_alike_are_none(values: tuple[float, ...]) -> None:
    assert [worker.node for worker in rates(*values).stragglers] == (["n2"] if len(values) == 4 else [])
