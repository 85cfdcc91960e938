"""The nodes that are planned for: what is known of them, where from, and what an unknown number does to the plan."""

from __future__ import annotations

from cs_input_analyzer.records import Cluster
from cs_input_analyzer.report.wording import Facts, one_line
from cs_input_analyzer.units import format_bytes, format_bytes_per_s, format_count, format_estimate


def cluster_facts(cluster: Cluster) -> Facts:
    """One line for each of its numbers."""
    facts = (
        ("nodes", _nodes(cluster)),
        ("node's CPU", node_speed_text(cluster)),
        ("SMT", _threads(cluster)),
        ("memory bandwidth", _rate(cluster.memory_bandwidth_bytes_per_s_per_node, "in each node", "--memory-bandwidth")),
        ("network", _rate(cluster.network_bytes_per_s_per_node, "for each node, in each direction", "--network-bandwidth")),
        ("storage", _rate(cluster.storage_bytes_per_s, "for all nodes together", "--storage-bandwidth")),
        ("known from", cluster.source),
    )
    return tuple((label, one_line(text)) for label, text in facts)


def node_speed_text(cluster: Cluster) -> str:
    """How fast a CPU of a node is beside one of the measuring host, and how that is known."""
    ratio = cluster.speed_ratio
    if ratio is None:
        return "speed unknown: taken as this host's, interval widened (--node-speed, --node-reference)"
    if cluster.speed_basis == "this host":
        return "that of this host, which measured"
    text = f"{format_estimate(ratio, _times)} as fast as one of this host"
    return f"{text}, by the reference loop" if cluster.speed_basis == "reference loop" else f"{text}, as stated"


def _times(value: float | None) -> str:
    return f"{value:.3g} times"


def _nodes(cluster: Cluster) -> str:
    model = f", {cluster.cpu_model}" if cluster.cpu_model else ""
    size = f"{format_count(cluster.cpus_per_node)} CPUs and {format_bytes(cluster.memory_bytes_per_node)} each"
    return f"{format_count(cluster.nodes)} of {cluster.name}, {size}{model}"


def _threads(cluster: Cluster) -> str:
    threads = cluster.threads_per_core
    if threads is None:
        return "threads per core unknown: taken as if two were as likely as one, interval widened (--threads-per-core)"
    if threads == 1:
        return "none: each CPU is a core"
    return f"{format_count(threads)} threads per core: a further one counts less than a core"


def _rate(bytes_per_s: float | None, of_what: str, option: str) -> str:
    if bytes_per_s is None:
        return f"unknown, so it limits nothing here ({option})"
    return f"{format_bytes_per_s(bytes_per_s)} {of_what}"
