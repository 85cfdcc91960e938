"""How many samples are in a batch, read off its shape: the last batch of a pass is often short, and a count taken on trust would
report samples that nobody saw. Works on anything with a `shape`; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Count = Callable[[Any], float | None]
Path = tuple[Any, ...]

MOST_LEAVES = 64
DEEPEST = 4


def counter(batch_size: int | None) -> Count:
    """A function that counts the samples of batches, in the way that the first one allows."""
    count: Count | None = None

    def counted(batch: Any) -> float | None:
        nonlocal count
        if count is None:
            count = counter_for(batch, batch_size)
        return count(batch)

    return counted


def counter_for(batch: Any, batch_size: int | None) -> Count:
    """A function that counts the samples of batches like this one; it gives None where they cannot be counted.

    Args:
        batch_size: where the user said it, the axis of that size is counted, whichever it is (`[time, batch]` layouts). Without it,
            or where no axis has that size as the first batch is itself short, the first axis, if all components agree on it.
    """
    shaped = [(path, shape) for path, shape in _shapes(batch) if shape]
    by_axis = sorted(
        (axis, position) for position, (_, shape) in enumerate(shaped) for axis, size in enumerate(shape) if size == batch_size
    )
    if by_axis:
        axis, position = by_axis[0]
        return _by_axis(shaped[position][0], axis, batch_size)
    leading = {shape[0] for _, shape in shaped}
    if leading and (batch_size is None or (len(leading) == 1 and 0 < min(leading) < batch_size)):
        return _by_axis(shaped[0][0], 0, batch_size)
    declared = None if batch_size is None else float(batch_size)
    if declared is not None and not shaped and isinstance(batch, list) and 0 < len(batch) <= declared:
        return lambda one: float(len(one))
    return lambda one: declared


def _by_axis(path: Path, axis: int, declared: int | None) -> Count:
    def count(batch: Any) -> float | None:
        try:
            for key in path:
                batch = batch[key]
            return float(batch.shape[axis])
        except (TypeError, LookupError, AttributeError, ValueError):  # a batch unlike the first, or a size that is not known
            return None if declared is None else float(declared)

    return count


def _shapes(batch: Any, path: Path = ()) -> Iterator[tuple[Path, tuple[int, ...]]]:
    """Paths and shapes of the components, depth first; those without a known shape have none."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        yield path, _sizes(shape)
    elif isinstance(batch, Mapping) and len(path) < DEEPEST:
        for key in list(batch)[:MOST_LEAVES]:
            yield from _shapes(batch[key], (*path, key))
    elif isinstance(batch, list | tuple) and len(path) < DEEPEST:
        for index, part in enumerate(batch[:MOST_LEAVES]):
            yield from _shapes(part, (*path, index))


def _sizes(shape: Any) -> tuple[int, ...]:
    try:
        return tuple(-1 if size is None else int(size) for size in shape)
    except (TypeError, ValueError):  # unknown rank
        return ()
