"""Small synthetic data in the formats that the data processors of the reference models state, and params that point to them.

A format is chosen by the name of the processor in the params; nothing here knows a model.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 4000
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
FILES = 4
Section = dict[str, Any]


def with_data(params: dict[str, Any], folder: Path, model_folder: Path) -> dict[str, Any]:
    """Return the params with `train_input` and `eval_input` reading data that are written to `folder`; all else as it was.

    Relative paths that stay, of vocabularies that belong to the release, are taken from `model_folder`, as the scripts do.
    """
    train: Section = params["train_input"]
    paths = FORMATS[processor_of(params)](train, folder, model_folder)
    sections = [name for name in ("train_input", "eval_input") if isinstance(params.get(name), dict)]
    return {**params, **{name: {**params[name], **{key: paths[key] for key in paths if key in train}} for name in sections}}


def processor_of(params: dict[str, Any]) -> str:
    train: Section = params["train_input"]
    return str(train.get("data_processor") or train.get("dataset") or Path(str(train["data_dir"])).name)


# --- records -----------------------------------------------------------------------------------------------------------------


def _write(folder: Path, name: str, examples: Iterable[bytes]) -> Path:
    """Record files, the examples dealt out to them in turn."""
    import tensorflow as tf

    folder.mkdir(parents=True)
    writers = [tf.io.TFRecordWriter(str(folder / f"{name}-{index}.tfrecords")) for index in range(FILES)]
    for number, example in enumerate(examples):
        writers[number % FILES].write(example)
    for writer in writers:
        writer.close()
    return folder


def _example(lengths: Mapping[str, int], of_floats: tuple[str, ...] = ()) -> bytes:
    """Return a record with features of the given lengths: whole numbers below 1000, or zeros and ones."""
    from sample_pipelines.tfrecords import serialized

    def values(name: str) -> list[float] | list[int]:
        if name in of_floats:
            return [random.random() for _ in range(lengths[name])]
        return [random.randint(0, 1 if "mask" in name else 999) for _ in range(lengths[name])]

    return serialized(**{name: values(name) for name in lengths})


def _lengths(length: int, *names: str) -> dict[str, int]:
    return dict.fromkeys(names, length)


def _records(train: Section, folder: Path, lengths: Mapping[str, int], of_floats: tuple[str, ...] = ()) -> Section:
    count = max(64, 8 * train["batch_size"])
    _write(folder / "records", "train", (_example(lengths, of_floats) for _ in range(count)))
    found = str(folder / "records")
    return {"data_dir": [found] if isinstance(train.get("data_dir"), list) else found}


def _masked(train: Section, folder: Path, model_folder: Path) -> Section:
    long = _lengths(train["max_sequence_length"], "input_ids", "input_mask", "segment_ids")
    short = _lengths(train["max_predictions_per_seq"], "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
    return _records(train, folder, {**long, **short, "next_sentence_labels": 1}, ("masked_lm_weights",))


def _causal(train: Section, folder: Path, model_folder: Path) -> Section:
    return _records(train, folder, _lengths(train["max_sequence_length"], "input_ids", "input_mask", "labels"))


def _summaries(train: Section, folder: Path, model_folder: Path) -> Section:
    long = _lengths(train["max_sequence_length"], "input_ids", "input_mask", "segment_ids")
    short = _lengths(train["max_cls_tokens"], "cls_indices", "labels", "cls_weights")
    return _records(train, folder, {**long, **short}, ("cls_weights",))


def _named_entities(train: Section, folder: Path, model_folder: Path) -> Section:
    names = ("input_ids", "input_mask", "segment_ids", "label_ids")
    found = _records(train, folder, _lengths(train["max_sequence_length"], *names))
    labels = folder / "label2id.json"
    labels.write_text('{"O": 0, "B": 1, "I": 2, "X": 3}')
    return {**found, "label_vocab_file": str(labels)}


def _questions(train: Section, folder: Path, model_folder: Path) -> Section:
    long = _lengths(train["max_sequence_length"], "input_ids", "input_mask", "segment_ids")
    _records(train, folder, {**long, "start_positions": 1, "end_positions": 1})
    return {"data_file": str(folder / "records" / "train-0.tfrecords")}


def _unmasked(train: Section, folder: Path, model_folder: Path) -> Section:
    import tensorflow as tf

    from sample_pipelines.tfrecords import feature

    words = (model_folder / train["vocab_file"]).read_text(encoding="utf-8").split()

    def examples() -> Iterator[bytes]:
        for _ in range(train["batch_size"] + 300):
            tokens = random.choices(words, k=random.randint(40, train["max_sequence_length"] - 8))
            features = tf.train.FeatureList(feature=[feature(token.encode()) for token in tokens])
            lists = tf.train.FeatureLists(feature_list={"tokens": features})
            yield tf.train.SequenceExample(feature_lists=lists).SerializeToString()

    return {"data_dir": str(_write(folder / "records", "train", examples()))}


# --- text --------------------------------------------------------------------------------------------------------------------


def _vocabulary(file: Path, more: int = 0) -> list[str]:
    words = [f"w{number}" for number in range(WORDS)]
    file.write_text("\n".join([*SPECIAL, *words, *(f"<extra_id_{number}>" for number in range(more))]) + "\n")
    return words


def _lines(file: Path, words: list[str], lines: int, longest: int) -> str:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(" ".join(random.choices(words, k=random.randint(5, longest))) + "\n" for _ in range(lines)))
    return str(file)


def _translations(train: Section, folder: Path, model_folder: Path) -> Section:
    vocabulary = folder / "vocab.txt"
    words = _vocabulary(vocabulary)
    paths = {f"{side}_data_dir": _lines(folder / f"train.{side}", words, train["batch_size"] + 900, 60) for side in ("src", "tgt")}
    return {**paths, "src_vocab_file": str(vocabulary), "tgt_vocab_file": str(vocabulary)}


def _documents(train: Section, folder: Path, model_folder: Path) -> Section:
    vocabulary = folder / "vocab.txt"
    words = _vocabulary(vocabulary, train["extra_ids"])
    for number in range(FILES):
        _lines(folder / "text" / f"part-{number}.txt", words, 600, 900)
    return {"data_dir": str(folder / "text"), "vocab_file": str(vocabulary)}


# --- images ------------------------------------------------------------------------------------------------------------------


def _images(folder: Path, ending: str, size: tuple[int, int], count: int = 8) -> list[str]:
    import tensorflow as tf

    folder.mkdir(parents=True, exist_ok=True)
    encode: Any = tf.io.encode_png if ending == "png" else tf.io.encode_jpeg
    names = [f"image{number}.{ending}" for number in range(count)]
    for name in names:
        pixels = tf.cast(tf.random.uniform((*size, 1), maxval=255), tf.uint8)
        tf.io.write_file(str(folder / name), encode(pixels))
    return names


def _defects(train: Section, folder: Path, model_folder: Path) -> Section:
    images = folder / f"Class{train['class_id']}" / "Train"
    labels = images / "Label"
    names = _images(images, "png", (512, 512))
    _images(labels, "png", (512, 512))
    rows = [f"{number}\t1\t{name}\t1\t{name}\t" for number, name in enumerate(names)]
    (labels / "Labels.txt").write_text("\n".join(["1", *rows]) + "\n")
    return {"dataset_path": str(folder)}


def _steel(train: Section, folder: Path, model_folder: Path) -> Section:
    names = _images(folder / "train_images", "jpg", (256, 1600))
    rows = [f"{names[number % len(names)]},{train['class_id']},1 20 500 30" for number in range(2 * train["train_batch_size"])]
    (folder / "train.csv").write_text("\n".join(["ImageId,ClassId,EncodedPixels", *rows]) + "\n")
    return {"dataset_path": str(folder)}


def _image_records(train: Section, folder: Path, model_folder: Path) -> Section:
    """Return a few images. One file stands under enough names to fill a batch."""
    height, width, channels = train["image_shape"]
    lengths = dict.fromkeys(("image", "mask"), height * width * channels)
    _write(folder / "train", "train", (_example(lengths, ("image", "mask")) for _ in range(2 * FILES)))
    for number in range(FILES, train["train_batch_size"]):
        os.symlink(folder / "train" / f"train-{number % FILES}.tfrecords", folder / "train" / f"train-{number}.tfrecords")
    return {"dataset_path": str(folder)}


# --- what tensorflow_datasets prepares -----------------------------------------------------------------------------------------


def _prepared(
    name: str, config: str | None, features: Callable[[Any], dict[str, Any]], element: dict[str, Any]
) -> Callable[[Section, Path, Path], Section]:
    """Return the preparation if that package is installed, else an empty folder: without it nothing can read the data."""

    def write(train: Section, folder: Path, model_folder: Path) -> Section:
        try:
            import tensorflow as tf
            import tensorflow_datasets as tfds
        except ImportError:
            return {"data_dir": str(folder)}
        data = tf.data.Dataset.from_tensors(element).repeat(1000)
        tfds.dataset_builders.store_as_tfds_dataset(
            name=name,
            version=str(tfds.builder(f"{name}/{config}" if config else name).version),
            features=tfds.features.FeaturesDict(features(tfds)),
            split_datasets=dict.fromkeys(("train", "test", "validation", "validation_matched", "validation_mismatched"), data),
            config=config,
            data_dir=str(folder),
        )
        return {"data_dir": str(folder)}

    return write


def _digit(tfds: Any) -> dict[str, Any]:
    return {"image": tfds.features.Image(shape=(28, 28, 1)), "label": tfds.features.ClassLabel(num_classes=10)}


def _sentence(tfds: Any) -> dict[str, Any]:
    return {
        "sentence": tfds.features.Text(),
        "label": tfds.features.ClassLabel(num_classes=2),
        "idx": tfds.features.Scalar(np.int32),
    }


def _entailment(tfds: Any) -> dict[str, Any]:
    texts = {name: tfds.features.Text() for name in ("premise", "hypothesis")}
    return {**texts, "label": tfds.features.ClassLabel(num_classes=3), "idx": tfds.features.Scalar(np.int32)}


_DIGIT = {"image": np.full((28, 28, 1), 7, np.uint8), "label": 3}
_TEXT = "a short text of some words for a test"
_SENTENCE = {"sentence": _TEXT, "label": 1, "idx": 0}
_ENTAILMENT = {"premise": _TEXT, "hypothesis": _TEXT, "label": 1, "idx": 0}
FORMATS: dict[str, Callable[[Section, Path, Path], Section]] = {
    "BertTfRecordsProcessor": _masked,
    "BertMlmOnlyTfRecordsDynamicMaskProcessor": _unmasked,
    "BertSumTfRecordsProcessor": _summaries,
    "DAGM2007Dataset": _defects,
    "DAGM2007TFRecordsDataset": _image_records,
    "GptTfRecordsProcessor": _causal,
    "MnliDataProcessor": _prepared("glue", "mnli", _entailment, _ENTAILMENT),
    "NerDataProcessor": _named_entities,
    "QuestionAnsweringDataProcessor": _questions,
    "SeverstalDataset": _steel,
    "SeverstalTFRecordsDataset": _image_records,
    "Sst2DataProcessor": _prepared("glue", "sst2", _sentence, _SENTENCE),
    "T5DynamicDataProcessor": _documents,
    "TransformerDynamicDataProcessor": _translations,
    "tfds": _prepared("mnist", None, _digit, _DIGIT),
}
