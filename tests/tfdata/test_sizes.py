"""Which of the names in a graph are files, and how large: on file systems and on stores."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cs_input_analyzer.records import FileSet
from cs_input_analyzer.tfdata.graph import read_graph, recorded_sources, sizes

pytestmark = pytest.mark.tf
MANY = 47_000  # of which every 23rd is asked about


class Remote:
    """Stands in for `tf.io.gfile.stat`: a store of files of 100 bytes and, every tenth, of 200."""

    def __init__(self, refused: Exception | None = None, holes: bool = False) -> None:
        self.refused, self.holes, self.asked = refused, holes, 0

    def __call__(self, path: str) -> SimpleNamespace:
        import tensorflow as tf

        self.asked += 1
        if self.refused is not None:
            raise self.refused
        number = int(path.rpartition("-")[2])
        if self.holes and number % 3:
            raise tf.errors.NotFoundError(None, None, path)
        return SimpleNamespace(is_directory=False, length=200 if number % 10 == 0 else 100)


def test_files_that_only_tensorflow_can_open_are_asked_of_it(tmp_path: Path) -> None:
    import tensorflow as tf

    for number in range(3):
        tf.io.gfile.makedirs("ram://train")
        with tf.io.TFRecordWriter(f"ram://train/part-{number}") as writer:
            writer.write(b"x" * 100 * (number + 1))
    names = [f"ram://train/part-{number}" for number in range(3)]
    with recorded_sources() as log:
        dataset = tf.data.TFRecordDataset([*names, "ram://train/part-9", "ram://train"]).batch(2)
    files = read_graph(dataset, log, target="x").files
    assert (files.count, files.smallest_bytes, files.largest_bytes, files.directory) == (3, 116, 316, "ram://train")
    assert files.store == "ram"
    (tmp_path / "local").write_bytes(b"12345")
    assert sizes.existing([f"file://{tmp_path}/local", str(tmp_path / "local")]) == (
        (str(tmp_path / "local"), 5),
        (f"file://{tmp_path}/local", 5),
    )


@pytest.mark.parametrize(
    ("paths", "folder"),
    [
        (["gs://a/b/c", "gs://a/b/d/e"], "gs://a/b"),
        (["gs://a/b", "gs://c/d"], "gs://"),
        (["gs://a/b", "/c/d"], "/"),
        (["/a/b", "/a/c/d"], "/a"),
    ],
)
def test_the_folder_of_files_on_a_store_keeps_its_scheme(paths: list[str], folder: str) -> None:
    assert sizes.folder_of(paths) == folder


@pytest.mark.parametrize(
    ("directory", "store"), [("gs://a/b", "gs"), ("/a", None), (None, None), ("file:///a", None), ("/a://b", None)]
)
def test_only_what_no_file_system_holds_is_on_a_store(directory: str | None, store: str | None) -> None:
    assert FileSet(count=1, bytes=1, largest_bytes=1, smallest_bytes=1, directory=directory).store == store


def test_names_on_a_store_are_answered_by_a_sample_and_one_that_refuses_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    names = [f"gs://bucket/part-{number}" for number in range(MANY)]

    def found(**answers: Any) -> tuple[Any, int]:
        remote = Remote(**answers)
        monkeypatch.setattr(tf.io.gfile, "stat", remote)
        return sizes.existing(names), remote.asked

    files, asked = found()
    assert len(files) == MANY
    assert asked <= sizes.ASKED_REMOTE + 1
    assert sum(size for _, size in files) == pytest.approx(110 * MANY, rel=0.02)
    files, asked = found(holes=True)  # names that are no files among them: those that were not asked about are none
    assert 0 < len(files) < sizes.ASKED_REMOTE
    assert asked <= sizes.ASKED_REMOTE + 1
    assert found(refused=tf.errors.PermissionDeniedError(None, None, "no")) == ((), 1)
    assert sizes.existing(names[:2], dict.fromkeys(names, 7)) == tuple((name, 7) for name in names[:2])  # known before


def test_of_many_local_names_some_are_asked_about(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"part-{number * 1_000}").write_bytes(b"x" * number)
    found = sizes.existing(f"{tmp_path}/part-{number}" for number in range(20_000))
    assert [size for _, size in found] == [0, 1, 2]
    really, asked = os.stat, []

    def answer(path: Any, **how: Any) -> Any:
        if not str(path).startswith("/store/"):
            return really(path, **how)
        asked.append(path)
        return SimpleNamespace(st_mode=stat.S_IFREG, st_size=100)

    monkeypatch.setattr(os, "stat", answer)
    monkeypatch.setattr(sizes, "ASKED_LOCAL", 1000)
    found = sizes.existing(f"/store/part-{number}" for number in range(MANY))
    assert len(found) == MANY
    assert len(asked) <= sizes.ASKED_LOCAL
    assert {size for _, size in found} == {100}
    found = sizes.existing([*(f"/store/part-{number}" for number in range(MANY)), *(f"label-{number}" for number in range(99))])
    assert len(found) == MANY
    asked.clear()
    assert sizes.existing(f"/store/part-{number}" for number in range(MANY)) == found
    assert len(asked) <= sizes.ASKED_LOCAL
