"""Compare the CPU of a node with the CPU of this host."""

from __future__ import annotations

import re
from dataclasses import replace

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Cluster, Estimate, Host

# One model at several sites differs by 5 % (one standard deviation of HEPscore23, file of 2026-08-20). Assumption: that is half a
# 90 % interval between two hosts of one model.
SAME_MODEL_RATIO = 0.05

# No two servers of one decade differ more, CPU for CPU. Beyond it, somebody has swapped two numbers.
LARGEST_RATIO = 20.0

_MODEL = re.compile(r"EPYC \d\w+|XEON E5-\w+(?: V\d)?|XEON (?:GOLD|SILVER|PLATINUM|MAX) \w+\+?|NEOVERSE-\w+")


def with_speed_of_same_model(cluster: Cluster, host: Host) -> Cluster:
    """Return the cluster with a speed ratio of 1 if its nodes have the CPU model of `host` and nothing better is known."""
    model = model_of(cluster.cpu_model)
    if cluster.speed_ratio is not None or model is None or model != model_of(host.cpu_model):
        return cluster
    ratio = Estimate(estimate=1.0, low=1 / (1 + SAME_MODEL_RATIO), high=1 + SAME_MODEL_RATIO)
    return replace(cluster, speed_ratio=ratio, speed_basis="same model")


def model_of(cpu: str | None) -> str | None:
    """Return the model in a CPU's name, without trade marks and, for servers, clock rates.

    Return None if the name holds no model, as a virtual machine's may not.
    """
    text = " ".join(re.sub(r"\((?:R|TM)\)|\bCPU\b", " ", (cpu or "").upper()).split())
    if (match := _MODEL.search(text)) is not None:
        return match[0]
    return text if re.search(r"\d{3}", text) else None


def checked_ratio(ratio: Estimate) -> Estimate:
    """Return the ratio. Raise UsageError if it is impossible for two CPUs."""
    if not 1 / LARGEST_RATIO <= ratio.estimate <= LARGEST_RATIO or ratio.low <= 0:
        raise UsageError(
            f"a node's CPU would be {ratio.estimate:g} times as fast as one of this host: give its speed over this host's, for "
            f"example 1.2; no more than {LARGEST_RATIO:g} and no less than {1 / LARGEST_RATIO:g}"
        )
    return ratio
