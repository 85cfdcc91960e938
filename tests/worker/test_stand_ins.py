"""Code of its time on the TensorFlow of today: what is stood in for, what is not, and that no stand-in ever becomes a number."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.worker.capture import innermost, missing_advice
from cs_input_analyzer.worker.capture.estimators import params_of
from cs_input_analyzer.worker.capture.interceptor import Interceptor
from cs_input_analyzer.worker.capture.launchers import notes_on
from tests.builders import make_options
from tests.tf_versions import needs_lost_estimators
from tests.worker.conftest import Built, first

pytestmark = pytest.mark.tf

# --- what is stood in for ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "from tensorflow.python.keras.mixed_precision.experimental.loss_scale_optimizer import LossScaleOptimizer",
        "from tensorflow.keras.mixed_precision import experimental; experimental.Policy",
        "from tensorflow.contrib import training; class Mine(training.HParams): pass".replace("; ", "\n"),
        "import tensorflow.contrib.slim as slim; slim.conv2d",
        "from tensorflow.contrib.tpu.python.tpu import tpu_estimator; tpu_estimator.TPUEstimator",
        pytest.param("from tensorflow.python.estimator import run_config; run_config.RunConfig()", marks=needs_lost_estimators),
        "from tensorflow.keras.layers import CuDNNLSTM; class Mine(CuDNNLSTM): pass".replace("; ", "\n"),
        "from keras.layers.core import Dense; Dense(3)(None)",
        "from cerebras.tf.cs_estimator import CerebrasEstimator",
        "from cerebras_appliance.CSConfig import CSConfig; CSConfig(num_csx=1)",
        pytest.param("from tensorflow.compat.v1 import estimator; estimator.RunConfig", marks=needs_lost_estimators),
        pytest.param("import tensorflow.compat.v1 as tf; tf.estimator.RunConfig", marks=needs_lost_estimators),
        # In no `try` that handles a failed import.
        "try:\n    from tensorflow.contrib import slim\nexcept ValueError:\n    pass",
        "try:\n    import not_there\nexcept (KeyError, ImportError):\n    from tensorflow.contrib import slim",
        "try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    from tensorflow.contrib import slim",
    ],
)
def test_what_is_lost_is_stood_in_for(line: str, built: Built) -> None:
    dataset, told = built(line)
    assert first(dataset) == 0
    assert told


@needs_lost_estimators
def test_it_is_missing_again_afterwards(built: Built) -> None:
    import tensorflow as tf

    text = "from tensorflow.keras.layers import CuDNNGRU\nfrom tensorflow.contrib import slim\nimport cerebras.tf.x\n"
    built(text)
    left = [name for name in sys.modules if name.startswith(("tensorflow.contrib", "cerebras")) or name.endswith("CuDNNGRU")]
    assert left == []
    assert "estimator" not in vars(tf)
    assert "contrib" not in vars(tf)
    with pytest.raises(ImportError):
        importlib.import_module("tensorflow.contrib")
    with pytest.raises(ImportError):
        from tensorflow.keras.layers import CuDNNGRU  # noqa: F401


def test_what_is_there_is_itself(built: Built) -> None:
    dataset, told = built(
        """
        import json
        from tensorflow.keras.layers import Dense
        from tensorflow.python.data.ops import dataset_ops
        import yaml
        def input_fn(params):
            assert isinstance(Dense(1), tf.keras.layers.Layer) and dataset_ops.DatasetV2 is tf.data.Dataset
            return tf.data.Dataset.range(len(json.dumps(yaml.safe_load("[1]"))))
        """,
        "json",
        "yaml",
    )
    assert first(dataset) == 0
    assert told == []


@pytest.mark.parametrize("caught", ["ImportError", "ModuleNotFoundError", "(AttributeError, ImportError)", "Exception", ""])
def test_code_that_tries_an_import_goes_its_other_way(caught: str, built: Built) -> None:
    dataset, told = built(
        f"""
        try:
            from tensorflow.contrib.data import (
                parallel_interleave,
            )
        except {caught}:
            parallel_interleave = None
        try:
            import a_package_that_is_not_installed
        except {caught}:
            a_package_that_is_not_installed = None
        def input_fn(params):
            assert parallel_interleave is None and a_package_that_is_not_installed is None
            return tf.data.Dataset.range(3)
        """
    )
    assert first(dataset) == 0
    assert told == []


def test_the_vendors_flavours_are_told_apart(built: Built) -> None:
    """Its scripts try for a module of the Python that streams weights; the one after it has to be there."""
    text = """
        try:
            try:
                import tfwse
                from cerebras.tf.ws.cs_estimator_ws import CerebrasEstimator
                flavour = 2
            except ImportError:
                from cerebras.tf.cs_estimator import CerebrasEstimator
                flavour = 1
        except ImportError:
            flavour = 0
        def input_fn(params):
            return tf.data.Dataset.range(flavour, 9)
        """
    assert first(built(text)[0]) == 1
    assert first(built(text, "tfwse")[0]) == 2


def test_questions_whether_a_module_is_there(built: Built) -> None:
    dataset, _ = built(
        """
        import importlib.util
        def is_there(name):
            try:
                return importlib.util.find_spec(name) is not None
            except ImportError:
                return False
        names = ["cerebras", "cerebras.framework", "cerebras_appliance", "tensorflow.contrib", "spacy_like", "other_like", "yaml"]
        answers = [is_there(name) for name in names]
        def input_fn(params):
            return tf.data.Dataset.from_tensors(answers)
        """,
        "spacy_like",
    )
    assert first(dataset) == [False, False, True, False, True, False, True]


def test_packages_that_probe_are_not_fooled(tmp_path: Path, built: Built) -> None:
    """A library that has other ways, and asks in a function rather than in a `try`, is none of the user's own code."""
    library = tmp_path / "lib" / "site-packages" / "probing_library.py"
    library.parent.mkdir(parents=True)
    library.write_text("import importlib\n\ndef load(name):\n    return importlib.import_module(name)\n")
    sys.path.append(str(library.parent))
    try:
        text = """
            import importlib
            import probing_library
            {who}.{load}("tensorflow.contrib.image")
            """
        with pytest.raises(ModuleNotFoundError, match=r"tensorflow\.contrib"):
            built(text.format(who="probing_library", load="load"))
        assert first(built(text.format(who="importlib", load="import_module"))[0]) == 0
    finally:
        sys.path.remove(str(library.parent))


