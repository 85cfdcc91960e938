"""Misconfigured input functions, one mistake each, and how slow their files are. Stock ops only, so that every fix can be proven.

`params["files"]` is the glob of TFRecord files, each record a JPEG picture whose decoding takes a millisecond or so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import platformdirs
import tensorflow as tf
import yaml

from benchmarks import slowfs
from sample_pipelines import pathologies, write_sample
from sample_pipelines.tfrecords import write_files

BATCH = 16
AUTOTUNE = tf.data.AUTOTUNE
PIXELS = 320
SCALE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One misconfigured pipeline.

    Attributes:
        function: of this module.
        files, records: its input: the number of files, and the pictures in each.
        slow: how slow the file system is (arguments of `slowfs.mounted`); empty for this host's own.
        tenfold: whether the cure can be worth a factor of ten here; n CPUs give a serial map n.
    """

    name: str
    function: str
    files: int = 8
    records: int = 64
    slow: Mapping[str, float] = field(default_factory=dict)
    tenfold: bool = True

    @property
    def target(self) -> str:
        return f"{__name__}:{self.function}"


MISTAKES = (
    Mistake(name="missing cache", function="no_cache", files=4, records=32),
    Mistake(name="reads that wait for each other", function="waiting_reads", files=96, records=8, slow={"read_latency_s": 0.008}),
    Mistake(name="flat_map over slow files", function="flat_map_of_files", files=192, records=4, slow={"open_latency_s": 0.02}),
    Mistake(name="serial map", function="serial_map", tenfold=False),
)


def no_cache(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Small data that are decoded again in every pass."""
    files = tf.data.Dataset.list_files(params["files"], shuffle=False)
    dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=AUTOTUNE)
    dataset = dataset.map(_mean_row, num_parallel_calls=AUTOTUNE)
    return dataset.shuffle(64).repeat().batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def waiting_reads(params: Mapping[str, Any]) -> tf.data.Dataset:
    """One file at a time, so that every read is waited for."""
    files = tf.data.Dataset.list_files(params["files"])
    dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=1)
    dataset = dataset.map(tf.strings.length, num_parallel_calls=AUTOTUNE)
    return dataset.shuffle(64).repeat().batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def flat_map_of_files(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Many small files, each of which takes long to open."""
    files = tf.data.Dataset.list_files(params["files"])
    dataset = files.flat_map(tf.data.TFRecordDataset)
    dataset = dataset.map(tf.strings.length, num_parallel_calls=AUTOTUNE)
    return dataset.shuffle(64).repeat().batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def serial_map(params: Mapping[str, Any]) -> tf.data.Dataset:
    """Decode on one CPU of several.

    TensorFlow makes a plain map parallel by itself, but not one that draws random numbers.
    """
    files = tf.data.Dataset.list_files(params["files"], shuffle=False)
    dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=AUTOTUNE)
    dataset = dataset.repeat().map(lambda record: _mean_row(record) + tf.random.uniform([], maxval=0.1, dtype=tf.float16))
    return dataset.batch(BATCH, drop_remainder=True).prefetch(AUTOTUNE)


def _mean_row(record: tf.Tensor) -> tf.Tensor:
    picture = tf.image.convert_image_dtype(tf.io.decode_jpeg(record, channels=3), tf.float32)
    return tf.ensure_shape(tf.cast(tf.reduce_mean(picture, axis=0), tf.float16), [PIXELS, 3])


@contextmanager
def params_of(of: Mistake | str) -> Iterator[dict[str, Any]]:
    """Write the data of a mistake, mount their file system, and yield the params; or those of a pathology or sample by name."""
    # Not in the temporary folder: that is a finding of its own.
    home = platformdirs.user_cache_dir("cs_input_analyzer", ensure_exists=True)
    with TemporaryDirectory(prefix="tuning_", dir=home) as folder, ExitStack() as mounts:
        if isinstance(of, str):
            write = pathologies.write_pathology if of in pathologies.PATHOLOGIES else write_sample
            yield yaml.safe_load(write(of, folder, scale=SCALE).read_text())
        else:
            write_files(Path(folder), _pictures(), (of.records,) * of.files)
            place = mounts.enter_context(slowfs.mounted(folder, **of.slow)) if of.slow else folder
            yield {"files": f"{place}/*.tfrecord"}


def _pictures() -> Iterator[bytes]:
    noise = tf.random.Generator.from_seed(1).uniform([PIXELS // 8, PIXELS // 8, 3], maxval=255.0)
    picture = tf.cast(tf.image.resize(noise, [PIXELS, PIXELS]), tf.uint8)
    for number in count():
        yield tf.io.encode_jpeg(tf.image.adjust_brightness(picture, number % 100 / 200), quality=90).numpy()
