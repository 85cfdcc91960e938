"""Which public pipelines are measured. They were chosen by reading their code, before any was measured; one that fails stays.

None of their code is here: a folder with checkouts is given. How each is called is in `targets.py`, its data in `synthetic.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One public input function.

    Attributes:
        repository: owner/name on GitHub.
        commit: the state that was read.
        file: path in the repository; a second one holds ops of the pipeline, too.
        function: what is called.
        kind: of data, and what is unusual.
        samples: the component of an element whose `axes` count its samples, as its code says; a component is a path of keys.
        stand_ins: packages that the module imports and the data do not need.
        packages: packages that must be installed besides those of this project.
        from_package: the code is imported from the installed package of this name, not from a checkout.
        script: the file is a whole training script, run by its path; the function names the part that is analyzed.
        own_folder: a folder that the code names and only its author has; its place is taken by the data.
        pass_elements: CPU is measured by whole passes of this number of elements; 0: of passes that end. None: by time.
    """

    name: str
    repository: str
    commit: str
    file: str
    function: str
    kind: str
    samples: tuple[str | int, ...]
    axes: tuple[int, ...] = (0,)
    stand_ins: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    from_package: str | None = None
    script: bool = False
    own_folder: str | None = None
    pass_elements: int | None = None


LISTED = (
    Listed(
        name="electra",
        repository="google-research/electra",
        commit="8a46635f32083ada044d7e9ad09604742600ee7b",
        file="pretrain/pretrain_data.py",
        function="get_input_fn",
        kind="TFRecord of tokens; legacy parallel_interleave and map_and_batch",
        samples=("input_ids",),
    ),
    Listed(
        name="mnasnet",
        repository="tensorflow/tpu",
        commit="7dc921f846c9e4071f3884b768a7ddf521272a49",
        file="models/official/mnasnet/imagenet_input.py",
        function="ImageNetInput.input_fn",
        kind="TFRecord of JPEG; legacy parallel_interleave, shuffle_and_repeat after a cache, map_and_batch",
        samples=(1,),
    ),
    Listed(
        name="taxifare",
        repository="GoogleCloudPlatform/training-data-analyst",
        commit="a3083130c24bbce167714c8630eaf21598c9c9a7",
        file="courses/machine_learning/deepdive2/building_production_ml_systems/solutions/taxifare/trainer/model.py",
        function="create_train_dataset",
        kind="CSV by make_csv_dataset, which batches and shuffles by itself",
        samples=(1,),
    ),
    Listed(
        name="transformer",
        repository="Kyubyong/transformer",
        commit="fb023bb097e08d53baf25b46a9da490beba51a21",
        file="data_load.py",
        function="get_batch",
        kind="Python generator over text; padded batches",
        samples=(0, 1),
    ),
    Listed(
        name="nlp_seq",
        repository="google/flax",
        commit="18f8f311c275d57f46d95e41b15aa97b454754c0",
        file="examples/nlp_seq/input_pipeline.py",
        function="sentence_dataset_dict",
        kind="small text by a Python generator, cached in memory before the window begins",
        samples=("inputs",),
    ),
    Listed(
        name="vit",
        repository="google-research/vision_transformer",
        commit="c6de1e5378c9831a8477feb30994971bdc409e46",
        file="vit_jax/input_pipeline.py",
        function="get_data_from_directory",
        kind="folders of JPEG; elements are [devices, samples of a device, ...] after a reshape",
        samples=("label",),
        axes=(0, 1),
        stand_ins=("flax",),
        packages=("tensorflow_datasets", "jax"),
    ),
    Listed(
        name="simclr",
        repository="google-research/simclr",
        commit="383d4143fd8cf7879ae10f1046a9baeb753ff438",
        file="tf2/data.py",
        function="build_input_fn",
        kind="a TFDS builder; two augmented views of a sample beside each other",
        samples=(1,),
        packages=("tensorflow_datasets",),
    ),
    Listed(
        name="yolov3",
        repository="zzh8829/yolov3-tf2",
        commit="2784050f2fc1ff060f4c8b3ac2db231370569aa8",
        file="yolov3_tf2/dataset.py",
        function="load_tfrecord_dataset, put together as in train.py",
        kind="TFRecord of JPEG; lookup table of a file; a map with a loop after batch; finite",
        samples=(0,),
        stand_ins=("cv2",),
    ),
    Listed(
        name="simulate",
        repository="google-deepmind/deepmind-research",
        commit="f5de0ede8430809180254ee957abf36ed62579ef",
        file="learning_to_simulate/train.py",
        function="get_input_fn",
        kind="SequenceExample; py_function; flat_map over slices; batched by window and reduce along another axis",
        samples=(0, "n_particles_per_example"),
        stand_ins=("graph_nets", "sonnet", "sklearn"),
        packages=("tree",),
    ),
    Listed(
        name="unet",
        repository="NVIDIA/DeepLearningExamples",
        commit="729963dd47e7c8bd462ad10bfac7a7b0b604e6dd",
        file="TensorFlow2/Segmentation/UNet_Medical/data_loading/data_loader.py",
        function="Dataset.eval_fn",
        kind="a small finite set in memory: six images of a TIFF, one pass",
        samples=(0,),
    ),
    Listed(
        name="opennmt",
        repository="OpenNMT/OpenNMT-tf",
        commit="6f3b952ebb973dec31250a806bf0f56ff730d0b5",
        file="opennmt/data/dataset.py",
        function="training_pipeline",
        kind="two text files beside each other; filter; group_by_window by length, all by apply",
        samples=(0, "length"),
    ),
    Listed(
        name="keras_text",
        repository="keras-team/keras",
        commit="v3.15.1",
        file="keras/src/utils/text_dataset_utils.py",
        function="text_dataset_from_directory",
        kind="folders of text files; a finite set that is smaller than its shuffle buffer; every op in a library",
        samples=(0,),
        from_package="keras",
    ),
)
