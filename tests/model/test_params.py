"""Steps, epochs and precision, as public params files name them."""

from __future__ import annotations

from typing import Any

import pytest

from cs_input_analyzer.model.params import training_of
from cs_input_analyzer.records import Training


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"runconfig": {"max_steps": 100, "eval_steps": 5}}, Training(steps=100)),
        ({"train_steps": 9, "runconfig": {"max_steps": 100}}, Training(steps=100)),
        ({"eval_input": {"max_steps": 3}}, Training()),
        ({"trainer": {"steps_per_epoch": 10, "num_epochs": 3}}, Training(steps=30)),
        ({"max_steps": 100, "epochs": 3}, Training(steps=100, epochs=3)),
        ({"max_steps": -1, "num_steps": "many", "train_steps": True}, Training()),
        ({"model": {"mixed_precision": True}}, Training(half="float16")),
        ({"model": {"mixed_precision": True, "fp16_type": "cbfloat16"}}, Training(half="cbfloat16")),
        ({"model": {"mixed_precision": False}}, Training()),
        ({"model": {"mixed_precision": False, "fp16_type": "cbfloat16"}}, Training()),
        ({"mixed_precision": True, "use_bfloat16": True}, Training(half="bfloat16")),
        ({"mixed_precision": True, "use_bfloat16": False}, Training(half="float16")),
        ({"fp16_type": "float32"}, Training()),
        ({"fp16_type": "float16"}, Training(half="float16")),
        ({"fp16": True}, Training(half="float16")),
        ({"fp16": {"enabled": True, "loss_scale": 0}}, Training(half="float16")),
        ({"fp16": {"enabled": False, "initial_scale_power": 16}}, Training()),
        ({"precision": "bf16-mixed"}, Training(half="bfloat16")),
        ({"precision": "16-mixed"}, Training(half="float16")),
        ({"precision": 32}, Training()),
        ({"use_bfloat16": True}, Training(half="bfloat16")),
        ({"mixed_precision": "mixed_float16"}, Training(half="float16")),
        (None, Training()),
        ([1, {"max_steps": 3}], Training()),
    ],
)
def test_what_params_say_of_the_training(params: Any, expected: Training) -> None:
    assert training_of(params) == expected


def test_the_type_of_the_wafer_model_counts_where_the_params_say_nothing() -> None:
    assert (training_of({}).half, training_of({}, has_wafer_model=True).half) == (None, "float16")
    assert training_of({"precision": "bf16"}, has_wafer_model=True).half == "bfloat16"
