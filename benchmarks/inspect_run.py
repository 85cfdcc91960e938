"""Time and memory of `inspect-run` on a large log: the target is 1 GB in 10 s, in constant memory.

Three logs of the same size: chatter of a runtime with a step line now and then (like most large logs), step lines alone (the worst
case), and chatter that mentions checkpoints all the time. Each is read in a process of its own, and so is a tenth of it, to see
whether memory grows with the size; `floor` is a log of a few lines.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.in_process import fresh
from benchmarks.paired import arguments, save, show

TARGET_S_PER_GB = 10.0
BATCH = 1024
GAP_S = 25.3


def poll(line: int) -> str:
    return f"I0301 12:00:{line % 60:02d}.{line % 10**6:06d} {line % 999} runtime.cc:{line % 777}] poll {line}: nothing new\n"


def saving(line: int) -> str:
    return f"W tensor {line} of checkpoint {line // 1000} is still on its way\n"


# Of each log: lines from one step line to the next, and the text of the others by their number.
LOGS: dict[str, tuple[int, Callable[[int], str]]] = {
    "chatter": (201, poll),
    "step lines alone": (1, poll),
    "talk of checkpoints": (50, saving),
}


def lines_of(name: str) -> Iterator[str]:
    """Yield the lines of a log, without end."""
    from benchmarks.run_logs import rate_line  # not where memory is measured

    every, other = LOGS[name]
    for line in count(1):
        step, rest = divmod(line, every)
        rate = BATCH * 100 / GAP_S
        yield other(line) if rest else rate_line(GAP_S * step, 100 * step, rate, rate)


def write(path: Path, lines: Iterator[str], size: int) -> int:
    """Write a log of `size` bytes, and return its size.

    It is all written out, because repeated text has steps that do not rise.
    """
    written = 0
    with path.open("w", buffering=1 << 22) as file:
        while written < size:
            text = "".join(next(lines) for _ in range(20_000))
            written += file.write(text)
    return written


def read_here(path: str) -> dict[str, float]:
    """Return the seconds and the peak memory of one reading in this process."""
    from cs_input_analyzer.runs.inspection import inspect_run

    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    found = inspect_run(Path(path))
    seconds, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    steady = found.rates.steady_samples_per_s
    rate = steady.estimate if steady is not None else 0.0
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    error = abs(rate * GAP_S / (BATCH * 100) - 1)
    return {"seconds": seconds, "cpu_s": cpu_s, "peak_bytes": peak_bytes, "rate_error_ratio": error}


def main() -> None:
    options = arguments(__doc__, megabytes=(int, 1000, "size of each log"))
    rows, result = [], {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        write(path, lines_of("step lines alone"), 1)
        floor = fresh(read_here, str(path))["peak_bytes"]
        for name in LOGS:
            write(path, lines_of(name), options.megabytes * 100_000)
            tenth = fresh(read_here, str(path))
            size = write(path, lines_of(name), options.megabytes * 1_000_000)
            whole = fresh(read_here, str(path))
            per_gb = whole["seconds"] / size * 1e9
            result[name] = {"bytes": size, "whole": whole, "tenth": tenth, "seconds_per_gb": per_gb}
            rows.append(
                (
                    name,
                    f"{whole['seconds']:.2f}",
                    f"{whole['cpu_s']:.2f}",
                    f"{per_gb:.2f}",
                    "yes" if per_gb <= TARGET_S_PER_GB else "NO",
                    f"{whole['peak_bytes'] / 1e6:.0f} MB",
                    f"{tenth['peak_bytes'] / 1e6:.0f} MB",
                    f"{whole['rate_error_ratio']:.1e}",
                )
            )
            path.unlink()
    show(
        f"Reading logs of {options.megabytes:,} MB (target: {TARGET_S_PER_GB:g} s per GB; floor of memory: {floor / 1e6:.0f} MB)",
        ("log", "seconds", "CPU s", "per GB", "in time", "peak memory", "of a tenth", "steady rate off by"),
        rows,
    )
    save(options.json, {"target_s_per_gb": TARGET_S_PER_GB, "floor_bytes": floor, "logs": result})


if __name__ == "__main__":
    main()
