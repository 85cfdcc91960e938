"""What takes the place of a module that is not there: it has every name, takes every call, and does nothing. Where a value is asked
of it, as a size, a path or a tensor, that is an error which names it, so that nothing is measured with a made up value."""

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
    """A value was asked of a stand-in. No TypeError or ValueError: those are caught by who tries one way and then another."""


class _Setup:
    """Whether user code runs that sets up more than its data; of all threads, as TensorFlow calls functions back from its own."""

    is_on = False


@contextmanager
def setting_up() -> Iterator[None]:
    """Around a script, or the import of a module: it may loop over stand-ins and decide by them, as over hooks for the
    training. Not so an input function: what they decide there would be the pipeline."""
    was_on, _Setup.is_on = _Setup.is_on, True
    try:
        yield
    finally:
        _Setup.is_on = was_on


class _HasEveryAttribute(ABCMeta):
    """Of classes: `ExecutionStrategy.ANY_NAME`. An ABCMeta, so that a user's class may be abstract and derive from a stand-in."""

    def __getattr__(cls, name: str) -> Any:
        if is_dunder(name):
            raise AttributeError(name)
        return _blank(f"{cls.__module__}.{cls.__qualname__}.{name}")


class Blank(metaclass=_HasEveryAttribute):
    """Takes any call and has any attribute; as a decorator it leaves the function as it is, in a loop it is empty."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Keeps nothing of what it is given: a method, as `parse` of hyperparameters, might have changed it."""

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
    """What is computed from a stand-in is one: it may be printed or handed on, and asking for its value is an error."""
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
    """What a training gives that was not run. Scripts compute with it, compare it and print it before they go on."""

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
    """A module that has every name: a class where it begins with a capital letter, something that does nothing else; those
    in `known` are more than that. `on_use` is called with the name of the module whenever something of it is used."""

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
        """`from package import name` asks for a module of that name, where it is missing."""
        self._on_use(self.__name__)
        return _blank(self.__name__)(*args, **kwargs)


def made_for(module: str, name: str, known: dict[str, Any]) -> Any:
    """What stands for a name of a module."""
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
    """Names by which Python and libraries ask what an object can do; nothing is to be pretended there."""
    return name.startswith("__") and name.endswith("__")


def _blank(origin: str) -> Blank:
    blank = Blank()
    vars(blank)[_ORIGIN] = origin if len(origin) <= LONGEST_ORIGIN else f"{origin[:LONGEST_ORIGIN].removesuffix('...')}..."
    return blank


def _origin(blank: Blank) -> str:
    """`spacy.load(...).vocab`: where it comes from, as far as that can be written down."""
    made_by = f"{type(blank).__module__}.{type(blank).__qualname__}(...)"
    return str(vars(blank).get(_ORIGIN, made_by))


def _refuse(blank: Blank, what: str) -> NoReturn:
    if isinstance(blank, NoResult):
        raise StandInError(f"what the training gives is used as {what}, and the training was not run")
    raise StandInError(
        f"{_origin(blank)} is only a stand-in, because its module is not there, and is used as {what}: "
        "where the data depend on it, its package must be installed"
    )
