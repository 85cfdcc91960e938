"""Find the ops that an element passes before and after an op, and the promises on its order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.op_kinds import BATCHING, GROUPING, HANDS_ON, NAMES_PASS, ONE_BY_ONE, OPENS, REPEATS, SHUFFLES
from cs_input_analyzer.tfdata.threads import reader_ops, results_of


def upstream(op: Op, ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the ops that the inputs of `op` come from, and those in their functions; in the order of the pipeline."""
    by_name, held = {other.name: other for other in ops}, dict[str | None, list[str]]()
    for other in ops:
        held.setdefault(other.within, []).append(other.name)
    found: set[str] = set()
    pending = list(op.inputs)
    while pending:
        name = pending.pop()
        if name in by_name and name not in found:
            found.add(name)
            pending += (*by_name[name].inputs, *held.get(name, ()))
    return tuple(other for other in ops if other.name in found)


def downstream(op: Op, ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the ops that get elements through `op`, in the order of the pipeline, also through the ops that hold it."""
    found = at_or_behind(ops, lambda other: other.name == op.name)
    return tuple(other for other in ops if other.name in found and other.name != op.name)


def is_random_order(op: Op) -> bool:
    """Return whether it is a shuffle with another order in each run: without a seed, and with more than one element to draw."""
    is_seeded = bool(op.parameters.get("seed") or op.parameters.get("seed2"))
    return op.kind in SHUFFLES and not is_seeded and op.parameters.get("buffer_size") != 1


def is_mixed_anew(shuffle: Op, op: Op, ops: Sequence[Op]) -> bool:
    """Return whether a shuffle decides only the order in which elements reach a later op, and another one follows there.

    Not if they are batched or counted between the two: then the order decides which are together, or which there are.
    """
    behind = {other.name for other in downstream(shuffle, ops)}
    between = [other for other in (op, *upstream(op, ops)) if other.name in behind and other.within is None]
    is_only_order = shuffle.within is None and all(other.kind in ONE_BY_ONE for other in between)
    return is_only_order and any(is_random_order(other) for other in downstream(op, ops))


def may_reorder(op: Op, by_default: bool) -> bool:
    """Return whether the order of an op's elements may change between runs because it works in parallel.

    `by_default`: the setting of the options, if the op has none.
    """
    said = op.parameters.get("deterministic")
    return said == "false" or (said in ("", "default") and by_default) or op.parameters.get("sloppy") is True


def order_is_free(op: Op, ops: Sequence[Op], by_default: bool) -> bool:
    """Return whether nobody is promised the order of an op's elements.

    Either a shuffle hides it. Or the op may give any order by itself, and the later ops treat each element alone or put it into a
    batch.
    """
    free = ONE_BY_ONE | BATCHING
    is_loose = may_reorder(op, by_default) and all(one.kind in free and len(one.inputs) == 1 for one in downstream(op, ops))
    return is_loose or freeing_shuffle(op, ops) is not None


def freeing_shuffle(op: Op, ops: Sequence[Op]) -> Op | None:
    """Return the shuffle that hides the order of the elements of `op`; None if that order shows.

    It has no seed and comes after `op`. Nothing between the two depends on which elements are neighbours. Behind it elements may be
    put together, but a `take` shows which came first.
    """
    by_name = {other.name: other for other in ops}
    found: Op | None = None
    while True:
        readers = [other for other in ops for name in other.inputs if name == op.name]
        if not readers and op.within in by_name:
            op = by_name[op.within]
            if op.kind not in OPENS:
                return None
            continue
        if len(readers) != 1:
            return None if readers else found
        op = readers[0]
        if found is None and is_random_order(op):
            found = op
        if found is None and op.kind == "Concatenate":
            continue
        if len(op.inputs) != 1 or op.kind not in (ONE_BY_ONE if found is None else ONE_BY_ONE | GROUPING):
            return None


# The `stop` of a range that counts without end, and what passes its numbers on, each by itself or in batches.
_NO_END = 2**63 - 1
_KEEPS_NUMBERS = HANDS_ON | BATCHING | {"Map", "ParallelMap", "Prefetch", "Repeat", "Shuffle", "Zip"}


def without_end(ops: Sequence[Op]) -> dict[str, Op]:
    """Return the ops whose elements never end, by name, each with the `repeat` that causes it.

    A `take` ends its input. A join of several inputs counts as ending with the first of them. Numbers that never end, such as those
    of `enumerate`, end no join.
    """
    found: dict[str, Op] = {}
    numbers: set[str] = set()
    for op in ops:  # inputs come first, and what is inside an op before it
        if _counts_without_end(op) or (op.inputs and op.kind in _KEEPS_NUMBERS and numbers.issuperset(op.inputs)):
            numbers.add(op.name)
        limits = [name for name in op.inputs if name not in numbers]
        sources = [found[name] for name in limits if name in found]
        if op.kind in REPEATS and op.parameters.get("count") == -1:
            found[op.name] = op
        elif op.kind == "TakeWhile" or (op.kind == "Take" and op.parameters.get("count") != -1):
            continue
        elif sources and (len(sources) == len(limits) or op.kind == "Concatenate"):
            found[op.name] = sources[0]
        elif op.kind in OPENS:
            endless = next((found[other.name] for other in results_of(op, ops) if other.name in found), None)
            if endless is not None:
                found[op.name] = endless
    return found


def _counts_without_end(op: Op) -> bool:
    """Return whether it is a source of numbers without end: `Dataset.random`, or the range in an `enumerate`."""
    return op.kind == "Random" or (op.kind == "Range" and op.parameters.get("stop") == _NO_END)


def at_or_behind(ops: Sequence[Op], holds: Callable[[Op], bool]) -> set[str]:
    """Return the names of the ops for which `holds` is true, and of all whose elements pass one of them or come from inside one."""
    found: set[str] = set()
    for op in ops:  # inputs come first, and what is inside an op before it
        if op.name in found or holds(op) or not found.isdisjoint(op.inputs):
            found |= {op.name, op.within} if op.within else {op.name}
    return found


AUTO_SHARD = "distribute.auto_shard_policy"
# `tf.data.experimental.AutoShardPolicy`, as observed with TensorFlow 2.21.
AUTO, FILE, DATA = 0, 1, 2


def deals_out_files(ops: Sequence[Op]) -> bool:
    """Return whether each worker gets its own files: a `shard` divides their list, or `tf.distribute` is asked to.

    A `shard` behind the readers divides records, like the policy `DATA`: each worker reads all files.
    """
    if any(op.kind == "Shard" for op in ops):
        return any(op.kind == "Shard" and not reader_ops(upstream(op, ops)) for op in ops)
    return bool(reader_ops(ops)) and any(op.within is None and op.parameters.get(AUTO_SHARD) in (AUTO, FILE) for op in ops)


def reads_names_only(op: Op, ops: Sequence[Op]) -> bool:
    """Return whether `op` can only get a list, usually of file names: nothing has been read, made or batched yet."""
    return all(other.kind in NAMES_PASS for other in upstream(op, ops))


def picks_names(ops: Sequence[Op]) -> bool:
    """Return whether a `take` or `skip` picks a part of a list, usually of file names, by the order of the list."""
    return any(
        leaves_out(op) and reads_names_only(op, ops) and any(other.kind == "TensorSlice" for other in upstream(op, ops))
        for op in ops
    )


def leaves_out(op: Op) -> bool:
    """Return whether it is a `take` or `skip` that leaves elements out."""
    return op.kind in ("Take", "Skip") and op.parameters.get("count") != (-1 if op.kind == "Take" else 0)
