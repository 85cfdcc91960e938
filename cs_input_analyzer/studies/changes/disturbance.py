"""How differently two hosts were busy with other work while the same launch ran.

Threads that others keep from a CPU make a launch slower by as much, whatever its pipeline: one whose threads waited as long as they
ran is half as fast as on a quiet host. That is not corrected for (waiting is not all that others do to a launch), it widens the
interval: how far the two runs are apart in it counts as one standard deviation of the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cs_input_analyzer.records import Measurement, Noise
from cs_input_analyzer.studies.changes.launches import Pair
from cs_input_analyzer.studies.changes.spread import mean

__all__ = ["disturbance_log", "waits_of"]

# Threads of one worker also wait for each other, as the pipeline has it: runs that differ by less say nothing about the host.
OWN_LOG = 0.1


def disturbance_log(pair: Pair) -> float:
    """Standard deviation that it adds to the logarithm of the ratio; 0 where both hosts were alike, or it was not recorded."""
    waits = waits_of(pair)
    return 0.0 if waits is None else max(0.0, abs(math.log1p(waits[1]) - math.log1p(waits[0])) - OWN_LOG)


def waits_of(pair: Pair) -> tuple[float, float] | None:
    """Time that threads waited for a CPU over the time they ran, in the old and in the new launches; None where not recorded.

    After they had lost it in the middle of their work, where both runs distinguish that.
    """
    old, new = _noises(pair.old), _noises(pair.new)
    lost = _both([noise.preempted_ratio for noise in old], [noise.preempted_ratio for noise in new])
    return lost or _both([noise.run_queue_wait_ratio for noise in old], [noise.run_queue_wait_ratio for noise in new])


def _both(old: Sequence[float | None], new: Sequence[float | None]) -> tuple[float, float] | None:
    one, other = ([value for value in side if value is not None and value >= 0] for side in (old, new))
    return (mean(one), mean(other)) if one and other else None


def _noises(launches: Sequence[Measurement]) -> list[Noise]:
    """Of the workers; of a launch that has none of them, its own."""
    found = []
    for launch in launches:
        own = [worker.noise for worker in launch.workers if worker.noise is not None]
        found += own or ([launch.noise] if launch.noise is not None else [])
    return found
