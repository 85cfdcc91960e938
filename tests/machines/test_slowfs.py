"""The slow file system of the benchmarks: as slow as it is told, no slower, never cached, and gone afterwards."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from benchmarks import slowfs

MIB = 1 << 20
FILES = 4

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.skipif(slowfs.missing() is not None, reason=f"no slow file system here: {slowfs.missing()}"),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    (folder / "deep").mkdir()
    for index in range(FILES):
        (folder / "deep" / f"{index}.bin").write_bytes(os.urandom(4 * MIB))
    (folder / "link").symlink_to("deep/0.bin")
    return folder


def test_the_mirror_shows_what_is_there(source: Path) -> None:
    with slowfs.mounted(source) as folder:
        assert os.path.ismount(folder)
        assert sorted(os.listdir(folder)) == sorted(os.listdir(source))
        for path in (source / "deep").iterdir():
            assert (folder / "deep" / path.name).read_bytes() == path.read_bytes()
            assert (folder / "deep" / path.name).stat().st_size == 4 * MIB
        assert (folder / "link").resolve() == (folder / "deep" / "0.bin").resolve()
        with (folder / "deep" / "0.bin").open("rb") as file:
            file.seek(MIB + 12345)
            with (source / "deep" / "0.bin").open("rb") as same:
                same.seek(MIB + 12345)
                assert file.read(200_000) == same.read(200_000)
        with pytest.raises(FileNotFoundError):
            (folder / "gone").open()
        with pytest.raises(OSError, match="Read-only"):
            (folder / "new").write_bytes(b"x")
    assert not folder.exists()


def test_every_open_waits(source: Path) -> None:
    with slowfs.mounted(source, open_latency_s=0.05) as folder:
        began_s = time.perf_counter()
        for _ in range(6):
            os.close(os.open(folder / "deep" / "0.bin", os.O_RDONLY))
        assert time.perf_counter() - began_s >= 6 * 0.05


def test_it_goes_away_even_when_the_body_fails_with_a_file_open(source: Path) -> None:
    def fail() -> None:
        with slowfs.mounted(source) as folder:
            places.append(folder)
            files.append((folder / "deep" / "0.bin").open("rb"))
            raise ZeroDivisionError

    places: list[Path] = []
    files: list[BinaryIO] = []
    with pytest.raises(ZeroDivisionError):
        fail()
    files[0].close()
    assert not os.path.ismount(places[0])
    assert not places[0].exists()


def test_a_source_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(slowfs.UnavailableError, match="No such file"), slowfs.mounted(tmp_path / "gone"):
        pass


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, source: Path) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with (
        pytest.raises(slowfs.UnavailableError, match=r"gcc, pkg-config, fusermount3 \(apt-get install fuse3"),
        slowfs.mounted(source),
    ):
        pass
