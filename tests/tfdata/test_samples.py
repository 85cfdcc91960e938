"""How many samples one element holds: a table of shapes that pipelines have, and what is said of those that are not clear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import make_graph, make_op

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.params import batch_sizes_in
from cs_input_analyzer.records import Component, Op, SamplesPerElement
from cs_input_analyzer.tfdata.samples import (
    batching_op,
    check_demand,
    element_sentence,
    is_open,
    samples_per_element_of,
    samples_reaching,
    with_samples,
)
from tests.tfdata.written import built

Shape = tuple[int | None, ...]


def spec_of(*shapes: Shape | None) -> tuple[Component, ...]:
    return tuple(Component(name=str(place), shape=shape, dtype="float32") for place, shape in enumerate(shapes))


def source(kind: str = "TFRecord") -> tuple[Op, ...]:
    return (make_op("source", kind=kind, name="source", inputs=()),)


def batched(size: int = 8) -> tuple[Op, ...]:
    return (*source(), make_op("batch", kind="Batch", name="batch", inputs=("source",), parameters={"batch_size": size}))


def sliced(*shapes: Shape) -> tuple[Op, ...]:
    """Batches of 8 and a map that leaves none of their rows' dimension."""
    dimensions = tuple(("",) * len(shape) for shape in shapes)
    return (*batched(8), make_op("map", kind="Map", name="map", inputs=("batch",), parameters={}, dimensions=dimensions))


PREBATCHED = ((256, 64), (256,))


