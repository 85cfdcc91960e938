"""Pixels leave as float64 and labels as int64: four times the bytes that the accelerator works with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_decoder, listed, read, shuffled

RAISES = "CSI402"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float64 [batch_size, 784] in 0 to 1, label int64 [batch_size])."""
    section = params["train_input"]
    decode = digit_decoder(section["batch_size"], tf.float64, tf.int64)
    dataset = shuffled(read(listed(section).repeat()), section)
    dataset = dataset.batch(section["batch_size"], drop_remainder=True)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)
