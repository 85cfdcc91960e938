"""Where the CPU goes: tf.data's own model of the running iterator, laid over the user's ops.

`get_model_proto` tells, for each live iterator node, the wall time its thread spent in it and not in its inputs. Two snapshots
give a window. Iterators that `repeat` and `interleave` throw away take their counters with them, so the model is polled often and
the growth of each node is summed. The names in the model are those after TensorFlow's optimizations, so nodes are matched to ops
along the chain: `MapAndBatch` is the user's `map`, `ForeverRepeat` the `repeat`, an injected `Prefetch` belongs to no op of the
user's.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cs_input_analyzer.graph import method_of
from cs_input_analyzer.records import Layout, Op, OpCost, Profile, TunedParameter

NANOSECONDS = 1e-9
RUNTIME = "runtime"
# Model node -> methods it stands for, the one that bears the cost first.
_FUSED = {
    "map_and_batch": ("map", "batch"),
    "shuffle_and_repeat": ("shuffle", "repeat"),
    "map_and_filter": ("map", "filter"),
    "filter_and_map": ("map", "filter"),
    "parse_example": ("map",),
}
_RENAMED = (
    (re.compile(r"^(forever|finite|empty)_repeat$"), "repeat"),
    (re.compile(r"^(memory|file)_cache(_impl)?$|^(file|memory)_(reader|writer)$"), "cache"),
    (re.compile(r"^(finite|forever|empty)_(take|skip)$"), r"\2"),
    (re.compile(r"^shuffle_.*$"), "shuffle"),
)


@dataclass(slots=True)
class CostMeter:
    """Sums what each op's iterators grew by between polls.

    Attributes:
        ops: of the user's graph.
        wall_s: thread seconds by op name since the first poll; None as key for nodes that match no op.
        tuned: last seen value of each tunable parameter.
    """

    ops: Sequence[Op]
    wall_s: dict[str | None, float] = field(default_factory=dict)
    tuned: dict[tuple[str, str], float] = field(default_factory=dict)
    _seen_ns: dict[int, int] = field(default_factory=dict)
    _is_started: bool = False
    _iterator: Callable[[], Any] = lambda: None

    def poll(self, iterator: Any) -> None:
        """Reads the iterator's model. Silent where there is none (autotune switched off, no element yet)."""
        import tensorflow as tf

        try:
            model = tf.data.experimental.get_model_proto(iterator)
        except (tf.errors.OpError, ValueError, TypeError):
            return
        if self._iterator() is not iterator:  # a new pass over the data: its nodes count from 0, under the same numbers
            self._iterator = weakref.ref(iterator)
            self._seen_ns.clear()
        owners = match_nodes(model, self.ops)
        for identity, node in model.nodes.items():
            owner = owners.get(identity)
            grown_ns = node.processing_time - self._seen_ns.get(identity, 0)
            self._seen_ns[identity] = node.processing_time
            if self._is_started and grown_ns > 0:
                self.wall_s[owner] = self.wall_s.get(owner, 0.0) + grown_ns * NANOSECONDS
            for parameter in node.parameters:
                if parameter.tunable:
                    self.tuned[owner or node.name, parameter.name] = parameter.state_value or parameter.value
        self._is_started = True

    def parameters(self) -> tuple[TunedParameter, ...]:
        return tuple(
            TunedParameter(op=op, parameter=parameter, value=value) for (op, parameter), value in sorted(self.tuned.items())
        )


def match_nodes(model: Any, ops: Sequence[Op]) -> dict[int, str]:
    """Model node id -> name of the op it belongs to; nodes that TensorFlow added are left out."""
    by_name = {op.name: op for op in ops}
    top = [op for op in ops if op.within is None]
    owners: dict[int, str] = {}
    if not top:
        return owners
    pending: list[tuple[int, tuple[str, ...]]] = [(model.output, (top[-1].name,))]
    while pending:
        identity, heads = pending.pop()
        node = model.nodes.get(identity) if hasattr(model.nodes, "get") else None
        if node is None:
            continue
        found = _first_match(_methods_of_node(node.name), heads, by_name)
        below = heads
        if found is not None:
            owner, deepest = found
            owners[identity] = owner.name
            below = _heads_below(deepest, ops)
        pending += [(child, _heads_for(index, len(node.inputs), below)) for index, child in enumerate(node.inputs)]
    return owners


