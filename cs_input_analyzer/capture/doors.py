"""The calls through which a script gives its data to a training, each led to the gate while a script runs.

Estimators (TensorFlow's and the vendor's, or what stands in for them), Keras, loops over a Dataset (AutoGraph's too), the iterators
of TensorFlow 1, and what a strategy distributes.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from cs_input_analyzer.capture.gate import Gate, Nothing, OneLook, Taken, scripts_line
from cs_input_analyzer.capture.looks import is_one_look
from cs_input_analyzer.capture.stand_ins import Blank, Finder, StandIn, estimator_module, is_vendors
from cs_input_analyzer.graph import is_library
from cs_input_analyzer.records import Mode

__all__ = ["LOOKED_FOR", "opened", "opened_for_functions"]

LOOKED_FOR = (
    "train, compile or evaluate of an Estimator, train_and_evaluate, Keras' fit, evaluate or predict, a loop over a "
    "tf.data.Dataset or iter() of one, make_one_shot_iterator, a strategy's experimental_distribute_dataset"
)
_KERAS = {"keras.src.models.model": "Model", "tf_keras.src.engine.training": "Model"}
_FILES = {"h5py._hl.files": "File"}
_ESTIMATORS = ("estimator", "cs_estimator")
_CPP_FILES = ("WritableFile", "DeleteFile", "CreateDir", "RecursivelyCreateDir", "CopyFile", "RenameFile", "DeleteRecursively")
_CPP_SAVES = ("save", "save_v2", "save_slices", "write_file", "merge_v2_checkpoints")
_ADAPT_FRAMES = 20


@contextmanager
def opened(gate: Gate, *, is_streaming: bool, told: Callable[[str], None]) -> Iterator[None]:
    """While open, all of them lead to the gate. `told` hears the name of a module that is stood in for."""
    with ExitStack() as stack:
        doors = _Doors(gate, stack, told)
        doors.tensorflow()
        finder = Finder(doors.wants, doors.after, partial(is_vendors, is_streaming=is_streaming), doors.stand_in)
        sys.meta_path.insert(0, finder)
        stack.callback(sys.meta_path.remove, finder)
        for name in [name for name in list(sys.modules) if doors.wants(name)]:
            doors.after(sys.modules[name])
        yield


@contextmanager
def opened_for_functions(gate: Gate) -> Iterator[None]:
    """While open, the iterators of TensorFlow 1 lead to the gate: an input function may make one and return its tensors."""
    with ExitStack() as stack:
        _Doors(gate, stack, lambda name: None).one_shot_iterators()
        yield


class _Doors:
    def __init__(self, gate: Gate, stack: ExitStack, told: Callable[[str], None]) -> None:
        self._gate, self._stack, self._told = gate, stack, told
        self._passed: list[Any] = []  # datasets that were given to a tf.function

    def _replace(self, owner: Any, name: str, new: Any) -> None:
        """Until the stack is unwound."""
        missing = object()
        old = vars(owner).get(name, missing)
        setattr(owner, name, new)
        self._stack.callback(*((delattr, owner, name) if old is missing else (setattr, owner, name, old)))

    # --- what is looked after once it is loaded --------------------------------------------------------------------------

    def wants(self, name: str) -> bool:
        is_estimators = is_vendors(name, True) and name.rpartition(".")[2].startswith(_ESTIMATORS)
        return name in _KERAS or name in _FILES or is_estimators

    def after(self, module: ModuleType) -> None:
        name = module.__name__
        if name in _KERAS:
            self._keras(getattr(module, _KERAS[name]))
        elif name in _FILES:
            self._h5py(getattr(module, _FILES[name]))
        elif not isinstance(module, StandIn):
            self._estimators(module)

    def stand_in(self, name: str) -> ModuleType:
        self._told(name)
        return estimator_module(name, self._estimator, self._train_and_evaluate, None)

    # --- Estimators ------------------------------------------------------------------------------------------------------

    def _estimator(self, estimator: Any, call: str, input_fn: Any, mode: Mode) -> None:
        kind: Any = "train" if call in ("train", "compile") and mode == "train" else "predict" if call == "predict" else "evaluate"
        taken = self._taken(input_fn)
        if isinstance(taken, Taken) and callable(input_fn):
            own = {"params": _own(estimator, "params"), "config": _own(estimator, "config"), "mode": mode}
            taken = Taken(subject=input_fn, arguments={name: value for name, value in own.items() if name in _names(input_fn)})
        self._gate.reach(kind, f"{type(estimator).__name__}.{call}", taken, mode)

    def _train_and_evaluate(self, estimator: Any, train: Any, evaluate: Any) -> None:
        for spec, call, mode in ((train, "train", "train"), (evaluate, "evaluate", "eval")):
            if spec is not None:
                self._estimator(estimator, call, getattr(spec, "input_fn", spec), mode)  # type: ignore[arg-type]

    def _estimators(self, module: ModuleType) -> None:
        """Of packages that are installed."""
        modes: dict[str, Mode] = {"train": "train", "compile": "train", "evaluate": "eval", "predict": "eval"}
        for name, value in list(vars(module).items()):
            if inspect.isclass(value) and "Estimator" in name:
                for call in [call for call in modes if call in vars(value)]:
                    self._replace(value, call, self._method(call, modes[call]))
            elif name == "train_and_evaluate" and callable(value):
                self._replace(
                    module,
                    name,
                    lambda estimator, train_spec, eval_spec: self._train_and_evaluate(estimator, train_spec, eval_spec),
                )

    def _method(self, call: str, mode: Mode) -> Callable[..., Any]:
        def method(estimator: Any, input_fn: Any = None, *args: Any, **kwargs: Any) -> Any:
            self._estimator(estimator, call, input_fn, "eval" if kwargs.get("mode") == "eval" else mode)
            return {} if call == "evaluate" else estimator if call != "predict" else iter(())

        return method

    # --- Keras -----------------------------------------------------------------------------------------------------------

    def _keras(self, model: Any) -> None:
        def fit(model: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
            self._gate.reach("fit", f"{type(model).__name__}.fit", self._taken(x))
            if kwargs.get("validation_data") is not None:
                self._gate.reach("evaluate", "validation_data of fit", self._taken(kwargs["validation_data"]), "eval")
            return Blank()

        def evaluate(model: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
            self._gate.reach("evaluate", f"{type(model).__name__}.evaluate", self._taken(x), "eval")
            return Blank()

        def predict(model: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
            self._gate.reach("predict", f"{type(model).__name__}.predict", self._taken(x), "eval")
            return Blank()

        def on_batch(model: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
            self._gate.reach("fit", f"{type(model).__name__}.train_on_batch", self._taken(x))
            return Blank()

        for name, door in (("fit", fit), ("evaluate", evaluate), ("predict", predict), ("train_on_batch", on_batch)):
            self._replace(model, name, door)

    def _h5py(self, file: Any) -> None:
        original = file.__init__

        def make(opened: Any, name: Any, mode: str = "r", *args: Any, **kwargs: Any) -> None:
            if mode != "r":
                self._gate.guard(f"write {name}")
            original(opened, name, mode, *args, **kwargs)

        self._replace(file, "__init__", make)

    # --- TensorFlow ------------------------------------------------------------------------------------------------------

    def tensorflow(self) -> None:
        import tensorflow as tf
        from tensorflow.python.client import session
        from tensorflow.python.data.ops import dataset_ops
        from tensorflow.python.eager import backprop
        from tensorflow.python.lib.io import file_io
        from tensorflow.python.ops import gen_io_ops

        self.one_shot_iterators()
        self._loops(dataset_ops.DatasetV2)
        self._autograph()
        self._strategies()
        self._guarded(session.BaseSession, ("run", "make_callable"), "run a step of a session")
        self._guarded(backprop.GradientTape, ("__enter__",), "compute gradients")
        self._guarded(file_io._pywrap_file_io, _CPP_FILES, "write a file")
        self._guarded(gen_io_ops, _CPP_SAVES, "save variables")
        if "estimator" not in vars(tf):
            stand_in = estimator_module("tensorflow.estimator", self._estimator, self._train_and_evaluate, self._told)
            for module in (tf, tf.compat.v1, tf.compat.v2):
                self._replace(module, "estimator", stand_in)

    def _guarded(self, owner: Any, names: tuple[str, ...], what: str) -> None:
        for name in names:
            original = getattr(owner, name, None)
            if original is not None:
                self._replace(owner, name, self._after_guard(original, what))

    def _after_guard(self, original: Callable[..., Any], what: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._gate.guard(what)
            return original(*args, **kwargs)

        return call

    def one_shot_iterators(self) -> None:
        import tensorflow as tf
        from tensorflow.python.data.ops import dataset_ops

        for name in ("_make_one_shot_iterator", "_make_initializable_iterator"):
            original = getattr(dataset_ops.DatasetV1, name)

            def make(dataset: Any, *args: Any, original: Any = original, call: str = name.lstrip("_"), **kwargs: Any) -> Any:
                self._gate.reach("loop", call, self._taken(dataset))
                # The tensors of a graph hold nothing until a session runs, which ends the script.
                return Nothing(self._gate, dataset) if tf.executing_eagerly() else original(dataset, *args, **kwargs)

            self._replace(dataset_ops.DatasetV1, name, make)

    def _loops(self, dataset_class: Any) -> None:
        original = dataset_class.__iter__

        def iterate(dataset: Any) -> Any:
            if _is_adapting():
                return original(dataset)
            if is_one_look(scripts_line()):
                self._gate.reach("peek", "a look at one element", self._taken(dataset))
                return OneLook(self._gate, dataset, lambda: next(original(dataset)))
            return loop(dataset)

        def loop(dataset: Any) -> Any:
            is_peek = type(dataset).__name__.lstrip("_").startswith("Take")
            self._gate.reach("peek" if is_peek else "loop", "a loop over a Dataset", self._taken(dataset))
            return Nothing(self._gate, dataset)

        self._replace(dataset_class, "__iter__", iterate)
        self._replace(dataset_class, "as_numpy_iterator", loop)

    def _autograph(self) -> None:
        """`for batch in dataset` inside a `tf.function` is no Python loop; there the dataset may be the function's argument."""
        import tensorflow as tf
        from tensorflow.python.autograph.operators import control_flow
        from tensorflow.python.eager.polymorphic_function import polymorphic_function

        registry, function = control_flow.for_loop_registry, polymorphic_function.Function
        lookup, called = registry.lookup, function.__call__

        def found(iterated: Any) -> Any:
            if not isinstance(iterated, tf.data.Dataset):
                return lookup(iterated)
            self._gate.reach("loop", "a loop over a Dataset in a tf.function", self._taken(iterated))
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
            self._gate.reach("distribute", f"{type(strategy).__name__}.experimental_distribute_dataset", self._taken(dataset))
            return Nothing(self._gate, dataset)

        def from_function(strategy: Any, dataset_fn: Any, options: Any = None) -> Any:
            def of_context(input_context: Any) -> Any:
                return dataset_fn(input_context)

            call = f"{type(strategy).__name__}.distribute_datasets_from_function"
            self._gate.reach("distribute", call, self._taken(of_context))
            return Nothing(self._gate, Blank())

        self._replace(base, "experimental_distribute_dataset", distribute)
        for name in ("distribute_datasets_from_function", "experimental_distribute_datasets_from_function"):
            self._replace(base, name, from_function)
        for name in ("CollectiveAllReduceStrategy", "CollectiveAllReduceStrategyV1"):
            strategy = getattr(collective_all_reduce_strategy, name)
            self._replace(strategy, "__init__", _alone(strategy.__init__))

    # --- what is taken ---------------------------------------------------------------------------------------------------

    def _taken(self, subject: Any) -> Taken | str:
        """What can be analyzed of what a door was given, or why nothing can."""
        import tensorflow as tf
        from tensorflow.python.framework import func_graph

        if isinstance(subject, Nothing):
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


def _own(estimator: Any, name: str) -> Any:
    return vars(estimator).get(name, vars(estimator).get(f"_{name}"))


def _names(function: Any) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def _alone(original: Callable[..., None]) -> Callable[..., None]:
    """A strategy of many workers waits for them all when it is made; of those that are measured none ever answers."""

    def make(strategy: Any, *args: Any, **kwargs: Any) -> None:
        told = os.environ.pop("TF_CONFIG", None)
        try:
            original(strategy, *args, **kwargs)
        finally:
            if told is not None:
                os.environ["TF_CONFIG"] = told

    return make


def _is_adapting() -> bool:
    """Whether Keras reads the data to prepare a layer, which is no training, and whose vocabulary the pipeline may need."""
    frame = sys._getframe(2)
    for _ in range(_ADAPT_FRAMES):
        if frame.f_code.co_name == "adapt" and is_library(frame.f_code.co_filename):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
