"""Read what each op's iterators did from TensorFlow's own model of the running iterator.

The model holds, for each live node, the wall time that its thread spent in it and not in its inputs. Two snapshots give a window.
A snapshot may be taken from another thread while `get_next` runs. `IteratorResource::GetModelProto` and `GetNext` both hold that
resource's lock shared, and only to copy a reference (tensorflow/core/kernels/data/iterator_ops.cc). `Model::ToProto` holds the
model's lock shared, and each node's lock while that node is copied (tensorflow/core/framework/model.cc). A node that ends meanwhile
lives until it is copied. So it is in 2.17, 2.19 and 2.21, and `benchmarks.poll_stress` stresses it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cs_input_analyzer.records import Op, TunedParameter
from cs_input_analyzer.tfdata.lineage import reads_names_only, upstream
from cs_input_analyzer.tfdata.matching import Match, match_nodes
from cs_input_analyzer.tfdata.op_kinds import KEEPERS, SHUFFLES
from cs_input_analyzer.tfdata.visits import OpCounts

NANOSECONDS = 1e-9


def model_reader() -> Any:
    """Return TensorFlow's op that reads the model of an iterator; None before 2.17."""
    from tensorflow.python.ops import gen_experimental_dataset_ops as raw_ops

    return getattr(raw_ops, "iterator_get_model_proto", None)


def model_of(iterator: Any) -> bytes | None:
    """Return the serialized model of a running iterator; None if there is none (autotune is off, or TensorFlow before 2.17)."""
    import tensorflow as tf

    read = model_reader()
    if read is None:
        return None
    try:
        return bytes(read(iterator._iterator_resource).numpy())
    except (tf.errors.OpError, AttributeError, ValueError, TypeError):
        return None


def parsed(model: bytes) -> Any:
    """Return a ModelProto."""
    from tensorflow.core.framework import model_pb2

    return model_pb2.ModelProto.FromString(model)


@dataclass(slots=True)
class CostMeter:
    """Sum the counts of each op's iterators: their growth between snapshots (`seen`), and since their creation (`passed`).

    `tuned` holds the last value of each tunable parameter, `start_s` the wall time in which shuffles started their inputs.
    """

    ops: Sequence[Op]
    seen: dict[str, OpCounts] = field(default_factory=dict)
    passed: dict[str, OpCounts] = field(default_factory=dict)
    tuned: dict[tuple[str, str], float] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
    has_model: bool = False
    start_s: float = 0.0
    _last: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _iterator: Hashable = None
    # A shuffle starts its input in its own first call, which takes longer than all it does itself.
    _starters: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Find the shuffles of samples."""
        self._starters = frozenset(op.name for op in self.ops if op.kind in SHUFFLES and not reads_names_only(op, self.ops))

    def add(self, snapshot: bytes, iterator: Hashable) -> None:
        """Count a snapshot of the iterator that `iterator` identifies. Snapshots of one iterator come in the order of time."""
        model = parsed(snapshot)
        if self._iterator != iterator:  # a new pass over the data: its nodes count from 0, under the same numbers
            self._iterator = iterator
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
        self.has_model = True

    def _add(self, identity: int, node: Any, match: Match | None) -> None:
        now = (node.processing_time, node.num_elements, node.bytes_consumed, node.bytes_produced)  # since its iterator was made
        before = self._last.get(identity, (0,) * 4)
        wall_ns, *grown = (max(0, count - last) for count, last in zip(now, before, strict=True))
        self._last[identity] = now
        if match is None:
            return
        seen = self.seen.setdefault(match.owner, OpCounts(head=match.head, merged=match.merged, absent=match.absent))
        seen.buffered_elements += node.buffered_elements
        seen.buffered_bytes += node.buffered_bytes
        sums = [self.passed.setdefault(match.owner, OpCounts(head=match.head))]
        is_start = match.owner in self._starters and before[2] == 0  # it had taken nothing at the last snapshot
        if self.has_model and is_start:
            self.start_s += wall_ns * NANOSECONDS
        elif self.has_model:
            seen.wall_s += wall_ns * NANOSECONDS
            sums.append(seen)
        for one in sums:
            one.elements += grown[0]
            one.bytes_in += grown[1]
            one.bytes_out += grown[2]

    @property
    def is_filling_cache(self) -> bool:
        """Return whether a `cache` still took elements at the last poll. A full cache has no iterators before it."""
        caches = [op for op in self.ops if op.kind in KEEPERS and op.within is None]
        return any(op.name in self.running for cache in caches for op in upstream(cache, self.ops))

    def parameters(self) -> tuple[TunedParameter, ...]:
        """Return the last values of all tunable parameters, sorted by op."""
        return tuple(
            TunedParameter(op=op, parameter=parameter, value=value) for (op, parameter), value in sorted(self.tuned.items())
        )
