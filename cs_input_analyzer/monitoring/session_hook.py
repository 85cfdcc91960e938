"""`InputMonitorHook`: watches a `tf.compat.v1` session, as Estimators and `MonitoredTrainingSession` run one.

The input is part of the graph there, so its waits are out of sight as they are under Keras, and the verdict comes from the same
comparison: the rate of training beside that of the input function alone, run in a session of its own when training is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from weakref import finalize

import tensorflow as tf

from cs_input_analyzer.monitoring import advice
from cs_input_analyzer.monitoring.alone import Alone, measure_in_session
from cs_input_analyzer.monitoring.input_monitor import Checkpoint, device_seen
from cs_input_analyzer.monitoring.outputs import print_line
from cs_input_analyzer.monitoring.rates import SMOOTHING
from cs_input_analyzer.monitoring.training_rate import Comparison, verdict_of
from cs_input_analyzer.monitoring.verdict import Verdict
from cs_input_analyzer.monitoring.watch import LOG_EVERY, Clock, Console, Settings, Summary, Watch

MEASURE_S = 5.0


class InputMonitorHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """A hook for `Estimator.train(hooks=[…])` or `MonitoredTrainingSession(hooks=[…])`.

        hook = csia.InputMonitorHook(batch_size=256, input_fn=train_input_fn, log_dir="logs")
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            while not session.should_stop():
                session.run(train_op)

    Steps are counted by the graph's global step where it has one (a run may make several), else as one a run. A run that makes
    none, an evaluation or a summary, is no step. Put `hook.checkpoint_listener()` into the `CheckpointSaverHook` to have its pauses
    marked.

    Args:
        input_fn: gives the dataset; without it there are rates, and the verdict `unknown`.
        The others are as for `InputMonitor` and `KerasInputMonitor`.
    """

    def __init__(
        self,
        batch_size: int,
        input_fn: Callable[[], Any] | None = None,
        *,
        measure_s: float = MEASURE_S,
        log_dir: str | Path | None = None,
        log_every: int = LOG_EVERY,
        smoothing: float = SMOOTHING,
        device: str | None = None,
        console: Console | None = print_line,
        tensorboard: bool = True,
        analysis: Any = None,
        est_samples_per_sec: float | None = None,
        clock: Clock = time.perf_counter,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        saved = advice.saved_run(analysis)
        settings = Settings(
            source="session",
            batch_size=batch_size,
            log_dir=log_dir,
            log_every=log_every,
            smoothing=smoothing,
            device=device or device_seen(),
            console=console,
            tensorboard=tensorboard,
            expected_per_s=est_samples_per_sec if est_samples_per_sec is not None else advice.expected_per_s(saved),
        )
        self._input_fn = input_fn
        self._measure_s = measure_s
        missing = "no input function was given to compare with" if input_fn is None else "it is run alone after training"
        self._compared = compared = Comparison(missing)
        self._watch = watch = Watch(settings, clock, environ)
        watch.judge = lambda: verdict_of(watch, compared)  # it may not hold `self`, which then would never go
        if saved is not None:
            watch.advise = lambda seen: advice.for_watch(saved, seen)
        self._global_step: Any = None
        self._last_step: int | None = None
        self._asked_s = 0.0
        self._is_loaded = False
        self._at_the_end = finalize(self, watch.close)

    # --- what the session calls -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._global_step = tf.compat.v1.train.get_global_step()
        self._is_loaded = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._last_step = None if self._global_step is None else int(session.run(self._global_step))
        self._watch.begin_pass()

    def before_run(self, run_context: Any) -> Any:
        self._asked_s = self._watch.now()
        return None if self._global_step is None else tf.compat.v1.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        now, count = self._watch.now(), 1
        if self._global_step is not None:
            # A run may read the global step before it increments it: then the first run counts for none, and the others are right.
            step = int(run_values.results)
            count, self._last_step = step - (self._last_step or 0), step
        if count < 1:
            return
        self._watch.took(self._asked_s, None, float((self._watch.settings.batch_size or 1) * count), count)
        if not self._is_loaded:  # the first one also places and optimises the graph
            self._is_loaded = True
            self._watch.compile_s = max(0.0, now - self._asked_s)
            self._watch.loaded(now)

    def end(self, session: Any) -> None:
        self._watch.end_pass(self._watch.now())
        if self._input_fn is not None:
            self._compared.alone = measure_in_session(self._input_fn, self._watch.settings.batch_size or 1, self._measure_s)
        self._watch.finish()

    # --- for the user -----------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> AbstractContextManager[None]:
        """Around whatever saves a checkpoint."""
        return Checkpoint(self._watch)

    def checkpoint_listener(self) -> Any:
        """A listener for `CheckpointSaverHook(listeners=[…])`, which marks each save."""
        return _SaverListener(self._watch)

    @property
    def verdict(self) -> Verdict:
        """Whether training waits for its input, as far as known by now."""
        return self.summary().verdict

    @property
    def input_alone(self) -> Alone | None:
        """What was measured of the input function by itself; None before that."""
        return self._compared.alone

    def summary(self) -> Summary:
        """All that was seen so far."""
        return self._watch.summary()

    def close(self) -> None:
        """Writes what is left and closes the files."""
        self._at_the_end.detach()
        self._watch.close()


class _SaverListener(tf.compat.v1.train.CheckpointSaverListener):  # type: ignore[misc]
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._began_s = 0.0

    def before_save(self, session: Any, global_step_value: int) -> None:
        self._began_s = self._watch.now()

    def after_save(self, session: Any, global_step_value: int) -> None:
        self._watch.checkpoint(self._began_s, self._watch.now())
