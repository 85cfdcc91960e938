"""What the pipeline costs when it is cut after each of its ops: the marginal view of per-op cost.

The difference of two neighbouring cuts is what an op adds, its share of executor and allocation included; the model of the running
pipeline, which `costs` reads, leaves those to the runtime. The differences do not add up to anything: a shorter pipeline overlaps
less, and keeps other things in the CPU's caches.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cs_input_analyzer.records import Op

# The elements of a cut are handed out in windows, which move them and copy nothing: one by one the hand-over would be measured.
WINDOW_BYTES = 4 * 2**20
WINDOW_ELEMENTS = 64
WARM_S = 0.15
LONGEST_S = 0.6
SHORTEST_S = 0.2


def cpu_s_per_element(dataset: Any, ops: Sequence[Op], budget_s: float, harness_s: float) -> Iterator[tuple[str, float]]:
    """Op name and CPU seconds for each element of the pipeline cut after it, one after the other.

    Ops that could not be cut or read are left out, and the last ones when the time is up.

    Args:
        budget_s: for all cuts together.
        harness_s: what handing out one element or window costs by itself.
    """
    from cs_input_analyzer.pipeline.edits import prefix

    top = [op for op in ops if op.within is None]
    deadline_s = time.monotonic() + budget_s
    for position, op in enumerate(top):
        share_s = (deadline_s - time.monotonic()) / (len(top) - position)
        if share_s < SHORTEST_S + WARM_S:
            return
        try:
            cut = prefix(dataset, op.name)
            cost_s = _cpu_s(cut, min(LONGEST_S, share_s - WARM_S), harness_s) if cut is not None else None
        except Exception:  # one that cannot run alone says nothing about the others
            continue
        if cost_s is not None:
            yield op.name, cost_s


def _cpu_s(cut: Any, seconds: float, harness_s: float) -> float | None:
    """Process CPU for one element of `cut` once it runs; None where it ended at once."""
    from cs_input_analyzer.worker.sampling import sampling_loop

    elements = max(1, min(WINDOW_ELEMENTS, WINDOW_BYTES // max(1, _element_bytes(cut))))
    read = cut.repeat().window(elements) if elements > 1 else cut.repeat()
    loop = sampling_loop(read.element_spec, count_samples=False)
    iterator, steps = iter(read), 1
    loop(iterator, steps)  # traces, and fills what is to be filled
    counted = _for_a_while(loop, iterator, WARM_S, steps)
    if counted is None:
        return None
    counted = _for_a_while(loop, iterator, seconds, counted[2])
    return max(0.0, counted[1] / counted[0] - harness_s) / elements if counted is not None else None


def _element_bytes(cut: Any) -> int:
    """By static shapes; where those do not tell (strings), one element is read: it may be of half a gigabyte."""
    import tensorflow as tf

    from cs_input_analyzer.worker.sampling import bytes_of

    specs = tf.nest.flatten(cut.element_spec)
    if all(spec.shape.is_fully_defined() and spec.dtype.is_numpy_compatible and spec.dtype != tf.string for spec in specs):
        return sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)
    return bytes_of(next(iter(cut)))


def _for_a_while(loop: Any, iterator: Any, seconds: float, steps: int) -> tuple[int, float, int] | None:
    """Steps taken, their CPU, and how many steps fill a tenth of the time."""
    began_s, began_cpu_s, done = time.monotonic(), time.process_time(), 0
    while (elapsed_s := time.monotonic() - began_s) < seconds:
        chunk = loop(iterator, steps)
        if chunk.error is not None or chunk.ended:
            return None
        done += len(chunk.stamps_s)
        if time.monotonic() - began_s - elapsed_s < seconds / 20:
            steps *= 2
    return done, time.process_time() - began_cpu_s, steps


def marginal_s_per_sample(ops: Sequence[Op], cpu_s: Mapping[str, float], visits: Mapping[str, float]) -> dict[str, float]:
    """CPU per sample of the pipeline cut after each op minus that of the one cut before it; where both were measured.

    Args:
        cpu_s: per element of the cut.
        visits: elements of each op for one sample.
    """
    per_sample = {name: cost_s * visits[name] for name, cost_s in cpu_s.items() if name in visits}
    return {
        op.name: per_sample[op.name] - sum(per_sample[name] for name in op.inputs)
        for op in ops
        if op.name in per_sample and all(name in per_sample for name in op.inputs)
    }
