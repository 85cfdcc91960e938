"""TensorBoard event files, as TensorFlow 1 and 2 write them, whole and damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.run_logs import inspect_run
from tests.run_logs import logs

pytestmark = pytest.mark.tf
BEGAN_S = 1.7e9


def write_events(
    folder: Path, *, steps: int = 40, gap_s: float = 2.0, batch: int = 64, modern: bool = False, prefix: str = ""
) -> Path:
    """Rate and GlobalRate at every tenth step."""
    import tensorflow as tf

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "events.out.tfevents.1700000000.host"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(tf.compat.v1.Event(wall_time=BEGAN_S, file_version="brain.Event:2").SerializeToString())
        for place in range(1, steps + 1):
            rates = {
                f"{prefix}local_samples_per_sec": 10 * batch / gap_s,
                f"{prefix}avg_samples_per_sec": 10 * batch / gap_s,
                "loss": 0.5,
            }
            values = [
                tf.compat.v1.Summary.Value(tag=tag, tensor=tf.make_tensor_proto(value))
                if modern
                else tf.compat.v1.Summary.Value(tag=tag, simple_value=value)
                for tag, value in rates.items()
            ]
            event = tf.compat.v1.Event(
                wall_time=BEGAN_S + gap_s * place, step=10 * place, summary=tf.compat.v1.Summary(value=values)
            )
            writer.write(event.SerializeToString())
    return path


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("prefix", ["", "train/"])
def test_events_give_steps_and_rates(tmp_path: Path, modern: bool, prefix: str) -> None:
    write_events(tmp_path / "train", modern=modern, prefix=prefix)
    found = inspect_run(tmp_path)
    assert found.rates.global_rate_samples_per_s == 320.0
    assert found.rates.batch_size == 64
    assert logs.steady(found) == pytest.approx(320)


def test_a_damaged_tail_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    path = write_events(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + b"\xff" * 40)
    found = inspect_run(path)
    assert "damaged" in found.sources[0].note
    assert logs.steady(found) == pytest.approx(320)


def test_events_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.host").write_bytes(b"not events at all")
    with pytest.raises(UsageError, match=r"local_samples_per_sec|looked for"):
        inspect_run(tmp_path)


def test_checkpoints_in_the_events_are_in_the_timeline_and_explain_pauses(tmp_path: Path) -> None:
    """As an Estimator writes them (SessionLog.CHECKPOINT)."""
    import tensorflow as tf

    path = tmp_path / "events.out.tfevents.1700000000.host"
    at_s = BEGAN_S
    with tf.io.TFRecordWriter(str(path)) as writer:
        for place in range(1, 60):
            at_s += 40.0 if place % 10 == 1 and place > 1 else 2.0
            value = tf.compat.v1.Summary.Value(tag="global_step/sec", simple_value=5.0)
            events = [tf.compat.v1.Event(wall_time=at_s, step=10 * place, summary=tf.compat.v1.Summary(value=[value]))]
            if place % 10 == 0:
                log = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.CHECKPOINT, checkpoint_path="model.ckpt")
                events.append(tf.compat.v1.Event(wall_time=at_s + 30, step=10 * place, session_log=log))
            for event in events:
                writer.write(event.SerializeToString())
    found = inspect_run(path)
    assert found.verdict == "unknown"
    assert [span.step for span in found.timeline if span.phase == "checkpoint"] == [100, 200, 300, 400, 500]
    assert {stall.cause for stall in found.stalls} == {"checkpoint"}
    assert logs.steady_steps(found) == pytest.approx(5.0)


def test_reading_events_loads_no_tensorflow_and_writes_nothing_to_stderr(tmp_path: Path) -> None:
    write_events(tmp_path)
    code = (
        "import sys; from cs_input_analyzer.cli import main; main(['inspect-run', sys.argv[1]]); "
        "sys.exit(3 if 'tensorflow' in sys.modules else 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("size", [0, 3, 11, 12, 20, 100])
def test_a_file_that_is_cut_anywhere_raises_nothing(size: int, tmp_path: Path) -> None:
    path = write_events(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2 + size])
    assert inspect_run(path).rates.global_rate_samples_per_s == 320.0
