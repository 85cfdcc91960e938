"""`InputMonitorHook` of `tf.compat.v1` sessions: there for one more release, so that scripts which name it go on."""

from __future__ import annotations

import warnings
from typing import Any

import tensorflow as tf

DEPRECATED = (
    "InputMonitorHook watches nothing any more and goes with the next release, as Estimators left TensorFlow: "
    "use csia.InputMonitor(dataset) around a training loop, or csia.KerasInputMonitor with model.fit"
)


class InputMonitorHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Deprecated: a hook that does nothing. `InputMonitor` and `KerasInputMonitor` take its place."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        warnings.warn(DEPRECATED, DeprecationWarning, stacklevel=2)
