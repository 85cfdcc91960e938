"""Faults in the input of `resnet50`, photographs as JPEG, and of `unet`, pictures of cells with their masks as PNG.

Each function takes the section `train_input` of the params.
"""

from __future__ import annotations

import tensorflow as tf

from sample_pipelines.bases import batches, cell_parser, mapped, photograph_parser, read, records_of
from sample_pipelines.fc_mnist import Pair
from sample_pipelines.tfrecords import Section, listed, parsed


def serial_augmentation(train_input: Section) -> tf.data.Dataset:
    """Pictures are decoded and augmented one after the other, and as the map is random, TensorFlow leaves it so."""
    parse = cell_parser(is_augmented=True)
    dataset = records_of(train_input, block_length=1).map(parse)
    return batches(dataset, train_input["train_batch_size"])


def seeded_draws(train_input: Section) -> tf.data.Dataset:
    """Pictures are turned by random numbers that have a seed, and parallel calls draw them in any order."""
    dataset = mapped(records_of(train_input, block_length=1), cell_parser(is_augmented=False))

    def flip(image: tf.Tensor, mask: tf.Tensor) -> Pair:
        both = tf.image.random_flip_left_right(tf.concat([image, mask], axis=-1), seed=7)
        return both[..., :1], both[..., 1:]

    return batches(dataset.map(flip, num_parallel_calls=tf.data.AUTOTUNE), train_input["train_batch_size"])


def one_call(train_input: Section) -> tf.data.Dataset:
    """A number of parallel calls that was right on a laptop with one CPU."""
    parse = photograph_parser(train_input["image_size"])
    dataset = records_of(train_input, block_length=1).map(parse, num_parallel_calls=1)
    return batches(dataset, train_input["batch_size"])


def late_filter(train_input: Section) -> tf.data.Dataset:
    """Half of the classes are wanted, and the others are dropped after their pictures were decoded."""
    dataset = mapped(records_of(train_input, block_length=1), photograph_parser(train_input["image_size"]))
    dataset = dataset.filter(lambda image, label: label < 500)
    return batches(dataset, train_input["batch_size"])


def decode_every_pass(train_input: Section) -> tf.data.Dataset:
    """The same few pictures are decoded in every pass, with nothing random about it."""
    parse = cell_parser(is_augmented=False)
    dataset = read(listed(train_input), block_length=1)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return _passes(dataset, train_input)


def frozen_augmentation(train_input: Section) -> tf.data.Dataset:
    """Pictures are augmented and then cached, so that every pass sees the same augmentation."""
    dataset = mapped(read(listed(train_input), block_length=1), cell_parser(is_augmented=True))
    return _passes(dataset.cache(), train_input)


def partial_cache(train_input: Section) -> tf.data.Dataset:
    """A cache of which only the first elements are taken, so that it is thrown away in every pass."""
    dataset = mapped(read(listed(train_input), block_length=1), cell_parser(is_augmented=False))
    dataset = dataset.cache().take(24)
    return _passes(dataset, train_input)


def one_cache_file(train_input: Section) -> tf.data.Dataset:
    """All workers cache their pictures to one path, at which the second one finds the lock of the first."""
    dataset = mapped(read(listed(train_input), block_length=1), cell_parser(is_augmented=False))
    return _passes(dataset.cache(train_input["data_dir"] + "-cache"), train_input)


def _passes(dataset: tf.data.Dataset, train_input: Section) -> tf.data.Dataset:
    """Passes over a few pictures without end, each shuffled."""
    return batches(dataset.shuffle(48, seed=train_input["shuffle_seed"]).repeat(), train_input["train_batch_size"])


def shuffle_of_pictures(train_input: Section) -> tf.data.Dataset:
    """The shuffle buffer is full of decoded pictures."""
    dataset = mapped(read(listed(train_input).repeat(), block_length=1), photograph_parser(train_input["image_size"]))
    dataset = dataset.shuffle(train_input["shuffle_buffer"], seed=train_input["shuffle_seed"])
    return batches(dataset, train_input["batch_size"])


def long_fill(train_input: Section) -> tf.data.Dataset:
    """Before the first batch, four thousand thumbnails are made of large pictures to fill a shuffle buffer."""
    dataset = mapped(read(listed(train_input).repeat(), block_length=1), photograph_parser(24))
    return batches(dataset.shuffle(4_000, seed=train_input["shuffle_seed"]), train_input["batch_size"])


def decode_then_crop(train_input: Section) -> tf.data.Dataset:
    """JPEG images are decoded whole, and then a small random window of them is kept."""
    size = train_input["image_size"]

    def parse(record: tf.Tensor) -> Pair:
        example = parsed(record, image=tf.string, label=tf.int64)
        image = tf.io.decode_jpeg(example["image"], channels=3)
        image = tf.image.random_crop(image, [size, size, 3])
        return tf.cast(image, tf.float16) / 255, tf.cast(example["label"], tf.int32)

    dataset = records_of(train_input, block_length=1)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    return batches(dataset, train_input["batch_size"])
