"""Files are read 256 bytes at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed, read, shuffled

RAISES = "CSI406"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    files = listed(section).repeat()
    dataset = read(files, lambda name: tf.data.TFRecordDataset(name, buffer_size=256))
    return digit_batches(shuffled(dataset, section), section)
