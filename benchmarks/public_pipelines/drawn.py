"""A second list of public pipelines, drawn by a rule that was written down before any of them was read or run.

The rule. Each query below goes to a meaning search over public source text, in this order. Its results that name a repository and a
path are read in the order of rank. The first that meets all conditions is drawn. A query without one gives its place to the
next query of `RESERVE`. Each place of `QUERIES` gives an input function. Each place of `SCRIPTS` gives a whole training script.
Where `RESERVE` is used up, the places that are left go to `PATHS`: an index of public repositories is asked which of them hold
a file at that path, and the first ten are read in the order of its answer. One path gives one pipeline. Those of
`SCRIPT_PATHS` give scripts.

The conditions:

1. The file builds a `tf.data` pipeline that calls a function per element: `map`, `flat_map`, `interleave` or `from_generator`.
   The file, or its caller in the same repository, batches it.
2. It is written for TensorFlow 2: no `tf.contrib`, session, placeholder, `tf.python_io` or one-shot iterator.
3. Its data can be written by us in at most 64 MB, in the format that the code reads. Nothing is downloaded.
4. It imports the standard library, TensorFlow, Keras, NumPy, pandas, Pillow, a package from PyPI, or its own repository. A package
   that its data do not need may be stood in for.
5. The repository can be fetched, stands in no earlier list and in no audit of this project, and gives one pipeline only.
6. It is called as the repository calls it, with the repository's sizes of batch, buffer and image. Only the data are small.

One that was drawn stays in the table, also where the analyzer fails on it. `PASSED_OVER` says which condition the others failed.
"""

from __future__ import annotations

QUERIES = (
    "tf.data image paths decode_jpeg resize map shuffle batch repeat prefetch",
    "tf.data TFRecordDataset parse_single_example interleave shuffle batch",
    "tf.data window flat_map batch windowed_dataset time series",
    "tf.data.Dataset.from_generator padded_batch input pipeline",
    "tf.data py_function numpy_function load audio spectrogram map batch",
    "tf.data TextLineDataset tokenize vocabulary bucket_by_sequence_length padded_batch",
    "tf.data csv decode_csv CsvDataset TextLineDataset skip map batch",
    "tf.data segmentation images masks zip map augment shuffle batch prefetch",
)
SCRIPTS = (
    "training script argparse main tf.data.Dataset map batch keras compile model.fit",
    "custom training loop GradientTape tf.data.Dataset for batch in dataset train_step main",
)
RESERVE = (
    "tf.data unbatch flat_map from_tensor_slices patches batch",
    "tf.data filter take skip cache train validation split map batch",
    "tf.data sample_from_datasets concatenate map batch",
    "tf.data group_by_window reduce batch map",
    "tf.data make_dataset FixedLengthRecordDataset decode_raw map batch",
    "tf.estimator train_and_evaluate input_fn tf.data map batch main",
    "tf.keras model.fit tf.data.TFRecordDataset flags app.run main",
)
PATHS = (
    "input_pipeline.py",
    "data_pipeline.py",
    "tf_dataset.py",
    "input_fn.py",
    "tfrecord_dataset.py",
    "tf_data.py",
    "data/tf_dataset.py",
    "src/data_pipeline.py",
    "utils/tf_dataset.py",
    "tfrecords.py",
)
SCRIPT_PATHS = ("train_tf2.py", "train_keras.py", "train_tf.py", "tf_train.py")
