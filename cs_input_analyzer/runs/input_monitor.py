"""`InputMonitor`: watch a training loop from the side of its iterator, and count the samples of its batches by their shapes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, TypeVar

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.runs.monitor import Monitor
from cs_input_analyzer.runs.watch import Watch

Batch = TypeVar("Batch")

# Of batches in dictionaries and tuples inside each other.
DEEPEST = 4


def samples_in(batch: Any, batch_size: int | None) -> float | None:
    """Return the samples of a batch: its first dimension, as the last batch of a pass is often short.

    A batch without a shape, or with a first dimension above `batch_size` (`[time, batch]`), counts as a full one. So does a list
    of `batch_size` entries, such as pictures of different sizes.
    """
    declared = None if batch_size is None else float(batch_size)
    leading = _leading(batch, DEEPEST, declared)
    return declared if leading is None or (declared is not None and leading > declared) else leading


def _leading(batch: Any, deepest: int, full: float | None) -> float | None:
    """Return the first dimension of the first component that has a known one, or the length of a list that holds `full` entries."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        try:
            return float(shape[0])
        except (TypeError, LookupError, ValueError):  # a scalar, or a size or rank that is not known
            return None
    parts: Iterable[Any] = ()
    if deepest and isinstance(batch, Mapping):
        parts = batch.values()
    elif deepest and isinstance(batch, list | tuple):
        if len(batch) == full:
            return full
        parts = batch
    return next((size for part in parts if (size := _leading(part, deepest - 1, full)) is not None), None)


def _is_endless(iterable: Any) -> bool:
    """Return whether TensorFlow traces a function around a dataset: the dataset's iterator never ends in there."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and hasattr(iterable, "element_spec") and bool(tensorflow.inside_function())


class InputMonitor(Monitor, Generic[Batch]):
    """Iterate over anything, and say how fast the training is and whether it waits for its input.

        with csia.InputMonitor(dataset, batch_size=256, log_dir="logs") as monitor:
            for step, batch in enumerate(monitor, start=1):
                loss = train_step(batch)
                if step % 50 == 0:
                    monitor.log(loss=loss)  # reads the loss, which waits for the accelerator

    A verdict needs stretches that end where the loop has waited for a result: `log(loss=…)` or `sync()`. A framework dispatches
    asynchronously, so the host's wait alone says nothing about the accelerator. Without either there are rates, and the verdict
    `unknown`. The monitor synchronises nothing by itself. It may be iterated again, and nested in or beside other monitors.
    Iterators raise and end as they would without it.

    Args:
        iterable: what the loop iterates over; None if the loop fetches by itself, inside `with monitor.waiting():`.
        batch_size: samples in a full batch. Batches with a `shape` are counted by it; None: only those.
        options: log_dir, log_every, device, console, tensorboard, clock, environ: see `runs.settings`.

    Raises:
        UsageError: a value above makes no sense, or it is iterated inside a tf.function. Nothing else raises later on.
    """

    def __init__(self, iterable: Iterable[Batch] | None = None, batch_size: int | None = None, **options: Any) -> None:
        self._begin("iterator", iterable, options={"batch_size": batch_size, **options})
        self._iterable = iterable
        self._pass: _Pass[Batch] | None = None

    def __iter__(self) -> Iterator[Batch]:
        if self._iterable is None:
            raise TypeError("this InputMonitor wraps nothing; fetch inside `with monitor.waiting():`")
        if _is_endless(self._iterable):
            raise UsageError("a dataset in an InputMonitor has no end inside a tf.function; iterate over it outside")
        self._pass = _Pass(iter(self._iterable), self._watch)
        self._watch.mark("pass")
        return _Held(self._pass, self)

    def __next__(self) -> Batch:
        """Return the next batch of the pass that was begun last; begin one if there is none."""
        if self._pass is None:
            iter(self)
        assert self._pass is not None
        return next(self._pass)

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> InputMonitor[Batch]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def waiting(self, samples: float | None = None) -> Iterator[None]:
        """Surround the loop's own way to fetch a batch: `with monitor.waiting(): batch = iterator.get_next()`.

        Args:
            samples: in the batch; by default a full one.
        """
        held = samples if samples is not None else self._watch.settings.batch_size
        asked_s = self._watch.now()
        try:
            yield
        except BaseException as error:
            if isinstance(error, StopIteration) or type(error).__name__ == "OutOfRangeError":
                self._watch.end_pass(asked_s)
            else:
                self._watch.failed(asked_s, error)
            raise
        self._watch.took(asked_s, self._watch.now(), None if held is None else float(held))

    def sync(self) -> None:
        """Say that the loop has just waited until the accelerator was done; it read a result, say."""
        self._watch.mark("sync")

    def log(self, *, loss: Any = None, step: int | None = None) -> None:
        """Print the line, write the scalars, and judge. As `sync`, it says that the accelerator is done.

        Args:
            loss: a number, or a tensor that is read here, which waits for the accelerator; without one, the loop must have read a
                result just before.
            step: the global step; by default the steps seen here.
        """
        self._watch.log(step, loss)

    def loaded(self) -> None:
        """Say that the executable is loaded (a first step has compiled it): GlobalRate counts from here."""
        self._watch.mark("loaded")


class _Held(Iterator[Batch]):
    """One pass, and its monitor: a loop over a temporary monitor holds this alone, and without the monitor the watching ends.

    The pass itself must not hold the monitor, which holds the pass: a circle is collected late.
    """

    __slots__ = ("__weakref__", "_monitor", "_pass")

    def __init__(self, one_pass: _Pass[Batch], monitor: InputMonitor[Batch]) -> None:
        self._pass, self._monitor = one_pass, monitor

    def __iter__(self) -> _Held[Batch]:
        return self

    def __next__(self) -> Batch:
        return next(self._pass)


class _Pass(Iterator[Batch]):
    """One pass over the data. Only the pass that was begun last is watched; an older one still gives its batches."""

    __slots__ = ("__weakref__", "_is_over", "_iterator", "_watch")

    def __init__(self, iterator: Iterator[Batch], watch: Watch) -> None:
        self._iterator, self._watch = iterator, watch
        self._is_over = False
        watch.current = self

    def __iter__(self) -> _Pass[Batch]:
        return self

    def __next__(self) -> Batch:
        watch = self._watch
        if watch.current is not self or not watch.is_watching:
            return next(self._iterator)
        asked = watch.now()
        try:
            batch = next(self._iterator)
        except StopIteration:
            if not self._is_over:  # an iterator may be asked again after its end
                self._is_over = True
                watch.end_pass(asked)
            raise
        except BaseException as error:
            watch.failed(asked, error)
            raise
        try:
            watch.took(asked, watch.now(), samples_in(batch, watch.settings.batch_size))
        except Exception as error:  # a batch whose attributes raise
            watch.give_up(error)
        return batch
