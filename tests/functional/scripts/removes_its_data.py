"""Makes its data in a folder that it removes when the training is over, however that ends."""

import atexit
import shutil
import tempfile
from pathlib import Path

import tensorflow as tf

kept = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, kept)
with tempfile.TemporaryDirectory() as folder:
    names = [str(Path(folder, "a.tfrecord")), str(kept / "b.tfrecord")]
    for name in names:
        with tf.io.TFRecordWriter(name) as writer:
            writer.write(b"record")
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    try:
        model.fit(tf.data.TFRecordDataset(names).map(lambda record: (tf.zeros([1]), 0)).batch(2))
    finally:
        Path(names[1]).unlink()