def test_a_package_is_stood_in_for_only_where_it_is_named(built: Built) -> None:
    text = """
        import spacy_like.lang.en as en
        nlp = en.English(pipeline=["tagger"])
        for token in nlp("a text"):
            raise AssertionError
        if nlp.vocab:
            raise AssertionError
        print(f"{nlp.vocab.size + 1} words, %s" % nlp)
        """
    with pytest.raises(ModuleNotFoundError, match="spacy_like") as caught:
        built(text)
    assert missing_advice(str(caught.value)).endswith("give --stand-in spacy_like")
    dataset, told = built(text, "spacy_like")
    assert first(dataset) == 0
    assert innermost(told) == ("spacy_like.lang.en",)


# --- Estimators --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys", ["tf.estimator", "tf.compat.v1.estimator", "model_fn", "tensorflow_estimator.python.estimator.mode_keys"]
)
def test_mode_keys_have_their_values_while_the_data_are_built(keys: str, built: Built) -> None:
    text = f"""
        import tensorflow_estimator.python.estimator.mode_keys
        from tensorflow.python.estimator import model_fn
        def input_fn(params, mode):
            of = {{{keys}.ModeKeys.TRAIN: 100, {keys}.ModeKeys.EVAL: 200, {keys}.ModeKeys.PREDICT: 300}}
            from tensorflow.compat.v1.estimator import ModeKeys
            assert (mode == ModeKeys.TRAIN) == (of[mode] == 100)
            return tf.data.Dataset.range(of[mode], 999)
        """
    assert [first(built(text, mode=mode)[0]) for mode in ("train", "eval", "infer")] == [100, 200, 300]


def test_an_estimator_leads_to_the_run_that_goes_on(built: Built) -> None:
    """A module of the user's that is loaded once holds its class for as long as the process lives."""
    text = """
        from cerebras.tf.cs_estimator import CerebrasEstimator
        class Mine(CerebrasEstimator):
            pass
        def input_fn(params):
            Mine().train(tf.data.Dataset.range)
            return tf.data.Dataset.range(3)
        """
    reached: list[list[str]] = [[], []]
    for heard in reached:
        interceptor = Interceptor(lambda why: pytest.fail(why))
        interceptor.on_estimator = lambda estimator, call, input_fn, mode, heard=heard: heard.append(call)  # type: ignore[misc]
        with interceptor.running():
            built(text)
    built(text)  # nobody listens: it trains nothing
    assert reached == [["train"], ["train"]]


