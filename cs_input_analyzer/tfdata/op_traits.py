"""Tell how an op treats its elements, and which call of the user made it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

from cs_input_analyzer.records import Op, OpCost, PipelineGraph, Profile, Scalar
from cs_input_analyzer.tfdata.function_ops import calls, does, draws_by_seed
from cs_input_analyzer.tfdata.lineage import downstream, may_reorder, upstream
from cs_input_analyzer.tfdata.op_kinds import BATCHES, BLIND, HANDS_ON, MAPS, OPENS, SHUFFLES, kinds_with, method_of
from cs_input_analyzer.tfdata.source.code import argument_of, count_calls
from cs_input_analyzer.tfdata.threads import inside

# Of a batch, it does number by number what it does of one sample.
_ELEMENTWISE = ("each", "each of several", "each text")


def first_of(ops: Sequence[Op], kinds: Collection[str]) -> Op | None:
    """Return the first op of one of these kinds; None without one."""
    return next((op for op in ops if op.kind in kinds), None)


def is_map(op: Op) -> bool:
    """Return whether the op is a `map` of any kind."""
    return op.kind in MAPS


def draws(op: Op) -> bool:
    """Return whether its function draws random numbers, of either kind."""
    return calls(op, "draws") or draws_by_seed(op)


def draws_anew(op: Op, ops: Sequence[Op]) -> bool:
    """Return whether its function may draw other numbers for an element in another pass.

    A draw by seed does not if the elements are the same in each pass, because the seed is then the same too.
    """
    return calls(op, "draws") or (draws_by_seed(op) and not is_same_each_pass(op, ops))


def is_same_each_pass(op: Op, ops: Sequence[Op]) -> bool:
    """Return whether `op` surely gives the same in each pass.

    Its sources are ranges and arrays. Its functions keep no state, call no Python and see no shuffle.
    """
    up_to_here = [one for top in (*upstream(op, ops), op) for one in (top, *inside(top, ops))]
    sources = [one for one in up_to_here if not one.inputs]
    has_state = any(calls(one, "state", "draws") for one in up_to_here)
    is_mixed = any(one.kind in SHUFFLES or calls(one, "python") for one in up_to_here)
    return bool(sources) and all(length_of(one) is not None for one in sources) and not has_state and not is_mixed


def length_of(source: Op) -> int | None:
    """Return the elements of a range or of arrays. None for another source, or an unknown length."""
    if source.kind == "TensorSlice":
        return number_of(source, "elements")
    start, stop, step = (number_of(source, name) for name in ("start", "stop", "step"))
    if source.kind != "Range" or start is None or stop is None or not step:
        return None
    return len(range(start, stop, step))


def is_costly(op: Op, besides: Collection[str] = ()) -> bool:
    """Guess, without a measurement, whether the function calls something, other than these ops, that takes long."""
    return any(does(name, "costly", "decodes", "python") for name in op.function_ops if name not in besides)


def is_elementwise(op: Op) -> bool:
    """Return whether its function, as written, treats a batch like each of its samples."""
    return bool(op.function_ops) and all(does(name, *_ELEMENTWISE) for name in op.function_ops)


def takes_batches(op: Op) -> bool:
    """Return whether its function can treat a batch like each of its samples, by the ops that it calls."""
    return bool(op.function_ops) and all(does(name, *_ELEMENTWISE, "one more dimension") for name in op.function_ops)


def to_batch(op: Op, ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the ops after `op` up to the batch of its elements. Empty if an op between them needs what `op` makes."""
    found: list[Op] = []
    while len(readers := [other for other in ops if op.name in other.inputs]) == 1:
        (op,) = readers
        found += [op] if op.kind not in HANDS_ON else []
        if op.kind in BATCHES:
            return tuple(found)
        if op.kind not in HANDS_ON | BLIND:
            break
    return ()


PRIVATE_THREADS = "threading.private_threadpool_size"


def number_of(op: Op, name: str) -> int | None:
    """Return a parameter that is a whole number."""
    value = op.parameters.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def option(ops: Sequence[Op], name: str) -> Scalar | tuple[Scalar, ...]:
    """Return a setting of the pipeline's `tf.data.Options`, such as `autotune.enabled`; None if it is not set."""
    found = [op.parameters[name] for op in ops if op.kind == "Options" and op.within is None and name in op.parameters]
    return found[-1] if found else None


