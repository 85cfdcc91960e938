"""A `shuffle` buffer is longer than what one worker has to shuffle.

The buffer then takes in the worker's whole shard before it gives out the first element, in each pass: nothing is read ahead, and at
the end of every pass all else waits until the shard has been read again. More workers make the shards smaller and the buffer no
shorter.

Fix: a buffer of some batches or a few percent of the shard, together with a shuffle of the file names; or, if you want the whole
shard shuffled, `repeat` before `shuffle` so that the passes run into one another.

Silent where the buffer is shorter than the shard or no longer than ten batches (then it is the data that are few), for file names,
behind an endless `repeat` (the buffer is filled only once), after `batch`, and without a measurement that shows how many samples
there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import reads_names_only, upstream
from cs_input_analyzer.pipeline.op_kinds import SHUFFLES
from cs_input_analyzer.pipeline.samples import samples_reaching
from cs_input_analyzer.planning.evidence import samples_of_worker, workers_of
from cs_input_analyzer.records import Case, Finding

# A gap between two passes that takes this share of a pass, and is long enough to be felt, is worth a warning.
GAP_RATIO = 0.1
LONG_GAP_S = 1.0
# A buffer of so many batches is a short one, however few samples there are.
BATCHES = 10


def find(case: Case) -> Iterator[Finding]:
    ops, samples = case.pipeline.ops, samples_of_worker(case)
    for op in ops:
        count = op.parameters.get("buffer_size")
        if op.kind not in SHUFFLES or not isinstance(count, int) or op.within is not None or samples is None:
            continue
        is_endless = any(other.kind == "Repeat" and other.parameters.get("count") == -1 for other in upstream(op, ops))
        if is_endless or reads_names_only(op, ops) or samples_reaching(op, ops) != 1:
            continue
        if count <= max(samples, BATCHES * (case.pipeline.batch_size or 1)):
            continue
        gap_s = _gap_s(case)
        share = _gap_share(case, gap_s, samples)
        workers = workers_of(case) if case.is_sharded else None
        yield Finding(
            severity="warning" if (gap_s or 0.0) >= LONG_GAP_S and (share or 0.0) >= GAP_RATIO else "info",
            message=f"the buffer of {op.name} takes {count:,} elements, and a worker has only about {samples:,.0f}",
            op=op.name,
            evidence={"buffer_size": count, "samples_of_a_worker": round(samples), "workers": workers, "epoch_gap_s": gap_s},
            fix="shuffle the file names, and give the buffer some batches or a few percent of a worker's samples",
        )


def _gap_s(case: Case) -> float | None:
    states = [worker.steady_state for m in case.measurements for worker in m.workers if worker.steady_state is not None]
    gaps = [state.epoch_gap_s for state in states if state.epoch_gap_s is not None]
    return max(gaps, default=None)


def _gap_share(case: Case, gap_s: float | None, samples: float) -> float | None:
    """The gap between two passes over the time of a pass, both of the slowest worker that was measured."""
    rates = [worker.samples_per_s.estimate for m in case.measurements for worker in m.measured_workers if worker.samples_per_s]
    return gap_s / (gap_s + samples / min(rates)) if gap_s is not None and rates and min(rates) > 0 else None
