"""The smaller parts: which worker this is, what a batch holds, Rate and GlobalRate, the line on the console."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.runs import rates
from cs_input_analyzer.runs.input_monitor import samples_in
from cs_input_analyzer.runs.outputs import TrainingTask, console_line, training_task


def tf_config(kind: str, index: object, **cluster: int) -> dict[str, str]:
    hosts = {name: [f"h{number}:1" for number in range(count)] for name, count in cluster.items()}
    return {"TF_CONFIG": json.dumps({"cluster": hosts, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ("worker-0", 0, 1)),
        (tf_config("chief", 0, chief=1, worker=6), ("chief-0", 0, 7)),
        (tf_config("worker", 0, chief=1, worker=6), ("worker-0", 1, 7)),
        (tf_config("worker", 3, worker=4, ps=2), ("worker-3", 3, 4)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "2"}, ("rank-1", 1, 2)),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"} | tf_config("worker", 1, chief=1, worker=2), ("worker-1", 2, 3)),
        ({"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, ("rank-5", 5, 8)),
        # In a batch script, where the shell is process 0 of no step.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "RANK": "5", "WORLD_SIZE": "8"}, ("rank-5", 5, 8)),
        # One launcher a node, and as many processes below each.
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "RANK": "5", "WORLD_SIZE": "8"}, ("rank-5", 5, 8)),
        # What the script exported before `srun` is the same for all of its tasks.
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "RANK": "0", "WORLD_SIZE": "8"}, ("rank-3", 3, 8)),
    ],
)
def test_a_process_finds_its_task(environ: dict[str, str], expected: tuple[str, int, int]) -> None:
    found = training_task(environ)
    assert (found.name, found.rank, found.workers) == expected


@pytest.mark.parametrize(
    "environ",
    [
        *({"TF_CONFIG": text} for text in ("{}", "not json", "[1]", "null", "[" * 100_000)),
        {"TF_CONFIG": '{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker", "index": Infinity}}'},
        tf_config("evaluator", 0, chief=1, worker=6),
        tf_config("worker", 9, worker=2),
        tf_config("worker", "x", worker=2),
        {"SLURM_PROCID": "x", "SLURM_STEP_NUM_TASKS": "8"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"},  # a batch script: no step, so no tasks
        {"RANK": "0"},
        {"RANK": "8", "WORLD_SIZE": "8"},
        {"RANK": "", "WORLD_SIZE": ""},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"SLURM_PROCID": "1", "WORLD_SIZE": "8"},
    ],
)
def test_what_cannot_be_read_is_a_lone_worker(environ: dict[str, str]) -> None:
    assert training_task(environ) == TrainingTask()


def zeros(*shape: int) -> Any:
    return np.zeros(shape)


def partly(shape: Any) -> Any:
    """A tensor whose first size is not known, or whose rank is not."""
    return SimpleNamespace(shape=shape)


@pytest.mark.parametrize(
    ("batch", "batch_size", "expected"),
    [
        (zeros(32, 4), 32, 32),
        (zeros(5, 4), 32, 5),  # the short end of a pass
        (zeros(5, 4), None, 5),
        ((zeros(7, 4), zeros(7)), 32, 7),
        ({"x": {"ids": zeros(7, 4)}, "y": zeros(7)}, 32, 7),
        (zeros(100, 32), 32, 32),  # [time, batch]
        (zeros(), 32, 32),
        *((partly(shape), 16, 16) for shape in ((None, 4), None, 5)),
        (7, 32, 32),
        (["a"] * 9, 32, 32),
        ((tuple(zeros(3, 9, size) for size in range(16)), ({"boxes": zeros(2, 4)},) * 16), 16, 16),  # pictures of any size
        ([{"image": zeros(3, 9, 9)}] * 16, 16, 16),
        ((None, zeros(7)), 32, 7),
        ({}, 32, 32),
        (7, None, None),
        ((), None, None),
    ],
)
def test_samples_are_counted_where_a_batch_tells(batch: Any, batch_size: int | None, expected: float | None) -> None:
    assert samples_in(batch, batch_size) == expected


@pytest.mark.parametrize(
    ("loss", "rate", "whole", "expected"),
    [
        (
            9.46875,
            4727.42,
            4727.42,
            "| Train Device=xla:0, Step=100, Loss=9.46875, Rate=4727.42 samples/sec, GlobalRate=4727.42 samples/sec",
        ),
        (None, 4727.42, 10.0, "| Train Device=xla:0, Step=100, Rate=4727.42 samples/sec, GlobalRate=10.00 samples/sec"),
        (0.5, 0.1234, 0.5, "| Train Device=xla:0, Step=100, Loss=0.50000, Rate=0.123 samples/sec, GlobalRate=0.5 samples/sec"),
        (1.0, None, None, "| Train Device=xla:0, Step=100, Loss=1.00000"),
    ],
)
def test_the_line_has_the_shape_of_the_model_zoo(
    loss: float | None, rate: float | None, whole: float | None, expected: str
) -> None:
    assert console_line("xla:0", 100, loss, rate, whole) == expected


TIMES = st.floats(min_value=1e-3, max_value=1e5)
COUNTS = st.integers(min_value=1, max_value=10**7)
POINTS = st.lists(st.tuples(COUNTS, TIMES), min_size=1, max_size=30)


def after(points: list[tuple[int, float]]) -> rates.Rates:
    """The rates after intervals of (samples, seconds)."""
    found, samples, now = rates.Rates(since_s=0.0), 0, 0.0
    for gained, passed in points:
        samples, now = samples + gained, now + passed
        found = rates.sampled(found, samples, now)
    return found


def test_a_public_log_of_a_bert_run() -> None:
    """Steps 100 and 200 of a published R1.7 log: batch 1024, 11.123 s between the lines, Rate 7657.52 before."""
    found = rates.Rates(since_s=100.0, rate_per_s=7657.52, total_samples=102400, samples=102400, elapsed_s=13.3725)
    found = rates.sampled(found, 204800, 111.123)
    assert found.rate_per_s == pytest.approx(8586.60, rel=1e-4)


@given(POINTS)
def test_each_sampling_point_follows_the_definition(points: list[tuple[int, float]]) -> None:
    expected: float | None = None
    for count, time in points:
        expected = count / time if expected is None else 0.6 * count / time + 0.4 * expected
    found = after(points)
    assert found.rate_per_s == pytest.approx(expected, rel=1e-6)
    assert found.global_per_s == pytest.approx(sum(count for count, _ in points) / math.fsum(time for _, time in points), rel=1e-6)


@given(POINTS, st.floats(min_value=-1e6, max_value=-1e-6), COUNTS, TIMES)
def test_a_clock_set_back_adds_no_rate_and_the_next_interval_is_seen_right(
    points: list[tuple[int, float]], jump: float, count: int, time: float
) -> None:
    before = after(points)
    back = rates.sampled(before, before.total_samples + 100, before.since_s + jump)
    assert (back.rate_per_s, back.global_per_s) == (before.rate_per_s, before.global_per_s)
    ahead = rates.sampled(back, back.total_samples + count, back.since_s + time)
    passed = ahead.since_s - back.since_s
    assert passed == 0 or ahead.rate_per_s == pytest.approx(0.6 * count / passed + 0.4 * before.rate_per_s, rel=1e-9)
    assert (
        rates.sampled(before, before.total_samples - 50, before.since_s + 1).rate_per_s == before.rate_per_s
    )  # a count that falls
