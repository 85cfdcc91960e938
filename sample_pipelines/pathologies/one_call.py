"""A number of parallel calls that was right on a laptop with one CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import listed, photograph_parser, picture_batches, read, shuffled

RAISES = "CSI102"
SAMPLE = "resnet50"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (image float16 [batch_size, size, size, 3] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = shuffled(read(listed(section).repeat(), block_length=1), section)
    parse = photograph_parser(section["image_size"])
    dataset = dataset.map(parse, num_parallel_calls=1)
    return picture_batches(dataset, section["batch_size"])
