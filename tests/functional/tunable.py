"""An input function that does the same costly work in every pass, for the tests of `tune`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

SIZE = 220


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    files = tf.data.Dataset.list_files(params["files"], shuffle=False)
    dataset = (
        files.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=tf.data.AUTOTUNE)
        .map(costly, num_parallel_calls=tf.data.AUTOTUNE)  # the same every time
        .repeat()
    )
    return dataset.batch(4, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def costly(record: tf.Tensor) -> tf.Tensor:
    """Some milliseconds of one CPU."""
    matrix = tf.fill([SIZE, SIZE], tf.cast(tf.strings.length(record), tf.float32) / SIZE)
    for _ in range(12):
        matrix = tf.math.tanh(tf.linalg.matmul(matrix, matrix))
    return matrix[:2, 0]


def write_records(folder: Path) -> str:
    """Two files of records of which no two are alike, and their pattern."""
    for number in range(2):
        with tf.io.TFRecordWriter(str(folder / f"part-{number}.tfrecord")) as writer:
            for record in range(12):
                writer.write(b"x" * (100 + 12 * number + record))
    return f"{folder}/*.tfrecord"


def serial_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Costly random work in one serial map, Python that draws, a shuffle of a whole pass."""
    records = tf.data.TFRecordDataset(tf.io.gfile.glob(params["files"]))
    dataset = records.map(lambda record: costly(record) + tf.random.uniform([2]))
    dataset = dataset.map(lambda row: tf.ensure_shape(tf.numpy_function(jittered, [row], tf.float32), [2]))
    return dataset.shuffle(1000).batch(4, drop_remainder=True).repeat()


def jittered(row: Any) -> Any:
    """The row, times a number that Python draws."""
    return (row * (1 + random.random())).astype("float32")
