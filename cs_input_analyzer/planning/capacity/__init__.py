"""How fast any launch streams: measurements of one host in, throughput of `nodes × tasks_per_node × cpus_per_task` out. Pure.

The law is the bottleneck law of operational analysis (Denning & Buzen, "The operational analysis of queueing network models",
ACM Computing Surveys 10(3), 1978): no system is faster than its slowest station, X <= min over stations. The stations of a launch:

    workers            input workers × rate of one at `cpus_per_task`, times what neighbours on the node leave it
    round-robin feed   input workers × the slowest of them: the accelerator takes batches in turn and waits for each
    worker ceilings    serial ops, the interpreter's lock, fixed parallelism: where more CPUs do not help
    CPUs, memory       CPU time and bytes through memory of each node
    network, storage   each node's link in each direction, what one host gets from its file system, one ceiling for the cluster

and three things that stop a launch outright: CPUs per node, memory per node, fewer files than workers.

`fitting` makes the model, `worker` and `prediction` ask it, `bootstrap` and `calibration` say how wrong it may be, `probes` what to
measure first, `scaling` what several nodes at once say of their storage, `terms` what things are called and what is assumed.
"""

from __future__ import annotations

from cs_input_analyzer.planning.capacity.assumptions import (
    CPUS,
    FILES,
    HOST_STORAGE,
    INPUT_WORKERS,
    MEMORY,
    MEMORY_BANDWIDTH,
    MOST_CONTENTION_TASKS,
    NETWORK_IN,
    NETWORK_OUT,
    NODE_CPU,
    NODES,
    NORMAL_95,
    PROCESS_SPREAD_RATIO,
    ROUND_ROBIN,
    SMT_GAIN_RATIO,
    SMT_GAINS,
    STORAGE,
    UNEVEN_RATIO,
    WORKER_CPU,
    WORKER_SERIAL,
)
from cs_input_analyzer.planning.capacity.bootstrap import REPLICATES
from cs_input_analyzer.planning.capacity.calibration import (
    MODEL_ERROR_LOG,
    MODEL_ERROR_LOG_PER_DOUBLING,
    model_error_log,
    quantile_log,
    shape_error_log,
)
from cs_input_analyzer.planning.capacity.fitting import fit
from cs_input_analyzer.planning.capacity.next_probe import rival
from cs_input_analyzer.planning.capacity.prediction import dataset_bytes_per_node, predict, slowest_ratio
from cs_input_analyzer.planning.capacity.probes import first_probes
from cs_input_analyzer.planning.capacity.scaling import scaling_of
from cs_input_analyzer.planning.capacity.worker import probe_distances, smt_ratios, worker_rate

__all__ = [
    "CPUS",
    "FILES",
    "HOST_STORAGE",
    "INPUT_WORKERS",
    "MEMORY",
    "MEMORY_BANDWIDTH",
    "MODEL_ERROR_LOG",
    "MODEL_ERROR_LOG_PER_DOUBLING",
    "MOST_CONTENTION_TASKS",
    "NETWORK_IN",
    "NETWORK_OUT",
    "NODES",
    "NODE_CPU",
    "NORMAL_95",
    "PROCESS_SPREAD_RATIO",
    "REPLICATES",
    "ROUND_ROBIN",
    "SMT_GAINS",
    "SMT_GAIN_RATIO",
    "STORAGE",
    "UNEVEN_RATIO",
    "WORKER_CPU",
    "WORKER_SERIAL",
    "dataset_bytes_per_node",
    "first_probes",
    "fit",
    "model_error_log",
    "predict",
    "probe_distances",
    "quantile_log",
    "rival",
    "scaling_of",
    "shape_error_log",
    "slowest_ratio",
    "smt_ratios",
    "worker_rate",
]
