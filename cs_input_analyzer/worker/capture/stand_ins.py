"""Replace a missing module by one that has every name, takes every call, and does nothing.

If code needs a value of it, such as a size, a path or a tensor, it raises an error that names it. So nothing is measured with an
invented value.
"""

from __future__ import annotations

import dis
import inspect
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

AUTOTUNE = -1
# An origin is a text for people; `a.b(...).c(...)` of a long chain, or of a loop, tells no more than its beginning.
LONGEST_ORIGIN = 80
# Kept by each: what it stands for, and where that may be a module, the names that are known of modules.
_ORIGIN, _KNOWN = "_stands_in_for", "_known_names"
_ARITHMETIC = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")


class StandInError(Exception):
    """Report that code needs a value of a stand-in. This is no TypeError or ValueError, which code may catch to try another way."""


class _Setup:
    """Tell whether setup code of the user runs, in any thread: TensorFlow calls functions back from its own."""

    is_on = False


@contextmanager
def setting_up() -> Iterator[None]:
    """Allow loops over stand-ins and conditions on them while a script or an import runs.

    Such code may use stand-ins for its training hooks. An input function may not: there they would shape the pipeline.
    """
    was_on, _Setup.is_on = _Setup.is_on, True
    try:
        yield
    finally:
        _Setup.is_on = was_on


class _HasEveryAttribute(ABCMeta):
    """Give classes every attribute: `ExecutionStrategy.ANY_NAME`.

    It is an ABCMeta, so that abstract classes may derive from a stand-in.
    """

    def __getattr__(cls, name: str) -> Any:
        if is_dunder(name):
            raise AttributeError(name)
        return _blank(f"{cls.__module__}.{cls.__qualname__}.{name}")


class Blank(metaclass=_HasEveryAttribute):
    """Take any call and have any attribute. As a decorator it returns the function; in a loop it is empty."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Keep no argument: a method, such as `parse` of hyperparameters, might have changed it."""

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__" and not _Setup.is_on:
            _refuse(self, "a function of the pipeline, or what the input function returns")
        if is_dunder(name):
            raise AttributeError(name)
        known = vars(self).get(_KNOWN)
        if known is None:
            return self._next(f".{name}")
        made = made_for(_origin(self), name, known)
        setattr(self, name, made)  # the same object each time, as of any module
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a decorated function or class unchanged; for other calls another stand-in."""
        is_decorator = len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0]))
        return args[0] if is_decorator else self._next("(...)")

    def __getitem__(self, key: Any) -> Any:
        return self._next("[...]")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def _next(self, how: str) -> Any:
        return _blank(f"{_origin(self)}{how}")

    def __repr__(self) -> str:
        return f"<stand-in for {_origin(self)}>"

    def __format__(self, how: str) -> str:
        return str(self)

    def __iter__(self) -> Iterator[Any]:
        caller = sys._getframe(1)
        is_loop = dis.opname[caller.f_code.co_code[caller.f_lasti]] == "GET_ITER"
        if not (_Setup.is_on and is_loop):  # who else wants all elements makes a list, a shape or an array of them
            _refuse(self, "a list or a shape")
        return iter(())

    def __bool__(self) -> bool:
        if not _Setup.is_on:
            _refuse(self, "a condition")
        return False

    def __eq__(self, other: object) -> bool:
        if not _Setup.is_on and other is not self:
            _refuse(self, "something to compare")
        return self is other

    __hash__ = object.__hash__


def _same(blank: Blank, *_: object) -> Any:
    """Return the stand-in itself for arithmetic. It may be printed or passed on; reading its value is an error."""
    return blank


def _refusing(what: str) -> Callable[..., NoReturn]:
    return lambda blank, *args, **kwargs: _refuse(blank, what)


_REFUSED = {
    "a whole number": ("int",),
    "a whole number (a size, a count, an index)": ("index",),
    "a number": ("float", "complex"),
    "something that has a length": ("len",),
    "a path": ("fspath",),
    "an array": ("array",),
    "a tensor": ("tf_tensor",),
    "a number to compare": ("lt", "le", "gt", "ge"),
}
for _what, _names in _REFUSED.items():
    for _name in _names:
        setattr(Blank, f"__{_name}__", _refusing(_what))
for _name in (*_ARITHMETIC, *(f"r{_name}" for _name in _ARITHMETIC), "neg", "pos", "abs", "invert", "round"):
    setattr(Blank, f"__{_name}__", _same)


class NoResult(Blank):
    """Replace the result of a training that was not run. Scripts compute with it, compare it and print it."""

    def _next(self, how: str) -> Any:
        return NoResult()

    def __format__(self, how: str) -> str:
        return "(nothing: the training was not run)"

    def __float__(self) -> float:
        return float("nan")

    def __lt__(self, other: object) -> bool:
        return False

    __le__ = __gt__ = __ge__ = __lt__


class StandIn(ModuleType):
    """Replace a module by one that has every name.

    A capital letter gives a class, other names give objects that do nothing. Names in `known` have their own values. `on_use` is
    called with the name of the module at each use.
    """

    def __init__(self, name: str, known: dict[str, Any], on_use: Callable[[str], None]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__file__ = None
        self._known = known
        self._on_use = on_use

    def __getattr__(self, name: str) -> Any:
        if is_dunder(name):
            raise AttributeError(name)
        self._on_use(self.__name__)
        made = made_for(self.__name__, name, self._known)
        setattr(self, name, made)  # the same object each time, as of any module
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Allow a call: `from package import name` imports a module of that name if it is missing."""
        self._on_use(self.__name__)
        return _blank(self.__name__)(*args, **kwargs)


def made_for(module: str, name: str, known: dict[str, Any]) -> Any:
    """Return the stand-in for a name of a module."""
    if name in known:
        return known[name]
    if name.endswith("AUTOTUNE"):  # the vendor's constant has the value of TensorFlow's own
        return AUTOTUNE
    if "Estimator" in name and not name.endswith("Spec"):
        return type(name, (known.get("Estimator", Blank),), {"__module__": module})
    if name[:1].isupper() and not name.isupper():
        return type(name, (Blank,), {"__module__": module})
    blank = _blank(f"{module}.{name}")
    vars(blank)[_KNOWN] = known
    return blank


def is_dunder(name: str) -> bool:
    """Return whether Python or a library asks by this name what an object can do. Stand-ins do not answer that."""
    return name.startswith("__") and name.endswith("__")


def _blank(origin: str) -> Blank:
    blank = Blank()
    vars(blank)[_ORIGIN] = origin if len(origin) <= LONGEST_ORIGIN else f"{origin[:LONGEST_ORIGIN].removesuffix('...')}..."
    return blank


def _origin(blank: Blank) -> str:
    """Return the origin of a stand-in as text, such as `spacy.load(...).vocab`."""
    made_by = f"{type(blank).__module__}.{type(blank).__qualname__}(...)"
    return str(vars(blank).get(_ORIGIN, made_by))


def _refuse(blank: Blank, what: str) -> NoReturn:
    if isinstance(blank, NoResult):
        raise StandInError(f"the result of the training is used as {what}, but the training was not run")
    raise StandInError(
        f"{_origin(blank)} is only a stand-in for a missing module, but is used as {what}: "
        "install its package if the data depend on it"
    )