def profile_of(
    layout: Layout,
    ops: Sequence[Op],
    wall_s_per_sample: Mapping[str | None, float],
    cpu_s_per_sample: float,
    tuned: Sequence[TunedParameter],
    harness_us: float | None,
) -> Profile:
    """Per-op CPU such that ops + `runtime` = process CPU, by identity.

    The model counts wall time on the thread. While that stays below the process's CPU it is taken as CPU, and the rest is the
    runtime's; above, threads waited (storage, locks, a full CPU), and each op keeps its share of the CPU while the rest is wait.
    """
    total = sum(wall_s_per_sample.values())
    scale = min(1.0, cpu_s_per_sample / total) if total > 0 else 0.0
    parallelism = {value.op: value.value for value in tuned if value.parameter == "parallelism"}
    rows = []
    for op in ops:
        wall = wall_s_per_sample.get(op.name)
        if wall is None:
            continue
        cpu = wall * scale
        rows.append(
            OpCost(
                name=op.name,
                kind=op.kind,
                self_cpu_s_per_sample=cpu,
                wait_s_per_sample=wall - cpu,
                share_ratio=cpu / cpu_s_per_sample if cpu_s_per_sample > 0 else None,
                parallelism=parallelism.get(op.name) or _fixed_parallelism(op),
                source=op.source,
            )
        )
    spent = sum(row.self_cpu_s_per_sample or 0.0 for row in rows)
    rest = max(0.0, cpu_s_per_sample - spent)
    rows.append(
        OpCost(
            name=RUNTIME,
            kind=RUNTIME,
            self_cpu_s_per_sample=rest,
            wait_s_per_sample=None,
            share_ratio=rest / cpu_s_per_sample if cpu_s_per_sample > 0 else None,
            parallelism=None,
            source=None,
        )
    )
    return Profile(layout=layout, harness_us_per_batch=harness_us, cpu_s_per_sample=cpu_s_per_sample, ops=tuple(rows))


def _fixed_parallelism(op: Op) -> float | None:
    value = op.parameters.get("num_parallel_calls")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _methods_of_node(name: str) -> tuple[str, ...]:
    method = method_of(re.sub(r"(Dataset)?(V\d+)?$", "", name))
    for pattern, replacement in _RENAMED:
        method = pattern.sub(replacement, method)
    return _FUSED.get(method, (method,))


def _first_match(methods: tuple[str, ...], heads: tuple[str, ...], by_name: Mapping[str, Op]) -> tuple[Op, Op] | None:
    """The nearest op down from the heads that one of `methods` names, and the deepest op that the node stands for."""
    for head in heads:
        chain = _chain(head, by_name)
        for position, op in enumerate(chain):
            if method_of(op.kind) not in methods:
                continue
            deepest, bearer = op, op
            for deeper in chain[position + 1 : position + len(methods)]:  # a fused node covers its neighbours too
                if method_of(deeper.kind) in methods:
                    deepest = deeper
                    bearer = deeper if method_of(deeper.kind) == methods[0] else bearer
            return (bearer if method_of(bearer.kind) == methods[0] else op), deepest
    return None


def _chain(head: str, by_name: Mapping[str, Op]) -> list[Op]:
    """The op and its first inputs down to the source, ending where several inputs meet."""
    chain = []
    name: str | None = head
    while name is not None:
        op = by_name[name]
        chain.append(op)
        name = op.inputs[0] if len(op.inputs) == 1 else None
    return chain


def _heads_below(op: Op, ops: Sequence[Op]) -> tuple[str, ...]:
    """Where the inputs of `op` begin: its own inputs, then the results of the datasets that its function builds."""
    nested = [other for other in ops if other.within == op.name]
    read = {name for other in nested for name in other.inputs}
    return (*op.inputs, *(other.name for other in nested if other.name not in read))


def _heads_for(index: int, inputs: int, heads: tuple[str, ...]) -> tuple[str, ...]:
    """Heads that the node's `index`-th input is tried against: its own first (zip, concatenate), then the others."""
    if inputs == len(heads) and index < len(heads):
        return (heads[index], *heads[:index], *heads[index + 1 :])
    return heads
