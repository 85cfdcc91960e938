"""Ops that move batches to a device are left out of the measured copy; what cannot be measured is named with its line."""

from __future__ import annotations

from typing import Any

import pytest

from cs_input_analyzer.errors import TargetError
from cs_input_analyzer.tfdata.graph import ops_of, recorded_sources, sized_files_of, unreadable_named
from cs_input_analyzer.tfdata.graph.nodes import graph_def_of
from cs_input_analyzer.tfdata.left_out import devices_left_out

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")
Dataset = tf.data.Dataset
experimental = tf.data.experimental


PREFETCHED = ["Range", "Batch", "Prefetch"]


@pytest.mark.parametrize(
    ("build", "name", "kinds"),
    [
        (lambda data: data.apply(experimental.prefetch_to_device("/gpu:0")), "prefetch_to_device", PREFETCHED),
        (lambda data: data.apply(experimental.prefetch_to_device("/cpu:0", 2)), "prefetch_to_device", PREFETCHED),
        (lambda data: data.apply(experimental.copy_to_device("/gpu:0")).prefetch(1), "copy_to_device", PREFETCHED),
        (lambda data: experimental.copy_to_device("/cpu:0")(data), "copy_to_device", ["Range", "Batch"]),
        (lambda data: data, "", ["Range", "Batch"]),
    ],
)
def test_a_move_to_a_device_is_left_out_and_named(build: Any, name: str, kinds: list[str]) -> None:
    with devices_left_out() as told:
        dataset = build(Dataset.range(8).batch(2))
    assert [op.kind for op in ops_of(graph_def_of(dataset))] == kinds
    assert [text.split(":")[:2] for text in told] == ([["left out", f" {name}, {__file__}"]] if name else [])
    assert [part.tolist() for part in dataset.as_numpy_iterator()] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_it_is_left_out_inside_a_function_and_the_ops_are_back_afterwards() -> None:
    with devices_left_out() as told:
        dataset = Dataset.range(2).flat_map(lambda x: Dataset.range(3).apply(experimental.copy_to_device("/gpu:0")))
    assert len(list(dataset)) == 6
    assert {text.partition(",")[0] for text in told} == {"left out: copy_to_device"}
    dataset = Dataset.range(3).apply(experimental.copy_to_device("/cpu:0"))
    assert type(dataset).__name__ == "_CopyToDeviceDataset"


def test_a_map_on_a_device_is_refused_with_its_line() -> None:
    from tensorflow.python.data.experimental.ops import prefetching_ops

    with devices_left_out(), pytest.raises(TargetError, match=r"map_on_gpu at .*test_left_out\.py:\d+ computes on a GPU"):
        Dataset.range(3).apply(prefetching_ops.map_on_gpu(lambda x: x + 1))


def test_an_op_that_tensorflow_cannot_write_is_named_with_its_line() -> None:
    with recorded_sources() as log:
        dataset = Dataset.range(3).apply(experimental.copy_to_device("/cpu:0")).prefetch(1)
    with (
        pytest.raises(TargetError, match=r"CopyToDevice, .*test_left_out\.py:\d+, cannot be measured"),
        unreadable_named(dataset, log),
    ):
        sized_files_of(dataset)


def test_another_error_is_not_called_unreadable() -> None:
    with recorded_sources() as log:
        dataset = Dataset.range(3)
    error = tf.errors.FailedPreconditionError(None, None, "a table is not initialized")
    with pytest.raises(tf.errors.FailedPreconditionError), unreadable_named(dataset, log):
        raise error
