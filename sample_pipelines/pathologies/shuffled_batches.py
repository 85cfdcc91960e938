"""Batches are shuffled, and the samples in them never."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_decoder, listed, read

RAISES = "CSI209"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Endless batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    dataset = read(listed(section).repeat()).batch(section["batch_size"], drop_remainder=True)
    dataset = dataset.shuffle(20, seed=section["shuffle_seed"])
    dataset = dataset.map(digit_decoder(section["batch_size"]), num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)
