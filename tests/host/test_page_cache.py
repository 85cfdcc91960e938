"""What is in the page cache: told right, emptied and filled for real files, and never guessed where the kernel does not tell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.host import page_cache
from cs_input_analyzer.host.page_cache import cached_ratio, drop, evenly, evict, is_absent, opened, warm

MIB = 1 << 20
NO_DEADLINE = float("inf")


def written(folder: Path, *sizes: int) -> list[str]:
    """Files on the disk, nothing of them in the cache."""
    paths = []
    for index, size in enumerate(sizes):
        path = folder / f"{index}.bin"
        path.write_bytes(os.urandom(min(size, MIB)) * (size // MIB) if size > MIB else os.urandom(size))
        paths.append(str(path))
    evict(paths)
    return paths


def read(path: str, begin: int = 0, length: int = -1) -> None:
    """Reads a part of a file, and nothing ahead of it."""
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        file.seek(begin)
        file.read(length)


# Loaded first: the interpreter's own files may not be nobody's to read.
AS_NOBODY = """
import os, sys
from cs_input_analyzer.host import page_cache
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
print(page_cache.cached_bytes(int(sys.argv[1]), 0, int(sys.argv[2])))
"""


# --- telling -----------------------------------------------------------------------------------------------------------------


def test_files_count_by_their_bytes(disk: Path) -> None:
    large, small, empty, odd = written(disk, 6 * MIB, 2 * MIB, 0, 5000)
    assert cached_ratio([large, small, empty, odd]) == 0
    read(large, 0, 3 * MIB)
    assert cached_ratio([large]) == pytest.approx(0.5, abs=0.02)
    read(large)
    assert cached_ratio([large, small, empty]) == pytest.approx(0.75, abs=0.01)
    assert cached_ratio([small, large, large, large]) == pytest.approx(0.75, abs=0.01)  # a file named again is one file
    read(odd)
    assert cached_ratio([odd]) == pytest.approx(1, abs=0.02)


def test_large_files_are_sampled_evenly(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = written(disk, 64 * MIB)
    read(path, 0, 16 * MIB)
    monkeypatch.setattr(page_cache, "SAMPLED_BYTES", 16 * MIB)
    assert cached_ratio([path]) == pytest.approx(0.25, abs=0.07)


def test_many_files_are_sampled_evenly(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(disk, *([20_000] * 60))
    for path in paths[:30]:
        read(path)
    monkeypatch.setattr(page_cache, "SAMPLED_FILES", 20)
    opened_files: list[str] = []
    monkeypatch.setattr(page_cache, "opened", lambda path: (opened_files.append(path), opened(path))[1])
    assert cached_ratio(paths) == pytest.approx(0.5, abs=0.01)
    assert len(opened_files) == 20


def test_a_deadline_leaves_what_was_asked_so_far(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(disk, *([20_000] * 10))
    now = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    assert cached_ratio(paths, deadline_s=3) == 0
    assert cached_ratio(paths, deadline_s=0) is None
    assert evict(paths, deadline_s=0) is False


def test_nothing_to_tell_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # whose writer is not waited for
    for paths in ([], ["/nowhere/at/all"], ["/"], ["with\0nul"], [str(tmp_path / "pipe")]):
        assert cached_ratio(paths) is evict(paths) is None
        warm(paths, NO_DEADLINE)


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
@pytest.mark.parametrize("mode", [0o444, 0o666], ids=["theirs to read", "theirs to write too"])
def test_files_of_others_are_told_only_to_who_may_write_them(disk: Path, root: Path, mode: int) -> None:
    """The kernel says of the first that all of it is there, which it is not."""
    (path,) = written(disk, 4 * MIB)
    os.chmod(path, mode)
    with opened(path) as file:
        command = [sys.executable, "-c", AS_NOBODY, str(file.fd), str(file.size_bytes)]
        run = subprocess.run(command, cwd=root, pass_fds=[file.fd], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ("None" if mode == 0o444 else "0")


def test_half_of_the_files_untold_is_not_guessed(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(disk, MIB, MIB, MIB)
    told: Callable[[int, int, int], int | None] = page_cache.cached_bytes
    for untold, expected in ((1, 0), (2, None), (3, None)):
        hidden = {os.stat(path).st_ino for path in paths[:untold]}
        monkeypatch.setattr(
            page_cache, "cached_bytes", lambda fd, *rest, hidden=hidden: None if os.fstat(fd).st_ino in hidden else told(fd, *rest)
        )
        assert cached_ratio(paths) == expected


# --- emptying ----------------------------------------------------------------------------------------------------------------


def test_evicting_evicts_these_files_and_no_others(disk: Path) -> None:
    mine, others = written(disk, 4 * MIB, 4 * MIB)
    read(mine)
    read(others)
    (disk / "fresh").write_bytes(os.urandom(4 * MIB))
    # Bad files do not hold up the others.
    assert evict([str(disk / "gone"), str(disk), mine, mine, str(disk / "fresh")]) is True
    assert cached_ratio([mine, str(disk / "fresh")]) == pytest.approx(0, abs=0.02)
    assert cached_ratio([others]) == pytest.approx(1, abs=0.02)
    assert len((disk / "fresh").read_bytes()) == 4 * MIB


# --- filling -----------------------------------------------------------------------------------------------------------------


def test_warming_reads_everything_once(disk: Path) -> None:
    paths = written(disk, 4 * MIB, 3 * MIB, 5000, 0)
    warm([*paths, paths[0], str(disk / "gone")], NO_DEADLINE)
    assert cached_ratio(paths) == pytest.approx(1, abs=0.02)


def test_warming_stops_at_the_deadline(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, now = written(disk, 40 * MIB), iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    warm(paths, 0.0)
    assert cached_ratio(paths) == 0
    warm(paths, 10.0)
    assert 0 < cached_ratio(paths) < 1


# --- leaving it as it was ----------------------------------------------------------------------------------------------------


def test_what_was_absent_is_found_and_dropped_again(disk: Path) -> None:
    (path,) = written(disk, 32 * MIB)
    read(path, 8 * MIB, 8 * MIB)
    parts = [(offset * MIB, 8 * MIB) for offset in (0, 8, 16, 24)]
    assert [is_absent(path, *part) for part in parts] == [True, False, True, True]
    read(path)
    for part in (parts[0], *parts[2:]):
        drop(path, *part)
    assert cached_ratio([path]) == pytest.approx(0.25, abs=0.02)
    assert [is_absent(path, *part) for part in parts] == [True, False, True, True]
    assert not is_absent(str(disk / "gone"), 0, MIB)
    drop(str(disk / "gone"), 0, MIB)


# --- sampling ----------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 400), st.integers(1, 60))
def test_even_samples(length: int, count: int) -> None:
    items = list(range(length))
    chosen = evenly(items + items, count)
    assert len(chosen) == len(set(chosen)) == min(length, count)
    assert chosen == sorted(chosen)
    gaps = {after - before for before, after in pairwise(chosen)}
    assert not gaps or max(gaps) - min(gaps) <= 1