@pytest.mark.parametrize(
    ("ops", "shapes", "known", "expected"),
    [
        *((source(), shapes, {}, (1, None, ())) for shapes in (((28, 28), ()), ((),), ((28, 28), (10,)), ((1, 28), (1,)))),
        # One tensor with dimensions of its own, or several that share one beside a scalar, may be a batch.
        *((source(), shapes, {}, (None, None, (1, shapes[0][0]))) for shapes in (((8192, 1),), ((64, 3), (64,), ()))),
        *((source(), shapes, {}, (None, None, (1,))) for shapes in (((None, 64), (None,)), ((None,),), (None,))),
        # The params or the demand settle what is a dimension already.
        (source(), PREBATCHED, {}, (None, None, (1, 256))),
        (source(), PREBATCHED, {"params_sizes": (32, 256)}, (256, None, ())),
        (source(), PREBATCHED, {"demand_size": 256}, (256, None, ())),
        (source(), PREBATCHED, {"demand_size": 512}, (None, None, (1, 256))),
        (source(), PREBATCHED, {"said": 128}, (128, None, ())),
        # They never change what a batching op made; labels are counted rather than padded rows.
        *((batched(8), ((8, 3), (8,)), {"demand_size": size, "params_sizes": (size,)}, (8, None, ())) for size in (1, 8, 256)),
        (batched(8), ((None, None), (None,)), {}, (8, 1, ())),
        # A batch that is gone from the shapes is not counted because the params name it.
        *(
            (sliced(*shapes), shapes, known, (value, None, () if value else (1, 8)))
            for shapes, known, value in (
                (((4, 12),), {"params_sizes": (8,)}, None),
                (((4, 12), (4,)), {"demand_size": 8}, None),
                (((12, 4), (8,)), {"params_sizes": (8,)}, 8),
                (((),), {"params_sizes": (8,)}, 8),  # a sum over it
            )
        ),
        # What comes from elsewhere may be samples or batches.
        *((source(kind), ((64, 3), (64,)), {}, (None, None, (1, 64))) for kind in ("Load", "DataService")),
        (source("Load"), ((64, 3), ()), {}, (1, None, ())),
    ],
)
def test_ops_dimensions_params_and_the_demand_tell(
    ops: tuple[Op, ...], shapes: tuple[Shape | None, ...], known: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    found = samples_per_element_of(ops, spec_of(*shapes), **known)
    assert (found.value, found.counted_in, found.readings) == expected
    assert ("assumed" in found.source) is (shapes == ((28, 28), (10,)))


@pytest.mark.parametrize(
    ("ops", "shapes", "seen", "expected"),
    [
        (source(), ((None, 64), (None,)), ((256, 64), (256,)), (None, None, (1, 256))),
        (source(), ((None,),), ((1,),), (1, None, ())),
        (batched(8), ((None, 3),), ((8, 3),), (8, 0, ())),
        (batched(8), ((None, 3),), ((5, 3),), (8, 0, ())),  # the only batch of a small dataset
        (batched(8), ((None, 3),), ((16, 3),), (None, None, (8, 16))),
        (batched(8), ((16, 3),), None, (None, None, (8, 16))),
        (batched(1), ((1, 8192, 1),), None, (1, None, ())),
        (batched(1), ((1, 28, 28), (1,)), None, (1, None, ())),
    ],
)
def test_the_first_element_settles_or_contradicts(
    ops: tuple[Op, ...], shapes: tuple[Shape | None, ...], seen: tuple[Shape | None, ...] | None, expected: tuple[Any, ...]
) -> None:
    found = samples_per_element_of(ops, spec_of(*shapes), seen=seen)
    assert (found.value, found.counted_in, found.readings) == expected
    assert seen is None or is_open(spec_of(*shapes))


def repeated(count: int, *behind: Op) -> tuple[Op, ...]:
    """Batches of 8 of data that are repeated."""
    repeat = make_op("repeat", kind="Repeat", name="repeat", inputs=("source",), parameters={"count": count})
    batch = make_op("batch", kind="Batch", name="batch", inputs=("repeat",), parameters={"batch_size": 8})
    return (*source(), repeat, batch, *behind)


MASK = make_op("map", kind="Map", name="map", inputs=("batch",), parameters={}, dimensions=(("?",),))


@pytest.mark.parametrize(
    ("ops", "seen", "counted_in", "says"),
    [
        (repeated(-1), ((8, 3),), None, "= 8 samples"),
        (repeated(-1), None, None, "= 8 samples"),
        (repeated(3), ((8, 3),), 0, "at most 8"),
        (repeated(-1), ((5, 3),), 0, "at most 8"),  # the claim is wrong
        (repeated(-1, MASK), ((8,),), 0, "at most 8"),  # the map may keep some of them
        (batched(8), ((8, 3),), 0, "at most 8"),
    ],
)
def test_batches_of_endless_data_are_full(ops: tuple[Op, ...], seen: Any, counted_in: int | None, says: str) -> None:
    found = samples_per_element_of(ops, spec_of((None,) if ops[-1] is MASK else (None, 3)), seen=seen)
    assert (found.value, found.counted_in) == (8, counted_in)
    assert says in element_sentence(found)


def test_a_demand_of_several_elements_is_told_and_any_other_refused() -> None:
    found = samples_per_element_of(batched(256), spec_of((256, 3)))
    check_demand(found, 1024, has_demand=True)
    assert element_sentence(found, 1024).endswith("; a step of 1024 samples is 4 elements")
    assert "step" not in element_sentence(found, 256)
    assert "as it is long" in element_sentence(SamplesPerElement(value=None, source="bucket", counted_in=0))
    with pytest.raises(UsageError, match=r"batch size of 1000 .* 256 samples"):
        check_demand(found, 1000, has_demand=True)
    with pytest.raises(UsageError, match=r"batch size of 128 .* 256 samples"):
        check_demand(found, 128, has_demand=False)


def test_two_readings_and_a_demand_are_refused_with_both() -> None:
    found = samples_per_element_of(source(), spec_of((256, 64), (256,)))
    with pytest.raises(UsageError, match=r"--samples-per-element 1 or --samples-per-element 256"):
        check_demand(found, None, has_demand=True)
    check_demand(found, None, has_demand=False)
    assert "samples per element unknown" in element_sentence(found)


def test_a_count_of_the_first_element_replaces_that_of_the_graph() -> None:
    pipeline = make_graph("tensor_slices > batch*8")
    asked = SamplesPerElement(value=None, source="t", readings=(1, 8))
    counted = SamplesPerElement(value=8, source="t", counted_in=0)
    fixed = SamplesPerElement(value=64, source="t")
    assert [with_samples(pipeline, one).batch_size for one in (asked, counted, fixed)] == [1, None, 64]
    assert with_samples(pipeline, fixed).samples_per_element == fixed


def test_sizes_in_params_are_found_at_any_depth() -> None:
    params = {"batch_size": 4, "train_input": {"batch_size": 8, "buffer": 9}, "list": [{"batch_size": True}, {"batch_size": 16}]}
    assert batch_sizes_in(params) == (4, 8, 16)
    assert batch_sizes_in(None) == ()


# The pipeline; samples of a full element, None where they are not told; whether each element is counted. `steps` are 64 numbers,
# `eights` whole batches of eight of them, `frames(n)` such batches of rows of that length.
HOLDS: list[tuple[str, tuple[int | None, bool]]] = [
    ("images.batch(8, drop_remainder=True)", (8, False)),
    ("images.batch(8)", (8, True)),
    ("sequences.ragged_batch(4)", (4, True)),
    ("steps.apply(tf.data.experimental.map_and_batch(lambda i: i, 4))", (4, True)),
    ("eights.batch(4)", (None, False)),
    ("images.batch(8).rebatch(3)", (3, True)),
    ("Dataset.from_tensor_slices(['a', 'b']).interleave(lambda file: TFRecordDataset(file).batch(16))", (16, True)),
    # Batches that are taken apart, or were there before.
    ("prebatched.unbatch()", (1, False)),
    ("prebatched.map(lambda x, y: x).unbatch()", (None, False)),
    ("prebatched.batch(1).unbatch()", (None, False)),
    ("prebatched.batch(1, drop_remainder=True)", (1, False)),  # a model takes the outer dimension as the batch
    ("images.batch(8).unbatch().batch(5, drop_remainder=True)", (5, False)),
    ("steps.batch(8).flat_map(Dataset.from_tensor_slices)", (1, False)),
    ("eights.flat_map(lambda x: Dataset.from_tensors(x))", (8, False)),
    ("generated([256, 64], [256])", (None, False)),
    ("generated([None, 64], [None])", (None, False)),
    ("Dataset.from_tensor_slices((tf.zeros([9, 256, 64]), tf.zeros([9, 256])))", (None, False)),
    # Functions that move, split, merge or reduce the dimension of a batch.
    ("eights.map(lambda x: tf.concat([x, x], 0))", (None, False)),
    ("eights.map(lambda x: (tf.concat([x, x], 0), x))", (8, False)),
    ("eights.map(lambda x: tf.transpose(tf.stack([x, x], 1)))", (8, False)),
    ("eights.map(lambda x: tf.reshape(x, [4, 2]))", (8, False)),  # a batch for each device
    ("frames(5).map(lambda x: tf.reshape(x, [40]))", (None, False)),
    ("eights.batch(4, drop_remainder=True).map(lambda x: tf.reshape(x, [-1]))", (32, False)),
    ("frames(5).map(lambda x: tf.map_fn(lambda row: row * 2, x))", (8, False)),
    ("eights.map(tf.reduce_sum).batch(4, drop_remainder=True)", (4, False)),
    ("steps.batch(8).map(tf.reduce_sum)", (None, False)),
    ("frames(8).map(tf.function(lambda x: tf.reduce_max(x, 0))).batch(4, drop_remainder=True)", (4, False)),
    ("eights.map(lambda x: (x[:-1], x[1:])).batch(4)", (4, True)),
    ("steps.batch(8).map(lambda x: tf.py_function(lambda y: y, [x], tf.int64))", (8, True)),
    ("frames(16).map(lambda x: by_python(x, [16]))", (None, False)),
    ("frames(16).map(lambda x: by_python(x, [8, 16]))", (8, False)),
    # Windows and groups.
    ("windows(5)", (None, False)),
    ("windows(60).batch(32, drop_remainder=True)", (32, False)),
    ("windows(5, drop_remainder=True).map(lambda w: (w[:-1], w[-1]))", (1, False)),
    ("eights.window(5).flat_map(lambda w: w.batch(5))", (None, False)),
    ("two_columns.batch(4, drop_remainder=True)", (4, False)),
    ("steps.window(5).flat_map(lambda w: w).batch(4, drop_remainder=True)", (4, False)),
    ("groups(lambda i: i).batch(4, drop_remainder=True)", (4, False)),
    ("groups(lambda i: i % 2).batch(4, drop_remainder=True)", (None, False)),
    ("groups(lambda i: i % 2)", (10, True)),
    ("sequences.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [5, 10], [2, 3, 4])", (None, True)),
    # Several branches.
    ("eights.enumerate()", (8, False)),
    ("Dataset.zip((images.batch(8), images.batch(8)))", (8, True)),
    ("Dataset.zip((eights, steps.batch(4)))", (None, False)),
    ("Dataset.zip((images, Dataset.random().batch(2))).batch(8)", (8, True)),
    ("Dataset.zip((eights, steps.map(lambda i: i + 1)))", (8, False)),
    ("Dataset.zip((images.batch(8, drop_remainder=True), images))", (None, False)),
    ("Dataset.sample_from_datasets([steps.batch(8), steps.batch(8)])", (8, True)),
    ("steps.batch(8).concatenate(steps.batch(4))", (None, True)),
]


def by_python(x: Any, shape: list[int]) -> Any:
    import tensorflow as tf

    return tf.ensure_shape(tf.numpy_function(lambda y: y.reshape(-1)[: np.prod(shape)].reshape(shape), [x], tf.int64), shape)


def words(tf: Any) -> dict[str, Any]:
    """The names that the pipelines of the table use."""
    steps = tf.data.Dataset.range(64)
    windows = tf.data.Dataset.zip((steps, steps)).window(5, drop_remainder=True)

    def generated(*shapes: list[int | None]) -> Any:
        signature = tuple(tf.TensorSpec(shape, tf.float32) for shape in shapes)
        return tf.data.Dataset.from_generator(lambda: iter(()), output_signature=signature)

    return {
        "by_python": by_python,
        "generated": generated,
        "steps": steps,
        "images": steps.map(lambda i: (tf.zeros([28, 28]), i)),
        "sequences": tf.data.Dataset.range(1, 64).map(lambda i: tf.range(i)),
        "prebatched": tf.data.Dataset.from_tensors((tf.zeros([256, 64]), tf.zeros([256]))),
        "eights": steps.batch(8, drop_remainder=True),
        "frames": lambda length: steps.map(lambda i: tf.fill([length], i)).batch(8, drop_remainder=True),
        "windows": lambda size, **kept: steps.window(size).flat_map(lambda w: w.batch(size, **kept)),
        "groups": lambda key: steps.group_by_window(key, lambda _, group: group.batch(10), window_size=10),
        "two_columns": windows.flat_map(lambda a, b: tf.data.Dataset.zip((a.batch(5), b.batch(5)))),
    }


@pytest.mark.tf
@pytest.mark.parametrize(("code", "wanted"), HOLDS, ids=[code for code, _ in HOLDS])
def test_what_an_element_of_a_pipeline_holds(code: str, wanted: tuple[int | None, bool]) -> None:
    import tensorflow as tf

    from cs_input_analyzer.tfdata import graph

    with graph.recorded_sources() as log:
        dataset = built(code, words(tf))
    found = graph.read_graph(dataset, log, target="t").samples_per_element
    assert (found.value, found.counted_in is not None) == wanted, found


def test_samples_in_an_element_are_those_of_all_batches_before() -> None:
    for chain, expected in (("tensor_slices > map", 1), ("tensor_slices > batch*8 > batch*4 > map", 32)):
        ops = make_graph(chain).ops
        assert samples_reaching(ops[-1], ops) == expected
    ops = (make_op("batch", parameters={}), make_op("map", inputs=("batch",)))
    assert samples_reaching(ops[1], ops) is None


@pytest.mark.parametrize(
    ("chain", "expected"),
    [("map > shuffle", None), ("batch > map", "batch"), ("batch > map > batch", "batch_2"), ("batch > unbatch", None)],
)
def test_the_batching_op_is_the_last_that_nothing_undoes(chain: str, expected: str | None) -> None:
    found = batching_op(make_graph(chain).ops)
    assert (found.name if found else None) == expected
