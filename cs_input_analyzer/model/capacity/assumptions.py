"""Names and assumptions of the capacity model. Where a number is not measured but assumed, it says so here."""

from __future__ import annotations

import math

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

# Assumption: fresh processes of one pipeline differ by 3 % (one standard deviation) until they are seen to differ by more. It is
# worth as much as four observed differences. Without it two processes that happen to agree would claim to be exact.
PROCESS_SPREAD_RATIO = 0.03
PROCESS_SPREAD_WEIGHT = 4

# At the quiet level fresh launches of one layout differ by so much (one standard deviation): in ten occasions it was 2 % over
# all of four pipelines, and 5 % at most (`benchmarks/occasion`). It is worth as much as four observed differences.
LAUNCH_SPREAD_RATIO = 0.05
LAUNCH_SPREAD_WEIGHT = 4

# What runs at different hours say of the quiet level of one host differs by so much (one standard deviation): all occasions but one
# (`benchmarks.other_hours --most-others 0.5`). In that one others used 73 % of the CPUs, and the quiet level was seen a fifth too
# low.
RUN_SPREAD_RATIO = 0.06

# The model's own error, natural logarithm, for each doubling of the size beyond twice what was probed: no launch so far outside was
# measured. What is known to change with the CPUs in use is their clock: from two busy cores to all of eight it falls by 4 % each
# doubling (Intel Xeon E5-2667 v2, whose steps of turbo are published). Nearer, 454 launches of 14 pipelines that had no part in the
# model lay outside of its intervals by 0.001 inside what was probed, and by 0.013 for a doubling (`benchmarks/prediction_error`).
FAR_ERROR_LOG_PER_DOUBLING = 0.05
SHAPE_ERROR_LOG = 0.06

# Assumption: a node whose speed was neither stated nor measured is up to so much slower or faster, CPU for CPU, than this host.
UNKNOWN_SPEED_RATIO = 1.15

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
