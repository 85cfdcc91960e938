"""The samples: listed, written once and reproducibly, sharded without gaps, and delivering what they promise."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import sample_pipelines
from sample_pipelines import SAMPLES, Sample, find, write_sample
from sample_pipelines.catalogue import FILES
from sample_pipelines.sharding import shard_files

PACKAGE = Path(sample_pipelines.__file__).parent
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)

# Smallest data that still has several batches of the size used below in every file.
SCALE = {"fc_mnist": 0.01, "bert_pretrain": 0.01, "gpt2": 0.02, "resnet50": 0.05, "unet": 0.07, "vit": 0.1, "vit_slow": 0.1}
BATCH = 4


def tf_config(index: int, workers: int) -> str:
    hosts = [f"node-{number}:23111" for number in range(workers)]
    return json.dumps({"cluster": {"chief": ["node-c:23111"], "worker": hosts}, "task": {"type": "worker", "index": index}})


def digests(directory: Path) -> dict[str, str]:
    files = sorted(directory.glob("*/part-*"))
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_list_names_every_module_with_an_input_function() -> None:
    written = {
        path.stem
        for path in PACKAGE.glob("*.py")
        if any(isinstance(node, ast.FunctionDef) and node.name == "train_input_fn" for node in ast.parse(path.read_text()).body)
    }
    assert {sample.name for sample in SAMPLES} == written
    assert [find(sample.name) for sample in SAMPLES] == list(SAMPLES)
    with pytest.raises(LookupError, match=r"'mnist'; there are vit_slow, .*unet"):
        find("mnist")


@each_sample
def test_default_params_are_yaml_with_the_sections_of_a_model_zoo(sample: Sample) -> None:
    params = yaml.safe_load(sample.params_path.read_text())
    assert list(params)[:2] == ["description", "train_input"]
    assert {"model", "runconfig"} <= set(params)
    assert params["train_input"]["use_multiple_workers"] is True


class FileList(list[str]):
    """Of a `tf.data.Dataset` of names, all that sharding uses."""

    def shard(self, count: int, index: int) -> FileList:
        return FileList(self[index::count])


@given(workers=st.integers(1, 40), files=st.integers(0, 60))
def test_shards_are_disjoint_and_together_complete(workers: int, files: int) -> None:
    names = FileList(f"part-{number}" for number in range(files))
    with pytest.MonkeyPatch.context() as patch:
        shares = []
        for index in range(workers):
            patch.setenv("TF_CONFIG", tf_config(index, workers))
            shares.append(shard_files(names, use_multiple_workers=True))
    assert Counter(name for share in shares for name in share) == Counter(names)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


CHIEF_ALONE = '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}'


@pytest.mark.parametrize(
    ("text", "several", "shard"),
    [
        *((text, True, None) for text in (None, "", "  ", "{}", CHIEF_ALONE)),  # everything is ours
        (tf_config(1, 2), True, (2, 1)),
        (tf_config(1, 2), False, None),  # a params file can refuse sharding
        *((text, True, ValueError) for text in ("{worker}", "[1]", tf_config(2, 2), tf_config(-1, 2))),
    ],
)
def test_a_worker_takes_its_share(monkeypatch: pytest.MonkeyPatch, text: str | None, several: bool, shard: Any) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    names = FileList("abcdefgh")
    if shard is ValueError:
        with pytest.raises(ValueError, match="TF_CONFIG"):
            shard_files(names, several)
        return
    assert shard_files(names, several) == (names if shard is None else names.shard(*shard))


class FakeWriter:
    """Stands for the module that writes: shards whose text tells the arguments, each after `shard_s`; stops half-way while `fails`
    is set."""

    def __init__(self) -> None:
        self.calls, self.shard_s = 0, 0.0
        self.fails = False

    def write_dataset(self, name: str, directory: Path, *, scale: float, seed: int) -> None:
        self.calls += 1
        directory.mkdir(parents=True)
        for shard in range(FILES):
            (directory / f"part-{shard}.tfrecord").write_text(f"{scale} {seed}")
            time.sleep(self.shard_s)
            if self.fails:
                raise KeyboardInterrupt


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> FakeWriter:
    fake = FakeWriter()
    monkeypatch.setitem(sys.modules, "sample_pipelines.tfrecords", fake)
    return fake


def test_the_written_params_point_at_the_data(writer: FakeWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    params = yaml.safe_load(write_sample("gpt2", "here").read_text())
    assert params["train_input"].pop("data_dir") == str(tmp_path / "here" / "train")
    defaults = yaml.safe_load(find("gpt2").params_path.read_text())
    defaults["train_input"].pop("data_dir")
    assert params == defaults


def garbled(folder: Path) -> None:
    (folder / "complete.json").write_text('{"sample": "gp')


def params_changed(folder: Path) -> None:
    path = folder / "params.yaml"
    path.write_text(path.read_text().replace("batch_size: 112", "batch_size: 8"))


@pytest.mark.parametrize(
    ("damage", "other", "calls"),
    [
        (lambda folder: None, {}, 1),
        (params_changed, {}, 1),  # they are kept
        (lambda folder: None, {"scale": 0.25}, 2),
        (lambda folder: None, {"seed": 4}, 2),
        (lambda folder: (folder / "train/part-1.tfrecord").unlink(), {}, 2),
        (garbled, {}, 2),
    ],
)
def test_only_data_that_are_not_whole_or_of_other_arguments_are_written_anew(
    damage: Any, other: dict[str, Any], calls: int, writer: FakeWriter, tmp_path: Path
) -> None:
    for scale in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="scale"):
            write_sample("gpt2", tmp_path, scale=scale)
    assert not list(tmp_path.iterdir())
    asked: dict[str, Any] = {"scale": 0.5, "seed": 3}
    params, whole = write_sample("gpt2", tmp_path, **asked), digests(tmp_path)
    damage(tmp_path)
    text = params.read_text()
    assert write_sample("gpt2", tmp_path, **(asked | other)) == params
    assert writer.calls == calls
    assert (digests(tmp_path) == whole) is not bool(other)
    assert "batch_size: 8" not in text or params.read_text() == text


def test_an_interrupted_rewriting_leaves_the_old_data_and_nothing_else(writer: FakeWriter, tmp_path: Path) -> None:
    write_sample("gpt2", tmp_path / "data", seed=1)
    writer.fails = True
    with pytest.raises(KeyboardInterrupt):
        write_sample("gpt2", tmp_path / "data", seed=2)
    assert {path.read_text() for path in tmp_path.glob("data/train/part-*")} == {"1.0 1"}
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]


def test_writers_at_once_do_each_other_no_harm(writer: FakeWriter, tmp_path: Path) -> None:
    writer.shard_s = 0.02
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: write_sample("gpt2", tmp_path), range(4)))
    assert paths == {tmp_path / "params.yaml"}
    assert len(digests(tmp_path)) == FILES


def test_a_folder_with_other_things_in_it_is_refused_and_untouched(writer: FakeWriter, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    precious = tmp_path / "train/part-00000-of-00016.tfrecord"
    precious.write_text("precious")
    with pytest.raises(FileExistsError, match="empty directory"):
        write_sample("gpt2", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [precious]
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("name", ["my_run.json", "train/notes.txt"])
def test_a_file_of_the_users_beside_the_data_outlives_other_data(name: str, writer: FakeWriter, tmp_path: Path) -> None:
    params = write_sample("gpt2", tmp_path, scale=0.5)
    (tmp_path / name).write_text("precious")
    assert write_sample("gpt2", tmp_path, scale=0.5) == params
    with pytest.raises(FileExistsError, match=rf"{name}.*empty directory"):
        write_sample("gpt2", tmp_path, scale=0.25)
    assert (tmp_path / name).read_text() == "precious"
    assert {path.read_text() for path in tmp_path.glob("train/part-*")} == {"0.5 0"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Params path of a sample's small data, written once."""
    return functools.cache(lambda name: write_sample(name, tmp_path_factory.mktemp(name) / "data", scale=SCALE[name], seed=7))


