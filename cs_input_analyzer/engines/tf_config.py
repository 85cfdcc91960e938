"""TF_CONFIG as a real launch would give it: one chief, the workers, consecutive ports."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence

from cs_input_analyzer.planning.tf_config import FIRST_PORT


def tf_config_of(addresses: Sequence[str], index: int) -> str:
    """TF_CONFIG of worker `index`. `addresses`: the chief's, then those of all workers."""
    return json.dumps(
        {
            "cluster": {"chief": list(addresses[:1]), "worker": list(addresses[1:])},
            "task": {"type": "worker", "index": index},
        }
    )


def announced_addresses(nodes: Sequence[str], num_workers: int) -> list[str]:
    """Addresses of a chief and `num_workers` workers as a real launch has them: `nodes` by rank, ports counted up on each node.

    Workers that are only announced are dealt to the same nodes again.
    """
    taken: dict[str, int] = {}
    addresses = []
    for number in range(1 + num_workers):
        node = nodes[max(0, number - 1) % len(nodes)]
        addresses.append(f"{node}:{FIRST_PORT + taken.get(node, 0)}")
        taken[node] = taken.get(node, 0) + 1
    return addresses


def free_ports(count: int) -> list[int]:
    """TCP ports that nothing listens on now. Many workers are only announced, so past the first 64 numbers are made up."""
    sockets = []
    try:
        for _ in range(min(count, 64)):
            holder = socket.socket()
            sockets.append(holder)
            holder.bind(("localhost", 0))
        ports = [holder.getsockname()[1] for holder in sockets]
    finally:
        for holder in sockets:
            holder.close()
    return ports + [20000 + number for number in range(count - len(ports))]
