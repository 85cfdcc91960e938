"""The storage under a pipeline: what it is, and how fast it reads, from real files and from ones that misbehave."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import slowfs
from cs_input_analyzer.host import page_cache, raw_reads, storage
from cs_input_analyzer.host.mounts import file_system_of, is_shared
from cs_input_analyzer.host.page_cache import cached_ratio, evict
from cs_input_analyzer.host.raw_reads import READ_BYTES, Piece, pieces_of, read_window
from cs_input_analyzer.host.storage import probe_storage
from cs_input_analyzer.records import CacheChoice, Storage

MIB = 1 << 20
Seen = list[tuple[int, int, int]]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Sixteen files of 1 MiB."""
    for index in range(16):
        (tmp_path / f"{index:02}.bin").write_bytes(os.urandom(MIB))
    return sorted(str(path) for path in tmp_path.glob("*.bin"))


# Of sixteen files, the kernel takes back one now and then.
KEPT = 0.1


def fill_cache(paths: list[str]) -> None:
    """Reads until the kernel has all of it. It may take pages back at any time for others, a whole file now and then: where that
    came before the test's own first look, it says nothing of what is tested."""
    for _ in range(5):
        for path in paths:
            Path(path).read_bytes()
        if not paths or cached_ratio(paths) == 1:
            return
    pytest.fail("the kernel does not keep these files in its cache")


def probed(paths: list[str], cache: CacheChoice, streams: tuple[int, ...] = (1, 2), seconds: float = 10.0) -> Storage:
    return probe_storage(paths, cache=cache, dataset_bytes=123, seconds=seconds, streams=streams)


# --- which file system -------------------------------------------------------------------------------------------------------

