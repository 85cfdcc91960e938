"""A `shuffle` buffer holds decoded elements where it could hold encoded ones.

A shuffle keeps as many elements in memory as its buffer is long, in every worker. A decoded picture takes ten to thirty times the
bytes of the JPEG it was made of. The buffer also has to be filled before the first batch, so all of that is decoded before training
starts, and after every pass again.

Fix: `shuffle` before the `map` that decodes. It mixes as well as before: with a seed, the very same order comes out. Or a smaller
buffer.

Silent where the buffer holds encoded records, where elements grow to less than twice their size, and below 16 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.op_kinds import SHUFFLES
from cs_input_analyzer.pipeline.op_traits import chain_before, cost_of, decodes, is_map, sample_bytes
from cs_input_analyzer.pipeline.samples import samples_reaching
from cs_input_analyzer.records import Case, Edit, Finding, Op
from cs_input_analyzer.units import format_bytes

GROWTH_RATIO = 2.0
SMALL_BYTES = 16 * 2**20
# From this share of a task's memory on the buffer is worth a warning.
MEMORY_RATIO = 0.05


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    for shuffle in ops:
        count = shuffle.parameters.get("buffer_size")
        if shuffle.kind not in SHUFFLES or not isinstance(count, int) or samples_reaching(shuffle, ops) != 1:
            continue
        maps = _maps_right_before(shuffle, ops)
        decoder = next((op for op in maps if decodes(op) or _growth(op, case) >= GROWTH_RATIO), None)
        if decoder is None:
            continue
        each = _element_bytes(maps[0], case)
        held = count * each if each is not None else None
        if held is not None and held < SMALL_BYTES:
            continue
        room = case.cluster.memory_bytes_per_node / (case.plan.tasks_per_node if case.plan else 1)
        crossed = maps[: maps.index(decoder) + 1]
        yield Finding(
            severity="warning" if held is not None and held > MEMORY_RATIO * room else "info",
            message=f"{shuffle.name} keeps {count:,} decoded elements" + (f", {format_bytes(held)}" if held is not None else ""),
            op=shuffle.name,
            evidence={"buffer_size": count, "bytes_per_element": each, "buffer_bytes": held, "decoded_by": decoder.name},
            fix=f"shuffle before {decoder.name}, while the elements are still encoded",
            edits=tuple(Edit(kind="swap", op=shuffle.name) for _ in crossed),
        )


def _maps_right_before(shuffle: Op, ops: tuple[Op, ...]) -> list[Op]:
    """The maps between the shuffle and the next other op, the last one first."""
    found = []
    for op in chain_before(shuffle, ops):
        if not is_map(op):
            break
        found.append(op)
    return found


def _growth(op: Op, case: Case) -> float:
    cost = cost_of(op, case.profile)
    if cost is None or not cost.bytes_in_per_sample or cost.bytes_out_per_sample is None:
        return 1.0
    return cost.bytes_out_per_sample / cost.bytes_in_per_sample


def _element_bytes(op: Op, case: Case) -> int | None:
    """Bytes of an element that `op` gives: as measured, else as the pipeline's own elements are."""
    cost = cost_of(op, case.profile)
    if cost is not None and cost.bytes_out_per_sample is not None and cost.elements_per_sample:
        return round(cost.bytes_out_per_sample / cost.elements_per_sample)
    return sample_bytes(case.pipeline)
