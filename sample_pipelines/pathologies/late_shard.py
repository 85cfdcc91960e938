"""Each worker reads all files, and keeps one record in as many as there are workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, shuffled
from sample_pipelines.sharding import shard_files
from sample_pipelines.tfrecords import file_pattern

RAISES = "CSI305"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]), shuffle=False)
    dataset = files.repeat().interleave(
        tf.data.TFRecordDataset,
        cycle_length=4,
        block_length=16,
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    dataset = shard_files(dataset, section["use_multiple_workers"])
    return digit_batches(shuffled(dataset, section), section)
