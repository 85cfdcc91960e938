"""Count the samples of an element, and give the reason. No other module decides this.

A count is proven by the dimensions that ops make (`layers`), and checked against shapes, or it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Component, Op, PipelineGraph, SamplesPerElement
from cs_input_analyzer.tfdata.layers import (
    REST,
    UNKNOWN,
    Element,
    Labels,
    Shape,
    Walk,
    factor_of,
    layers_of,
    leaving,
    product_of,
    size_of,
)
from cs_input_analyzer.tfdata.lineage import reads_names_only, without_end
from cs_input_analyzer.tfdata.op_kinds import BATCHING, SHUFFLES, method_of
from cs_input_analyzer.tfdata.op_traits import number_of


def samples_per_element_of(
    ops: Sequence[Op],
    spec: Sequence[Component],
    *,
    seen: Sequence[Shape] | None = None,
    said: int | None = None,
    params_sizes: Sequence[int] = (),
    demand_size: int | None = None,
) -> SamplesPerElement:
    """Count the samples in one element that leaves the pipeline with this `spec`.

    Args:
        seen: shapes of the tensors of the first element, in the order of the spec. Without them, open dimensions of the spec are
            taken to agree with the ops.
        said: decides.
        params_sizes: like `demand_size`, used only if the graph leaves several readings and one is among these.
    """
    if said is not None:
        return SamplesPerElement(value=said, source="--samples-per-element")
    hints = dict.fromkeys(params_sizes, "batch_size of the params")
    if demand_size is not None:
        hints.setdefault(demand_size, "--batch-size")
    element = leaving(ops)
    shapes = [component.shape for component in spec] if seen is None or len(seen) != len(spec) else list(seen)
    if element.clash:
        several = " and ".join("?" if size is None else str(size) for size in element.clash)
        readings = tuple(size for size in element.clash if size is not None)
        why = f"branches of the pipeline hold {several} samples an element"
        open_ended = [place for place, component in enumerate(spec) if component.shape and component.shape[0] is None]
        if 1 not in readings and open_ended:  # all are batches: their dimension is there to be counted
            return SamplesPerElement(value=None, source=f"{why}, each is counted", counted_in=open_ended[0])
        return SamplesPerElement(value=None, source=why, readings=readings)
    if element.layers and not element.is_window:
        full = full_batches(ops)
        return _Decision(element=element, spec=spec, shapes=shapes, is_seen=seen is not None, hints=hints, full=full).found()
    if element.is_window:
        return _of_windows(spec, shapes, hints)
    return _unbatched(element, spec, shapes, hints)


def with_samples(pipeline: PipelineGraph, found: SamplesPerElement) -> PipelineGraph:
    """Return the pipeline with this count."""
    # Where each element is looked at, there is no one number; if it is unknown, an element counts as one.
    return replace(pipeline, samples_per_element=found, batch_size=None if found.counted_in is not None else found.value or 1)


def is_open(spec: Sequence[Component]) -> bool:
    """Return whether the shape of an element tells more than the spec."""
    return any(component.shape is None or None in component.shape for component in spec if component.kind != "none")


def batching_op(ops: Sequence[Op], reaching: Op | None = None) -> Op | None:
    """Return the op that made batches of the samples which leave the pipeline, or reach an op; None for single samples."""
    # A batch of one window is usually a sample of several steps, and no batch of samples.
    element = leaving(ops) if reaching is None else Walk.over(ops).passing[reaching.name][0]
    return element.batches[-1] if element.batches else None


def full_batches(ops: Sequence[Op]) -> frozenset[str]:
    """Return the names of the batching ops whose input never ends, so that all their batches are full."""
    endless = without_end(ops)
    return frozenset(op.name for op in ops if op.kind in BATCHING and not endless.keys().isdisjoint(op.inputs))


def samples_reaching(op: Op, ops: Sequence[Op]) -> int | None:
    """Return the samples in one element that reaches `op`: 1 before any batch; None if the graph does not tell."""
    element = Walk.over(ops).passing[op.name][0]
    is_steps = bool(element.visible) and element.visible[-1].name in element.steps
    return None if is_steps or element.clash or element.is_beside else element.size


def shuffle_of_samples(ops: Sequence[Op]) -> tuple[Op | None, int]:
    """Return the shuffle of single samples with the longest buffer, and its length; 0 if the graph does not tell."""
    found = [op for op in ops if op.kind in SHUFFLES and not reads_names_only(op, ops) and samples_reaching(op, ops) == 1]
    longest = max(found, key=lambda op: number_of(op, "buffer_size") or 0, default=None)
    return longest, (number_of(longest, "buffer_size") or 0) if longest is not None else 0


def check_demand(found: SamplesPerElement, batch_size: int | None, *, has_demand: bool) -> None:
    """Raise UsageError if a demand in samples cannot be compared with the pipeline.

    `batch_size`: samples of a step of the accelerator, if the user or the source of the demand gives it.
    """
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
    """Return a sentence on the samples of one element and the reason. `batch_size`: samples of a step."""
    if found.is_unknown:
        return f"samples per element unknown: rates are of elements ({found.source}); --samples-per-element N says it"
    if not found.value:
        return f"1 element = as many samples as it is long ({found.source})"
    most = "at most " if found.counted_in is not None else ""
    text = f"1 element = {most}{found.value} sample{'' if found.value == 1 else 's'} ({found.source})"
    if batch_size is None or batch_size <= found.value or batch_size % found.value:
        return text
    return f"{text}; a step of {batch_size} samples is {batch_size // found.value} elements"


View = Mapping[str, tuple[int, Fraction]]
"""The layers that a tensor shows, the outermost first: the place of each, and the ratio of that dimension and the layer."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """Hold one way to count: the samples are the indices of these layers, times a factor."""

    layers: tuple[str, ...]
    factor: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """Decide the count of an element that has layers. `full`: names of the layers that are never smaller."""

    element: Element
    spec: Sequence[Component]
    shapes: Sequence[Shape]
    is_seen: bool
    hints: Mapping[int, str]
    full: frozenset[str]

    def found(self) -> SamplesPerElement:
        """Return the count."""
        places = [place for place, component in enumerate(self.spec) if component.kind != "none"]
        labels = self.element.labels_of_each(len(self.spec))
        views = {place: self._view(labels[place], self.shapes[place]) for place in places}
        shown = {place: view for place, view in views.items() if view}
        if not shown:  # each batch became one element, or is in it in another form
            if all(op.name in self.element.steps for op in self.element.layers):
                return _of_windows(self.spec, self.shapes, self.hints)
            last = self.element.layers[-1]
            sizes = {size for op in (*self.element.batches, last) if (size := size_of(op)) is not None}
            # A hint that is no first dimension names the batch that is gone.
            leading = {shape[0] if shape is not None else None for shape in self.shapes if shape != ()}
            hints = {size: why for size, why in self.hints.items() if not leading or not leading.isdisjoint({size, None})}
            return replace(self, hints=hints)._asked({1, *sizes}, f"{_call(last)} leaves no dimension in the element")
        readings = [self._readings(view, self.shapes[place]) for place, view in shown.items()]
        common = [one for one in readings[0] if all(one in others for others in readings)]
        options = common or list(dict.fromkeys(one for some in readings for one in some))
        why = self._calls_of({name for view in shown.values() for name in view})
        wrong = self._contradiction(options, shown)
        # A sample beside batches, in a `zip`, says that an element is one.
        is_one = self.element.is_beside and any(place not in shown and self.shapes[place] != () for place in places)
        if len(options) == 1 and not wrong and not is_one:
            return self._counted(options[0], shown, self._calls_of(options[0].layers))
        values = {value for one in options if (value := self._value(one, shown)) is not None}
        # Where only the length of a dimension speaks for the one layer that is shown, that layer may be gone.
        named = {name for each in self.element.labels for label in each for name in layers_of(label)}
        may_be_gone = all(len(view) == 1 and named.isdisjoint(view) for view in shown.values())
        return self._asked({*values, *wrong, *([1] if is_one or may_be_gone else [])}, why)

    def _view(self, labels: Labels, shape: Shape) -> dict[str, tuple[int, Fraction]]:
        """Return the layers that a tensor of this shape shows."""
        found: dict[str, tuple[int, Fraction]] = {}
        opened: list[int] = []
        for place, label in enumerate(labels):
            if label == UNKNOWN:
                opened.append(place)
            elif label == REST:
                last = len(shape) if shape is not None else place + len(self.element.layers)
                opened += range(place, last)
            for name in layers_of(label):
                found[name] = place, factor_of(label)
        pending = [op for op in reversed(self.element.layers) if op.name not in found]
        for fits in (_equals, _is_part):
            for place in opened:
                if not pending or (shape is not None and place >= len(shape)):
                    break
                length = shape[place] if shape is not None else None
                merged = product_of(pending)
                if fits is _equals and len(pending) > 1 and length is not None and length == merged:
                    found |= {op.name: (place, Fraction(1)) for op in pending}
                    pending = []
                elif (factor := fits(length, size_of(pending[0]))) is not None:
                    found[pending.pop(0).name] = place, factor
        order = [op.name for op in reversed(self.element.layers)]
        return {name: found[name] for name in order if name in found}

    def _readings(self, view: View, shape: Shape) -> list[_Reading]:
        """Return the ways to count the samples of a tensor that shows these layers."""
        outer, *inner = view
        if outer in self.element.steps:  # one window is one sample, or as many as it is long
            one = _Reading(tuple(name for name in inner if name not in self.element.steps))
            return [one] if _share_no_dimension(self.shapes) else [one, _Reading((outer, *one.layers))]
        plain = [name for name in inner if name not in self.element.steps | self.element.keyed]
        is_merged = len({place for place, _ in view.values()}) == 1
        options = [_Reading(tuple(view))] if is_merged else [_Reading((outer,)), *([_Reading((outer, *plain))] if plain else [])]
        widest = options[-1].layers
        factor = max((view[name][1] for name in widest), key=lambda one: one != 1)
        rest = [size for place, size in enumerate(shape or ()) if place not in {place for place, _ in view.values()}]
        if factor == 1 or (factor < 1 and 1 / factor in rest):  # in the second case two dimensions hold what was one
            return options
        return [*options, _Reading(widest, factor)]

    def _contradiction(self, options: Sequence[_Reading], shown: Mapping[int, View]) -> tuple[int, ...]:
        """Return the sizes of a counted dimension by its op and by its shape, if they differ."""
        counted = {name for option in options for name in option.layers}
        for place, view in shown.items():
            for name, (at, factor) in view.items():
                if name not in counted:
                    continue
                op, shape = self._op(name), self.shapes[place]
                size, length = size_of(op), shape[at] if shape is not None and at < len(shape) else None
                others = [other for other, (where, _) in view.items() if where == at]
                if size is None or length is None or length == size or factor != 1 or len(others) > 1:
                    continue
                is_last = self.is_seen and length < size and op.parameters.get("drop_remainder") is not True
                if not is_last:
                    return tuple(sorted((size, length)))
        return ()

    def _counted(self, reading: _Reading, shown: Mapping[int, View], why: str) -> SamplesPerElement:
        value = self._value(reading, shown)
        if not reading.layers:
            return ONE_WINDOW
        outer = reading.layers[0]
        counted_in = self._counted_in(outer, shown) if reading.factor == 1 else None
        if counted_in is not None and value is not None and outer in self.full:
            # A layer that is never smaller needs no counting. That a length fits it is no proof that the dimension is the layer.
            own, shape = self.element.labels_of_each(len(self.spec))[counted_in], self.shapes[counted_in]
            is_layer = bool(own) and layers_of(own[0]) == (outer,) and (not shape or shape[0] in (None, size_of(self._op(outer))))
            counted_in = None if is_layer else counted_in
        rows = product_of([self._op(name) for name in reading.layers[1:]])
        if rows is None or (value is None and counted_in is None):
            what = "of several batches inside one another not all sizes are" if rows is None else "its size is not"
            return SamplesPerElement(value=None, source=f"{why}: {what} in the graph")
        return SamplesPerElement(value=value, source=why, counted_in=counted_in, rows=rows)

    def _counted_in(self, layer: str, shown: Mapping[int, View]) -> int | None:
        """Return the tensor, of the fewest dimensions, in whose first dimension a layer of varying size is counted."""
        places = []
        for place, view in shown.items():
            is_alone = [at for at, _ in view.values()].count(0) == 1
            if view.get(layer) == (0, Fraction(1)) and is_alone and _is_open(self.spec[place].shape):
                places.append(place)
        return min(places, key=lambda place: len(self.spec[place].shape or (None,) * 9), default=None)

    def _value(self, reading: _Reading, shown: Mapping[int, View]) -> int | None:
        total = reading.factor
        for name in reading.layers:
            size = size_of(self._op(name))
            if size is None:  # the spec may know it: a dimension that is the same in all elements
                places = [(place, view[name][0]) for place, view in shown.items() if name in view and view[name][1] == 1]
                lengths = {shape[at] for place, at in places if (shape := self.spec[place].shape) is not None and at < len(shape)}
                size = lengths.pop() if len(lengths) == 1 else None
            if size is None:
                return None
            total *= size
        return int(total)

    def _asked(self, values: Set[int], why: str) -> SamplesPerElement:
        several = " or ".join(map(str, sorted(values)))
        return _asked(values, f"{why}: an element may hold {several} samples", self.hints)

    def _calls_of(self, names: Collection[str]) -> str:
        return " of ".join(_call(op) for op in reversed(self.element.visible) if op.name in names)

    def _op(self, name: str) -> Op:
        return next(op for op in self.element.layers if op.name == name)


def _equals(length: int | None, size: int | None) -> Fraction | None:
    """Return 1 if a dimension may be that of a layer of this size; None if not."""
    return Fraction(1) if length is None or size is None or length == size else None


def _is_part(length: int | None, size: int | None) -> Fraction | None:
    """Return the ratio of a dimension and a layer if one is a multiple of the other; None if not."""
    if length is None or size is None or min(length, size) < 2 or max(length, size) % min(length, size):
        return None
    return Fraction(length, size)


ONE_WINDOW = SamplesPerElement(value=1, source="one window is one sample: its components share no first dimension")


def _of_windows(spec: Sequence[Component], shapes: Sequence[Shape], hints: Mapping[int, str]) -> SamplesPerElement:
    """Return the count of a window that a function made into tensors: one sample of several steps, or several samples."""
    parts = [shape for component, shape in zip(spec, shapes, strict=True) if component.kind != "none"]
    if _share_no_dimension(parts):
        return ONE_WINDOW
    shared, _ = _first_dimension(parts)
    return _either(shared, f"a window of {shared or 'unknown size'} may be one sample or {shared or 'several'}", hints)


def _unbatched(element: Element, spec: Sequence[Component], shapes: Sequence[Shape], hints: Mapping[int, str]) -> SamplesPerElement:
    """Return the count without a layer: a sample, or a batch that was made otherwise. The dimensions tell."""
    nothing = "no op of the pipeline batches" if element.apart is None else f"{_call(element.apart)} takes batches apart"
    parts = [shape for component, shape in zip(spec, shapes, strict=True) if component.kind != "none"]
    is_scalar = any(shape == () for shape in parts)
    shared, count = _first_dimension([shape for shape in parts if shape != ()])
    if element.elsewhere is not None and not is_scalar:
        return _either(shared, f"{_call(element.elsewhere)} gives what was put there, samples or batches", hints)
    if is_scalar and (shared is None or shared == 1 or count < 2):
        return SamplesPerElement(value=1, source=f"{nothing}, and a component is a scalar")
    if any(map(_is_open, parts)):
        return SamplesPerElement(
            value=None, source=f"{nothing}, and the first dimension is of unknown size: it may be that of a batch", readings=(1,)
        )
    if shared is not None and (shared > 1 or count > 1):
        whose = "all components have" if count > 1 else "the element has"
        found = _either(shared, f"{nothing}, and {whose} a first dimension of {shared}: that of a batch, or of a sample", hints)
        opened = [place for place, component in enumerate(spec) if component.kind != "none" and _is_open(component.shape)]
        return replace(found, counted_in=opened[0]) if found.value == shared and opened else found
    first = next((str(list(shape)) for shape in parts if shape), "")
    return SamplesPerElement(value=1, source=f"assumed: {nothing}, so that one {first or 'element'} is one sample")


def _either(size: int | None, why: str, hints: Mapping[int, str]) -> SamplesPerElement:
    """Return one sample, or the size of a dimension that may be a batch's. `size`: None if it is unknown."""
    return SamplesPerElement(value=1, source=why) if size == 1 else _asked({1, *([] if size is None else [size])}, why, hints)


