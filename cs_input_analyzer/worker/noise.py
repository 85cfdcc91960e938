"""Compute how far a window can be trusted: what moved in it, and how busy the host was."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cs_input_analyzer.host.counters import Counters
from cs_input_analyzer.model.steady_state import Window
from cs_input_analyzer.records import Noise
from cs_input_analyzer.worker.journal import Journal


def noise_between(begin: Counters, end: Counters) -> Noise:
    """Return waiting and stolen time between two readings, and the share of the CPUs that other processes used."""
    queued = grown_ratio(begin.queued_s, end.queued_s, begin.run_s, end.run_s)
    preempted = grown_ratio(begin.preempted_switches, end.preempted_switches, begin.switches, end.switches)
    busy = grown_ratio(begin.own_cpus_busy_s, end.own_cpus_busy_s, begin.own_cpus_s, end.own_cpus_s)
    own = grown_ratio(begin.cpu_s, end.cpu_s, begin.own_cpus_s, end.own_cpus_s)
    return Noise(
        run_queue_wait_ratio=queued,
        steal_ratio=grown_ratio(begin.host_steal_s, end.host_steal_s, begin.host_cpu_s, end.host_cpu_s),
        preempted_ratio=queued * preempted if queued is not None and preempted is not None else None,
        others_ratio=None if busy is None or own is None else max(0.0, busy - own),
    )


def grown_ratio(begin: float | None, end: float | None, whole_begin: float | None, whole_end: float | None) -> float | None:
    """Return the growth of a part over the growth of its whole; None if unknown. Ended threads can make the difference negative."""
    if begin is None or end is None or whole_begin is None or whole_end is None or whole_end <= whole_begin:
        return None
    return max(0.0, (end - begin) / (whole_end - whole_begin))


def moved_parameters(journal: Journal, window: Window) -> tuple[str, ...] | None:
    """Return the tunable parameters (`op.parameter`) that changed inside the window; None if they were never read.

    A change lies somewhere between two readings of the model. It counts if it may lie inside the window.
    """
    begin_s, end_s = journal.stamps_s[window.first], journal.stamps_s[window.first + window.batches]
    known: dict[str, float] | None = None
    moved, since_s = set[str](), float("-inf")
    for event in journal.events:
        if event["event"] != "tuned":
            continue
        is_inside = event["at_s"] > begin_s and since_s <= end_s
        known = known if known is not None else {}
        for name, value in event["values"].items():
            if is_inside and known.get(name, value) != value:  # one that appears late has not moved
                moved.add(str(name))
            known[name] = value
        since_s = event["at_s"]
    return tuple(sorted(moved)) if known is not None else None


def epoch_gap_s(journal: Journal, stamps_s: npt.NDArray[np.float64]) -> float | None:
    """Return the mean seconds from the last batch of a pass to the first of the next; None if no pass was seen to end.

    A pipeline that repeats inside hides its passes, so nothing is known of them.
    """
    edges = {int(event["batches"]) for event in journal.events if event["event"] == "epoch"}
    gaps = [float(stamps_s[edge] - stamps_s[edge - 1]) for edge in sorted(edges) if 0 < edge < len(stamps_s)]
    return sum(gaps) / len(gaps) if gaps else None
