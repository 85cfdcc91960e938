"""A worker seen from beside it, without TensorFlow: what it says, what it holds with its children, and how it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from builders import make_work_plan

from cs_input_analyzer.engines import LocalLauncher, memory_watch, starting, worker_process
from cs_input_analyzer.engines.collecting import how_it_ended
from cs_input_analyzer.engines.memory_watch import MemoryWatch, pss_bytes, rss_bytes
from cs_input_analyzer.engines.scratch import remove
from cs_input_analyzer.engines.starting import WorkerKind, WorkerStarter
from cs_input_analyzer.engines.worker_process import WorkerProcess
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.host import counters
from cs_input_analyzer.host.counters import ProcessTree
from cs_input_analyzer.host.mounts import file_system_of
from cs_input_analyzer.records import Candidate, Layout
from cs_input_analyzer.worker.isolation import AWAY
from cs_input_analyzer.worker.journal import EVENTS, EventTail, JournalWriter, Order
from cs_input_analyzer.worker.summary import Ending
from tests.waiting import PATIENCE_S, comes, is_running


def shell(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    pipe, words = subprocess.PIPE, ["sh", "-c", script, *arguments]
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True)


@contextmanager
def worker_of(script: str, folder: Path) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(folder, shell(script), None)
    try:
        yield worker
    finally:
        worker.kill("interrupt")
        worker.finish()


# --- what it says ------------------------------------------------------------------------------------------------------------


def test_news_are_told_once_and_a_half_written_line_waits(tmp_path: Path) -> None:
    tail = EventTail(tmp_path)
    assert tail.new() == []
    journal = JournalWriter(tmp_path)
    for event in ("imported", "chunk", "chunk"):
        journal.event(event)
    assert tail.new() == ["imported", "chunk"]
    assert tail.new() == []
    with (tmp_path / EVENTS).open("ab") as file:
        file.write(b'\nnot JSON\n[1]\n{"event": "do')
        file.flush()
        assert tail.new() == []
        file.write(b'ne"}\n')
    file_bytes = (tmp_path / EVENTS).read_bytes()
    # Only what is new is read: it grows for as long as the worker samples, on the host whose speed is being measured.
    (tmp_path / EVENTS).write_bytes(b"x" * (len(file_bytes) - 18) + file_bytes[-18:])
    assert tail.new() == ["done"]
    assert tail.kinds == {"imported", "chunk", "done"}


# --- what it holds -----------------------------------------------------------------------------------------------------------

TREE = "sleep 60 & (sleep 60 & wait) & echo up; wait"


def test_all_processes_are_looked_at_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looks = SimpleNamespace(now_s=0.0), []

    def looked() -> dict[int, list[int]]:
        looks.append(clock.now_s)
        clock.now_s += 0.02
        return {1: [2, 3], 3: [4]}

    monkeypatch.setattr(counters, "_children_of_all", looked)
    monkeypatch.setattr("time.monotonic", lambda: clock.now_s)
    tree = ProcessTree()
    for _ in range(100):
        assert sorted(tree.descendants(1)) == [2, 3, 4]
        clock.now_s += 0.01
    assert len(looks) == 1
    for _ in range(1000):  # ten seconds; a look takes two hundredths of one, so it may be every two
        tree.descendants(1)
        clock.now_s += 0.01
    assert len(looks) == 6


# Holds much, then forks children that only look on; tells when all of them are there.
SHARES = """
import os, sys, time
held = bytearray(b"x") * int(sys.argv[1])
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        sum(held[::4096])
        os.write(1, b".")
        time.sleep(60)
