"""Names and assumptions of the capacity model. Where a number is not measured but assumed, it says so here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cs_input_analyzer.records.machine import THIS_HOST as THIS_HOST

# Names of the limits: what `limited_by` says.
WORKER_CPU = "worker CPU"
WORKER_SERIAL = "worker scaling"
ROUND_ROBIN = "round-robin feed"
MEMORY_BANDWIDTH = "memory bandwidth"
NETWORK_IN = "network in"
NETWORK_OUT = "network out"
HOST_STORAGE = "storage as one host sees it"
LATENCY = "storage latency"
STORAGE = "shared storage"
# Names of what stops a launch.
NODES = "nodes"
CPUS = "CPUs per node"
MEMORY = "memory per node"
FILES = "files"
INPUT_WORKERS = "input workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What is assumed until a host shows it: standard deviations of the natural logarithm of a rate.

    Attributes:
        process: of fresh processes of one launch.
        launch, host: of fresh launches, and of one host from hour to hour, on CPUs that nobody else uses. Where others take a share
            of the CPUs, `assumed_spread` adds what that disturbs.
        virtual_host: of a virtual machine from hour to hour: neighbours on the same cores are in no counter. On one shared machine,
            hours in which others had at most 5 % of the CPUs differed by 10 % (`benchmarks/quiet_hours`).
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
"""Of the share of the CPUs that others had, so much is the standard deviation of what a rate lost to them."""


def assumed_spread(quiet: float, others_ratio: float) -> float:
    """Return an assumed spread on a host of whose CPUs others had a share."""
    return math.hypot(quiet, OTHERS_SHARE * others_ratio)


# The second hardware thread of a core adds so much of the core's rate: median of 31 CPU models whose servers were scored with and
# without it (HEPscore23, file of 2026-08-20; the middle 90 % are 14 to 33 %).
SMT_GAIN_RATIO = 0.17
# Assumption: where a core's hardware threads are unknown they are at most so many, as on x86 servers.
MOST_LIKELY_THREADS = 2

ALIKE_BUSY_RATIO = 1.1
"""CPUs kept busy that differ by less are taken as equal: CPU time is measured, and from size to size it differs by some percent."""

# A worker "does not scale" where doubling its CPUs gives less than 10 %; or, with one CPU count probed, where it leaves 30 % idle.
SCALING_ELASTICITY = math.log2(1.1)
CPU_LIMITED_RATIO = 0.7

CEILING_ERROR_RATIO = 1.25
"""A ceiling that the measured rate exceeds by more than this is none: so far off may be the figures that ceilings are made of, as
element counts, or a second of reading alone."""

UNEVEN_RATIO = 0.9
"""A slowest worker below this share of the mean is a limit of its own; above, it is part of what a worker delivers."""

MOST_CONTENTION_TASKS = 4
"""Each worker costs seconds of import and half a GiB; four show how they share a host."""
