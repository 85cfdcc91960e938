"""The cost of watching a training, per step, and the time until a starving one is reported.

Cost: the same loop with and without the monitor, in interleaved pairs; the difference of each pair, by step. The batches are ready,
so only the loop itself is left. The share of a 5 ms step is that difference over 5 ms.

Starvation: a real loop with a thread for the accelerator, which works through its steps in turn, while the host waits for
input. A batch takes twice as long as a step, so half of the time the accelerator stands still; beside it one whose input keeps up.
"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.paired import CONFIDENCE, arguments, save, show
from cs_input_analyzer import InputMonitor
from cs_input_analyzer.runs.verdict import INPUT_BOUND_RATIO

BATCH = 256
STEP_S = 0.005
MOST_US = 20.0
MOST_RATIO = 0.005
MOST_STEPS = 50

Wrap = Callable[[Iterable[Any]], Any]


def watched(log_dir: str | None = None, **options: Any) -> Wrap:
    def wrap(batches: Iterable[Any]) -> InputMonitor[Any]:
        return InputMonitor(batches, BATCH, console=None, log_dir=log_dir, environ={}, **options)

    return wrap


def seconds_of(batches: Iterable[Any], each: Callable[[Any, int], None]) -> tuple[float, float]:
    """Return the seconds of the loop, by the clock and of CPU in its thread.

    Other processes do not lengthen the latter.
    """
    began_s, began_cpu_s = time.perf_counter(), time.thread_time()
    for step, _ in enumerate(batches, start=1):
        each(batches, step)
    return time.perf_counter() - began_s, time.thread_time() - began_cpu_s


def nothing(batches: Any, step: int) -> None:
    del batches, step


def synchronised(batches: Any, step: int) -> None:
    if isinstance(batches, InputMonitor):
        batches.sync()


def logged(batches: Any, step: int) -> None:
    if isinstance(batches, InputMonitor) and step % 100 == 0:
        batches.log(loss=0.5)


def cost_us(wrap: Wrap, each: Callable[[Any, int], None], steps: int, pairs: int) -> dict[str, float]:
    """Microseconds a step that watching adds: mean over pairs, its one-sided upper 90 % bound, and the part that is CPU."""
    batches = [(np.zeros((BATCH, 16), np.float32), np.zeros(BATCH, np.int32))] * steps
    added = []
    for _ in range(pairs):
        bare = seconds_of(batches, each)
        monitor = wrap(batches)
        added.append([(after - before) / steps * 1e6 for after, before in zip(seconds_of(monitor, each), bare, strict=True)])
        monitor.close()
    wall, cpu = np.array(added).T
    error = float(wall.std(ddof=1) / np.sqrt(pairs))
    bound = float(wall.mean() + stats.t.ppf(CONFIDENCE, pairs - 1) * error)
    return {"us": float(wall.mean()), "upper_bound_us": bound, "cpu_us": float(cpu.mean()), "pairs": pairs}


class Accelerator:
    """A thread that takes `step_s` for each batch, in turn; `wait` returns when it is idle, `idle_s` is how long it was."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._given: queue.Queue[object] = queue.Queue()
        self.idle_s = 0.0
        threading.Thread(target=self._work, daemon=True).start()

    def give(self) -> None:
        self._given.put(object())

    def wait(self) -> None:
        self._given.join()

    def _work(self) -> None:
        while True:
            began_s = time.perf_counter()
            self._given.get()
            self.idle_s += time.perf_counter() - began_s
            time.sleep(self._step_s)
            self._given.task_done()


def slow_input(batches: int, wait_s: float) -> Iterator[Any]:
    for _ in range(batches):
        time.sleep(wait_s)
        yield np.zeros((BATCH, 4), np.float32)


def called_at(wait_s: float, step_s: float, log_every: int, steps: int) -> tuple[int | None, float]:
    """Return the step at which the run is first called input-bound, and the accelerator's true share of idle time by then.

    The step is None if it is never called so.
    """
    accelerator, said = Accelerator(step_s), []
    monitor = InputMonitor(slow_input(steps, wait_s), BATCH, console=said.append, environ={})
    began_s = time.perf_counter()
    for step, _ in enumerate(monitor, start=1):
        accelerator.give()
        if step % log_every == 0:
            accelerator.wait()
            monitor.log()
        if any(line.startswith("input-bound") for line in said):
            return step, accelerator.idle_s / (time.perf_counter() - began_s)
    return None, accelerator.idle_s / (time.perf_counter() - began_s)


def main() -> None:
    options = arguments(
        __doc__,
        pairs=(int, 40, "interleaved pairs"),
        steps=(int, 20_000, "steps of a loop"),
        trials=(int, 5, "starving loops of each kind"),
    )
    result: dict[str, object] = {}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        kinds: dict[str, tuple[Wrap, Callable[[Any, int], None]]] = {
            "rates only": (watched(log_every=0), nothing),
            "with its record on disk": (watched(folder, tensorboard=False), nothing),
            "and a log step every 100": (watched(folder), logged),
            "and a sync every step": (watched(folder, tensorboard=False), synchronised),
        }
        for name, (wrap, each) in kinds.items():
            found = cost_us(wrap, each, options.steps, options.pairs)
            bound = found["upper_bound_us"]
            is_met = bound <= MOST_US and bound * 1e-6 / STEP_S <= MOST_RATIO
            numbers = f"{found['us']:.2f}", f"{bound:.2f}", f"{found['cpu_us']:.2f}", f"{bound * 1e-6 / STEP_S:.3%}"
            rows.append((name, *numbers, "yes" if is_met else "NO"))
            result[name] = {**found, "of_5_ms_ratio": bound * 1e-6 / STEP_S, "is_met": is_met}
        show("What watching adds to a step", ("kind", "µs", "upper 90 % bound", "CPU µs", "of 5 ms", "≤ 20 µs, ≤ 0.5 %"), rows)
    rows = []
    for name, wait_s, step_s, is_starving in (
        ("input takes twice the step", 2 * STEP_S, STEP_S, True),
        ("input takes 1.3 times the step", 1.3 * STEP_S, STEP_S, True),
        ("input takes 0.7 of the step", 0.7 * STEP_S, STEP_S, False),
    ):
        for log_every in (1, 10, 50):
            # A loop that waits for each step has no way to overlap input and step: there every wait starves the accelerator.
            if log_every == 1 and not is_starving:
                continue
            trials = [called_at(wait_s, step_s, log_every, 200) for _ in range(options.trials)]
            steps, idle = [step for step, _ in trials], [share for _, share in trials]
            if is_starving:
                is_right = all(step is not None and step <= MOST_STEPS for step in steps)
            else:  # on a busy host sleeps are longer, and the accelerator may truly starve
                is_right = all(step is None or share >= INPUT_BOUND_RATIO for step, share in trials)
            shown = ", ".join("never" if step is None else str(step) for step in steps)
            rows.append((name, str(log_every), shown, f"{min(idle):.0%} to {max(idle):.0%}", "yes" if is_right else "NO"))
            result[f"{name}, log every {log_every}"] = {"called_at": steps, "idle_ratio": idle, "is_right": is_right}
    show("Called input-bound at step", ("loop", "log every", "step, each trial", "truly idle", "right"), rows)
    save(options.json, result)


if __name__ == "__main__":
    main()
