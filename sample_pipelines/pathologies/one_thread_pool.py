"""All parallel calls share a pool of one thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed, read, shuffled

RAISES = "CSI407"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = digit_batches(shuffled(read(listed(section).repeat()), section), section)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    return dataset.with_options(options)
