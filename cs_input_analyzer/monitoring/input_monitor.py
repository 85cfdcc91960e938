"""`InputMonitor`: watches a training loop from the side of its iterator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, TypeVar

from cs_input_analyzer.monitoring.counting import Count, counter
from cs_input_analyzer.monitoring.monitor import Monitor
from cs_input_analyzer.monitoring.settings import Settings
from cs_input_analyzer.monitoring.watch import Watch

Batch = TypeVar("Batch")


class InputMonitor(Monitor, Generic[Batch]):
    """Iterates over anything, a `tf.data.Dataset` for one, and says how fast and whether the training waits for its input.

        with csia.InputMonitor(dataset, batch_size=256, log_dir="logs") as monitor:
            for step, batch in enumerate(monitor, start=1):
                loss = train_step(batch)
                if step % 50 == 0:
                    monitor.log(loss=loss)  # reads the loss, which waits for the accelerator

    Where a framework dispatches asynchronously, waiting on the host is not waiting on the accelerator, so a verdict is given only
    for stretches that end where the loop has waited for a result: `log(loss=…)` or `sync()`. Without either there are rates, and
    the verdict `unknown`. It synchronises nothing by itself. It may be iterated again (each pass over the data is another epoch),
    and nested in or beside other monitors. Iterators that raise or end do so as they would without it.

    Args:
        iterable: what the loop iterates over; None where the loop fetches by itself, inside `with monitor.waiting():`.
        batch_size: samples in a full batch. Batches that have a size of their own (a `shape`) are counted; None: only those.
        options: log_dir, log_every, smoothing, device, console, tensorboard, analysis, est_samples_per_sec, clock, environ, as
            `monitoring.settings.Settings` has them.

    Raises:
        UsageError: a number above makes no sense. Nothing else raises later on.
    """

    def __init__(self, iterable: Iterable[Batch] | None = None, batch_size: int | None = None, **options: Any) -> None:
        self._begin(Settings(source="iterator", batch_size=batch_size, **options), iterable, batch_size, **options)
        self._iterable = iterable
        self._count = counter(batch_size)
        self._pass: _Pass[Batch] | None = None

    def __iter__(self) -> Iterator[Batch]:
        if self._iterable is None:
            raise TypeError("this InputMonitor wraps nothing; fetch inside `with monitor.waiting():`")
        self._pass = _Pass(iter(self._iterable), self._watch, self._count)
        self._watch.mark("pass")
        return self._pass

    def __next__(self) -> Batch:
        """The next batch of the pass that was begun last; begins one if there is none."""
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
        """Around the loop's own way to fetch a batch: `with monitor.waiting(): batch = iterator.get_next()`.

        `samples` in it: by default a full batch.
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
        """The loop has just waited until the accelerator was done (it read a result, say)."""
        self._watch.mark("sync")

    def log(self, *, loss: Any = None, step: int | None = None) -> None:
        """A log step: prints the line, writes the scalars, judges. As `sync`, it says that the accelerator is done.

        Args:
            loss: a number, or a tensor that is read here, which waits for the accelerator; without one, the loop must have read a
                result just before.
            step: the global step; by default the steps seen here.
        """
        self._watch.log(step, loss)

    def loaded(self) -> None:
        """The executable is loaded (a first step has compiled it): GlobalRate counts time and samples from here."""
        self._watch.mark("loaded")


class _Pass(Iterator[Batch]):
    """One pass over the data. Only the pass that was begun last is watched; an older one still gives its batches."""

    __slots__ = ("__weakref__", "_count", "_is_over", "_iterator", "_watch")

    def __init__(self, iterator: Iterator[Batch], watch: Watch, count: Count) -> None:
        self._iterator, self._watch, self._count = iterator, watch, count
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
            watch.took(asked, watch.now(), self._count(batch))
        except Exception as error:  # a batch whose attributes raise
            watch.give_up(error)
        return batch
