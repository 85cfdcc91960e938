"""A pipeline that begins elsewhere in its lists reads the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.tfdata.file_order import begun_at

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")
Dataset = tf.data.Dataset
NAMES = [f"part-{number}" for number in range(10)]
HALVES = [*NAMES[5:], *NAMES[:5]]


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    for name in NAMES:
        (tmp_path / name).write_text(f"{name}\n")
    return [str(tmp_path / name) for name in NAMES]


def read(dataset: Any) -> list[str]:
    return [Path(text.decode()).name for text in dataset.as_numpy_iterator()]


def test_every_way_from_a_list_of_files_to_a_dataset_begins_in_its_middle(paths: list[str]) -> None:
    folder = Path(paths[0]).parent
    with begun_at(0.5):
        assert read(Dataset.from_tensor_slices(paths)) == HALVES
        assert read(Dataset.from_tensor_slices(tf.constant(paths))) == HALVES
        assert read(Dataset.list_files(f"{folder}/*", shuffle=False)) == HALVES
        assert read(tf.data.TextLineDataset(paths)) == HALVES
        assert sorted(read(Dataset.list_files(f"{folder}/*"))) == NAMES


def test_a_shard_holds_the_files_that_it_held(paths: list[str]) -> None:
    shards = [set(read(Dataset.from_tensor_slices(paths).shard(2, index))) for index in range(2)]
    with begun_at(0.4):
        assert [set(read(Dataset.from_tensor_slices(paths).shard(2, index))) for index in range(2)] == shards


def test_lists_of_one_length_stay_in_step(paths: list[str]) -> None:
    boxes = [[number, number + 1] for number in range(10)]
    pairs = {(name, *box) for name, box in zip(NAMES, boxes, strict=True)}

    def paired(dataset: Any) -> set[tuple[Any, ...]]:
        return {(Path(name.decode()).name, *box) for name, box in dataset.as_numpy_iterator()}

    with begun_at(0.9):
        assert paired(Dataset.from_tensor_slices((paths, boxes))) == pairs
        assert paired(Dataset.zip((Dataset.from_tensor_slices(paths), Dataset.from_tensor_slices(boxes)))) == pairs
        named = Dataset.from_tensor_slices({"name": paths, "box": boxes}).map(lambda row: (row["name"], row["box"]))
        assert paired(named) == pairs


@pytest.mark.parametrize(
    "build",
    [
        lambda: Dataset.range(3).flat_map(lambda number: Dataset.from_tensor_slices([number, number + 1])),
        lambda: Dataset.from_tensor_slices(tf.ragged.constant([["a"], ["b", "c"], ["d"]])).map(lambda row: tf.size(row)),
        lambda: Dataset.from_tensor_slices(tf.sparse.eye(4)).map(lambda row: row.indices[0, 0]),
        lambda: Dataset.from_tensor_slices(["alone"]),
        lambda: Dataset.from_tensor_slices([]),
    ],
)
def test_what_cannot_begin_elsewhere_stays_as_it_is(build: Any) -> None:
    as_it_is = list(build().as_numpy_iterator())
    with begun_at(0.5):
        assert list(build().as_numpy_iterator()) == as_it_is


def test_nothing_is_left_behind_and_what_tensorflow_refuses_is_refused(paths: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), begun_at(0.5):
        raise ZeroDivisionError
    with begun_at(0.0):
        assert read(Dataset.from_tensor_slices(paths)) == NAMES
    assert read(Dataset.from_tensor_slices(paths)) == NAMES
    with begun_at(0.5), pytest.raises(ValueError, match=r"scalar|rank|dimension|unpack|Unbatching"):
        Dataset.from_tensor_slices("alone")
