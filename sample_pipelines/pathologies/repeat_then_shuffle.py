"""Samples are repeated before they are shuffled, so that passes run into one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed, read

RAISES = "CSI210"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = read(listed(section))
    dataset = dataset.repeat().shuffle(section["shuffle_buffer"], seed=section["shuffle_seed"])
    return digit_batches(dataset, section)
