"""A `cache` keeps what a random augmentation made, so it is random once and then the same for ever.

From the second pass on the cache gives the elements of the first: every crop, flip and distortion is repeated exactly. The network
sees each picture in one version only, which is what augmentation is to prevent. Nothing fails and nothing is slower.

Fix: `cache` before the random `map`. What is costly and always the same (parsing, decoding) goes before the cache, in a map of its
own. It is advice only: the fixed pipeline gives other elements, and is meant to.

Silent in evaluation, where nothing before the cache draws random numbers, and for a shuffle of file names. Where the numbers come
from seeds (`tf.random.stateless_…`), or a shuffle of samples stands before the cache, it is for your information.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.edits.statement import moved_up
from cs_input_analyzer.pipeline.lineage import reads_names_only, upstream
from cs_input_analyzer.pipeline.op_kinds import SHUFFLES
from cs_input_analyzer.pipeline.op_traits import chain_before, decodes, draws_by_seed, draws_random_numbers
from cs_input_analyzer.records import Case, Finding, Op


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    if case.mode == "eval":
        return
    for cache in ops:
        if cache.kind not in ("Cache", "Snapshot"):
            continue
        frozen = upstream(cache, ops)
        drawn = next((op for op in frozen if draws_random_numbers(op)), None)
        by_seed = next((op for op in frozen if draws_by_seed(op)), None)
        shuffle = next((op for op in frozen if op.kind in SHUFFLES and not reads_names_only(op, ops)), None)
        if drawn is not None:
            yield _finding(cache, drawn, case, is_certain=True)
        elif by_seed is not None:
            yield _finding(cache, by_seed, case, is_certain=False)
        elif shuffle is not None and not _is_shuffled_again(cache, case):
            yield Finding(
                severity="info",
                message=f"{cache.name} keeps the order that {shuffle.name} gave in the first pass: every pass has that same order",
                op=cache.name,
                evidence={"shuffle": shuffle.name},
                fix="put the cache before the shuffle",
                before=cache.code,
                after=_put_before(shuffle, cache, ops),
            )


def _finding(cache: Op, random: Op, case: Case, *, is_certain: bool) -> Finding:
    holder = next((op for op in case.pipeline.ops if op.name == random.within), None)
    split = " and split the decoding from what is random" if decodes(random) else ""
    what = "draws" if is_certain else "draws by seed, if its seeds differ between passes,"
    return Finding(
        severity="warning" if is_certain else "info",
        message=f"{cache.name} keeps what {random.name} {what} in the first pass: later passes repeat it exactly",
        op=cache.name,
        evidence={"random_op": random.name, "within": holder.name if holder else None},
        fix=f"put the cache before {random.name}{split}",
        before=cache.code,
        after=_put_before(random, cache, case.pipeline.ops),
    )


def _put_before(random: Op, cache: Op, ops: tuple[Op, ...]) -> str | None:
    """The cache before what is random, where nothing else lies between."""
    return moved_up(cache, ops) if chain_before(cache, ops)[:1] == (random,) else None


def _is_shuffled_again(cache: Op, case: Case) -> bool:
    ops = case.pipeline.ops
    return any(op.kind in SHUFFLES and cache in upstream(op, ops) for op in ops)
