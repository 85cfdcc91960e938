"""Three runs of one pipeline, and what the differences say: differential analysis, as DS-Analyzer does it.

Mohan, Phanishayee, Raniwala, Chidambaram: "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021. A consumer with data
at hand, a pipeline with its files in memory, and the same with its files on storage differ by one cause each. The last difference
is split once more, by what the bandwidth of the storage alone would ask for.
"""

from __future__ import annotations

import math

from cs_input_analyzer.records import Decomposition


def decompose(
    *,
    consumer_s: float,
    warm_s: float,
    cold_s: float | None = None,
    bytes_per_sample: float | None = None,
    cold_bytes_per_s: float | None = None,
) -> Decomposition:
    """Shares of the time per sample, from seconds per sample of the runs.

    Args:
        consumer_s: one ready element again and again.
        warm_s: the files in the page cache. `cold_s`: not in it; None where not run.
        bytes_per_sample: read from storage. `cold_bytes_per_s`: the most that the storage gives to this host, over all streams.

    A run that does less cannot take longer than one that does more; where noise says it did, it is cut to the other. The time of
    the whole is that of the coldest run. With reading and preparing perfectly overlapped, a cold sample takes the longer of its
    warm time and `bytes_per_sample / cold_bytes_per_s`: what that exceeds the warm time by is fetch-bound, and only a faster
    storage helps. The rest is waiting for single reads, which more of them at a time would hide: latency-bound.

    Fetch and latency are None, and the shares those of the warm run, where the cold run, the bytes or the bandwidth are missing.
    Raises ValueError for times that are not positive and finite (`consumer_s` may be 0).
    """
    times = [warm_s, *([cold_s] if cold_s is not None else [])]
    if not all(math.isfinite(value) and value > 0 for value in times) or not (math.isfinite(consumer_s) and consumer_s >= 0):
        raise ValueError(f"seconds per sample must be positive: consumer {consumer_s}, warm {warm_s}, cold {cold_s}")
    if cold_s is None or bytes_per_sample is None or not cold_bytes_per_s:
        consumer = min(consumer_s, warm_s) / warm_s
        return Decomposition(consumer_ratio=consumer, prep_ratio=1 - consumer, fetch_ratio=None, latency_ratio=None)
    warm = min(warm_s, cold_s) / cold_s
    consumer = min(consumer_s / cold_s, warm)
    transfer = bytes_per_sample / cold_bytes_per_s / cold_s
    fetch = max(0.0, min(1.0, transfer) - warm)
    return Decomposition(
        consumer_ratio=consumer,
        prep_ratio=warm - consumer,
        fetch_ratio=fetch,
        latency_ratio=max(0.0, 1 - warm - fetch),
    )
