"""A `shard` comes after a shuffle without a seed, so the shards of the workers overlap and miss data.

`shard(n, i)` takes every n-th element of what it is given, and that must be the same sequence in every worker. `list_files`
shuffles unless `shuffle=False` is given, each process with a random seed of its own; every worker then divides another order.
With many workers, more than a third of the files (1 / e) are read by none in a pass, and others twice or more. Nothing fails; the
model trains on something else.

Fix: `list_files(pattern, shuffle=False)`, or the same `seed=` for all workers; or shard first and shuffle after it. Shuffling
what a worker reads, after its shard, needs no seed.

Silent where the shuffle has a seed (its own, or that of `tf.random.set_seed`), comes after the shard, and where only one worker
streams.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import upstream
from cs_input_analyzer.pipeline.op_kinds import SHUFFLES
from cs_input_analyzer.pipeline.source.code import argument_of, count_calls, with_argument
from cs_input_analyzer.records import Case, Finding, Op


def find(case: Case) -> Iterator[Finding]:
    if case.plan is not None and case.plan.input_workers < 2:
        return
    for shard in case.pipeline.ops:
        if shard.kind != "Shard":
            continue
        shuffle = next((op for op in upstream(shard, case.pipeline.ops) if _is_unseeded(op)), None)
        if shuffle is None:
            continue
        after = _seeded(shuffle)
        yield Finding(
            severity="warning",
            message="each worker takes its shard of an order of its own: the shards overlap and miss files",
            op=shuffle.name,
            evidence={"seed": None, "num_shards": _number(shard), "workers": case.plan.input_workers if case.plan else None},
            fix="list the files with shuffle=False, or with one seed for all workers, or shard before the shuffle",
            before=shuffle.code if after else None,
            after=after,
        )


def _is_unseeded(op: Op) -> bool:
    """TensorFlow writes a missing seed as the pair (0, 0)."""
    return op.kind in SHUFFLES and (op.parameters.get("seed"), op.parameters.get("seed2")) == (0, 0)


def _seeded(shuffle: Op) -> str | None:
    """The user's statement with a sorted list of files, or with a seed for the shuffle."""
    if count_calls(shuffle.code, "list_files"):
        return with_argument(shuffle.code, "list_files", "shuffle", "False")
    given = argument_of(shuffle.code, "shuffle", "seed")
    return with_argument(shuffle.code, "shuffle", "seed", "1") if given is None else None


def _number(shard: Op) -> int | None:
    number = shard.parameters.get("num_shards")
    return number if isinstance(number, int) else None
