"""TF_CONFIG as a real launch would give it: one chief, the workers, consecutive ports."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence


def local_tf_config(num_workers: int, index: int, ports: Sequence[int], host: str = "localhost") -> str:
    """TF_CONFIG of worker `index` of `num_workers` on one host. `ports`: one for the chief, then one for each worker."""
    addresses = [f"{host}:{port}" for port in ports]
    return json.dumps(
        {
            "cluster": {"chief": addresses[:1], "worker": addresses[1 : 1 + num_workers]},
            "task": {"type": "worker", "index": index},
        }
    )


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
