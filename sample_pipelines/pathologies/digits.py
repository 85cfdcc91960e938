"""Faults in the input of `fc_mnist`: digits of a byte of label and 784 of pixels, made into batches of float16 and int32.

Each function takes the section `train_input` of the params.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.bases import (
    batches,
    decode_digit,
    digit_batches,
    mapped,
    options,
    read,
    records_of,
    shuffled,
)
from sample_pipelines.fc_mnist import PIXELS, Pair, digit_decoder
from sample_pipelines.sharding import shard_files
from sample_pipelines.tfrecords import Section, file_pattern, listed


def healthy(train_input: Section) -> tf.data.Dataset:
    """No fault: what is wrong is how the records are spread over files."""
    return digit_batches(records_of(train_input), train_input)


def one_file_cycle(train_input: Section) -> tf.data.Dataset:
    """An interleave with parallel calls but a cycle of one file, so that it reads one after the other."""
    files = listed(train_input).repeat()
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=1, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    return digit_batches(shuffled(records, train_input), train_input)


def flat_map_files(train_input: Section) -> tf.data.Dataset:
    """A flat_map over the files: each is opened when the one before it has been read to its end."""
    records = listed(train_input).repeat().flat_map(tf.data.TFRecordDataset)
    return digit_batches(shuffled(records, train_input), train_input)


def one_reader(train_input: Section) -> tf.data.Dataset:
    """All files are given to one reader, which takes them in sequence."""
    records = tf.data.TFRecordDataset(listed(train_input).repeat())
    return digit_batches(shuffled(records, train_input), train_input)


def cast_before_batch(train_input: Section) -> tf.data.Dataset:
    """Every sample is cast and scaled by itself, which could be done for a whole batch."""

    def scale(record: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.io.decode_raw(record, tf.uint8), tf.float16) / 255

    def split(values: tf.Tensor) -> Pair:
        values = tf.ensure_shape(values, [train_input["batch_size"], 1 + PIXELS])
        return values[:, 1:], tf.cast(tf.round(values[:, 0] * 255), tf.int32)

    scaled = records_of(train_input).map(scale, num_parallel_calls=tf.data.AUTOTUNE)
    return digit_batches(scaled, train_input, split)


def forced_order(train_input: Section) -> tf.data.Dataset:
    """Files are read in a strict order, and a shuffle without a seed follows."""
    files = listed(train_input).repeat()
    records = files.interleave(
        tf.data.TFRecordDataset, cycle_length=4, block_length=16, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    return digit_batches(records.shuffle(train_input["shuffle_buffer"]), train_input)


def prefetch_upstream(train_input: Section) -> tf.data.Dataset:
    """The prefetch stands before the batch, and TensorFlow, told not to tune, adds none behind it."""
    dataset = mapped(records_of(train_input), decode_digit).prefetch(2_560)
    dataset = dataset.batch(train_input["batch_size"], drop_remainder=True)
    return dataset.with_options(options(autotune__enabled=False))


def buffer_beyond_shard(train_input: Section) -> tf.data.Dataset:
    """A shuffle buffer for a million samples over a few thousand."""
    dataset = read(listed(train_input)).shuffle(1_000_000, seed=train_input["shuffle_seed"]).repeat()
    return digit_batches(dataset, train_input)


def short_shuffle(train_input: Section) -> tf.data.Dataset:
    """A shuffle buffer of sixteen samples before a batch of 256."""
    dataset = read(listed(train_input).repeat()).shuffle(16, seed=train_input["shuffle_seed"])
    return digit_batches(dataset, train_input)


def shuffled_batches(train_input: Section) -> tf.data.Dataset:
    """Batches are shuffled, and the samples in them never."""
    dataset = read(listed(train_input).repeat()).batch(train_input["batch_size"], drop_remainder=True)
    dataset = dataset.shuffle(20, seed=train_input["shuffle_seed"])
    return mapped(dataset, digit_decoder(train_input["batch_size"])).prefetch(tf.data.AUTOTUNE)


def repeat_then_shuffle(train_input: Section) -> tf.data.Dataset:
    """Samples are repeated before they are shuffled, so that passes overlap."""
    dataset = read(listed(train_input))
    dataset = dataset.repeat().shuffle(train_input["shuffle_buffer"], seed=train_input["shuffle_seed"])
    return digit_batches(dataset, train_input)


def unshuffled(train_input: Section) -> tf.data.Dataset:
    """Samples come in the order of the files, in each pass."""
    dataset = read(listed(train_input).repeat()).batch(train_input["batch_size"], drop_remainder=True)
    return mapped(dataset, digit_decoder(train_input["batch_size"])).prefetch(tf.data.AUTOTUNE)


def two_passes(train_input: Section) -> tf.data.Dataset:
    """Two passes over a few batches, where the params ask for many thousands of steps."""
    records = tf.data.Dataset.from_tensor_slices([bytes(1 + PIXELS)] * 10_240)
    dataset = shard_files(records, train_input["use_multiple_workers"])
    return digit_batches(shuffled(dataset, train_input).repeat(2), train_input)


def array_in_graph(train_input: Section) -> tf.data.Dataset:
    """All samples are one array of NumPy, which every worker has in its graph."""
    pixels, labels = np.zeros([50_000, PIXELS], np.uint8), np.zeros([50_000], np.int32)
    dataset = shard_files(tf.data.Dataset.from_tensor_slices((pixels, labels)), train_input["use_multiple_workers"])

    def scale(image: tf.Tensor, label: tf.Tensor) -> Pair:
        return tf.cast(image, tf.float16) / 255, label

    return digit_batches(shuffled(dataset, train_input).repeat(), train_input, scale)


def no_repeat(train_input: Section) -> tf.data.Dataset:
    """The data end after one pass, in the middle of training."""
    return digit_batches(shuffled(read(listed(train_input)), train_input), train_input)


def no_shard(train_input: Section) -> tf.data.Dataset:
    """Every worker streams all of the files."""
    files = tf.data.Dataset.list_files(file_pattern(train_input["data_dir"]), shuffle=False)
    return digit_batches(shuffled(read(files.repeat()), train_input), train_input)


def unseeded_list_files(train_input: Section) -> tf.data.Dataset:
    """Files are listed in a random order of each worker's own, and then divided by number: shards overlap and miss files."""
    files = tf.data.Dataset.list_files(file_pattern(train_input["data_dir"]))
    files = shard_files(files, train_input["use_multiple_workers"])
    return digit_batches(shuffled(read(files.repeat()), train_input), train_input)


