"""Rules of `map`: the number of calls at a time, and the work of each."""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.model.evidence import (
    bottleneck,
    busy_ratio,
    calls_at_once,
    finding,
    is_idle,
    more_of_call,
    rate_of_worker,
    seconds_of_call,
    share_of,
    visits,
    waits,
    widest_cpus,
)
from cs_input_analyzer.records import BUSY_RATIO, Case, Edit, Finding, Op
from cs_input_analyzer.tfdata import op_traits as traits
from cs_input_analyzer.tfdata.folding import call_of
from cs_input_analyzer.tfdata.function_ops import PARSER, calls, does
from cs_input_analyzer.tfdata.lineage import freeing_shuffle, reads_names_only
from cs_input_analyzer.tfdata.op_kinds import THREADED, TRANSFORMS
from cs_input_analyzer.tfdata.source.code import AUTOTUNE
from cs_input_analyzer.tfdata.threads import is_serial
from cs_input_analyzer.units import counted

# Below this share of the CPU time, or of all time if it waits, a map is not worth another thread.
SMALL_RATIO = 0.05


def serial_map(case: Case) -> Iterator[Finding]:
    """A `map` makes one call at a time although the task has more CPUs.

    One thread then limits the whole pipeline, and the other CPUs are idle. TensorFlow makes a plain `map` parallel by
    itself. It does not do so for a map that draws random numbers, looks up a table, reads a variable, or is inside
    another op's function. It does so for no map if `autotune` or `map_parallelization` is switched off.

    Fix: `num_parallel_calls=tf.data.AUTOTUNE`. The order of the elements stays. The random numbers of an element
    change, as they do from run to run anyway. Calls that mostly wait get a number, and a private pool with as many
    threads. The fix is advice only if one seed is used for two components, such as a picture and its mask: parallel
    calls would mix the two draws.

    Silent if TensorFlow makes the map parallel, or if an op calls it in parallel. Silent on one CPU. Silent if the map
    takes less than a twentieth of the CPU time, or did not run. Silent for a map of file names, and for a map that a
    library made. Silent for Python functions that do not wait: they share one lock, so more calls at a time do not
    help.
    """
    ops, cpus = case.pipeline.ops, widest_cpus(case)
    calls_of: dict[object, list[Op]] = {}
    for op in ops:
        if op.kind == "Map" and traits.is_written(op) and is_serial(op, ops) and cpus != 1:
            calls_of.setdefault(call_of(op), []).append(op)
    for call in calls_of.values():
        whole = share_of(case, call)
        if not (alike := [one for one in call if _is_worth_a_thread(one, case, whole)]):
            continue
        op = max(alike, key=lambda one: share_of(case, (one,)) or 0.0)
        why = traits.why_not_parallelized(op, ops)
        busy = busy_ratio(case, op)
        holds_back = bool(bottleneck(case, ("serial op",), at=[one.name for one in alike])) or (busy or 0.0) >= BUSY_RATIO
        effect = ", and its one thread holds the worker back" if holds_back else ""
        message = f"{op.name}{more_of_call(len(alike))} makes one call at a time: {why}{effect}{_instead(case)}"
        calls = calls_at_once(case, op)
        evidence = {"calls_at_once_now": 1, "cpus_per_task": cpus, "share_ratio": whole, "busy_ratio": busy}
        parallel = tuple(Edit(kind="parallelize", op=one.name, value=calls) for one in alike)
        fix = f"give it num_parallel_calls={AUTOTUNE}" if calls is None else _calls_fix(calls)
        edits = parallel if calls is None else (*parallel, _threads_for(op, calls))
        if any(one.draws_alike for one in alike):
            edits, fix = (), f"draw once for the components that share a seed, or parallel calls mix their draws; then {fix}"
        yield finding(op, message, fix, evidence, is_warning=holds_back, edits=edits)


def _calls_fix(calls: int) -> str:
    return f"give it num_parallel_calls={calls}, and as many threads: options.{traits.PRIVATE_THREADS} = {calls}"


def _threads_for(op: Op, calls: int) -> Edit:
    """Return an edit for a private pool. Without it there is one thread per CPU, which limits the waiting calls."""
    return Edit(kind="use-private-threads", op=op.name, value=calls)


def _instead(case: Case) -> str:
    """Return words for plans with tasks of one CPU, which need no parallel map.

    Return "" if no such worker used its CPU.
    """
    if case.plan is None or case.plan.cpus_per_task > 1:
        return ""
    used = [
        worker.samples_per_s.estimate * worker.cpu_s_per_sample
        for m in case.measurements
        for worker in m.measured_workers
        if m.layout.cpus_per_task == 1 and worker.samples_per_s is not None and worker.cpu_s_per_sample is not None
    ]
    return "; the plan has more tasks of one CPU instead, which do the same" if max(used, default=0.0) >= BUSY_RATIO else ""


