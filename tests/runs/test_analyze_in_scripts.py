"""`csia.analyze` from inside a training script: run once, whatever the script is, and whatever TensorFlow does in it already."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# No `if __name__ == "__main__"`: whoever imported or ran it again would train again, and analyze again, without end.
SCRIPT = """
import json, os, sys, threading
with open("runs", "a") as runs:
    runs.write(f"{os.getpid()}\\n")

import tensorflow as tf
import beside
import cs_input_analyzer as csia

SCALE = 3
training = iter(tf.data.Dataset.range(10**9).batch(64).prefetch(2).repeat())  # TensorFlow has its devices, and threads
weights = tf.Variable(tf.zeros([8, 8]))
stop = threading.Event()

def train():
    while not stop.wait(0.01):
        weights.assign_add(tf.ones([8, 8]) * float(tf.reduce_sum(next(training))))

thread = threading.Thread(target=train)
thread.start()

def scaled(number):
    return number * SCALE

def input_fn(params):
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "-1"
    dataset = tf.data.Dataset.range(params["count"]).map(lambda number: scaled(number) + beside.OFFSET)
    return dataset.batch(params["batch_size"], drop_remainder=True).prefetch(1).repeat()

os.environ["CUDA_VISIBLE_DEVICES"] = ""
try:
    analysis = csia.analyze(input_fn, {"count": 10000, "batch_size": 32}, demand=1000, max_seconds=12, cpus=1)
    again = float(tf.reduce_sum(next(training)))  # what it was doing goes on
finally:
    stop.set()
    thread.join()
print(json.dumps({
    "pid": os.getpid(),
    "isolation": [measurement.isolation for measurement in analysis.measurements],
    "batch_size": analysis.pipeline.batch_size,
    "rate": analysis.measurements[0].samples_per_s.estimate,
    "environ": os.environ["CUDA_VISIBLE_DEVICES"],
    "tf_config": os.environ.get("TF_CONFIG"),
}))
"""


@pytest.mark.long
@pytest.mark.tf
@pytest.mark.slow
def test_a_script_without_a_file_is_analyzed_from_inside_and_runs_once(tmp_path: Path) -> None:
    """As a notebook's `__main__` is; one with a file is tried by the page about training scripts."""
    (tmp_path / "beside.py").write_text("OFFSET = 5\n", encoding="utf-8")
    environ = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}",
        "TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}',
    }
    done = subprocess.run(
        [sys.executable, "-"],
        cwd=tmp_path,
        env=environ,
        input=SCRIPT,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (tmp_path / "runs").read_text(encoding="utf-8").split() == [str(found["pid"])]
    assert set(found["isolation"]) == {"process"}
    assert found["batch_size"] == 32
    assert found["rate"] > 0
    assert found["environ"] == ""  # the script's own environment is as it was
    assert found["tf_config"] == environ["TF_CONFIG"]


@pytest.mark.tf
def test_a_dataset_is_refused_with_what_to_call_instead() -> None:
    import tensorflow as tf

    import cs_input_analyzer as csia

    with pytest.raises(csia.TargetError, match="tuning"):
        csia.analyze(tf.data.Dataset.range(3), max_seconds=5)  # type: ignore[arg-type]
