"""The prefetch stands before the batch, and TensorFlow, told not to tune, adds none behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import decode_digit, listed, read, shuffled

RAISES = "CSI201"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = shuffled(read(listed(section).repeat()), section)
    dataset = dataset.map(decode_digit, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.prefetch(2_560)
    dataset = dataset.batch(section["batch_size"], drop_remainder=True)
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