def small_params(path: Path, **train_input: Any) -> dict[str, Any]:
    params: dict[str, Any] = yaml.safe_load(path.read_text())
    section = params["train_input"]
    section["train_batch_size" if "train_batch_size" in section else "batch_size"] = BATCH
    section.update(train_input)
    return params


def dataset_of(sample: Sample, params: Any) -> Any:
    return importlib.import_module(sample.module).train_input_fn(params)


def record_count(path: Path) -> int:
    import tensorflow as tf

    files = path.parent.glob("train/*.tfrecord")
    counts = [sum(1 for _ in tf.data.TFRecordDataset(str(file)).as_numpy_iterator()) for file in files]
    assert max(counts) - min(counts) <= 1
    return sum(counts)


PROMISED: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {
    "fc_mnist": {"0": ("float16", (784,)), "1": ("int32", ())},
    "bert_pretrain": {
        "input_ids": ("int32", (128,)),
        "input_mask": ("int32", (128,)),
        "segment_ids": ("int32", (128,)),
        "masked_lm_positions": ("int32", (20,)),
        "masked_lm_ids": ("int32", (20,)),
        "masked_lm_weights": ("float16", (20,)),
        "1": ("int32", ()),
    },
    "gpt2": {"input_ids": ("int32", (1024,)), "input_mask": ("float16", (1024,)), "1": ("int32", (1024,))},
    "resnet50": {"0": ("float16", (224, 224, 3)), "1": ("int32", ())},
    "unet": {"0": ("float16", (256, 256, 1)), "1": ("float16", (256, 256, 1))},
    "vit": {"0": ("float16", (224, 224, 3)), "1": ("int32", ())},
    "vit_slow": {"0": ("float16", (224, 224, 3)), "1": ("int32", ())},
}


