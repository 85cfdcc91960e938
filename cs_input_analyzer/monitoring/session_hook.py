"""`InputMonitorHook` of `tf.compat.v1` sessions: kept for one release, as Estimators left TensorFlow."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from cs_input_analyzer.monitoring.monitor import Monitor
from cs_input_analyzer.monitoring.settings import Settings
from cs_input_analyzer.monitoring.verdict import Verdict

DEPRECATED = Verdict(
    name="unknown",
    why="InputMonitorHook goes with the next release, as Estimators left TensorFlow: it still shows rates, and gives no verdict "
    "any more; use csia.InputMonitor(dataset) around a training loop, or csia.KerasInputMonitor with model.fit",
)


class InputMonitorHook(Monitor, tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Deprecated: shows the rates of a session, by the graph's global step; its verdict is `unknown`. The others take its place."""

    input_alone = None

    def __init__(
        self, batch_size: int, input_fn: Callable[[], Any] | None = None, *, measure_s: float = 5.0, **options: Any
    ) -> None:
        warnings.warn(DEPRECATED.why, DeprecationWarning, stacklevel=2)
        self._begin(Settings(source="session", batch_size=batch_size, **options), batch_size, input_fn, **options)
        self._watch.judge = lambda: DEPRECATED
        self._batch_size, self._step = batch_size, 0

    def begin(self) -> None:
        self._global_step = tf.compat.v1.train.get_or_create_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._step = int(session.run(self._global_step))
        self._watch.mark("pass")

    def before_run(self, run_context: Any) -> Any:
        self._asked_s = self._watch.now()
        return tf.compat.v1.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        count, self._step = int(run_values.results) - self._step, int(run_values.results)
        if count > 0:  # an evaluation or a summary is no step
            self._watch.took(self._asked_s, None, float(self._batch_size * count), count)

    def end(self, session: Any) -> None:
        self._watch.end_pass(self._watch.now())

    def checkpoint_listener(self) -> Any:
        """A listener for `CheckpointSaverHook`, which does nothing: pauses are found by their length."""
        return tf.compat.v1.train.CheckpointSaverListener()
