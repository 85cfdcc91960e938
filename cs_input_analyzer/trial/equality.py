"""Compare an edited pipeline with the original: elements bit by bit, without chance in either.

Order counts if the original promises one. If it does not, and the edit makes use of that, each element of a whole pass must come
equally often from both. Such elements are compared where the two pipelines part, before batching. Fewer elements than a pass prove
nothing if any order will do, or if the two take turns between their files in different ways. Then a whole pass is compared: over
all inputs or, if each input gives the same alone, over the first few.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from cs_input_analyzer.host.machine import memory_here
from cs_input_analyzer.tfdata.edits import deterministic, difference
from cs_input_analyzer.tfdata.messages import named_message
from cs_input_analyzer.tfdata.python_chance import fixed_draws

# One comparison holds two pipelines at once.
MOST_ELEMENTS = 20_000
# In order the first elements suffice. Only an edit that takes other turns between files may show in later ones alone.
LONGEST_IN_ORDER_S = 2.0
# Fewer elements prove nothing, if there are more.
LEAST_ELEMENTS = 4
# If a whole pass takes too long, it is one over this many elements (files) of the part that both pipelines share.
FEW_INPUTS = (48, 12, 3)
# A cache on trial must not use up the host's memory. It is checked once in this many elements.
LEAST_FREE_RATIO = 0.1
MESSAGE_LIMIT = 500
MEMORY_CHECK = 32
_PYTHON = "; its Python code may give something else each time it is called"
_OTHER_TURNS = "the two take turns between their files in different ways, and the order of the original is promised"


_Pair = tuple[difference.Pipeline, difference.Pipeline]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Hold the result of a comparison.

    Attributes:
        reason: why it was refused, or the basis of the proof.
        elements: the number compared.
        of: the elements of a pass; None if a pass has no end or was not seen whole.
        pass_elements: elements of one pass, if a cache shows only in the second.
    """

    status: Literal["proven", "refused"]
    reason: str
    elements: int = 0
    of: int | None = None
    pass_elements: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Hold the result of reading two pipelines. `difference` is empty if all was alike; `is_whole`: both ended."""

    elements: int
    is_whole: bool
    difference: str = ""
    failure: str = ""


def prove(original: Any, edited: Any, *, seconds: float) -> Proof:
    """Compare two datasets. Refuse by name whatever cannot be compared; nothing is proven by default."""
    if original.element_spec != edited.element_spec:
        return _refused(f"the elements are of another kind: {edited.element_spec} instead of {original.element_spec}"[:500])
    pipelines = difference.read(original), difference.read(edited)
    counts = _count(original, pipelines[0]), _count(edited, pipelines[1])
    if counts[0] != counts[1]:
        return _refused(f"{counts[1]} elements in a pass instead of {counts[0]}")
    why = difference.incomparable(pipelines[0]) or difference.incomparable(pipelines[1]) or difference.changed_promise(*pipelines)
    if why is not None:
        return _refused(why)
    is_cached_elsewhere = difference.cache_places(pipelines[0].ops) != difference.cache_places(pipelines[1].ops)
    compared = _two_passes if is_cached_elsewhere else _in_order_or_without
    with fixed_draws() if pipelines[0].calls_python else nullcontext():
        python = _PYTHON if pipelines[0].calls_python else ""
        return compared(original, edited, pipelines, time.monotonic() + seconds, python)


def _in_order_or_without(original: Any, edited: Any, pipelines: _Pair, deadline_s: float, python: str) -> Proof:
    until_s = time.monotonic() + min(LONGEST_IN_ORDER_S, (deadline_s - time.monotonic()) / 2)
    read = _side_by_side(deterministic(original), deterministic(edited), until_s, latest_s=deadline_s)
    if read.failure:
        return _refused(read.failure, read.elements)
    if not read.difference:
        if read.elements < (1 if read.is_whole else LEAST_ELEMENTS):
            few = f"{'no element' if read.elements == 0 else f'only {read.elements}'} could be compared"
            return _refused(few if read.is_whole else f"{few} in the available time", read.elements)
        if _stands_for_the_rest(read, pipelines):
            what = "a whole pass" if read.is_whole else "the first ones"
            known = int(original.cardinality())  # negative without an end, or if TensorFlow does not know
            of = read.elements if read.is_whole else known if known >= 0 else None
            return Proof(status="proven", reason=f"{what}, in order", elements=read.elements, of=of)
    where = difference.parting(*pipelines)
    if where is None:
        return _refused(read.difference + python if read.difference else _OTHER_TURNS, read.elements)
    counted, first = 0, read.difference
    sources = where.sources or (None, None)
    for inputs in (None, *(FEW_INPUTS if where.sources else ())):
        until_s = time.monotonic() + (deadline_s - time.monotonic()) / (2 if inputs != FEW_INPUTS[-1] else 1)
        forms = (
            deterministic(original, one_pass=True, cut=where.original, source=sources[0], most=inputs),
            deterministic(edited, one_pass=True, cut=where.edited, source=sources[1], most=inputs),
        )
        read = _without_order(*forms, until_s)
        counted = max(counted, read.elements)
        if read.failure or read.difference:
            return _refused(read.failure or read.difference + python, read.elements)
        if read.is_whole and read.elements:
            part = "a whole pass" if inputs is None else f"a pass over the first {inputs} inputs"
            of = read.elements if inputs is None else None
            return Proof(
                status="proven", reason=f"{part}, in any order, as the original promises none there", elements=read.elements, of=of
            )
    too_long = f"{first or 'the order changes'}, so a whole pass must be compared, and that takes longer than there is time"
    return _refused(too_long + (python if first else ""), counted)


def _stands_for_the_rest(read: _Read, pipelines: _Pair) -> bool:
    """Return whether equal elements stand for those that were not seen.

    Another cycle shows only after as many records as the old one takes in its first round, and never in some orders of the files.
    """
    if difference.turns(pipelines[0].ops) == difference.turns(pipelines[1].ops):
        return True
    return read.is_whole and all(map(difference.has_one_order, pipelines))


def _two_passes(original: Any, edited: Any, pipelines: _Pair, deadline_s: float, python: str) -> Proof:
    """Compare two whole passes: a cache shows only in the second one, after the first was read to its end.

    If a shuffle stands before the cache, the passes come in other orders. They are compared without it where another one follows.
    """
    where = difference.parting(*pipelines) if any(difference.mixed_anew(one.ops) for one in pipelines) else None
    cuts = (where.original, where.edited) if where is not None else (None, None)
    first, second = deterministic(original, one_pass=True, cut=cuts[0]), deterministic(edited, one_pass=True, cut=cuts[1])
    compared: Callable[[Any, Any, float], _Read] = _side_by_side if where is None else _without_order
    total = pass_elements = 0
    for _ in range(2):
        read = compared(first, second, deadline_s)
        total += read.elements
        if read.failure or read.difference:
            return _refused(read.failure or read.difference + python, total)
        if not read.is_whole:
            return _refused("a cache shows in the second pass, and reading two takes longer than there is time", total)
        pass_elements = pass_elements or read.elements
        if where is None and not _stands_for_the_rest(read, pipelines):
            return _refused(_OTHER_TURNS, total)
    if pass_elements == 0:
        return _refused("no element could be compared")
    if where is not None:
        pass_elements = -(-pass_elements // difference.batched_behind(pipelines[0], where.original))
    reason = f"two whole passes, {'in order' if where is None else 'in any order, as the original promises none there'}"
    return Proof(status="proven", reason=reason, elements=total, of=total, pass_elements=pass_elements)


def _side_by_side(first: Any, second: Any, deadline_s: float, latest_s: float | None = None) -> _Read:
    """Compare until both end, or until the deadline. If only few elements came by then, continue until `latest_s`."""
    left, right = _elements(first), _elements(second)
    elements = 0
    while True:
        one, other = next(left, _END), next(right, _END)
        for given, who in ((one, "original"), (other, "edited pipeline")):
            if isinstance(given, Exception):
                return _failed(who, elements, given)
        if one is _END or other is _END:
            difference = "" if one is other else f"one ends after {elements} elements, the other goes on"
            return _Read(elements=elements, is_whole=True, difference=difference)
        if one != other:
            return _Read(elements=elements, is_whole=False, difference=f"element {elements} differs")
        elements += 1
        if elements % MEMORY_CHECK == 0 and is_memory_short():
            return _Read(elements=elements, is_whole=False, failure="the memory is nearly full")
        is_late = time.monotonic() > (deadline_s if latest_s is None or elements >= LEAST_ELEMENTS else latest_s)
        if elements >= MOST_ELEMENTS or is_late:
            return _Read(elements=elements, is_whole=False)


def _without_order(first: Any, second: Any, deadline_s: float) -> _Read:
    counts: list[Counter[bytes]] = []
    for dataset, who in ((first, "original"), (second, "edited pipeline")):
        count: Counter[bytes] = Counter()
        for element in _elements(dataset):
            if isinstance(element, Exception):
                return _failed(who, sum(count.values()), element)
            made = hashlib.blake2b(digest_size=16)
            for dtype, shape, content in element:
                made.update(f"{dtype} {shape} {len(content)} ".encode())
                made.update(content)
            count[made.digest()] += 1
            if time.monotonic() > deadline_s:
                return _Read(elements=sum(count.values()), is_whole=False)
        counts.append(count)
    missing, added = counts[0] - counts[1], counts[1] - counts[0]
    total = sum(counts[0].values())
    if missing or added:
        lost, more = sum(missing.values()), sum(added.values())
        return _Read(elements=total, is_whole=True, difference=f"of {total} elements {lost} are missing and {more} are new")
    return _Read(elements=total, is_whole=True)


def _failed(who: str, elements: int, error: Exception) -> _Read:
    failure = f"the {who} fails at element {elements}: {named_message(error, MESSAGE_LIMIT)}"
    return _Read(elements=elements, is_whole=False, failure=failure)


def is_memory_short(more_bytes: int = 0) -> bool:
    """Return whether little memory is left here, or would be with `more_bytes` in use."""
    memory = memory_here()
    return memory.free_bytes - more_bytes < LEAST_FREE_RATIO * memory.total_bytes


_END: Any = object()
# dtype, shape and bytes of one tensor.
_Part = tuple[str, tuple[int, ...], bytes]


def _elements(dataset: Any) -> Iterator[Any]:
    """Yield elements in canonical form: bytes, so that a NaN equals itself. Yield the exception of an element that failed."""
    import tensorflow as tf

    try:
        for element in dataset:
            yield tuple(_part(tensor) for tensor in tf.nest.flatten(element, expand_composites=True))
    except Exception as error:  # whatever TensorFlow or the user's functions raise
        yield error


def _part(tensor: Any) -> _Part:
    if tensor is None:
        return "none", (), b""
    values = tensor.numpy() if hasattr(tensor, "numpy") else tensor
    if isinstance(values, bytes):
        return "string", (), values
    if values.dtype == object:
        texts = [bytes(text) for text in values.ravel().tolist()]
        return "string", tuple(values.shape), b"".join(len(text).to_bytes(8, "little") + text for text in texts)
    return str(values.dtype), tuple(values.shape), values.tobytes()


def _refused(reason: str, elements: int = 0) -> Proof:
    return Proof(status="refused", reason=reason, elements=elements)


def _count(dataset: Any, pipeline: difference.Pipeline) -> str:
    """Return the elements of a pass. Of names that repeat TensorFlow does not know that their records never end; the ops tell."""
    import tensorflow as tf

    count = int(dataset.cardinality())
    named = {int(tf.data.INFINITE_CARDINALITY): "endless", int(tf.data.UNKNOWN_CARDINALITY): "an unknown number of"}
    return "endless" if count < 0 and pipeline.is_endless else named.get(count, str(count))
