"""Measure the pipeline cut behind its ops, for CPU that no snapshot of the running iterator tells apart.

Snapshots miss two kinds of CPU. Iterators that live for milliseconds take their counts along. And the executor, the threads inside
an op and the hand-over between threads count for no op. So parts of the pipeline run alone: what one part takes and the part before
it does not is what its last op costs.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cs_input_analyzer.pipeline.edits import prefix_of
from cs_input_analyzer.pipeline.folding import joint_of
from cs_input_analyzer.pipeline.lineage import upstream
from cs_input_analyzer.pipeline.op_kinds import IDLE, KEEPERS, REPEATS, SHUFFLES, WRITERS
from cs_input_analyzer.pipeline.threads import inside
from cs_input_analyzer.records import RUNTIME, UNATTRIBUTED, Op, Profile
from cs_input_analyzer.worker.failures import MESSAGE_LIMIT
from cs_input_analyzer.worker.journal import JournalWriter
from cs_input_analyzer.worker.sampling import SamplingLoop, bytes_of

# Nothing is looked at where snapshots left less of the CPU than this.
LEAST_RATIO = 0.1
# Parts at most; of more ops those that may hold most of it.
MOST_PARTS = 8
# Each part runs so many times, with a fresh iterator. The least of its costs counts: other work on the host only adds to them.
TURNS = 2
# The part of a turn that fills buffers, where the data do not end in it.
WARM_RATIO = 0.3
# Whole passes count where they end in a turn. Where the first element takes more of a turn than this, elements come in bursts: then
# only whole passes count.
BURST_RATIO = 0.5
# Elements of a part that the loop takes at a time, so that its own cost does not count. They stay in memory. The loop takes so many
# times in a turn at least: what runs ahead at the end of a turn, and what is left over at the end of the data, must not count much.
TAKEN, TAKEN_BYTES = 64, 64 << 20
LEAST_TIMES = 20
# An iterator that takes more of a turn than this to start is used for the whole turn.
SLOW_BUILD_RATIO = 0.5
# A part that hangs is left behind this long after the time is up.
PATIENCE_S = 1.0
# Ops that hand elements on, keep or reorder them: what little they cost, snapshots tell.
_LIGHT = IDLE | SHUFFLES | REPEATS | KEEPERS | frozenset({"Prefetch", "Take", "Skip", "Shard", "Options"})


def look_again(journal: JournalWriter, dataset: Any, ops: Sequence[Op], profile: Profile, seconds: float) -> None:
    """Write the CPU of one element at the end of each part; nothing where snapshots told enough, or no part can run.

    This is the last that a worker does: a part that hangs goes on in its thread until the process ends.
    """
    hidden = sum(row.share_ratio or 0.0 for row in profile.ops if row.name in (RUNTIME, UNATTRIBUTED))
    # A part behind a cache would fill one of its own first.
    if hidden < LEAST_RATIO or any(op.kind in KEEPERS | WRITERS for op in ops):
        return
    found: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    deadline_s = time.monotonic() + seconds
    chosen = [op.name for op in parts_of(ops, profile)]
    for op in chosen:  # those without a cost in the end show that the look is not complete
        journal.event("part", op=op, cpu_s_per_element=None)
    harness_s = (profile.harness_us_per_batch or 0.0) * 1e-6
    looking = threading.Thread(target=_run_parts, args=(dataset, chosen, deadline_s, harness_s, found.put), daemon=True)
    looking.start()
    while (left_s := deadline_s + PATIENCE_S - time.monotonic()) > 0:
        try:
            part = found.get(timeout=left_s)
        except queue.Empty:
            return
        if part is None:
            return
        journal.event("part", **part)


def _run_parts(
    dataset: Any, ops: Sequence[str], deadline_s: float, harness_s: float, found: Callable[[dict[str, Any] | None], None]
) -> None:
    """Run each part in turns; hand over what one element costs, or why that is not known, and None at the end."""
    loops = {op: SamplingLoop() for op in ops}
    cpu_s: dict[str, list[float]] = {op: [] for op in ops}
    for turn in range(TURNS):
        for place, op in enumerate(ops):
            turns_left = (TURNS - turn) * len(ops) - place
            seconds = (deadline_s - time.monotonic()) / turns_left
            if seconds <= 0:
                break
            try:
                spent_s = _cpu_s_per_element(prefix_of(dataset, op), loops[op], seconds, harness_s)
            except Exception as error:  # a part that cannot run alone is no failure of the user's pipeline
                found({"op": op, "cpu_s_per_element": None, "why": f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT]})
                continue
            if spent_s is not None:
                cpu_s[op].append(spent_s)
                found({"op": op, "cpu_s_per_element": min(cpu_s[op])})
    found(None)


def parts_of(ops: Sequence[Op], profile: Profile) -> tuple[Op, ...]:
    """Return the ops behind which the pipeline is cut, sources first: those that snapshots did not see, then the costliest.

    A loop makes more branches than there is time for: they are one part, which ends where they have come together.
    """
    rows = {row.name: row for row in profile.ops}

    def weight(op: Op) -> tuple[bool, float]:
        members = [rows[member.name] for member in (op, *inside(op, ops)) if member.name in rows]
        is_unseen = any(row.merged_into == UNATTRIBUTED for row in members)
        return is_unseen, sum(row.self_cpu_s_per_sample or 0.0 for row in members)

    joint = joint_of(ops)
    branches = {op.name for op in upstream(joint, ops)} if joint is not None else set()
    heavy = [op for op in ops if op.within is None and op.kind not in _LIGHT and op.name not in branches]
    kept = sorted(heavy, key=lambda op: (op is joint, weight(op)), reverse=True)[:MOST_PARTS]
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


def _cpu_s_per_element(part: Any, loop: SamplingLoop, seconds: float, harness_s: float) -> float | None:
    """Return CPU seconds of one element of a dataset; None where its elements come in bursts, or none comes in that time.

    Args:
        loop: traced for such elements on its first call.
        harness_s: what the loop itself costs each time.
    """
    began_s = time.monotonic()
    iterator = iter(part)
    # Hundreds of ops take longer to start than a turn has. Then the turn begins after that, and starts them once.
    built_s = time.monotonic() - began_s
    began_s += built_s
    is_slow = built_s > SLOW_BUILD_RATIO * seconds
    kept = iterator if is_slow else None
    if (first := next(iterator, None)) is None:
        return None
    first_s = time.monotonic() - began_s
    next(iterator, None)
    each_s = time.monotonic() - began_s - first_s
    taken = max(1, min(TAKEN, TAKEN_BYTES // max(1, bytes_of(first)), int((1 - WARM_RATIO) * seconds / (LEAST_TIMES * each_s))))
    taken = 1 if is_slow else taken
    del first, iterator
    is_burst = first_s > BURST_RATIO * seconds
    elements = spent_s = 0.0
    while elements == 0 or time.monotonic() - began_s < seconds / 2:
        iterator, kept = kept or iter(part.window(taken, drop_remainder=True)), None
        began_cpu_s = time.process_time()
        until_s = time.time() + seconds - (time.monotonic() - began_s)
        came = loop(iterator, until_s=time.time() + (1.0 if is_burst else WARM_RATIO) * seconds)
        if not (came.ended or came.error):
            if is_burst:
                return None
            until_s = max(until_s, time.time() + (1 - WARM_RATIO) * seconds) if is_slow else until_s
            began_cpu_s = time.process_time()
            came = loop(iterator, until_s=until_s)
            if came.error or not len(came.stamps_s):
                return None
            count = len(came.stamps_s)
            return max(0.0, time.process_time() - began_cpu_s - harness_s * count) / (count * taken)
        if came.error:
            return None
        if taken > 1 and len(came.stamps_s) < LEAST_TIMES:
            taken = 1
            continue
        if not len(came.stamps_s):
            return None
        spent_s += time.process_time() - began_cpu_s - harness_s * len(came.stamps_s)
        elements += (len(came.stamps_s) + 0.5 * (taken > 1)) * taken
    return max(0.0, spent_s / elements)
