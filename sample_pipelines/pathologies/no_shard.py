"""Every worker streams all of the files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, read, shuffled
from sample_pipelines.tfrecords import file_pattern

RAISES = "CSI303"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]), shuffle=False)
    return digit_batches(shuffled(read(files.repeat()), section), section)
