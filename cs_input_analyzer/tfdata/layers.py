"""Follow the dimensions that batching ops make. Pure: reads the ops of a PipelineGraph.

A layer is a dimension that a batching op puts in front. For each kind of op, this is known of the layers:

| op | what it proves |
|---|---|
| `batch`, `padded_batch`, `ragged_batch`, `dense_to_…_batch` | a layer in front of each tensor |
| `map`, `scan` | the layers that its function keeps, reduces, merges, splits or moves, by TensorFlow's shape inference |
| `map_and_batch` | as `map`, then as `batch` |
| `unbatch`, `from_tensor_slices` in a function | the first dimension goes: a layer, or one of the data, which proves nothing |
| `rebatch` | the first dimension becomes a layer of its size |
| `window` | no layer; a batch of a window is a layer of steps: one sample, or several (asked); batched again, one sample |
| `group_by_window` | its batch is a layer; batched again, one sample where the key is a part of the element, else asked |
| `bucket_by_sequence_length` | as `group_by_window`: a layer of varying size, counted in each element |
| `flat_map`, `interleave`, generators | the layers of the dataset that the function gives |
| `parse_example_dataset` | the first layer stays in each tensor |
| a batch of batches | two layers: the outer one, or both (asked) |
| `zip` | the layers of each input; inputs with other counts: asked |
| `concatenate`, `sample_from_…`, `choose_from_datasets`, `rejection_resample` | layers of one size; else counted, or asked |
| readers, `from_generator`, `from_tensor_slices`, `group_by_reducer` | no layer: a dimension of the data may be a batch (asked) |
| `load`, tf.data service | what was put there: asked if the tensors share a first dimension |
| `shuffle`, `repeat`, `take`, `skip`, `shard`, `filter`, `cache`, `snapshot`, `prefetch`, others | as their input |
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.op_kinds import BATCHING, HOLDS, MAPS, SOURCES, kinds_with
from cs_input_analyzer.tfdata.op_traits import number_of
from cs_input_analyzer.tfdata.threads import results_of

_COUNTERS = kinds_with("counter")
# Their elements were stored before: nothing tells whether they are samples or batches.
_FROM_ELSEWHERE = kinds_with("elsewhere")
# Labels of dimensions. A layer has the name of its op. `batch*batch_2` is two layers merged. `batch*3` and `batch/4` are three
# times and a quarter of one.
OWN, UNKNOWN, REST = "", "?", "..."
"""Dimension of the data itself; unknown which; this dimension and all that follow are unknown. Dimensions after the last label are
of the data."""
Labels = tuple[str, ...]
Shape = tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """Describe the elements that leave an op.

    Attributes:
        labels: of the dimensions of each tensor; one entry for all if they are alike.
        layers: the ops that put a dimension in front that is still whole, the innermost first.
        steps: names of the ops that made a batch of a window.
        keyed: names of the ops that made a batch of a group of one key.
        is_window: each element is a dataset of neighbours.
        reads_window: it is an element of one of these.
        is_keyed: it is an element of a group whose key is a part of the element.
        apart: the op that took batches apart; without one, the op that reads stored elements.
        clash: numbers of samples that differ between branches.
        is_beside: tensors of a `zip` of such branches.
        is_counter: numbers that are counted or drawn.
    """

    labels: tuple[Labels, ...] = ((),)
    layers: tuple[Op, ...] = ()
    steps: frozenset[str] = frozenset()
    keyed: frozenset[str] = frozenset()
    is_window: bool = False
    reads_window: bool = False
    is_keyed: bool = False
    apart: Op | None = None
    elsewhere: Op | None = None
    clash: tuple[int | None, ...] = ()
    is_beside: bool = False
    is_counter: bool = False

    def labels_of_each(self, tensors: int) -> tuple[Labels, ...]:
        """Return the labels of each tensor. `tensors`: their number."""
        if len(self.labels) == tensors:
            return self.labels
        return self.labels * tensors if len(self.labels) == 1 else ((REST,),) * tensors

    @property
    def visible(self) -> tuple[Op, ...]:
        """Return the layers that the shape still shows, or may show."""
        if any(label in (UNKNOWN, REST) for labels in self.labels for label in labels):
            return self.layers
        named = {name for labels in self.labels for label in labels for name in layers_of(label)}
        return tuple(op for op in self.layers if op.name in named)

    @property
    def batches(self) -> tuple[Op, ...]:
        """Return the visible layers that are no steps of a sample, the innermost first."""
        inner = self.steps | (self.keyed if len(self.visible) > 1 else frozenset())
        return tuple(op for op in self.visible if op.name not in inner)

    @property
    def size(self) -> int | None:
        """Return the samples of a full element; None if unknown."""
        return product_of(self.batches)


def layers_of(label: str) -> tuple[str, ...]:
    """Return the ops whose dimensions a label is made of."""
    return tuple(part for part in re.split(r"[*/]", label) if part and part not in (UNKNOWN, REST) and not part.isdigit())


def leaving(ops: Sequence[Op]) -> Element:
    """Return the elements of the op that the consumer reads."""
    read = {name for op in ops for name in op.inputs}
    tops = [op for op in ops if op.within is None]
    last = next((op for op in reversed(tops) if op.name not in read), tops[-1] if tops else None)
    return Walk.over(ops).passing[last.name][1] if last is not None else Element()


@dataclass(slots=True)
class Walk:
    """Follow elements through the ops, in their order. `passing`: the input and output elements of each op."""

    ops: Sequence[Op]
    passing: dict[str, tuple[Element, Element]] = field(default_factory=dict)
    _by_name: dict[str, Op] = field(init=False)
    _held: dict[str, list[Op]] = field(init=False)

    def __post_init__(self) -> None:
        """Index the ops: a loop may make thousands of them."""
        self._by_name, self._held = {op.name: op for op in self.ops}, {}
        for op in self.ops:
            self._held.setdefault(op.within or "", []).append(op)

    @classmethod
    def over(cls, ops: Sequence[Op]) -> Walk:
        """Return the walk over all ops."""
        walk = cls(ops)
        for op in ops:  # inputs come first, and what is inside an op before it
            walk.add(op)
        return walk

    def given(self, name: str) -> Element:
        """Return the elements that leave an op."""
        return self.passing[name][1]

    def outer(self, op: Op) -> Element | None:
        """Return the input elements of the op whose function holds this one; None at the top."""
        holder = self._by_name.get(op.within or "")
        if holder is None:
            return None
        found = _joined([self.given(name) for name in holder.inputs if name in self.passing], as_pairs=holder.kind == "Zip")
        if holder.kind != "GroupByWindow":
            return found
        return replace(found, is_window=False, is_keyed=holder.parameters.get("key_is_component") is True)

    def add(self, op: Op) -> None:
        """Follow the elements through one more op, whose inputs were added before."""
        outer = self.outer(op)
        inputs = [self.given(name) for name in op.inputs if name in self.passing]
        inner = results_of(op, self._held.get(op.name, ())) if op.kind in HOLDS else ()
        found = _passed(op, inputs, inner=[self.given(one.name) for one in inner if one.name in self.passing], outer=outer)
        if op.dimensions is not None:  # the labels that the reader of the graph found
            labels = tuple((REST,) if one is None else one for one in op.dimensions)
            found = replace(found, labels=labels)
            found = replace(found, layers=found.visible) if not op.inputs else found
            are_alike = len(set(labels)) == 1 and not {UNKNOWN, REST}.intersection(*labels)
            found = replace(found, clash=()) if are_alike else found
        got = _joined(inputs, as_pairs=op.kind == "Zip") if inputs else outer or Element()
        self.passing[op.name] = got, found


def _passed(op: Op, inputs: list[Element], *, inner: list[Element], outer: Element | None) -> Element:
    """Return the elements that leave `op`. `inner`: the result of its function. `outer`: the input of the op that holds it."""
    if op.kind in _FROM_ELSEWHERE:
        return Element(elsewhere=op)
    if op.kind in _COUNTERS:
        return Element(is_counter=True)
    if op.kind in SOURCES:
        return _made(op, outer)
    if op.kind in HOLDS:
        if inner:
            return _joined(inner)
        return replace(inputs[0], is_window=False) if inputs and (inputs[0].is_window or op.kind == "GroupByWindow") else Element()
    if op.kind == "GroupByReducer":
        return Element()
    if not inputs and outer is not None and (outer.is_window or op.kind not in SOURCES):
        element = replace(outer, is_window=False, reads_window=outer.is_window)
        if outer.is_window and len(set(outer.labels)) == 1:
            element = replace(element, labels=outer.labels[:1])
    elif op.kind == "DirectedInterleave":
        element = _joined(inputs[1:])  # the first says which of the others is next
    else:
        element = _joined(inputs, as_pairs=op.kind == "Zip")
    return _changed(op, element)


def _made(op: Op, outer: Element | None) -> Element:
    """Return the elements of a source. In the function of another op it may take apart, or pass on, the function's element."""
    if outer is None or outer.is_window or op.kind not in ("Tensor", "TensorSlice"):
        return Element()
    if op.dimensions is not None:  # already without the dimension that is taken apart
        return replace(outer, apart=op if op.kind == "TensorSlice" else outer.apart)
    if op.kind == "Tensor":
        return outer
    return _taken_apart(op, outer) if outer.layers else Element()


