"""`InputMonitor` on an invented clock: what it reports, what it writes, and that it never stands in the way."""

from __future__ import annotations

import errno
import fcntl
import logging
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cs_input_analyzer as csia
from cs_input_analyzer.runs.outputs import STEPS
from cs_input_analyzer.runs.watch import Watch
from tests.runs.loops import MS, Batch, FakeClock, Loop, events, loop_of, monitor_of, train

# --- what it reports -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("log_every", "sync_every"), [(1, 0), (5, 0), (10, 0), (0, 1)])
@pytest.mark.parametrize("dispatch", [0.0, 0.1 * MS])
def test_a_planted_starvation_is_called_within_50_steps(log_every: int, sync_every: int, dispatch: float) -> None:
    loop = loop_of(wait=20 * MS, compute=10 * MS, batches=50, dispatch_s=dispatch)
    monitor = train(loop, monitor_of(loop, log_every=0), log_every=log_every, sync_every=sync_every)
    assert any(line.startswith("input-bound: ") for line in monitor.lines)


@pytest.mark.parametrize(("log_every", "wait"), [(1, 0.1 * MS), (10, 0.1 * MS), (50, 0.1 * MS), (100, 9.5 * MS)])
def test_a_run_whose_input_keeps_up_is_not_called_starved(log_every: int, wait: float) -> None:
    """Also where the host waits for its input, as long as the accelerator is busy meanwhile."""
    loop = loop_of(wait=wait, compute=10 * MS, batches=600)
    monitor = train(loop, monitor_of(loop), log_every=log_every)
    assert monitor.verdict.name == "accelerator_bound"
    assert not any("input-bound" in line for line in monitor.lines)


def test_without_log_or_sync_there_are_rates_and_no_verdict() -> None:
    loop = loop_of(batches=250, dispatch_s=10 * MS)
    monitor = train(loop, monitor_of(loop))
    summary = monitor.summary()
    assert summary.verdict.name == "unknown"
    assert summary.rate_per_s == pytest.approx(8 / 15e-3)
    assert summary.global_per_s == pytest.approx(8 / 15e-3)
    assert [line.split(",")[1] for line in monitor.lines] == [" Step=100", " Step=200"]


@given(
    st.lists(st.floats(min_value=0.1 * MS, max_value=50 * MS), min_size=1, max_size=40),
    st.floats(min_value=0.1 * MS, max_value=50 * MS),
)
def test_global_rate_is_what_was_trained_over_the_time_it_took(waits: list[float], compute: float) -> None:
    loop = Loop(clock=FakeClock(), waits_s=waits, compute_s=[compute] * len(waits))
    monitor = train(loop, monitor_of(loop), log_every=len(waits))
    assert monitor.summary().global_per_s == pytest.approx(8 * len(waits) / loop.clock.now_s, rel=1e-6)


def test_no_lines_come_beside_those_of_a_loop_that_logs() -> None:
    loop = loop_of(batches=60)
    monitor = train(loop, monitor_of(loop, log_every=5), log_every=12)
    assert [line.split(",")[1] for line in monitor.lines if line.startswith("|")] == [
        f" Step={step}" for step in (5, 10, 12, 24, 36, 48, 60)
    ]


def test_a_monitor_that_only_the_loop_holds_watches() -> None:
    lines: list[str] = []
    for _ in csia.InputMonitor([Batch()] * 10, 8, log_every=4, console=lines.append, environ={}):
        pass
    assert [line.split(",")[1] for line in lines] == [" Step=4", " Step=8"]


def test_batches_that_cannot_be_counted_give_no_rate() -> None:
    clock = FakeClock()
    monitor = csia.InputMonitor(iter(range(5)), clock=clock, console=None, environ={})
    for _ in monitor:
        clock.sleep(1.0)
    summary = monitor.summary()
    assert (summary.samples, summary.rate_per_s, summary.global_per_s) == (None, None, None)
    assert summary.steps == 5