time.sleep(60)
"""
MEGABYTE = 10**6


def test_what_children_share_with_a_worker_counts_once() -> None:
    command = [sys.executable, "-S", "-c", SHARES, str(150 * MEGABYTE), "4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout.read(4) == b"...."
            tree = ProcessTree()
            resident_bytes = sum(map(rss_bytes, (process.pid, *tree.descendants(process.pid))))
            assert resident_bytes > 700 * MEGABYTE
            for limit_bytes, is_above in ((300 * MEGABYTE, False), (140 * MEGABYTE, True), (2 * resident_bytes, False)):
                assert MemoryWatch(process.pid, tree).is_above(limit_bytes) is is_above
        finally:
            os.killpg(process.pid, signal.SIGKILL)


MAPS = """
import mmap, os, sys, time
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sum(mapped[::4096])
os.write(1, b".")
time.sleep(60)
"""


def test_pages_of_a_mapped_file_are_not_held(tmp_path: Path) -> None:
    """As of an `np.memmap` that is scanned: the kernel takes them back when memory is short."""
    if file_system_of(str(tmp_path))[0] == "tmpfs":
        pytest.skip(f"{tmp_path} is in memory: its pages are held")
    data = tmp_path / "data"
    data.write_bytes(b"x" * 200 * MEGABYTE)
    with subprocess.Popen([sys.executable, "-S", "-c", MAPS, str(data)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.read(1) == b"."
            assert rss_bytes(process.pid) > 200 * MEGABYTE
            assert not MemoryWatch(process.pid, ProcessTree()).is_above(100 * MEGABYTE)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("parts", "held_kb"), [("", 90), ("Pss_Anon: 20 kB\nPss_File: 60 kB\nPss_Shmem: 10 kB\n", 30)], ids=["old kernel", "new kernel"]
)
def test_what_is_held_is_anonymous_or_shared_memory(parts: str, held_kb: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"Rss: 400 kB\nPss: 90 kB\n{parts}Shared_Clean: 5 kB\n"
    monkeypatch.setattr(memory_watch, "read_start", lambda path: text.encode())
    assert pss_bytes(1) == held_kb * 1024


def test_a_process_that_is_gone_holds_nothing() -> None:
    process = shell("exit 0")
    process.communicate()
    assert rss_bytes(process.pid) == pss_bytes(process.pid) == 0
    assert not MemoryWatch(process.pid, ProcessTree()).is_above(0)


def test_shares_are_added_up_in_a_twentieth_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, weighed, shares = SimpleNamespace(now_s=0.0), [], [100]

    def weigh(pid: int) -> int:
        weighed.append(clock.now_s)
        clock.now_s += 0.01
        return shares[0]

    resident = [1000]
    monkeypatch.setattr(memory_watch, "rss_bytes", lambda pid: resident[0])
    monkeypatch.setattr(memory_watch, "pss_bytes", weigh)
    monkeypatch.setattr("time.monotonic", lambda: clock.now_s)
    watch = MemoryWatch(os.getpid(), SimpleNamespace(descendants=lambda pid: ()))  # type: ignore[arg-type]
    for _ in range(100):
        clock.now_s += 0.01
        assert not watch.is_above(500)
    assert len(weighed) in (5, 6)
    shares[0] = 501  # a child made pages its own: nothing more is resident
    clock.now_s += 0.2
    assert watch.is_above(500)
    shares[0] = 100
    assert not watch.is_above(2000)
    clock.now_s += 0.2
    assert not watch.is_above(500)
    shares[0] = resident[0] = 1400
    assert not watch.is_above(500)  # the growth alone cannot have reached the limit
    resident[0] = 1401
    assert watch.is_above(500)


def test_a_worker_over_its_limit_is_ended_with_its_children(tmp_path: Path) -> None:
    with worker_of(TREE, tmp_path) as worker:
        children = psutil.Process(worker.pid).children(recursive=True)
        worker.watch()
        worker.memory_limit_bytes = 1 << 30
        worker.watch()
        assert not worker.is_over
        worker.memory_limit_bytes = 1 << 10
        worker.watch()
        ending = worker.finish()
    assert (ending.killed_for, ending.returncode) == ("memory", -signal.SIGKILL)
    assert not psutil.wait_procs(children, timeout=PATIENCE_S)[1]


FILLS = 'mkdir deep; while head -c 50000 /dev/zero >"deep/$((n += 1))" 2>/dev/null; do sleep 0.02; done'


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
@pytest.mark.parametrize("is_away", [False, True], ids=["of its own folder", "on the user's file system"])
def test_a_worker_whose_cache_fills_the_disk_is_ended_while_there_is_room(is_away: bool, tmp_path: Path) -> None:
    small = tmp_path / "small"
    own = tmp_path / "worker" if is_away else small / "worker"
    place = small / f"{AWAY}1" if is_away else own
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", str(small)], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    try:
        own.mkdir()
        if is_away:
            place.mkdir()
            (own / place.name).symlink_to(place)
        (small / "others").write_bytes(b"x" * 3_000_000)  # what others hold is not counted against it
        with worker_of(f"sleep 0.5; cd {place}; {FILLS}; sleep 60", own) as worker:
            assert comes(lambda: worker.watch() or worker.is_over)
            ending = worker.finish()
        assert ending.killed_for == "storage"
        assert "took half of the space that was free" in how_it_ended(ending)
        assert os.statvfs(small).f_bavail * os.statvfs(small).f_frsize > 1_000_000
        remove(own)
        assert [path.name for path in small.iterdir() if path != own] == ["others"]
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=False)


def test_a_worker_is_not_ended_for_what_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with worker_of("sleep 60", tmp_path) as worker:
        (tmp_path / "stamps").write_bytes(b"x" * 100_000)
        monkeypatch.setattr(worker_process, "_free_bytes", lambda _: 1_000_000)
        worker.watch()
        assert not worker.is_over
        assert worker.killed_for is None


# --- what the workers of a launch may hold ------------------------------------------------------------------------------------

FAILS = """
echo '{"event": "imported", "import_s": 0.1}' >> "$0/events.jsonl"
read -r order
echo '{"event": "failed", "stage": "build", "kind": "ValueError", "message": "on purpose", "details": ""}' >> "$0/events.jsonl"
"""


@pytest.mark.parametrize(("asked", "each"), [(None, 450), (300, 300), (2000, 450)])
def test_workers_of_a_launch_share_what_is_free(
    asked: int | None, each: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is free when they get their order: a launch before them may still have held it when they were started."""
    free = [100 * MEGABYTE]
    monkeypatch.setattr(worker_process.psutil, "virtual_memory", lambda: SimpleNamespace(available=free[0], total=free[0]))
    monkeypatch.setattr(starting, "fresh_process", lambda worker, scratch: shell(FAILS, str(worker.folder)))
    with closing(
        LocalLauncher(cpu_budget=1, worker_memory_bytes=asked and asked * MEGABYTE, kind=WorkerKind(forks=False))
    ) as launcher:
        handle = launcher.start(Layout.parse("1x2x1"))
        free[0] = 1000 * MEGABYTE
        launched = launcher.run(handle, make_work_plan(workers=2, deadline_s=launcher.now_s() + PATIENCE_S))
    assert launched.failure.message == "on purpose"
    assert [process.memory_limit_bytes for process in handle.processes] == [each * MEGABYTE] * 2


