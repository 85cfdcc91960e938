"""What is read of the kernel: totals that never fall, children counted alive and reaped, and None for what cannot be read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import psutil
import pytest

from cs_input_analyzer.machines import counters
from cs_input_analyzer.machines.counters import CounterReader, Counters, read_memory
from cs_input_analyzer.machines.reference import SpeedWatch

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def reader() -> CounterReader:
    return CounterReader()


@contextmanager
def busy_child(code: str = "") -> Iterator[subprocess.Popen[str]]:
    """A Python process that has worked already and waits for a line."""
    work = f"{code}\nsum(range(10_000_000))\nprint('worked', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "worked\n"
        yield child
        child.communicate("\n")


def own_cpu_s() -> float:
    times = os.times()
    return times.user + times.system


def put(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# --- totals -------------------------------------------------------------------------------------------------------------------


def test_totals_never_fall(reader: CounterReader) -> None:
    seen = []
    for _ in range(5):
        sum(range(200_000))
        seen.append(reader.read())
    for name in ("cpu_s", "read_bytes", "run_s", "host_cpu_s", "host_steal_s", "at_s"):
        values = [getattr(reading, name) for reading in seen]
        assert values == sorted(values), name
    assert seen[-1].cpu_s > seen[0].cpu_s


def test_everything_is_known_on_this_kernel_and_nothing_negative() -> None:
    reading = CounterReader(speed=SpeedWatch()).read()
    known = {field.name: getattr(reading, field.name) for field in fields(Counters)}
    assert all(value is not None and value >= 0 for value in known.values()), known


def test_bytes_that_are_read_are_counted(reader: CounterReader, tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(bytes(3_000_000))
    before = reader.read().read_bytes
    file.read_bytes()
    after = reader.read().read_bytes
    assert 3_000_000 <= after - before < 3_200_000


def test_memory_that_is_held_shows(reader: CounterReader) -> None:
    before = reader.read().rss_bytes
    held = bytearray(b"x") * 200_000_000
    after = reader.read().rss_bytes
    assert len(held) == 200_000_000
    assert 150e6 < after - before < 250e6


# --- children -----------------------------------------------------------------------------------------------------------------


def test_without_children_nobody_searches_for_them(reader: CounterReader, monkeypatch: pytest.MonkeyPatch) -> None:
    if psutil.Process().children():
        pytest.skip("this test process has a child of its own")

    def searched(*_: object) -> Any:
        raise AssertionError("read every process of the host")

    monkeypatch.setattr(psutil, "Process", searched)
    assert reader.read().cpu_s > 0


def test_a_childs_cpu_counts_while_it_lives_and_when_it_is_gone(reader: CounterReader) -> None:
    before_s = reader.read().cpu_s
    with busy_child() as child:
        own_s = own_cpu_s()
        times = psutil.Process(child.pid).cpu_times()
        alive_s = reader.read().cpu_s
        spent_s = times.user + times.system
        assert spent_s > 5 * TICK_S
        assert alive_s - before_s >= spent_s - 2 * TICK_S
        assert alive_s - before_s <= spent_s + own_s + 0.5  # counted once
    gone_s = reader.read().cpu_s
    assert gone_s >= alive_s - 3 * TICK_S  # /proc counts in ticks, getrusage does not


def test_what_a_child_reaped_is_counted_too(reader: CounterReader) -> None:
    grandchild = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'sum(range(20_000_000))'])"
    before_s = reader.read().cpu_s
    with busy_child(grandchild) as child:
        times = psutil.Process(child.pid).cpu_times()
        assert times.children_user > 0
        assert reader.read().cpu_s - before_s >= sum(times[:4]) - 4 * TICK_S


def test_a_later_child_is_found_at_the_next_search() -> None:
    now_s = [0.0]
    reader = CounterReader(clock=lambda: now_s[0])
    with busy_child():
        first_s = reader.read().cpu_s
        with busy_child() as later:
            times = psutil.Process(later.pid).cpu_times()
            now_s[0] += counters.CHILD_SCAN_S
            assert reader.read().cpu_s - first_s >= times.user + times.system - 3 * TICK_S


# --- what cannot be read ------------------------------------------------------------------------------------------------------


NOT_OF_PROC = {"cpu_s", "at_s", "python_blocks", "switches", "preempted_switches"}


GARBAGE = {"stat": "cpu garbage\n", "self__io": "rchar\n: 5\n", "self__statm": "12\n", "self__task__1__schedstat": "\n"}


@pytest.mark.parametrize("files", [{}, GARBAGE], ids=["unreadable", "garbage"])
def test_a_proc_that_tells_nothing_gives_none_for_all_that_it_tells(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, **files)
    monkeypatch.setattr(counters, "PROC", tmp_path)
    reading, memory = CounterReader().read(), read_memory()
    assert {field.name for field in fields(reading) if getattr(reading, field.name) is not None} == NOT_OF_PROC
    assert all(getattr(memory, field.name) is None for field in fields(memory))


def test_shared_pages_count_in_proportion() -> None:
    memory = read_memory()
    assert memory.peak_rss_bytes >= memory.private_bytes > 0
    # One smaps_rollup: PSS is what is private and a part of what is shared.
    assert memory.private_bytes <= memory.pss_bytes <= memory.private_bytes + memory.shared_bytes


def test_a_thread_that_gives_up_its_cpu_is_counted_as_a_switch() -> None:
    before = CounterReader().read()
    for _ in range(50):
        time.sleep(0.0005)
    after = CounterReader().read()
    assert after.switches - before.switches >= 50
    assert 0 <= after.preempted_switches - before.preempted_switches <= after.switches - before.switches


def test_threads_are_counted_with_the_memory() -> None:
    before = read_memory().threads
    release = threading.Event()
    waiting = [threading.Thread(target=release.wait) for _ in range(5)]
    for thread in waiting:
        thread.start()
    during = read_memory().threads
    release.set()
    for thread in waiting:
        thread.join()
    assert during >= before + 5