def test_loaded_starts_the_clock_of_the_global_rate() -> None:
    loop = Loop(clock=FakeClock(), waits_s=[1 * MS] * 21, compute_s=[30.0, *[9 * MS] * 20])
    monitor = monitor_of(loop)
    for step, _ in enumerate(monitor, start=1):
        loop.train()
        loop.synchronise()
        if step == 1:
            monitor.loaded()
    monitor.log()
    assert monitor.summary().global_per_s == pytest.approx(800, rel=1e-3)


def test_a_checkpoint_between_two_steps_and_the_spike_after_it(tmp_path: Path) -> None:
    """The user's log comes right before the checkpoint; what was ready then arrives at once. The next one is not marked."""
    compute = [10 * MS] * 100 + [0.5 * MS] * 10 + [10 * MS] * 80 + [1.0] + [10 * MS] * 9
    loop = Loop(clock=FakeClock(), waits_s=[0.1 * MS] * 200, compute_s=compute)
    monitor = monitor_of(loop, log_dir=tmp_path)
    for step, _ in enumerate(monitor, start=1):
        loop.train()
        loop.synchronise()
        monitor.log()
        if step == 100:
            with monitor.checkpoint():
                loop.clock.sleep(30.0)
    assert monitor.verdict.name == "accelerator_bound"
    assert [event["duration_s"] for event in events(tmp_path, "checkpoint")] == [30.0]


def test_passes_over_the_data_have_edges(tmp_path: Path) -> None:
    loop = loop_of(batches=20)
    monitor = monitor_of(loop, log_dir=tmp_path)
    for _ in range(3):
        loop.given = 0
        train(loop, monitor, log_every=5)
    assert [event["epoch"] for event in events(tmp_path, "epoch")] == [1, 2, 3]
    assert [event["phase"] for event in events(tmp_path, "step")].count("epoch_edge") == 2
    assert monitor.summary().steps == 60


def test_a_checkpoint_between_passes_of_an_own_fetch_is_in_no_interval() -> None:
    clock = FakeClock()
    monitor = csia.InputMonitor(batch_size=8, clock=clock, console=None, environ={})
    for _ in range(2):
        for _ in range(3):
            with monitor.waiting():
                clock.sleep(0.01)
        with pytest.raises(StopIteration), monitor.waiting():
            raise StopIteration
        with monitor.checkpoint():
            clock.sleep(30.0)
    with monitor.waiting():
        clock.sleep(0.01)
    monitor.log()
    assert monitor.summary().verdict.wait_ratio is None
    assert monitor.summary().steps == 7


# --- that it never stands in the way ---------------------------------------------------------------------------------------------


class OwnError(Exception):
    pass


@pytest.mark.parametrize(("after", "error"), [(0, OwnError), (100, OwnError), (1, KeyboardInterrupt), (1, GeneratorExit)])
def test_whatever_an_iterator_raises_passes_through(after: int, error: type[BaseException], tmp_path: Path) -> None:
    def batches() -> Iterator[Batch]:
        yield from [Batch()] * after
        raise error("the user's own")

    monitor = csia.InputMonitor(batches(), 8, console=None, log_dir=tmp_path, tensorboard=False, environ={})
    seen: list[Batch] = []
    with pytest.raises(error, match="the user's own"):
        seen.extend(monitor)
    assert len(seen) == monitor.summary().steps == after
    assert [event["kind"] for event in events(tmp_path, "error")] == [error.__name__]


def test_it_iterates_as_what_it_wraps_does() -> None:
    options: dict[str, Any] = {"console": None, "environ": {}}
    empty = csia.InputMonitor([], 8, **options)
    assert list(empty) == []
    assert (empty.verdict.name, empty.summary().rate_per_s) == ("unknown", None)
    batches = iter(csia.InputMonitor([1, 2], 8, **options))
    assert [list(batches), list(batches)] == [[1, 2], []]
    alone = csia.InputMonitor([1], 8, **options)
    assert next(alone) == 1
    with pytest.raises(StopIteration):
        next(alone)
    inner = csia.InputMonitor([1, 2], 8, **options)
    assert list(csia.InputMonitor(inner, 8, **options)) == [1, 2]
    outer = csia.InputMonitor("abc", 8, **options)
    assert [(one, other) for one in outer for other in inner] == [(one, other) for one in "abc" for other in (1, 2)]
    assert (outer.summary().steps, inner.summary().steps) == (3, 8)
    both = csia.InputMonitor([1, 2, 3], 8, **options)  # two passes at once: the last one counts
    assert list(zip(both, both, strict=True)) == [(1, 1), (2, 2), (3, 3)]
    assert both.summary().steps == 3
    with pytest.raises(TypeError, match="not iterable"):
        iter(csia.InputMonitor(7, 8, **options))  # type: ignore[arg-type]


