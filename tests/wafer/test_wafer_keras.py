"""Keras models as networks: parameters are those that Keras counts."""

from __future__ import annotations

import pytest

from wafer_model import WaferModelError
from wafer_model.keras_model import from_keras
from wafer_model.model import predict

pytestmark = pytest.mark.tf


def test_dense_and_convolutional_models_count_as_keras_does() -> None:
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((32, 32, 3)),
            layers.Conv2D(8, 3, padding="valid"),
            layers.LayerNormalization(),
            layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False),
            layers.MaxPooling2D(),
            layers.Conv2DTranspose(4, 2, strides=2),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(10),
        ],
        name="small",
    )
    network = from_keras(model)
    assert network.parameters == sum(int(tf.size(weight)) for weight in model.trainable_weights)
    first = network.layers[0]
    assert first.forward_flops == 2 * 3 * 3 * 3 * 8 * 30 * 30  # "valid" borders
    assert first.output_elements == 30 * 30 * 8
    assert network.sample_bytes() == 32 * 32 * 3 * 2 + 4
    assert predict(network, batch_size=64).samples_per_s.estimate > 0


def test_transformers_nested_models_and_integer_inputs() -> None:
    import tensorflow as tf

    layers = tf.keras.layers
    ids = layers.Input((16,), dtype="int32", name="ids")
    hidden = layers.Embedding(100, 32)(ids)
    attended = layers.MultiHeadAttention(num_heads=4, key_dim=8)(hidden, hidden)
    inner = tf.keras.Sequential([layers.Input((16, 32)), layers.Dense(64, activation="gelu"), layers.Dense(32)])
    outputs = layers.Dense(100)(inner(layers.LayerNormalization()(layers.Add()([hidden, attended]))))
    model = tf.keras.Model(ids, outputs, name="tiny")
    network = from_keras(model, label_elements=16)
    assert network.parameters == sum(int(tf.size(weight)) for weight in model.trainable_weights)
    assert network.sample_bytes() == 16 * 4 + 16 * 4
    kinds = [layer.kind for layer in network.layers]
    assert kinds.count("attention") == 1
    assert kinds.count("dense") == 4


def test_models_without_sizes_are_refused() -> None:
    import tensorflow as tf

    layers = tf.keras.layers
    with pytest.raises(WaferModelError, match="an axis besides the batch has no size"):
        from_keras(tf.keras.Sequential([layers.Input((None, 3)), layers.Dense(4)]))
    with pytest.raises(WaferModelError, match="not built"):
        from_keras(tf.keras.Sequential([]))
