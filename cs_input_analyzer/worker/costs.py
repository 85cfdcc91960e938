"""Where the CPU goes: tf.data's own model of the running iterator, laid over the user's ops.

`get_model_proto` tells, for each live iterator node, the wall time its thread spent in it and not in its inputs. Two snapshots
give a window. Iterators that `repeat` and `interleave` throw away take their counters with them; `visits` makes up for it, from the
elements that were counted beside the time. The names in the model are those after TensorFlow's optimizations, so nodes are
matched to ops along the chain: `MapAndBatch` is the user's `map`, `ForeverRepeat` the `repeat`, an injected `Prefetch` belongs to
no op of the user's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from cs_input_analyzer.pipeline.lineage import before
from cs_input_analyzer.pipeline.op_kinds import IDLE, KEEPERS, OPENS, READERS, TRANSFORMS
from cs_input_analyzer.pipeline.threads import PYTHON_OPS, as_run, is_serial
from cs_input_analyzer.records import RESTART, RUNTIME, UNATTRIBUTED, Layout, Op, OpCost, Profile, TunedParameter
from cs_input_analyzer.worker.matching import Match, match_nodes
from cs_input_analyzer.worker.serial import serial_station
from cs_input_analyzer.worker.visits import PerSample, Seen

NANOSECONDS = 1e-9
READ_FILE = "ReadFile"
# Wall time above the process's CPU by no more than this is threads waiting their turn, not storage.
NOISE_RATIO = 0.1
ROUNDING_RATIO = 1e-9
# A TensorFlow op that takes less is tiny: calling it takes as long.
TINY_S = 1e-6
# From this share on, files count as cached.
CACHED_RATIO = 0.95


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
        passed: elements and bytes since the iterators were made, as far as polls saw them.
        tuned: last seen value of each tunable parameter.
        running: ops that had an iterator at the last poll.
    """

    ops: Sequence[Op]
    seen: dict[str, Seen] = field(default_factory=dict)
    passed: dict[str, Seen] = field(default_factory=dict)
    tuned: dict[tuple[str, str], float] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
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
        matches = match_nodes(model, self.ops)
        self.running = frozenset(match.owner for identity in model.nodes if (match := matches.get(identity)) is not None)
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

    def _add(self, identity: int, node: Any, match: Match | None) -> None:
        now = _Counts(node.processing_time, node.num_elements, node.bytes_consumed, node.bytes_produced)
        last = self._last.get(identity, _Counts())
        self._last[identity] = now
        if match is None:
            return
        seen = self.seen.setdefault(match.owner, Seen(head=match.head, merged=match.merged, absent=match.absent))
        seen.buffered_elements += node.buffered_elements
        seen.buffered_bytes += node.buffered_bytes
        sums = [self.passed.setdefault(match.owner, Seen(head=match.head))]
        if self._is_started:
            seen.wall_s += max(0, now.processing_ns - last.processing_ns) * NANOSECONDS
            sums.append(seen)
        for one in sums:
            one.elements += max(0, now.elements - last.elements)
            one.bytes_in += max(0, now.bytes_in - last.bytes_in)
            one.bytes_out += max(0, now.bytes_out - last.bytes_out)

    @property
    def is_filling_cache(self) -> bool:
        """Whether a `cache` still took elements at the last poll: one that is full has no iterators before it."""
        caches = [op for op in self.ops if op.kind in KEEPERS and op.within is None]
        return any(op.name in self.running for cache in caches for op in before(cache, self.ops))

    def begin_again(self) -> None:
        """Forgets the growth so far: what came before was another state of the pipeline."""
        self.seen.clear()

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