def test_a_loop_that_is_left_and_begun_again_goes_on(tmp_path: Path) -> None:
    loop = loop_of(batches=20)
    monitor = monitor_of(loop, log_dir=tmp_path)
    for step, _ in enumerate(monitor):
        loop.train()
        if step == 5:
            break
    loop.clock.sleep(100.0)  # whatever the user did meanwhile is no step
    loop.given = 0
    train(loop, monitor, log_every=1)
    assert monitor.summary().steps == 26
    assert all(event["step_s"] < 1.0 for event in events(tmp_path, "step"))


@pytest.mark.parametrize("jump", [-1000.0, -0.03, 0.0, math.nan, math.inf, -math.inf])
def test_a_clock_that_jumps_gives_no_rate_that_was_not_seen(jump: float) -> None:
    loop = loop_of(batches=60)
    monitor = monitor_of(loop)
    highest = 8 / 15e-3
    for step, _ in enumerate(monitor, start=1):
        loop.train()
        loop.synchronise()
        if step == 30:
            held = loop.clock.now_s
            loop.clock.now_s = held + jump
            loop.free_at_s += jump
            if not math.isfinite(jump):
                monitor.log()
                loop.clock.now_s, loop.free_at_s = held, held
        monitor.log()
        found = monitor.summary()
        for rate in (found.rate_per_s, found.global_per_s):
            assert rate is None or 0 < rate <= highest * (1 + 1e-6)
    assert found.rate_per_s == pytest.approx(highest, rel=1e-3)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=60), st.integers(min_value=0, max_value=5))
def test_any_clock_at_all_lets_every_batch_through(times: list[float], log_every: int) -> None:
    ticks = iter(times * 40)
    monitor = csia.InputMonitor([Batch()] * 30, 8, clock=lambda: next(ticks, 0.0), console=None, environ={})
    seen = 0
    for _ in monitor:
        seen += 1
        if log_every and seen % log_every == 0:
            monitor.log(loss=seen)
    assert seen == 30
    for rate in (monitor.summary().rate_per_s, monitor.summary().global_per_s):
        assert rate is None or (math.isfinite(rate) and rate >= 0)


@pytest.mark.parametrize("good", [1, 2, 3, 10, 11])
def test_a_clock_that_fails_ends_the_watching_and_not_the_loop(good: int, caplog: pytest.LogCaptureFixture) -> None:
    ticks = iter(range(good))
    with caplog.at_level(logging.WARNING):
        monitor = csia.InputMonitor([Batch()] * 30, 8, console=None, environ={}, clock=lambda: float(next(ticks)))
        with monitor.checkpoint():
            pass
        assert len(list(monitor)) == 30
        with monitor.waiting():
            pass
        monitor.sync()
        monitor.log()
    assert len(caplog.records) == 1


def broken(*arguments: object, **more: object) -> None:
    raise RuntimeError("a fault of ours")