def test_an_import_that_is_slower_than_its_patience(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(starting, "command", lambda *_: ["sleep", "60"])
    words = r"TensorFlow was not imported within 0\.2 s; --start-timeout"
    with closing(LocalLauncher(cpu_budget=1, start_timeout_s=0.2)) as launcher, pytest.raises(LaunchError, match=words):
        launcher.start(Layout.parse("1x1x1"))


@pytest.mark.parametrize(("left_s", "tried_s"), [(100.0, 20.0), (7.5, 7.5), (-1.0, 0.0)])
def test_a_worker_that_was_slow_to_start_tries_fixes_for_a_shorter_time(left_s: float, tried_s: float) -> None:
    """It would be ended amid them, and what it found be lost."""
    plan = make_work_plan(deadline_s=0.0, candidates=(Candidate(name="CSI202", edits=()),), fixes_s=20.0)
    assert Order(plan=plan, worker_index=0, tf_config="", is_first=True, is_alone=True, left_s=left_s).fixes_s == tried_s


# --- how it is ended ---------------------------------------------------------------------------------------------------------


def test_what_a_worker_leaves_behind_ends_when_its_end_is_seen(tmp_path: Path) -> None:
    with worker_of('sleep 60 & echo "$!"; exec 1>&- 2>&-; exit 3', tmp_path) as worker:
        assert comes(lambda: worker.is_over)
        ending = worker.finish()
        assert ending.returncode == 3
        left = int(ending.output_tail)
        assert comes(lambda: not psutil.pid_exists(left) or not is_running(psutil.Process(left)))


@pytest.mark.parametrize("is_seen_first", [True, False])
def test_a_number_that_may_be_anothers_by_now_is_left_alone(
    is_seen_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = WorkerProcess(tmp_path, shell("echo over; exit 0"), None)
    if is_seen_first:
        assert comes(lambda: worker.is_over)
        monkeypatch.setattr(worker_process.os, "killpg", lambda *_: pytest.fail("a group was ended"))
    ending = worker.finish()
    assert (ending.returncode, ending.output_tail) == (0, "over\n")
    monkeypatch.setattr(worker_process.os, "killpg", lambda *_: pytest.fail("a group was ended"))
    monkeypatch.setattr(worker_process.psutil, "Process", lambda *_: pytest.fail("a process was looked up"))
    worker.kill("deadline")
    assert worker.finish() is ending


def test_a_forked_worker_that_was_told_of_by_a_server_that_is_gone_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may go between telling of a worker and being asked for its end, and then nobody tells of that."""
    monkeypatch.setattr(starting, "command", lambda *_: ["sleep", "60"])
    with closing(WorkerStarter(tmp_path, WorkerKind())) as starter:
        assert not starter.is_ready()
        starter._take({"ready": True})
        starter._take({"folder": str(tmp_path / "w"), "pid": 2**22 + 1})
        worker = starter.start(tmp_path / "w", (0,), None)
        starter._take(None)
        assert worker.poll() == -signal.SIGKILL
        assert worker.wait() == -signal.SIGKILL
        worker.stdin.close()
        worker.stdout.close()


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (Ending(returncode=-11, killed_for=None, output_tail=""), "killed by signal 11 (SIGSEGV), a fault in native code"),
        (Ending(returncode=-9, killed_for=None, output_tail=""), "killed by signal 9 (SIGKILL), most likely by the kernel"),
        (
            Ending(returncode=-6, killed_for=None, output_tail="I0000 00:00 chatter\nCheck failed: x != y\n\n"),
            "killed by signal 6 (SIGABRT); its last line of output: Check failed: x != y",
        ),
        (Ending(returncode=3, killed_for=None, output_tail=""), "exited with status 3"),
        (Ending(returncode=-9, killed_for="memory", output_tail="x"), "it used more memory than allowed"),
        (Ending(returncode=-9, killed_for="deadline", output_tail="x"), "the time limit of this run was reached"),
    ],
)
def test_a_worker_that_a_fix_brings_down_says_why(ending: Ending, said: str) -> None:
    assert how_it_ended(ending).startswith(said)
