"""The data end after one pass, in the middle of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import digit_batches, listed, read, shuffled

RAISES = "CSI302"


def train_input_fn(params: Mapping[str, Any]) -> tf.data.Dataset:
    """One pass of batches of (pixels float16 [batch_size, 784] in 0 to 1, label int32 [batch_size])."""
    section = params["train_input"]
    return digit_batches(shuffled(read(listed(section)), section), section)
