"""Check a cluster from any source."""

from __future__ import annotations

import re

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.host.node_speed import checked_ratio
from cs_input_analyzer.records import Cluster


def checked(cluster: Cluster) -> Cluster:
    """Return the cluster. Raise UsageError for mistakes that the record itself cannot detect."""
    if cluster.speed_ratio is not None:
        checked_ratio(cluster.speed_ratio)
    if cluster.threads_per_core is not None and cluster.threads_per_core > cluster.cpus_per_node:
        raise UsageError(f"{cluster.threads_per_core} threads per core do not fit {cluster.cpus_per_node} CPUs ({cluster.source})")
    for name in (*(() if cluster.partition is None else (cluster.partition,)), *cluster.excluded_nodes):
        if not re.fullmatch(r"[^\s,\[\]]+", name):
            raise UsageError(f"not the name of one partition or node of Slurm: {name!r} ({cluster.source})")
    return cluster
