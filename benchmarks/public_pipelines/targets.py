"""Each listed pipeline as its repository calls it: an input function for the analyzer, with the names of two folders as params.

The dataset ops stand in the public files, except where the repository's own training script puts them together (`yolov3`) or leaves
the reading to its caller (`opennmt`).
"""

from __future__ import annotations

import runpy
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Params = Mapping[str, str]


def _from(params: Params, repository: str, *folders: str) -> Path:
    """Return the checkout, and its folders on Python's path as the repository's README has them."""
    checkout = Path(params["checkouts"]) / repository.replace("/", "+")
    for folder in folders:
        if str(checkout / folder) not in sys.path:
            sys.path.insert(0, str(checkout / folder))
    return checkout


def electra(params: Params) -> Any:
    _from(params, "google-research/electra", "")
    from configure_pretraining import PretrainingConfig
    from pretrain.pretrain_data import get_input_fn

    config = PretrainingConfig("small", params["data"])
    return get_input_fn(config, True)({"batch_size": config.train_batch_size})


def mnasnet(params: Params) -> Any:
    _from(params, "tensorflow/tpu", "models/official/mnasnet")
    from imagenet_input import ImageNetInput

    made = ImageNetInput(is_training=True, use_bfloat16=False, transpose_input=False, data_dir=params["data"], cache=True)
    return made.input_fn({"batch_size": 64})


def taxifare(params: Params) -> Any:
    folder = "courses/machine_learning/deepdive2/building_production_ml_systems/solutions/taxifare"
    _from(params, "GoogleCloudPlatform/training-data-analyst", folder)
    from trainer.model import create_train_dataset

    return create_train_dataset(f"{params['data']}/taxi-train*.csv", 32)


def transformer(params: Params) -> Any:
    _from(params, "Kyubyong/transformer", "")
    from data_load import get_batch

    data = Path(params["data"])
    dataset, _, _ = get_batch(str(data / "train.de"), str(data / "train.en"), 100, 100, str(data / "bpe.vocab"), 128, shuffle=True)
    return dataset


def nlp_seq(params: Params) -> Any:
    _from(params, "google/flax", "examples/nlp_seq")
    import input_pipeline

    file = f"{params['data']}/train.conllu"
    return input_pipeline.sentence_dataset_dict(
        file,
        input_pipeline.create_vocabs(file),
        [input_pipeline.CoNLLAttributes.FORM],
        [input_pipeline.CoNLLAttributes.XPOS],
        batch_size=64,
        bucket_size=256,
    )


def vit(params: Params) -> Any:
    _from(params, "google-research/vision_transformer", "")
    from vit_jax.input_pipeline import get_data_from_directory

    config = types.SimpleNamespace(batch=32, batch_eval=32, pp={"crop": 224}, shuffle_buffer=50_000)
    return get_data_from_directory(config=config, directory=f"{params['data']}/train", mode="train")


def simclr(params: Params) -> Any:
    _from(params, "google-research/simclr", "tf2")
    import tensorflow as tf
    import tensorflow_datasets as tfds
    from absl import flags

    if "train_mode" not in flags.FLAGS:  # run.py defines them; these are its values for CIFAR-10
        flags.DEFINE_string("train_mode", "pretrain", "")
        flags.DEFINE_string("train_split", "train", "")
        flags.DEFINE_bool("cache_dataset", False, "")
        flags.DEFINE_integer("image_size", 32, "")
        flags.DEFINE_float("color_jitter_strength", 0.5, "")
        flags.FLAGS(["run.py"])
    from data import build_input_fn

    builder = tfds.builder_from_directory(params["data"])
    return build_input_fn(builder, 128, None, True)(tf.distribute.InputContext())


def yolov3(params: Params) -> Any:
    _from(params, "zzh8829/yolov3-tf2", "")
    import tensorflow as tf
    from absl import flags
    from yolov3_tf2 import dataset as public
    from yolov3_tf2.models import yolo_anchor_masks, yolo_anchors

    flags.FLAGS(["train.py"])
    size, data = 416, Path(params["data"])
    dataset = public.load_tfrecord_dataset(str(data / "train*.tfrecord"), str(data / "classes.names"), size)
    dataset = dataset.shuffle(buffer_size=512)
    dataset = dataset.batch(8)
    dataset = dataset.map(
        lambda x, y: (
            public.transform_images(x, size),
            public.transform_targets(y, yolo_anchors, yolo_anchor_masks, size),
        )
    )
    return dataset.prefetch(buffer_size=tf.data.experimental.AUTOTUNE)


def simulate(params: Params) -> Any:
    _from(params, "google-deepmind/deepmind-research", "")
    from learning_to_simulate.train import get_input_fn

    return get_input_fn(params["data"], 2, "one_step_train", "train")()


def unet(params: Params) -> Any:
    _from(params, "NVIDIA/DeepLearningExamples", "TensorFlow2/Segmentation/UNet_Medical")
    from data_loading.data_loader import Dataset

    return Dataset(data_dir=params["data"], batch_size=8, fold=0).eval_fn(count=1)


