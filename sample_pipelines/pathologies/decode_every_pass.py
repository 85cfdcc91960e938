"""The same few pictures are decoded in every pass, with nothing random about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import cell_parser, listed, picture_batches, read

RAISES = "CSI202"
SAMPLE = "unet"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (image, mask), both float16 [batch_size, 256, 256, 1] in 0 to 1."""
    section = params["train_input"]
    parse = cell_parser(is_augmented=False)
    dataset = read(listed(section), block_length=1)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(48, seed=section["shuffle_seed"]).repeat()
    return picture_batches(dataset, section["train_batch_size"])
