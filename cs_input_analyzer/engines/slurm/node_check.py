"""Checks the nodes before anything is measured: that each sees the shared folder and can run our interpreter."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cs_input_analyzer.engines.slurm.step import JobStep
from cs_input_analyzer.errors import LaunchError

LOOK_PATIENCE_S = 60.0
SLOW_WRITE_S = 1.0


def checked_nodes(step: JobStep, folder: Path, where: str) -> list[dict[str, Any]]:
    """What each node of a step said of itself. Raises LaunchError naming one that cannot be used, and why."""
    step.wait(lambda task: task.here is not None, time.monotonic() + LOOK_PATIENCE_S)
    mute = [task for task in step.tasks if task.here is None]
    if mute:
        said = next((task.lost for task in mute if task.lost), f"no answer within {LOOK_PATIENCE_S:g} s")
        raise LaunchError(f"{len(mute)} of {len(step.tasks)} nodes of {where} cannot be used: {said}{_advice(step.complaint)}")
    found = [task.here for task in step.tasks if task.here is not None]
    for here in found:
        if here["problem"]:
            raise LaunchError(
                f"node {here['node']} cannot use {folder.parent}: {here['problem']}; workers report through a folder that all "
                "nodes share: --shared-dir FOLDER names one"
            )
        if here["cwd"] != os.getcwd():
            raise LaunchError(
                f"node {here['node']} has no {os.getcwd()} (its tasks start in {here['cwd']}): run this in a folder that all "
                "nodes see"
            )
    return found


def notes_on(found: Sequence[dict[str, Any]], place: Path) -> list[str]:
    """What the user should know of nodes that can be used."""
    return [
        f"node {here['node']} took {here['write_s']:.1f} s to write a line to {place}: workers that write down what they measure "
        "may wait for it; --shared-dir names another folder"
        for here in found
        if here["write_s"] > SLOW_WRITE_S
    ]


def _advice(complaint: str) -> str:
    if "No such file or directory" in complaint and "execve" in complaint:
        return f"; the nodes do not see {sys.executable}: install the environment in a folder that all nodes share"
    return ""
