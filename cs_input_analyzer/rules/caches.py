"""Rules of `cache`: a missing cache, and a cache that saves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import PurePath

from cs_input_analyzer.model import amounts
from cs_input_analyzer.model import evidence as measured
from cs_input_analyzer.records import Case, Edit, Finding, Op, Scalar
from cs_input_analyzer.tfdata import op_traits as traits
from cs_input_analyzer.tfdata.edits.kinds import moved_up
from cs_input_analyzer.tfdata.function_ops import calls, draws_by_seed
from cs_input_analyzer.tfdata.lineage import at_or_behind, downstream, leaves_out, reads_names_only, upstream, without_end
from cs_input_analyzer.tfdata.op_kinds import KEEPERS, NAMES_PASS, REPEATS, SHUFFLES, WRITERS, kinds_with
from cs_input_analyzer.tfdata.samples import batching_op, samples_reaching
from cs_input_analyzer.tfdata.threads import inside, python_ops, reader_ops
from cs_input_analyzer.units import format_bytes, several

LARGE_RATIO = 0.4
MEMORY_RATIO = 0.5
_CACHES = KEEPERS | WRITERS | {"Load"}
# Ops that may read all of their input before they give the elements that a later `take` asks for.
_MAY_DRAIN = SHUFFLES | kinds_with("filter") | {"GroupByWindow", "GroupByReducer", "Unique"}


def cache_missing(case: Case) -> Iterator[Finding]:
    """Every pass reads and decodes the same data again, although the result would fit into memory.

    `cache()` keeps the elements of the first pass in the memory of the worker. Later passes take them from there.

    Fix: `.cache()` after the last op that gives the same result in every pass, before any random op and before
    `repeat`. The message says how much memory the cache takes on each node. A cache freezes the order of its first
    pass. A shuffle of file names before it mixes only once. It also keeps random numbers that Python code draws, which the
    graph does not show. If no shuffle follows the cache, the finding shows no
    change of your code, because the change would remove the only shuffle.

    Silent without a measurement, in evaluation, and if the pipeline has a cache or snapshot. Silent if nothing costly
    comes before the first random op. A seeded draw counts as random, unless its elements are those of ranges and
    arrays, the same in each pass. So does `Dataset.random`, and a `shard`, `take` or `skip` behind a shuffle, which gives
    a worker other files in each pass. Reading alone counts only if the storage holds the worker back, because the page
    cache keeps files as well. Silent if the data are read once, or if the function of an `interleave` repeats its data
    without end. Silent if a `take`, a `take_while` or a `zip` follows the place of the cache before any `repeat`, because the
    cache might never be complete. Silent if the length of a pass is unknown, as for a generator. Silent if the data
    take more than half of a node's free memory.
    """
    ops = case.pipeline.ops
    is_reread = case.pipeline.is_infinite or any(op.kind == "Repeat" and op.parameters.get("count") not in (0, 1) for op in ops)
    if case.mode == "eval" or case.profile is None or not is_reread or any(op.kind in _CACHES for op in ops):
        return
    op = _last_unchanging(ops)
    up_to_here = (*upstream(op, ops), *inside(op, ops), op) if op is not None else ()
    if op is None or not (reader_ops(up_to_here) or traits.is_same_each_pass(op, ops)):
        return
    saved = measured.share_of(case, up_to_here)
    maps = measured.share_of(case, [one for one in up_to_here if traits.is_map(one)]) or 0.0
    is_slow = measured.bottleneck(case, ("storage bandwidth", "storage latency")) is not None
    need, room = amounts.cache_bytes_per_node(case, op), measured.free_bytes_per_node(case)
    if need is None or need > MEMORY_RATIO * room or (maps < measured.COSTLY_RATIO and not is_slow):
        return
    message = f"every pass repeats all ops up to {op.name}; its result would take {format_bytes(need)} of a node's memory"
    fix = f"put .cache() after {op.name}{traits.freezing(op, up_to_here, ops)}"
    python = [one.name for one in python_ops(up_to_here)]
    fix += (
        f", unless the Python code of {several(python)} draws random numbers: a cache keeps those of the first pass"
        if python
        else ""
    )
    evidence = {"saved_share_ratio": saved, "cache_bytes_per_node": round(need), "free_bytes_per_node": round(room)}
    is_worth_it, edits = is_slow or (saved or 0.0) >= LARGE_RATIO, (Edit(kind="insert-cache", op=op.name),)
    yield measured.finding(op, message, fix, evidence, is_warning=is_worth_it, edits=edits)


def _last_unchanging(ops: tuple[Op, ...]) -> Op | None:
    """Return the last top-level op that gives the same elements in every pass. Return None if passes have no end."""
    last, endless, drawing = None, without_end(ops), at_or_behind(ops, lambda op: _gives_others(op, ops))
    read = at_or_behind(ops, lambda op: op.kind not in NAMES_PASS)
    for op in ops:
        is_of_names = read.isdisjoint(op.inputs) and not traits.is_map(op) and not reader_ops((*inside(op, ops), op))
        if op.within is not None or is_of_names:
            if op.kind == "Repeat" and op.within is None:  # of file names: what is read never ends
                return None
            continue
        if op.kind in SHUFFLES | REPEATS or op.name in drawing or op.name in endless:
            break
        if op.kind not in ("Prefetch", "Options"):
            last = op
    return None if last is None or _ended_early(last, ops, ("Take", "TakeWhile", "Zip")) else last


def _gives_others(op: Op, ops: tuple[Op, ...]) -> bool:
    """Return whether other elements may leave an op in the next pass: it draws, or it picks them behind a shuffle."""
    is_mixed = any(
        one.kind in SHUFFLES and one.parameters.get("reshuffle_each_iteration") is not False for one in upstream(op, ops)
    )
    return op.kind == "Random" or traits.draws_anew(op, ops) or (is_mixed and (op.kind == "Shard" or leaves_out(op)))


def _ended_early(op: Op, ops: tuple[Op, ...], kinds: tuple[str, ...]) -> Op | None:
    """Return a later op that stops asking before `op` has ended, so that a cache there never becomes complete.

    An op behind a `repeat` takes from several passes, and the first pass completes the cache.
    """
    for other in takewhile(lambda one: one.kind != "Repeat", downstream(op, ops)):
        if other.within is None and other.kind in kinds and other.parameters.get("count") != -1:
            return other
    return None


def cache_path_shared(case: Case) -> Iterator[Finding]:
    """Several workers write a file cache under one path.

    `cache("path")` takes a lock file while the first pass fills it. The second worker finds that lock and stops with
    `AlreadyExistsError: There appears to be a concurrent caching iterator running`. If a job is killed the lock stays,
    and stops the next job, too. The measurement does not show this, because each measured worker wrote into a private
    folder.

    Fix: put the worker's index into the path (`f"{path}-{index}"`, from `TF_CONFIG` or
    `input_context.input_pipeline_id`). Or use `cache()` in memory, if a node has room for it. Or let one task complete
    the cache before the others start, because a complete cache is only read.

    Silent if the workers of a launch had different paths, or no launch had several workers. Silent if one worker
    streams. Silent if each node has one task and the path is local to the node (`/tmp`). Silent for complete caches,
    and for `snapshot`, which keeps its runs apart.
    """
    plan, launches = case.plan, [[worker.writes for worker in m.workers if worker.writes] for m in case.measurements]
    shared = next((set.intersection(*map(set, written)) for written in launches if len(written) > 1), set[str]())
    for op in case.pipeline.ops:
        place = op.parameters.get("filename")
        # While measuring, a private path that ends in the name of this one stands for it.
        path = next((one for one in sorted(shared) if place == one or str(place).endswith(f"-{PurePath(one).name}")), None)
        if op.kind != "Cache" or path is None or plan is None or plan.input_workers < 2:
            continue
        if plan.streaming.tasks_per_node == 1 and measured.node_local_folder(path):
            continue
        evidence: dict[str, Scalar] = {"path": path, "workers": plan.input_workers}
        message = f"all {plan.input_workers} workers cache to {path}: the second one stops at the lock file of the first"
        yield measured.finding(op, message, "give each worker a path with its index in it", evidence, severity="error")


def cache_after_randomness(case: Case) -> Iterator[Finding]:
    """A `cache` stores the result of a random augmentation, so every later pass repeats the same random values.

    The network then sees each picture in one version only, so the augmentation has no effect. Nothing fails and nothing
    is slower.

    Fix: put `cache` before the random `map`. Put costly work without randomness (parsing, decoding) into a map of its
    own before the cache. This is advice only, because the fixed pipeline gives other elements.

    Silent in evaluation, if nothing before the cache draws random numbers, and for a shuffle of file names. For your
    information if the numbers come from seeds (`tf.random.stateless_…`), or if a shuffle of samples stands before the
    cache. A shuffle of file names is one if each file is one sample. Silent for what an earlier cache keeps already.
    """
    ops, is_file = case.pipeline.ops, amounts.files_are_samples(case.pipeline.ops)
    if case.mode == "eval":
        return
    for cache in ops:
        if cache.kind not in ("Cache", "Snapshot"):
            continue
        before = upstream(cache, ops)
        kept = {op.name for other in before if other.kind in KEEPERS for op in upstream(other, ops)}  # by an earlier cache
        frozen = [op for op in before if op.name not in kept]
        drawn = next((op for op in frozen if calls(op, "draws")), None)
        by_seed = next((op for op in frozen if draws_by_seed(op) and traits.draws_anew(op, ops)), None)
        shuffle = next((op for op in frozen if op.kind in SHUFFLES and (is_file or not reads_names_only(op, ops))), None)
        random = drawn or by_seed or shuffle
        if random is None or (random is shuffle and any(op.kind in SHUFFLES and cache in upstream(op, ops) for op in ops)):
            continue
        if random is shuffle:
            message = f"{cache.name} keeps the order that {random.name} gave in the first pass: every pass has that same order"
        else:
            what = "draws" if drawn is not None else "draws by seed, if its seeds differ between passes,"
            message = f"{cache.name} keeps what {random.name} {what} in the first pass: later passes repeat it exactly"
        fix = f"put the cache before {random.name}" + (
            " and split the decoding from the random part" if random is not shuffle and calls(random, "decodes") else ""
        )
        if random is shuffle and reads_names_only(shuffle, ops) and not reads_names_only(cache, ops):
            grouping = batching_op(ops, cache)
            fix = f"shuffle the samples after {cache.name}" + (
                f", and batch after that, not in {grouping.name}" if grouping else ""
            )
        # Where nothing else lies between.
        after = moved_up(cache, ops) if traits.chain_before(cache, ops)[:1] == (random,) else None
        evidence = {"random_op": random.name, "within": random.within}
        yield measured.finding(cache, message, fix, evidence, is_warning=drawn is not None, after=after)


def cache_misplaced(case: Case) -> Iterator[Finding]:
    """A `cache` never becomes complete, or stands before the costly work that it could save.

    TensorFlow uses a cache in memory only after its input has ended. Behind an endless `repeat` its input never ends:
    the cache grows with every pass and is never read. Before a `take` its input does not end either, so each pass
    starts the cache anew. And if the cache stands right after the readers, each pass decodes again.

    Fix: `cache` before `repeat`, after `take`, and after the last costly op without randomness. A cache before `repeat`
    freezes the order of the first pass; the finding says if no other shuffle mixes.

    Silent if the cache sees its input end, also behind a `repeat` that a `take` or a shorter input of a `zip` cuts
    short, or with a shuffle or a filter between it and a `take`, which may read the whole pass first. Silent if no op
    before the cache ran in the measured passes. Silent if the maps after it are cheap, or draw random numbers without
    decoding. Silent if their result does not fit into memory.
    """
    ops = case.pipeline.ops
    without = without_end(ops)
    for cache in ops:
        if cache.kind != "Cache" or cache.within is not None:
            continue
        endless = without.get(cache.name)
        if endless is not None:
            message = f"{cache.name} never sees the end of {endless.name}: it only grows, and is never read"
            fix = f"put the cache before {endless.name}{traits.freezing(cache, upstream(cache, ops), ops)}"
            yield _misplaced(cache, endless, True, message, fix, (endless, cache), case)
            continue
        take = _ended_early(cache, ops, ("Take",))
        if take is not None and _is_drained(cache, take, case):
            take = None
        if take is not None:
            message = f"{take.name} stops before {cache.name} is complete, so each pass begins it anew"
            fix, is_warning = f"put the cache after {take.name}", case.pipeline.is_infinite
            yield _misplaced(cache, take, is_warning, message, fix, (cache, take), case)
            continue
        yield from _too_early(cache, case)


def _is_drained(cache: Op, take: Op, case: Case) -> bool:
    """Return whether a cache may become complete although a `take` behind it stops early."""
    ops = case.pipeline.ops
    if measured.is_full(case, cache):
        return True
    between = [op for op in upstream(take, ops) if cache in upstream(op, ops)]
    if any(op.kind in _MAY_DRAIN for op in between):
        return True
    each, whole, taken = samples_reaching(take, ops), amounts.samples_of_worker(case, cache), traits.number_of(take, "count")
    return whole is not None and each is not None and taken is not None and taken * each > whole


def _too_early(cache: Op, case: Case) -> Iterator[Finding]:
    for op in downstream(cache, case.pipeline.ops):
        is_random = traits.draws_anew(op, case.pipeline.ops)
        if not traits.is_map(op) or op.within is not None or (is_random and not calls(op, "decodes")):
            continue
        share, need = measured.share_of(case, (op,)), amounts.cache_bytes_per_node(case, op)
        is_cheap = share < measured.COSTLY_RATIO if share is not None else not traits.is_costly(op)
        if is_cheap or (need is not None and need > MEMORY_RATIO * measured.free_bytes_per_node(case)):
            continue
        message = f"{op.name} works after {cache.name}, so each pass does it again" + (", random or not" if is_random else "")
        fix = "split the decoding from the random part, and put the cache between them" if is_random else "put the cache after it"
        fix += "" if need is not None else ", if a node has room for its result (its size was not measured)"
        is_warning = share is not None and need is not None and not is_random
        swapped = () if is_random else (cache, op)
        yield _misplaced(cache, op, is_warning, message, fix, swapped, case)
        return


def _misplaced(cache: Op, other: Op, is_warning: bool, message: str, fix: str, swapped: tuple[Op, ...], case: Case) -> Finding:
    """Return a finding. The ops in `swapped` should change places; they become an edit if they are neighbours."""
    is_near = len(swapped) == 2 and next(iter(traits.chain_before(swapped[1], case.pipeline.ops)), None) == swapped[0]
    share = measured.share_of(case, (other,)) if traits.is_map(other) else None
    evidence = {"other_op": other.name, "share_ratio": share}
    edits = (Edit(kind="swap", op=swapped[1].name),) if is_near else ()
    return measured.finding(cache, message, fix, evidence, is_warning=is_warning, edits=edits)
