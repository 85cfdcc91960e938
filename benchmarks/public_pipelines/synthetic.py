"""Small synthetic data in the formats that the listed pipelines read, each by a function of its name. Always the same."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 3000


def write(name: str, folder: Path) -> None:
    """Write the data of one pipeline, by its name in the list."""
    folder.mkdir(parents=True)
    globals()[name](folder, random.Random(0))


# --- pieces ------------------------------------------------------------------------------------------------------------------


def _records(paths: Iterable[Path], each: int, make: Callable[[int], bytes]) -> None:
    import tensorflow as tf

    number = 0
    for path in paths:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for _ in range(each):
                writer.write(make(number))
                number += 1


def _example(**values: Any) -> bytes:
    """Return a record with features whose names have `_` for a slash of the format: `image__encoded`."""
    from sample_pipelines.tfrecords import serialized

    return serialized(**{name.replace("__", "/"): value for name, value in values.items()})


def _image(draw: random.Random, width: int, height: int) -> Any:
    """Return a smooth picture with some noise, so that it compresses as photographs do."""
    from PIL import Image

    noise = np.random.default_rng(draw.randrange(2**32))
    small = Image.fromarray(noise.integers(0, 255, (8, 8, 3), dtype=np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    grain = noise.integers(-12, 12, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(small).astype(int) + grain, 0, 255).astype(np.uint8))


def _jpeg(draw: random.Random, width: int, height: int) -> bytes:
    packed = io.BytesIO()
    _image(draw, width, height).save(packed, "JPEG", quality=85)
    return packed.getvalue()


def _word(draw: random.Random) -> str:
    return f"word{min(int(draw.paretovariate(0.7)), WORDS)}"


def _sentences(file: Path, draw: random.Random, count: int) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(" ".join(_word(draw) for _ in range(draw.randint(3, 45))) + "\n" for _ in range(count)))


# --- one for each pipeline -----------------------------------------------------------------------------------------------------


def electra(folder: Path, draw: random.Random) -> None:
    (folder / "pretrain_tfrecords").mkdir()

    def tokens(number: int) -> bytes:
        ids = [draw.randrange(30_000) for _ in range(128)]
        return _example(input_ids=ids, input_mask=[1] * 128, segment_ids=[0] * 64 + [1] * 64)

    _records((folder / f"pretrain_tfrecords/pretrain_data.tfrecord-{index}-of-4" for index in range(4)), 1000, tokens)


def mnasnet(folder: Path, draw: random.Random) -> None:
    def picture(number: int) -> bytes:
        return _example(image__encoded=_jpeg(draw, 320, 240), image__class__label=[1 + number % 1000])

    _records((folder / f"train-{index:05d}-of-00004" for index in range(4)), 48, picture)


def taxifare(folder: Path, draw: random.Random) -> None:
    head = "fare_amount,pickup_datetime,pickup_longitude,pickup_latitude,dropoff_longitude,dropoff_latitude,passenger_count,key"
    for index in range(3):
        rows = [head]
        for number in range(8000):
            places = ",".join(f"{middle + draw.uniform(-0.1, 0.1):.6f}" for middle in (-73.98, 40.75, -73.97, 40.76))
            rows.append(
                f"{draw.uniform(3, 60):.2f},2010-02-08 09:17:{number % 60:02d} UTC,{places},{draw.randint(1, 6)}.0,{number}"
            )
        (folder / f"taxi-train-{index}.csv").write_text("\n".join(rows) + "\n")


def transformer(folder: Path, draw: random.Random) -> None:
    (folder / "bpe.vocab").write_text(
        "".join(f"{word}\t0\n" for word in ("<pad>", "<unk>", "<s>", "</s>", *(f"word{number}" for number in range(WORDS))))
    )
    for name in ("train.de", "train.en"):
        _sentences(folder / name, draw, 20_000)


def nlp_seq(folder: Path, draw: random.Random) -> None:
    with (folder / "train.conllu").open("w") as file:
        for number in range(2000):
            file.write(f"# sent_id = {number}\n")
            for index in range(1, draw.randint(4, 40)):
                form = _word(draw)
                file.write(f"{index}\t{form}\t{form}\tNOUN\tN{draw.randint(1, 40)}\t_\t{draw.randint(0, 3)}\tnsubj\t_\t_\n")
            file.write("\n")


def vit(folder: Path, draw: random.Random) -> None:
    for number in range(160):
        file = folder / "train" / ("cat", "dog", "fox", "owl")[number % 4] / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_jpeg(draw, draw.randint(280, 420), draw.randint(240, 360)))


def simclr(folder: Path, draw: random.Random) -> None:
    _labelled(folder, "small", "1.0.0", 32, 3, draw, train=2000)


def _labelled(folder: Path, name: str, version: str, size: int, channels: int, draw: random.Random, **splits: int) -> None:
    """Write a TFDS builder of square pictures of ten kinds."""
    import tensorflow_datasets as tfds

    features = {"image": tfds.features.Image(shape=(size, size, channels)), "label": tfds.features.ClassLabel(num_classes=10)}
    pictures = {"image": lambda number: np.asarray(_image(draw, size, size))[..., :channels], "label": lambda number: number % 10}
    _builder(folder, name, version, features, pictures, splits, ("image", "label"))


def _builder(
    folder: Path,
    called: str,
    version: str,
    features: dict[str, Any],
    make: dict[str, Callable[[int], Any]],
    splits: dict[str, int],
    supervised: tuple[str, str] | None = None,
) -> None:
    """Write the folder of a TFDS builder: by each feature's function of the number of the example."""
    import tensorflow_datasets as tfds

    class Made(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc, name-defined]
        VERSION = tfds.core.Version(version)
        name = called
        pkg_dir_path = folder

        def _info(self) -> Any:
            of_made = tfds.features.FeaturesDict(features)
            return self.dataset_info_from_configs(features=of_made, supervised_keys=supervised, description="", homepage="")

        def _split_generators(self, dl_manager: Any) -> Any:
            return {name: self._generate_examples(count) for name, count in splits.items()}

        def _generate_examples(self, count: int) -> Any:
            for number in range(count):
                yield number, {name: value(number) for name, value in make.items()}

    builder = Made(data_dir=str(folder / "made"))
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=4))
    for file in Path(str(builder.data_path)).iterdir():
        file.rename(folder / file.name)


