"""How fast is the feeding simulation, and does it say what real processes do?

Speed: a table over sizes. Truth: two producer processes with bounded queues feed one consumer that takes from them in turn; every
producer notes what each item took to make, and the simulation gets exactly those times. A queue of n holds n items, and its
producer one more that waits to be put: depth n + 1. Handing over an item takes a real consumer some 50 µs that the simulation does
not know: a point of these short steps, to be seen where buffers are never empty.
"""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import numpy as np

from benchmarks.paired import arguments, middle, save, show
from cs_input_analyzer.planning.feeding import expected_utilization, resampled, shapes_of, taken_s, utilization
from cs_input_analyzer.records import Estimate
from wafer_model import from_rate

SIZES = ((1, 2000), (4, 8000), (32, 32_000), (1000, 1000), (1000, 100_000), (1000, 1_000_000))
REPLICATIONS = 20
WORKERS, MEAN_S = 2, 0.01


def trace(seed: int, batches: int = 500) -> tuple[float, ...]:
    """Seconds with a mean of about one, scattered by 30 %."""
    return tuple(np.random.default_rng(seed).gamma(1 / 0.3**2, 0.3**2, batches).tolist())


def seconds(run: Any, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began_s = time.perf_counter()
        run()
        times.append(time.perf_counter() - began_s)
    return middle(times)


def speed(rounds: int) -> dict[str, float]:
    rows, result = [], {}
    for workers, steps in SIZES:
        batches = max(2, -(-steps // workers))
        production = resampled(shapes_of([trace(0)]), workers=workers, batches=batches, replications=REPLICATIONS, seed=0)
        took_s = seconds(lambda p=production, w=workers, s=steps: utilization(p, 1 / w, steps=s), rounds)
        rows.append((f"{workers} × {steps} × {REPLICATIONS}", f"{took_s:.3f}", f"{took_s / steps / REPLICATIONS * 1e9:.0f}"))
        result[f"{workers}x{steps}x{REPLICATIONS}"] = took_s
    show("Simulation", ("workers × steps × replications", "s (median)", "ns a batch"), rows)
    rows = []
    supply, demand = Estimate(estimate=1.1, low=1.0, high=1.2), from_rate(1.0)
    shapes = shapes_of([trace(0), trace(1)])
    for workers in (1, 32, 1000, 20_000):
        took_s = seconds(lambda w=workers: expected_utilization(shapes, supply, demand, input_workers=w), rounds)
        rows.append((str(workers), f"{took_s:.2f}"))
        result[f"expected_utilization {workers}"] = took_s
    show("Expected utilization, three runs each", ("workers", "s (median)"), rows)
    return result


def produce(queue: Any, times_s: list[float], told: Any) -> None:
    made_s = []
    for wanted_s in times_s:
        began_s = time.perf_counter()
        time.sleep(wanted_s)
        made_s.append(time.perf_counter() - began_s)
        queue.put(None)
    told.put(made_s)


def real_feeding(depth: int, busy: float, batches: int, seed: int) -> tuple[float, float]:
    """Share of the time that a real consumer waited, and what the simulation says of the same production and the same steps."""
    context = multiprocessing.get_context("spawn")
    queues = [context.Queue(depth - 1) for _ in range(WORKERS)]
    told = [context.Queue() for _ in range(WORKERS)]
    wanted = [[MEAN_S * value for value in trace(seed + worker, batches)] for worker in range(WORKERS)]
    workers = [context.Process(target=produce, args=(queues[w], wanted[w], told[w]), daemon=True) for w in range(WORKERS)]
    for worker in workers:
        worker.start()
    for queue in queues:  # both run, and the first item of each is out of the way
        queue.get()
    taken, free = [], []
    for step in range(WORKERS * (batches - 1)):
        free.append(time.perf_counter())
        queues[step % WORKERS].get()
        taken.append(time.perf_counter())
        time.sleep(MEAN_S / WORKERS / busy)
    made = np.array([queue.get() for queue in told]).T[1:, None, :]
    for worker in workers:
        worker.join()
    gaps_s = np.array([0.0, *(later - earlier for earlier, later in zip(taken, free[1:], strict=False))])
    simulated = taken_s(made, gaps_s, depth=depth)[0]
    warmup = WORKERS * depth * 2

    def waiting(times: np.ndarray) -> float:
        whole = times[-1] - times[warmup]
        return float(1 - gaps_s[warmup + 1 :].sum() / whole)

    return waiting(np.array(taken)), waiting(simulated)


def truth(batches: int) -> dict[str, Any]:
    rows, result = [], {}
    for depth in (2, 5):
        for busy in (0.8, 1.0, 1.3):
            seen, said = real_feeding(depth, busy, batches, seed=10 * depth)
            rows.append((str(depth), f"{busy:.1f}", f"{seen:.2%}", f"{said:.2%}", f"{(said - seen) * 100:+.2f}"))
            result[f"depth {depth}, demand over supply {busy}"] = {"measured_ratio": seen, "simulated_ratio": said}
    columns = ("depth", "demand over supply", "waited, measured", "waited, simulated", "points off")
    show(f"Two real processes in turn, {batches} items each", columns, rows)
    return result


def main() -> None:
    options = arguments(
        __doc__,
        rounds=(int, 3, "runs of each size"),
        batches=(int, 200, "items of each real process; 0: no real processes"),
    )
    result: dict[str, object] = {"speed_s": speed(options.rounds)}
    if options.batches:
        result["truth"] = truth(options.batches)
    save(options.json, result)


if __name__ == "__main__":
    main()
