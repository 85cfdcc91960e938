"""What is parsed has no shape that tf.data knows: nothing says how many pixels a record has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import listed, read, shuffled

RAISES = "CSI308"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, ?] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]

    def decode(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values = tf.io.decode_raw(records, tf.uint8)
        return tf.cast(values[:, 1:], tf.float16) / 255, tf.cast(values[:, 0], tf.int32)

    dataset = shuffled(read(listed(section).repeat()), section)
    dataset = dataset.batch(section["batch_size"], drop_remainder=True)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)
