"""Files are read in a strict order, and a shuffle without a seed follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed

RAISES = "CSI107"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = (
        listed(section)
        .repeat()
        .interleave(
            tf.data.TFRecordDataset,
            cycle_length=4,
            block_length=16,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
    )
    dataset = dataset.shuffle(section["shuffle_buffer"])
    return digit_batches(dataset, section)
