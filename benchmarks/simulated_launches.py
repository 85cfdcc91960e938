"""How often does a fresh launch lie in its predicted 90 % interval, where launches and processes differ by a known spread?

Launches are drawn from log-normals, not run: so the variance model is judged by itself, at any spread, in seconds. Probes are those
of an analysis of a host of two CPUs; each layout is then launched once more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.paired import arguments, save, show
from cs_input_analyzer.planning import capacity
from cs_input_analyzer.records import Cluster, Estimate, Layout, Measurement, PipelineGraph, WorkerResult
from cs_input_analyzer.stats.estimates import NORMAL_95

RATES = {"1x1x1": 100.0, "1x1x2": 150.0, "1x2x1": 85.0}  # of each worker
PROBES = ("1x1x1", "1x1x2", "1x2x1", "1x2x1")
HERE = Cluster(nodes=1, cpus_per_node=2, memory_bytes_per_node=1 << 40, threads_per_core=1, source="this host")


@dataclass(frozen=True, slots=True)
class Spreads:
    """One standard deviation of the logarithm: of launches alike, of processes of a launch, and of what a window is off."""

    launch: float
    process: float
    window: float


CASES = (Spreads(0.02, 0.01, 0.01), Spreads(0.06, 0.03, 0.02), Spreads(0.12, 0.03, 0.03), Spreads(0.2, 0.05, 0.05))


def launched(name: str, spreads: Spreads, draw: np.random.Generator) -> Measurement:
    layout = Layout.parse(name)
    level = RATES[name] * math.exp(draw.normal(0, spreads.launch))
    workers = []
    for index in range(layout.tasks):
        rate = level * math.exp(draw.normal(0, spreads.process) + draw.normal(0, spreads.window))
        half = NORMAL_95 * spreads.window * rate
        seen = Estimate(estimate=rate, low=rate - half, high=rate + half, count=8)
        workers.append(WorkerResult(index=index, node="here", status="done", samples_per_s=seen, cpu_s_per_sample=0.01))
    total = sum(worker.samples_per_s.estimate for worker in workers if worker.samples_per_s)
    return Measurement(
        layout=layout,
        num_workers=layout.tasks,
        cache_state="as-is",
        role="probe",
        isolation="process",
        workers=tuple(workers),
        samples_per_s=Estimate.exact(total),
    )


def covered(spreads: Spreads, pipeline: PipelineGraph, trials: int) -> tuple[float, float]:
    """The share of fresh launches inside their interval, and its mean half-width, natural logarithm."""
    draw = np.random.default_rng(5)
    inside, widths = [], []
    for _ in range(trials):
        model = capacity.fit(pipeline, [launched(name, spreads, draw) for name in PROBES], 2)
        for name in RATES:
            at = Layout.parse(name)
            said = capacity.predict(model, HERE, at, single_task_nodes=0, feed="first-come", has_chief=False).samples_per_s
            fresh = launched(name, spreads, draw).samples_per_s
            assert fresh is not None
            inside.append(said.low <= fresh.estimate <= said.high)
            widths.append(math.log(said.high / said.low) / 2)
    return float(np.mean(inside)), float(np.mean(widths))


def main() -> None:
    chosen = arguments(__doc__, trials=(int, 200, "analyses of each spread"))
    pipeline = PipelineGraph(target="simulated", batch_size=1, element_spec=(), ops=(), files=None)
    found: dict[str, dict[str, float]] = {}
    for spreads in CASES:
        share, width = covered(spreads, pipeline, chosen.trials)
        ideal = NORMAL_95 * math.hypot(spreads.launch, spreads.process)
        found[f"{spreads.launch:.0%}"] = {"inside": share, "half_width_log": width, "ideal_log": ideal}
    rows = [
        (name, f"{row['inside']:.0%}", f"{row['half_width_log']:.3f}", f"{row['ideal_log']:.3f}") for name, row in found.items()
    ]
    show("Simulated launches", ("launches differ by", "inside of 90 %", "half-width", "of who knew the spreads"), rows)
    save(chosen.json, {"spreads": found})


if __name__ == "__main__":
    main()
