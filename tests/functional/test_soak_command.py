"""`--soak`, through the command line: the op whose buffer grows is named, and an interrupted one keeps what it has."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.functional.running import QUICK, Stop, run_cli

pytestmark = [pytest.mark.tf, pytest.mark.slow]

# 64 KiB an element, at most 2,000 a second: the buffer takes minutes to fill.
FILLS = """
import tensorflow as tf

def train_input_fn():
    def slowly(x):
        return tf.fill([16384], tf.cast(x, tf.float32))
    dataset = tf.data.Dataset.range(10**9).map(slowly, num_parallel_calls=1)
    dataset = dataset.batch(2)
    return dataset.map(lambda x: x, num_parallel_calls=1).prefetch(200_000)
"""
SLOW = ("--target-error", "0.9")


def written(folder: Path) -> str:
    (folder / "users").mkdir(parents=True)
    (folder / "users" / "data.py").write_text(FILLS)
    return "data.py:train_input_fn"


def test_a_soak_is_in_the_run_beside_the_budget(tmp_path: Path) -> None:
    outcome = run_cli(["analyze", written(tmp_path), *QUICK, "--max-seconds", "10", "--soak", "8s", "--full"], tmp_path)
    assert outcome.code == 0, outcome.err
    soak = outcome.run["soak"]
    assert soak["seconds"] == pytest.approx(8.0, abs=3.0)
    assert soak["ended"] == ""
    assert soak["points"][-1]["rss_bytes"] > 0
    assert soak["points"][-1]["python_blocks"] > 0
    assert "prefetch" in soak["points"][-1]["buffered_bytes"]
    assert outcome.run["budget"]["soak_s"] >= 8.0
    assert outcome.run["options"]["soak_s"] == 8.0
    assert "Memory over a long time" in outcome.out


def test_an_interrupted_soak_keeps_what_it_has(tmp_path: Path) -> None:
    stop = Stop(number=signal.SIGINT, text="following the memory", wait_s=12.0)
    arguments = ["analyze", written(tmp_path), *QUICK, "--max-seconds", "10", "--soak", "10m"]
    outcome = run_cli(arguments, tmp_path, stop=stop)
    assert outcome.code == 130
    assert outcome.run["interrupted"] is True
    assert outcome.run["soak"]["asked_s"] == 600.0
    assert 0 < outcome.run["soak"]["seconds"] < 100.0
    assert "interrupted" in outcome.run["soak"]["ended"]
    assert not outcome.left_processes