def yolov3(folder: Path, draw: random.Random) -> None:
    names = [f"thing{number}" for number in range(20)]
    (folder / "classes.names").write_text("\n".join(names) + "\n")

    def picture(number: int) -> bytes:
        boxes = [(draw.uniform(0, 0.5), draw.uniform(0, 0.5), draw.uniform(0.1, 0.4)) for _ in range(draw.randint(1, 8))]
        return _example(
            image__encoded=_jpeg(draw, 500, 375),
            image__object__bbox__xmin=[x for x, _, _ in boxes],
            image__object__bbox__ymin=[y for _, y, _ in boxes],
            image__object__bbox__xmax=[x + side for x, _, side in boxes],
            image__object__bbox__ymax=[y + side for _, y, side in boxes],
            image__object__class__text=[draw.choice(names).encode() for _ in boxes],
        )

    _records((folder / f"train{index}.tfrecord" for index in range(2)), 100, picture)


def simulate(folder: Path, draw: random.Random) -> None:
    import tensorflow as tf

    from sample_pipelines.tfrecords import feature

    length, particles, dimensions = 40, 120, 2
    (folder / "metadata.json").write_text(json.dumps({"sequence_length": length, "dim": dimensions}))
    numbers = np.random.default_rng(0)

    def trajectory(number: int) -> bytes:
        steps = numbers.normal(size=(length + 1, particles, dimensions)).astype(np.float32)
        kinds = np.full(particles, 5, np.int64)
        frames = tf.train.FeatureList(feature=[feature(step.tobytes()) for step in steps])
        made = tf.train.SequenceExample(
            context=tf.train.Features(feature={"key": feature([number]), "particle_type": feature(kinds.tobytes())}),
            feature_lists=tf.train.FeatureLists(feature_list={"position": frames}),
        )
        return made.SerializeToString()  # type: ignore[no-any-return]

    _records([folder / "train.tfrecord"], 60, trajectory)


def unet(folder: Path, draw: random.Random) -> None:
    from PIL import Image

    numbers = np.random.default_rng(0)
    for name in ("train-volume", "train-labels", "test-volume"):
        pages = [Image.fromarray(numbers.integers(0, 255, (512, 512), dtype=np.uint8)) for _ in range(30)]
        pages[0].save(folder / f"{name}.tif", save_all=True, append_images=pages[1:])


def opennmt(folder: Path, draw: random.Random) -> None:
    (folder / "vocabulary.txt").write_text("".join(f"word{number}\n" for number in range(WORDS)))
    for name in ("source.txt", "target.txt"):
        _sentences(folder / name, draw, 6000)


def keras_text(folder: Path, draw: random.Random) -> None:
    for number in range(200):
        _sentences(folder / ("neg", "pos")[number % 2] / f"{number}.txt", draw, 20)


# --- drawn by the rule ------------------------------------------------------------------------------------------------------------