def no_thread(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


STOPPED = "the input monitor stopped, training goes on: RuntimeError: a fault of ours"
UNWRITTEN = "the input monitor cannot write its record, training goes on without: "


@pytest.mark.parametrize(
    ("options", "patched", "message"),
    [
        *(({}, (Watch, method, broken), STOPPED) for method in ("_log", "_judge", "_clue")),
        ({"console": broken}, None, "the input monitor cannot print, training goes on: "),
        ({"log_dir": "file/logs"}, None, UNWRITTEN),
        ({"log_dir": "file/logs", "tensorboard": True}, None, UNWRITTEN),
        ({"log_dir": "~nobody-of-this-name/logs"}, None, UNWRITTEN),
        ({"log_dir": "logs"}, (os, "write", broken), UNWRITTEN),  # a full disk
        ({"log_dir": "logs"}, (threading.Thread, "start", no_thread), UNWRITTEN),
    ],
)
def test_what_fails_is_warned_of_once_and_the_loop_goes_on(
    options: dict[str, Any], patched: Any, message: str, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    loop = loop_of(batches=120)
    with caplog.at_level(logging.WARNING):
        if patched is not None:
            monkeypatch.setattr(*patched)
        monitor = monitor_of(loop, **options)
        train(loop, monitor, log_every=7)
        monitor.close()
    assert loop.given == 120
    (record,) = caplog.records
    assert record.message.startswith(message)


@pytest.mark.parametrize("loss", ["text", {}, object(), [1, 2], math.nan, math.inf, 10**400])
def test_a_loss_that_is_no_number_is_left_out(loss: object, tmp_path: Path) -> None:
    monitor = monitor_of(loop_of(batches=5), log_dir=tmp_path)
    for _ in monitor:
        monitor.log(loss=loss)
    assert len(events(tmp_path, "log")) == 5
    assert {event["loss"] for event in events(tmp_path, "log")} == {None}


def test_a_folder_that_another_process_writes_into_is_left_to_it(tmp_path: Path) -> None:
    with open(tmp_path / STEPS, "a", encoding="utf-8") as other:
        fcntl.flock(other, fcntl.LOCK_EX)  # of a file opened by itself: that it is in this process makes no difference
        for _ in range(2):
            loop = loop_of(batches=10)
            with monitor_of(loop, log_dir=tmp_path) as monitor:
                train(loop, monitor)
    assert (tmp_path / STEPS).read_text(encoding="utf-8") == ""
    assert len(events(tmp_path / "monitor-2", "start")) == 2
    with monitor_of(loop_of(), log_dir=tmp_path) as monitor:
        train(loop_of(), monitor)
    assert len(events(tmp_path, "start")) == 1


def test_a_folder_is_free_again_while_a_child_lives_that_was_forked_meanwhile(tmp_path: Path) -> None:
    monitor = monitor_of(loop_of(), log_dir=tmp_path)
    out, into = os.pipe()
    child = os.fork()
    if child == 0:  # as a worker of a data loader does: it waits
        os.close(into)
        os.read(out, 1)
        os._exit(0)
    monitor.close()
    with monitor_of(loop_of(), log_dir=tmp_path):
        pass
    os.close(into)
    os.waitpid(child, 0)
    os.close(out)
    assert not (tmp_path / "monitor-2").exists()


def test_a_file_system_that_locks_nothing_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def flock(file: object, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    loop = loop_of(batches=10)
    with monitor_of(loop, log_dir=tmp_path) as monitor:
        train(loop, monitor)
    assert len(events(tmp_path, "step")) == 10
    assert not caplog.records


def test_it_can_be_closed_twice_and_used_after() -> None:
    monitor = csia.InputMonitor([1, 2, 3], 8, console=None, environ={})
    monitor.close()
    monitor.close()
    assert list(monitor) == [1, 2, 3]
    monitor.log()
    monitor.sync()
    assert monitor.summary().steps == 0


@pytest.mark.parametrize("log_dir", ["gs://bucket/logs", "s3://bucket/logs", "file:///logs", Path("gs://bucket/logs")])
def test_a_url_is_no_folder_to_write_to(log_dir: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(csia.UsageError, match=r"log_dir='\w+:/.*local folder"):
        csia.InputMonitor([1], 8, log_dir=log_dir)
    assert list(tmp_path.iterdir()) == []
    csia.InputMonitor([1], 8, log_dir="run:1/logs", console=None).close()


@pytest.mark.parametrize("keyword", ["est_samples_per_sec", "analysis"])
def test_a_keyword_that_is_gone_says_what_to_do(keyword: str) -> None:
    with pytest.raises(csia.UsageError, match=f"`{keyword}` is gone: .*inspect-run"):
        csia.InputMonitor([1], 8, **{keyword: 800.0})
