"""Finding the target, and calling it however it wants to be called. No TensorFlow here."""

from __future__ import annotations

import copy
import enum
import json
import pickle
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.errors import TargetError, UsageError
from cs_input_analyzer.model.params import params_from_json, params_to_json
from cs_input_analyzer.tfdata.load import (
    Call,
    bind_arguments,
    build_dataset,
    find_object,
    load_params,
    parse_target,
)

TRAIN_INPUT = {"train_input": {"batch_size": 4}}
PARAMS = {**TRAIN_INPUT, "data_dir": "shards"}


def call(params: dict[str, Any] | None = None, mode: Any = "train") -> Call:
    return Call(params=params, mode=mode, num_workers=3, worker_index=1)


def called(function: Any, params: dict[str, Any] | None = None, mode: str = "train") -> Any:
    arguments = bind_arguments(function, call(params, mode))
    return function(*arguments.args, **arguments.kwargs)


class Mode(enum.Enum):
    TRAIN = 1
    EVAL = 2


@pytest.mark.parametrize(
    ("function", "params", "mode", "given"),
    [
        (lambda mode, params: params, PARAMS, "train", PARAMS),
        (lambda params, mode="train": params, PARAMS, "train", PARAMS),
        (lambda input_context=None, *, params: params, PARAMS, "train", PARAMS),
        (lambda hparams: hparams, PARAMS, "train", PARAMS),
        (lambda the_settings: the_settings, PARAMS, "train", PARAMS),
        (lambda params, *args, **kwargs: params, PARAMS, "train", PARAMS),
        (lambda mode: mode, None, "eval", "eval"),
        (lambda mode=Mode.TRAIN: mode, None, "eval", Mode.EVAL),  # an Enum gets its own member
        (lambda is_training: is_training, None, "eval", False),
        (lambda training=True: training, None, "train", True),
        (lambda params, input_context=None: input_context, PARAMS, "train", None),
        (lambda data_dir, depth=3: (data_dir, depth), PARAMS, "train", ("shards", 3)),  # keys of the params
        # the keys that no argument takes
        (lambda **params: params, PARAMS, "train", PARAMS),
        (lambda data_dir, mode="eval", **rest: (data_dir, mode, rest), {**PARAMS, 0: 1}, "train", ("shards", "train", TRAIN_INPUT)),
        (lambda ctx=None, **rest: (ctx, rest), {"ctx": 1, "bs": 8}, "train", (None, {"bs": 8})),
        (lambda **rest: rest, None, "train", {}),
        (partial(lambda **rest: rest, bs=32), {"bs": 8, "depth": 3}, "train", {"bs": 32, "depth": 3}),
        (partial(lambda params, **rest: rest, params={}), {"bs": 8}, "train", {}),
        (lambda settings, **rest: (settings, rest), PARAMS, "train", (PARAMS, {})),
        (lambda batch_size=32: batch_size, {"batch_size": 8, "batch_sizes": [8]}, "train", 8),
        # an argument that a partial holds stays
        (
            partial(lambda params, bs, mode="train": (params["bs"], bs, mode), bs=32, mode="mine"),
            {"bs": 8},
            "eval",
            (8, 32, "mine"),
        ),
        (partial(partial(lambda params, bs: (params["bs"], bs), bs=32), bs=64), {"bs": 8}, "train", (8, 64)),
        (partial(lambda params, bs: (params["bs"], bs), {"bs": 1}), {"bs": 8}, "train", (1, 8)),
        # without params a default stays, and a required argument is empty
        (lambda params="mine": params, None, "train", "mine"),
        (lambda params: params, None, "train", {}),
    ],
)
def test_arguments_are_given_by_name(function: Any, params: dict[str, Any] | None, mode: str, given: object) -> None:
    assert called(function, params, mode) == given


WANTING = Call(params=PARAMS, mode="train", num_workers=3, worker_index=1, input_context=True)