# --- launchers ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("imported", "count"),
    [
        ("import horovod\nimport horovod.tensorflow as hvd", "hvd.size() + hvd.rank()"),
        ("import horovod.keras as hvd", "hvd.local_size() + hvd.local_rank()"),
        ("from horovod import tensorflow as hvd", "hvd.cross_size() + hvd.cross_rank()"),
        ("import horovod.tensorflow as hvd", "int(hvd.allreduce(1, average=False))"),
        ("import horovod.tensorflow as hvd", "int(hvd.broadcast_object(1, root_rank=0))"),
    ],
)
def test_a_launcher_that_is_missing_is_one_process(imported: str, count: str, built: Built) -> None:
    body = f"    size = {count}\n    assert size == 1\n    return tf.data.Dataset.range(9).shard(size, 0)\n"
    dataset, told = built(f"{imported}\ndef input_fn(params):\n{body}", "horovod")
    assert int(dataset.cardinality()) == 9
    assert any(name.partition(".")[0] == "horovod" for name in told)


def test_a_message_leads_to_the_stand_in_of_a_launcher() -> None:
    assert missing_advice("No module named 'horovod.tensorflow'").endswith("--stand-in horovod, and the script runs as rank 0 of 1")
    assert missing_advice("No module named 'spacy'").endswith("--stand-in spacy")


def test_a_note_names_launchers_only() -> None:
    assert notes_on(("spacy", "horovod.tensorflow")) == (
        "horovod.tensorflow: not installed, so it answers as rank 0 of 1, and shards no data",
    )
    assert notes_on(("spacy", "tensorflow.estimator", "horovod_like")) == ()


def test_a_launcher_gives_back_what_it_wraps(built: Built) -> None:
    built(
        """
        import horovod.tensorflow as hvd
        hvd.init()
        optimizer, tape = object(), object()
        assert hvd.DistributedOptimizer(optimizer, compression=hvd.Compression.fp16) is optimizer
        assert hvd.DistributedGradientTape(tape) is tape
        hvd.broadcast_variables([], root_rank=0)
        assert not hvd.nccl_built() and hvd.is_initialized()
        import horovod.tensorflow.keras as keras_hvd
        callbacks = keras_hvd.callbacks
        callbacks.BroadcastGlobalVariablesCallback(0), callbacks.MetricAverageCallback()
        callbacks.LearningRateWarmupCallback(initial_lr=0.1 * keras_hvd.size(), warmup_epochs=3)
        """,
        "horovod",
    )


# --- params of Estimators ----------------------------------------------------------------------------------------------------


@needs_lost_estimators
@pytest.mark.parametrize("kind", ["tf.estimator.Estimator", "tf.compat.v1.estimator.tpu.TPUEstimator"])
def test_an_estimator_keeps_the_params_of_its_making(kind: str, built: Built) -> None:
    kept: list[Any] = []
    interceptor = Interceptor(lambda why: pytest.fail(why))
    interceptor.on_estimator = lambda estimator, call, input_fn, mode: kept.append(params_of(estimator, mode))
    with interceptor.running():
        built(
            f"""
            params = {{"batch_size": 8, "deep": {{"size": 1}}}}
            train = {kind}(model_fn=None, params=params)
            params["batch_size"], params["deep"]["size"] = 1, 2
            evaluate = {kind}(model_fn=None, params=params)
            train.train(tf.data.Dataset.range)
            evaluate.evaluate(tf.data.Dataset.range)
            """
        )
    assert kept == [{"batch_size": 8, "deep": {"size": 1}}, {"batch_size": 1, "deep": {"size": 2}}]


@pytest.mark.parametrize("name", ["a..b", "spacy like", "1st"])
def test_a_name_that_is_no_package_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--stand-in"):
        make_options(stand_ins=name)


def test_names_of_packages_are_told_with_commas() -> None:
    assert make_options(stand_ins="spacy, a.b,").stand_ins == ("spacy", "a.b")