def _is_worth_a_thread(op: Op, case: Case, share: float | None) -> bool:
    """Return whether more threads would help. `share` is that of all ops of this call in the CPU time."""
    ops, cost = case.pipeline.ops, traits.cost_of(op, case.profile)
    if traits.why_not_parallelized(op, ops) is None or is_idle(case, op):
        return False
    if cost is None:
        is_of_names = op.within is None and reads_names_only(op, ops) and not (traits.is_costly(op) or traits.draws(op))
        return not (calls(op, "python") or is_of_names)
    if cost.parallelism is not None and cost.parallelism > 1:  # made parallel after all
        return False
    own_s, wait_s = cost.self_cpu_s_per_sample or 0.0, cost.wait_s_per_sample or 0.0
    is_waiting = waits(case, op) and (own_s + wait_s) * (rate_of_worker(case) or 0.0) >= SMALL_RATIO
    if calls(op, "python"):
        return is_waiting
    if cost.share_ratio is None:  # what it costs stands in another row, or it never ran
        return cost.merged_into is not None and cost.elements_per_sample != 0
    return is_waiting or (share or 0.0) >= SMALL_RATIO


CALLS_PER_CPU = 4
# Up to this number of calls is never too many: such calls often wait for storage.
FEW_CALLS = 16


def parallelism_far_off(case: Case) -> Iterator[Finding]:
    """A fixed `num_parallel_calls` is far from the number that the task can use.

    Too few calls leave CPUs idle, or wait for one reply at a time. Too many calls only hold more elements in memory;
    calls beyond the CPUs gain nothing unless they wait.

    Fix: `tf.data.AUTOTUNE`, which follows the CPUs of the task. An `interleave` whose order matters needs a
    `cycle_length` as well, because TensorFlow chooses it by the number of calls. Calls that mostly wait and hold the
    worker back need a number that keeps the CPUs busy (Little's law). They also need a private pool with as many
    threads, because TensorFlow has no more threads than CPUs.

    Silent for AUTOTUNE, and for a map that a library made. Silent for few calls that do not hold the worker back.
    Silent for up to four calls per CPU. Silent for many calls that mostly wait, or were not measured. Silent for an
    interleave whose `cycle_length` is the smaller number.
    """
    cpus = widest_cpus(case) or (case.host.cpu_budget if case.host else None)
    for op in case.pipeline.ops:
        calls = op.parameters.get("num_parallel_calls")
        if op.kind not in THREADED or not isinstance(calls, int) or calls < 1 or cpus is None:
            continue
        if traits.is_map(op) and not traits.is_written(op):
            continue
        wanted = calls_at_once(case, op, calls) if op.kind in TRANSFORMS else None
        if wanted is not None:
            message = f"{op.name} makes {counted(calls, 'call')} at a time, which mostly wait; {wanted} would keep the CPUs busy"
            evidence = {"num_parallel_calls": calls, "calls_at_once": wanted, "cpus_per_task": cpus}
            edits = (Edit(kind="set-parallelism", op=op.name, value=wanted), _threads_for(op, wanted))
            yield finding(op, message, _calls_fix(wanted), evidence, is_warning=True, edits=edits)
        elif calls < cpus:
            yield from _too_few(op, calls, cpus, case)
        elif calls > max(FEW_CALLS, CALLS_PER_CPU * cpus) and visits(case, op) and not waits(case, op):
            yield _other_number(op, case, False, calls, cpus)


def _too_few(op: Op, calls: int, cpus: int, case: Case) -> Iterator[Finding]:
    cycle = op.parameters.get("cycle_length")
    if isinstance(cycle, int) and cycle < calls:
        return
    station = bottleneck(case, ("fixed parallelism", "serial op"), at=(op.name,))
    holds_back = station is not None or (busy_ratio(case, op, calls) or 0.0) >= BUSY_RATIO
    if holds_back or (case.profile is None and traits.is_costly(op)):
        yield _other_number(op, case, holds_back, calls, cpus)


def _other_number(op: Op, case: Case, holds_back: bool, calls: int, cpus: int) -> Finding:
    # Without a cycle_length TensorFlow chooses one by the number of calls, which changes the order.
    is_written = op.kind != "ParallelInterleave" or traits.has_written_cycle(op, case.pipeline.ops)
    is_ordered = not is_written and freeing_shuffle(op, case.pipeline.ops) is None
    effect = ", and that holds the worker back" if holds_back else ""
    message = f"{op.name} makes {counted(calls, 'call')} at a time where a task has {cpus} CPUs{effect}"
    fix = f"give it num_parallel_calls={AUTOTUNE}" + (", and a cycle_length, which keeps the order" if is_ordered else "")
    fix += " in place of num_parallel_batches" if "num_parallel_batches" in (op.code or "") else ""
    evidence = {"num_parallel_calls": calls, "cpus_per_task": cpus}
    return finding(op, message, fix, evidence, is_warning=holds_back, edits=(Edit(kind="set-parallelism", op=op.name),))


# Above this share of a full CPU, batching first is worth a warning.
HEAVY_RATIO = 0.3
# In smaller batches, one call for the whole batch saves little.
SMALL_BATCH = 8


