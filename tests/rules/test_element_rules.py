"""Rules of elements: shapes, types, Python and decoding. When each fires, how loud, and when it is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cs_input_analyzer.records import Case, Component, Op, Training
from tests.builders import GIB, MIB, make_cluster, make_graph, make_plan
from tests.rules.lines import (
    NAMES,
    READ,
    Rows,
    batch,
    case_of,
    cost,
    judged,
    mapped,
    op,
    repeat,
    says,
    take,
)

BATCH, MAP = batch(), mapped()


def calling(*called: str) -> Op:
    """A map whose function calls these ops of TensorFlow."""
    return mapped(called)


def python(share: float | None = None, *, bottleneck: Any = None, **row: Any) -> Case:
    """A Python function and its row in the table of costs, where it takes this share."""
    rows = () if share is None else cost("map", share, **row)
    return case_of(NAMES, *READ, calling("EagerPyFunc", "Reshape"), BATCH, costs=rows, bottleneck=bottleneck)


def part(dtype: str, *shape: int | None, name: str = "x", kind: str = "tensor") -> Component:
    return Component(name=name, shape=shape, dtype=dtype, kind=kind)


def giving(*parts: Component, half: str | None = None) -> Case:
    """Batches of these components, for a model that computes in the type `half`."""
    return case_of(NAMES, *READ, BATCH, element_spec=parts, training=Training(half=half))


def batches(*after: Op, before: tuple[Op, ...] = (), kind: str = "Batch", code: str | None = None, spec: Any = None) -> Case:
    """Batches of which the last may be small, so that their first dimension is open."""
    made = op(kind, "batch", code=code, batch_size=32, drop_remainder=False)
    return case_of(NAMES, *READ, *before, made, *after, element_spec=spec or (part("float16", None, 224, 224, 3),))


def shaped(*shapes: tuple[int | None, ...] | None, dtype: str = "int32", kind: str = "tensor", ops: Any = (MAP, BATCH)) -> Case:
    parts = tuple(Component(name=f"x{number}", shape=shape, dtype=dtype, kind=kind) for number, shape in enumerate(shapes))
    return case_of(NAMES, *READ, *ops, element_spec=parts)


def of_a_library() -> Case:
    """Batches that a library's function makes, as Keras' readers of folders do."""
    case = batches()
    ops = tuple(replace(one, library_source="keras/utils.py:371") if one.name == "batch" else one for one in case.pipeline.ops)
    return replace(case, pipeline=replace(case.pipeline, ops=ops))


def zipped() -> Case:
    """Two datasets of batches beside each other, whose second dimension is open."""
    sides = [op("Batch", name, batch_size=32, drop_remainder=False) for name in ("batch", "batch_2")]
    first, second = (replace(side, inputs=(f"range{number}",)) for number, side in enumerate(sides))
    ops = (
        *(op("Range", "range0"), first, op("Range", "range1"), second),
        replace(op("Zip", "zip"), inputs=("batch", "batch_2")),
    )
    case = shaped((None, None))
    return replace(case, pipeline=replace(case.pipeline, ops=ops))


def array(size: int, plan: str = "1x1x1") -> Case:
    """An array of this size in the graph, on nodes of 1 GiB."""
    source = replace(NAMES, constant_bytes=size)
    return case_of(source, BATCH, plan=make_plan(plan), cluster=make_cluster(memory_bytes_per_node=GIB))


# `(x, None)`, as Keras takes it.
NOTHING = Component(name="y", shape=None, dtype="none", kind="none")
LABEL = part("int64", 32, name="label")
SINGLE = (part("float32", 32, 100, name="image"), part("int32", 32, name="label"))
HALF_BATCH = op("Batch", "short", batch_size=20, drop_remainder=False)
NO_CPU_SEEN = {"self_cpu_s_per_sample": None, "share_ratio": None}
CROPPED = calling("DecodeJpeg", "Slice")

ROWS: Rows = {
    # Python is as bad as it costs, and where that is not known as often as it is called.
    "python-in-pipeline": [
        (says("info", op="map", lacks=["sample", "%"], evidence={"python_ops": 1}), python()),
        (says("warning", message="for every sample (50 % of the CPU time)"), python(0.5)),
        ("", python(0.005)),
        # A generator of groups of 500 rows: what it costs is known, and how often it is called.
        (
            says("info", message="once in 500 samples (31 %", evidence={"calls_per_sample": 0.002}),
            python(0.31, elements_per_sample=0.002),
        ),
        ("warning", python(0.9, elements_per_sample=0.002)),
        ("info", python(0.5, bottleneck="storage latency")),  # what is short is something else
        (
            says("info", message="its calls mostly wait", lacks=["fewer CPUs"]),
            python(0.9, wait_s_per_sample=1.0, bottleneck=("fixed parallelism", "map")),
        ),
        (says("warning", fix="fewer CPUs"), python(0.5, bottleneck="Python (GIL)")),
        (says("warning", message="1,042", evidence={"ceiling_samples_per_s": 1_042.0}), python(bottleneck="Python (GIL)")),
        ("", python(0.0, elements_per_sample=0.0, **NO_CPU_SEEN)),  # before a full cache
        # Its work was not seen, and how often it is called is a guess.
        (
            says("info", lacks=["sample"], evidence={"calls_per_sample": None}),
            python(0.0, merged_into="unattributed", **NO_CPU_SEEN),
        ),
        ("", case_of(NAMES, *READ, calling("DecodeJpeg", "Cast"), BATCH)),
    ],
    # Bytes are counted for a sample and a second, and never made up; 16 bits are asked for where the model works in them.
    "wide-dtypes": [
        (
            says("warning", evidence={"saved_bytes_per_sample": 404, "bytes_per_sample": 808}, fix="image to float32"),
            giving(part("float64", 32, 100, name="image"), LABEL),
        ),
        *(
            (
                says("warning", evidence={"saved_bytes_per_sample": 604}, fix=f"image to {named}"),
                giving(part("float64", 32, 100, name="image"), LABEL, half=half),
            )
            for half, named in [("float16", "float16"), ("cbfloat16", "float16"), ("bfloat16", "bfloat16")]
        ),
        (says("info", evidence={"saved_bytes_per_sample": 4}), giving(part("float16", 32, 10, 10), LABEL)),
        (says(message="component 1 is int64", fix="component 1 to int32"), giving(part("int64", 32, name="1"))),
        ("", giving(part("float16", 32, 224, 224, 3), LABEL)),  # under a hundredth
        *(
            (says("info", evidence={"saved_bytes_per_sample": None}), giving(part("int64", 32, None, kind=kind)))
            for kind in ["ragged", "tensor"]
        ),
        *(
            (
                says("warning", edits=(), after=None, fix=fix, lacks=lacks, message="shrinks a sample from 404 B to 204 B"),
                giving(*SINGLE, half=half),
            )
            for half, fix, lacks in [
                ("float16", ("image to float16", "loss scaling"), ()),
                ("cbfloat16", ("image to float16", "loss scaling"), ()),
                ("bfloat16", "image to bfloat16", ("loss scaling",)),
            ]
        ),
        *(("", giving(part(dtype, 32, 100))) for dtype in ["float16", "float32", "int32", "bool", "string"]),
    ],
    # Images that keep their pixels, and what may be PNG, are right.
    "decode-then-crop": [
        (says("info", op="map"), case_of(NAMES, *READ, calling("DecodeJpeg", "CropAndResize"), BATCH)),
        (says("info", op="map"), case_of(NAMES, *READ, calling("DecodeJpeg"), calling("Slice", "RandomUniformInt"), BATCH)),
        ("warning", case_of(NAMES, *READ, CROPPED, BATCH, costs=cost("map", 0.6))),
        ("info", case_of(NAMES, *READ, CROPPED, BATCH, costs=cost("map", 0.6), bottleneck="storage bandwidth")),
        ("info", case_of(NAMES, *READ, CROPPED, BATCH, costs=cost("map", 0.3))),
        ("info", case_of(NAMES, *READ, calling(*CROPPED.function_ops, "AdjustHue"), BATCH, costs=cost("map", 0.6))),
        (  # only the innermost op counts
            says(op="map"),
            case_of(NAMES, replace(CROPPED, within="interleave"), replace(CROPPED, name="interleave", kind="Interleave"), BATCH),
        ),
        *(
            ("", case_of(NAMES, *READ, *maps, BATCH))
            for maps in [
                (calling("DecodeJpeg", "ResizeBilinear", "StridedSlice"),),
                (calling("DecodePng", "Slice"),),
                (calling("DecodeJpeg", "ResizeBilinear"), calling("Slice")),
                (calling("DecodeJpeg", "ResizeBilinear", "Slice"),),
                (calling("DecodeJpeg", "DecodeAndCropJpeg", "Slice"),),
                (calling("Slice"), calling("DecodeJpeg")),
                (calling("DecodeJpeg"), calling("Cast"), calling("Slice")),
                (replace(CROPPED, shared=("DecodeJpeg",)),),
            ]
        ),
    ],
    # Every kind of batch is looked at; where no batch is full nothing is dropped.
    "drop-remainder-missing": [
        *((says("warning", message="smaller"), batches(kind=kind)) for kind in ["Batch", "PaddedBatch", "MapAndBatch"]),
        (
            says("warning", after="ds = ds.batch(32, drop_remainder=True).prefetch(2)"),
            batches(code="ds = ds.batch(32).prefetch(2)"),
        ),
        # Behind an endless repeat all batches are full; a take, or a repeat behind the batch, leaves a last one.
        (says("info", message="all have 32", fix="drops nothing", lacks=["smaller"]), batches(before=(repeat(),))),
        (says("warning", message="smaller"), batches(before=(repeat(), take()))),
        (says("warning", message="smaller", fix="at the end of a pass"), batches(repeat())),
        (says("warning", fix="at the end of the last pass"), batches(before=(repeat(10),))),
        (says("warning", fix="batch_size=None in Keras"), of_a_library()),
        ("", batches(spec=make_graph().element_spec)),  # a map set the shape afterwards
        ("", case_of(NAMES, *READ, MAP, element_spec=(part("float16", None),))),  # nothing is batched
        ("", batches(BATCH)),
        ("", batches(spec=(part("float32"),))),
    ],
    # The batch dimension alone may be open; single samples have none to spare.
    "unknown-shapes": [
        (says(message="the shape of component 1 int32[32, ?]"), giving(part("int32", 32, None, name="1"))),
        *(
            (
                says("warning", message=told, evidence={"components": 1}),
                case_of(
                    NAMES, *READ, MAP, BATCH, element_spec=(part("int32", 32, 4), replace(part("int32", kind=kind), shape=shape))
                ),
            )
            for told, shape, kind in [
                ("[32, ?]", (32, None), "tensor"),
                ("rank unknown", None, "tensor"),
                ("ragged", (32, None), "ragged"),
                ("sparse", (32, 100), "sparse"),
            ]
        ),
        (says("warning", fix="ensure_shape"), shaped((None,), ops=(MAP,))),
        (says(fix="make it dense"), shaped((32, 4), kind="sparse")),
        (says(fix="output of the Python function"), shaped((32, None), ops=(calling("EagerPyFunc"), BATCH))),
        (
            says("warning", op="short", fix="drop_remainder"),
            shaped((4, None), ops=(MAP, HALF_BATCH, batch())),
        ),
        # Batches beside each other are no batches of batches.
        (says("warning", fix="ensure_shape", lacks=["drop_remainder"]), zipped()),
        ("", shaped((32, 128), (32,))),
        ("", shaped((None, 128), (None,))),
        ("", shaped((32, None), dtype="string")),
        ("", case_of(NAMES, *READ, BATCH, element_spec=(part("int32", 32, 128), NOTHING))),
        (
            says("warning", evidence={"components": 1}),
            case_of(NAMES, *READ, BATCH, element_spec=(part("int32", 32, None), NOTHING)),
        ),
        ("", shaped((), ops=(MAP,))),
    ],
    # An array in the graph is as bad as the part of a node that it takes, times the tasks.
    "arrays-in-graph": [
        ("info", array(40 * MIB)),
        ("warning", array(40 * MIB, "2x4x1")),
        ("", array(31 * MIB, "2x16x1")),
        ("", replace(array(GIB), pipeline=replace(make_graph(), ops=()))),
    ],
}

test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)