@pytest.mark.tf
def test_what_became_of_the_context_is_told() -> None:
    import tensorflow as tf

    def told(function: Any, call_as: Call) -> list[str]:
        uses: list[str] = []
        build_dataset(function, call_as, uses.append)
        return uses

    def reading(context: Any) -> Any:
        return tf.data.Dataset.range(3 if context is None else context.num_input_pipelines)

    for function in (lambda ctx=None: reading(ctx), lambda input_pipeline_context=None: reading(input_pipeline_context)):
        assert (told(function, call()), told(function, WANTING)) == (["left"], ["given"])
    assert told(lambda input_context: reading(input_context), call()) == ["given"]
    assert told(lambda: lambda context=None: reading(context), WANTING) == ["given"]  # through a factory
    assert told(lambda params: reading(None), call()) == told(reading(None), call()) == []
    arguments = bind_arguments(lambda params, input_context=None: input_context, WANTING)
    context: Any = arguments.arguments["input_context"]
    assert (context.num_input_pipelines, context.input_pipeline_id) == (3, 1)
    assert "ctx" not in bind_arguments(lambda params, ctx="cpu": ctx, WANTING).arguments  # a default of its own
    for nothing in (lambda params: reading(None), lambda ctx="cpu": reading(None), reading(None)):
        with pytest.raises(TargetError, match=r"--input-context: nothing here takes one; .* named input_context, context, ctx or"):
            build_dataset(nothing, WANTING)


@pytest.mark.tf
@pytest.mark.parametrize(
    ("returns", "says"),
    [
        (lambda: Mode, "returned the class Mode; it must return a tf.data.Dataset, not a class"),
        (lambda: pytest.importorskip("tensorflow").data.Dataset, "returned the class DatasetV2; .*, not a class"),
        (lambda: (n for n in range(3)), "returned generator; .*from_generator makes one"),
        (lambda: [1, 2], "returned list; .*from_tensor_slices makes one"),
        (lambda: np.zeros(3), "returned ndarray; .*from_tensor_slices makes one"),
        (lambda: (np.zeros(3), np.zeros(3)), "returned tuple; .*from_tensor_slices makes one"),
        (lambda: 3, r"returned int; it must return a tf.data.Dataset \("),
    ],
)
def test_a_result_that_is_no_dataset_is_refused_with_advice(returns: Any, says: str) -> None:
    pytest.importorskip("tensorflow")
    with pytest.raises(TargetError, match=says):
        build_dataset(returns, call())


def test_unknown_arguments_are_refused_by_name() -> None:
    with pytest.raises(TargetError, match="vocabulary"):
        bind_arguments(lambda params, vocabulary: None, call(PARAMS))
    with pytest.raises(TargetError, match=r"first.*second"):
        bind_arguments(lambda first, second: None, call())


def test_a_misspelled_key_is_refused_by_name() -> None:
    with pytest.raises(TargetError, match=r"takes no 'batchsize' of the params; is its argument 'batch_size' meant\?"):
        bind_arguments(lambda batch_size=32: None, call({"batchsize": 4}))
    assert called(lambda params=None, batch_size=32: batch_size, {"batchsize": 4}) == 32  # the dictionary has it


@pytest.mark.parametrize(
    "text", ["", "data.py", ":f", "data.py:", "data.py:not-a-name", "a b:f", "a..b:f", "data.py:f()", "/nowhere.py:f"]
)
def test_targets_that_are_not_understood(text: str) -> None:
    with pytest.raises(TargetError):
        parse_target(text)


