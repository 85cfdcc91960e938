"""How many samples one element holds, and why: decided here only. Pure: reads the ops and the element spec of a PipelineGraph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.pipeline.lineage import reads_names_only
from cs_input_analyzer.pipeline.op_kinds import BATCHING, MAPS, OPENS, SHUFFLES, SOURCES, kinds_with, method_of
from cs_input_analyzer.pipeline.op_traits import number_of
from cs_input_analyzer.pipeline.threads import results_of
from cs_input_analyzer.records import Component, Op, SamplesPerElement

_OPENS = OPENS | {"GroupByWindow"}
_COUNTERS = kinds_with("counter")
# Their elements are what was put there: nothing says whether that were samples or batches.
_FROM_ELSEWHERE = kinds_with("elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Element:
    """What is known of the elements that leave an op: `batches`, the ops that put a dimension of samples in front, the innermost
    first; `over_window`, the one that made a batch of a window; `is_window`: each is a dataset of neighbours; `reads_window`: of
    one of these, its elements; `apart`, the op that took batches apart; `elsewhere`: the op that takes them from where others put
    them; `clash`: what branches do not agree on; `is_counter`: numbers that are counted or drawn."""

    batches: tuple[Op, ...] = ()
    over_window: Op | None = None
    is_window: bool = False
    reads_window: bool = False
    apart: Op | None = None
    elsewhere: Op | None = None
    clash: tuple[int | None, ...] = ()
    is_counter: bool = False

    @property
    def size(self) -> int | None:
        """Samples of a full element; None where that is not known."""
        return _product(self.batches)


def samples_per_element_of(
    ops: Sequence[Op],
    spec: Sequence[Component],
    *,
    said: int | None = None,
    params_sizes: Sequence[int] = (),
    demand_size: int | None = None,
) -> SamplesPerElement:
    """Samples in one element that leaves the pipeline with this `spec`. `said` decides; `params_sizes` and `demand_size` only where
    the graph leaves two readings and one of these is the second."""
    if said is not None:
        return SamplesPerElement(value=said, source="--samples-per-element")
    hints = dict.fromkeys(params_sizes, "batch_size of the params")
    if demand_size is not None:
        hints.setdefault(demand_size, "--batch-size")
    element = _leaving(ops)
    window = element.over_window
    if element.clash:
        return _branches(element.clash, spec)
    if window is not None or element.is_window:
        return _of_windows(element, spec, hints)
    if element.batches:
        return _of_batches(element.batches, spec)
    if element.apart is not None and element.elsewhere is None:
        return SamplesPerElement(value=1, source=f"{_call(element.apart)} takes batches apart")
    return _without_batching(element, spec, hints)


def batching_op(ops: Sequence[Op], reaching: Op | None = None) -> Op | None:
    """The op that made batches of the samples which leave the pipeline, or reach an op; None where elements are single samples.
    A batch that is made of one window is a sample of several steps as a rule, and none of samples."""
    element = _leaving(ops) if reaching is None else _walk(ops)[reaching.name][0]
    return element.batches[-1] if element.batches else None


def samples_reaching(op: Op, ops: Sequence[Op]) -> int | None:
    """Samples in one element that reaches `op`: 1 before any batch; None where that is not in the graph."""
    element = _walk(ops)[op.name][0]
    return None if element.over_window is not None or element.clash else element.size


def shuffle_of_samples(ops: Sequence[Op]) -> tuple[Op | None, int]:
    """The shuffle of single samples with the longest buffer, and its length; 0 where the graph does not tell."""
    found = [op for op in ops if op.kind in SHUFFLES and not reads_names_only(op, ops) and samples_reaching(op, ops) == 1]
    longest = max(found, key=lambda op: number_of(op, "buffer_size") or 0, default=None)
    return longest, (number_of(longest, "buffer_size") or 0) if longest is not None else 0


def check_demand(found: SamplesPerElement, batch_size: int | None, *, has_demand: bool) -> None:
    """Raises UsageError where a demand in samples cannot be compared with what the pipeline gives. `batch_size`: samples of
    a step of the accelerator, where the user or the source of the demand says it."""
    if has_demand and found.is_unknown:
        raise UsageError(
            f"how many samples one element holds is not clear, and the demand is one of samples: {found.source}. Say which, by "
            f"--samples-per-element {' or --samples-per-element '.join(map(str, found.readings)) if found.readings else 'N'}"
        )
    if batch_size is not None and found.value and batch_size % found.value:
        raise UsageError(
            f"a batch size of {batch_size} is no multiple of the {found.value} samples that one element of the pipeline holds "
            f"({found.source}): give the batch size that the pipeline makes, or change the pipeline's; where an element holds "
            "another number of samples than that, --samples-per-element N"
        )


def element_sentence(found: SamplesPerElement, batch_size: int | None = None) -> str:
    """What one element holds and why; `batch_size`: samples of a step, which may be several elements."""
    if found.is_unknown:
        return f"samples per element unknown: rates are of elements ({found.source}); --samples-per-element N says it"
    if not found.value:
        return f"1 element = as many samples as it is long ({found.source})"
    most = "at most " if found.counted_in is not None else ""
    text = f"1 element = {most}{found.value} sample{'' if found.value == 1 else 's'} ({found.source})"
    if batch_size is None or batch_size <= found.value or batch_size % found.value:
        return text
    return f"{text}; a step of {batch_size} samples is {batch_size // found.value} elements"


def batch_sizes_in(params: object) -> tuple[int, ...]:
    """Every `batch_size` of the params, at any depth."""
    if isinstance(params, Mapping):
        own = params.get("batch_size")
        sizes = (own,) if isinstance(own, int) and not isinstance(own, bool) else ()
        return (*sizes, *(size for part in params.values() for size in batch_sizes_in(part)))
    return tuple(size for part in params for size in batch_sizes_in(part)) if isinstance(params, list | tuple) else ()


def _leaving(ops: Sequence[Op]) -> _Element:
    """What is known of the elements of the op that the consumer reads."""
    read = {name for op in ops for name in op.inputs}
    tops = [op for op in ops if op.within is None]
    last = next((op for op in reversed(tops) if op.name not in read), tops[-1] if tops else None)
    return _walk(ops)[last.name][1] if last is not None else _Element()


def _walk(ops: Sequence[Op]) -> dict[str, tuple[_Element, _Element]]:
    """What is known of the elements that each op gets, and of those that it gives."""
    by_name = {op.name: op for op in ops}
    found: dict[str, _Element] = {}
    passing: dict[str, tuple[_Element, _Element]] = {}
    for op in ops:  # inputs come first, and what is inside an op before it
        holder = by_name.get(op.within or "")
        outer = None if holder is None else _joined([found[name] for name in holder.inputs if name in found])
        inner = results_of(op, ops) if op.kind in _OPENS else ()
        inputs = [found[name] for name in op.inputs if name in found]
        found[op.name] = _passed(
            op,
            inputs,
            inner=[found[other.name] for other in inner if other.name in found],
            outer=outer,
            is_grouped=holder is not None and holder.kind == "GroupByWindow",
        )
        passing[op.name] = (_joined(inputs) if inputs else outer or _Element(), found[op.name])
    return passing


def _passed(op: Op, inputs: list[_Element], *, inner: list[_Element], outer: _Element | None, is_grouped: bool) -> _Element:
    """What leaves `op`. `inner`: what its function gives. `outer`: what the op that holds it in its function gets, `is_grouped`
    as groups."""
    if op.kind in _FROM_ELSEWHERE:
        return _Element(elsewhere=op)
    if op.kind in _COUNTERS:
        return _Element(is_counter=True)
    if op.kind in SOURCES:
        return _made(op, outer)
    if op.kind in _OPENS:
        if inner:
            return _joined(inner)
        return replace(inputs[0], is_window=False) if inputs and (inputs[0].is_window or op.kind == "GroupByWindow") else _Element()
    if not inputs and outer is not None and (outer.is_window or is_grouped):
        element = replace(outer, is_window=False, reads_window=outer.is_window)
    elif op.kind == "DirectedInterleave":
        element = _joined(inputs[1:])  # the first says which of the others is next
    else:
        element = _joined([one for one in inputs if not one.is_counter] or inputs)
    return _changed(op, element)


def _made(op: Op, outer: _Element | None) -> _Element:
    """What a source makes: inside another op's function it may take apart, or hand on, the element that the function got."""
    if outer is None or outer.is_window or op.kind not in ("Tensor", "TensorSlice"):
        return _Element()
    if op.kind == "Tensor":
        return outer
    return _taken_apart(op, outer) if outer.batches or outer.over_window else _Element()


