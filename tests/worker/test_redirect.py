"""The user's tree while we measure: whatever a pipeline would write goes elsewhere, and the tree stays byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from cs_input_analyzer.engines.scratch import remove
from cs_input_analyzer.worker.redirect import redirected_writes
from tests.functional.running import tree_of

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")
Dataset = tf.data.Dataset


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A folder of the user's, with something in it."""
    folder = tmp_path / "users"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "notes.txt").write_text("mine")
    return folder


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    return folder


def values(dataset: Any) -> list[int]:
    return [int(value) for value in dataset.as_numpy_iterator()]


def wrote_below(folder: Path) -> bool:
    return any(path.is_file() for path in folder.rglob("*"))


def saved_and_loaded(folder: Path) -> Any:
    Dataset.range(5).save(f"{folder}/saved")
    return Dataset.load(f"{folder}/saved")


def saved_with_progress(folder: Path) -> Any:
    Dataset.range(4).save(f"{folder}/saved", checkpoint_args={"directory": f"{folder}/progress", "max_to_keep": 2})
    return Dataset.range(5)


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (lambda folder: Dataset.range(5).cache(f"{folder}/deep/store"), ["deep/store"]),
        (lambda folder: Dataset.range(5).cache(tf.constant(f"{folder}/store")), ["store"]),
        (lambda folder: Dataset.range(5).snapshot(f"{folder}/a", compression=None, shard_func=lambda x: x % 2), ["a"]),
        (lambda folder: Dataset.range(5).apply(tf.data.experimental.snapshot(f"{folder}/a")), ["a"]),
        # two of one base name do not meet
        (
            lambda folder: Dataset.range(2).cache(f"{folder}/a/x").concatenate(Dataset.range(2, 5).cache(f"{folder}/b/x")),
            ["a/x", "b/x"],
        ),
        (saved_and_loaded, ["saved"]),
        (saved_with_progress, ["saved", "progress"]),
    ],
)
def test_what_a_pipeline_writes_is_moved(users: Path, private: Path, build: Callable[[Path], Any], names: list[str]) -> None:
    before = tree_of(users)
    with redirected_writes(private) as moved:
        dataset = build(users)
    assert sorted(values(dataset)) == [0, 1, 2, 3, 4]
    assert moved == [str(users / name) for name in names]
    assert tree_of(users) == before
    assert wrote_below(private)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no second file system")
def test_what_is_moved_stays_on_the_file_system_that_the_user_chose(private: Path) -> None:
    with TemporaryDirectory(dir="/dev/shm") as name:
        users = Path(name)
        if users.stat().st_dev == private.stat().st_dev:
            pytest.skip("temporary files are in /dev/shm, too")
        with redirected_writes(private) as moved:
            dataset = Dataset.range(5).cache(str(users / "deep" / "store")).snapshot(str(users / "snapshot"))
            elsewhere = Dataset.range(5).cache("gs://no-bucket/store")
        assert sorted(values(dataset)) == values(elsewhere) == [0, 1, 2, 3, 4]
        assert len(moved) == 3
        (place,) = users.iterdir()  # private, and beside what was named
        assert place.stat().st_mode & 0o777 == 0o700
        assert wrote_below(place)
        remove(private)
        assert list(users.iterdir()) == []


def test_a_finished_snapshot_of_the_same_pipeline_is_read(users: Path, private: Path) -> None:
    def stamped(count: int) -> Any:
        return Dataset.range(count).map(lambda x: tf.cast(tf.timestamp() * 1e6, tf.int64)).snapshot(str(users / "snapshot"))

    stamps = values(stamped(5))
    (folder,) = (users / "snapshot").iterdir()
    broken = users / "snapshot" / "broken"
    broken.mkdir()
    (broken / "snapshot.metadata").write_text("nothing")
    before = tree_of(users)
    with redirected_writes(private):
        same, other = stamped(5), stamped(6)
    assert values(same) == stamps
    assert not set(values(other)) & set(stamps)
    assert tree_of(users) == before
    metadata = folder / "snapshot.metadata"
    metadata.unlink()  # what a killed training left
    with redirected_writes(private):
        unfinished = stamped(5)
    assert values(unfinished) != stamps


def finished_cache(folder: Path) -> None:
    assert values(Dataset.range(5).cache(str(folder / "store"))) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("prepare", "build", "is_moved"),
    [
        (None, lambda folder: Dataset.range(5).cache().map(lambda x: x).cache(""), False),  # in memory
        (finished_cache, lambda folder: Dataset.range(100, 103).cache(f"{folder}/store"), False),  # what it holds is read
        # In place it would fail with what a killed training left: somebody else seems to be writing.
        (
            lambda folder: (folder / "store_0.lockfile").write_text("Created at: 1"),
            lambda folder: Dataset.range(5).cache(f"{folder}/store"),
            True,
        ),
        (lambda folder: Dataset.range(5).save(f"{folder}/saved"), lambda folder: Dataset.load(f"{folder}/saved"), False),
    ],
    ids=["in memory", "a finished cache", "leftovers of a killed training", "load of what was there"],
)
def test_what_is_there_already_is_left_alone(
    users: Path, private: Path, prepare: Callable[[Path], Any] | None, build: Callable[[Path], Any], is_moved: bool
) -> None:
    if prepare is not None:
        prepare(users)
    before = tree_of(users)
    with redirected_writes(private) as moved:
        dataset = build(users)
    assert sorted(values(dataset)) == sorted(values(dataset)) == [0, 1, 2, 3, 4]
    assert moved == ([str(users / "store")] if is_moved else [])
    assert tree_of(users) == before
    assert wrote_below(private) == is_moved


def test_a_name_that_is_computed_from_an_element_is_moved_too(users: Path, private: Path) -> None:
    before = tree_of(users)
    base = str(users / "store-")

    def cached(index: Any) -> Any:
        return Dataset.range(index * 10, index * 10 + 3).cache(tf.strings.join([base, tf.strings.as_string(index)]))

    with redirected_writes(private) as moved:
        dataset = Dataset.range(2).flat_map(cached)
    assert values(dataset) == [0, 1, 2, 10, 11, 12]  # two names are two places
    assert values(dataset) == [0, 1, 2, 10, 11, 12]
    assert len(moved) == 1
    assert "computed" in moved[0]
    assert tree_of(users) == before
    assert wrote_below(private)


def test_afterwards_everything_writes_where_it_says(users: Path, private: Path) -> None:
    with pytest.raises(ZeroDivisionError), redirected_writes(private):
        raise ZeroDivisionError
    path = str(users / "store")
    assert values(Dataset.range(3).cache(path)) == [0, 1, 2]
    Dataset.range(3).save(str(users / "saved"))
    assert os.path.exists(f"{path}.index")
    assert (users / "saved").is_dir()
    assert not wrote_below(private)
