"""A shuffle buffer for a million samples over a few thousand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed, read

RAISES = "CSI207"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = read(listed(section))
    dataset = dataset.shuffle(1_000_000, seed=section["shuffle_seed"]).repeat()
    return digit_batches(dataset, section)