def _changed(op: Op, element: Element) -> Element:
    """Return the elements that an op with a single input makes."""
    if op.kind in BATCHING or op.kind == "SlidingWindow":
        is_steps = element.reads_window or op.kind == "SlidingWindow"
        return replace(
            element,
            labels=tuple((op.name, *labels) for labels in element.labels),
            layers=(*element.layers, op),
            steps=element.steps | {op.name} if is_steps else element.steps,
            keyed=element.keyed | {op.name} if element.is_keyed else element.keyed,
            reads_window=False,
            is_window=False,
            is_keyed=False,
            is_counter=False,
        )
    if op.kind == "Rebatch":
        element = _taken_apart(op, element)
        return replace(element, labels=tuple((op.name, *labels) for labels in element.labels), layers=(*element.layers, op))
    if op.kind == "Unbatch":
        return _taken_apart(op, element)
    if op.kind == "Window":
        return replace(element, is_window=True)
    return replace(element, is_counter=False) if element.is_counter and op.kind in MAPS else element


def _taken_apart(op: Op, element: Element) -> Element:
    """Return the element without the first dimension of its tensors."""
    gone = {name for labels in element.labels if labels for name in layers_of(labels[0])}
    labels = tuple(labels if labels[:1] == (REST,) else labels[1:] for labels in element.labels)
    kept = {name for each in labels for label in each for name in layers_of(label)}
    if not gone and any(each[:1] in ((REST,), (UNKNOWN,)) for each in element.labels) and element.layers:
        gone = {element.layers[-1].name}
    layers = tuple(one for one in element.layers if one.name not in gone or one.name in kept)
    return replace(element, labels=labels, layers=layers, apart=op, clash=())


