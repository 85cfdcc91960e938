"""TensorBoard event files, as TensorFlow 1 and 2 write them, whole, damaged and hostile."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

from cs_input_analyzer.runs import event_files
from cs_input_analyzer.runs.inspection import inspect_run
from tests.functional.running import loaded_after
from tests.runs import logs

BEGAN_S = 1.7e9


def write(path: Path, events: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for event in events:
            RecordWriter(file).write(event.SerializeToString())
    return path


def rates(step: int, at_s: float, *, form: str = "simple", prefix: str = "", rate: float = 320.0) -> Any:
    """Rate and GlobalRate at a step, as TensorFlow 1 or 2 writes them."""
    event = event_pb2.Event(wall_time=BEGAN_S + at_s, step=step)
    for tag in (event_files.LOCAL, event_files.AVERAGE, "loss"):
        value = event.summary.value.add(tag=prefix + tag)
        if form == "simple":
            value.simple_value = rate
            continue
        value.tensor.dtype = event_files.FLOATS
        if form == "packed":
            value.tensor.tensor_content = b"\x00\x00\xa0\x43"  # 320.0
        else:
            value.tensor.float_val.append(rate)
            value.tensor.tensor_shape.dim.add(size=2**40)  # what it claims to hold takes no memory
    return event


def events(folder: Path, **shape: Any) -> Path:
    begin = event_pb2.Event(wall_time=BEGAN_S, file_version="brain.Event:2")
    steps = (rates(10 * place, 2.0 * place, **shape) for place in range(1, 41))
    return write(folder / "events.out.tfevents.1700000000.host", [begin, *steps])


@pytest.mark.parametrize("form", ["simple", "listed", "packed"])
@pytest.mark.parametrize("prefix", ["", "train/"])
def test_events_give_steps_and_rates(tmp_path: Path, form: str, prefix: str) -> None:
    events(tmp_path / "train", form=form, prefix=prefix)
    found = inspect_run(tmp_path)
    assert (found.rates.global_rate_samples_per_s, found.rates.batch_size) == (320.0, 64)
    assert logs.steady(found) == pytest.approx(320)


@pytest.mark.parametrize("size", [0, 3, 11, 12, 20, 100])
def test_a_file_that_is_cut_or_damaged_anywhere_is_read_until_there(size: int, tmp_path: Path) -> None:
    path = events(tmp_path)
    whole = path.read_bytes()
    for tail in (b"", b"\xff" * 40):
        path.write_bytes(whole[: len(whole) // 2 + size] + tail)
        found = inspect_run(path)
        assert not tail or "damaged" in found.sources[0].note
        assert logs.steady(found) == pytest.approx(320)


def test_the_time_until_a_run_goes_on_in_a_second_file_is_no_stall(tmp_path: Path) -> None:
    write(tmp_path / "events.out.tfevents.1700000000.host", [rates(10 * place, 2.0 * place) for place in range(1, 41)])
    later = [rates(400 + 10 * place, 900 + 2.0 * place) for place in range(1, 41)]
    write(tmp_path / "events.out.tfevents.1700000900.host", later)
    found = inspect_run(tmp_path)
    assert (found.stall_count, found.rates.batch_size) == (0, 64)
    assert logs.steady(found) == pytest.approx(320)


def test_a_long_record_is_passed_over(tmp_path: Path) -> None:
    long = event_pb2.Event(graph_def=bytes(event_files.LONGEST_RECORD + 1))
    found = inspect_run(write(tmp_path / "a.tfevents.1", [long, *(rates(step, step) for step in range(1, 20))]))
    assert (found.rates.rate_samples_per_s, found.sources[0].note) == (320.0, "")


def test_checkpoints_in_the_events_are_in_the_timeline_and_explain_pauses(tmp_path: Path) -> None:
    """As an Estimator writes them (SessionLog.CHECKPOINT)."""
    written, at_s = [], BEGAN_S
    for place in range(1, 60):
        at_s += 40.0 if place % 10 == 1 and place > 1 else 2.0
        event = event_pb2.Event(wall_time=at_s, step=10 * place)
        event.summary.value.add(tag=event_files.ESTIMATOR, simple_value=5.0)
        written.append(event)
        if place % 10 == 0:
            saved = event_pb2.SessionLog(status=event_pb2.SessionLog.CHECKPOINT, checkpoint_path="model.ckpt")
            written.append(event_pb2.Event(wall_time=at_s + 30, step=10 * place, session_log=saved))
    found = inspect_run(write(tmp_path / "events.out.tfevents.1700000000.host", written))
    assert found.verdict == "unknown"
    assert [span.step for span in found.timeline if span.phase == "checkpoint"] == [100, 200, 300, 400, 500]
    assert {stall.cause for stall in found.stalls} == {"checkpoint"}
    assert logs.steady_steps(found) == pytest.approx(5.0)


def test_reading_events_loads_no_tensorflow_and_writes_nothing_to_stderr(tmp_path: Path) -> None:
    events(tmp_path)
    assert loaded_after(f"from cs_input_analyzer.cli import main; main(['inspect-run', {str(tmp_path)!r}])", "tensorflow") == set()