def why_not_parallelized(op: Op, ops: Sequence[Op]) -> str | None:
    """Return why TensorFlow leaves a `map` on one thread; None if it makes it parallel by itself.

    Observed with TensorFlow 2.21: `map_parallelization` is on by default and takes maps at the top with stateless functions. It
    leaves maps that draw random numbers, look up tables, read variables or call Python.
    """
    if op.within is not None:
        return "it is inside another op's function"
    if option(ops, "autotune.enabled") is False:
        return "autotuning is switched off"
    for name in ("map_parallelization", "apply_default_optimizations"):
        if option(ops, f"optimization.{name}") is False:
            return f"`{name}` is switched off"
    if calls(op, "draws"):
        return "it draws random numbers"
    if calls(op, "python"):
        return "it calls Python"
    return "its function has state" if calls(op, "state") else None


def prefetches_by_itself(ops: Sequence[Op]) -> bool:
    """Return whether TensorFlow appends a prefetch to a pipeline without one at its end (seen with 2.21)."""
    names = ("autotune.enabled", "optimization.inject_prefetch", "optimization.apply_default_optimizations")
    return all(option(ops, name) is not False for name in names)


def gives_another_order(op: Op, ops: Sequence[Op]) -> bool:
    """Return whether its elements come in another order in each pass, as those of a shuffle do."""
    return op.kind in SHUFFLES or may_reorder(op, option(ops, "deterministic") is False)


def freezes_only_mixing(op: Op, upstream: Sequence[Op], ops: Sequence[Op]) -> bool:
    """Return whether a cache at `op`, after the ops `upstream`, would keep one order of their elements, and no shuffle follows."""
    is_mixed = any(other.kind in SHUFFLES for other in downstream(op, ops))
    return not is_mixed and any(gives_another_order(other, ops) for other in upstream)


def freezing(op: Op, upstream: Sequence[Op], ops: Sequence[Op]) -> str:
    """Return a finding's words on a cache at `op`, after the ops `upstream`. Empty if none of these changes its order."""
    names = " and ".join(dict.fromkeys(other.name for other in upstream if gives_another_order(other, ops)))
    if not names:
        return ""
    is_moot = freezes_only_mixing(op, upstream, ops)
    then = "nothing after it mixes, so put a shuffle behind the cache" if is_moot else "the shuffle after it still mixes"
    return f"; it freezes the order that {names} gave in the first pass: {then}"


