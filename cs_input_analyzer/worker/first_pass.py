"""Tell from the graph when a `cache` is full, if TensorFlow shows no model of the running iterator.

It shows none before 2.17, and none with autotune off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.lineage import downstream
from cs_input_analyzer.tfdata.op_kinds import BATCHING, KEEPERS, ONE_BY_ONE, ONE_FOR_ONE, REPEATS
from cs_input_analyzer.tfdata.visits import is_counted, visit_ratios

# They read their input to its end.
_READS_ALL = (ONE_BY_ONE | ONE_FOR_ONE | BATCHING) - {"Take", "Zip"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPass:
    """Describe the end of the pass that fills the cache.

    Attributes:
        elements: elements of the pipeline after which the cache is full; None if the graph does not tell.
        ends_with_data: whether the cache is full when the data end.
        is_seen: whether the end of the pass cannot be missed.
    """

    elements: float | None
    ends_with_data: bool
    is_seen: bool


def first_pass_of(dataset: Any, ops: Sequence[Op]) -> FirstPass | None:
    """Return the first pass of a pipeline; None if it has no `cache`."""
    caches = [op for op in ops if op.kind in KEEPERS and op.within is None]
    if not caches:
        return None
    behind = [op for cache in caches for op in downstream(cache, ops)]
    reads_all = all(op.kind in _READS_ALL and len(op.inputs) == 1 for op in behind)
    elements = _elements_until_full(dataset, caches[0], ops) if reads_all and len(caches) == 1 else None
    is_repeated = any(op.kind in REPEATS for op in behind)
    return FirstPass(elements=elements, ends_with_data=reads_all, is_seen=reads_all and (elements is not None or not is_repeated))


def _elements_until_full(dataset: Any, cache: Op, ops: Sequence[Op]) -> float | None:
    """Return the elements of the pipeline that need all of the cache; None if its size or the ops behind it do not tell."""
    while type(dataset).__name__ != "CacheDataset":
        if len(before := dataset._inputs()) != 1:
            return None
        dataset = before[0]
    size, taken = int(dataset.cardinality()), visit_ratios(ops, {}, 1.0).get(cache.name)
    return size / taken if size >= 0 and taken and is_counted(cache, ops, {}) else None
