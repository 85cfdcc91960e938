"""The reference loop on a whole node: on one CPU of each core at once.

All cores together run at a lower clock than one alone, and two hardware threads of a core share it; pipelines keep all cores busy,
and what sharing a core costs is a term of its own. Run on two machines, the ratio of the two rates is that of their CPUs.

`python -m cs_input_analyzer.machines.node_speed CPU SECONDS` is what runs on one of them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.machines.reference import STEPS, time_reference
from cs_input_analyzer.records import Estimate

__all__ = ["node_rate", "one_cpu_per_core", "rates_for"]

CPUS = Path("/sys/devices/system/cpu")
SECONDS = 1.0
# Starting Python takes longer on the last of a hundred CPUs; what follows is SECONDS of work.
PATIENCE_S = 60.0


def one_cpu_per_core(budget: int, *, allowed: Sequence[int] | None = None, root: Path = CPUS) -> tuple[int, ...]:
    """The first CPU of each core that this process may use, at most `budget` of them. Where the kernel does not tell: every CPU."""
    cores: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0) if allowed is None else allowed):
        try:
            core = (root / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text().strip()
        except OSError:
            core = f"cpu{cpu}"
        cores.setdefault(core, cpu)
    return tuple(cores.values())[:budget]


def node_rate(cpus: Sequence[int], seconds: float = SECONDS) -> Estimate:
    """Steps of the loop in one CPU second, on these CPUs at once: the median, and the middle 90 % over CPUs and time.

    Raises:
        LaunchError: the loop cannot be run there.
    """
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", __name__]
    runs = [
        subprocess.Popen([*command, str(cpu), str(seconds)], stdout=subprocess.PIPE, text=True, env=environment) for cpu in cpus
    ]
    rates: list[float] = []
    try:
        for run in runs:
            out, _ = run.communicate(timeout=PATIENCE_S + seconds)
            rates += [float(line) for line in out.split()]
    except subprocess.TimeoutExpired:
        raise LaunchError("the reference loop does not end: this host is too busy to tell its speed") from None
    finally:
        for run in runs:
            run.kill()
            run.wait()
    if len(rates) < len(cpus) or not rates:
        raise LaunchError("the reference loop could not be run on this host's CPUs")
    return spread_of(rates)


def spread_of(rates: Sequence[float]) -> Estimate:
    """The median with the middle 90 %."""
    middle = statistics.median(rates)
    if len(rates) < 2:
        return Estimate(estimate=middle, low=middle, high=middle, count=1)
    cuts = statistics.quantiles(rates, n=20, method="inclusive")
    return Estimate(estimate=middle, low=min(cuts[0], middle), high=max(cuts[-1], middle), count=len(rates))


def rates_for(seconds: float) -> list[float]:
    """Rates of the loop in the calling thread, one after the other for so long; at least one."""
    rates: list[float] = []
    end_s = time.monotonic() + seconds
    while not rates or time.monotonic() < end_s:
        rates.append(STEPS / time_reference().cpu_s)
    return rates


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[1])})
    sys.stdout.write("\n".join(f"{rate:.6g}" for rate in rates_for(float(sys.argv[2]))) + "\n")
