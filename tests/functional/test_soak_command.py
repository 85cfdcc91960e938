"""`--soak`, through the command line: an interrupted one keeps what it has."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.functional.running import BRIEF, QUICK, Stop, run_cli

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


@pytest.mark.long
def test_an_interrupted_soak_keeps_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "data.py").write_text(FILLS)
    stop = Stop(number=signal.SIGINT, text="following the memory", wait_s=12.0)
    arguments = ["analyze", "data.py:train_input_fn", *QUICK, "--max-seconds", "10", "--soak", "10m", "--full"]
    outcome = run_cli(arguments, tmp_path, stop=stop, program=BRIEF)
    assert outcome.code == 130
    assert outcome.run["interrupted"] is True
    assert outcome.run["soak"]["asked_s"] == 600.0
    assert 0 < outcome.run["soak"]["seconds"] < 100.0
    assert "interrupted" in outcome.run["soak"]["ended"]
    point = outcome.run["soak"]["points"][-1]
    assert min(point["rss_bytes"], point["python_blocks"]) > 0
    assert "prefetch" in point["buffered_bytes"]
    assert outcome.run["budget"]["soak_s"] >= 8.0
    assert "Memory over a long time" in outcome.out
    assert not outcome.left_processes
