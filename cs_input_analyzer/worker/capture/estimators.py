"""Replace Estimators, which TensorFlow has removed and the vendor's closed packages have. Calls that take data are reported.

They do nothing if no script runs, for example while an input function is called.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from cs_input_analyzer.records import Mode
from cs_input_analyzer.worker.capture.interceptor import report_estimator
from cs_input_analyzer.worker.capture.stand_ins import Blank

CALLS: dict[str, Mode] = {"train": "train", "compile": "train", "evaluate": "eval", "predict": "eval"}


def reporting(call: str) -> Callable[..., Any]:
    """Return a method of Estimators that only reports that it would take data."""

    def method(estimator: Any, input_fn: Any = None, *args: Any, **kwargs: Any) -> Any:
        is_eval = any(isinstance(value, str) and value == "eval" for value in (*args, kwargs.get("mode")))
        report_estimator(estimator, call, input_fn, "eval" if is_eval else CALLS[call])
        return {} if call == "evaluate" else iter(()) if call == "predict" else estimator

    return method


class Estimator(Blank):
    """Stand in for an Estimator. Copy its params, as TensorFlow does: scripts change the dictionary for the next one."""

    def __init__(self, model_fn: Any = None, model_dir: Any = None, config: Any = None, params: Any = None, **others: Any) -> None:
        vars(self).update(others, model_fn=model_fn, model_dir=model_dir, params=copy.deepcopy(params))
        self.config = config if config is not None else self._next(".config")

    train, compile, evaluate, predict = map(reporting, CALLS)

    def train_and_evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Report the data of both specs, also for the vendor's name of the method."""
        specs = [one for one in [*args, *kwargs.values()] if hasattr(one, "input_fn") or callable(one)]
        return train_and_evaluate(self, *specs[:2])


def train_and_evaluate(estimator: Any, train_spec: Any = None, eval_spec: Any = None) -> Any:
    """Report the data of both specs."""
    modes: tuple[tuple[Any, str, Mode], ...] = ((train_spec, "train", "train"), (eval_spec, "evaluate", "eval"))
    for spec, call, mode in modes:
        if spec is not None:
            report_estimator(estimator, call, getattr(spec, "input_fn", spec), mode)
    return {}, []


def params_of(estimator: Any, mode: Mode) -> Any:
    """Return the params that an Estimator gives its input function. A TPU's Estimator adds the batch size of the mode."""
    own = vars(estimator)
    params = own.get("params", own.get("_params"))
    batch_size = own.get(f"{mode}_batch_size") or getattr(own.get("_ctx"), f"_{mode}_batch_size", None)
    return {**(params or {}), "batch_size": batch_size} if isinstance(params, dict | None) and batch_size else params


class ModeKeys:
    """Name the modes with TensorFlow's values: input functions compare them."""

    TRAIN, EVAL, PREDICT, INFER = "train", "eval", "infer", "infer"


class TrainSpec(Blank):
    """Keep the input function of a training."""

    def __init__(self, input_fn: Any = None, *args: Any, **kwargs: Any) -> None:
        self.input_fn = input_fn


class EvalSpec(TrainSpec):
    """Keep the input function of an evaluation."""


KNOWN: dict[str, Any] = {
    "Estimator": Estimator,
    "ModeKeys": ModeKeys,
    "TrainSpec": TrainSpec,
    "EvalSpec": EvalSpec,
    "train_and_evaluate": train_and_evaluate,
}
