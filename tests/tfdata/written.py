"""Datasets from code as users write it, and the edits and functions that tables of such code name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cs_input_analyzer.records import Edit


def built(code: str, words: Mapping[str, Any]) -> Any:
    """Return the dataset of an expression, or the `ds` of a statement. `words`: the names that it uses, besides TensorFlow's."""
    import tensorflow as tf

    space = {"tf": tf, "Dataset": tf.data.Dataset, "TFRecordDataset": tf.data.TFRecordDataset, **words}
    exec(code if code.startswith("ds = ") else f"ds = {code}", space)
    return space["ds"]


def edits_of(*asked: tuple[Any, ...]) -> list[Edit]:
    """Return edits from tuples of kind, op and value."""
    return [Edit(kind=kind, op=op, value=value[0] if value else None) for kind, op, *value in asked]


def draw(value: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    return value, tf.random.uniform([])


def printed(value: Any) -> Any:
    import tensorflow as tf

    tf.print(value)
    return value


def python(value: Any) -> Any:
    import tensorflow as tf

    return tf.numpy_function(lambda number: number, [value], tf.int64)


def generated() -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_generator(lambda: iter(range(9)), output_signature=tf.TensorSpec([], tf.int64))


def with_variable() -> Any:
    import tensorflow as tf

    variable = tf.Variable(3, dtype=tf.int64)
    return tf.data.Dataset.range(4).map(lambda value: value + variable)


# What a dataset is made of the records of several files, where their order shows: which are neighbours, which come first.
ORDERED: Mapping[str, Callable[[Any], Any]] = {
    "as they come": lambda records: records,
    "batches": lambda records: records.batch(5),
    "windows": lambda records: records.window(5, drop_remainder=True).flat_map(lambda window: window.batch(5)),
    "running sums": lambda records: records.scan(np.int64(0), lambda state, value: (state + value, state + value)),
    "the first ones": lambda records: records.take(7),
    "the first ones, shuffled": lambda records: records.take(7).shuffle(9),
    "the first of the shuffled": lambda records: records.shuffle(4).take(7),
    "all but the first of the shuffled": lambda records: records.shuffle(4).skip(7),
    "up to one": lambda records: records.take_while(lambda value: value != 1002),
    "the first of each": lambda records: records.map(lambda value: value % 7).unique(),
    "numbered": lambda records: records.enumerate(),
    "paired with the shuffled": lambda records: records.zip(records.shuffle(9)),
    "shuffled by seed": lambda records: records.shuffle(9, seed=4),
}
