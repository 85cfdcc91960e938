"""What tests need of TensorFlow that older versions, which are measured as well, do not have."""

from __future__ import annotations

import pytest

from cs_input_analyzer.host.machine import tensorflow_version

VERSION = tuple(int(part) for part in (tensorflow_version() or "0.0").split(".")[:2])

HAS_ESTIMATORS = VERSION < (2, 16)
HAS_COSTS = VERSION >= (2, 17)
needs_costs = pytest.mark.skipif(not HAS_COSTS, reason="costs of ops need TensorFlow 2.17")
needs_named_iterators = pytest.mark.skipif(
    VERSION < (2, 17), reason="TensorFlow names the iterator of a failed function from 2.17 on"
)
needs_lost_estimators = pytest.mark.skipif(HAS_ESTIMATORS, reason="this TensorFlow has Estimators of its own")

# Ops of functions that older versions do not have, by name or by the beginning of it.
NOT_YET = frozenset({"DecodeWebP", "Sort"}) if VERSION < (2, 20) else frozenset[str]()
# Keras 2 refuses to execute several steps at a time of a dataset of unknown length.
needs_keras_3 = pytest.mark.skipif(VERSION < (2, 16), reason="Keras 3 comes with TensorFlow 2.16")
