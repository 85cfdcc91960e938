"""As scripts of TensorFlow 1 are: eager execution off, an Estimator, an input function of params."""

import argparse
from pathlib import Path

import tensorflow as tf

tf.compat.v1.disable_eager_execution()
tf.config.experimental.enable_op_determinism()  # an Estimator gives the seed that random ops want then


def train_input_fn(params, mode=tf.estimator.ModeKeys.TRAIN):
    assert mode == "train"
    return tf.data.Dataset.range(10**6).map(lambda number: number * 2).shuffle(1).batch(params["batch_size"])


def eval_input_fn(params):
    dataset = tf.data.Dataset.range(100).batch(params["batch_size"])
    return tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()


def model_fn(features, labels, mode, params):
    Path("trained").touch()


parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["train", "validate_only"], required=True)
parser.add_argument("--batch", type=int, default=16)
arguments = parser.parse_args()
estimator = tf.estimator.Estimator(model_fn, model_dir="model_dir", params={"batch_size": arguments.batch})
estimator.train(train_input_fn, steps=10)
estimator.evaluate(input_fn=eval_input_fn, steps=1)
Path("trained").touch()
