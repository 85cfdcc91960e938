"""Faults in the input of `resnet50`, photographs as JPEG, and of `unet`, pictures of cells with their masks as PNG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sample_pipelines.bases import batches, cell_parser, listed, photograph_parser, read, records_of

Params = Mapping[str, Any]


def serial_augmentation(params: Params) -> tf.data.Dataset:
    """Pictures are decoded and augmented one after the other, and as the map is random, TensorFlow leaves it so."""
    section = params["train_input"]
    dataset = records_of(section, block_length=1)
    parse = cell_parser(is_augmented=True)
    dataset = dataset.map(parse)
    return batches(dataset, section["train_batch_size"])


def seeded_draws(params: Params) -> tf.data.Dataset:
    """Pictures are turned by random numbers that have a seed, and parallel calls draw them in any order."""
    section = params["train_input"]
    dataset = records_of(section, block_length=1)
    dataset = dataset.map(cell_parser(is_augmented=False), num_parallel_calls=tf.data.AUTOTUNE)

    def flip(image: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        both = tf.image.random_flip_left_right(tf.concat([image, mask], axis=-1), seed=7)
        return both[..., :1], both[..., 1:]

    return batches(dataset.map(flip, num_parallel_calls=tf.data.AUTOTUNE), section["train_batch_size"])


def keras_layers(params: Params) -> tf.data.Dataset:
    """Layers of Keras turn and scale each picture by itself."""
    section = params["train_input"]
    flip, rescale = tf.keras.layers.RandomFlip("horizontal"), tf.keras.layers.Rescaling(2.0)
    dataset = records_of(section, block_length=1)
    dataset = dataset.map(cell_parser(is_augmented=False), num_parallel_calls=tf.data.AUTOTUNE)

    def augment(image: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        both = tf.cast(rescale(flip(tf.concat([image, mask], axis=-1), training=True)), tf.float16)
        return both[..., :1], both[..., 1:]

    return batches(dataset.map(augment, num_parallel_calls=tf.data.AUTOTUNE), section["train_batch_size"])


def one_call(params: Params) -> tf.data.Dataset:
    """A number of parallel calls that was right on a laptop with one CPU."""
    section = params["train_input"]
    dataset = records_of(section, block_length=1)
    parse = photograph_parser(section["image_size"])
    dataset = dataset.map(parse, num_parallel_calls=1)
    return batches(dataset, section["batch_size"])


def late_filter(params: Params) -> tf.data.Dataset:
    """Half of the classes are wanted, and the others are dropped after their pictures were decoded."""
    section = params["train_input"]
    dataset = records_of(section, block_length=1)
    dataset = dataset.map(photograph_parser(section["image_size"]), num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.filter(lambda image, label: label < 500)
    return batches(dataset, section["batch_size"])


def decode_every_pass(params: Params) -> tf.data.Dataset:
    """The same few pictures are decoded in every pass, with nothing random about it."""
    section = params["train_input"]
    parse = cell_parser(is_augmented=False)
    dataset = read(listed(section), block_length=1)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(48, seed=section["shuffle_seed"]).repeat()
    return batches(dataset, section["train_batch_size"])


def frozen_augmentation(params: Params) -> tf.data.Dataset:
    """Pictures are augmented and then cached, so that every pass sees the same augmentation."""
    section = params["train_input"]
    dataset = read(listed(section), block_length=1).map(cell_parser(is_augmented=True), num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.cache()
    dataset = dataset.shuffle(48, seed=section["shuffle_seed"]).repeat()
    return batches(dataset, section["train_batch_size"])


def partial_cache(params: Params) -> tf.data.Dataset:
    """A cache of which only the first elements are taken, so that it is thrown away in every pass."""
    section = params["train_input"]
    dataset = read(listed(section), block_length=1).map(cell_parser(is_augmented=False), num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.cache().take(24)
    return batches(dataset.shuffle(24, seed=section["shuffle_seed"]).repeat(), section["train_batch_size"])


def one_cache_file(params: Params) -> tf.data.Dataset:
    """All workers cache their pictures to one path, at which the second one finds the lock of the first."""
    section = params["train_input"]
    dataset = read(listed(section), block_length=1).map(cell_parser(is_augmented=False), num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.cache(section["data_dir"] + "-cache")
    dataset = dataset.shuffle(48, seed=section["shuffle_seed"]).repeat()
    return batches(dataset, section["train_batch_size"])


def shuffle_of_pictures(params: Params) -> tf.data.Dataset:
    """The shuffle buffer is full of decoded pictures."""
    section = params["train_input"]
    dataset = read(listed(section).repeat(), block_length=1)
    dataset = dataset.map(photograph_parser(section["image_size"]), num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(section["shuffle_buffer"], seed=section["shuffle_seed"])
    return batches(dataset, section["batch_size"])


def long_fill(params: Params) -> tf.data.Dataset:
    """Before the first batch, four thousand thumbnails are made of large pictures to fill a shuffle buffer."""
    section = params["train_input"]
    dataset = read(listed(section).repeat(), block_length=1).map(photograph_parser(24), num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(4_000, seed=section["shuffle_seed"])
    return batches(dataset, section["batch_size"])


def decode_then_crop(params: Params) -> tf.data.Dataset:
    """JPEG images are decoded whole, and then a small random window of them is kept."""
    section = params["train_input"]
    size = section["image_size"]

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(
            record, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        )
        image = tf.io.decode_jpeg(example["image"], channels=3)
        image = tf.image.random_crop(image, [size, size, 3])
        return tf.cast(image, tf.float16) / 255, tf.cast(example["label"], tf.int32)

    dataset = records_of(section, block_length=1)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    return batches(dataset, section["batch_size"])
