"""NumPy decodes each record in the interpreter, one at a time for the whole process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.bases import PIXELS, listed, read, shuffled

RAISES = "CSI401"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]

    def decode(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pixels, label = tf.numpy_function(_decode, [record], [tf.float16, tf.int32])
        return tf.ensure_shape(pixels, [PIXELS]), tf.ensure_shape(label, [])

    dataset = shuffled(read(listed(section).repeat()), section)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(section["batch_size"], drop_remainder=True)
    return dataset.prefetch(tf.data.AUTOTUNE)


def _decode(record: bytes) -> tuple[Any, Any]:
    values = np.frombuffer(record, np.uint8)
    return (values[1:] / 255).astype(np.float16), values[0].astype(np.int32)
