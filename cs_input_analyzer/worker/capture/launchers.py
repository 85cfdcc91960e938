"""Replace Horovod, a launcher, where it is not installed: this process is rank 0 of 1, with no peers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def known_of(module: str) -> dict[str, Any]:
    """Return the names that a stand-in for `module` knows; none if it does not belong to Horovod."""
    return _OF_ONE if module.partition(".")[0] == "horovod" else {}


def notes_on(stood_in: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence that names the launcher among the stand-ins; nothing if there is none."""
    names = ", ".join(name for name in stood_in if known_of(name))
    return (f"{names}: not installed, so it answers as rank 0 of 1, and shards no data",) if names else ()


def _always(value: Any) -> Callable[..., Any]:
    """Return a function that takes any arguments and returns `value`."""
    return lambda *args, **kwargs: value


def _first(*args: Any, **kwargs: Any) -> Any:
    """Return the first argument: one process reduces, gathers or wraps only its own value."""
    return args[0] if args else next(iter(kwargs.values()), None)


_WRAPS = ("DistributedOptimizer", "DistributedGradientTape", "allreduce", "allgather", "broadcast", "broadcast_object")
_OF_ONE: dict[str, Any] = {
    **dict.fromkeys(("rank", "local_rank", "cross_rank"), _always(0)),
    **dict.fromkeys(("size", "local_size", "cross_size"), _always(1)),
    **dict.fromkeys(_WRAPS, _first),
    "is_initialized": _always(True),
}
