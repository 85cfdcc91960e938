"""Where the CPU goes: tf.data's own model of the running iterator, laid over the user's ops.

`get_model_proto` tells, for each live iterator node, the wall time its thread spent in it and not in its inputs. Two snapshots
give a window. Iterators that `repeat` and `interleave` throw away take their counters with them; `visits` makes up for it, from the
elements that were counted beside the time. The names in the model are those after TensorFlow's optimizations, so nodes are
matched to ops along the chain: `MapAndBatch` is the user's `map`, `ForeverRepeat` the `repeat`, an injected `Prefetch` belongs to
no op of the user's.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from cs_input_analyzer.graph import method_of
from cs_input_analyzer.measure.serial import serial_station
from cs_input_analyzer.measure.visits import PerSample, Seen
from cs_input_analyzer.records import Layout, Op, OpCost, Profile, TunedParameter
from cs_input_analyzer.threads import PYTHON_OPS, READERS, as_run, is_serial

NANOSECONDS = 1e-9
RUNTIME = "runtime"
READ_FILE = "ReadFile"
# Wall time above the process's CPU by no more than this is threads waiting their turn, not storage.
NOISE_RATIO = 0.1
ROUNDING_RATIO = 1e-9
# From this share on, files count as cached.
CACHED_RATIO = 0.95
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


@dataclass(frozen=True, slots=True)
class _Counts:
    """One node's totals since its iterator was made."""

    processing_ns: int = 0
    elements: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(slots=True)
class CostMeter:
    """Sums what each op's iterators grew by between polls.

    Attributes:
        ops: of the user's graph.
        seen: growth since the first poll by op name.
        tuned: last seen value of each tunable parameter.
    """

    ops: Sequence[Op]
    seen: dict[str, Seen] = field(default_factory=dict)
    tuned: dict[tuple[str, str], float] = field(default_factory=dict)
    _last: dict[int, _Counts] = field(default_factory=dict)
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
            self._last.clear()
        matches = _match(model, self.ops)
        for seen in self.seen.values():
            seen.buffered_elements = seen.buffered_bytes = 0
        tuned: dict[tuple[str, str], float] = {}
        for identity, node in model.nodes.items():
            match = matches.get(identity)
            self._add(identity, node, match)
            for parameter in node.parameters:
                if parameter.tunable:
                    # Several iterators of one op (inside an interleave) differ; the largest does not depend on their order.
                    key = match.owner if match else node.name, parameter.name
                    tuned[key] = max(tuned.get(key, 0.0), parameter.state_value or parameter.value)
        self.tuned.update(tuned)
        self._is_started = True

    def _add(self, identity: int, node: Any, match: _Match | None) -> None:
        now = _Counts(node.processing_time, node.num_elements, node.bytes_consumed, node.bytes_produced)
        last = self._last.get(identity, _Counts())
        self._last[identity] = now
        if match is None:
            return
        seen = self.seen.setdefault(match.owner, Seen(head=match.head))
        seen.buffered_elements += node.buffered_elements
        seen.buffered_bytes += node.buffered_bytes
        if self._is_started:
            seen.wall_s += max(0, now.processing_ns - last.processing_ns) * NANOSECONDS
            seen.elements += max(0, now.elements - last.elements)
            seen.bytes_in += max(0, now.bytes_in - last.bytes_in)
            seen.bytes_out += max(0, now.bytes_out - last.bytes_out)

    @property
    def buffered_bytes(self) -> int:
        """Bytes that waited in the pipeline's buffers at the last poll."""
        return sum(seen.buffered_bytes for seen in self.seen.values())

    @property
    def has_model(self) -> bool:
        """Whether the model was ever read."""
        return self._is_started

    def parameters(self) -> tuple[TunedParameter, ...]:
        return tuple(
            TunedParameter(op=op, parameter=parameter, value=value) for (op, parameter), value in sorted(self.tuned.items())
        )


@dataclass(frozen=True, slots=True)
class _Match:
    """The op that bears a node's cost, and the one nearest the consumer that the node stands for."""

    owner: str
    head: str


def match_nodes(model: Any, ops: Sequence[Op]) -> dict[int, str]:
    """Model node id -> name of the op it belongs to; nodes that TensorFlow added are left out."""
    return {identity: match.owner for identity, match in _match(model, ops).items()}


def _match(model: Any, ops: Sequence[Op]) -> dict[int, _Match]:
    by_name = {op.name: op for op in ops}
    top = [op for op in ops if op.within is None]
    matches: dict[int, _Match] = {}
    if not top:
        return matches
    pending: list[tuple[int, tuple[str, ...]]] = [(model.output, (top[-1].name,))]
    while pending:
        identity, heads = pending.pop()
        node = model.nodes.get(identity) if hasattr(model.nodes, "get") else None
        if node is None:
            continue
        found = _first_match(_methods_of_node(node.name), heads, by_name)
        below = heads
        if found is not None:
            owner, head, deepest = found
            matches[identity] = _Match(owner.name, head.name)
            below = _heads_below(deepest, ops)
        pending += [(child, _heads_for(index, len(node.inputs), below)) for index, child in enumerate(node.inputs)]
    return matches