def _changed(op: Op, element: _Element) -> _Element:
    """What an op with a single stream of elements makes of it."""
    if op.kind in BATCHING:
        if element.reads_window:
            return replace(element, over_window=op, reads_window=False)
        return _Element(batches=(*element.batches, op), clash=element.clash)
    if op.kind == "Rebatch":
        return _Element(batches=(*element.batches[:-1], op))
    if op.kind == "Unbatch":
        return _taken_apart(op, element)
    if op.kind == "Window":
        return replace(element, is_window=True)
    return replace(element, is_counter=False) if element.is_counter and op.kind in MAPS else element


def _taken_apart(op: Op, element: _Element) -> _Element:
    if element.over_window is not None:
        return replace(element, over_window=None, apart=op)
    return replace(element, batches=element.batches[:-1], apart=op, clash=())


def _joined(branches: Sequence[_Element]) -> _Element:
    """What branches have in common; where their elements hold different numbers of samples, that."""
    if not branches:
        return _Element()
    first = branches[0]
    layers = {(tuple(map(_size, branch.batches)), branch.over_window is None, branch.is_window) for branch in branches}
    if len(layers) == 1:
        return first
    sizes = {branch.size for branch in branches}
    return replace(first, clash=tuple(sorted(sizes, key=lambda size: size or 0)))


