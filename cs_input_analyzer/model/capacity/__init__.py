"""The rate of any launch, `nodes × tasks_per_node × cpus_per_task`, from measurements of one host. Pure.

The law is the bottleneck law of operational analysis (Denning & Buzen, "The operational analysis of queueing network models",
ACM Computing Surveys 10(3), 1978): no system is faster than its slowest station, X <= min over stations. The stations of a launch:

    workers            input workers × rate of one at `cpus_per_task`, beside its neighbours on the node
    round-robin feed   input workers × the slowest of them: the accelerator takes batches in turn and waits for each
    worker ceilings    serial ops, the lock of Python, fixed parallelism, storage latency: they bound a worker of any CPUs
    CPUs, memory       CPU time and bytes through memory of each node
    network, storage   each node's link in each direction, the file system of one host, one ceiling for the cluster

Three limits make a launch impossible: CPUs per node, memory per node, and fewer files than workers.

`idle` corrects the measurements for other programs on the host, `fitting` makes the model from them, `rates`, `worker` and
`prediction` predict from it, `probes` names the layouts to measure, `scaling` finds the ceiling of a storage that several nodes
share, and `assumptions` holds the names of limits and all numbers that were not measured.
"""

from __future__ import annotations

from cs_input_analyzer.model.capacity.fitting import fit, without_shards
from cs_input_analyzer.model.capacity.idle import kept_logs, on_idle_cpus
from cs_input_analyzer.model.capacity.prediction import dataset_bytes_per_node, predict
from cs_input_analyzer.model.capacity.probes import full_probes, lone_probes, next_probe
from cs_input_analyzer.model.capacity.scaling import scaling_of

__all__ = [
    "dataset_bytes_per_node",
    "fit",
    "full_probes",
    "kept_logs",
    "lone_probes",
    "next_probe",
    "on_idle_cpus",
    "predict",
    "scaling_of",
    "without_shards",
]
