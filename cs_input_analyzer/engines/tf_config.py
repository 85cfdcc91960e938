"""TF_CONFIG as a real launch would give it: one chief, the workers, consecutive ports."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cs_input_analyzer.planning.tf_config import addresses_of


def tf_config_of(addresses: Sequence[str], index: int) -> str:
    """TF_CONFIG of worker `index`. `addresses`: the chief's, then those of all workers."""
    return json.dumps(
        {
            "cluster": {"chief": list(addresses[:1]), "worker": list(addresses[1:])},
            "task": {"type": "worker", "index": index},
        }
    )


def announced_addresses(nodes: Sequence[str], num_workers: int) -> list[str]:
    """Addresses of a chief and `num_workers` workers as a real launch has them, on `nodes` by rank. Workers that are only announced
    are dealt to the same nodes again."""
    return addresses_of([nodes[max(0, number - 1) % len(nodes)] for number in range(1 + num_workers)])
