"""`TF_CONFIG`: of one task of a Slurm step, from the variables that Slurm gives it, and of workers that are measured.

Checked against a running Slurm 22.05: the node list of a step over several components is *sorted*, so that the order of tasks must
come from the lists of the components.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.node_list import expand_nodelist

FIRST_PORT = 23111
"""The port that Cerebras' own launcher gives to the first task of a host; further tasks follow."""


def tf_config(environ: Mapping[str, str]) -> str:
    """Return the `TF_CONFIG` of one task of a Slurm step, as JSON, from its environment.

    Task 0 is the chief and every other task of a streaming node is a worker, so that a pipeline that shards by
    `len(cluster.worker)` and `task.index` splits the data over exactly the tasks that stream. Further single-task nodes (weight
    streaming uses two) are helpers: they get type `evaluator`, which in TensorFlow belongs to no cluster, so they count nowhere.
    Single-task nodes are those nodes of all components but the last that run one task. Ports count from 23111 on each host.

    Raises:
        UsageError: the variables of a Slurm task are missing or contradict each other.
    """
    rank = _number(environ, "SLURM_PROCID")
    hosts, single_task_nodes = _task_hosts(environ)
    if not 0 <= rank < len(hosts):
        raise UsageError(
            f"SLURM_PROCID is {rank}, but the step has {len(hosts)} tasks: run this inside an srun task, on the step's variables"
        )
    addresses = addresses_of(hosts)
    first_worker = max(1, single_task_nodes)
    cluster = {"chief": addresses[:1], "worker": addresses[first_worker:]}
    if rank == 0:
        task: dict[str, str | int] = {"type": "chief", "index": 0}
    elif rank < first_worker:
        task = {"type": "evaluator", "index": rank - 1}
    else:
        task = {"type": "worker", "index": rank - first_worker}
    return json.dumps({"cluster": {kind: tasks for kind, tasks in cluster.items() if tasks}, "task": task})


def addresses_of(hosts: Sequence[str]) -> list[str]:
    """Return the address of each task, given the host of each: ports count up on each host."""
    taken: Counter[str] = Counter()
    addresses = []
    for host in hosts:
        addresses.append(f"{host}:{FIRST_PORT + taken[host]}")
        taken[host] += 1
    return addresses


def announced_addresses(nodes: Sequence[str], num_workers: int) -> list[str]:
    """Return addresses of a chief and `num_workers` workers as in a real launch, on `nodes` by rank.

    Workers that are only announced are dealt to the same nodes again.
    """
    return addresses_of([nodes[max(0, number - 1) % len(nodes)] for number in range(1 + num_workers)])


def of_worker(addresses: Sequence[str], index: int) -> str:
    """Return the `TF_CONFIG` of worker `index`. `addresses`: the chief's, then those of all workers."""
    cluster = {"chief": list(addresses[:1]), "worker": list(addresses[1:])}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})


def _task_hosts(environ: Mapping[str, str]) -> tuple[list[str], int]:
    """Return the host of each task of the step, by rank; and how many nodes in front are single-task nodes."""
    nodes = expand_nodelist(_first(environ, "SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"))
    counts = expand_counts(_first(environ, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"))
    if len(nodes) != len(counts):
        raise UsageError(f"Slurm names {len(nodes)} nodes but the task counts of {len(counts)}: run this inside an srun task")
    tasks_on = dict(zip(nodes, counts, strict=True))
    components = _components_of_step(environ, nodes)
    hosts: list[str] = []
    single = 0
    for index, component in enumerate(components):
        distribution = environ.get(f"SLURM_DISTRIBUTION_HET_GROUP_{index}") or environ.get("SLURM_DISTRIBUTION", "block")
        hosts += _distributed(component, tasks_on, is_cyclic=distribution.startswith("cyclic"))
        if index < len(components) - 1 and single == sum(len(c) for c in components[:index]):
            single += sum(1 for node in component if tasks_on[node] == 1)
    return hosts, single


def _components_of_step(environ: Mapping[str, str], nodes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the nodes of each component, in the order of ranks.

    Slurm sorts the nodes of the whole step, and so loses that order.
    """
    if not (environ.get("SLURM_HET_SIZE") or environ.get("SLURM_PACK_SIZE")):
        return [nodes]
    size = _number(environ, "SLURM_HET_SIZE", "SLURM_PACK_SIZE")
    # srun names them PACK_GROUP (the older word) where it made the allocation itself, sbatch both.
    names = [(f"SLURM_JOB_NODELIST_HET_GROUP_{index}", f"SLURM_JOB_NODELIST_PACK_GROUP_{index}") for index in range(size)]
    components = [expand_nodelist(_first(environ, *pair)) for pair in names]
    if sorted(node for component in components for node in component) != sorted(nodes):
        raise UsageError(
            "the components of this Slurm job share nodes, or the step runs on some of them only: launch it --exclusive, on all"
        )
    return components


def _distributed(nodes: tuple[str, ...], tasks_on: Mapping[str, int], *, is_cyclic: bool) -> Iterator[str]:
    if not is_cyclic:
        yield from (node for node in nodes for _ in range(tasks_on[node]))
        return
    for turn in range(max((tasks_on[node] for node in nodes), default=0)):
        yield from (node for node in nodes if tasks_on[node] > turn)


def expand_counts(text: str) -> list[int]:
    """Return the number of each node: `1(x2),4` -> [1, 1, 4]. Raise UsageError if it is none of Slurm's texts."""
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,7})(?:\(x([0-9]{1,7})\))?", part.strip())
        if match is None:
            raise UsageError(f"not Slurm task counts: {text!r}")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _first(environ: Mapping[str, str], *names: str) -> str:
    for name in names:
        if environ.get(name):
            return environ[name]
    raise UsageError(f"{names[0]} is not set: TF_CONFIG is made inside a task that srun started")


def _number(environ: Mapping[str, str], *names: str) -> int:
    text = _first(environ, *names)
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise UsageError(f"{names[0]} is not a whole number: {text!r}")
    return int(text)
