"""AUTOTUNE is told to count on the 64 CPUs of a node, of which a task has a few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed, read, shuffled

RAISES = "CSI507"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = digit_batches(shuffled(read(listed(section).repeat()), section), section)
    options = tf.data.Options()
    options.autotune.cpu_budget = 64
    return dataset.with_options(options)
