"""Whose fault a failure is: the user's, ours, or that of a release of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.tfdata import load
from cs_input_analyzer.tfdata.messages import plain_message
from cs_input_analyzer.worker import failures, meter
from cs_input_analyzer.worker.journal import JournalWriter, read_journal
from tests.builders import make_graph
from tests.tf_versions import needs_costs

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")


def failed(folder: Path, act: Callable[[], Any], stage: str = "build") -> dict[str, Any]:
    """What the journal says of a failure, without the frame of this test where our own code raises."""
    try:
        act()
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
        failures.report_failure(JournalWriter(folder), stage, error)
    found = read_journal(folder).last("failed")
    assert found is not None
    return dict(found)


def ours(text: str) -> Callable[[], Any]:
    """A function as if it stood in a module of ours."""
    scope: dict[str, Any] = {"tf": tf}
    exec(compile(text, str(Path(failures.__file__).with_name("meter.py")), "exec"), scope)
    return scope["act"]


def test_an_attribute_that_tensorflow_lacks_is_no_fault_of_the_user(tmp_path: Path) -> None:
    found = failed(tmp_path, ours("def act():\n    return tf.data.experimental.get_model_of_old\n"), "worker")
    assert found["stage"] == failures.VERSION
    assert "tf.data.experimental.get_model_of_old" in found["message"]
    assert "install a newer TensorFlow" in found["message"]


def test_a_mistake_of_ours_is_called_so(tmp_path: Path) -> None:
    found = failed(tmp_path, ours("def act():\n    return {}['lost']\n"), "worker")
    assert found["stage"] == failures.FAULT
    assert "meter.py" in found["details"]


@pytest.mark.parametrize(
    "act",
    [
        ours("def act():\n    tf.io.gfile.listdir('/nowhere/at/all')\n"),
        ours("def act():\n    raise ValueError('a value')\n"),
        ours("def act():\n    raise StopIteration\n"),
    ],
)
def test_an_error_of_the_data_is_no_fault_of_ours(act: Callable[[], Any], tmp_path: Path) -> None:
    assert failed(tmp_path, act)["stage"] == "build"


@pytest.mark.parametrize("text", ["tf.data.experimental.lost", "{}['lost']", "lost", "params.lost"])
def test_what_the_users_code_raises_stays_the_users(text: str, tmp_path: Path) -> None:
    file = tmp_path / "users.py"
    file.write_text(f"import tensorflow as tf\ndef input_fn(params):\n    return {text}\n")
    found_fn = load.find_object(load.parse_target(f"{file}:input_fn"))
    call = load.Call(params={}, mode="train", num_workers=1, worker_index=0)
    found = failed(tmp_path, lambda: load.build_dataset(found_fn, call))
    assert found["stage"] == "build"
    assert "users.py" in found["details"]
    assert "TensorFlow 1" not in found["message"]


@pytest.mark.parametrize(
    "text",
    [
        "tf.python_io.TFRecordWriter",
        "tf.placeholder(tf.int32)",
        "tf.Session()",
        "tf.gfile.Glob('*')",
        "tf.app.run()",
        "tf.contrib.data",
        "tf.logging.info('x')",
        "tf.data.Dataset.range(3).batch(1).make_one_shot_iterator()",
        "tf.data.Iterator.from_structure(tf.int32)",
        "tf.data.Dataset.range(3).map(lambda x: tf.parse_single_example(x, {}))",
    ],
)
def test_code_for_the_first_tensorflow_is_told_so(text: str, tmp_path: Path) -> None:
    file = tmp_path / "users.py"
    file.write_text(f"import tensorflow as tf\ndef input_fn():\n    return {text}\n")
    found_fn = load.find_object(load.parse_target(f"{file}:input_fn"))
    call = load.Call(params={}, mode="train", num_workers=1, worker_index=0)
    found = failed(tmp_path, lambda: load.build_dataset(found_fn, call))
    assert "written for TensorFlow 1" in found["message"]
    assert "tf_upgrade_v2" in found["message"]
    assert "users.py" in found["details"]
    assert ("not in tf.compat.v1" in found["message"]) == ("contrib" in text)


LACKING = {
    "range > map > batch*4": ["exact costs of ops"],
    "list_files > interleave > map > batch*4": ["exact costs of ops", "bytes read per sample"],
    "list_files > interleave > cache > batch*4": ["exact costs of ops"],  # no TensorFlow tells how full it is
}


@pytest.mark.parametrize("chain", LACKING)
def test_numbers_that_a_tensorflow_lacks_are_named(chain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "model_reader", lambda: None)
    said = failures.lacking_numbers(make_graph(chain).ops)
    assert [one.partition(" need TensorFlow 2.17")[0] for one in said] == LACKING[chain]
    assert f"this is {tf.__version__}. Costs shown are from parts of the pipeline" in said[0]


@needs_costs
def test_a_tensorflow_with_all_numbers_lacks_none() -> None:
    assert failures.lacking_numbers(make_graph("list_files > interleave > map > batch*4").ops) == ()


@needs_costs
def test_a_poll_of_a_tensorflow_without_costs_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    iterator = iter(tf.data.Dataset.range(3))
    assert meter.model_of(iterator) is not None
    monkeypatch.setattr(meter, "model_reader", lambda: None)
    assert meter.model_of(iterator) is None


def _message(act: Callable[[], Any]) -> str:
    with pytest.raises(tf.errors.OpError) as raised:
        act()
    return plain_message(raised.value)


def test_a_message_begins_with_the_cause_and_not_with_the_op() -> None:
    def check(number: Any) -> Any:
        return tf.debugging.check_numerics(tf.math.log(tf.cast(number, tf.float32)), "a bad number")

    nested = tf.data.Dataset.range(2).interleave(lambda n: tf.data.Dataset.from_tensors(n).map(check))
    for dataset in (tf.data.Dataset.range(2).map(check), tf.data.Dataset.range(2).map(check, num_parallel_calls=2), nested):
        assert _message(lambda dataset=dataset: list(dataset)).startswith("a bad number")


def test_a_batch_of_examples_without_names_says_none() -> None:
    examples = tf.data.Dataset.from_tensors([tf.train.Example().SerializeToString()])
    parsed = examples.map(lambda one: tf.io.parse_example(one, {"label": tf.io.FixedLenFeature([], tf.int64)}))
    assert _message(lambda: list(parsed)).startswith("Feature: label")


@pytest.mark.parametrize("text", ["passed to b'x' with iterator: gone", "no such file: /data/x: y", "Iterator::Root: ended"])
def test_a_message_of_another_form_stays(text: str) -> None:
    assert plain_message(ValueError(text)) == text
