"""Three maps, each with one small thing to do for each sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import PIXELS, listed, read, shuffled

RAISES = "CSI109"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]

    def decode(record: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.io.decode_raw(record, tf.uint8), [1 + PIXELS])

    def split(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return values[1:], values[0]

    def scale(pixels: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.cast(pixels, tf.float16) / 255, tf.cast(label, tf.int32)

    dataset = read(listed(section).repeat())
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.map(split, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.map(scale, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = shuffled(dataset, section)
    dataset = dataset.batch(section["batch_size"], drop_remainder=True)
    return dataset.prefetch(tf.data.AUTOTUNE)
