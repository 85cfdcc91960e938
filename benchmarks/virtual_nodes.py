"""One slow file system and several nodes: is a storage-bound pipeline predicted flat, and a CPU-bound one linear?

A virtual node is a worker with a CPU quota of its own (control groups, version 1); all read through one slow file system whose
bandwidth is declared to the model, as a user would. One node is probed, more of them are predicted and then run for real.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

from benchmarks import slowfs
from benchmarks.known_truth.suite import CASES, files_of
from benchmarks.launching import QuotaLauncher, can_set_quotas, launched
from benchmarks.paired import arguments, middle, save, show
from cs_input_analyzer.model import capacity
from cs_input_analyzer.records import Cluster, Layout

BYTES_PER_S = 20e6
NODES = (1, 2, 3, 4)
CPUS_PER_NODE = 0.4
PIPELINES = {"narrow file system": "flat", "heavy parallel map": "linear"}


class _Nodes(QuotaLauncher):
    cpus_per_worker = CPUS_PER_NODE


def run(name: str, times: int, draw: random.Random) -> list[dict[str, Any]]:
    case = next(case for case in CASES if case.name == name)
    case = replace(case, slow={"bytes_per_s": BYTES_PER_S, "uncached": True}, files=32)
    launcher = _Nodes(2)
    measured: dict[int, list[float]] = {nodes: [] for nodes in NODES}
    probes, pipeline = [], None
    try:
        with files_of(case) as params:
            for _ in range(3):
                found = launched(launcher, case.target, params, "1x1x1", cache="cold")
                probes.append(found.measurement)
                pipeline = pipeline or found.pipeline
            order = [nodes for nodes in NODES for _ in range(times)]
            draw.shuffle(order)
            for nodes in order:
                rate = launched(launcher, case.target, params, f"1x{nodes}x1", cache="cold").measurement.samples_per_s
                measured[nodes] += [rate.estimate] if rate is not None else []
    finally:
        launcher.close()
    assert pipeline is not None
    model = capacity.fit(pipeline, probes, 1)
    rows = []
    for nodes in NODES:
        cluster = Cluster(
            nodes=nodes, cpus_per_node=1, memory_bytes_per_node=1 << 40, storage_bytes_per_s=BYTES_PER_S, source="this host"
        )
        layout = Layout(nodes=nodes, tasks_per_node=1, cpus_per_task=1)
        said = capacity.predict(model, cluster, layout, single_task_nodes=0, feed="first-come", has_chief=False)
        rows.append(
            {
                "nodes": nodes,
                "predicted": said.samples_per_s.estimate,
                "measured": middle(measured[nodes]),
                "limit": said.limited_by,
            }
        )
    return rows


def main() -> None:
    options = arguments(__doc__, times=(int, 3, "launches of each size"))
    if slowfs.missing() or not can_set_quotas():
        raise SystemExit(f"not run: {slowfs.missing() or 'control groups cannot be written'}")
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:2]))
    table, result = [], {}
    for name, shape in PIPELINES.items():
        rows = result[name] = run(name, options.times, random.Random(1))
        for row in rows:
            error = f"{(row['predicted'] / row['measured'] - 1) * 100:+.1f} %"
            grown = f"{row['measured'] / rows[0]['measured']:.2f}"
            numbers = (f"{row['predicted']:,.0f}", f"{row['measured']:,.0f}", error, grown, row["limit"])
            table.append((f"{name} ({shape})", str(row["nodes"]), *numbers))
    show(
        "Virtual nodes on one slow file system",
        ("pipeline", "nodes", "predicted", "measured", "error", "times one", "limited by"),
        table,
    )
    save(options.json, result)


if __name__ == "__main__":
    main()
