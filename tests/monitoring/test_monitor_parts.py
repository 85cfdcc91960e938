"""The smaller parts: which worker this is, what a batch holds, the steady rate of calls."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_input_analyzer.monitoring.alone import training_rate
from cs_input_analyzer.monitoring.counting import counter_for
from cs_input_analyzer.monitoring.outputs import console_line
from cs_input_analyzer.monitoring.task import TrainingTask, training_task


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
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, ("rank-2", 2, 4)),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, ("rank-2", 2, 4)),
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
        {"OMPI_COMM_WORLD_RANK": "1", "WORLD_SIZE": "8"},
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
    ("first", "batch_size", "later", "expected"),
    [
        (zeros(32, 4), 32, zeros(32, 4), 32),
        (zeros(32, 4), 32, zeros(5, 4), 5),  # the short end of a pass
        (zeros(32, 4), None, zeros(5, 4), 5),
        ((zeros(32, 4), zeros(32)), 32, (zeros(7, 4), zeros(7)), 7),
        ({"x": zeros(32, 4), "y": zeros(32)}, 32, {"x": zeros(7, 4), "y": zeros(7)}, 7),
        (({"x": {"ids": zeros(32, 4)}}, zeros(32)), 32, ({"x": {"ids": zeros(7, 4)}}, zeros(7)), 7),
        (zeros(100, 32), 32, zeros(100, 9), 9),  # [time, batch]
        (zeros(5, 4), 32, zeros(32, 4), 32),  # the first one is short itself
        (zeros(3, 4), 2, zeros(3, 4), 2),  # no axis of that size: as declared
        (zeros(), 32, zeros(), 32),
        *((partly(shape), 16, partly(shape), 16) for shape in ((None, 4), None, 5)),
        (7, 32, 7, 32),
        (["a"] * 32, 32, ["a"] * 9, 9),
        ((None, None), 32, (None, None), 32),  # components, no samples
        ({}, 32, {}, 32),
        (7, None, 7, None),
        ((), None, (), None),
        (zeros(32, 4), 32, "not like the first", 32),
        (zeros(32, 4), None, {"not": "like the first"}, None),
    ],
)
def test_samples_are_counted_where_a_batch_tells(first: Any, batch_size: int | None, later: Any, expected: float | None) -> None:
    count = counter_for(first, batch_size)
    count(first)
    assert count(later) == expected


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


@settings(deadline=None)  # the first rate of all loads a library of statistics
@given(st.floats(min_value=1e-3, max_value=10), st.integers(min_value=8, max_value=200), st.integers(min_value=1, max_value=8))
def test_even_calls_have_the_rate_of_one(seconds: float, calls: int, steps: int) -> None:
    whole = [(seconds, steps)] * calls
    found = training_rate(whole, 32)
    assert found.estimate == pytest.approx(32 * steps / seconds, rel=1e-6)
    assert found.low <= found.estimate <= found.high
    # One call of another number of steps does not count: the short one at the end of a pass, one that seems to hold two.
    assert training_rate([*whole, (seconds / 40, steps + 1)], 32) == training_rate([(seconds, steps + 1), *whole], 32) == found


@pytest.mark.parametrize("calls", [[], [(0.1, 1)] * 7, [(0.0, 1)] * 20])
def test_too_few_calls_have_no_rate(calls: list[tuple[float, int]]) -> None:
    assert training_rate(calls, 32) is None