def _size(batch: Op) -> int | None:
    """None where the graph does not tell."""
    size = number_of(batch, "batch_size")
    return size if size is not None and size > 0 else None


def _product(batches: Sequence[Op]) -> int | None:
    sizes = list(map(_size, batches))
    return math.prod(size for size in sizes if size is not None) if None not in sizes else None


def _of_batches(batches: tuple[Op, ...], spec: Sequence[Component]) -> SamplesPerElement:
    """By the ops that batch; where the spec leaves the outermost open, each element is counted."""
    rows, outermost = _product(batches[:-1]), batches[-1]
    why = " of ".join(map(_call, reversed(batches)))
    if rows is None:
        return SamplesPerElement(value=None, source=f"{why}: of several batches inside one another not all sizes are in the graph")
    counted_in = _counted_in(spec, outermost)
    size = _size(outermost)
    if size is None and counted_in is None:
        leading = {component.shape[0] for component in spec if component.shape}
        size = leading.pop() if len(leading) == 1 else None
    if size is None and counted_in is None:
        return SamplesPerElement(value=None, source=f"{why}: its size is not in the graph")
    return SamplesPerElement(value=None if size is None else size * rows, source=why, counted_in=counted_in, rows=rows)


def _counted_in(spec: Sequence[Component], outermost: Op) -> int | None:
    """The component whose first dimension is the outermost batch, where that may vary: the one with the fewest others, as labels
    have; a dimension that the op fixed and a function then moved behind another is not taken for it."""
    is_fixed = outermost.parameters.get("drop_remainder") is True
    places = [
        place
        for place, component in enumerate(spec)
        if _is_open([component]) and not (is_fixed and component.shape and _size(outermost) in component.shape[1:])
    ]
    return min(places, key=lambda place: len(spec[place].shape or (None,) * 9), default=None)


