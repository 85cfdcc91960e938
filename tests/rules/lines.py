"""Pipelines for the tests of rules: a few ops in a row, and a case around them in which nothing was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer import rules
from cs_input_analyzer.records import Case, Edit, Finding, Measurement, Op, OpCost, PipelineGraph, Station
from tests.builders import (
    GIB,
    make_case,
    make_cluster,
    make_files,
    make_graph,
    make_measurement,
    make_op,
    make_op_cost,
    make_plan,
    make_profile,
    make_station,
    make_storage,
    make_worker,
)

JPEG = ("Cast", "DecodeJpeg", "ParseExampleV2", "ResizeBilinear")
RANDOM = ("RandomUniform", "ReverseV2")
CAST = ("Cast", "RealDiv")
PARSE = ("ParseExampleV2",)


def op(
    kind: str, name: str, functions: tuple[str, ...] = (), code: str | None = None, within: str | None = None, **parameters: Any
) -> Op:
    """One op; `functions` are the TensorFlow ops that its function calls."""
    return make_op(name, kind=kind, name=name, function_ops=functions, code=code, within=within, parameters=parameters)


def line(*ops: Op) -> tuple[Op, ...]:
    """The ops as a pipeline: each at the top reads from the one before it; a second one of a name gets a number."""
    found: list[Op] = []
    previous: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    for one in ops:
        counts[one.name] = counts.get(one.name, 0) + 1
        name = one.name if counts[one.name] == 1 else f"{one.name}_{counts[one.name]}"
        found.append(replace(one, name=name, inputs=() if one.within else previous))
        previous = previous if one.within else (name,)
    return tuple(found)


def reading(kind: str = "ParallelInterleave", code: str | None = None, **parameters: Any) -> tuple[Op, ...]:
    """File names, and an op that reads them; TensorFlow puts a flat_map of its own round a reader."""
    name = "flat_map" if kind == "FlatMap" else "interleave"
    inner = "flat_map_2" if kind == "FlatMap" else "flat_map"
    if kind == "ParallelInterleave":
        parameters = {"cycle_length": 4, "num_parallel_calls": "AUTOTUNE", "deterministic": "false", **parameters}
    return (
        op("TensorSlice", "from_tensor_slices"),
        op("TFRecord", "TFRecordDataset", within=inner),
        op("FlatMap", inner, within=name),
        op(kind, name, code=code, **parameters),
    )


NAMES, *READ = reading()
GENERATOR = (op("Generator", "from_generator", within="flat_map"), op("FlatMap", "flat_map"))


def mapped(functions: tuple[str, ...] = CAST, kind: str = "ParallelMap", code: str | None = None, **parameters: Any) -> Op:
    if kind == "ParallelMap":
        parameters = {"num_parallel_calls": "AUTOTUNE", "deterministic": "default", **parameters}
    return op(kind, "map", functions, code, **parameters)


def shuffle(buffer_size: int = 2560, *, seed: int = 7) -> Op:
    return op("Shuffle", "shuffle", buffer_size=buffer_size, seed=seed, seed2=seed)


def batch(size: int = 256, kind: str = "Batch", code: str | None = None) -> Op:
    return op(kind, "batch", code=code, batch_size=size, drop_remainder=True)


def repeat(count: int = -1, code: str | None = None) -> Op:
    return op("Repeat", "repeat", code=code, count=count)


def cache(code: str | None = None) -> Op:
    return op("Cache", "cache", code=code, filename="")


def prefetch(buffer_size: int | str = "AUTOTUNE") -> Op:
    return op("Prefetch", "prefetch", buffer_size=buffer_size)


def options(**said: Any) -> Op:
    return op("Options", "with_options", **{name.replace("__", "."): value for name, value in said.items()})


def filtered(functions: tuple[str, ...] = ("Less",), code: str | None = None) -> Op:
    return op("Filter", "filter", functions, code)


def take(count: int = 100) -> Op:
    return op("Take", "take", count=count)


def skip(count: int) -> Op:
    return op("Skip", "skip", count=count)


def shard(count: int = 16) -> Op:
    return op("Shard", "shard", num_shards=count, index=0)


def stations(*known: tuple[str, str | None, float, float]) -> tuple[Station, ...]:
    """Stations by kind, op, the rate that each alone would allow, and its utilization; the bottleneck first."""
    return tuple(
        make_station(kind, op=name, samples_per_s=rate, utilization_ratio=utilization) for kind, name, rate, utilization in known
    )


def case_of(
    *ops: Op,
    costs: OpCost | Sequence[OpCost] = (),
    bottleneck: str | tuple[str, str | None] | None = None,
    worker: Mapping[str, Any] | None = None,
    **overrides: Any,
) -> Case:
    """A case of these ops that 1,024 files of 1 GiB together feed; nothing was measured but two layouts of up to two CPUs.

    Args:
        costs: rows of the table of costs.
        bottleneck: the kind of the station that holds the worker back, or the kind and its op.
        worker: what is known of the one worker that was measured, on two CPUs.
        overrides: fields of the case, or of its pipeline.
    """
    read: dict[str, Any] = {"files": make_files(count=1024, bytes=GIB), "is_infinite": True}
    read |= {name: overrides.pop(name) for name in ("files", "element_spec", "input_context", "is_infinite") if name in overrides}
    if isinstance(read["files"], int):
        read["files"] = make_files(count=read["files"], bytes=GIB)
    rows = (costs,) if isinstance(costs, OpCost) else tuple(costs)
    kind, held = (bottleneck, None) if isinstance(bottleneck, str) else bottleneck or (None, None)
    settings: dict[str, Any] = {
        "pipeline": make_graph(ops=line(*ops), **read),
        "measurements": (make_measurement("1x1x2"),) if worker is None else alone(**worker),
        "profile": make_profile(ops=rows) if rows else None,
        "stations": stations((kind, held, 1042.0, 0.95)) if kind is not None else (),
        "plan": None,
        "cluster": make_cluster(memory_bytes_per_node=128 * GIB),
    }
    return make_case(**(settings | overrides))


def batched(*ops: Op, **known: Any) -> Case:
    """The readers, these ops, a batch of 256 and a prefetch."""
    return case_of(*reading(), *ops, batch(), prefetch(), **known)


def unmeasured(pipeline: PipelineGraph) -> Case:
    """Nothing but the graph is known, and that a task had two CPUs."""
    launches = alone(bytes_read_per_sample=None, first_batch_s=None, steady_state=None)
    return make_case(pipeline=pipeline, measurements=launches, profile=None, plan=None, cluster=make_cluster())


def alone(rate: float = 1000.0, layout: str = "1x1x2", **known: Any) -> tuple[Measurement, ...]:
    """The launch of one worker of which this is known."""
    return (make_measurement(layout, workers=(make_worker(rate, **known),)),)


def with_worker(case: Case, **known: Any) -> Case:
    """The case with more known of its one worker."""
    (launch,) = case.measurements
    return replace(case, measurements=(replace(launch, workers=(replace(launch.workers[0], **known),)),))


def placed(directory: str, is_shared: bool | None = False, *, nodes: int = 1, file_system: str = "ext4") -> Case:
    """Files in this folder, and a plan for nodes that Slurm told of."""
    return make_case(
        pipeline=make_graph(files=make_files(directory=directory)),
        storage=make_storage(directory=directory, is_shared=is_shared, file_system=file_system),
        plan=make_plan(f"{nodes}x4x2"),
        cluster=make_cluster(source="Slurm: partition cpu"),
    )


def measured(case: Case, *costs: OpCost, stations: tuple[Station, ...] = ()) -> Case:
    return replace(case, profile=make_profile(ops=costs), stations=stations)


def cost(name: str, share: float, **overrides: Any) -> OpCost:
    """A row: one element of 100 kB for each sample, no waiting."""
    settings: dict[str, Any] = {
        "share_ratio": share,
        "self_cpu_s_per_sample": share * 1e-3,
        "wait_s_per_sample": 0.0,
        "elements_per_sample": 1.0,
        "bytes_in_per_sample": 100e3,
        "bytes_out_per_sample": 100e3,
        "parallelism": None,
    }
    return make_op_cost(name, **(settings | overrides))


def found(name: str, case: Case) -> list[Finding]:
    """What the rule of this name finds."""
    (rule,) = (rule for rule in rules.RULES if rule.name == name)
    findings = rules.findings_of(rule, case)
    for finding in findings:
        assert finding.message
        assert finding.after is None or finding.after != finding.before
    return findings


def only(rule: str, case: Case) -> Finding:
    (finding,) = found(rule, case)
    return finding


def edits(*changes: tuple[Any, ...]) -> tuple[Edit, ...]:
    """Edits by kind, op and value."""
    return tuple(Edit(kind=kind, op=name, value=(*value, None)[0]) for kind, name, *value in changes)


# Severities of all findings ("" is silence), or what the only one says.
Expected = str | dict[str, Any]
Rows = Mapping[str, Sequence[tuple[Expected, Case]]]


def says(severity: str | None = None, **wanted: Any) -> dict[str, Any]:
    """One finding with these fields; `message` and `fix` hold the given part, or all of several, neither has one of `lacks`, and
    `evidence` has these entries."""
    return wanted if severity is None else {"severity": severity, **wanted}


def check(rule: str, case: Case, expected: Expected) -> None:
    """The rule finds in the case what is expected."""
    if isinstance(expected, str):
        assert [finding.severity for finding in found(rule, case)] == expected.split()
        return
    finding = only(rule, case)
    for name, wanted in expected.items():
        if name in ("message", "fix"):
            for part in (wanted,) if isinstance(wanted, str) else wanted:
                assert part in (getattr(finding, name) or "")
        elif name == "lacks":
            assert not any(part in f"{finding.message} {finding.fix}" for part in wanted)
        elif name == "evidence":
            assert {key: finding.evidence[key] for key in wanted} == pytest.approx(wanted)
        else:
            assert getattr(finding, name) == wanted, finding


def judged(rows: Rows) -> Callable[..., None]:
    """A test of each row."""

    @pytest.mark.parametrize(
        ("rule", "case", "expected"), [(rule, case, said) for rule, all_ in rows.items() for said, case in all_]
    )
    def test(rule: str, case: Case, expected: Expected) -> None:
        check(rule, case, expected)

    return test
