"""How fast a node's CPU is beside one of this host: as stated, or by one loop that ran on both.

The text that `cs_input_analyzer reference` prints and `--node-reference` takes is `RATE+-SPREAD%@PYTHON`, for example
`10234567+-1.5%@3.11`: steps of the loop in a CPU second, half its 90 % interval, and the Python that ran it, as two interpreters
are two loops.
"""

from __future__ import annotations

import math
import re

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Estimate
from cs_input_analyzer.units import parse_estimate

__all__ = ["checked_ratio", "format_reference", "ratio_by_loop", "read_reference"]

# Assumption: between two kinds of CPU, the speeds of two programs have ratios that differ by so much (half a 90 % interval). A loop
# of integers says little about caches and vector units.
OTHER_PROGRAM_RATIO = 0.10

# No two servers of one decade are further apart, CPU for CPU: beyond it, somebody has swapped two numbers.
LARGEST_RATIO = 20.0

_WITH_PYTHON = re.compile(r"(?P<rate>[^@]+?)\s*(?:@\s*(?P<python>[0-9]+\.[0-9]+))?\s*")


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
    match = _WITH_PYTHON.fullmatch(text)
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
