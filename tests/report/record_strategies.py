"""Any record at all, from its type annotations: what the round trip must hold for is the types, not the values we thought of."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union

from hypothesis import strategies as st

from cs_input_analyzer.records import SCHEMA_VERSION, Analysis, Cluster, Estimate, LaunchPlan, Layout, Op, Options

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=12)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, estimate, high = sorted(draw(st.tuples(FINITE, FINITE, FINITE)))
    return Estimate(estimate=estimate, low=low, high=high, count=draw(st.none() | st.integers(0, 1000)))


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    """A strategy for one annotation of a record's field."""
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        int: st.integers(),
        float: FINITE,
        bool: st.booleans(),
        type(None): st.none(),
        Estimate: estimates(),
    }
    if annotation in plain:
        return plain[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values_of, arguments))
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    assert dataclasses.is_dataclass(annotation), f"no strategy for {annotation}"
    if annotation is Cluster:
        return st.deferred(clusters)
    return st.deferred(lambda: records(annotation, **LIMITED.get(annotation, {})))


# Fields of which a record refuses some values.
COUNTS = {name: st.integers(1, 10**6) for name in ("nodes", "tasks_per_node", "cpus_per_task")}
LIMITED: dict[Any, dict[str, st.SearchStrategy[Any]]] = {
    Layout: COUNTS,
    LaunchPlan: COUNTS,
    # A circle of ops, and params that are none, are refused when a run is read.
    Op: {"inputs": st.just(()), "within": st.none()},
    Options: {"params_json": st.none() | st.just('{"batch_size": 256}')},
}


def records(record: Any, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any instance of a frozen record; `fixed` overrides single fields."""
    hints = typing.get_type_hints(record)
    fields = {field.name: values_of(hints[field.name]) for field in dataclasses.fields(record)}
    return st.builds(record, **(fields | fixed))


def clusters() -> st.SearchStrategy[Cluster]:
    """Only those that there can be: the record refuses others."""
    rates = st.none() | st.floats(1e3, 1e18)
    counts = st.integers(1, 4096)
    return records(
        Cluster,
        nodes=counts,
        cpus_per_node=counts,
        memory_bytes_per_node=st.integers(2**20, 2**60),
        threads_per_core=st.none() | counts,
        network_bytes_per_s_per_node=rates,
        storage_bytes_per_s=rates,
        memory_bandwidth_bytes_per_s_per_node=rates,
    )


def analyses() -> st.SearchStrategy[Analysis]:
    return records(Analysis, schema_version=st.just(SCHEMA_VERSION))