def _joined(branches: Sequence[Element], *, as_pairs: bool = False) -> Element:
    """Return the common properties of branches, or the clash if their elements hold different numbers of samples.

    `as_pairs`: the tensors of all branches stand side by side.
    """
    if len(branches) < 2:
        return branches[0] if branches else Element()
    counted = [one for one in branches if not one.is_counter] or list(branches)
    first = counted[0]
    renamed = [_renamed(one, first) if not one.is_counter else one for one in branches]
    labels = first.labels
    if as_pairs:
        labels = side_by_side(branches)
        labels = labels[:1] if len(set(labels)) == 1 else labels
    elif any(one.labels != first.labels for one in renamed if not one.is_counter):
        labels = next((one.labels for one in renamed if any(REST in each or UNKNOWN in each for each in one.labels)), first.labels)
    layers = {(tuple(map(size_of, one.visible)), len(one.steps), one.is_window) for one in counted}
    clash = first.clash
    if len(layers) > 1:
        clash = tuple(sorted({one.size for one in counted}, key=lambda size: size or 0))
        clash = clash if len(clash) > 1 else (*clash, None)
    joined = replace(first, labels=labels, clash=clash)
    if as_pairs and clash:  # the labels of each tensor tell
        own = [one for one, new in zip(branches, renamed, strict=True) if one is new]
        more = tuple(op for one in own for op in one.layers if op not in first.layers)
        steps, keyed = (frozenset().union(*sets) for sets in zip(*((one.steps, one.keyed) for one in branches), strict=True))
        joined = replace(joined, clash=(), is_beside=True, layers=(*more, *first.layers), steps=steps, keyed=keyed)
    return replace(joined, elsewhere=next((one.elsewhere for one in counted if one.elsewhere), None))


def side_by_side(branches: Sequence[Element]) -> tuple[Labels, ...]:
    """Return the labels of a `zip` of these. Layers at one place get the name in the first branch with layers."""
    first = next((one for one in branches if not one.is_counter), branches[0])
    return tuple(labels for one in branches for labels in (one if one.is_counter else _renamed(one, first)).labels)


def _renamed(element: Element, first: Element) -> Element:
    """Return the element with the layer names of another one if the layers of both have the same sizes."""
    if element is first or not element.layers or list(map(size_of, element.layers)) != list(map(size_of, first.layers)):
        return element
    names = {mine.name: theirs.name for mine, theirs in zip(element.layers, first.layers, strict=True)}
    parts = re.compile(r"[^*/]+")
    labels = tuple(tuple(parts.sub(lambda m: names.get(m[0], m[0]), label) for label in each) for each in element.labels)
    return replace(element, labels=labels)


def size_of(batch: Op) -> int | None:
    """Return the samples in a full element of a batch. None if the graph does not tell."""
    size = number_of(batch, "batch_size")
    if size is None and batch.kind == "Rebatch":
        sizes = batch.parameters.get("batch_sizes")
        sizes = sizes if isinstance(sizes, tuple) else (sizes,)
        size = sizes[0] if len(set(sizes)) == 1 and isinstance(sizes[0], int) else None
    if size is None and batch.kind == "SlidingWindow":
        size = number_of(batch, "window_size")
    return size if size is not None and size > 0 else None


def product_of(batches: Sequence[Op]) -> int | None:
    """Return the samples of nested batches; None if a size is unknown."""
    sizes = list(map(size_of, batches))
    return math.prod(size for size in sizes if size is not None) if None not in sizes else None


def factor_of(label: str) -> Fraction:
    """Return the factor in a label: 3 for `batch*3`, 1/4 for `batch/4`."""
    found = re.search(r"([*/])(\d+)$", label)
    if found is None:
        return Fraction(1)
    return Fraction(int(found[2])) if found[1] == "*" else Fraction(1, int(found[2]))
