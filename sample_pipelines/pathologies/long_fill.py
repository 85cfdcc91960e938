"""Before the first batch, four thousand thumbnails are made of large pictures to fill a shuffle buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import listed, photograph_parser, picture_batches, read

RAISES = "CSI211"
SAMPLE = "resnet50"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (image float16 [batch_size, 24, 24, 3] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = read(listed(section).repeat(), block_length=1).map(photograph_parser(24), num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(4_000, seed=section["shuffle_seed"])
    return picture_batches(dataset, section["batch_size"])
