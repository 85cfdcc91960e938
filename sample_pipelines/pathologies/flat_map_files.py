"""A flat_map over the files: each is opened when the one before it has been read to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed, shuffled

RAISES = "CSI104"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    files = listed(section)
    dataset = files.repeat().flat_map(tf.data.TFRecordDataset)
    return digit_batches(shuffled(dataset, section), section)
