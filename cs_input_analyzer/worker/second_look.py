"""Measure the pipeline cut behind its ops, for CPU that no snapshot of the running iterator tells apart.

Snapshots miss two kinds of CPU. Iterators that live for milliseconds take their counts along. And the executor, the threads inside
an op and the hand-over between threads count for no op. So parts of the pipeline run alone: what one part takes and the part before
it does not is what its last op costs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from cs_input_analyzer.pipeline.edits import prefix_of
from cs_input_analyzer.pipeline.lineage import upstream
from cs_input_analyzer.pipeline.op_kinds import IDLE, KEEPERS, REPEATS, SHUFFLES, WRITERS
from cs_input_analyzer.pipeline.threads import inside
from cs_input_analyzer.records import Op, Profile
from cs_input_analyzer.worker.failures import MESSAGE_LIMIT
from cs_input_analyzer.worker.journal import JournalWriter
from cs_input_analyzer.worker.sampling import SamplingLoop, bytes_of

# Nothing is looked at where snapshots left less of the CPU than this.
LEAST_RATIO = 0.1
# Parts at most; of more ops those that may hold most of it.
MOST_PARTS = 8
# One part: a moment for its start, then so long.
WARM_S, PART_S = 0.2, 0.5
# Elements of a part that the loop takes at a time, so that its own cost does not count. They stay in memory.
TAKEN, TAKEN_BYTES = 64, 64 << 20
# Ops that hand elements on, keep or reorder them: what little they cost, snapshots tell.
_LIGHT = IDLE | SHUFFLES | REPEATS | KEEPERS | frozenset({"Prefetch", "Take", "Skip", "Shard", "Options"})


def look_again(journal: JournalWriter, dataset: Any, ops: Sequence[Op], profile: Profile, seconds: float) -> None:
    """Write the CPU of one element at the end of each part; nothing where snapshots told enough, or no part can run."""
    deadline_s = time.monotonic() + seconds
    rows = {row.name: row.share_ratio or 0.0 for row in profile.ops if not row.is_op and row.name != "restart"}
    # A part behind a cache would fill one of its own first.
    if sum(rows.values()) < LEAST_RATIO or any(op.kind in KEEPERS | WRITERS for op in ops):
        return
    chosen = parts_of(ops, profile)
    if not chosen:
        return
    share_s = seconds / len(chosen)
    cpu_s: dict[str, float] = {}
    for op in chosen:
        if time.monotonic() + min(share_s, PART_S) > deadline_s + PART_S:
            break
        try:
            spent_s = _cpu_s_per_element(prefix_of(dataset, op.name), min(share_s, PART_S + WARM_S))
        except Exception as error:  # a part that cannot run alone is no failure of the user's pipeline
            journal.event("part", op=op.name, cpu_s_per_element=None, why=f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT])
            continue
        if spent_s is not None:
            cpu_s[op.name] = spent_s
            journal.event("part", op=op.name, cpu_s_per_element=spent_s)


def parts_of(ops: Sequence[Op], profile: Profile) -> tuple[Op, ...]:
    """Return the ops behind which the pipeline is cut, sources first: those that snapshots did not see, then the costliest."""
    rows = {row.name: row for row in profile.ops}

    def weight(op: Op) -> tuple[bool, float]:
        members = [rows[member.name] for member in (op, *inside(op, ops)) if member.name in rows]
        is_unseen = any(row.merged_into == "unattributed" for row in members)
        return is_unseen, sum(row.self_cpu_s_per_sample or 0.0 for row in members)

    heavy = [op for op in ops if op.within is None and op.kind not in _LIGHT]
    kept = sorted(heavy, key=weight, reverse=True)[:MOST_PARTS]
    return tuple(op for op in heavy if op in kept)


def marginal_costs(
    ops: Sequence[Op], cpu_s_per_element: Mapping[str, float], elements_per_sample: Mapping[str, float]
) -> dict[str, float]:
    """Return CPU seconds of one sample between each measured op and the measured ones before it."""
    whole = {name: cpu_s * elements_per_sample.get(name, 0.0) for name, cpu_s in cpu_s_per_element.items()}
    before = {op.name: {one.name for one in upstream(op, ops) if one.name in whole} for op in ops if op.name in whole}
    found = {}
    for name, names in before.items():
        nearest = [one for one in names if not any(one in before[other] for other in names)]
        found[name] = max(0.0, whole[name] - sum(whole[one] for one in nearest))
    return found


def _cpu_s_per_element(part: Any, seconds: float) -> float | None:
    """Run a part of the pipeline; return None where no element came in that time."""
    first = next(iter(part), None)
    if first is None:
        return None
    taken = max(1, min(TAKEN, TAKEN_BYTES // max(1, bytes_of(first))))
    del first
    loop, iterator = SamplingLoop(), iter(part.repeat().window(taken, drop_remainder=True))
    until_s = time.time() + seconds
    warmed = loop(iterator, until_s=time.time() + min(WARM_S, seconds / 3))
    began_s = time.process_time()
    came = loop(iterator, until_s=until_s)
    spent_s = time.process_time() - began_s
    if warmed.error is not None or came.error is not None or came.ended or not len(came.stamps_s):
        return None
    return spent_s / (len(came.stamps_s) * taken)
