"""Pipelines whose files are in an object store, through the command line, with stock TensorFlow and a store on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.functional.object_store import serving
from tests.functional.running import BRIEF, FUNCTIONS, QUICK, run_cli

pytestmark = [
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl, which makes the certificate of the store"),
]


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
