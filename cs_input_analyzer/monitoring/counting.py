"""How many samples are in a batch, read off its shape: the last batch of a pass is often short, and a count taken on trust would
report samples that nobody saw. Works on anything with a `shape`; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Count = Callable[[Any], float | None]
Path = tuple[Any, ...]

MOST_LEAVES = 64
DEEPEST = 4


def counter_for(batch: Any, batch_size: int | None) -> Count:
    """A function that counts the samples of batches like this one; it gives None where they cannot be counted.

    Args:
        batch_size: where the user said it, the axis of that size is counted, whichever it is (`[time, batch]` layouts); without it
            the first axis. A first batch that is itself short has no such axis: then the first one, if all components agree on it.
    """
    shapes = list(_shapes(batch))
    if batch_size is None:
        found = next((path for path, shape in shapes if shape), None)
        return _by_axis(found, 0, None) if found is not None else lambda batch: None
    by_axis = sorted(
        (axis, position) for position, (_, shape) in enumerate(shapes) for axis, size in enumerate(shape) if size == batch_size
    )
    if by_axis:
        axis, position = by_axis[0]
        return _by_axis(shapes[position][0], axis, float(batch_size))
    leading = {shape[0] for _, shape in shapes if shape}
    if len(leading) == 1 and 0 < next(iter(leading)) < batch_size:
        return _by_axis(next(path for path, shape in shapes if shape), 0, float(batch_size))
    if not any(shape for _, shape in shapes) and isinstance(batch, list | tuple) and 0 < len(batch) <= batch_size:
        return lambda one: float(len(one))
    declared = float(batch_size)
    return lambda one: declared


def contradiction(batch: Any, batch_size: int | None) -> int | None:
    """The first dimension of all components, where it is larger than `batch_size` and no other one is as large; else None.

    A smaller one may be a batch that is short.
    """
    shapes = [shape for _, shape in _shapes(batch) if shape]
    leading = {shape[0] for shape in shapes}
    if batch_size is None or len(leading) != 1 or any(batch_size in shape for shape in shapes):
        return None
    (first,) = leading
    return first if first > batch_size else None


def _by_axis(path: Path, axis: int, declared: float | None) -> Count:
    def count(batch: Any) -> float | None:
        try:
            for key in path:
                batch = batch[key]
            return float(batch.shape[axis])
        except (TypeError, LookupError, AttributeError, ValueError):  # a batch unlike the first, or a size that is not known
            return declared

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
