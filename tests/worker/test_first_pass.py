"""When a `cache` is full, as the graph tells it. In this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cs_input_analyzer.worker.first_pass import FirstPass, first_pass_of

pytestmark = pytest.mark.tf


def range_of(tf: Any, count: int = 100) -> Any:
    return tf.data.Dataset.range(count)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda tf: range_of(tf).batch(4), None),
        (lambda tf: range_of(tf).cache().repeat().batch(4), (25, True, True)),
        (lambda tf: range_of(tf).cache().shuffle(10).repeat().map(abs).batch(4, drop_remainder=True).prefetch(2), (25, True, True)),
        (lambda tf: range_of(tf).batch(4).cache().repeat().unbatch(), (None, True, False)),
        (lambda tf: range_of(tf).cache().filter(lambda value: value > 3).batch(4), (None, True, True)),
        (lambda tf: range_of(tf).filter(lambda value: value > 3).cache().batch(4), (None, True, True)),
        (lambda tf: range_of(tf).filter(lambda value: value > 3).cache().repeat().batch(4), (None, True, False)),
        (lambda tf: range_of(tf).repeat().cache().batch(4), (None, True, True)),
        # What a `take` or a shorter input leaves in the cache's input is not read.
        (lambda tf: range_of(tf).cache().take(10).repeat(), (None, False, False)),
        (lambda tf: tf.data.Dataset.zip((range_of(tf).cache(), range_of(tf, 9))), (None, False, False)),
    ],
)
def test_the_first_pass_is_as_long_as_the_graph_tells(
    build: Callable[[Any], Any], expected: tuple[float | None, bool, bool] | None
) -> None:
    import tensorflow as tf

    from cs_input_analyzer.tfdata import graph

    with graph.recorded_sources() as log:
        dataset = build(tf)
    found = first_pass_of(dataset, graph.read_graph(dataset, log, target="t").ops)
    if expected is None:
        assert found is None
    else:
        elements, ends_with_data, is_seen = expected
        assert found == FirstPass(elements=elements, ends_with_data=ends_with_data, is_seen=is_seen)
