"""Files are listed in a random order of each worker's own, and then divided by number: shards overlap and miss files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, read, shuffled
from sample_pipelines.sharding import shard_files
from sample_pipelines.tfrecords import file_pattern

RAISES = "CSI304"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]))
    files = shard_files(files, section["use_multiple_workers"])
    return digit_batches(shuffled(read(files.repeat()), section), section)
