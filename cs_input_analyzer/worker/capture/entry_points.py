"""Patch the calls by which a script gives data to a training, so that they report to an interceptor.

They belong to Estimators (TensorFlow's and the vendor's), Keras, loops over a Dataset (AutoGraph's too), the iterators of
TensorFlow 1, and distribution strategies.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from cs_input_analyzer.records import Mode
from cs_input_analyzer.tfdata.graph import is_library, where_built
from cs_input_analyzer.worker.capture import estimators
from cs_input_analyzer.worker.capture.imports import is_shape_peek, patching_on_import, takes_to_the_end
from cs_input_analyzer.worker.capture.interceptor import Interceptor, NoData, Taken
from cs_input_analyzer.worker.capture.stand_ins import Blank, NoResult, StandInError

LOOKED_FOR = (
    "train, compile or evaluate of an Estimator, train_and_evaluate, Keras' fit, evaluate or predict, a loop over a "
    "tf.data.Dataset or iter() of one, make_one_shot_iterator, a strategy's experimental_distribute_dataset"
)
# Keras 3, Keras 2 beside it, that of TensorFlow 2.13 to 2.15, and that of 2.12.
_KERAS = ("keras.src.models.model", "tf_keras.src.engine.training", "keras.src.engine.training", "keras.engine.training")
# Those of Keras 2, which compute their learning rate at once.
_OPTIMIZERS = ("tf_keras.src.optimizers.optimizer", "keras.src.optimizers.optimizer", "keras.optimizers.optimizer")
# Until TensorFlow 2.15.
_ESTIMATORS = tuple(f"tensorflow_estimator.python.estimator.{name}" for name in ("estimator", "tpu.tpu_estimator", "training"))
# Functions of Keras that read data for real, and how far up the stack they are looked for.
_PREPARING = ("adapt", "split_dataset")
_PREPARING_FRAMES = 20
# A script that takes at most this many elements, by `take`, only peeks. A script that takes more trains on them.
MOST_PEEKED_AT = 8


@contextmanager
def patched_entry_points(interceptor: Interceptor) -> Iterator[None]:
    """Have all calls report to the interceptor while open."""
    with ExitStack() as stack:
        points = _EntryPoints(interceptor, stack)
        points.patch_tensorflow()
        interceptor.on_estimator = points.estimator_called
        stack.enter_context(patching_on_import(_KERAS, points.patch_keras))
        stack.enter_context(patching_on_import(_OPTIMIZERS, points.patch_optimizers))
        stack.enter_context(patching_on_import(_ESTIMATORS, points.patch_estimators))
        yield


@contextmanager
def patched_one_shot_iterators(interceptor: Interceptor) -> Iterator[None]:
    """Have the iterators of TensorFlow 1 report while open: an input function may make one and return its tensors."""
    with ExitStack() as stack:
        _EntryPoints(interceptor, stack).patch_one_shot_iterators()
        yield


class _EntryPoints:
    """Patch the calls, and undo that when the stack is unwound."""

    def __init__(self, interceptor: Interceptor, stack: ExitStack) -> None:
        self._interceptor, self._stack = interceptor, stack
        self._passed: list[Any] = []  # datasets that were given to a tf.function

    def _replace(self, owner: Any, name: str, new: Any) -> None:
        missing = object()
        old = vars(owner).get(name, missing)
        setattr(owner, name, new)
        self._stack.callback(*((delattr, owner, name) if old is missing else (setattr, owner, name, old)))

    def estimator_called(self, estimator: Any, call: str, input_fn: Any, mode: Mode) -> None:
        """Report a call of an Estimator, with the arguments that its input function would get."""
        kind: Any = "train" if call in ("train", "compile") and mode == "train" else "predict" if call == "predict" else "evaluate"
        taken = self._taken(input_fn)
        if isinstance(taken, Taken) and callable(input_fn):
            own = {
                "params": estimators.params_of(estimator, mode),
                "config": vars(estimator).get("config", vars(estimator).get("_config")),
                "mode": mode,
            }
            taken = Taken(subject=input_fn, arguments={name: value for name, value in own.items() if name in _names(input_fn)})
        self._interceptor.reach(kind, f"{type(estimator).__name__.removesuffix('V2')}.{call}", taken, mode)

    def patch_estimators(self, module: ModuleType) -> None:
        """Have the Estimators that this TensorFlow still has report like their stand-ins."""
        for name in {"Estimator", "EstimatorV2", "TPUEstimator"} & vars(module).keys():
            owner = vars(module)[name]
            for call in estimators.CALLS.keys() & vars(owner).keys():
                self._replace(owner, call, estimators.reporting(call))
        if "train_and_evaluate" in vars(module):
            self._replace(module, "train_and_evaluate", estimators.train_and_evaluate)

    def patch_keras(self, module: ModuleType) -> None:
        """Have the methods of a Keras model that take data report."""
        model: Any = vars(module)["Model"]

        def reporting(name: str, kind: Any, mode: Mode) -> Callable[..., Any]:
            def method(model: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
                ends = name == "fit" and kwargs.get("steps_per_epoch") is None
                self._interceptor.reach(kind, f"{type(model).__name__}.{name}", self._taken(x), mode, ends_epochs=ends)
                if name == "fit" and kwargs.get("validation_data") is not None:
                    self._interceptor.reach("evaluate", "validation_data of fit", self._taken(kwargs["validation_data"]), "eval")
                return NoResult()

            return method

        compiled = model.compile

        def compile(model: Any, *args: Any, **kwargs: Any) -> None:
            """Skip a compile with a stand-in, such as an optimizer of a missing package. Keras would refuse it."""
            if not any(isinstance(value, Blank) for value in (*args, *kwargs.values())):
                compiled(model, *args, **kwargs)

        self._replace(model, "compile", compile)
        for name, kind in {"fit": "fit", "train_on_batch": "fit", "evaluate": "evaluate", "predict": "predict"}.items():
            self._replace(model, name, reporting(name, kind, "train" if kind == "fit" else "eval"))

    def patch_optimizers(self, module: ModuleType) -> None:
        """Have optimizers take a learning rate that depends on a stand-in. No step of a training runs."""
        owner: Any = vars(module).get("_BaseOptimizer")
        if owner is None:  # Keras 3
            return
        built = owner._build_learning_rate

        def build(optimizer: Any, learning_rate: Any) -> Any:
            try:
                return built(optimizer, learning_rate)
            except StandInError:
                return built(optimizer, 0.0)

        self._replace(owner, "_build_learning_rate", build)

    def patch_tensorflow(self) -> None:
        """Patch iteration, AutoGraph, strategies, and the calls that run a step of a training."""
        from tensorflow.python.client import session
        from tensorflow.python.data.ops import dataset_ops
        from tensorflow.python.eager import backprop

        self.patch_one_shot_iterators()
        for name in ("__iter__", "as_numpy_iterator"):
            self._replace(dataset_ops.DatasetV2, name, self._iteration(getattr(dataset_ops.DatasetV2, name)))
        self._autograph()
        self._strategies()
        self._guarded(session.BaseSession, ("run", "make_callable"), "run a step of a session")
        self._guarded(backprop.GradientTape, ("__enter__",), "compute gradients")

    def _guarded(self, owner: Any, names: tuple[str, ...], what: str) -> None:
        for name in names:
            original = getattr(owner, name)

            def call(*args: Any, original: Any = original, **kwargs: Any) -> Any:
                self._interceptor.guard(what)
                return original(*args, **kwargs)

            self._replace(owner, name, call)

    def patch_one_shot_iterators(self) -> None:
        """Have `make_one_shot_iterator` and `make_initializable_iterator` report."""
        import tensorflow as tf
        from tensorflow.python.data.ops import dataset_ops

        for name in ("_make_one_shot_iterator", "_make_initializable_iterator"):
            original = getattr(dataset_ops.DatasetV1, name)

            def make(dataset: Any, *args: Any, original: Any = original, call: str = name.lstrip("_"), **kwargs: Any) -> Any:
                self._interceptor.reach("loop", call, self._taken(dataset))
                # The tensors of a graph hold nothing until a session runs, which ends the script.
                return NoData(self._interceptor, dataset) if tf.executing_eagerly() else original(dataset, *args, **kwargs)

            self._replace(dataset_ops.DatasetV1, name, make)

    def _iteration(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def iterate(dataset: Any) -> Any:
            if _is_preparing():
                return original(dataset)
            line = where_built().line
            if is_shape_peek(line) or _is_small(dataset):
                self._interceptor.reach("peek", "a peek at a few elements", self._taken(dataset))
                return original(dataset)
            self._interceptor.reach("loop", "a loop over a Dataset", self._taken(dataset), ends_epochs=takes_to_the_end(line))
            return NoData(self._interceptor, dataset)

        return iterate

    def _autograph(self) -> None:
        """Report `for batch in dataset` in a `tf.function`, which is no Python loop. The dataset may be its argument."""
        import tensorflow as tf
        from tensorflow.python.autograph.operators import control_flow
        from tensorflow.python.eager.polymorphic_function import polymorphic_function

        registry, function = control_flow.for_loop_registry, polymorphic_function.Function
        lookup, called = registry.lookup, function.__call__

        def found(iterated: Any) -> Any:
            if not isinstance(iterated, tf.data.Dataset):
                return lookup(iterated)
            ends = takes_to_the_end(where_built().line)
            self._interceptor.reach("loop", "a loop over a Dataset in a tf.function", self._taken(iterated), ends_epochs=ends)
            return lambda *args, **kwargs: None

        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            self._passed += [value for value in (*args, *kwargs.values()) if isinstance(value, tf.data.Dataset)]
            return called(function, *args, **kwargs)

        self._replace(registry, "lookup", found)
        self._replace(function, "__call__", call)

    def _strategies(self) -> None:
        from tensorflow.python.distribute import collective_all_reduce_strategy, distribute_lib

        base = distribute_lib.StrategyBase

        def distribute(strategy: Any, dataset: Any, options: Any = None) -> Any:
            call, ends = f"{type(strategy).__name__}.experimental_distribute_dataset", takes_to_the_end(where_built().line)
            self._interceptor.reach("distribute", call, self._taken(dataset), ends_epochs=ends)
            return NoData(self._interceptor, dataset)

        def from_function(strategy: Any, dataset_fn: Any, options: Any = None) -> Any:
            call, ends = f"{type(strategy).__name__}.distribute_datasets_from_function", takes_to_the_end(where_built().line)
            taken = self._taken(lambda input_context: dataset_fn(input_context))
            self._interceptor.reach("distribute", call, taken, ends_epochs=ends)
            return NoData(self._interceptor, NoResult())

        self._replace(base, "experimental_distribute_dataset", distribute)
        for name in ("distribute_datasets_from_function", "experimental_distribute_datasets_from_function"):
            self._replace(base, name, from_function)
        for name in ("CollectiveAllReduceStrategy", "CollectiveAllReduceStrategyV1"):
            strategy = getattr(collective_all_reduce_strategy, name)
            self._replace(strategy, "__init__", _alone(strategy.__init__))

    def _taken(self, subject: Any) -> Taken | str:
        """Return the data that a call was given, or the reason why they cannot be analyzed."""
        import tensorflow as tf
        from tensorflow.python.framework import func_graph

        if isinstance(subject, NoData):
            subject = subject._dataset
        if isinstance(subject, tf.data.Dataset):
            if isinstance(getattr(subject._variant_tensor, "graph", None), func_graph.FuncGraph) and not tf.executing_eagerly():
                given = [dataset for dataset in self._passed if dataset.element_spec == subject.element_spec]
                if not given:
                    return "a dataset that is made inside a tf.function"
                subject = given[-1]
            return Taken(subject=subject, arguments={})
        if callable(subject) and not isinstance(subject, Blank):
            return Taken(subject=subject, arguments={})
        what = type(subject)
        return "nothing that it was given" if subject is None else f"{what.__module__}.{what.__name__}, no tf.data.Dataset"


def _is_small(dataset: Any) -> bool:
    """Return whether the dataset is a `take` of only a few elements."""
    import tensorflow as tf

    count = getattr(dataset, "_count", None) if type(dataset).__name__.lstrip("_").startswith("Take") else None
    known = tf.get_static_value(count) if count is not None else None
    return known is not None and 0 <= int(known) <= MOST_PEEKED_AT


def _names(function: Any) -> set[str]:
    """Return the names of the arguments that an Estimator may give: not those that a partial holds."""
    held = function.keywords if isinstance(function, functools.partial) else {}
    try:
        return set(inspect.signature(function).parameters) - set(held)
    except (TypeError, ValueError):
        return set()


def _alone(original: Callable[..., None]) -> Callable[..., None]:
    """Make a strategy without `TF_CONFIG`: it would wait for the other workers, which never answer here."""

    def make(strategy: Any, *args: Any, **kwargs: Any) -> None:
        config = os.environ.pop("TF_CONFIG", None)
        try:
            original(strategy, *args, **kwargs)
        finally:
            if config is not None:
                os.environ["TF_CONFIG"] = config

    return make


def _is_preparing() -> bool:
    """Return whether Keras reads the data to prepare a layer or to split them. The pipeline may need what that gives."""
    frame = sys._getframe(2)
    for _ in range(_PREPARING_FRAMES):
        if frame.f_code.co_name in _PREPARING and is_library(frame.f_code.co_filename):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
