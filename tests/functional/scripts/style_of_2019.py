"""As scripts of 2019 are: contrib, an Estimator for TPUs, mode keys of a private module, a package for many accelerators."""

import many_accelerators.tensorflow as many
import tensorflow.compat.v1 as tf
from tensorflow.contrib import training as contrib_training
from tensorflow.contrib.cluster_resolver import TPUClusterResolver
from tensorflow.contrib.tpu.python.tpu import tpu_config, tpu_estimator
from tensorflow.keras.mixed_precision.experimental import Policy
from tensorflow.python.estimator import model_fn as model_fn_lib

try:
    from tensorflow.contrib.data import map_and_batch
except ImportError:
    map_and_batch = None

tf.disable_v2_behavior()


class Defaults(contrib_training.HParams):
    steps = 100


def input_fn_of(mode):
    def input_fn(params):
        dataset = tf.data.Dataset.range(10**6)
        if mode == model_fn_lib.ModeKeys.TRAIN:
            dataset = dataset.map(lambda number: number * 3)
        assert map_and_batch is None
        return dataset.batch(params["batch_size"], drop_remainder=True)

    return input_fn


def model_fn(features, labels, mode, params):
    raise AssertionError("it trained")


many.init()
hparams = Defaults(learning_rate=0.1 * many.size())
hooks = [many.BroadcastHook(0)]
config = tpu_config.RunConfig(
    cluster=TPUClusterResolver("name"),
    tpu_config=tpu_config.TPUConfig(iterations_per_loop=10, per_host_input_for_training=tpu_config.InputPipelineConfig.PER_HOST_V2),
)
estimator = tpu_estimator.TPUEstimator(
    model_fn=model_fn, config=config, params={"policy": Policy("mixed")}, train_batch_size=32, eval_batch_size=8
)
estimator.train(input_fn=input_fn_of(tf.estimator.ModeKeys.TRAIN), max_steps=hparams.steps // many.size(), hooks=hooks)
estimator.evaluate(input_fn=input_fn_of(tf.estimator.ModeKeys.EVAL), steps=10)
