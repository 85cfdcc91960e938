"""A shuffle buffer of sixteen samples before a batch of 256."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.fc_mnist import PIXELS
from sample_pipelines.sharding import shard_files
from sample_pipelines.tfrecords import file_pattern

RAISES = "CSI208"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]

    def decode(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values = tf.ensure_shape(tf.io.decode_raw(records, tf.uint8), [section["batch_size"], 1 + PIXELS])
        return tf.cast(values[:, 1:], tf.float16) / 255, tf.cast(values[:, 0], tf.int32)

    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]), shuffle=False)
    files = shard_files(files, section["use_multiple_workers"])
    dataset = files.repeat().interleave(
        tf.data.TFRecordDataset,
        cycle_length=4,
        block_length=16,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=False,
    )
    dataset = dataset.shuffle(16, seed=section["shuffle_seed"])
    dataset = dataset.batch(section["batch_size"], drop_remainder=True)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)
