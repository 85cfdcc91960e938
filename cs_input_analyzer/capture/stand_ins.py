"""Stands in for packages that are not installed, so that a script which imports them can reach its input function.

The vendor's packages are in a closed container, and TensorFlow has no Estimator any more. A stand-in takes whatever it is given and
does nothing; only what is known to take an input function, an Estimator, leads to the gate. A package that is installed is itself.
"""

from __future__ import annotations

import importlib.machinery
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any

__all__ = ["Blank", "Finder", "StandIn", "estimator_module", "is_vendors"]

_VENDORS = ("cerebras", "tensorflow_estimator")
# Its presence tells a script that weights are streamed; that is what `python-ws` is for.
_STREAMING = "tfwse"
AUTOTUNE = -1


class Blank:
    """Takes any call and has any attribute; as a decorator it leaves the function as it is, in a loop it is empty."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.__dict__.update({name: value for name, value in kwargs.items() if not name.startswith("__")})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Blank()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_decorator = len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0]))
        return args[0] if is_decorator else Blank()

    def __getitem__(self, key: Any) -> Any:
        return Blank()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __float__(self) -> float:
        return float("nan")

    def __int__(self) -> int:
        return 0

    def __format__(self, how: str) -> str:
        return "(nothing: the training was not run)"


class StandIn(ModuleType):
    """A module that has every name: a class where it begins with a capital letter, something that does nothing else.

    `told` hears the name of a module of which something is used.
    """

    def __init__(self, name: str, known: dict[str, Any] | None = None, told: Callable[[str], None] | None = None) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__file__ = None
        self._known = known or {}
        self._told = told

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if self._told is not None:
            self._told(self.__name__)
        if name in self._known:
            return self._known[name]
        made = self._made(name)
        setattr(self, name, made)  # the same object each time, as of any module
        return made

    def _made(self, name: str) -> Any:
        if name.endswith("AUTOTUNE"):  # the vendor's constant has the value of TensorFlow's own
            return AUTOTUNE
        if name.isupper():
            return Blank()
        if "Estimator" in name and not name.endswith("Spec"):
            return type(name, (self._known.get("Estimator", Blank),), {"__module__": self.__name__})
        if name[:1].isupper():
            return type(name, (Blank,), {"__module__": self.__name__})
        return Blank()


def estimator_module(
    name: str, reached: Callable[..., None], trained: Callable[[Any, Any, Any], None], told: Callable[[str], None] | None
) -> StandIn:
    """A stand-in that has Estimators.

    `reached(estimator, call, input_fn, mode)` is called where one would take data, `trained(estimator, train_spec, eval_spec)` for
    `train_and_evaluate`.
    """

    class Estimator(Blank):
        def __init__(
            self, model_fn: Any = None, model_dir: Any = None, config: Any = None, params: Any = None, **others: Any
        ) -> None:
            super().__init__(model_fn=model_fn, model_dir=model_dir, params=params, **others)
            self.config = config if config is not None else Blank()

        def train(self, input_fn: Any = None, *args: Any, **kwargs: Any) -> Any:
            reached(self, "train", input_fn, "train")
            return self

        def compile(self, input_fn: Any = None, validate_only: Any = False, mode: Any = "train", **kwargs: Any) -> Any:
            reached(self, "compile", input_fn, "eval" if mode == "eval" else "train")
            return self

        def evaluate(self, input_fn: Any = None, *args: Any, **kwargs: Any) -> Any:
            reached(self, "evaluate", input_fn, "eval")
            return {}

        def predict(self, input_fn: Any = None, *args: Any, **kwargs: Any) -> Any:
            reached(self, "predict", input_fn, "eval")
            return iter(())

        def train_and_evaluate(self, *args: Any, **kwargs: Any) -> Any:
            specs = [*args, *kwargs.values()]
            train = [one for one in specs if hasattr(one, "input_fn") or callable(one)]
            trained(self, *[*train, None, None][:2])
            return {}, []

    class ModeKeys:
        TRAIN, EVAL, PREDICT = "train", "eval", "infer"

    def train_and_evaluate(estimator: Any, train_spec: Any = None, eval_spec: Any = None) -> Any:
        trained(estimator, train_spec, eval_spec)
        return {}, []

    known = {"Estimator": Estimator, "ModeKeys": ModeKeys, "train_and_evaluate": train_and_evaluate}
    for spec in ("TrainSpec", "EvalSpec"):
        known[spec] = type(spec, (Blank,), {"__init__": _keeps_input_fn})
    return StandIn(name, known, told)


def _keeps_input_fn(spec: Any, input_fn: Any = None, *args: Any, **kwargs: Any) -> None:
    spec.__dict__.update(kwargs, input_fn=input_fn)


def is_vendors(name: str, is_streaming: bool) -> bool:
    """Whether a module is of a package that is stood in for."""
    top = name.partition(".")[0]
    return top in _VENDORS or top.startswith("cerebras_") or (is_streaming and top == _STREAMING)


class Finder(MetaPathFinder):
    """First on `sys.meta_path`: gives stand-ins, and has modules looked after as soon as they are loaded.

    Args:
        stood_in: makes the stand-in for a module; called where the package at its top is not installed.
        wants: whether `after` is to see a module once it is loaded.
    """

    def __init__(
        self,
        wants: Callable[[str], bool],
        after: Callable[[ModuleType], None],
        stands_in: Callable[[str], bool],
        stood_in: Callable[[str], ModuleType],
    ) -> None:
        self._wants, self._after, self._stands_in, self._stood_in = wants, after, stands_in, stood_in
        self._is_missing: dict[str, bool] = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        is_candidate = self._stands_in(name)
        if not is_candidate and not self._wants(name):
            return None
        top = name.partition(".")[0]
        if is_candidate and top not in self._is_missing:
            self._is_missing[top] = _found(top, None) is None
        if is_candidate and self._is_missing[top]:
            return importlib.machinery.ModuleSpec(name, _Making(self._stood_in), is_package=True)
        spec = _found(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self._after)
        return spec


def _found(name: str, path: Sequence[str] | None) -> Any:
    """What the other finders say."""
    for finder in sys.meta_path:
        if not isinstance(finder, Finder) and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path, None)
            if spec is not None:
                return spec
    return None


class _Making(Loader):
    def __init__(self, make: Callable[[str], ModuleType]) -> None:
        self._make = make

    def create_module(self, spec: Any) -> ModuleType:
        return self._make(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


class _Then(Loader):
    """Another loader, and something to do after it."""

    def __init__(self, loader: Any, after: Callable[[ModuleType], None]) -> None:
        self._loader, self._after = loader, after

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._after(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
