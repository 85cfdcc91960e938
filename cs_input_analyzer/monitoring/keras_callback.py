"""`KerasInputMonitor`: watches `model.fit`.

Keras pulls its batches inside its train function, so how long it waits for them cannot be seen. What can: when each call of that
function begins. (`on_train_batch_end` would make Keras read the loss for every step, which waits for the accelerator; so that one
is not used.) The verdict compares the rate of training with the rate of the dataset alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, Literal

import keras

from cs_input_analyzer.errors import UsageError, typed
from cs_input_analyzer.monitoring.alone import Alone, measure_alone, verdict_of
from cs_input_analyzer.monitoring.monitor import Monitor
from cs_input_analyzer.monitoring.settings import Settings


class KerasInputMonitor(Monitor, keras.callbacks.Callback):  # type: ignore[misc]
    """A callback of `model.fit` that says how fast training is, and whether it waits for its input.

        monitor = csia.KerasInputMonitor(batch_size=256, dataset=dataset, log_dir="logs")
        model.fit(dataset, epochs=3, callbacks=[monitor])
        print(monitor.summary())

    With `dataset` it reads that alone for some seconds when training is over: at its beginning that would take the first elements
    of a source that can be read only once, and change the order that `shuffle` gives to the training. Without it, or where `fit`
    was interrupted, there are rates and the verdict `unknown`.

    Args:
        batch_size: samples in a batch; each step counts as a full one.
        dataset: what `fit` is given.
        measure: `after` the training, or `before` it, for a verdict while it runs.
        measure_s: for how long.
        options: as for `InputMonitor`.
    """

    def __init__(
        self,
        batch_size: int,
        dataset: Any = None,
        *,
        measure: Literal["after", "before"] = "after",
        measure_s: float = 5.0,
        **options: Any,
    ) -> None:
        keras.callbacks.Callback.__init__(self)
        if measure not in ("after", "before"):
            raise UsageError(f"measure={measure!r}: `after` the training or `before` it")
        if not 0 < typed("measure_s", measure_s, float) < math.inf:
            raise UsageError(f"measure_s {measure_s}: seconds, more than 0")
        settings = Settings(source="keras", batch_size=batch_size, **options)
        self._begin(settings, batch_size, dataset, measure=measure, measure_s=measure_s, **options)
        self._dataset = dataset
        self._when = measure
        self._measure_s = measure_s
        self.input_alone: Alone | None = None  # what was measured of the dataset by itself
        missing = "no dataset was given to compare with" if dataset is None else "the dataset is read alone after training"
        self._compare(Alone(missing=missing))
        self._call: tuple[int, float] | None = None
        self._is_loaded = False
        self._began_s: float | None = None
        self._iterations: int | None = None
        self._epoch_steps = 0

    # --- what Keras calls -------------------------------------------------------------------------------------------------------

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        if self._when == "before":
            self._measure()
        self._is_loaded, self._call = False, None  # it may be another `fit` of the same callback
        self._began_s = self._watch.now()

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._call, self._epoch_steps = None, 0
        self._iterations = self._read_iterations()
        self._watch.mark("pass")

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        now = self._watch.now()
        if self._call is not None and not self._is_loaded:  # the call that traced and compiled is over
            self._loaded(now)
        count = self._steps_per_call()
        self._call = batch, now
        self._epoch_steps += count
        self._watch.took(now, None, float(self._watch.settings.batch_size or 1) * count, count)

    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._end_epoch()  # validation inside of fit: training pauses

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._end_epoch()
        self._watch.log(None, (logs or {}).get("loss"), then_every=self._watch.settings.log_every)
        self._watch.mark("pause")
        self._watch.finish()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._end_epoch()
        if self._when == "after":
            self._measure()
        self._watch.finish()

    # --- behind them ------------------------------------------------------------------------------------------------------------

    def _loaded(self, now_s: float) -> None:
        self._is_loaded = True
        if self._began_s is not None and now_s >= self._began_s:
            self._watch.compile_s = now_s - self._began_s
        self._watch.mark("loaded", now_s)

    def _end_epoch(self) -> None:
        """The last call of a pass is over; only now is it known how many steps it held."""
        if self._call is None:
            return
        now, self._call = self._watch.now(), None
        before, after = self._iterations, self._read_iterations()
        missing = 0 if before is None or after is None else self._epoch_steps - (after - before)
        # The last call may be short, and where Keras could not know of the end, an empty one came after it. Where more is missing,
        # or all, this optimizer counts something else: steps without an overflow, say, or nothing where a GAN uses others.
        if 0 < missing < min(2 * self._steps_per_call(), self._epoch_steps):
            self._watch.uncount(missing, float(missing * (self._watch.settings.batch_size or 1)))
            self._watch.mark("pause")  # a call that was shorter than it seemed is no measure of a step
        if not self._is_loaded:
            self._loaded(now)
        self._watch.mark("end", now)

    def _steps_per_call(self) -> int:
        try:
            return max(1, int(getattr(self.model, "steps_per_execution", 1) or 1))
        except (TypeError, ValueError):
            return 1

    def _read_iterations(self) -> int | None:
        """Steps that the optimizer was called for. Read only where Keras itself has waited for the accelerator."""
        try:
            return int(self.model.optimizer.iterations.numpy())
        except Exception:  # no optimizer, or a backend that has it otherwise
            return None

    def _measure(self) -> None:
        if self._dataset is None:
            return
        try:
            self.input_alone = measure_alone(self._dataset, self._watch.settings.batch_size or 1, max_s=self._measure_s)
        except Exception as error:
            self.input_alone = Alone(missing=f"measuring the dataset failed: {type(error).__name__}: {error}")
        self._compare(self.input_alone)

    def _compare(self, alone: Alone) -> None:
        self._watch.judge = functools.partial(verdict_of, self._watch, alone)  # it may not hold `self`, which then would never go
