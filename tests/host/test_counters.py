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

from cs_input_analyzer.host import counters
from cs_input_analyzer.host.counters import CounterReader, Counters, read_memory

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@contextmanager
def busy_child(code: str = "") -> Iterator[subprocess.Popen[str]]:
    """A Python process that has worked already and waits for a line."""
    work = f"{code}\nsum(range(10_000_000))\nprint('worked', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "worked\n"
        yield child
        child.communicate("\n")


# --- totals -------------------------------------------------------------------------------------------------------------------


def test_what_a_process_does_shows_in_its_totals_and_they_never_fall(tmp_path: Path) -> None:
    reader, file = CounterReader(), tmp_path / "bytes"
    file.write_bytes(bytes(3_000_000))
    before, release = reader.read(), threading.Event()
    waiting = [threading.Thread(target=release.wait) for _ in range(5)]
    for thread in waiting:
        thread.start()
    file.read_bytes()
    sum(range(2_000_000))
    for _ in range(50):
        time.sleep(0.0005)
    after = reader.read()
    release.set()
    for thread in waiting:
        thread.join()
    known = {field.name: getattr(after, field.name) for field in fields(Counters)}
    assert all(value is not None and value >= 0 for value in known.values()), known
    for name in ("run_s", "host_cpu_s", "host_steal_s", "own_cpus_busy_s"):
        assert known[name] >= getattr(before, name), name
    assert after.cpu_s > before.cpu_s
    assert 3_000_000 <= after.read_bytes - before.read_bytes < 3_200_000
    assert after.switches - before.switches >= 50
    assert 0 <= after.preempted_switches - before.preempted_switches <= after.switches - before.switches


# --- children -----------------------------------------------------------------------------------------------------------------


def test_without_children_nobody_searches_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    if psutil.Process().children():
        pytest.skip("this test process has a child of its own")

    def searched(*_: object) -> Any:
        raise AssertionError("read every process of the host")

    monkeypatch.setattr(psutil, "pids", searched)
    assert CounterReader().read().cpu_s > 0


def test_a_childs_cpu_counts_while_it_lives_and_when_it_is_gone() -> None:
    reader = CounterReader()
    before_s = reader.read().cpu_s
    with busy_child() as child:
        own_s = sum(os.times()[:2])
        times = psutil.Process(child.pid).cpu_times()
        alive_s = reader.read().cpu_s
        spent_s = times.user + times.system
        assert spent_s > 5 * TICK_S
        assert alive_s - before_s >= spent_s - 2 * TICK_S
        assert alive_s - before_s <= spent_s + own_s + 0.5  # counted once
    gone_s = reader.read().cpu_s
    assert gone_s >= alive_s - 3 * TICK_S  # /proc counts in ticks, getrusage does not


def test_what_a_child_reaped_is_counted_too() -> None:
    reader = CounterReader()
    grandchild = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'sum(range(20_000_000))'])"
    before_s = reader.read().cpu_s
    with busy_child(grandchild) as child:
        times = psutil.Process(child.pid).cpu_times()
        assert times.children_user > 0
        assert reader.read().cpu_s - before_s >= sum(times[:4]) - 4 * TICK_S


def test_a_later_child_is_found_at_the_next_search(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    reader = CounterReader()
    with busy_child():
        first_s = reader.read().cpu_s
        with busy_child() as later:
            times = psutil.Process(later.pid).cpu_times()
            now_s[0] += counters.LOOK_S
            assert reader.read().cpu_s - first_s >= times.user + times.system - 3 * TICK_S


READS = """
import os, tempfile
with tempfile.TemporaryFile() as file:
    file.write(bytes(30_000_000))
    file.seek(0)
    while file.read(1 << 20):
        pass
held = os.urandom(40_000_000)
"""


def test_bytes_waits_and_memory_of_a_child_count_once() -> None:
    reader = CounterReader()
    before, held = reader.read(), read_memory()
    assert before.processes == 1
    with busy_child(READS):
        alive, holding = reader.read(), read_memory()
        assert alive.processes == 2
        assert 30_000_000 <= alive.read_bytes - before.read_bytes < 60_000_000, "once, beside what Python reads to start"
        assert alive.run_s - before.run_s >= 5 * TICK_S
        assert alive.queued_s >= before.queued_s
        assert holding.private_bytes - held.private_bytes >= 40_000_000
        assert holding.pss_bytes - held.pss_bytes >= 40_000_000
        assert holding.peak_rss_bytes - held.peak_rss_bytes >= 40_000_000
    gone = reader.read()
    assert gone.processes == 1
    assert 0 <= gone.read_bytes - alive.read_bytes < 10_000_000, "the kernel added it to its parent's"
    assert read_memory().private_bytes < held.private_bytes + 40_000_000


def test_what_a_child_was_forked_with_is_its_parents() -> None:
    held = bytearray(os.urandom(50_000_000))
    before = read_memory()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writes)
        os.read(reads, 1)
        os._exit(0)
    os.close(reads)
    after = read_memory()
    os.close(writes)
    os.waitpid(child, 0)
    assert len(held) == 50_000_000
    assert after.private_bytes - before.private_bytes < 25_000_000


# --- what cannot be read ------------------------------------------------------------------------------------------------------


NOT_OF_PROC = {"cpu_s", "switches", "preempted_switches", "processes"}


GARBAGE = {"stat": "cpu garbage\n", "self/io": "rchar\n: 5\n", "self/task/1/schedstat": "\n"}


@pytest.mark.parametrize("files", [{}, GARBAGE], ids=["unreadable", "garbage"])
def test_a_proc_that_tells_nothing_gives_none_for_all_that_it_tells(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(counters, "PROC", tmp_path)
    reading, memory = CounterReader().read(), read_memory()
    assert {field.name for field in fields(reading) if getattr(reading, field.name) is not None} == NOT_OF_PROC
    assert all(getattr(memory, field.name) is None for field in fields(memory))


def test_shared_pages_count_in_proportion() -> None:
    memory = read_memory()
    assert memory.peak_rss_bytes >= memory.private_bytes > 0
    # One smaps_rollup: PSS is what is private and a part of what is shared.
    assert memory.private_bytes <= memory.pss_bytes <= memory.private_bytes + memory.shared_bytes
