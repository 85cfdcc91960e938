"""An interleave with parallel calls but a cycle of one file, so that it reads one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed, shuffled

RAISES = "CSI103"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = (
        listed(section)
        .repeat()
        .interleave(
            tf.data.TFRecordDataset,
            cycle_length=1,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=False,
        )
    )
    return digit_batches(shuffled(dataset, section), section)
