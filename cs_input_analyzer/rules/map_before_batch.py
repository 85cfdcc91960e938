"""A `map` handles samples one by one although its function could handle a whole batch.

Calling a function costs tf.data some ten microseconds, as much as casting or scaling a small sample does. After `batch` the same
function is called once for all samples of a batch, and works on one large tensor instead of many small ones.

Fix: `batch` first, then `map`; `tf.io.parse_example` instead of `parse_single_example`. The analyzer proposes it where every
TensorFlow op of the function does to each number of a batch what it does to it alone (`cast`, arithmetic, comparisons,
`decode_raw`, looking up, parsing). Your function then gets tensors with one dimension more in front: `set_shape`, `ensure_shape`
and `x.shape` have to count it. So your code is shown changed only where the function is a lambda that has none of these.

Silent where anything else is called (decoding pictures, cropping, padding, random numbers: samples that differ in shape cannot be
handled together), for padded and ragged batches, for a map after the batch, and where the map takes under a twentieth of the CPU
time.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.op_traits import chain_before, cost_of, is_elementwise, is_map
from cs_input_analyzer.planning.evidence import bottleneck
from cs_input_analyzer.records import Case, Edit, Finding, Op

SMALL_RATIO = 0.05
# From this share of a full CPU on, and with calls this short, batching first is worth a warning.
LARGE_RATIO = 0.3
SHORT_CALL_S = 100e-6
# Below so many samples in a batch there is little to share a call among.
SMALL_BATCH = 8


def find(case: Case) -> Iterator[Finding]:
    ops = case.pipeline.ops
    for batch in ops:
        size = batch.parameters.get("batch_size")
        if batch.kind not in ("Batch", "ParallelBatch") or not isinstance(size, int) or size < SMALL_BATCH:
            continue
        op = next(iter(chain_before(batch, ops)), None)
        if op is None or not is_map(op) or not _matters(op, case):
            continue
        if is_elementwise(op):
            yield _finding(op, size, case)


def _matters(op: Op, case: Case) -> bool:
    cost = cost_of(op, case.profile)
    return cost is None or cost.share_ratio is None or cost.share_ratio >= SMALL_RATIO


def _finding(op: Op, size: int, case: Case) -> Finding:
    cost = cost_of(op, case.profile)
    is_short = cost is not None and cost.self_cpu_s_per_sample is not None and cost.self_cpu_s_per_sample < SHORT_CALL_S
    is_large = cost is not None and (cost.share_ratio or 0.0) >= LARGE_RATIO
    is_bound = bottleneck(case, ("CPU", "serial op")) is not None
    is_parsing = "ParseExampleV2" in op.function_ops
    how = "parse whole batches with tf.io.parse_example" if is_parsing else "do it once for a whole batch"
    return Finding(
        severity="warning" if is_short and is_large and is_bound else "info",
        message=f"{op.name} is called for each sample, {size} times for each batch, and could take the whole batch",
        op=op.name,
        evidence={
            "batch_size": size,
            "share_ratio": cost.share_ratio if cost else None,
            "cpu_s_per_sample": cost.self_cpu_s_per_sample if cost else None,
        },
        fix=f"{how}: batch before map, with one dimension more in every shape that the function names",
        edits=(Edit(kind="vectorize", op=op.name),),
    )
