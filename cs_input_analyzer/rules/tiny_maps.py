"""Several small `map`s in a row, each for every single sample.

Each of them costs a call, an element's worth of memory and a hand-over, some microseconds whatever it does. TensorFlow does not put
maps together by itself. Three of them that only rename, cast or scale cost three times what one function with all of it costs.

Fix: one function that does it all, in one `map`; after `batch` where it can.

Silent for fewer than three in a row, where one of them does real work (by its measured time, or by what it calls), and after
`batch`, where a call serves many samples.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.op_traits import chain_before, cost_of, is_costly, is_map
from cs_input_analyzer.pipeline.samples import samples_reaching
from cs_input_analyzer.planning.evidence import share_of
from cs_input_analyzer.records import Case, Finding, Op

MANY = 3
# Being called costs a map 10 to 40 µs here, the more the busier the host; one that takes less than this does little else.
TINY_S = 60e-6
LARGE_RATIO = 0.25


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    seen: set[str] = set()
    for op in reversed(ops):
        if op.name in seen or not _is_tiny(op, case):
            continue
        run = [op]
        for other in chain_before(op, ops):
            if not _is_tiny(other, case):
                break
            run.append(other)
        seen |= {one.name for one in run}
        if len(run) < MANY or samples_reaching(run[-1], ops) != 1:
            continue
        first, share = run[-1], share_of(case, run)
        yield Finding(
            severity="warning" if share is not None and share >= LARGE_RATIO else "info",
            message=f"{len(run)} small maps in a row ({', '.join(one.name for one in reversed(run))}) are called for each sample",
            op=first.name,
            evidence={"maps": len(run), "share_ratio": share},
            fix="do it all in one function and one map",
        )


def _is_tiny(op: Op, case: Case) -> bool:
    if not is_map(op):
        return False
    cost = cost_of(op, case.profile)
    if cost is None or cost.self_cpu_s_per_sample is None:
        return not is_costly(op)
    return cost.self_cpu_s_per_sample < TINY_S