def _asked(values: Set[int], why: str, hints: Mapping[int, str]) -> SamplesPerElement:
    """Return the reading that the params or the demand name, else all readings, to be asked."""
    hinted = [value for value in values if value in hints and value != 1]
    if len(hinted) == 1:
        return SamplesPerElement(value=hinted[0], source=f"{hints[hinted[0]]}, which is a dimension of the element ({why})")
    return SamplesPerElement(value=None, source=why, readings=tuple(sorted(values)))


def _share_no_dimension(shapes: Sequence[Shape]) -> bool:
    """Return whether tensors have no first dimension in common that could count samples."""
    known = [shape for shape in shapes if shape is not None]
    leading = {shape[0] for shape in known if shape}
    return () in known or (len(leading) > 1 and None not in leading)


def _first_dimension(shapes: Sequence[Shape]) -> tuple[int | None, int]:
    """Return the first dimension that all these shapes share, None without one; of how many."""
    leading = {shape[0] if shape else None for shape in shapes}
    return (leading.pop() if len(leading) == 1 else None), len(shapes)


def _is_open(shape: Shape) -> bool:
    """Return whether a first dimension, or a whole shape, is not known before an element is seen."""
    return shape is None or (bool(shape) and shape[0] is None)


def _call(op: Op) -> str:
    """Return a call with its line: `batch(256), input.py:12`."""
    size = op.parameters.get("batch_sizes", op.parameters.get("batch_size", ""))
    text = ", ".join(map(str, size)) if isinstance(size, tuple) else str(size)
    return f"{method_of(op.kind)}({text})" + (f", {op.source}" if op.source else "")
