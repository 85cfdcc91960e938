"""Pictures are decoded and augmented one after the other, and as the map is random, TensorFlow leaves it so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import cell_parser, listed, picture_batches, read, shuffled

RAISES = "CSI101"
SAMPLE = "unet"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (image, mask), both float16 [batch_size, 256, 256, 1] in 0 to 1."""
    section = params["train_input"]
    dataset = shuffled(read(listed(section).repeat(), block_length=1), section)
    parse = cell_parser(is_augmented=True)
    dataset = dataset.map(parse)
    return picture_batches(dataset, section["train_batch_size"])
