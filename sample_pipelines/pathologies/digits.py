"""Faults in the input of `fc_mnist`: digits of a byte of label and 784 of pixels, made into batches of float16 and int32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sample_pipelines.bases import (
    batches,
    decode_digit,
    digit_batches,
    digit_decoder,
    listed,
    options,
    read,
    records_of,
    shuffled,
)
from sample_pipelines.fc_mnist import PIXELS
from sample_pipelines.sharding import shard_files
from sample_pipelines.tfrecords import file_pattern

Params = Mapping[str, Any]


def healthy(params: Params) -> tf.data.Dataset:
    """No fault: what is wrong is how the records are spread over files."""
    section = params["train_input"]
    return digit_batches(records_of(section), section)


def one_file_cycle(params: Params) -> tf.data.Dataset:
    """An interleave with parallel calls but a cycle of one file, so that it reads one after the other."""
    section = params["train_input"]
    dataset = (
        listed(section)
        .repeat()
        .interleave(tf.data.TFRecordDataset, cycle_length=1, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    )
    return digit_batches(shuffled(dataset, section), section)


def flat_map_files(params: Params) -> tf.data.Dataset:
    """A flat_map over the files: each is opened when the one before it has been read to its end."""
    section = params["train_input"]
    dataset = listed(section).repeat().flat_map(tf.data.TFRecordDataset)
    return digit_batches(shuffled(dataset, section), section)


def one_reader(params: Params) -> tf.data.Dataset:
    """All files are given to one reader, which takes them in sequence."""
    section = params["train_input"]
    dataset = tf.data.TFRecordDataset(listed(section).repeat())
    return digit_batches(shuffled(dataset, section), section)


def cast_before_batch(params: Params) -> tf.data.Dataset:
    """Every sample is cast and scaled by itself, which could be done for a whole batch."""
    section = params["train_input"]

    def scale(record: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.io.decode_raw(record, tf.uint8), tf.float16) / 255

    def split(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values = tf.ensure_shape(values, [section["batch_size"], 1 + PIXELS])
        return values[:, 1:], tf.cast(tf.round(values[:, 0] * 255), tf.int32)

    dataset = records_of(section).map(scale, num_parallel_calls=tf.data.AUTOTUNE)
    return digit_batches(dataset, section, split)


def forced_order(params: Params) -> tf.data.Dataset:
    """Files are read in a strict order, and a shuffle without a seed follows."""
    section = params["train_input"]
    dataset = (
        listed(section)
        .repeat()
        .interleave(
            tf.data.TFRecordDataset, cycle_length=4, block_length=16, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
    )
    dataset = dataset.shuffle(section["shuffle_buffer"])
    return digit_batches(dataset, section)


def tiny_maps(params: Params) -> tf.data.Dataset:
    """Three maps, each with one small thing to do for each sample."""
    section = params["train_input"]

    def decode(record: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.io.decode_raw(record, tf.uint8), [1 + PIXELS])

    def split(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return values[1:], values[0]

    def scale(pixels: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.cast(pixels, tf.float16) / 255, tf.cast(label, tf.int32)

    dataset = read(listed(section).repeat())
    for function in (decode, split, scale):
        dataset = dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)
    return batches(shuffled(dataset, section), section["batch_size"])


def prefetch_upstream(params: Params) -> tf.data.Dataset:
    """The prefetch stands before the batch, and TensorFlow, told not to tune, adds none behind it."""
    section = params["train_input"]
    dataset = records_of(section).map(decode_digit, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.prefetch(2_560)
    dataset = dataset.batch(section["batch_size"], drop_remainder=True)
    return dataset.with_options(options(autotune__enabled=False))


def buffer_beyond_shard(params: Params) -> tf.data.Dataset:
    """A shuffle buffer for a million samples over a few thousand."""
    section = params["train_input"]
    dataset = read(listed(section)).shuffle(1_000_000, seed=section["shuffle_seed"]).repeat()
    return digit_batches(dataset, section)


def short_shuffle(params: Params) -> tf.data.Dataset:
    """A shuffle buffer of sixteen samples before a batch of 256."""
    section = params["train_input"]
    dataset = read(listed(section).repeat()).shuffle(16, seed=section["shuffle_seed"])
    return digit_batches(dataset, section)


def shuffled_batches(params: Params) -> tf.data.Dataset:
    """Batches are shuffled, and the samples in them never."""
    section = params["train_input"]
    dataset = read(listed(section).repeat()).batch(section["batch_size"], drop_remainder=True)
    dataset = dataset.shuffle(20, seed=section["shuffle_seed"])
    dataset = dataset.map(digit_decoder(section["batch_size"]), num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def repeat_then_shuffle(params: Params) -> tf.data.Dataset:
    """Samples are repeated before they are shuffled, so that passes run into one another."""
    section = params["train_input"]
    dataset = read(listed(section))
    dataset = dataset.repeat().shuffle(section["shuffle_buffer"], seed=section["shuffle_seed"])
    return digit_batches(dataset, section)


def unshuffled(params: Params) -> tf.data.Dataset:
    """Samples come in the order of the files, in each pass."""
    section = params["train_input"]
    dataset = read(listed(section).repeat()).batch(section["batch_size"], drop_remainder=True)
    dataset = dataset.map(digit_decoder(section["batch_size"]), num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def two_passes(params: Params) -> tf.data.Dataset:
    """Two passes over a few batches, where the params ask for many thousands of steps."""
    section = params["train_input"]
    records = [bytes(1 + PIXELS)] * 10_240
    dataset = shard_files(tf.data.Dataset.from_tensor_slices(records), section["use_multiple_workers"])
    return digit_batches(shuffled(dataset, section).repeat(2), section)


def array_in_graph(params: Params) -> tf.data.Dataset:
    """All samples are one array of NumPy, which every worker has in its graph."""
    section = params["train_input"]
    pixels, labels = np.zeros([50_000, PIXELS], np.uint8), np.zeros([50_000], np.int32)
    dataset = shard_files(tf.data.Dataset.from_tensor_slices((pixels, labels)), section["use_multiple_workers"])
    return digit_batches(
        shuffled(dataset, section).repeat(), section, lambda image, label: (tf.cast(image, tf.float16) / 255, label)
    )


def no_repeat(params: Params) -> tf.data.Dataset:
    """The data end after one pass, in the middle of training."""
    section = params["train_input"]
    return digit_batches(shuffled(read(listed(section)), section), section)


def no_shard(params: Params) -> tf.data.Dataset:
    """Every worker streams all of the files."""
    section = params["train_input"]
    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]), shuffle=False)
    return digit_batches(shuffled(read(files.repeat()), section), section)


def unseeded_list_files(params: Params) -> tf.data.Dataset:
    """Files are listed in a random order of each worker's own, and then divided by number: shards overlap and miss files."""
    section = params["train_input"]
    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]))
    files = shard_files(files, section["use_multiple_workers"])
    return digit_batches(shuffled(read(files.repeat()), section), section)