def test_a_script_in_place_of_a_target_is_told_its_command(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    with pytest.raises(TargetError, match=rf"for a script: cs_input_analyzer python {script}$"):
        parse_target(str(script))


@pytest.mark.parametrize(
    ("files", "value"),
    [
        ({"my_neighbour_module.py": "VALUE = 7\n", "my_target_module.py": "from my_neighbour_module import VALUE\n"}, 7),
        ({"json.py": "VALUE = 'mine'\n"}, "mine"),  # shadows no module of that name
        (
            {"my_test_package/__init__.py": "", "my_test_package/shapes.py": "SIDE = 28\n"}
            | {"my_test_package/data.py": "from .shapes import SIDE as VALUE\n"},
            28,
        ),
        # Python imports no name with a dot.
        (
            {"my_dotted_v1.0/__init__.py": "", "my_dotted_v1.0/inner/__init__.py": ""}
            | {"my_dotted_v1.0/inner/shapes.py": "SIDE = 29\n"}
            | {"my_dotted_v1.0/inner/data.py": "from .shapes import SIDE as VALUE\n"},
            29,
        ),
        ({"my_dotted_v2.0/__init__.py": "", "my_dotted_v2.0/data.py": "VALUE = 30\n"}, 30),
        ({"my_other_package/__init__.py": "", "my_other_package/data.v3.py": "VALUE = 31\n"}, 31),
    ],
)
def test_a_file_is_imported_as_python_would(
    files: dict[str, str], value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}def f():\n    return VALUE\n" if "VALUE" in text else text)
    found: Any = find_object(parse_target(f"{tmp_path / [*files][-1]}:f"))
    assert found() == value
    assert sys.modules["json"] is json


def test_a_missing_module_and_a_missing_name_and_a_missing_dependency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_other_module.py").write_text("def train_input_fn():\n    pass\n")
    (tmp_path / "my_needy_module.py").write_text("import my_absent_dependency\n")
    with pytest.raises(TargetError, match="no module 'my_absent_module'"):
        find_object(parse_target("my_absent_module:f"))
    with pytest.raises(TargetError, match="it has: train_input_fn"):
        find_object(parse_target("my_other_module:input_fn"))
    with pytest.raises(ModuleNotFoundError, match="my_absent_dependency"):  # the user's own error
        find_object(parse_target(f"{tmp_path}/my_needy_module.py:f"))


def test_params_file_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text("train_input:\n  batch_size: 8\n  shuffle: true\nweights: {0: 1.0, 1: 2.5}\n")
    overrides = ("train_input.batch_size=32", "model.depth=[1, 2]", "note=a=b", "weights.1=4", "weights.new=5")
    assert load_params(str(file), overrides) == {
        "train_input": {"batch_size": 32, "shuffle": True},
        "model": {"depth": [1, 2]},
        "note": "a=b",
        "weights": {0: 1.0, 1: 4, "new": 5},  # whole numbers stay keys
    }
    file.write_text("")
    assert (load_params(str(file), ()), load_params(None, ())) == ({}, None)


KEYS = st.text(max_size=3) | st.integers() | st.none() | st.sampled_from(["__pairs__", "__date__", "__time__"])
PLAIN: st.SearchStrategy[Any] = st.deferred(
    lambda: (
        st.none()
        | st.integers()
        | st.text()
        | st.dates()
        | st.datetimes()
        | st.lists(PLAIN, max_size=3)
        | st.dictionaries(KEYS, PLAIN, max_size=3)
    )
)


@given(st.dictionaries(KEYS, PLAIN, max_size=3))
def test_params_reach_the_workers_as_they_are(params: dict[Any, Any]) -> None:
    """Whole numbers are keys in many params: weights by class, folders by split."""
    assert params_from_json(params_to_json(params)) == params


@pytest.mark.parametrize("is_in_c", [True, False])
def test_no_message_quotes_a_value_of_params(is_in_c: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_in_c:
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    file = tmp_path / "params.yaml"
    file.write_text("a: 1\ntoken: TOKSECRET: [\n")
    with pytest.raises(UsageError, match=r"is not YAML: .*line 2") as caught:
        load_params(str(file), ())
    assert "TOKSECRET" not in str(caught.value)
    for override in ("a.token=TOKSECRET: [", "a.b.token=TOKSECRET"):
        file.write_text("a: {b: 1}\n")
        with pytest.raises(UsageError, match=r"--set a\..*token=…") as caught:
            load_params(str(file), (override,))
        assert "TOKSECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "overrides", "match"),
    [
        (None, (), "there is no file"),
        ("a: [1,\n", (), "is not YAML"),
        ("- 1\n- 2\n", (), "must hold a mapping"),
        (b"\xff\xfe\x00", (), "cannot be read"),
        *(("a: {b: 1}\n", (override,), "--set") for override in ("novalue", "=3", "a..b=1", "a.b.c=1")),
    ],
)
def test_bad_params_files_and_overrides(
    tmp_path: Path, content: str | bytes | None, overrides: tuple[str, ...], match: str
) -> None:
    file = tmp_path / "params.yaml"
    if isinstance(content, str):
        file.write_text(content)
    elif content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=match):
        load_params(str(file), overrides)


def test_params_are_a_dictionary_and_attributes_and_can_be_copied_written_and_sent() -> None:
    given = {"batch_size": 8, "train_input": {"shuffle": True, "files": [{"path": "a"}]}, "items": 3}
    params = called(lambda params: params, given)
    assert params == given
    assert isinstance(params, dict)
    assert params.batch_size == 8
    assert params.train_input.files[0].path == "a"
    assert dict(params.items()) == given  # a method stays one
    params.batch_size = 16
    assert (params["batch_size"], given["batch_size"]) == (16, 8)
    with pytest.raises(AttributeError, match=r"no 'batchsize'; they have: batch_size, train_input, items"):
        _ = params.batchsize
    assert not hasattr(params, "seed")
    assert (copy.deepcopy(params), json.loads(json.dumps(params)), yaml.safe_load(yaml.safe_dump(params))) == (params,) * 3
    assert pickle.loads(pickle.dumps(params)).train_input.files[0].path == "a"