MOUNTS = r"""
/dev/vda / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
systemd-1 /data autofs rw 0 0
filer:/export /data nfs4 rw,vers=4.2 0 0
mgs@tcp:/scratch /data/with\040space\134here lustre rw 0 0
me@host: /mnt/home fuse.sshfs rw 0 0
tools.img /mnt/tools fuse.squashfuse ro 0 0
thing /mnt/new fuse.newfs rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel's list of mounts; there is none yet."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    (tmp_path / "self").mkdir()
    return tmp_path / "self" / "mounts"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/etc/hosts", ("ext4", False)),
        ("/data/train/0.tfrecord", ("nfs4", True)),
        ("/data", ("nfs4", True)),
        ("/database/x", ("ext4", False)),
        ("/data/with space\\here/x", ("lustre", True)),
        ("/data/with space", ("nfs4", True)),
        ("/mnt/home/me", ("fuse.sshfs", True)),
        ("/mnt/tools/x", ("fuse.squashfuse", False)),
        ("/mnt/new/x", ("fuse.newfs", None)),
    ],
)
def test_the_longest_mount_point_above_a_file_decides(path: str, expected: tuple[str, bool], mounts: Path) -> None:
    mounts.write_text(MOUNTS)
    assert file_system_of(path) == expected


def test_links_are_followed_and_no_list_of_mounts_is_unknown(tmp_path: Path, mounts: Path) -> None:
    assert file_system_of("/") == (None, None)
    mounts.write_text("")
    assert file_system_of("/") == (None, None)
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to("there")
    mounts.write_text(f"x / ext4 rw 0 0\nx {tmp_path}/there nfs rw 0 0\n")
    assert file_system_of(str(tmp_path / "here" / "data")) == ("nfs", True)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(kind, True) for kind in ("nfs4", "lustre", "9p", "fuse.glusterfs", "fuse.sshfs", "fuse.lustre")]
    + [(kind, False) for kind in ("ext4", "tmpfs", "fuseblk", "fuse.squashfuse")]
    + [(kind, None) for kind in ("overlay", "fuse", "fuse.something", "virtiofs", "autofs", "sshfs", "fuse.ext4", "")],
)
def test_which_types_are_shared(kind: str, expected: bool | None) -> None:
    assert is_shared(kind) is expected


# --- cutting the work --------------------------------------------------------------------------------------------------------

file_sizes = st.lists(st.integers(1, 400 * MIB), min_size=1, max_size=40)


@given(file_sizes, st.integers(1, 16))
def test_pieces_are_all_of_the_files_each_byte_once(sizes: list[int], streams: int) -> None:
    named = {str(index): size for index, size in enumerate(sizes)}
    pieces = pieces_of(named, streams)
    for name, size in named.items():
        mine = sorted((piece.offset, piece.length) for piece in pieces if piece.path == name)
        assert [offset for offset, _ in mine] == [sum(length for _, length in mine[:index]) for index in range(len(mine))]
        assert sum(length for _, length in mine) == size
    assert all(piece.offset % READ_BYTES == 0 and 0 < piece.length <= raw_reads.LARGEST_PIECE_BYTES for piece in pieces)
    first = [piece.path for piece in pieces[: min(len(sizes), streams)]]  # streams start in different files
    assert len(set(first)) == len(first)


@given(file_sizes, st.lists(st.integers(1, 8), min_size=1, max_size=5), st.booleans())
def test_windows_share_nothing_unless_all_read_everything(sizes: list[int], streams: list[int], is_own: bool) -> None:
    pieces = pieces_of({str(index): size for index, size in enumerate(sizes)}, max(streams))
    dealt = storage._dealt(pieces, streams, is_own=is_own)
    assert len(dealt) == len(streams)
    seen = Counter(piece for part in dealt for piece in part)
    assert set(seen) == set(pieces)
    assert set(seen.values()) <= {1} or (not is_own and set(seen.values()) == {len(streams)})
    if is_own and len(sizes) >= len(streams) * max(streams):  # each has files of its own
        assert sum(len({piece.path for piece in part}) for part in dealt) == len(sizes)


# --- one window --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """File, offset and bytes of each read that is made from now on."""
    seen: Seen = []
    real = os.preadv

    def preadv(fd: int, buffers: Any, offset: int) -> int:
        count = real(fd, buffers, offset)
        seen.append((os.fstat(fd).st_ino, offset, count))
        return count

    monkeypatch.setattr(raw_reads.os, "preadv", preadv)
    return seen


@pytest.mark.parametrize("streams", [1, 2, 8])
def test_nothing_is_read_twice_and_rates_are_what_was_read(
    files: list[str], streams: int, reads: list[tuple[int, int, int]]
) -> None:
    window = read_window(pieces_of(dict.fromkeys(files, MIB), 8), streams, 60, "as-is")
    assert len(set(reads)) == len(reads)
    assert (window.rate.streams, window.rate.read_bytes, window.hangs) == (streams, READ_BYTES, False)
    assert sum(piece.length for piece in window.read) == sum(count for *_, count in reads)
    assert sum(count for *_, count in reads) == 16 * MIB or streams > 1


def test_the_rate_is_bytes_over_the_time_of_the_clock(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10**6))
    with monkeypatch.context() as patched:
        patched.setattr("time.monotonic", lambda: float(next(now)))
        window = read_window([Piece(path=files[0], offset=0, length=MIB)], 1, 10**5, "warm")
    assert window.rate.bytes_per_s == pytest.approx(MIB / next(now), rel=0.3)  # each look at the clock took a second
    assert (window.rate.latency_s, window.rate.cache_state) == (1, "warm")
    small = read_window([Piece(path=files[1], offset=0, length=1000)], 1, 60, "as-is")
    assert small.rate.read_bytes == 1000
    for streams in (0, 2):  # none, or more than there are pieces, is no measurement
        assert read_window(pieces_of({files[0]: MIB}, 1), streams, 1, "as-is").rate is None


def test_a_window_ends_in_time(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10**6))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    window = read_window(pieces_of(dict.fromkeys(files, MIB), 1), 1, 20, "as-is")
    assert 0 < sum(piece.length for piece in window.read) < 16 * MIB
    assert next(now) < 60


def test_a_file_system_that_hangs_is_left(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_reads, "HANG_S", 0.2)
    answer = threading.Event()
    real, calls = os.preadv, iter(range(10**6))

    def preadv(fd: int, buffers: Any, offset: int) -> int:
        if next(calls) >= 4:
            answer.wait(30)
        return real(fd, buffers, offset)

    monkeypatch.setattr(raw_reads.os, "preadv", preadv)
    try:
        found = probed(files, "as-is", (2, 4), seconds=0.2).reads
    finally:
        answer.set()
    assert [rate.streams for rate in found] == [2]  # what came before it stopped; no second try


# --- rates -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", ["cold", "warm", "as-is"])
def test_rates_by_streams(files: list[str], disk: Path, cache: CacheChoice) -> None:
    found = probed(files, cache, (1, 2, 4))
    expected = [] if cache == "warm" else [1, 2, 4]  # what is in memory is no matter of the storage
    assert [(rate.streams, rate.cache_state) for rate in found.reads] == [(count, cache) for count in expected]
    assert all(rate.bytes_per_s > 0 and rate.latency_s > 0 and rate.read_bytes == READ_BYTES for rate in found.reads)
    assert (found.directory, found.dataset_bytes) == (str(disk), 123)
    assert (found.file_system, found.is_shared) == file_system_of(str(disk))
    assert found.evicted is (True if cache == "cold" else None)
    assert cached_ratio(files) == 0 or cache != "cold"  # who measures next asked for a cold cache


def test_cold_windows_really_read_the_disk(files: list[str], disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[float | None] = []
    real = storage.read_window

    def watched(pieces: Any, streams: int, seconds: float, state: CacheChoice, **options: Any) -> Any:
        before.append(cached_ratio([piece.path for piece in pieces]))
        return real(pieces, streams, seconds, state, **options)

    monkeypatch.setattr(storage, "read_window", watched)
    fill_cache(files)
    probed(files, "cold")
    assert before == pytest.approx([0, 0], abs=KEPT)


@pytest.mark.parametrize("cached", [0, 8, 16])
def test_looking_as_is_leaves_the_cache_as_it_was(files: list[str], disk: Path, cached: int, reads: Seen) -> None:
    evict(files)
    fill_cache(files[:cached])
    reads.clear()
    found = probed(files, "as-is", (1, 2, 4))
    assert len(set(reads)) == len(reads) > 0  # each window has its own data
    assert found.evicted is None
    assert cached_ratio(files[:cached]) == (pytest.approx(1, abs=KEPT) if cached else None)
    assert cached_ratio(files[cached:]) == (0 if cached < 16 else None)


def test_what_could_not_be_evicted_is_not_called_cold(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "drop", lambda path: None)
    for path in files:
        Path(path).read_bytes()
    found = probed(files, "cold")
    assert found.evicted is False
    assert {rate.cache_state for rate in found.reads} == {"as-is"}


# --- all of it ---------------------------------------------------------------------------------------------------------------


def test_bad_files_are_passed_over(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    bad = [str(tmp_path / "gone"), str(tmp_path), str(tmp_path / "empty"), "with\0nul"]
    found = probed([*bad, *files], "as-is")
    assert [rate.streams for rate in found.reads] == [1, 2]
    late = probed(files, "as-is", seconds=-1.0)
    assert (late.reads, late.dataset_bytes) == ((), 123)
    assert probe_storage(bad, cache="as-is", dataset_bytes=1, seconds=0.0) is None
    assert probe_storage([], cache="cold", dataset_bytes=1, seconds=0.0) is None


def test_files_that_vanish_shrink_or_fail_cost_no_other(files: list[str], reads: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    os.unlink(files[0])
    os.truncate(files[1], 300_000)
    os.truncate(files[2], 0)
    bad, real = os.stat(files[3]).st_ino, raw_reads.os.preadv

    def preadv(fd: int, buffers: Any, offset: int) -> int:
        if os.fstat(fd).st_ino == bad:
            raise OSError(5, "Input/output error")
        return real(fd, buffers, offset)

    monkeypatch.setattr(raw_reads.os, "preadv", preadv)
    window = read_window(pieces_of(dict.fromkeys(files, MIB), 1), 1, 60, "as-is")
    assert window.rate is not None
    assert sum(count for *_, count in reads) == sum(piece.length for piece in window.read) == 12 * MIB + 300_000
    assert read_window(pieces_of(dict.fromkeys(["/nowhere"], 9 * MIB), 2), 2, 60, "as-is").rate is None


@pytest.mark.slow
@pytest.mark.skipif(slowfs.missing() is not None, reason=f"no slow file system here: {slowfs.missing()}")
def test_latency_shows_as_latency_and_streams_hide_it(files: list[str], tmp_path: Path) -> None:
    with slowfs.mounted(tmp_path, read_latency_s=0.02, subtype="nfs4") as folder:
        paths = [str(folder / Path(path).name) for path in files]
        for _ in range(6):  # a busy host takes time from one or the other of them, and not from all
            found = probed(paths, "cold", (1, 8))
            assert (found.file_system, found.is_shared, found.evicted) == ("fuse.nfs4", True, True)
            one, eight = found.reads
            assert one.latency_s >= 0.02
            if one.latency_s < 0.1 and eight.bytes_per_s > 3 * one.bytes_per_s:
                break
        else:
            pytest.fail(f"of six tries on a busy host none shows it: {one}, {eight}")
