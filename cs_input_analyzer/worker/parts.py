"""Run parts of the pipeline alone: its readers, what comes before an `ignore_errors`, and all up to an op.

The readers alone are a ceiling that no change behind them can lift. Parts that end at ops show CPU that snapshots miss: iterators
that live for milliseconds take their counts along, and threads inside an op count for no op. The last op of a part costs the
difference between that part and the part before it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from cs_input_analyzer.model.steady_state import steady_window
from cs_input_analyzer.records import RUNTIME, UNATTRIBUTED, Op, Profile
from cs_input_analyzer.tfdata.edits import FILLED, counting, prefix_of, source_only
from cs_input_analyzer.tfdata.folding import joint_of
from cs_input_analyzer.tfdata.lineage import upstream
from cs_input_analyzer.tfdata.messages import MESSAGE_LIMIT, plain_message
from cs_input_analyzer.tfdata.op_kinds import KEEPERS, LIGHT, WRITERS
from cs_input_analyzer.tfdata.threads import inside
from cs_input_analyzer.worker.journal import JournalWriter
from cs_input_analyzer.worker.sampling import SamplingLoop, bytes_of
from cs_input_analyzer.worker.steady_clock import now_s

# The loop takes this many elements at a time, so that its own cost does not count. They stay in memory.
TAKEN, TAKEN_BYTES = 64, 64 << 20

# The readers run alone for this time.
SOURCE_S = 1.0

# The op that gives no element is looked for at most this long.
EMPTY_S = 3.0

# The most elements before an `ignore_errors` that are read, and the longest time for it.
IGNORED_LOOK, IGNORED_S, IGNORED_PATIENCE_S = 10_000, 1.0, 1.0

# No part runs if snapshots left less of the CPU than this, and saw all heavy ops.
LEAST_RATIO = 0.1
# The most parts. Of more ops those are chosen that may hold most of the CPU.
MOST_PARTS = 8
# Each part runs this many times, with a fresh iterator. The least of its costs counts: other work on the host only adds to them.
TURNS = 2
# Elements are counted for at most so long, if no snapshot did.
COUNT_S = 1.0
# The part of a turn that fills buffers, if the data do not end in it.
WARM_RATIO = 0.3
# Whole passes count where they end in a turn. Where the first element takes more of a turn than this, elements come in bursts: then
# only whole passes count.
BURST_RATIO = 0.5
# The least number of loop steps in a turn: elements that run ahead at its end, or are left over, must not count much.
LEAST_TIMES = 20
# A part that hangs, or whose pass takes longer, is left behind this long after the time is up.
LOOK_PATIENCE_S = 3.0

_Tell = Callable[[dict[str, Any] | None], None]


def _told(run: Callable[[_Tell], None], until_s: float) -> Iterator[dict[str, Any]]:
    """Yield the messages of `run`, in a thread of its own, until None or the end of the time.

    A pipeline that hangs stays in that thread until the process ends.
    """
    told: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=run, args=(told.put,), daemon=True).start()
    while (left_s := until_s - time.monotonic()) > 0:
        try:
            one = told.get(timeout=left_s)
        except queue.Empty:
            return
        if one is None:
            return
        yield one


def emptied_by(dataset: Any, ops: Sequence[Op]) -> Op | None:
    """Return the op of an empty pipeline that gets elements and gives none. Return None if no op at its top is found so.

    A generator may have given its elements before, to the whole pipeline.
    """
    generators = {op.within for op in ops if op.kind == "Generator"}

    def look(tell: _Tell) -> None:
        for op in ops:
            if op.within is None:
                try:
                    tell({"op": op, "is_empty": next(iter(prefix_of(dataset, op.name)), None) is None})
                except Exception:  # a part that cannot run alone says nothing
                    break
        tell(None)

    giving = set[str]()
    for one in _told(look, time.monotonic() + EMPTY_S):
        op: Op = one["op"]
        if one["is_empty"]:
            return op if op.inputs and giving.issuperset(op.inputs) and op.name not in generators else None
        giving.add(op.name)
    return None


def count_ignored(journal: JournalWriter, dataset: Any, ops: Sequence[Op]) -> None:
    """Count the errors that each top-level `ignore_errors` hides among the first elements. Note the first error."""
    by_name = {op.name: op for op in ops}
    ignoring = [op for op in ops if op.kind == "IgnoreErrors" and op.within is None and op.inputs]
    until_s = time.monotonic() + IGNORED_S

    def count(tell: _Tell) -> None:
        for place, op in enumerate(ignoring):
            seconds = (until_s - time.monotonic()) / (len(ignoring) - place)
            before = by_name[op.inputs[0]]
            while before.kind in FILLED and before.inputs:
                before = by_name[before.inputs[0]]
            try:
                elements, errors = _errors_of(prefix_of(dataset, before.name), seconds)
            except Exception:  # a part that cannot run alone is no failure of the user's pipeline, and says nothing
                continue
            tell({"op": op.name, "elements": elements, "dropped": len(errors), "error": errors[0] if errors else ""})
        tell(None)

    counted = list(_told(count, until_s + IGNORED_PATIENCE_S))
    if counted:
        journal.event("ignored", each=counted)


def _errors_of(part: Any, seconds: float) -> tuple[int, list[str]]:
    """Return the number of elements that were asked for, and the messages of failed ones."""
    import tensorflow as tf

    until_s = time.monotonic() + seconds
    iterator, elements, errors = iter(part), 0, list[str]()
    while elements < IGNORED_LOOK and time.monotonic() < until_s:
        try:
            next(iterator)
        except StopIteration:
            break
        except tf.errors.OpError as error:
            errors.append(plain_message(error)[:MESSAGE_LIMIT])
        elements += 1
    return elements, errors


def sample_readers(journal: JournalWriter, dataset: Any) -> None:
    """Run the readers alone, in batches, for a moment, and note their rate. Do nothing if no op reads files."""
    try:
        source = source_only(dataset)
        if source is None or (first := next(iter(source), None)) is None:
            return
        records = max(1, min(TAKEN, TAKEN_BYTES // max(1, bytes_of(first))))
        del first
        source = source.repeat().batch(records).prefetch(2)
        loop, iterator = SamplingLoop(), iter(source)
        loop(iterator, 1)  # traces, and fills what is to be filled
        read = loop(iterator, until_s=now_s() + SOURCE_S)
        if read.error is not None or read.ended:
            return
    except Exception:  # a reader that cannot be cut out is no failure of the user's pipeline
        return
    window = steady_window(read.stamps_s)
    journal.event("source", records_per_batch=records, window=asdict(window.gap_s) if window else None)


def look_again(journal: JournalWriter, dataset: Any, ops: Sequence[Op], profile: Profile, seconds: float) -> None:
    """Note the CPU of one element at the end of each part. Do nothing if snapshots told enough, or no part can run.

    This is the last work of a worker: a part that hangs runs until the process ends.
    """
    light = {op.name for op in ops if op.kind in LIGHT}
    # A light op with much of the CPU holds the start of its input, which the model counts for it.
    hidden = sum(row.share_ratio or 0.0 for row in profile.ops if row.name in (RUNTIME, UNATTRIBUTED, *light))
    are_seen = all(row.merged_into != UNATTRIBUTED or row.name in light for row in profile.ops)
    # A part behind a cache would fill one of its own first.
    if (hidden < LEAST_RATIO and are_seen) or any(op.kind in KEEPERS | WRITERS for op in ops):
        return
    deadline_s = time.monotonic() + seconds
    chosen = [op.name for op in parts_of(ops, profile)]
    for op in chosen:  # those without a cost in the end show that the look is not complete
        journal.event("part", op=op, cpu_s_per_element=None)
    if chosen and all(row.bytes_out_per_sample is None for row in profile.ops):  # no snapshot counted elements
        count = partial(_count_elements, dataset, chosen[-1], min(COUNT_S, seconds / 4))
        for elements in _told(count, deadline_s):
            journal.event("counted", elements=elements)
    harness_s = (profile.harness_us_per_batch or 0.0) * 1e-6
    for part in _told(lambda tell: _run_parts(dataset, chosen, deadline_s, harness_s, tell), deadline_s + LOOK_PATIENCE_S):
        journal.event("part", **part)


def _count_elements(dataset: Any, op: str, seconds: float, tell: _Tell) -> None:
    """Run the pipeline up to an op; tell how many elements each op gave after the first, and None at the end."""
    until_s = time.monotonic() + seconds
    try:
        part, counts = counting(dataset, op)
        iterator = iter(part)
        next(iterator)
        first = counts()
        while time.monotonic() < until_s and next(iterator, None) is not None:
            pass
        tell({name: count - first.get(name, 0) for name, count in counts().items()})
    except Exception:  # a part that cannot run alone is no failure of the user's pipeline, and says nothing
        pass
    tell(None)


def _run_parts(dataset: Any, ops: Sequence[str], deadline_s: float, harness_s: float, tell: _Tell) -> None:
    """Run each part in turns. Report the cost of one element where it is known, and None at the end."""
    loops: dict[str, SamplingLoop] = {}
    cpu_s: dict[str, float] = {}
    wanted = list(ops)
    for _ in range(TURNS):
        again = []
        for place, op in enumerate(wanted):
            began_s = time.monotonic()
            seconds = (deadline_s - began_s) / (len(wanted) - place) / (TURNS if op not in cpu_s else 1)
            if seconds <= 0:
                break
            try:
                part = prefix_of(dataset, op)
                if op not in loops:
                    loops[op] = SamplingLoop()
                    loops[op](iter(part.window(1, drop_remainder=True)), 0)  # tracing is no part of a turn
                spent_s = _cpu_s_per_element(part, loops[op], seconds, harness_s)
            except Exception:  # a part that cannot run alone is no failure of the user's pipeline
                continue
            if spent_s is not None:
                cpu_s[op] = min(spent_s, cpu_s.get(op, spent_s))
                tell({"op": op, "cpu_s_per_element": cpu_s[op]})
            if time.monotonic() - began_s < 2 * seconds:  # a whole pass that took longer is long enough
                again.append(op)
        wanted = sorted(again, key=lambda op: op in cpu_s)
    tell(None)


def parts_of(ops: Sequence[Op], profile: Profile) -> tuple[Op, ...]:
    """Return the ops at whose ends the pipeline is cut, sources first. Prefer ops that snapshots missed, then costly ones.

    A loop makes more branches than there is time for. They are one part, which ends where they come together.
    """
    rows = {row.name: row for row in profile.ops}

    def weight(op: Op) -> tuple[bool, float]:
        members = [rows[member.name] for member in (op, *inside(op, ops)) if member.name in rows]
        is_unseen = any(row.merged_into == UNATTRIBUTED for row in members)
        return is_unseen, sum(row.self_cpu_s_per_sample or 0.0 for row in members)

    joint = joint_of(ops)
    branches = {op.name for op in upstream(joint, ops)} if joint is not None else set()
    heavy = [op for op in ops if op.within is None and op.kind not in LIGHT and op.name not in branches]
    kept = sorted(heavy, key=lambda op: (op is joint, weight(op)), reverse=True)[:MOST_PARTS]
    return tuple(op for op in heavy if op in kept)


def marginal_costs(
    ops: Sequence[Op], cpu_s_per_element: Mapping[str, float | None], elements_per_sample: Mapping[str, float]
) -> dict[str, float]:
    """Return the CPU seconds of one sample between the end of each part and the ends of the parts before it.

    Leave a part out if its cost, or the cost of a part before it, is None.
    """
    whole = {
        name: None if cpu_s is None else cpu_s * elements_per_sample.get(name, 0.0) for name, cpu_s in cpu_s_per_element.items()
    }
    before = {op.name: {one.name for one in upstream(op, ops) if one.name in whole} for op in ops if op.name in whole}
    found = {}
    for name, names in before.items():
        nearest = [whole[one] for one in names if not any(one in before[other] for other in names)]
        cost, known = whole[name], [cpu_s for cpu_s in nearest if cpu_s is not None]
        if cost is not None and len(known) == len(nearest):
            found[name] = max(0.0, cost - sum(known))
    return found


def _cpu_s_per_element(part: Any, loop: SamplingLoop, seconds: float, harness_s: float) -> float | None:
    """Return CPU seconds of one element of a dataset; None if no element comes in that time, or no whole pass of bursts.

    Args:
        loop: traced for such elements on its first call.
        harness_s: what the loop itself costs each time.
    """
    began_s, began_cpu_s = now_s(), time.process_time()
    iterator = iter(part.window(1, drop_remainder=True))
    came = loop(iterator, until_s=began_s + WARM_RATIO * seconds)
    count = len(came.stamps_s)
    if came.error or not count:
        return None
    first_s = float(came.stamps_s[0]) - began_s
    is_burst, has_ended = first_s > BURST_RATIO * seconds, came.ended
    if is_burst and not has_ended:
        rest = loop(iterator, until_s=now_s() + max(seconds, first_s))
        count, has_ended = count + len(rest.stamps_s), rest.ended
        if not has_ended:
            return None
    if has_ended and (is_burst or count < TAKEN * LEAST_TIMES):
        return max(0.0, time.process_time() - began_cpu_s - harness_s * count) / count
    each_s = (now_s() - began_s - first_s) / count
    del iterator, came
    taken = int((1 - WARM_RATIO) * seconds / (LEAST_TIMES * each_s))
    taken = max(1, min(TAKEN, TAKEN_BYTES // max(1, bytes_of(next(iter(part)))), taken))
    iterator = iter((part.repeat() if has_ended else part).window(taken, drop_remainder=True))
    loop(iterator, until_s=now_s() + WARM_RATIO * seconds)  # fills its buffers
    began_cpu_s = time.process_time()
    came = loop(iterator, until_s=now_s() + (1 - WARM_RATIO) * seconds)
    count = len(came.stamps_s)
    if came.error or not count:
        return None
    return max(0.0, time.process_time() - began_cpu_s - harness_s * count) / (count * taken)
