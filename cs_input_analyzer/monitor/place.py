"""Which worker of a launch this process is: from TF_CONFIG, else from Slurm. Pure: the environment is an argument."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

# In the order in which TensorFlow numbers them; parameter servers and the evaluator do not train.
TRAINING_TASKS = ("chief", "master", "worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`rank` of `workers`, from 0; `name` for people and folders: `worker-3`, `chief-0`, `rank-3`."""

    name: str = "worker-0"
    rank: int = 0
    workers: int = 1


def place_from(environ: Mapping[str, str]) -> Place:
    """This process's place. What cannot be read counts as not there: a lone worker."""
    return _from_tf_config(environ.get("TF_CONFIG", "")) or _from_slurm(environ) or Place()


def _from_tf_config(text: str) -> Place | None:
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        counts = [(kind, len(cluster[kind])) for kind in TRAINING_TASKS if kind in cluster]
        kind, index = str(task["type"]), int(task["index"])
    except (ValueError, KeyError, TypeError):
        return None
    before = 0
    for name, count in counts:
        if name == kind and 0 <= index < count:
            return Place(name=f"{kind}-{index}", rank=before + index, workers=sum(count for _, count in counts))
        before += count
    return None


def _from_slurm(environ: Mapping[str, str]) -> Place | None:
    try:
        rank, tasks = int(environ["SLURM_PROCID"]), int(environ.get("SLURM_STEP_NUM_TASKS") or environ["SLURM_NTASKS"])
    except (KeyError, ValueError):
        return None
    return Place(name=f"rank-{rank}", rank=rank, workers=tasks) if 0 <= rank < tasks and tasks > 1 else None
