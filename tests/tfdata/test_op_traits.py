"""What the ops of a function say about it; and the claims about TensorFlow, tried on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer.records import Component
from cs_input_analyzer.tfdata import op_traits as traits
from tests.builders import make_graph
from tests.rules.lines import line, mapped, op, reading
from tests.tf_versions import needs_costs


def test_which_call_of_a_statement_made_an_op() -> None:
    """In a loop, or in a function that is called twice, one call is several ops; the same words on another line are not."""
    code = "ds = ds.map(a).map(b)"
    ops = line(*reading(), mapped(code=code), mapped(code=code), mapped(code="ds = ds.map(c)"), mapped())
    assert [traits.call_number(one, ops) for one in ops[4:]] == [0, 1, None, -1]
    looped = line(*reading(), *(mapped(code="ds = ds.map(f)") for _ in range(2)))
    assert {traits.call_number(one, looped) for one in looped[4:]} == {-1}
    apart = (*looped[:5], replace(looped[5], source="input_fn.py:99"))
    assert [traits.call_number(one, apart) for one in apart[4:]] == [None, None]


def test_a_flat_map_that_a_reader_made_is_none_of_the_statements_flat_maps() -> None:
    code = "ds = tf.data.TFRecordDataset(files).flat_map(split)"
    reader = op("TFRecord", "TFRecordDataset", within="flat_map", code=code)
    ops = line(op("TensorSlice", "from_tensor_slices", code=code), reader, *[op("FlatMap", "flat_map", code=code)] * 2)
    made, written = ops[2], ops[3]
    assert [traits.is_made_by_reader(one, ops) for one in ops] == [False, False, True, False]
    assert (traits.call_number(made, ops), traits.call_number(written, ops)) == (-1, None)
    assert (traits.reader_call(made, ops), traits.reader_call(written, ops)) == ("TFRecordDataset", None)
    # Where the user wrote the flat_map round the reader, the reader has one of its own inside.
    own = line(*reading("FlatMap", code="ds = files.flat_map(tf.data.TFRecordDataset)"))
    assert [traits.is_made_by_reader(one, own) for one in own] == [False, False, True, False]
    assert traits.call_number(own[3], own) is None
    # One call that made two readers is none to change.
    second = [replace(one, name=f"{one.name}_2", within=one.within and f"{one.within}_2") for one in ops[:3]]
    assert [traits.reader_call(one, (*ops[:3], *second)) for one in (*ops[:3], *second)] == [None] * 6


def test_bytes_of_a_sample_are_those_of_its_tensors() -> None:
    spec = (Component(name="x", shape=(8, 10), dtype="float16"), Component(name="y", shape=(8,), dtype="int64"))
    assert traits.sample_bytes(make_graph(element_spec=spec, batch_size=8)) == 28
    nothing = Component(name="y", shape=None, dtype="none", kind="none")
    assert traits.sample_bytes(make_graph(element_spec=(*spec, nothing), batch_size=8)) == 28
    assert traits.sample_bytes(make_graph(element_spec=spec, batch_size=None)) is None
    for shape, dtype in (((8, None), "float16"), (None, "float16"), ((8,), "string")):
        unknown = (*spec, Component(name="z", shape=shape, dtype=dtype))
        assert traits.sample_bytes(make_graph(element_spec=unknown, batch_size=8)) is None


# Of TensorFlow, and an element.
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "pure": lambda tf, x: x + 1,
    "random": lambda tf, x: tf.cast(x, tf.float32) + tf.random.uniform([]),
    "by seed": lambda tf, x: tf.cast(x, tf.float32) + tf.random.stateless_uniform([], [1, 2]),
    "python": lambda tf, x: tf.numpy_function(lambda value: value, [x], tf.int64),
}


@pytest.mark.tf
@needs_costs
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("switched_off", [False, True])
def test_tensorflow_adds_parallel_maps_and_a_prefetch_where_we_say(function: Callable[[Any, Any], Any], switched_off: bool) -> None:
    import tensorflow as tf

    from cs_input_analyzer.tfdata.graph import graph_def_of, ops_of

    dataset = tf.data.Dataset.range(100).map(lambda x: function(tf, x)).shuffle(3)
    if switched_off:
        said = tf.data.Options()
        said.experimental_optimization.map_parallelization = False
        said.experimental_optimization.inject_prefetch = False
        dataset = dataset.with_options(said)
    ops = ops_of(graph_def_of(dataset))
    (one,) = [found for found in ops if found.kind == "Map"]
    iterator = iter(dataset)
    next(iterator)
    model = tf.data.experimental.get_model_proto(iterator)  # after TensorFlow's own rewriting
    running = [node.name.rpartition("::")[2] for node in model.nodes.values()]
    assert (traits.why_not_parallelized(one, ops) is None) is any(name.startswith("ParallelMap") for name in running)
    assert traits.prefetches_by_itself(ops) is ("Prefetch" in running)