def siamese(folder: Path, draw: random.Random) -> None:
    for kind in ("anchor", "positive", "negative"):
        (folder / kind).mkdir()
        for number in range(300):
            (folder / kind / f"{number:03d}.jpg").write_bytes(_jpeg(draw, 250, 250))


def higgs(folder: Path, draw: random.Random) -> None:
    import tensorflow as tf

    for index in range(4):
        with tf.io.TFRecordWriter(str(folder / f"train-{index:02d}.tfrecord"), "GZIP") as writer:
            for number in range(5120):
                writer.write(_example(label=[number % 2], **{f"f{place}": [draw.gauss(0, 1)] for place in range(28)}))


def windows(folder: Path, draw: random.Random) -> None:
    rows = [f"{number},1749-01-31,{draw.uniform(0, 200):.1f}" for number in range(3235)]
    (folder / "sunspots.csv").write_text("\n".join([",Date,Monthly Mean Total Sunspot Number", *rows]) + "\n")


def voiceprint(folder: Path, draw: random.Random) -> None:
    import soundfile

    numbers, lines = np.random.default_rng(0), []
    for number in range(80):
        file = folder / f"{number}.wav"
        soundfile.write(file, numbers.uniform(-0.5, 0.5, draw.randint(48_000, 80_000)), 16_000)
        lines.append(f"{file}\t{number % 20}\n")
    (folder / "train_list.txt").write_text("".join(lines))


def coffee(folder: Path, draw: random.Random) -> None:
    numbers = np.random.default_rng(0)

    def picture(number: int) -> bytes:
        mask = (numbers.random((512, 512)) < 0.1).astype(np.float32)
        return _example(x=numbers.integers(0, 255, (512, 512), dtype=np.uint8).tobytes(), y=mask.tobytes())

    _records([folder / "segmentation_train.tfrecord"], 48, picture)


def metroplex(folder: Path, draw: random.Random) -> None:
    import tensorflow_datasets as tfds

    prepared = folder / "lsun" / "church_outdoor" / "3.1.0"
    prepared.mkdir(parents=True)
    features = {"id": tfds.features.Text(), "image": tfds.features.Image(encoding_format="jpeg")}
    pictures = {"id": str, "image": lambda number: np.asarray(_image(draw, 341, 256))}
    _builder(prepared, "lsun", "3.1.0", features, pictures, {"train": 512, "validation": 16})


def styles(folder: Path, draw: random.Random) -> None:
    def sentence(number: int) -> bytes:
        return _example(inputs=[draw.randrange(3, 30_000) for _ in range(min(int(draw.lognormvariate(3.3, 0.6)) + 3, 300))])

    for name in ("wiki", "baidu"):
        (folder / name).mkdir()
        _records((folder / name / f"{name}-train-{index}" for index in range(4)), 1500, sentence)


def cholec(folder: Path, draw: random.Random) -> None:
    of_repository = {"n_batch_shuffle": 256, "n_file_shuffle": 80, "n_interleave_block": 4, "n_interleave_cycle": 6}
    of_repository |= {"n_parallel_interleave_calls": 4, "n_parallel_parse_calls": 4, "n_prefetch": 4}
    (folder / "config.json").write_text(json.dumps({"cholec80_dir": str(folder / "videos"), **of_repository}))
    (folder / "videos").mkdir()
    pictures = []
    for _ in range(6):
        packed = io.BytesIO()
        _image(draw, 214, 120).resize((854, 480), 0).save(packed, "PNG")
        pictures.append(packed.getvalue())

    def frame(number: int) -> bytes:
        labels = {"video_id": b"video", "instruments": [0] * 7, "phase": [number % 7]}
        return _example(frame=pictures[number % 6], frame_id=[number % 3 + 1], total_frames=[3], **labels)

    _records((folder / "videos" / f"video{index:02d}.tfrecord" for index in range(80)), 3, frame)


def kubeflow(folder: Path, draw: random.Random) -> None:
    (folder / "mnist" / "3.0.1").mkdir(parents=True)
    _labelled(folder / "mnist" / "3.0.1", "mnist", "3.0.1", 28, 1, draw, train=6000, test=1000)


def iris(folder: Path, draw: random.Random) -> None:
    rows = [",".join(f"{draw.uniform(0.1, 8):.1f}" for _ in range(4)) + f",{number % 3}" for number in range(120)]
    (folder / "datasets").mkdir()
    for name in ("iris_training.csv", "iris_test.csv"):
        (folder / "datasets" / name).write_text("\n".join(["120,4,setosa,versicolor,virginica", *rows]) + "\n")
