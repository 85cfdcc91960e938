"""A `repeat` before `shuffle` lets passes run into one another.

The buffer then holds samples of two passes at a time, so some come twice before others come once, and nothing marks where a pass
ends. On the other hand the buffer is filled only once, and there is no gap between passes: some do it for that reason.

Fix: `shuffle` before `repeat`, if every pass is to hold each sample once. With `reshuffle_each_iteration` (the default) the order
is another in each pass. It is advice only, as the order of the elements changes.

Silent where `repeat` comes after `shuffle`, where names of files are repeated (which fills the readers as well, and is meant), for
a shuffle that comes after another one of samples, and in evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.edits.statement import moved_up
from cs_input_analyzer.pipeline.lineage import reads_names_only, upstream
from cs_input_analyzer.pipeline.op_kinds import SHUFFLES
from cs_input_analyzer.pipeline.op_traits import chain_before
from cs_input_analyzer.records import Case, Finding


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    if case.mode == "eval":
        return
    for shuffle in ops:
        if shuffle.kind not in SHUFFLES or shuffle.within is not None:
            continue
        earlier = upstream(shuffle, ops)
        if any(op.kind in SHUFFLES and not reads_names_only(op, ops) for op in earlier):
            continue
        repeat = next((op for op in reversed(earlier) if op.kind == "Repeat" and op.within is None), None)
        if repeat is None or (count := repeat.parameters.get("count")) in (0, 1) or reads_names_only(repeat, ops):
            continue
        is_near = next(iter(chain_before(shuffle, ops)), None) == repeat
        yield Finding(
            severity="info",
            message=f"{shuffle.name} comes after {repeat.name}, so it mixes samples of different passes",
            op=shuffle.name,
            evidence={"repeat": repeat.name, "count": count if isinstance(count, int) else None},
            fix="shuffle before repeat, if each pass is to hold every sample once",
            before=shuffle.code,
            after=moved_up(shuffle, ops) if is_near else None,
        )
