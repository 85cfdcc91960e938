"""TensorBoard event files, as TensorFlow 1 and 2 write them, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.monitor.reading import inspect_run

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
    assert found.rates.steady_samples_per_s is not None
    assert found.rates.steady_samples_per_s.estimate == pytest.approx(320)


def test_a_damaged_tail_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    path = write_events(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + b"\xff" * 40)
    found = inspect_run(path)
    assert "damaged" in found.sources[0].note
    assert found.rates.steady_samples_per_s is not None
    assert found.rates.steady_samples_per_s.estimate == pytest.approx(320)


def test_events_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.host").write_bytes(b"not events at all")
    with pytest.raises(UsageError, match=r"local_samples_per_sec|looked for"):
        inspect_run(tmp_path)
