"""The random generators that a Python function of a pipeline draws from."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from cs_input_analyzer.tfdata.python_chance import fixed_draws, generators_of

OWN, BY_SYSTEM = random.Random(7), random.SystemRandom()


def drawing(value: Any) -> float:
    return OWN.random() + BY_SYSTEM.random() + float(value)


def test_a_generator_without_a_state_is_left_alone() -> None:
    assert list(generators_of(drawing)) == [OWN]


@pytest.mark.tf
def test_a_function_that_draws_from_the_system_runs_as_it_is() -> None:
    import tensorflow as tf

    state = OWN.getstate()
    dataset = tf.data.Dataset.range(3).map(lambda x: tf.numpy_function(drawing, [x], tf.float64))
    with fixed_draws():
        drawn = list(dataset.as_numpy_iterator())
    assert OWN.getstate() == state
    assert len(np.unique(drawn)) == 3
