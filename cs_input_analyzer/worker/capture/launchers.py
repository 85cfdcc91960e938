"""Replace a launcher that is not installed: this process is rank 0 of 1, with no peers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from cs_input_analyzer.worker.capture.stand_ins import Blank

_HOROVOD = ("horovod", "byteps", "smdistributed")


def known_of(module: str) -> dict[str, Any]:
    """Return the names that a stand-in for `module` knows; none if it belongs to no launcher."""
    top = module.partition(".")[0]
    if top in _HOROVOD:
        return _LIKE_HOROVOD
    if top == "mpi4py":
        return dict.fromkeys(("COMM_WORLD", "COMM_SELF"), _Communicator())
    if module == "torch":
        return {"distributed": SimpleNamespace(**_LIKE_TORCH)}
    return _LIKE_TORCH if module == "torch.distributed" else {}


def notes_on(stood_in: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence that names the launchers among the stand-ins; nothing if there are none."""
    names = ", ".join(name for name in stood_in if known_of(name))
    return (f"{names}: not installed, so it answers as rank 0 of 1, and shards no data",) if names else ()


def _always(value: Any) -> Callable[..., Any]:
    """Return a function that takes any arguments and returns `value`."""
    return lambda *args, **kwargs: value


def _first(*args: Any, **kwargs: Any) -> Any:
    """Return the first argument: one process reduces, gathers or wraps only its own value."""
    return args[0] if args else next(iter(kwargs.values()), None)


def _listed(value: Any = None, *args: Any, **kwargs: Any) -> list[Any]:
    """Return the list that one process gathers from itself."""
    return [value]


_RANKS = ("rank", "local_rank", "cross_rank", "node_rank")
_SIZES = ("size", "local_size", "cross_size", "num_nodes")
_IDENTITIES = (
    "DistributedOptimizer",
    "DistributedGradientTape",
    "allreduce",
    "grouped_allreduce",
    "allgather",
    "alltoall",
    "broadcast",
    "broadcast_object",
    "push_pull",
)
_NOTHING = ("init", "shutdown", "barrier", "broadcast_variables", "broadcast_global_variables")
_ABSENT = (
    *(f"{name}_built" for name in ("mpi", "gloo", "nccl", "cuda", "rocm", "ccl", "ddl")),
    *("mpi_enabled", "gloo_enabled", "mpi_threads_supported"),
)
_LIKE_HOROVOD: dict[str, Any] = {
    **dict.fromkeys(_RANKS, _always(0)),
    **dict.fromkeys(_SIZES, _always(1)),
    **dict.fromkeys(_IDENTITIES, _first),
    **dict.fromkeys(_NOTHING, _always(None)),
    "allgather_object": _listed,
    "is_initialized": _always(True),
    "is_homogeneous": _always(True),
    "start_timeline": _always(True),
    "stop_timeline": _always(True),
    **dict.fromkeys(_ABSENT, _always(False)),
}
_LIKE_TORCH: dict[str, Any] = {
    "is_available": _always(False),
    "is_initialized": _always(False),
    "get_rank": _always(0),
    "get_world_size": _always(1),
    **dict.fromkeys(("init_process_group", "destroy_process_group", "barrier"), _always(None)),
}


class _Communicator(Blank):
    """Replace a communicator of MPI that holds this process only."""

    rank, size = 0, 1
    Get_rank, Get_size = staticmethod(_always(0)), staticmethod(_always(1))
    Barrier = barrier = staticmethod(_always(None))
    bcast = allreduce = reduce = staticmethod(_first)
    gather = allgather = staticmethod(_listed)

    @staticmethod
    def scatter(values: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the only part."""
        return values[0]
