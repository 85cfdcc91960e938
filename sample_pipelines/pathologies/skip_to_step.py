"""A restarted job skips the samples that the last run has seen, after decoding them one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import decode_digit, listed, read, shuffled

RAISES = "CSI309"
SAMPLES_SEEN = 50_000


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = read(listed(section).repeat()).map(decode_digit, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.skip(SAMPLES_SEEN)
    dataset = shuffled(dataset, section).batch(section["batch_size"], drop_remainder=True)
    return dataset.prefetch(tf.data.AUTOTUNE)