def opennmt(params: Params) -> Any:
    checkout = _from(params, "OpenNMT/OpenNMT-tf")
    import tensorflow as tf

    # The package itself imports TensorFlow Addons, which has no release for this TensorFlow; its data room needs none.
    for name in ("opennmt", "opennmt.utils", "opennmt.data"):
        package = sys.modules.setdefault(name, types.ModuleType(name))
        package.__path__ = [str(checkout / name.replace(".", "/"))]
    from opennmt.data.dataset import training_pipeline

    data = Path(params["data"])
    words = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(
            str(data / "vocabulary.txt"),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        ),
        num_oov_buckets=1,
    )

    def features(line: Any) -> dict[str, Any]:
        tokens = tf.strings.split(line)
        return {"tokens": tokens, "ids": words.lookup(tokens), "length": tf.shape(tokens)[0]}

    def length(of: Mapping[str, Any]) -> Any:
        return of["length"]

    lines = (tf.data.TextLineDataset(str(data / "source.txt")), tf.data.TextLineDataset(str(data / "target.txt")))
    return tf.data.Dataset.zip(lines).apply(
        training_pipeline(
            64,
            process_fn=lambda source, target: (features(source), features(target)),
            length_bucket_width=5,
            features_length_fn=length,
            labels_length_fn=length,
            maximum_features_length=40,
            maximum_labels_length=40,
            shuffle_buffer_size=2000,
        )
    )


def keras_text(params: Params) -> Any:
    import keras

    return keras.utils.text_dataset_from_directory(params["data"], batch_size=32, max_length=2000, seed=1, verbose=False)


# --- drawn by the rule ------------------------------------------------------------------------------------------------------------


def siamese(params: Params) -> Any:
    _from(params, "tranvananhanhanh/vgg16_siamese_face_recognition", "")
    import dataset

    return dataset.train_data


def higgs(params: Params) -> Any:
    _from(params, "LaurinTim/Higgs-Data", "HIGGS")
    import HIGGS_utils
    import tensorflow as tf

    return HIGGS_utils.make_ds(tf.io.gfile.glob(f"{params['data']}/*.tfrecord"), batch=2**11, shuffle=True)


def windows(params: Params) -> Any:
    _from(params, "moiseyalaev/Time_Series", "Helper_Functions")
    import numpy as np
    from windowed_function import windowed_dataset_v2

    series = np.loadtxt(f"{params['data']}/sunspots.csv", delimiter=",", skiprows=1, usecols=2)
    return windowed_dataset_v2(series[:3000], 64, 256, 1000)


def voiceprint(params: Params) -> Any:
    _from(params, "yeyupiaoling/VoiceprintRecognition-Tensorflow", "")
    from utils import reader

    return reader.train_reader(data_list_path=f"{params['data']}/train_list.txt", batch_size=16, num_epoch=50, spec_len=257)


def coffee(params: Params) -> Any:
    _from(params, "wbmagalhaes/coffee-defect-map", "")
    from utils import tfrecords
    from utils.augmentation import clip01, crop, flip, rotate

    dataset = tfrecords.read([f"{params['data']}/segmentation_train.tfrecord"], im_size=512)
    dataset = clip01(flip(rotate(crop(dataset, im_size=256))))
    return dataset.repeat().shuffle(buffer_size=400).batch(16)


def metroplex(params: Params) -> Any:
    _from(params, "AranKomat/Metroplex", "")
    import input_pipeline

    of_json = {"dataset": "lsun/church_outdoor", "image_size": 256, "n_batch": 128}
    of_hps = {"split_train": "train", "split_test": "validation", "shuffle_buffer": 50000}
    options = types.SimpleNamespace(**of_json, **of_hps, tfds_data_dir=None, tfds_manual_dir=None)
    return input_pipeline.get_ds(options, mode="train")


def styles(params: Params) -> Any:
    _from(params, "1-punchMan/CycleGAN-sentiment-transfer", "")
    import data_pipeline
    import tensorflow as tf

    of_main = {"max_length": 256, "n_tokens": 3000, "static_batch": False, "num_gpus": 1, "repeat_dataset": None}
    of_data = {"wiki_dir": f"{params['data']}/wiki", "baidu_dir": f"{params['data']}/baidu", "BOS_id": 1, "EOS_id": 2}
    return data_pipeline.get_training_set({**of_main, **of_data, "max_io_parallelism": tf.data.experimental.AUTOTUNE})


def cholec(params: Params) -> Any:
    _from(params, "CAMMA-public/TF-Cholec80", "")
    from tf_cholec80.dataset import make_cholec80

    return make_cholec80(12, config_path=f"{params['data']}/config.json")


def kubeflow(params: Params) -> Any:
    return _of_script(_from(params, "lugonthier/kubeflow-course") / "practices/training_op/solution/train.py")


def iris(params: Params) -> Any:
    return _of_script(_from(params, "cmcai0104/Assert_Portfolio_Policy") / "train_tf2.py")


class _TakenError(Exception):
    """Ends a script where it takes its data."""


def _of_script(path: Path) -> Any:
    """Return the first dataset that a script iterates over, or gives to `fit`; without the analyzer's own capture."""
    import keras
    from tensorflow.python.data.ops.dataset_ops import DatasetV2

    taken: list[Any] = []

    def take(dataset: Any) -> Any:
        taken.append(dataset)
        raise _TakenError

    fit, iterate, arguments = keras.Model.fit, DatasetV2.__iter__, sys.argv
    keras.Model.fit, DatasetV2.__iter__, sys.argv = lambda model, x, **rest: take(x), take, [str(path)]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except _TakenError:
        return taken[0]
    finally:
        keras.Model.fit, DatasetV2.__iter__, sys.argv = fit, iterate, arguments
    raise RuntimeError(f"{path} takes no dataset")
