"""TFRecord files on disk: writing them, finding and reading them again."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import tensorflow as tf

from sample_pipelines.catalogue import FILES
from sample_pipelines.sharding import shard_files

Section = Mapping[str, Any]


def file_pattern(data_dir: str) -> str:
    """Return the glob of the record files in `data_dir`. Raise FileNotFoundError if there is none."""
    if not any(Path(data_dir).glob("*.tfrecord")):
        raise FileNotFoundError(
            f"no .tfrecord file in {Path(data_dir).absolute()}; sample_pipelines.write_sample(name, directory) writes them "
            "and returns params that point at them"
        )
    return str(Path(data_dir) / "*.tfrecord")


def listed(section: Section, *, shuffle: bool = False, seed: int | None = None) -> tf.data.Dataset:
    """Return this worker's files by name, or shuffled by a seed: the order must be the same in all workers."""
    files = tf.data.Dataset.list_files(file_pattern(section["data_dir"]), shuffle=shuffle, seed=seed)
    return shard_files(files, section["use_multiple_workers"])


def records_in(files: tf.data.Dataset, section: Section) -> tf.data.Dataset:
    """Return the records of the files, of several at a time, shuffled if the section says so."""
    dataset = files.interleave(
        tf.data.TFRecordDataset,
        cycle_length=section["n_parallel_reads"] or tf.data.AUTOTUNE,
        block_length=section.get("block_length"),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=not section["shuffle"],
    )
    if section["shuffle"]:
        dataset = dataset.shuffle(section["shuffle_buffer"], seed=section["shuffle_seed"])
    return dataset


def parsed(record: tf.Tensor, **dtypes: tf.DType) -> dict[str, tf.Tensor]:
    """Return the features of one record, each of them a single value of this type."""
    features: dict[str, tf.Tensor] = tf.io.parse_single_example(
        record, {name: tf.io.FixedLenFeature([], dtype) for name, dtype in dtypes.items()}
    )
    return features


def feature(value: bytes | Sequence[bytes] | Sequence[int] | Sequence[float]) -> tf.train.Feature:
    """Return a feature of bytes, or of several values of one type."""
    values = [value] if isinstance(value, bytes) else value
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def serialized(**features: bytes | Sequence[bytes] | Sequence[int] | Sequence[float]) -> bytes:
    """Return a `tf.train.Example` of these features, as bytes that are the same in each process."""
    made = {name: feature(value) for name, value in features.items()}
    example = tf.train.Example(features=tf.train.Features(feature=made))
    # A protobuf map has no order of its own: without `deterministic` the bytes would differ from process to process.
    written: bytes = example.SerializeToString(deterministic=True)
    return written


def write_dataset(name: str, directory: Path, *, scale: float = 1.0, seed: int = 0) -> None:
    """Write the data of a sample into `directory`: its `RECORDS` times `scale`. Files differ by one record at most.

    Each file has a record at least, as a worker without one would end the run.
    """
    sample = importlib.import_module(f"sample_pipelines.{name}")
    count = max(FILES, round(sample.RECORDS * scale))
    write_files(directory, sample.records(seed, count), [count * (at + 1) // FILES - count * at // FILES for at in range(FILES)])


def write_files(directory: Path, records: Iterator[bytes], counts: Sequence[int], compression: str = "") -> None:
    """Write a file for each of `counts`, with as many of the records."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, count in enumerate(counts):
        path = directory / f"part-{number:05d}-of-{len(counts):05d}.tfrecord"
        with tf.io.TFRecordWriter(str(path), compression) as writer:
            for record in islice(records, count):
                writer.write(record)
