"""Two Estimators of one dictionary, which is changed in between: each keeps the params of its making."""

import tensorflow as tf


def input_fn(params):
    return tf.data.Dataset.range(1000).batch(params["batch_size"], drop_remainder=True).repeat()


params = {}


def made(batch_size):
    params["batch_size"] = batch_size
    return tf.estimator.Estimator(model_fn=lambda features, labels, mode, params: None, params=params)


train, evaluate = made(8), made(1)
train.train(input_fn=input_fn, max_steps=10)
evaluate.evaluate(input_fn=input_fn, steps=1)
