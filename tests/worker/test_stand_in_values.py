"""A stand-in never becomes a number, and what scripts do with one beside that is harmless."""

from __future__ import annotations

import pytest

from cs_input_analyzer.worker.capture import setting_up
from cs_input_analyzer.worker.capture.stand_ins import NoResult, StandInError
from tests.worker.conftest import Built, first

pytestmark = pytest.mark.tf


@pytest.mark.parametrize(
    ("use", "says"),
    [
        ("numbers.batch(lost.size(4))", r"lost_package\.size\(\.\.\.\) is only a stand-in"),
        ("numbers.batch(int(lost.config.batch))", r"lost_package\.config\.batch .* a whole number"),
        ("numbers.take(len(lost.words()))", r"lost_package\.words\(\.\.\.\) .* has a length"),
        ("numbers.map(lambda x: x * lost.scale)", r"lost_package\.scale .* a tensor"),
        ("numbers.map(lost.parse)", r"lost_package\.parse\(\.\.\.\)"),
        ("numbers.map(lambda x: tf.reshape(x, [lost.rows, -1]))", r"lost_package\.rows"),
        ("tf.data.TFRecordDataset(os.path.join(lost.folder, 'a'))", r"lost_package\.folder .* a path"),
        ("tf.data.Dataset.from_tensor_slices(np.array(lost.table))", r"lost_package\.table .* an array"),
        ("tf.data.Dataset.from_tensor_slices(np.zeros(lost.shape))", r"lost_package\.shape"),
        ("tf.data.Dataset.from_tensor_slices([row for row in lost.table])", r"lost_package\.table .* a list"),
        ("numbers.batch(4 if lost.rank() == 0 else 8)", r"lost_package\.rank\(\.\.\.\) .* compare"),
        ("numbers.batch(4 if lost.rank() > 0 else 8)", r"lost_package\.rank\(\.\.\.\) .* compare"),
        ("numbers.batch(4 if lost.is_on else 8)", r"lost_package\.is_on .* a condition"),
        ("numbers.batch(lost.Options(size=3).other)", r"lost_package\.Options\(\.\.\.\)\.other"),
        ("lost.load('mnist')['train'].batch(4)", r"lost_package\.load\(\.\.\.\)\[\.\.\.\]\.batch\(\.\.\.\) .* returns"),
    ],
)
def test_a_stand_in_in_the_data_is_an_error_that_names_it(use: str, says: str, built: Built) -> None:
    text = "import os\nimport numpy as np\nimport lost_package as lost\nnumbers = tf.data.Dataset.range(64)\n"
    with pytest.raises(Exception, match=f"(?s){says}"):
        built(f"{text}def input_fn(params):\n    return {use}\n", "lost_package")


@pytest.mark.parametrize(
    "use",
    ["np.zeros(lost.shape)", "tf.TensorShape(lost.shape)", "tf.constant(lost.shape)", "range(lost.size)", "[1, 2][lost.size]"],
)
def test_a_script_is_told_as_well(use: str, built: Built) -> None:
    with pytest.raises(StandInError, match=r"lost_package\.(shape|size)"):
        built(f"import numpy as np\nimport lost_package as lost\n{use}", "lost_package")


def test_what_scripts_do_with_stand_ins_is_harmless(built: Built) -> None:
    dataset, _ = built(
        """
        import abc, copy, logging
        import lost_package as lost
        from lost_package.deep import Strategy, function, MODE_A
        class Mine(lost.Base, abc.ABC):
            @abc.abstractmethod
            def f(self): ...
        @function
        def decorated(x):
            return x + 1
        @lost.also(name="x")
        def another(x):
            return x + decorated(x)
        with lost.scope("a"):
            kinds = {MODE_A: 1, Strategy.ES_ANY: 2}
            optimizer = lost.Wrapped(rate=0.1 * lost.size() + 1)
            copy.deepcopy({"a": optimizer})
            logging.debug("%s %r", optimizer, lost)
            hooks = [hook for hook in lost.hooks()] + [lost.Hook()]
        assert optimizer.rate is not None and isinstance(optimizer, lost.Wrapped) and Strategy.ES_ANY != Strategy.ES_OTHER
        def input_fn(params):
            print(f"{lost.version} {optimizer}")
            lost.init()
            return tf.data.Dataset.range(5).map(decorated)
        """,
        "lost_package",
    )
    assert first(dataset) == 1


def test_what_a_training_gives_that_was_not_run() -> None:
    with setting_up():
        history = NoResult()
        best = history.history["loss"][-1]
        assert f"{best:.3f}" == "(nothing: the training was not run)"
        assert not best < 1.0
        assert f"{float(best + 1):.2f}" == "nan"
        with pytest.raises(StandInError, match="training was not run"):
            int(best)