def flat(element: Any) -> dict[str, Any]:
    features, labels = element
    return (features if isinstance(features, dict) else {"0": features}) | {"1": labels}


@pytest.mark.tf
@each_sample
def test_batches_have_the_promised_types_and_static_shapes_and_no_float16_in_full_precision(sample: Sample, written: Any) -> None:
    dataset = dataset_of(sample, small_params(written(sample.name)))
    expected = {name: (dtype, (BATCH, *shape)) for name, (dtype, shape) in PROMISED[sample.name].items()}
    spec = {name: (part.dtype.name, tuple(part.shape)) for name, part in flat(dataset.element_spec).items()}
    assert spec == expected
    for element in dataset.take(2).as_numpy_iterator():
        assert {name: (part.dtype.name, part.shape) for name, part in flat(element).items()} == expected
    full = dataset_of(sample, small_params(written(sample.name), mixed_precision=False)).element_spec
    assert {part.dtype.name for part in flat(full).values()} <= {"float32", "int32"}


def seen_of_mnist(pixels: Any, labels: Any) -> set[Any]:
    assert 0 <= pixels.min() < pixels.max() <= 1
    return set(labels.tolist())


def seen_of_bert(features: Any, labels: Any) -> set[Any]:
    ids, mask, weights = features["input_ids"], features["input_mask"], features["masked_lm_weights"]
    assert ((ids == 0) == (mask == 1)).all()
    assert (ids[:, 0] == 101).all()
    assert (features["masked_lm_ids"][weights == 0] == 0).all()
    assert (features["masked_lm_ids"][weights == 1] >= 1000).all()
    assert (features["segment_ids"][mask == 1] == 0).all()
    return set(labels.tolist()) | ({"padding"} if mask.any() else set())


def seen_of_gpt2(features: Any, labels: Any) -> set[Any]:
    assert (features["input_ids"][:, 1:] == labels[:, :-1]).all()
    assert 0 <= labels.min() <= labels.max() < 50_257
    assert (labels[features["input_mask"] == 0] == 0).all()
    return {"padding"} if (features["input_mask"] == 0).any() else set()


def seen_of_resnet(images: Any, labels: Any) -> set[Any]:
    assert -2.2 < images.min() < images.max() < 2.7
    assert images.astype("float32").reshape(BATCH, -1).std(axis=1).min() > 0.05
    assert 0 <= labels.min() <= labels.max() < 1000
    return set()


def seen_of_vit(images: Any, labels: Any) -> set[Any]:
    assert -3 < images.min() < images.max() < 3
    assert 0 <= labels.min() <= labels.max() < 1000
    return set()


