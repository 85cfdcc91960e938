"""The record of a monitor: its lines, file systems that stall or are full, forked and copied processes, and a week."""

from __future__ import annotations

import copy
import gc
import logging
import os
import pickle
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cs_input_analyzer as csia
from cs_input_analyzer.runs import outputs, rates
from cs_input_analyzer.runs.outputs import STEPS, Outputs, TrainingTask
from tests.runs.loops import MS, Batch, FakeClock, events, loop_of, monitor_of, train


@pytest.fixture
def stalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose journal is a pipe that nobody reads: opening it for writing waits until somebody does."""
    monkeypatch.setattr(outputs, "SETTLE_S", 0.2)
    monkeypatch.setattr(outputs, "CLOSE_S", 0.2)
    os.mkfifo(tmp_path / STEPS)
    yield tmp_path
    threads = [thread for thread in threading.enumerate() if thread.name == "csia-monitor"]
    with open(os.open(tmp_path / STEPS, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        until_s = time.monotonic() + 10
        while any(thread.is_alive() for thread in threads) and time.monotonic() < until_s:
            reader.read()
            time.sleep(0.01)


def watched(steps: int, folder: Path, **options: Any) -> csia.InputMonitor[Batch]:
    settings: dict[str, Any] = {"console": None, "environ": {}, "tensorboard": False} | options
    return csia.InputMonitor([Batch()] * steps, 8, log_dir=folder, **settings)


def test_no_step_waits_for_a_stalled_file_system_and_the_end_of_a_pass_does_so_once(
    stalled: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float | None] = []
    wait = threading.Event.wait
    monkeypatch.setattr(threading.Event, "wait", lambda event, timeout=None: waits.append(timeout) or wait(event, timeout))
    with caplog.at_level(logging.WARNING):
        monitor = watched(10, stalled)
        for _ in range(20):
            assert len(list(monitor)) == 10
        record = monitor._watch.outputs
        assert record._thread.is_alive()
        assert record._queue.qsize() > 0  # the file is blocked still: nothing that was given to it has gone
        monitor.close()
    assert waits == [None, outputs.SETTLE_S]  # for the thread to begin, and at the end of the first pass
    assert monitor.summary().steps == 200
    assert "unfinished" in caplog.text


def test_a_forked_child_keeps_no_lines_of_a_record_that_it_does_not_write(tmp_path: Path) -> None:
    monitor = watched(3000, tmp_path)
    assert len(list(monitor)) == 3000
    before = (tmp_path / STEPS).read_bytes()
    child = os.fork()
    if child == 0:
        is_right = len(list(monitor)) == 3000 and not monitor._watch.outputs._lines
        monitor.close()
        os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / STEPS).read_bytes() == before
    monitor.close()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda monitor: pickle.loads(pickle.dumps(monitor))])
def test_a_copy_watches_anew_with_a_record_of_its_own(copied: Any, tmp_path: Path) -> None:
    monitor = csia.InputMonitor([1, 2, 3], 8, console=None, environ={}, tensorboard=False, log_dir=tmp_path)
    assert list(monitor) == [1, 2, 3]
    other = copied(monitor)
    assert (other.summary().steps, list(other), other.summary().steps) == (0, [1, 2, 3], 3)
    other.close()
    monitor.close()
    for folder in (tmp_path, tmp_path / "monitor-2"):
        assert len(events(folder, "start")) == 1


def test_no_link_that_somebody_has_laid_is_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, victim = tmp_path / "logs", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("mine", encoding="utf-8")
    (folder / STEPS).symlink_to(victim)
    with watched(5, folder) as monitor:
        assert len(list(monitor)) == 5
    assert victim.read_text(encoding="utf-8") == "mine"
    assert "cannot write its record" in caplog.text


def test_each_kind_of_line_becomes_rarer_as_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "ALL_KEPT_BITS", 4)
    record = Outputs(tmp_path, TrainingTask(), tensorboard=False)
    for number in range(1, 65):
        record.line("log", number=number)
        record.line("end", number=number)
    record.close()
    numbers = [line["number"] for line in events(tmp_path, "log")]
    assert numbers == [*range(1, 17), *range(18, 33, 2), *range(36, 65, 4)]
    assert len(events(tmp_path, "end")) == 64


def test_a_long_run_takes_no_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "ALL_KEPT_BITS", 6)
    monkeypatch.setattr(outputs, "SETTLE_S", 60.0)
    clock, held = FakeClock(), []
    monitor = csia.InputMonitor(batch_size=8, clock=clock, console=None, environ={}, log_dir=tmp_path, tensorboard=False)
    tracemalloc.start()
    for step in range(1, 16_001):
        with monitor.waiting():
            clock.sleep(0.02)
        clock.sleep(0.08)
        if step % 5 == 0:
            monitor.sync()
        if step % 1000 == 0:
            monitor.log(loss=1.0)
            with monitor.checkpoint():
                clock.sleep(5.0)
        if step % 8_000 == 0:
            monitor._watch.outputs.settle()
            held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    monitor.close()
    assert held[1] - held[0] < 50_000
    assert (tmp_path / STEPS).stat().st_size < 1e6
    assert monitor.verdict.name == "input_bound"
    assert monitor.summary().samples == 8 * 16_000


def test_a_run_leaves_its_record(tmp_path: Path) -> None:
    loop = loop_of(wait=20 * MS, compute=10 * MS, batches=50)
    loop.clock.now_s = 1000.0
    with monitor_of(loop, log_dir=tmp_path) as monitor:
        train(loop, monitor, log_every=10)
    assert {path.name for path in tmp_path.iterdir()} == {"steps.jsonl"}
    steps = events(tmp_path, "step")
    assert [event["step"] for event in steps] == list(range(1, 51))
    assert all(event["wait_s"] == pytest.approx(0.02) for event in steps)
    assert events(tmp_path)[0]["event"] == "start"
    assert [event["step"] for event in events(tmp_path, "log")] == [10, 20, 30, 40, 50]
    assert [event["at_s"] for event in events(tmp_path, "log")] == pytest.approx([0.21, 0.42, 0.63, 0.84, 1.05])
    assert [event["verdict"] for event in events(tmp_path, "verdict")] == ["input_bound"]
    assert events(tmp_path, "end")[-1]["verdict"] == "input_bound"
    end = events(tmp_path, "end")[-1]
    assert (end["steps"], end["samples"], end["global_rate"]) == (50, 400, pytest.approx(monitor.summary().global_per_s))


def test_several_workers_write_into_folders_of_their_own(tmp_path: Path) -> None:
    for rank in range(2):
        loop = loop_of(batches=10)
        with monitor_of(loop, log_dir=tmp_path, environ={"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2"}) as monitor:
            train(loop, monitor, log_every=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank-0", "rank-1"]
    assert [events(tmp_path / f"rank-{rank}", "start")[0]["rank"] for rank in range(2)] == [0, 1]


def test_a_run_that_goes_on_adds_to_its_record(tmp_path: Path) -> None:
    for _ in range(2):
        loop = loop_of(batches=10)
        with monitor_of(loop, log_dir=tmp_path) as monitor:
            train(loop, monitor, log_every=5)
        with open(tmp_path / STEPS, "a", encoding="utf-8") as cut:
            cut.write('{"event": "st')
    lines = (tmp_path / STEPS).read_text(encoding="utf-8").splitlines()
    assert sum('"start"' in line for line in lines) == 2
    assert sum(line == '{"event": "st' for line in lines) == 2


def test_a_monitor_that_nobody_closes_writes_when_it_goes(tmp_path: Path) -> None:
    loop = loop_of(batches=30)
    monitor = monitor_of(loop, log_dir=tmp_path)
    for step, _ in enumerate(monitor):
        loop.train()
        if step == 20:
            break
    del monitor
    gc.collect()
    assert events(tmp_path, "end")[-1]["steps"] == 21
