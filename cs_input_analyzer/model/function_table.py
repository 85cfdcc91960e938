"""The function table of an input function: the recommended functions, whether it has them, and their values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from cs_input_analyzer.records import Finding, FunctionUse, Op, PipelineGraph, Scalar
from cs_input_analyzer.tfdata.lineage import deals_out_files, reads_names_only
from cs_input_analyzer.tfdata.op_kinds import BATCHING, INTERLEAVES, KEEPERS, MAPS, REPEATS, SHUFFLES
from cs_input_analyzer.tfdata.op_traits import option

_Fits = Callable[[Op, Sequence[Op]], bool]


def _of(*kinds: Collection[str]) -> _Fits:
    wanted = frozenset().union(*kinds)
    return lambda op, ops: op.kind in wanted


# Function -> which ops are it, their parameters to show, and the rules whose fixes are advice about it.
_FUNCTIONS: Mapping[str, tuple[_Fits, tuple[str, ...], tuple[str, ...]]] = {
    "file shuffle": (lambda op, ops: op.kind in SHUFFLES and reads_names_only(op, ops), ("buffer_size", "seed"), ("CSI304",)),
    "shard": (_of({"Shard"}), ("num_shards", "index"), ("CSI303", "CSI305", "CSI301", "CSI312")),
    "interleave": (_of(INTERLEAVES), ("cycle_length", "block_length", "num_parallel_calls"), ("CSI103", "CSI104", "CSI105")),
    "map": (_of(MAPS, {"ParseExample", "MapAndBatch"}), ("num_parallel_calls",), ("CSI101", "CSI102", "CSI106")),
    "cache": (_of(KEEPERS), ("filename",), ("CSI202", "CSI204", "CSI205", "CSI311")),
    "shuffle": (
        lambda op, ops: op.kind in SHUFFLES and not reads_names_only(op, ops),
        ("buffer_size", "seed"),
        ("CSI212", "CSI206", "CSI207", "CSI208", "CSI209"),
    ),
    "repeat": (_of(REPEATS), ("count",), ("CSI302", "CSI210")),
    "batch": (_of(BATCHING), ("batch_size", "drop_remainder"), ("CSI307",)),
    "prefetch": (_of({"Prefetch"}), ("buffer_size",), ("CSI201", "CSI213")),
}


def function_table(pipeline: PipelineGraph, findings: Sequence[Finding], *, is_sharded: bool = False) -> tuple[FunctionUse, ...]:
    """Return a row for each function, in the order in which a pipeline has them.

    `advised` is empty if there is nothing to change.

    `is_sharded`: workers read their own files, also if Python code or `tf.distribute` divides them and no `shard` does.
    """
    rows = [_use(name, pipeline.ops, findings) for name in _FUNCTIONS]
    if is_sharded and not any(op.kind == "Shard" for op in pipeline.ops):
        where = "auto_shard_policy" if deals_out_files(pipeline.ops) else "in Python code"
        rows = [replace(row, is_set=True, value=where) if row.name == "shard" else row for row in rows]
    return (*rows, _deterministic(pipeline.ops, findings))


def _use(name: str, ops: Sequence[Op], findings: Sequence[Finding]) -> FunctionUse:
    fits, parameters, codes = _FUNCTIONS[name]
    used = [op for op in ops if fits(op, ops)]
    values = list(dict.fromkeys(text for op in used if (text := _values(op, parameters))))
    return FunctionUse(
        name=name,
        is_set=bool(used),
        value="; ".join(values),
        advised=_advised(codes, findings),
        source=next((op.source for op in used if op.source), None),
    )


def _values(op: Op, parameters: Sequence[str]) -> str:
    shown = [(name, op.parameters.get(name)) for name in parameters]
    return ", ".join(f"{name} {_text(name, value)}" for name, value in shown if value is not None)


def _text(name: str, value: Scalar | tuple[Scalar, ...]) -> str:
    if name == "filename":
        return str(value) or "in memory"
    return "without end" if name == "count" and value == -1 else str(value)


def _advised(codes: Sequence[str], findings: Sequence[Finding]) -> str:
    """Return the fix of the first of these rules that found something, by the order in which findings are shown."""
    return next((f"{found.fix} ({found.code})" for found in findings if found.code in codes and found.fix), "")


def _deterministic(ops: Sequence[Op], findings: Sequence[Finding]) -> FunctionUse:
    """`deterministic=False`, of an op or of all: results are handed over as they become ready."""
    free = [op for op in ops if op.parameters.get("deterministic") == "false" or op.parameters.get("sloppy") is True]
    asked = [op for op in ops if op.parameters.get("deterministic") == "true"]
    of_all = option(ops, "deterministic")
    value = "True" if asked else "False" if free else "" if of_all is None else str(of_all)
    named = next(iter(asked or free), None)
    return FunctionUse(
        name="deterministic",
        is_set=bool(value),
        value=value or "True by default",
        advised=_advised(("CSI107", "CSI110"), findings),
        source=named.source if named is not None else None,
    )
