"""Take chance out of the Python functions of a pipeline: each call draws the same numbers, like each random op."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

import numpy as np

SEED = 20_211
# A function may wait for another one that waits for it: then both go on without the turn.
LONGEST_TURN_S = 1.0
# Functions that are looked through for generators of their own.
MOST_FUNCTIONS = 64
_GENERATORS = (random.Random, np.random.RandomState, np.random.Generator)


# Those that `random.random()` and `np.random.random()` draw from.
_SHARED: tuple[Any, ...] = (random.getstate.__self__, np.random.mtrand._rand)  # type: ignore[attr-defined]


@contextmanager
def fixed_draws() -> Iterator[None]:
    """Seed Python's and numpy's generators anew before each call of a user's Python function. Restore them at the end.

    One call runs at a time, because all draw from the same generators. A generator of elements (`from_generator`) is left alone:
    with the same draws in each step its elements would be all alike, and a comparison would show little.
    """
    from tensorflow.python.ops.script_ops import FuncRegistry

    turn, seen = threading.Lock(), dict[int, tuple[Any, list[Any]]]()
    states: list[tuple[Any, Any]] = [(one, _state_of(one)) for one in _SHARED]
    call = FuncRegistry.__call__

    def drawn_alike(registry: Any, token: Any, device: Any, args: Any) -> Any:
        function = registry.get(token, None)
        # tf.data's own around a generator of elements is left alone.
        if function is None or str(getattr(_plain(function), "__module__", "")).startswith("tensorflow.python.data."):
            return call(registry, token, device, args)
        has_turn = turn.acquire(timeout=LONGEST_TURN_S)
        try:
            if id(function) not in seen:
                seen[id(function)] = function, list(generators_of(function))
                states.extend((one, _state_of(one)) for one in seen[id(function)][1])
            for generator in (*_SHARED, *seen[id(function)][1]):
                _seed(generator)
            return call(registry, token, device, args)
        finally:
            if has_turn:
                turn.release()

    FuncRegistry.__call__ = drawn_alike
    try:
        yield
    finally:
        FuncRegistry.__call__ = call
        for generator, state in reversed(states):
            _put_back(generator, state)


@contextmanager
def seeded() -> Iterator[None]:
    """Give Python's and numpy's generators the same state each time: an input function that runs twice draws the same.

    At the end they get their previous state back.
    """
    states = [(one, _state_of(one)) for one in _SHARED]
    for generator in _SHARED:
        _seed(generator)
    try:
        yield
    finally:
        for generator, state in states:
            _put_back(generator, state)


def generators_of(function: Any) -> Iterator[Any]:
    """Yield the random generators that a function reaches: its globals, its closure, the attributes of its object."""
    pending, seen = [_plain(function)], set[int]()
    while pending and len(seen) < MOST_FUNCTIONS:
        value = pending.pop()
        if id(value) in seen:
            continue
        # A `SystemRandom` has no state that could be set.
        if isinstance(value, _GENERATORS) and not isinstance(value, random.SystemRandom):
            yield value
        seen.add(id(value))
        pending += filter(_may_hold, _held_by(value))


def _held_by(value: Any) -> Iterator[Any]:
    if isinstance(value, MethodType):
        yield from (value.__func__, *vars(value.__self__).values()) if hasattr(value.__self__, "__dict__") else (value.__func__,)
    elif isinstance(value, FunctionType):
        yield from (value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__)
        yield from (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
    elif isinstance(value, tuple | list):
        yield from value[:MOST_FUNCTIONS]
    elif not isinstance(value, _GENERATORS):  # an object that can be called, or a `functools.partial`
        yield from (getattr(value, "func", None), *getattr(value, "__dict__", {}).values())


def _may_hold(value: Any) -> bool:
    return isinstance(value, (*_GENERATORS, tuple, list)) or (callable(value) and not isinstance(value, type))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _plain(function: Any) -> Any:
    """Return the user's function inside that of a `py_function`."""
    return getattr(function, "_func", function)


def _seed(generator: Any) -> None:
    if isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator
        bits.state = type(bits)(SEED).state
    else:
        generator.seed(SEED)


def _state_of(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state() if isinstance(generator, np.random.RandomState) else generator.getstate()


def _put_back(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator
        bits.state = state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.setstate(state)
