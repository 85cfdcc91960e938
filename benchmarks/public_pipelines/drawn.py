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
   that its data do not need may be replaced by a stand-in.
5. The repository can be fetched, stands in no earlier list and in no audit of this project, and gives one pipeline only.
6. It is called as the repository calls it, with the repository's sizes of batch, buffer and image. Only the data are small.

One that was drawn stays in the table, also where the analyzer fails on it. `PASSED_OVER` says which condition the others failed.
"""

from __future__ import annotations

from benchmarks.public_pipelines.listed import Listed

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

# What was read in the order of the rule and not drawn, each with the number of the condition that it fails.
PASSED_OVER = {
    "jasperjumelet/image_recognition-histographic-cancer_dataset, example_pipeline.py": "2",
    "ducksfrogs/lemon_com, code/first.py": "6: a name is not defined",
    "askysrsh/SKIN.CANCER.DETECTION, preprocessdata.py": "1: nothing batches it",
    "ddiyoo/vanilla_gan, dataloader.py": "6: a name is not defined",
    "dudals3844/Hands_On_MachineLearning, 13.2.3": "1: no function",
    "wesinalves/100daysofcode, day089.py": "6: a name is not defined",
    "sreelakshmisindhu/tensorflow-timeseries, input_dataset_ML.py": "6: statements, no input function",
    "sola-st/Treefix": "1: text of TensorFlow's own documents",
    "jgung/verbnet-parsing-iwcs-2021, tfnlp/datasets.py": "2",
    "measic/gptidy-development": "6: cells of a notebook, names are not defined",
    "apoorv98/deep_learning_with_python, sequence_model.py": "1",
    "ase12345636/1121-Independent-Study-Music-Transformer-with-tensorflow, Data.py": "6: a call that the package no longer has",
    "kamperemu/twitter-troll-detection, train.py": "1",
    "alvarohernandezalt/TensorFlow_First_Approaches, 3_12_tf2_flatmap.py": "1: nothing batches it",
    "smartlmy/tensorflow_project, tf_dataset_test.py": "1: nothing batches it",
    "osljw/code_example, test_dataset.py": "2",
    "falcowinkler/dreamer, input.py": "2",
    "amifunny/tf-stitch, custom_train.py": "6: names are not defined",
    "tensorflow-example/python-tensorflow-master-example, 08_compiled_functions.py": "1: no function",
    "PHETpierre/tensorflow, quickstartExpert.py": "6: names are not defined",
    "fazligorkembal/tensorflow_ws, model_subclassing_training.py": "1: no function",
    "jackd/mnist_estimator, evaluate.py": "2",
    "pypi-data/pypi-mirror-229, keras_model_to_estimator_original.py": "5: a mirror of a package registry",
    "Haeuptling/BBArchComparison, DenseNet121.py": "6: a name is not defined",
    "roscisz/dnn_training_benchmarks, train_mirrored_strategy.py": "5: not in what was fetched",
    "Abdelrahman350/Synergy, input_pipeline.py": "1: no tf.data",
    "Ankur3107/squad-submission, input_pipeline.py": "6: it sets an option that this TensorFlow does not have",
    "Amano-Ginji/distributed-tensorflow-example, input_pipeline.py": "2",
    "the first five repositories with data_pipeline.py": "1: no tf.data",
    "CarlosW1998/COVID-Net, train_tf2.py": "2",
    "Jason-csugc/CSC580-module6CT, train_tf2.py": "1: no tf.data",
    "Penguinmont/FS-Net, train_tf2.py": "1: no function",
    "Popla69/hands_training, train_tf2.py": "1: no tf.data",
    "aemilani/CoEA, train_tf2.py": "1: no tf.data",
    "ahmdtaha/tf_retrieval_baseline, train_tf2.py": "3: it downloads weights",
    "astracloud/age_gender_estimation, train_tf2.py": "3: it downloads weights",
    "brossi/FigmentScribe, train_tf2.py": "1: no tf.data",
}

DRAWN = (
    Listed(
        name="siamese",
        repository="tranvananhanhanh/vgg16_siamese_face_recognition",
        commit="16a8c202195bb806cf4c8d5e7f6f893f2c127498",
        file="dataset.py",
        function="train_data",
        kind="pairs of JPEG files: zip, concatenate, cache, shuffle, take; one pass",
        samples=(0,),
        own_folder="/Users/jmac/Desktop/siamese/data",
        pass_elements=0,
    ),
    Listed(
        name="higgs",
        repository="LaurinTim/Higgs-Data",
        commit="668422c34688f8a037d0d11906a2603a1e46c72a",
        file="HIGGS/HIGGS_utils.py",
        function="make_ds",
        kind="TFRecord in GZIP; a shuffle that holds all; cache of batches behind a prefetch, then repeat",
        samples=(0,),
        stand_ins=("torch", "matplotlib"),
        pass_elements=10,
    ),
    Listed(
        name="windows",
        repository="moiseyalaev/Time_Series",
        commit="ff9715a771ea555d79fc26a31c9923b8b0dcdd8d",
        file="Helper_Functions/windowed_function.py",
        function="windowed_dataset_v2",
        kind="a series in memory: window, flat_map of one batch; one pass",
        samples=(0,),
        pass_elements=0,
    ),
    Listed(
        name="voiceprint",
        repository="yeyupiaoling/VoiceprintRecognition-Tensorflow",
        commit="f0aa2ec4ab387e6a0576e4d41006242d6c2aee4b",
        file="utils/reader.py",
        function="train_reader",
        kind="a Python generator that decodes audio; a shuffle that holds all; shapes are not said",
        samples=(0,),
        packages=("librosa", "soundfile"),
        pass_elements=5,
    ),
    Listed(
        name="coffee",
        repository="wbmagalhaes/coffee-defect-map",
        commit="c01ce578ad9773f32ce0df9da2331ece31766765",
        file="utils/augmentation.py",
        function="train_ds, put together as in train.py",
        kind="TFRecord of raw pictures; six maps with four calls each, one behind the other; repeat before shuffle",
        samples=(0,),
        pass_elements=3,
    ),
    Listed(
        name="metroplex",
        repository="AranKomat/Metroplex",
        commit="ddc37a382029b7f87474f0482f2548dcdaa0e3e9",
        file="input_pipeline.py",
        function="get_ds",
        kind="a TFDS builder of JPEG; repeat, a shuffle of encoded pictures, a parallel map, a reshape to devices behind the batch",
        samples=("image",),
        axes=(0, 1),
        stand_ins=("flax",),
        packages=("tensorflow_datasets", "jax"),
        pass_elements=1,
    ),
    Listed(
        name="styles",
        repository="1-punchMan/CycleGAN-sentiment-transfer",
        commit="485a17241ce1cb09fa1fb02495c968f744738728",
        file="data_pipeline.py",
        function="get_training_set",
        kind="two corpora beside each other, each interleave, two maps, filter, repeat; group_by_window by length",
        samples=(0,),
    ),
    Listed(
        name="cholec",
        repository="CAMMA-public/TF-Cholec80",
        commit="0596bd4770120f3dd85458d113517b16cc63c26e",
        file="tf_cholec80/dataset.py",
        function="make_cholec80",
        kind="TFRecord of PNG: a shuffle of batches that holds all, then a parallel map of batches; one pass",
        samples=("frame_id",),
        stand_ins=("pkg_resources",),
        pass_elements=0,
    ),
    Listed(
        name="kubeflow",
        repository="lugonthier/kubeflow-course",
        commit="e4c119a947639eaca19e5a2223bd0bb7a207b1fb",
        file="practices/training_op/solution/train.py",
        function="Model.fit",
        kind="script: a TFDS builder, cache, shuffle; Keras trains",
        samples=(1,),
        packages=("tensorflow_datasets",),
        script=True,
        pass_elements=0,
    ),
    Listed(
        name="iris",
        repository="cmcai0104/Assert_Portfolio_Policy",
        commit="0b47afee6465becc1fb78c155ed0731b67a734d5",
        file="train_tf2.py",
        function="for x, y in train_dataset",
        kind="script: make_csv_dataset of 120 rows, a serial map; a loop of its own trains",
        samples=(1,),
        stand_ins=("matplotlib",),
        script=True,
        pass_elements=0,
    ),
)