SEEN: dict[str, tuple[Any, set[Any]]] = {
    "fc_mnist": (seen_of_mnist, set(range(10))),
    "bert_pretrain": (seen_of_bert, {0, 1, "padding"}),
    "gpt2": (seen_of_gpt2, {"padding"}),
    "resnet50": (seen_of_resnet, set()),
    "unet": (lambda images, masks: set(), set()),  # below
    "vit": (seen_of_vit, set()),
    "vit_slow": (seen_of_vit, set()),
}


@pytest.mark.long
@pytest.mark.tf
@each_sample
def test_one_pass_ends_and_holds_what_it_should_and_training_never_ends(sample: Sample, written: Any) -> None:
    path, (look, expected) = written(sample.name), SEEN[sample.name]
    batches = list(dataset_of(sample, small_params(path, repeat=False)).as_numpy_iterator())
    assert len(batches) == record_count(path) // BATCH
    assert set().union(*(look(*element) for element in batches)) == expected
    assert sum(1 for _ in dataset_of(sample, small_params(path)).take(2 * len(batches) + 1)) == 2 * len(batches) + 1


@pytest.mark.long
@pytest.mark.tf
@each_sample
@pytest.mark.parametrize("shuffle", [False, True], ids=["in order", "shuffled"])
def test_workers_together_read_every_record_once(
    sample: Sample, shuffle: bool, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Augmentation changes images but not labels; U-Net's can be switched off.
    params = small_params(written(sample.name), repeat=False, shuffle=shuffle, batch_size=1, train_batch_size=1, augment=False)
    part = "1" if sample.name in ("resnet50", "vit", "vit_slow") else next(iter(PROMISED[sample.name]))

    def read() -> Counter[bytes]:
        return Counter(flat(element)[part].tobytes() for element in dataset_of(sample, params).as_numpy_iterator())

    monkeypatch.delenv("TF_CONFIG", raising=False)
    everything = read()
    assert sum(everything.values()) == record_count(written(sample.name))
    shares = []
    for index in range(3):
        monkeypatch.setenv("TF_CONFIG", tf_config(index, 3))
        shares.append(read())
    assert sum(shares, Counter()) == everything
    assert all(shares)


@pytest.mark.long
@pytest.mark.tf
@each_sample
def test_a_seed_makes_the_bytes_and_a_scale_the_number_of_records(sample: Sample, written: Any, tmp_path: Path) -> None:
    scale, first = SCALE[sample.name], digests(written(sample.name).parent)
    # The order of a protobuf map depends on the process; only deterministic serialization hides it.
    code = f"import sample_pipelines as s; s.write_sample({sample.name!r}, {str(tmp_path / 'same')!r}, scale={scale}, seed=7)"
    subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=True, capture_output=True)
    assert digests(tmp_path / "same") == first
    other = write_sample(sample.name, tmp_path / "other", scale=2 * scale, seed=8)
    # Each count is rounded to a whole number of records.
    assert abs(record_count(other) - 2 * record_count(written(sample.name))) <= 2
    files = digests(other.parent)
    assert files.keys() == first.keys()
    assert not set(files.values()) & set(first.values())


@pytest.mark.tf
@each_sample
def test_missing_data_are_named(sample: Sample, tmp_path: Path) -> None:
    params = yaml.safe_load(sample.params_path.read_text())
    params["train_input"]["data_dir"] = str(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"nowhere.*write_sample"):
        dataset_of(sample, params)


@pytest.mark.long
@pytest.mark.tf
@pytest.mark.parametrize("augment", [False, True])
def test_unet_masks_mark_the_brighter_part_of_their_image(written: Any, augment: bool) -> None:
    params = small_params(written("unet"), augment=augment, repeat=False)
    for image, mask in dataset_of(find("unet"), params).as_numpy_iterator():
        assert set(mask.ravel().tolist()) == {0, 1}
        assert -1 <= image.min() < image.max() <= 1
        # A geometric change applied to one of the two only would bring their means together.
        for picture, blotches in zip(image.astype("float32"), mask, strict=True):
            assert picture[blotches == 1].mean() > picture[blotches == 0].mean()
