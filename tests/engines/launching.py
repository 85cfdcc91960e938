"""Launches of the functions that tests measure, with one worker for each task and more time than they need."""

from __future__ import annotations

import os
from typing import Any

from cs_input_analyzer.engines import LaunchResult, WorkPlan
from cs_input_analyzer.records import Layout
from tests.builders import make_work_plan
from tests.functional.running import FUNCTIONS
from tests.waiting import PATIENCE_S


def plan_for(function: str, launcher: Any, tasks: int = 1, **choices: Any) -> WorkPlan:
    choices = {"deadline_s": launcher.now_s() + PATIENCE_S, **choices}
    return make_work_plan(f"{FUNCTIONS}:{function}", tasks, **choices)


def launched(launcher: Any, function: str, layout: str = "1x1x1", **choices: Any) -> LaunchResult:
    shape = Layout.parse(layout)
    return launcher.run(launcher.start(shape), plan_for(function, launcher, shape.tasks, **choices))


def check_places(seen: list[Any], indices: tuple[int, ...], workers: int, params: dict[str, Any], folder: str) -> None:
    """That each worker saw its own index among `workers` alike, its params and folder, one CPU of its own and no accelerator."""
    for index, told in zip(indices, seen, strict=True):
        assert told["tf_config"]["task"] == {"type": "worker", "index": index}
        assert len(told["tf_config"]["cluster"]["worker"]) == workers
        assert (told["params"], told["cwd"], told["gpus"], len(told["cpus"])) == (params, folder, 0, 1)
    if len(os.sched_getaffinity(0)) > 1:
        assert seen[0]["cpus"] != seen[1]["cpus"]