def late_shard(params: Params) -> tf.data.Dataset:
    """Each worker reads all files, and keeps one record in as many as there are workers."""
    section = params["train_input"]
    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]), shuffle=False)
    dataset = files.repeat().interleave(
        tf.data.TFRecordDataset, cycle_length=4, block_length=16, num_parallel_calls=tf.data.AUTOTUNE
    )
    dataset = shard_files(dataset, section["use_multiple_workers"])
    return digit_batches(shuffled(dataset, section), section)


def open_batches(params: Params) -> tf.data.Dataset:
    """The last batch of a pass may be smaller, so no batch has a size that is known beforehand."""
    section = params["train_input"]
    dataset = records_of(section).batch(section["batch_size"])
    dataset = dataset.map(digit_decoder(None), num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def unknown_shape(params: Params) -> tf.data.Dataset:
    """What is parsed has no shape that tf.data knows: nothing says how many pixels a record has."""
    section = params["train_input"]

    def decode(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values = tf.io.decode_raw(records, tf.uint8)
        return tf.cast(values[:, 1:], tf.float16) / 255, tf.cast(values[:, 0], tf.int32)

    return digit_batches(records_of(section), section, decode)


def skip_to_step(params: Params) -> tf.data.Dataset:
    """A restarted job skips the samples that the last run has seen, after decoding them one by one."""
    section = params["train_input"]
    dataset = read(listed(section).repeat()).map(decode_digit, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.skip(50_000)
    return batches(shuffled(dataset, section), section["batch_size"])


def python_decode(params: Params) -> tf.data.Dataset:
    """NumPy decodes each record in the interpreter, one at a time for the whole process."""
    section = params["train_input"]

    def decode(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pixels, label = tf.numpy_function(_in_python, [record], [tf.float16, tf.int32])
        return tf.ensure_shape(pixels, [PIXELS]), tf.ensure_shape(label, [])

    dataset = records_of(section).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return batches(dataset, section["batch_size"])


def wide_numbers(params: Params) -> tf.data.Dataset:
    """Pixels leave as float64 and labels as int64: four times the bytes that the accelerator works with."""
    section = params["train_input"]
    return digit_batches(records_of(section), section, digit_decoder(section["batch_size"], tf.float64, tf.int64))


def single_precision(params: Params) -> tf.data.Dataset:
    """Pixels leave as float32, though the params say that the model works in 16 bits."""
    section = params["train_input"]
    return digit_batches(records_of(section), section, digit_decoder(section["batch_size"], tf.float32))


def double_compression(params: Params) -> tf.data.Dataset:
    """Random bytes, packed with GZIP: they get no smaller, and each worker spends its CPU on unpacking them."""
    section = params["train_input"]
    dataset = records_of(section, lambda name: tf.data.TFRecordDataset(name, compression_type="GZIP"))
    return digit_batches(dataset, section)


def tiny_read_buffer(params: Params) -> tf.data.Dataset:
    """Files are read 256 bytes at a time."""
    section = params["train_input"]
    dataset = records_of(section, lambda name: tf.data.TFRecordDataset(name, buffer_size=256))
    return digit_batches(dataset, section)


def one_thread_pool(params: Params) -> tf.data.Dataset:
    """All parallel calls share a pool of one thread."""
    return healthy(params).with_options(options(threading__private_threadpool_size=1))


def host_wide_autotune(params: Params) -> tf.data.Dataset:
    """AUTOTUNE is told to count on the 64 CPUs of a node, of which a task has a few."""
    return healthy(params).with_options(options(autotune__cpu_budget=64))


def endless_prefetch(params: Params) -> tf.data.Dataset:
    """A prefetch of a million batches, which fills for as long as the accelerator is slower than the pipeline."""
    return healthy(params).prefetch(1_000_000)


def auto_sharded(params: Params) -> tf.data.Dataset:
    """Dividing by file is left to tf.distribute, and there are fewer files than workers."""
    section = params["train_input"]
    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]), shuffle=True, seed=section["shuffle_seed"])
    dataset = digit_batches(shuffled(read(files.repeat()), section), section)
    by_file = tf.data.experimental.AutoShardPolicy.FILE
    return dataset.with_options(options(experimental_distribute__auto_shard_policy=by_file))


def from_a_service(params: Params) -> tf.data.Dataset:
    """A tf.data service of one worker makes the batches; it lives as long as this process."""
    if not _SERVICE:
        dispatcher = tf.data.experimental.service.DispatchServer()
        address = dispatcher.target.partition("://")[2]
        config = tf.data.experimental.service.WorkerConfig(dispatcher_address=address)
        _SERVICE.extend([dispatcher, tf.data.experimental.service.WorkerServer(config)])
    off = tf.data.experimental.service.ShardingPolicy.OFF
    return healthy(params).apply(tf.data.experimental.service.distribute(off, _SERVICE[0].target)).prefetch(tf.data.AUTOTUNE)


_SERVICE: list[Any] = []


def wide_pool(params: Params) -> tf.data.Dataset:
    """Each task runs its parallel calls on a pool of a thousand threads."""
    return healthy(params).with_options(options(threading__private_threadpool_size=1_024))


def _in_python(record: bytes) -> tuple[Any, Any]:
    values = np.frombuffer(record, np.uint8)
    return (values[1:] / 255).astype(np.float16), values[0].astype(np.int32)