def profile_of(
    layout: Layout,
    ops: Sequence[Op],
    spent: Mapping[str, PerSample],
    cpu_s_per_sample: float,
    tuned: Sequence[TunedParameter],
    harness_us: float | None,
    *,
    buffered: Mapping[str, float] | None = None,
    samples_per_s: float | None = None,
    cached_ratio: float | None = None,
    preempted_ratio: float | None = None,
    prefixes: Mapping[str, float] | None = None,
) -> Profile:
    """Per-op CPU such that ops + `runtime` = process CPU, by identity.

    The model counts wall time on the thread. What a thread spent waiting to get its CPU back is taken off first: in proportion to
    CPU, as whoever runs can be thrown out. While the rest stays below the process's CPU it is taken as CPU, and what is missing is
    the runtime's. Above, threads waited. A tenth above is the noise of a full CPU, and everyone's share shrinks alike; more is
    taken
    first from the ops that can block: readers of files, and functions that leave TensorFlow.

    Args:
        buffered: elements in each op's buffer at the end.
        cached_ratio: share of the files in the page cache after the window: readers of cached files do not block.
        preempted_ratio: time that threads waited after losing their CPU over the time they ran. It is not used on one CPU: there
            only a thread's own wake-up call hands its CPU on, which happens in the runtime and not inside an op (measured, see
            docs/measurements.md).
        prefixes: CPU per sample that each op adds to the pipeline cut before it.
        samples_per_s: of the worker, to find the op that keeps one thread busy; None leaves that out.
    """
    walls = {op.name: wall for op in ops if op.name in spent and (wall := spent[op.name].wall_s) is not None}
    on_cpu_ratio = 1 / (1 + (preempted_ratio or 0.0)) if layout.cpus_per_task > 1 else 1.0
    kept_walls = {name: wall * on_cpu_ratio for name, wall in walls.items()}
    cpus = _cpu_shares(kept_walls, {op.name for op in ops if _can_block(op, cached_ratio)}, cpu_s_per_sample)
    parallelism = {value.op: value.value for value in tuned if value.parameter == "parallelism"}
    running = as_run(ops, parallelism)
    rows = [
        OpCost(
            name=op.name,
            kind=op.kind,
            self_cpu_s_per_sample=cpus[op.name],
            wait_s_per_sample=walls[op.name] - cpus[op.name],
            share_ratio=cpus[op.name] / cpu_s_per_sample if cpu_s_per_sample > 0 else None,
            parallelism=parallelism.get(op.name) or _fixed_parallelism(op),
            source=op.source,
            elements_per_sample=spent[op.name].elements,
            bytes_in_per_sample=spent[op.name].bytes_in,
            bytes_out_per_sample=spent[op.name].bytes_out,
            buffered_elements=(buffered or {}).get(op.name),
            prefix_cpu_s_per_sample=(prefixes or {}).get(op.name),
            is_serial=is_serial(op_as_run, running),
        )
        for op, op_as_run in zip(ops, running, strict=True)
        if op.name in walls
    ]
    rest = cpu_s_per_sample - sum(cpus.values())
    if rest < ROUNDING_RATIO * cpu_s_per_sample:  # the ops' rows were scaled to the whole: what differs is rounding, not runtime
        rest = 0.0
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
    serial = None
    if samples_per_s is not None:
        serial = serial_station(running, walls, samples_per_s, layout.cpus_per_task - cpu_s_per_sample * samples_per_s)
    return Profile(
        layout=layout, harness_us_per_batch=harness_us, cpu_s_per_sample=cpu_s_per_sample, ops=tuple(rows), serial=serial
    )


def _cpu_shares(walls: Mapping[str, float], can_block: Set[str], cpu_s: float) -> dict[str, float]:
    """The CPU part of each op's wall time; all together at most `cpu_s`."""
    total = sum(walls.values())
    blocked = sum(wall for name, wall in walls.items() if name in can_block)
    excess = total - cpu_s
    if excess > NOISE_RATIO * cpu_s and blocked > 0:
        kept = 1 - min(excess, blocked) / blocked
        walls = {name: wall * kept if name in can_block else wall for name, wall in walls.items()}
        total = sum(walls.values())
    scale = min(1.0, cpu_s / total) if total > 0 else 0.0
    return {name: wall * scale for name, wall in walls.items()}


def _can_block(op: Op, cached_ratio: float | None) -> bool:
    reads = op.kind in READERS or READ_FILE in op.function_ops
    reads_storage = reads and (cached_ratio is None or cached_ratio < CACHED_RATIO)
    return reads_storage or any(called in PYTHON_OPS for called in op.function_ops)


def _fixed_parallelism(op: Op) -> float | None:
    value = op.parameters.get("num_parallel_calls")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _methods_of_node(name: str) -> tuple[str, ...]:
    method = method_of(re.sub(r"(Dataset)?(V\d+)?$", "", name))
    for pattern, replacement in _RENAMED:
        method = pattern.sub(replacement, method)
    return _FUSED.get(method, (method,))


def _first_match(methods: tuple[str, ...], heads: tuple[str, ...], by_name: Mapping[str, Op]) -> tuple[Op, Op, Op] | None:
    """The op that bears the cost of a node named by `methods`, the nearest op it stands for, and the deepest."""
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
            return (bearer if method_of(bearer.kind) == methods[0] else op), op, deepest
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
