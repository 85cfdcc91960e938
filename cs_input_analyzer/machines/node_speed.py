"""How fast a node's CPU is beside one of this host: as stated, by the reference loop on both, on one CPU of each core at once, or,
of two known models, by published scores of servers whose cores were all busy.

All cores together run at a lower clock than one alone, and two hardware threads of a core share it; pipelines keep all cores busy,
and what sharing a core costs is a term of its own. Run on two machines, the ratio of the two rates is that of their CPUs.

The text that `cs_input_analyzer reference` prints and `--node-reference` takes is `RATE+-SPREAD%@PYTHON`, for example
`10234567+-1.5%@3.11`: steps of the loop in a CPU second, half its 90 % interval, and the Python that ran it, as two interpreters
are two loops. `python -m cs_input_analyzer.machines.node_speed CPU SECONDS` is what runs on one of them.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.machines.host import CPUS, threads_of_core
from cs_input_analyzer.machines.mounts import packaged
from cs_input_analyzer.machines.reference import STEPS, time_reference
from cs_input_analyzer.records import Estimate
from cs_input_analyzer.units import parse_estimate

SECONDS = 1.0
# Starting Python takes longer on the last of a hundred CPUs; what follows is SECONDS of work.
PATIENCE_S = 60.0
# Assumption: between two kinds of CPU, the speeds of two programs have ratios that differ by so much (half a 90 % interval). A loop
# of integers says little about caches and vector units.
OTHER_PROGRAM_RATIO = 0.10

# Assumption: the same between published scores of two models and their speeds for input pipelines (half a 90 % interval). One model
# at several sites differs by 5 % (one standard deviation), other programs by more. Nodes of this host's model run as it does.
PUBLISHED_RATIO, SAME_MODEL_RATIO = 0.15, 0.05

# No two servers of one decade are further apart, CPU for CPU: beyond it, somebody has swapped two numbers.
LARGEST_RATIO = 20.0

_MODEL = re.compile(r"EPYC \d\w+|XEON E5-\w+(?: V\d)?|XEON (?:GOLD|SILVER|PLATINUM|MAX) \w+\+?|NEOVERSE-\w+")
_WITH_PYTHON = re.compile(r"(?P<rate>[^@]+)(?:@\s*(?P<python>[0-9]+\.[0-9]+))?")


def one_cpu_per_core(budget: int, *, allowed: Sequence[int] | None = None, root: Path = CPUS) -> tuple[int, ...]:
    """The first CPU of each core that this process may use, at most `budget` of them. Where the kernel does not tell: every CPU."""
    cores: dict[frozenset[int], int] = {}
    for cpu in sorted(os.sched_getaffinity(0) if allowed is None else allowed):
        cores.setdefault(threads_of_core(cpu, root) or frozenset({cpu}), cpu)
    return tuple(cores.values())[:budget]


def node_rate(cpus: Sequence[int], seconds: float = SECONDS) -> Estimate:
    """Steps of the loop in one CPU second, on these CPUs at once: the median, and the middle 90 % over CPUs and time.

    Raises:
        LaunchError: the loop cannot be run there.
    """
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}

    def run(cpu: int) -> str:
        words = [sys.executable, "-m", __name__, str(cpu), str(seconds)]
        return subprocess.run(
            words, stdout=subprocess.PIPE, text=True, env=environment, timeout=PATIENCE_S + seconds, check=False
        ).stdout

    try:
        with ThreadPoolExecutor(len(cpus)) as pool:
            rates = [float(line) for out in pool.map(run, cpus) for line in out.split()]
    except subprocess.TimeoutExpired:
        raise LaunchError("the reference loop does not end: this host is too busy to tell its speed") from None
    if len(rates) < len(cpus) or not rates:
        raise LaunchError("the reference loop could not be run on this host's CPUs")
    return spread_of(rates)


def spread_of(rates: Sequence[float]) -> Estimate:
    """The median with the middle 90 %."""
    low, middle, high = map(float, np.quantile(rates, (0.05, 0.5, 0.95)))
    return Estimate(estimate=middle, low=low, high=high, count=len(rates))


def rates_for(seconds: float) -> list[float]:
    """Rates of the loop in the calling thread, one after the other for so long; at least one."""
    rates: list[float] = []
    end_s = time.monotonic() + seconds
    while not rates or time.monotonic() < end_s:
        rates.append(STEPS / time_reference())
    return rates


def format_reference(rate: Estimate, python_version: str) -> str:
    """What `--node-reference` takes. The wider side of the interval counts for both, rounded up: never to none, never to all."""
    spread = max(rate.high - rate.estimate, rate.estimate - rate.low) / rate.estimate
    percent = min(max(0.1, math.ceil(1000 * spread) / 10), 99.9)
    return f"{rate.estimate:.0f}+-{percent:.1f}%@{_minor(python_version)}"


def read_reference(text: str, python_version: str) -> Estimate:
    """The rate in such a text.

    Raises:
        UsageError: it is none, or another Python ran the loop than `python_version`, this one.
    """
    match = _WITH_PYTHON.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"not the rate of a reference loop: {text!r}; give what `cs_input_analyzer reference` prints on a node")
    if match["python"] is not None and match["python"] != _minor(python_version):
        raise UsageError(
            f"the reference loop ran under Python {match['python']} on the node and would run under {_minor(python_version)} here: "
            "two interpreters do not compare; run `cs_input_analyzer reference` there with this Python, or state the ratio of the "
            "speeds with --node-speed"
        )
    return parse_estimate(match["rate"])


def ratio_by_loop(node: Estimate, here: Estimate, *, is_same_cpu: bool) -> Estimate:
    """Speed of a node's CPU over one of this host, by the loop's rate on both; independent relative errors add in quadrature.

    Args:
        is_same_cpu: both are known to be one model, so that what is true of one program is true of all.
    """
    other = 0.0 if is_same_cpu else OTHER_PROGRAM_RATIO
    ratio = node.estimate / here.estimate
    down = math.hypot(1 - node.low / node.estimate, here.high / here.estimate - 1, other)
    up = math.hypot(node.high / node.estimate - 1, 1 - here.low / here.estimate, other)
    return checked_ratio(Estimate(estimate=ratio, low=ratio / (1 + down), high=ratio * (1 + up), count=node.count))


def model_of(cpu: str | None) -> str | None:
    """The model in what the kernel or a person calls a CPU, without trade marks and, of servers, clock rates; None where the text
    names none, as that of a virtual machine may not."""
    text = " ".join(re.sub(r"\((?:R|TM)\)|\bCPU\b", " ", (cpu or "").upper()).split())
    if (match := _MODEL.search(text)) is not None:
        return match[0]
    return text if re.search(r"\d{3}", text) else None


def ratio_by_model(node: str | None, here: str | None) -> Estimate | None:
    """Speed of a node's CPU over one of this host, by their models; None where either is unknown."""
    if is_same_model(node, here):
        ratio, error = 1.0, SAME_MODEL_RATIO
    else:
        theirs, mine = (packaged("cpu_speeds.yaml").get(model_of(cpu) or "") for cpu in (node, here))
        if theirs is None or mine is None:
            return None
        ratio, error = theirs / mine, PUBLISHED_RATIO
    return Estimate(estimate=ratio, low=ratio / (1 + error), high=ratio * (1 + error))


def is_same_model(node: str | None, here: str | None) -> bool:
    """Whether both texts name one model."""
    return model_of(node) is not None and model_of(node) == model_of(here)


def checked_ratio(ratio: Estimate) -> Estimate:
    """Raises UsageError for a ratio that no two CPUs have."""
    if not 1 / LARGEST_RATIO <= ratio.estimate <= LARGEST_RATIO or ratio.low <= 0:
        raise UsageError(
            f"a node's CPU would be {ratio.estimate:g} times as fast as one of this host: give its speed over this host's, for "
            f"example 1.2; no more than {LARGEST_RATIO:g} and no less than {1 / LARGEST_RATIO:g}"
        )
    return ratio


def _minor(python_version: str) -> str:
    return ".".join(python_version.split(".")[:2])


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[1])})
    sys.stdout.write("\n".join(f"{rate:.6g}" for rate in rates_for(float(sys.argv[2]))) + "\n")
