"""Every sample is cast and scaled by itself, which could be done for a whole batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import PIXELS, listed, read, shuffled

RAISES = "CSI106"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]

    def scale(record: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.io.decode_raw(record, tf.uint8), tf.float16) / 255

    def split(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values = tf.ensure_shape(values, [section["batch_size"], 1 + PIXELS])
        return values[:, 1:], tf.cast(tf.round(values[:, 0] * 255), tf.int32)

    dataset = shuffled(read(listed(section).repeat()), section)
    dataset = dataset.map(scale, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(section["batch_size"], drop_remainder=True)
    dataset = dataset.map(split, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)
