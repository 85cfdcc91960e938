"""Pipelines whose files are in an object store, through the command line, with stock TensorFlow."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.functional.running import BRIEF, FUNCTIONS, QUICK, run_cli

pytestmark = [pytest.mark.tf, pytest.mark.slow]


@contextmanager
def serving_http(objects: Mapping[str, bytes], latency_s: float = 0.0) -> Iterator[str]:
    """Objects by their paths on a plain web server that answers ranges, each answer `latency_s` late; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            time.sleep(latency_s)
            content = objects.get(urlsplit(self.path).path.lstrip("/"))
            if content is None:
                return self.send_error(404)
            first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
            part = content[int(first or 0) : int(last) + 1 if last else None]
            self.send_response(206 if first else 200)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Accept-Ranges", "bytes")
            if first:
                self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(part)
            return None

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_files_of_a_store_are_listed_sized_and_read(tmp_path: Path) -> None:
    arguments = ["analyze", f"{FUNCTIONS}:reads_records_of_a_store", "--set", "folder=ram://bucket/train", *QUICK]
    outcome = run_cli(arguments, tmp_path / "run", program=BRIEF)
    assert outcome.code == 0, outcome.err
    sizes = [400 * number * (500 + 16) for number in range(1, 5)]  # a record's frame has 16 bytes
    files = outcome.run["pipeline"]["files"]
    assert (files["count"], files["bytes"], files["directory"]) == (4, sum(sizes), "ram://bucket/train")
    assert (files["largest_bytes"], files["smallest_bytes"]) == (max(sizes), min(sizes))
    assert outcome.run["storage"]["file_system"] == "ram"
    reads = outcome.run["storage"]["reads"]
    assert [read["streams"] for read in reads] == [1, 2, 4]  # there are not enough files for more
    assert all(read["bytes_per_s"] > 0 for read in reads)
    assert outcome.run["measurements"][0]["samples_per_s"]["estimate"] > 0
    assert not any("was there when the pipeline was built" in line for line in outcome.out.splitlines())


# Long beside what a busy host lets the CPUs of this test wait.
LATENCY_S = 0.06
FILES, FILE_BYTES, SAMPLES_PER_FILE = 6, 64 * 4096, 64


@pytest.mark.long
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
