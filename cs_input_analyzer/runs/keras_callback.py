"""`KerasInputMonitor`: watch `model.fit`.

Keras pulls its batches inside its train function, so its wait for them is not visible. The start of each call can be
seen. (`on_train_batch_end` would make Keras read the loss of every step, which waits for the accelerator.) The verdict
compares the rate of training with the rate of the dataset alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import keras

from cs_input_analyzer.errors import UsageError, typed
from cs_input_analyzer.runs.in_process import measure_alone
from cs_input_analyzer.runs.monitor import Monitor
from cs_input_analyzer.runs.verdict import InputAlone


class KerasInputMonitor(Monitor, keras.callbacks.Callback):  # type: ignore[misc]
    """A callback of `model.fit` that says how fast training is, and whether it waits for its input.

        monitor = csia.KerasInputMonitor(batch_size=256, dataset=dataset, log_dir="logs")
        model.fit(dataset, epochs=3, callbacks=[monitor])
        print(monitor.summary())

    With `dataset` it reads that alone for some seconds when training is over. At its beginning that would take the first elements
    of a source that can be read only once, and change the order that `shuffle` gives to the training. Without it, or if `fit` was
    interrupted, there are rates and the verdict `unknown`.

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
        # Else Keras 2 reads the loss of every step for the callback, which waits for the accelerator.
        self._supports_tf_logs = True
        if measure not in ("after", "before"):
            raise UsageError(f"measure={measure!r}: `after` the training or `before` it")
        if not 0 < typed("measure_s", measure_s, float) < math.inf:
            raise UsageError(f"measure_s {measure_s}: seconds, more than 0")
        options = {"batch_size": batch_size, **options}
        self._begin("keras", options=options, dataset=dataset, measure=measure, measure_s=measure_s)
        if dataset is None:
            self._watch.alone = InputAlone(missing="no dataset was given to compare with")
        self._dataset = dataset
        self._when = measure
        self._measure_s = measure_s
        self._is_calling = False
        self._is_loaded = False
        self._iterations: tuple[int, ...] = ()
        self._epoch_steps = 0
        self._validates_from_s: float | None = None

    @property
    def input_alone(self) -> InputAlone:
        """Return the measurement of the dataset by itself."""
        return self._watch.alone

    # --- what Keras calls -------------------------------------------------------------------------------------------------------

    # Keras 2 asks each callback these. With `TF_USE_LEGACY_KERAS=1` the callback is still one of Keras 3, which lacks them.
    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Measure the dataset alone if that comes before the training."""
        if self._when == "before":
            self._measure()
        self._is_loaded, self._is_calling = False, False  # it may be another `fit` of the same callback

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Note the start of a pass."""
        self._is_calling, self._epoch_steps = False, 0
        self._iterations = self._read_iterations()
        self._watch.mark("pass")

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Note the start of a step."""
        now = self._watch.now()
        if self._is_calling and not self._is_loaded:  # the call that traced and compiled is over
            self._loaded(now)
        count = self._steps_per_call()
        self._is_calling = True
        self._epoch_steps += count
        self._watch.took(now, None, self._samples(count), count)

    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Note the start of an evaluation."""
        self._validates_from_s = self._watch.now() if self._is_calling else None
        self._end_epoch()  # validation inside of fit: training pauses

    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Note the end of an evaluation."""
        if self._validates_from_s is not None:
            self._watch.mark("evaluation", began_s=self._validates_from_s)
        self._validates_from_s = None

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Note the end of a pass."""
        self._end_epoch()
        self._watch.log(None, (logs or {}).get("loss"), then_every=self._watch.settings.log_every)
        self._watch.mark("pause")
        self._watch.finish()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Measure the dataset alone if that comes after the training, and finish the watch."""
        self._end_epoch()
        if self._when == "after":
            self._measure()
        self._watch.finish()

    # --- behind them ------------------------------------------------------------------------------------------------------------

    def _loaded(self, now_s: float) -> None:
        self._is_loaded = True
        self._watch.mark("loaded", now_s)

    def _end_epoch(self) -> None:
        """End the last call of a pass; only now is it known how many steps it held."""
        if not self._is_calling:
            return
        now, self._is_calling = self._watch.now(), False
        ran = [after - before for before, after in zip(self._iterations, self._read_iterations(), strict=False)]
        # The last call may be short, and if Keras could not know of the end, an empty one came after it. Where more is missing,
        # or all, an optimizer counts something else: steps without an overflow, say, or nothing where a GAN uses others.
        most = min(2 * self._steps_per_call(), self._epoch_steps)
        missing = min((one for steps in ran if 0 <= (one := self._epoch_steps - steps) < most), default=0)
        if missing:
            self._watch.uncount(missing, self._samples(missing))
            self._watch.mark("pause")  # a call that was shorter than it seemed is no measure of a step
        if not self._is_loaded:
            self._loaded(now)
        self._watch.mark("end", now)

    def _samples(self, steps: int) -> float:
        return float(steps * (self._watch.settings.batch_size or 1))

    def _steps_per_call(self) -> int:
        try:
            return max(1, int(getattr(self.model, "steps_per_execution", 1) or 1))
        except (TypeError, ValueError):
            return 1

    def _read_iterations(self) -> tuple[int, ...]:
        """Return the steps that each optimizer was called for. Call it only where Keras itself has waited for the accelerator.

        A GAN has optimizers of its own, as attributes of its model.
        """
        try:
            owned = [self.model.optimizer, *vars(self.model).values()]
            optimizers = {id(one): one for one in owned if hasattr(one, "iterations")}
            return tuple(int(one.iterations.numpy()) for one in optimizers.values())
        except Exception:  # no optimizer, or a backend that has it otherwise
            return ()

    def _measure(self) -> None:
        if self._dataset is not None:
            samples = self._watch.settings.batch_size or 1
            self._watch.alone = measure_alone(self._dataset, samples, max_s=self._measure_s)
