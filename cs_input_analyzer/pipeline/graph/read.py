"""Dataset -> PipelineGraph: its ops, its elements, its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cs_input_analyzer.pipeline.graph.files import file_set, files_by_reader, files_of
from cs_input_analyzer.pipeline.graph.lines import SourceLog, numbers_at_top
from cs_input_analyzer.pipeline.graph.nodes import graph_def_of
from cs_input_analyzer.pipeline.graph.ops import ops_of
from cs_input_analyzer.pipeline.samples import samples_per_element_of
from cs_input_analyzer.records import Component, PipelineGraph, SamplesPerElement


def read_graph(
    dataset: Any,
    log: SourceLog,
    *,
    target: str,
    said: int | None = None,
    params_sizes: Sequence[int] = (),
    demand_size: int | None = None,
    redirected: tuple[str, ...] = (),
) -> PipelineGraph:
    """The graph of `dataset`, a `tf.data.Dataset` built under `recorded_sources`. Iterates nothing, reads file sizes only.
    `said`, `params_sizes`, `demand_size`: of samples, as `samples_per_element_of` takes them."""
    import tensorflow as tf

    graph_def = graph_def_of(dataset)
    own = {name: file_set(sized) for name, sized in files_by_reader(graph_def).items()}
    found = ops_of(graph_def, log.lines, numbers_at_top(graph_def, dataset, log.lines))
    ops = tuple(replace(op, files=own.get(op.name)) for op in found)
    spec = element_components(dataset.element_spec)
    cardinality = int(dataset.cardinality())
    samples = samples_per_element_of(ops, spec, said=said, params_sizes=params_sizes, demand_size=demand_size)
    return PipelineGraph(
        target=target,
        batch_size=counted_for_each(samples),
        samples_per_element=samples,
        element_spec=spec,
        ops=ops,
        files=files_of(graph_def),
        cardinality=cardinality if cardinality >= 0 else None,
        is_infinite=cardinality == int(tf.data.INFINITE_CARDINALITY),
        redirected=redirected,
    )


def counted_for_each(samples: SamplesPerElement) -> int | None:
    """Samples to count for every element alike; None where each is looked at. Where nobody knows, an element counts as one."""
    return None if samples.counted_in is not None else samples.value or 1


def element_components(element_spec: Any) -> tuple[Component, ...]:
    """The tensors of an element in flattening order, named by their path: `features/input_ids`, `0`, `1`."""
    import tensorflow as tf

    found: list[Component] = []

    def visit(spec: Any, path: str) -> None:
        if isinstance(spec, Mapping):
            for key in sorted(spec):
                visit(spec[key], f"{path}/{key}" if path else str(key))
        elif isinstance(spec, tuple | list) and not isinstance(spec, tf.TensorShape):
            for index, part in enumerate(spec):
                visit(part, f"{path}/{index}" if path else str(index))
        else:
            kind = type(spec).__name__.removesuffix("Spec").removesuffix("Tensor").lower() or "tensor"
            dtype = getattr(spec, "dtype", None)
            shape = getattr(spec, "shape", None)
            dims = tuple(shape.as_list()) if shape is not None and shape.rank is not None else None
            found.append(Component(name=path or "element", shape=dims, dtype=dtype.name if dtype is not None else kind, kind=kind))

    visit(element_spec, "")
    return tuple(found)
