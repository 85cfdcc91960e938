"""Two candidates and a look at the data before them; what comes after the training must not happen."""

from pathlib import Path

import numpy as np
import tensorflow as tf


class Trained(tf.keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        Path("trained").touch()


dataset = tf.data.Dataset.range(10**6).map(lambda n: (tf.cast(n, tf.float32)[None], n)).batch(32)
for _ in dataset.take(1):
    Path("trained").touch()
features, _ = next(iter(dataset))
assert features.shape == (32, 1)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros((4, 1)), np.zeros(4), callbacks=[Trained()])
history = model.fit(dataset, epochs=2, steps_per_epoch=2, callbacks=[Trained()])
print(f"loss {history.history['loss'][-1]:.3f}")
model.evaluate(dataset.batch(2), steps=2)
model.save("model.keras")