def chain_before(op: Op, ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the ops that lead to this one while each has only one input, the nearest first. Leave out options and the like."""
    by_name = {other.name: other for other in ops}
    found: list[Op] = []
    while len(op.inputs) == 1 and op.inputs[0] in by_name:
        op = by_name[op.inputs[0]]
        found.append(op)
    return tuple(other for other in found if other.kind not in HANDS_ON)


def is_written(op: Op) -> bool:
    """Return whether the user can change the call that made `op`: it is in no library, TensorFlow's or another."""
    is_shown = op.code is not None and not op.code.endswith("…")
    return op.library_source is None and (not is_shown or re.search(rf"\b{method_of(op.kind)}\b", op.code or "") is not None)


def cost_of(op: Op, profile: Profile | None) -> OpCost | None:
    """Return the measured row of an op; None if it was not measured."""
    return next((row for row in profile.ops if row.name == op.name), None) if profile else None


def sample_bytes(pipeline: PipelineGraph) -> int | None:
    """Return bytes of one sample as it leaves the pipeline, by its element spec; None if a shape or the batch size is not known."""
    total = 0
    for component in pipeline.element_spec:
        if component.kind == "none":
            continue
        width = width_of(component.dtype)
        if component.shape is None or None in component.shape or width is None:
            return None
        total += math.prod(dimension or 0 for dimension in component.shape) * width
    return total // pipeline.batch_size if pipeline.batch_size and total else None


def width_of(dtype: str) -> int | None:
    """Return the bytes of one value of a type; None for texts and the like."""
    bits = re.fullmatch(r"(?:b?float|u?int|complex)(\d+)", dtype.replace("bool", "int8"))
    return int(bits[1]) // 8 if bits is not None else None


def opens_files(op: Op, ops: Sequence[Op]) -> bool:
    """Return whether its function holds a reader of files. A generator, which TensorFlow wraps into a flat_map, is none."""
    return any(other.kind in kinds_with("reads") for other in inside(op, ops))


def is_made_by_reader(op: Op, ops: Sequence[Op]) -> bool:
    """Return whether a reader of several files made this flat_map or interleave.

    Inside a flat_map of the user a reader makes its own.
    """
    return _reader_inside(op, ops) is not None


def _reader_inside(op: Op, ops: Sequence[Op]) -> Op | None:
    if op.kind not in OPENS:
        return None
    return next((other for other in ops if other.within == op.name and other.kind in kinds_with("reads-list")), None)


def reader_call(op: Op, ops: Sequence[Op]) -> str | None:
    """Return the reader's call that made this flat_map or interleave, if it is the only one of its statement."""
    calls, alike = _calls_and_ops(op, ops)
    return made_by(op, ops) if is_made_by_reader(op, ops) and calls == len(alike) == 1 else None


def call_number(op: Op, ops: Sequence[Op]) -> int | None:
    """Return the position of an op's call among the calls of its method in the statement, for the edits of `source.code`.

    Return None if there is one such call. Return -1 if the statement's calls and the pipeline's ops do not match one to one. A call
    in a loop, or in a function that is called twice, makes several ops, and an edit of it changes all of them.
    """
    if is_made_by_reader(op, ops):
        return -1
    calls, alike = _calls_and_ops(op, ops)
    if calls == 1:  # the same words on two lines are two statements
        return None if sum(other.source == op.source for other in alike) == 1 else -1
    return [other.name for other in alike].index(op.name) if calls == len(alike) else -1


def is_made_again(op: Op, ops: Sequence[Op]) -> bool:
    """Return whether the calls of its statement surely made more than one op each, as in a loop or in a function called twice."""
    calls, alike = _calls_and_ops(op, ops)
    return 0 < calls < len(alike)


def _calls_and_ops(op: Op, ops: Sequence[Op]) -> tuple[int, list[Op]]:
    """Return the number of calls in an op's statement that may have made it, and the ops that these made."""
    method, opens = made_by(op, ops), op.kind in OPENS  # what a reader makes holds an op that is called like it
    same = [other for other in ops if other.code == op.code and (other.kind in OPENS) == opens]
    return count_calls(op.code, method), [other for other in same if made_by(other, ops) == method]


def made_by(op: Op, ops: Sequence[Op]) -> str:
    """Return the method, or the class of a reader, that makes such an op."""
    reader = _reader_inside(op, ops)
    return method_of(op.kind) if reader is None else f"{reader.kind}Dataset"


# Parameters that bound the calls of an op at a time.
WIDTHS = ("num_parallel_calls", "cycle_length")
# TensorFlow chooses a cycle with as many threads as CPUs: one thread for each file, two for the files ahead.
THREADS_PER_FILE = 3


def written_number(op: Op, name: str, ops: Sequence[Op]) -> str | None:
    """Return the text that the code gives for one of `WIDTHS`; None if it gives none, or another call may have made the op."""
    method = method_of(op.kind)
    if is_made_by_reader(op, ops):
        method, name = reader_call(op, ops) or method, "num_parallel_reads"
    # One call in a function that is called twice makes several ops.
    only = argument_of(op.code, method, name)
    return only if only is not None else argument_of(op.code, method, name, nth=call_number(op, ops))


def fixed_number(op: Op, name: str) -> int | None:
    """Return a parameter that is the same whole number on every node. Return None if it grows with the CPUs."""
    return number_of(op, name) if name not in op.by_cpus else None


def has_written_cycle(op: Op, ops: Sequence[Op], code: str | None = None) -> bool:
    """Return whether the code sets how many inputs an interleave opens.

    The graph does not tell TensorFlow's choice from the user's. `code`: the op's statement after other edits.
    """
    written = argument_of(code or op.code, "interleave", "cycle_length", nth=call_number(op, ops))
    return written is not None and "AUTOTUNE" not in written and written != "None"
