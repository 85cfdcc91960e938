"""Name the limits of this process (ulimit) that are too low for TensorFlow."""

from __future__ import annotations

import os
import resource

from cs_input_analyzer.units import format_count

# TensorFlow and its libraries map some 4 GiB. The C library adds up to eight arenas of 64 MiB for each CPU; without them threads
# wait for each other, and a pipeline runs at a fraction of its rate.
ADDRESSES_BYTES, ARENAS_BYTES_PER_CPU = 4 << 30, 8 * (64 << 20)
# A worker opens some 50 files, and the files that it reads in parallel.
OPEN_FILES = 256
# A worker has some 20 threads, and a few for each CPU.
THREADS, THREADS_PER_CPU = 64, 8
CPU_S = 3600


def low_limits() -> str:
    """Return a sentence about the limits of this process that TensorFlow may run into, with the option of `ulimit`.

    It is empty if there are none. The number of threads does not limit the superuser.
    """
    cpus = os.cpu_count() or 1
    found = [
        (resource.RLIMIT_AS, "v", "bytes of addresses", ADDRESSES_BYTES + ARENAS_BYTES_PER_CPU * cpus),
        (resource.RLIMIT_NOFILE, "n", "open files", OPEN_FILES),
        (resource.RLIMIT_CPU, "t", "seconds of CPU time", CPU_S),
    ]
    if os.geteuid() != 0:
        found.append((resource.RLIMIT_NPROC, "u", "threads", THREADS + THREADS_PER_CPU * cpus))
    lows = [(resource.getrlimit(kind)[0], option, noun, needed) for kind, option, noun, needed in found]
    few = [
        f"{format_count(low)} {noun} (ulimit -{option})"
        for low, option, noun, needed in lows
        if low != resource.RLIM_INFINITY and low < needed
    ]
    return f"this shell grants only {' and '.join(few)}: TensorFlow may fail or run slower; raise it" if few else ""
