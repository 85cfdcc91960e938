"""Names and assumptions of the capacity model: every number here is assumed, not measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cs_input_analyzer.records.machine import THIS_HOST as THIS_HOST

# Names of the limits, as in `limited_by`.
WORKER_CPU = "worker CPU"
WORKER_SERIAL = "worker scaling"
ROUND_ROBIN = "round-robin feed"
MEMORY_BANDWIDTH = "memory bandwidth"
NETWORK_IN = "network in"
NETWORK_OUT = "network out"
HOST_STORAGE = "storage as one host sees it"
LATENCY = "storage latency"
STORAGE = "shared storage"
# Names of the limits that make a launch impossible.
NODES = "nodes"
CPUS = "CPUs per node"
MEMORY = "memory per node"
FILES = "files"
INPUT_WORKERS = "input workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """Assumed standard deviations of the natural logarithm of a rate, used until measurements replace them.

    Attributes:
        process: between fresh processes of one launch.
        launch, host: between fresh launches, and of one host from hour to hour, on idle CPUs. If other programs use CPUs,
            `assumed_spread` adds their effect.
        virtual_host: of a virtual machine from hour to hour, as no counter shows its neighbours on the same cores. On one shared
            machine, hours in which other programs used at most 5 % of the CPUs differed by 10 % (`benchmarks/quiet_hours`).
        shape: of a size between two probed ones, for each root of a doubling. It is 11 % in the middle of three doublings in 44
            published curves (`benchmarks/published_scaling`).
        node: of the speed of a node, CPU for CPU, that was neither stated nor measured.
    """

    process: float = 0.03
    launch: float = 0.03
    host: float = 0.01
    virtual_host: float = 0.12
    shape: float = 0.15
    node: float = 0.085


ASSUMED = Assumed()
OTHERS_SHARE = 0.4
"""The standard deviation of a rate's loss to other programs, as a part of the share of the CPUs that they used."""


def assumed_spread(quiet: float, others_ratio: float) -> float:
    """Return an assumed spread on a host whose CPUs other programs share."""
    return math.hypot(quiet, OTHERS_SHARE * others_ratio)


# The second hardware thread of a core adds this part of the core's rate: median of 31 CPU models whose servers were scored with and
# without it (HEPscore23, file of 2026-08-20; the middle 90 % are 14 to 33 %).
SMT_GAIN_RATIO = 0.17
# Assumption: if a core's hardware threads are unknown they are at most two, as on x86 servers.
MOST_LIKELY_THREADS = 2

ALIKE_BUSY_RATIO = 1.1
"""Numbers of busy CPUs that differ by less count as equal, because measured CPU time differs by some percent from size to size."""

# A worker "does not scale" if doubling its CPUs gives less than 10 %; or, with one CPU count probed, if it leaves 30 % idle.
SCALING_ELASTICITY = math.log2(1.1)
CPU_LIMITED_RATIO = 0.7

CEILING_ERROR_RATIO = 1.25
"""A ceiling is refuted if the measured rate exceeds it by more than this. The numbers behind a ceiling may be off by that much:
element counts, or a second of reading alone."""

UNEVEN_RATIO = 0.9
"""A slowest worker below this share of the mean is a separate limit; above, it is part of the rate of a worker."""