def late_shard(train_input: Section) -> tf.data.Dataset:
    """Each worker reads all files, and keeps one record in as many as there are workers."""
    files = tf.data.Dataset.list_files(file_pattern(train_input["data_dir"]), shuffle=False)
    records = files.repeat().interleave(
        tf.data.TFRecordDataset, cycle_length=4, block_length=16, num_parallel_calls=tf.data.AUTOTUNE
    )
    records = shard_files(records, train_input["use_multiple_workers"])
    return digit_batches(shuffled(records, train_input), train_input)


def open_batches(train_input: Section) -> tf.data.Dataset:
    """The last batch of a pass may be smaller, so no batch has a size that is known beforehand."""
    dataset = records_of(train_input).batch(train_input["batch_size"])
    return mapped(dataset, digit_decoder(None)).prefetch(tf.data.AUTOTUNE)


def unknown_shape(train_input: Section) -> tf.data.Dataset:
    """Parsed records have no shape that tf.data knows: nothing says how many pixels a record has."""

    def decode(records: tf.Tensor) -> Pair:
        values = tf.io.decode_raw(records, tf.uint8)
        return tf.cast(values[:, 1:], tf.float16) / 255, tf.cast(values[:, 0], tf.int32)

    return digit_batches(records_of(train_input), train_input, decode)


def python_decode(train_input: Section) -> tf.data.Dataset:
    """NumPy decodes each record in the interpreter, one at a time for the whole process."""

    def in_python(record: bytes) -> tuple[Any, Any]:
        values = np.frombuffer(record, np.uint8)
        return (values[1:] / 255).astype(np.float16), values[0].astype(np.int32)

    def decode(record: tf.Tensor) -> Pair:
        pixels, label = tf.numpy_function(in_python, [record], [tf.float16, tf.int32])
        return tf.ensure_shape(pixels, [PIXELS]), tf.ensure_shape(label, [])

    return batches(mapped(records_of(train_input), decode), train_input["batch_size"])


def wide_numbers(train_input: Section) -> tf.data.Dataset:
    """Pixels leave as float64 and labels as int64: four times the bytes that the accelerator works with."""
    return digit_batches(records_of(train_input), train_input, digit_decoder(train_input["batch_size"], tf.float64, tf.int64))


def single_precision(train_input: Section) -> tf.data.Dataset:
    """Pixels leave as float32, though the params say that the model works in 16 bits."""
    return digit_batches(records_of(train_input), train_input, digit_decoder(train_input["batch_size"], tf.float32))


def double_compression(train_input: Section) -> tf.data.Dataset:
    """Random bytes, packed with GZIP: they get no smaller, and each worker spends its CPU on unpacking them."""
    records = records_of(train_input, lambda name: tf.data.TFRecordDataset(name, compression_type="GZIP"))
    return digit_batches(records, train_input)


def one_thread_pool(train_input: Section) -> tf.data.Dataset:
    """All parallel calls share a pool of one thread."""
    return healthy(train_input).with_options(options(threading__private_threadpool_size=1))


def endless_prefetch(train_input: Section) -> tf.data.Dataset:
    """A prefetch of a million batches, which fills for as long as the accelerator is slower than the pipeline."""
    return healthy(train_input).prefetch(1_000_000)


def auto_sharded(train_input: Section) -> tf.data.Dataset:
    """Dividing by file is left to tf.distribute, and there are fewer files than workers."""
    pattern = file_pattern(train_input["data_dir"])
    files = tf.data.Dataset.list_files(pattern, shuffle=True, seed=train_input["shuffle_seed"])
    dataset = digit_batches(shuffled(read(files.repeat()), train_input), train_input)
    by_file = tf.data.experimental.AutoShardPolicy.FILE
    return dataset.with_options(options(experimental_distribute__auto_shard_policy=by_file))
