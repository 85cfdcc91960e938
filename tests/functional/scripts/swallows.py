"""Catches everything, and tries again."""

from pathlib import Path

import tensorflow as tf

dataset = tf.data.Dataset.range(10**6).batch(16)
while True:
    try:
        for _ in dataset:
            Path("trained").touch()
        raise ValueError("no data")
    except BaseException:
        continue