def map_before_batch(case: Case) -> Iterator[Finding]:
    """A `map` handles samples one by one although its function could handle a whole batch.

    A call of a function costs tf.data some ten microseconds. Casting, scaling or slicing a small sample costs no more
    than that. After `batch` the function is called once for all samples of a batch.

    Fix: `batch` first, then `map`; `tf.io.parse_example` instead of `parse_single_example`. The rule proposes this if
    every TensorFlow op of the function can take a batch: `cast`, arithmetic, comparisons, `decode_raw`, `decode_csv`,
    lookups, slices, parsing, `stack`, `concat`, `expand_dims`, `one_hot`. Your function then gets tensors with one more
    dimension in front. `set_shape`, `ensure_shape` and `x.shape` must count it. A slice `x[:6]` becomes `x[:, :6]`, an
    index `x[6]` becomes `x[:, 6]`, and `tf.stack(fields)` becomes `tf.stack(fields, axis=1)`. The finding shows changed
    code only for a lambda that has none of these.

    Silent if the function calls anything else: decoding pictures, cropping, padding, Python, random numbers. Samples
    that differ in shape cannot be handled together. Silent for padded and ragged batches, and for a map after the
    batch. Silent if an op other than `shuffle`, `repeat`, `take` and `skip` stands between map and batch. Silent for a
    map of a library, without a measurement, for a map that takes under a twentieth of the CPU time, and for one that
    did not run.
    """
    ops = case.pipeline.ops
    for op in ops:
        path = traits.to_batch(op, ops) if traits.is_map(op) and traits.is_written(op) and traits.takes_batches(op) else ()
        size = traits.number_of(path[-1], "batch_size") if path else None
        if size is None or size < SMALL_BATCH:
            continue
        share, each = share_of(case, (op,)), seconds_of_call(case, op)
        if share is None or share < SMALL_RATIO or is_idle(case, op):
            continue
        is_bad = share >= HEAVY_RATIO and bottleneck(case, ("CPU", "serial op")) is not None
        how = "parse whole batches with tf.io.parse_example" if PARSER in op.function_ops else "do it once for a whole batch"
        message = f"{op.name} is called for each sample, {size} times for each batch, and could take the whole batch"
        # The places of a function that must count the batch dimension.
        places = [
            "every slice (x[:6] becomes x[:, :6])" if "StridedSlice" in op.function_ops else "",
            "every tf.stack (axis=1)" if "Pack" in op.function_ops else "",
            "every shape that the function names",
        ]
        fix = f"{how}: batch before map, with one dimension more in {', '.join(filter(None, places))}"
        evidence = {"batch_size": size, "share_ratio": share, "call_cpu_s": each}
        yield finding(op, message, fix, evidence, is_warning=is_bad, edits=(Edit(kind="vectorize", op=op.name),))


def random_calls_in_parallel(case: Case) -> Iterator[Finding]:
    """Random numbers have a seed, but parallel calls draw them in a different order in each run.

    Ops like `tf.random.uniform` and `tf.image.random_flip_left_right` keep a state: each draw takes the next number.
    Calls of a parallel `map` reach that state in the order in which threads happen to run. So the number that a sample
    gets differs from run to run. `deterministic=True` keeps only the order of the samples (seen with TensorFlow 2.21).

    Fix: the `tf.random.stateless_…` and `tf.image.stateless_random_…` ops with a seed that comes with the sample. Zip a
    counter, `tf.data.Dataset.zip((dataset, tf.data.Dataset.counter()))`, and use `seed=(1, number)` in the function.
    Each pass needs another first number. This is advice only, because the drawn numbers change.

    A warning if one seed is used for two components, as for a picture and its mask. One call at a time draws the same
    for both. Parallel calls do not: two calls at a time broke 12 of 6,000 pictures, and eight calls 72. Draw once for
    both: `tf.concat` them before the draw, or use a stateless op with one seed.

    Silent if no seed was given, because nothing was asked to repeat. Silent for one call at a time, and for stateless
    ops.
    """
    holders = {op.within for op in case.pipeline.ops}
    for op in case.pipeline.ops:
        is_parallel = op.kind in THREADED and op.parameters.get("num_parallel_calls") != 1
        if not is_parallel or not op.is_seeded or op.name in holders:
            continue
        drawing = sorted(name for name in op.function_ops if does(name, "draws"))
        message = f"{op.name} draws random numbers by a seed in parallel calls: which sample gets which differs from run to run"
        fix = "use tf.random.stateless_… with a counter that comes with each sample as its seed"
        if op.draws_alike:
            message = (
                f"{op.name} gives one seed to the draws for two components, and its parallel calls mix these draws: "
                "a mask no longer fits its picture"
            )
            fix = "concatenate the two and draw once, or use tf.image.stateless_random_… with one seed for both"
        evidence = {"draws": ", ".join(drawing), "num_parallel_calls": str(op.parameters.get("num_parallel_calls"))}
        yield finding(op, message, fix, evidence, is_warning=op.draws_alike)