def _branches(sizes: Sequence[int | None], spec: Sequence[Component]) -> SamplesPerElement:
    readings = tuple(size for size in sizes if size is not None)
    several = " and ".join("?" if size is None else str(size) for size in sizes)
    why = f"branches of the pipeline hold {several} samples an element"
    open_ended = [place for place, component in enumerate(spec) if component.shape and component.shape[0] is None]
    if 1 not in readings and open_ended:  # all are batches: their dimension is there to be counted
        return SamplesPerElement(value=None, source=f"{why}, each is counted", counted_in=open_ended[0])
    return SamplesPerElement(value=None, source=why, readings=readings)


def _of_windows(element: _Element, spec: Sequence[Component], hints: Mapping[int, str]) -> SamplesPerElement:
    """A batch made of a window is one sample of several steps, or as many samples."""
    one = element.size
    shared, _ = _first_dimension(spec)
    if one is not None and (any(component.shape == () for component in spec) or (shared is None and not _is_open(spec))):
        return SamplesPerElement(value=one, source="one window is one sample: its components share no first dimension")
    size = _size(element.over_window) if element.over_window is not None else shared
    if one is None or size is None:
        return SamplesPerElement(value=None, source="a window may be one sample or several, and its size is not in the graph")
    return _either(one, one * size, f"a window of {size} may be one sample or {size}", hints)


def _without_batching(element: _Element, spec: Sequence[Component], hints: Mapping[int, str]) -> SamplesPerElement:
    """Nothing in the graph batches: a sample, or a batch that was made outside it, as the dimensions tell."""
    nothing = "no op of the pipeline batches"
    if any(component.shape == () for component in spec if component.kind != "none"):
        return SamplesPerElement(value=1, source=f"{nothing}, and a component is a scalar")
    shared, count = _first_dimension(spec)
    if element.elsewhere is not None:
        why = f"{_call(element.elsewhere)} gives what was put there, samples or batches"
        return _either(1, shared, why, hints)
    if _is_open(spec):
        return SamplesPerElement(
            value=None, source=f"{nothing}, and the first dimension is of unknown size: it may be that of a batch", readings=(1,)
        )
    if shared is not None and count > 1:
        why = f"{nothing}, and all components have a first dimension of {shared}: that of a batch, or of each sample"
        return _either(1, shared, why, hints)
    shapes = next((str(list(component.shape)) for component in spec if component.shape), "")
    return SamplesPerElement(value=1, source=f"assumed: {nothing}, so that one {shapes or 'element'} is one sample")


def _either(one: int, other: int | None, why: str, hints: Mapping[int, str]) -> SamplesPerElement:
    """One of two readings, where they are the same, or the params or the demand name the second. `hints`: who names which size."""
    if other is None or one == other:
        return SamplesPerElement(value=one if other is not None else None, source=why, readings=() if other is not None else (one,))
    if other in hints:
        return SamplesPerElement(value=other, source=f"{hints[other]}, which is a dimension of the element ({why})")
    return SamplesPerElement(value=None, source=why, readings=(one, other))


def _first_dimension(spec: Sequence[Component]) -> tuple[int | None, int]:
    """The first dimension that all components share, None without one; of how many components."""
    parts = [component for component in spec if component.kind != "none"]
    leading = {component.shape[0] if component.shape else None for component in parts}
    return (leading.pop() if len(leading) == 1 else None), len(parts)


def _is_open(spec: Sequence[Component]) -> bool:
    """Whether a first dimension, or a whole shape, is not known before an element is seen."""
    return any(c.shape is None or (bool(c.shape) and c.shape[0] is None) for c in spec if c.kind != "none")


def _call(op: Op) -> str:
    """`batch(256), input.py:12`."""
    size = op.parameters.get("batch_sizes", op.parameters.get("batch_size", ""))
    text = ", ".join(map(str, size)) if isinstance(size, tuple) else str(size)
    return f"{method_of(op.kind)}({text})" + (f", {op.source}" if op.source else "")
