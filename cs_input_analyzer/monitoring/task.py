"""Which task of a launch this process is, by TF_CONFIG or else its launcher's variables. Pure: the environment is an argument."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

# In the order in which TensorFlow numbers them; parameter servers and the evaluator do not train.
TRAINING_TASKS = ("chief", "master", "worker")

RANKS = (
    # Not SLURM_NTASKS: a batch script has that, and SLURM_PROCID=0, without being one of so many tasks. A step alone has this.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # mpirun of Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # mpirun of MPICH and its derivatives
)
"""By launcher, the variables with the rank of a process and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTask:
    """`rank` of `workers`, counted from 0; `name` for lines and folders: `worker-3`, `chief-0`, `rank-3`."""

    name: str = "worker-0"
    rank: int = 0
    workers: int = 1


def training_task(environ: Mapping[str, str]) -> TrainingTask:
    """This process's task. What cannot be read counts as not there: a lone worker."""
    return _from_tf_config(environ.get("TF_CONFIG", "")) or _from_ranks(environ) or TrainingTask()


def _from_tf_config(text: str) -> TrainingTask | None:
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        counts = [(kind, len(cluster[kind])) for kind in TRAINING_TASKS if kind in cluster]
        kind, index = str(task["type"]), int(task["index"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # also for an index of Infinity
        return None
    before = 0
    for name, count in counts:
        if name == kind and 0 <= index < count:
            return TrainingTask(name=f"{kind}-{index}", rank=before + index, workers=sum(count for _, count in counts))
        before += count
    return None


def _from_ranks(environ: Mapping[str, str]) -> TrainingTask | None:
    """A launcher may start another (a step of Slurm one torchrun a node): the one that numbers most processes numbers this one."""
    places: list[TrainingTask] = []
    for rank_name, size_name in RANKS:
        with contextlib.suppress(KeyError, ValueError):
            rank, size = int(environ[rank_name]), int(environ[size_name])
            if 0 <= rank < size and size > 1:
                places.append(TrainingTask(name=f"rank-{rank}", rank=rank, workers=size))
    return max(places, key=lambda place: place.workers, default=None)