def profile_of(
    layout: Layout,
    ops: Sequence[Op],
    spent: Mapping[str, PerSample],
    cpu_s_per_sample: float,
    tuned: Sequence[TunedParameter],
    harness_us: float | None,
    *,
    merged: Mapping[str, str] | None = None,
    absent: Set[str] = frozenset(),
    restart_cpu_s_per_sample: float = 0.0,
    buffered: Mapping[str, float] | None = None,
    samples_per_s: float | None = None,
    cached_ratio: float | None = None,
    preempted_ratio: float | None = None,
    prefixes: Mapping[str, float] | None = None,
) -> Profile:
    """Per-op CPU such that ops + `restart` + `runtime` = process CPU, by identity.

    The model counts wall time on the thread. What a thread spent waiting to get its CPU back is taken off first: in proportion to
    CPU, as whoever runs can be thrown out. While the rest stays below the process's CPU it is taken as CPU, and what is missing is
    the runtime's. Above, threads waited. A tenth above is the noise of a full CPU, and everyone's share shrinks alike; more is
    taken first from the ops that can block: readers of files, and functions that leave TensorFlow.

    An op that gave elements without being seen at it (a buffer was filled between two looks) gets what it adds to the pipeline cut
    after it, as far as there is CPU left; so does one whose function is of tiny TensorFlow ops, if it adds more than it was seen
    at. Where that was not measured, nobody can tell the cost of an unseen op from the runtime's, and the row of both is
    `unattributed`.

    Args:
        merged: op -> the op whose row holds its cost. `absent`: ops that TensorFlow left out.
        restart_cpu_s_per_sample: of making iterators anew for each pass.
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
    restart_cpu_s = min(restart_cpu_s_per_sample, cpu_s_per_sample)
    cpus = _cpu_shares(kept_walls, {op.name for op in ops if _can_block(op, cached_ratio)}, cpu_s_per_sample - restart_cpu_s)
    held_by = _held_by([op for op in ops if op.name not in absent], spent, walls, merged or {})
    added = {name: max(0.0, value) for name, value in (prefixes or {}).items() if held_by.get(name) == UNATTRIBUTED}
    added |= _between_tiny_ops(ops, spent, cpus, prefixes or {})
    room_s = max(0.0, cpu_s_per_sample - restart_cpu_s - sum(cpus.values()))
    fits = min(1.0, room_s / total) if (total := sum(added.values())) > 0 else 0.0
    cpus |= {name: cpus.get(name, 0.0) + value * fits for name, value in added.items()}
    held_by = {name: holder for name, holder in held_by.items() if name not in added}
    parallelism = {value.op: value.value for value in tuned if value.parameter == "parallelism"}
    running = as_run(ops, parallelism)
    rows = [
        OpCost(
            name=op.name,
            kind=op.kind,
            self_cpu_s_per_sample=cpus.get(op.name),
            wait_s_per_sample=max(0.0, walls[op.name] - cpus[op.name]) if op.name in walls else None,
            share_ratio=cpus[op.name] / cpu_s_per_sample if op.name in cpus and cpu_s_per_sample > 0 else None,
            parallelism=parallelism.get(op.name) or _fixed_parallelism(op),
            source=op.source,
            library_source=op.library_source,
            elements_per_sample=seen.elements,
            bytes_in_per_sample=seen.bytes_in,
            bytes_out_per_sample=seen.bytes_out,
            buffered_elements=(buffered or {}).get(op.name),
            prefix_cpu_s_per_sample=(prefixes or {}).get(op.name),
            is_serial=is_serial(op_as_run, running) if op.name in cpus else None,
            merged_into=held_by.get(op.name),
            is_marginal=op.name in added,
        )
        for op, op_as_run in zip(ops, running, strict=True)
        if op.kind != "Options"
        for seen in (spent.get(op.name, _NOT_SEEN),)
    ]
    rest = cpu_s_per_sample - restart_cpu_s - sum(cpus.values())
    if rest < ROUNDING_RATIO * cpu_s_per_sample:  # the ops' rows were scaled to the whole: what differs is rounding, not runtime
        rest = 0.0
    rows += [_no_op(RESTART, restart_cpu_s, cpu_s_per_sample)] if restart_cpu_s > 0 else []
    rows.append(_no_op(UNATTRIBUTED if UNATTRIBUTED in held_by.values() else RUNTIME, rest, cpu_s_per_sample))
    serial = None
    if samples_per_s is not None:
        serial = serial_station(running, walls, samples_per_s, layout.cpus_per_task - cpu_s_per_sample * samples_per_s)
    return Profile(
        layout=layout, harness_us_per_batch=harness_us, cpu_s_per_sample=cpu_s_per_sample, ops=tuple(rows), serial=serial
    )


_NOT_SEEN = PerSample(wall_s=None, elements=None, bytes_in=None, bytes_out=None)


def _no_op(name: str, cpu_s: float, whole_s: float) -> OpCost:
    """A row of CPU that is no op's."""
    return OpCost(
        name=name,
        kind=name,
        self_cpu_s_per_sample=cpu_s,
        wait_s_per_sample=None,
        share_ratio=cpu_s / whole_s if whole_s > 0 else None,
        parallelism=None,
        source=None,
    )


def _held_by(
    ops: Sequence[Op], spent: Mapping[str, PerSample], walls: Mapping[str, float], merged: Mapping[str, str]
) -> dict[str, str]:
    """The rows that hold the costs of ops without a measured one; those of which nothing ran, or that do nothing, are left out."""
    by_name = {op.name: op for op in ops}
    found = {}
    for op in ops:
        if op.name in walls:
            continue
        holder = by_name.get(op.within or "")
        if op.name in merged:
            found[op.name] = merged[op.name]
        elif holder is not None and holder.kind not in OPENS and holder.name in walls:  # its function iterates them itself
            found[op.name] = holder.name
        elif (spent.get(op.name, _NOT_SEEN).elements or 0.0) > 0 and op.kind not in IDLE:
            found[op.name] = UNATTRIBUTED
    return found


def _between_tiny_ops(
    ops: Sequence[Op], spent: Mapping[str, PerSample], cpus: Mapping[str, float], prefixes: Mapping[str, float]
) -> dict[str, float]:
    """CPU by which functions of tiny ops add more to the cut pipeline than was seen: the executor's, between these ops.

    Of larger ops the difference says nothing: it is the noise of two measurements, and what the pipeline does to itself.
    """
    found = {}
    for op in ops:
        calls = op.function_op_count * (spent[op.name].elements or 0.0) if op.name in cpus and op.kind in TRANSFORMS else 0.0
        if calls > 0 and cpus[op.name] < TINY_S * calls and prefixes.get(op.name, 0.0) > cpus[op.name]:
            found[op.name] = prefixes[op.name] - cpus[op.name]
    return found


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
