"""Pipelines whose files are in an object store, through the command line, with stock TensorFlow and a store on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.functional.object_store import serving, serving_http
from tests.functional.running import BRIEF, FUNCTIONS, QUICK, run_cli

pytestmark = [pytest.mark.tf, pytest.mark.slow]
NEEDS_CERTIFICATE = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl, which makes the certificate of the store"
)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Four files of records in a bucket, each larger than the one before."""
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("objects")
    for number in range(4):
        with tf.io.TFRecordWriter(str(folder / f"part-{number}.tfrecord")) as writer:
            for _ in range(400 * (number + 1)):
                writer.write(b"x" * 500)
    return {f"bucket/train/{path.name}": path.read_bytes() for path in sorted(folder.iterdir())}


@NEEDS_CERTIFICATE
def test_files_of_a_store_are_listed_sized_and_read(
    objects: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, objects, latency_s=0.03) as store:
        for name, value in store.environ.items():
            monkeypatch.setenv(name, value)
        given = ("--set", "folder=gs://bucket/train")
        outcome = run_cli(["analyze", f"{FUNCTIONS}:reads_records", *given, *QUICK], tmp_path / "run", program=BRIEF)
    assert outcome.code == 0, outcome.err
    sizes = [len(content) for content in objects.values()]
    files = outcome.run["pipeline"]["files"]
    assert (files["count"], files["bytes"], files["directory"]) == (4, sum(sizes), "gs://bucket/train")
    assert (files["largest_bytes"], files["smallest_bytes"]) == (max(sizes), min(sizes))
    assert outcome.run["storage"]["file_system"] == "gs"
    reads = outcome.run["storage"]["reads"]
    assert [read["streams"] for read in reads] == [1, 2, 4]  # there are not enough files for more
    assert all(0.03 < read["latency_s"] < 1 for read in reads)
    assert all(0 < read["bytes_per_s"] < read["streams"] * max(sizes) / 0.03 for read in reads)
    assert outcome.run["measurements"][0]["samples_per_s"]["estimate"] > 0
    assert not any("was there when the pipeline was built" in line for line in outcome.out.splitlines())


@NEEDS_CERTIFICATE
def test_no_credentials_for_a_bucket_are_one_clear_message(
    objects: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, objects, is_open=False) as store:
        for name, value in store.environ.items():
            monkeypatch.setenv(name, value)
        given = ("--set", "folder=gs://bucket/train")
        outcome = run_cli(["analyze", f"{FUNCTIONS}:reads_records", *given, *QUICK], tmp_path / "run", program=BRIEF)
    assert outcome.code == 2
    assert "the store refused gs://bucket/train" in outcome.err
    assert "GOOGLE_APPLICATION_CREDENTIALS" in outcome.err
    assert "Traceback" not in outcome.err


LATENCY_S = 0.03
FILES, FILE_BYTES, SAMPLES_PER_FILE = 6, 64 * 4096, 64


def test_what_a_generator_reads_through_fsspec_is_sized_timed_and_said(tmp_path: Path) -> None:
    objects = {f"train/part-{number}.bin": bytes(FILE_BYTES) for number in range(FILES)}
    with serving_http(objects, LATENCY_S) as address:
        given = ("--set", f"address={address}", "--set", f"files={FILES}", "--set", f"samples={SAMPLES_PER_FILE}")
        outcome = run_cli(["analyze", f"{FUNCTIONS}:generates_from_a_store", *given, *QUICK], tmp_path / "run", program=BRIEF)
    assert outcome.code == 0, outcome.err
    storage = outcome.run["storage"]
    files = storage["fsspec"]["files"]
    assert (files["count"], files["bytes"], files["directory"]) == (FILES, FILES * FILE_BYTES, f"{address}/train")
    assert storage["file_system"] == "http"
    # Each file is asked for twice, its size and its content, and read by one thread.
    wait_s = 2 * LATENCY_S / SAMPLES_PER_FILE
    assert wait_s < storage["fsspec"]["wait_s_per_sample"] < 3 * wait_s
    assert LATENCY_S < storage["fsspec"]["latency_s"] < 10 * LATENCY_S
    measured = outcome.run["measurements"][0]
    assert measured["samples_per_s"]["estimate"] < 1 / wait_s
    assert measured["workers"][0]["bytes_read_per_sample"] == pytest.approx(FILE_BYTES / SAMPLES_PER_FILE, rel=0.3)
    assert [read["streams"] for read in storage["reads"]] == [1, 2, 4]
    assert outcome.run["stations"][0]["kind"] == "storage latency"
    (finding,) = [finding for finding in outcome.run["findings"] if finding["code"] == "CSI111"]
    assert (finding["severity"], finding["op"]) == ("warning", "from_generator")
    assert "signature=1" not in str(outcome.run)  # what stands behind the path is nobody's business


def test_fsspec_is_read_as_if_nobody_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, in parts, several at once, what is not there, from several threads; and all of it is counted."""
    from concurrent.futures import ThreadPoolExecutor

    import fsspec
    from fsspec import asyn, spec

    from cs_input_analyzer.worker.fsspec_watch import FsspecWatch

    monkeypatch.setattr(asyn, "sync", asyn.sync)  # back at the end
    monkeypatch.setattr(spec.AbstractBufferedFile, "__init__", spec.AbstractBufferedFile.__init__)
    contents = {f"data/{number}.bin": bytes([number]) * (1000 + number) for number in range(8)}
    with serving_http(contents, 0.02) as address:
        seen, web = FsspecWatch(), fsspec.filesystem("http", skip_instance_cache=True)
        seen.watch()
        seen.watch()
        urls = {f"{address}/{name}": content for name, content in contents.items()}
        first = next(iter(urls))
        assert seen.summary() is None
        assert web.cat_file(first) == urls[first]
        assert (seen.bytes, seen.sizes) == (1000, ((first, 1000),))
        second = f"{address}/data/1.bin"
        assert web.cat(second) == urls[second]
        assert (seen.bytes, seen.sizes[1]) == (2001, (second, 1001))
        assert web.cat(list(urls)) == urls
        assert seen.bytes == 2001 + sum(map(len, urls.values()))
        assert seen.sizes == tuple((url, len(content)) for url, content in sorted(urls.items()))
        seen.restart()
        with web.open(first, "rb", block_size=64) as file:
            assert (file.read(10), file.seek(500), file.read()) == (urls[first][:10], 500, urls[first][500:])
        assert 510 <= seen.bytes <= 1000
        with web.open(first, "rb", block_size=64) as file:
            assert file.read() == urls[first]
        with pytest.raises(FileNotFoundError):
            web.cat_file(f"{address}/none")
        seen.restart()
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(web.cat_file, urls)) == list(urls.values())
        summary = seen.summary()
        assert summary is not None
        assert summary["waited_s"] >= len(urls) * 0.02  # of all threads together
        with seen.reader(first) as read:
            assert read is not None
            assert read(0, 64) == 64
        with pytest.raises(OSError, match="odd"), seen.reader(first):
            raise RuntimeError("odd")
