"""The last batch of a pass may be smaller, so no batch has a size that is known beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_decoder, listed, read, shuffled

RAISES = "CSI307"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [?, 784] in 0 to 1, label int32 [?])."""
    section = params["train_input"]
    dataset = shuffled(read(listed(section).repeat()), section)
    dataset = dataset.batch(section["batch_size"])
    dataset = dataset.map(digit_decoder(None), num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)
