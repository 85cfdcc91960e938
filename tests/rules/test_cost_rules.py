"""Cost of ops and bytes: when each rule fires, how loud, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from builders import (
    make_case,
    make_cluster,
    make_files,
    make_graph,
    make_layout,
    make_measurement,
    make_op,
    make_op_cost,
    make_plan,
    make_profile,
    make_read_rate,
    make_station,
    make_storage,
)
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Case, Component, Edit, Op, Training
from cs_input_analyzer.rules.elements import decode_then_crop, python_in_pipeline, wide_dtypes
from cs_input_analyzer.rules.files import compression_tradeoff, file_count_extreme
from cs_input_analyzer.rules.memory import arrays_in_graph
from cs_input_analyzer.rules.readers import read_buffer_size
from cs_input_analyzer.rules.threads import starved_threads
from tests.rules.lines import Expected, Rows, Rule, check, found, judged, line, says

KIB, MIB, GIB = 2**10, 2**20, 2**30


def case_of(*ops: Op, **overrides: Any) -> Case:
    """Each op reads from the one before it, nested ones (`within`) left out; nothing is measured."""
    pipeline = {name: overrides.pop(name) for name in ("files", "element_spec") if name in overrides}
    return make_case(pipeline=make_graph(ops=line(*ops), **pipeline), **({"profile": None, "plan": None} | overrides))


def profile_with(name: str, share: float | None, **row: Any) -> Any:
    return make_profile(ops=(make_op_cost(name, share_ratio=share, **row),))


def busy(kind: str, utilization: float = 0.97, **overrides: Any) -> tuple[Any, ...]:
    return (make_station(kind, utilization_ratio=utilization, **overrides),)


NAMES = make_op("from_tensor_slices", kind="TensorSlice", parameters={})
INTERLEAVE = make_op("interleave", function_ops=("TFRecordDataset",))
MAP, BATCH = make_op("map"), make_op("batch")


def calling(*called: str, name: str = "map") -> Op:
    return make_op("map", name=name, function_ops=called)


def reading(compression: str = "", *more: Op, buffer: int | str = "AUTOTUNE", code: str | None = None, **overrides: Any) -> Case:
    """Files that an interleave reads."""
    parameters = {"compression_type": compression, "buffer_size": buffer}
    reader = make_op("TFRecordDataset", kind="TFRecord", within="interleave", parameters=parameters, code=code)
    return case_of(NAMES, reader, INTERLEAVE, *more, **overrides)


PYTHON = calling("EagerPyFunc", "Reshape")
GENERATOR = (
    make_op("from_generator", kind="Generator", within="flat_map", parameters={}, function_ops=("PyFunc",)),
    make_op("flat_map", kind="FlatMap", parameters={}, function_ops=("GeneratorDataset", "PyFunc")),
)


def python(share: float | None = None, *, stations: tuple[Any, ...] = (), **row: Any) -> Case:
    """A function in Python that is called for every sample, and its row in the table of costs."""
    is_measured = share is not None or row
    profile = profile_with("map", share, **row) if is_measured else None
    return reading("", PYTHON, BATCH, profile=profile, stations=stations)


def part(dtype: str, *shape: int | None, name: str = "x", kind: str = "tensor") -> Component:
    return Component(name=name, shape=shape, dtype=dtype, kind=kind)


def giving(*parts: Component, half: str | None = None, **overrides: Any) -> Case:
    return case_of(NAMES, BATCH, element_spec=parts, training=Training(half=half), **overrides)


LABEL = part("int64", 32, name="label")
SINGLE = (part("float32", 32, 100, name="image"), part("int32", 32, name="label"))
NETWORK = {"network_samples_per_s": 12.5e9 / 404, "network_samples_per_s_after": 12.5e9 / 204}


@given(
    st.lists(
        st.tuples(st.sampled_from(["float64", "int64", "uint64", "float32", "int32", "uint8"]), st.integers(1, 50)),
        min_size=1,
        max_size=4,
    )
)
def test_never_more_is_saved_than_there_is(parts: list[tuple[str, int]]) -> None:
    spec = tuple(part(dtype, size) for dtype, size in parts)
    findings = found(wide_dtypes, case_of(NAMES, element_spec=spec))
    assert bool(findings) is any(dtype.endswith("64") for dtype, _ in parts)
    for finding in findings:
        saved, whole = finding.evidence["saved_bytes_per_sample"], finding.evidence["bytes_per_sample"]
        assert isinstance(saved, float)
        assert isinstance(whole, float)
        assert 0 < saved < whole


CPU_BOUND = {"stations": busy("CPU"), "profile": profile_with("TFRecordDataset", 0.4)}
SLOW_STORAGE = {"stations": busy("storage bandwidth")}
JPEG, CROPPED = calling("DecodeJpeg"), calling("DecodeJpeg", "Slice")


def files(count: int, mean: float, **overrides: Any) -> Case:
    held = make_files(count=count, bytes=int(count * mean), largest_bytes=int(mean), smallest_bytes=int(mean))
    return reading(files=held, **({"is_sharded": False} | overrides))


SLOW = make_storage(reads=(make_read_rate(1, latency_s=0.02, bytes_per_s=100e6),))
WAITING = {"storage": SLOW, "stations": busy("storage latency")}
SLOW_AND_NARROW = make_storage(reads=(make_read_rate(1, latency_s=0.02, bytes_per_s=10e6),))  # 1 MiB would do
SMALL_FILES = make_files(count=100, bytes=100 * 200 * KIB)  # each in one read
READ = "ds = names.interleave(lambda n: tf.data.TFRecordDataset(n, buffer_size=4096))"


def buffered(severity: str, better: int) -> Expected:
    return says(severity, edits=(Edit(kind="set-buffer", op="TFRecordDataset", value=better),))


POOL, INTRA_OP = "threading.private_threadpool_size", "threading.max_intra_op_parallelism"


def threads(name: str, number: int | bool, *others: Op, tasks: str | None = None, **overrides: Any) -> Case:
    limited = make_op("with_options", kind="Options", parameters={name: number})
    return case_of(NAMES, *others, limited, plan=make_plan(tasks) if tasks else None, **overrides)


def one_thread(idle_cpus: float) -> Case:
    serial = make_station("serial op", op="map", utilization_ratio=0.95)
    cpu = make_station("CPU", layout=make_layout("1x1x4"), utilization_ratio=1 - idle_cpus / 4)
    return threads(INTRA_OP, 1, MAP, stations=(serial, cpu))


def with_calls(calls: int) -> Op:
    return make_op("map", parameters={"num_parallel_calls": calls})


def holding(size: int, layout: str = "1x1x1") -> Case:
    source = replace(NAMES, constant_bytes=size)
    return case_of(source, BATCH, plan=make_plan(layout), cluster=make_cluster(memory_bytes_per_node=GIB))


ROWS: Rows = {
    # Python is as bad as it costs, and where that is not known as often as it is called.
    python_in_pipeline: [
        (says("warning", op="map", message="sample"), python()),
        (says("warning", op="map", message="sample"), python(0.5)),
        (
            says(message="1,234", evidence={"ceiling_samples_per_s": 1_234.0}),
            python(stations=busy("Python (GIL)", samples_per_s=1_234.0)),
        ),
        ("", python(0.005)),
        ("", python(elements_per_sample=0.0)),  # before a full cache
        (says(message="for every sample,"), python(0.5, elements_per_sample=1.0)),
        (says(message="for every batch,"), python(0.5, elements_per_sample=1 / 35)),  # a file of 35 samples may be one call
        (says(message="for every sample,"), python(0.5, elements_per_sample=35.0)),
        *(
            (says(evidence={"python_ops": 2}), case_of(NAMES, PYTHON, calling(kind, name="map_2")))
            for kind in ["PyFunc", "EagerPyFunc", "PyFuncStateless"]
        ),
        (says(op="from_generator"), case_of(NAMES, *GENERATOR, BATCH)),
        ("", reading("", BATCH)),
        ("", case_of(NAMES, calling("DecodeJpeg", "Cast"), BATCH)),
        ("", case_of()),
    ],
    # Bytes are counted for a sample and a second, and never made up; 16 bits are asked for where the model works in them.
    wide_dtypes: [
        (
            says("warning", evidence={"saved_bytes_per_sample": 604, "bytes_per_sample": 808, "saved_bytes_per_s": 604 * 14_500.0}),
            giving(part("float64", 32, 100, name="image"), LABEL, plan=make_plan()),
        ),
        (says("info", evidence={"saved_bytes_per_sample": 4}), giving(part("float16", 32, 10, 10), LABEL)),
        ("", giving(part("float16", 32, 224, 224, 3), LABEL)),
        *(
            (
                says("info", evidence={"saved_bytes_per_sample": None, "saved_bytes_per_s": None}),
                giving(part("int64", 32, None, kind=kind)),
            )
            for kind in ["ragged", "sparse"]
        ),
        *(
            (
                says("warning", edits=(), after=None, fix=fix, lacks=lacks, evidence=NETWORK)
                | says(message="404 B a sample, 204 B after the cast"),
                giving(*SINGLE, half=half),
            )
            for half, fix, lacks in [
                ("float16", ("image to float16", "loss scaling"), ()),
                ("cbfloat16", ("image to float16", "loss scaling"), ()),
                ("bfloat16", "image to bfloat16", ("loss scaling",)),
            ]
        ),
        *(("", giving(part(dtype, 32, 100), half="float16")) for dtype in ["float16", "bfloat16", "int32", "uint8"]),
        *(("", giving(part(dtype, 32, 100))) for dtype in ["float16", "bfloat16", "float32", "int32", "uint8", "bool", "string"]),
    ],
    # Images that keep their pixels, and what may be PNG, are right.
    decode_then_crop: [
        (says("info", op="map"), case_of(NAMES, calling("DecodeJpeg", "Slice", "Cast"), BATCH)),
        (says("info", op="map"), case_of(NAMES, calling("DecodeJpeg", "CropAndResize"), BATCH)),
        (says("info", op="map"), case_of(NAMES, JPEG, calling("Slice", "RandomUniformInt", name="map_2"), BATCH)),
        ("warning", case_of(NAMES, CROPPED, BATCH, profile=profile_with("map", 0.6))),
        ("info", case_of(NAMES, CROPPED, BATCH, profile=profile_with("map", 0.3))),
        (
            says(op="map"),
            case_of(NAMES, replace(CROPPED, within="interleave"), replace(CROPPED, name="interleave", kind="Interleave"), BATCH),
        ),
        ("", case_of(NAMES, calling("DecodeJpeg", "ResizeBilinear", "StridedSlice"), BATCH)),
        ("", case_of(NAMES, calling("DecodePng", "Slice"), BATCH)),
        ("", case_of(NAMES, calling("DecodeImage", "CropAndResize"), BATCH)),
        ("", case_of(NAMES, calling("Slice"), calling("DecodeJpeg", name="map_2"), BATCH)),
        ("", case_of(NAMES, JPEG, calling("Cast", name="map_2"), calling("Slice", name="map_3"))),
        ("", case_of(NAMES, BATCH)),
    ],
    # Compression is told where it costs what is short, and for information where that was not measured.
    compression_tradeoff: [
        (says("warning", evidence={"compression_type": "GZIP"}), reading("GZIP", **CPU_BOUND)),
        (says("warning", evidence={"compression_type": "ZLIB"}), reading("ZLIB", **CPU_BOUND)),
        ("info", reading("GZIP", JPEG, profile=profile_with("TFRecordDataset", 0.05))),  # packed twice, whatever it costs
        (says("info", evidence={"is_storage_the_bottleneck": True}), reading(**SLOW_STORAGE)),
        ("info", reading("GZIP")),
        ("info", reading("GZIP", **CPU_BOUND | {"stations": busy("CPU", 0.5)})),
        ("", reading(**CPU_BOUND)),
        ("", reading("", JPEG, **SLOW_STORAGE)),
        ("", reading(stations=busy("storage bandwidth", 0.5))),
        ("", reading("GZIP", profile=profile_with("TFRecordDataset", 0.4), **SLOW_STORAGE)),
        ("", reading("GZIP", stations=busy("CPU"), profile=profile_with("TFRecordDataset", 0.1))),
        ("", case_of(NAMES, BATCH)),
    ],
    # Files are as bad as reading was measured to be.
    file_count_extreme: [
        (says("warning", fix=f"{-(-50_000 * 20 * KIB // (128 * MIB))} files"), files(50_000, 20 * KIB)),
        (  # 3 ms for the first byte, 1 ms for the rest
            says(evidence={"waiting_ratio": 0.75}),
            files(5_000, 100e3, storage=make_storage(reads=(make_read_rate(1, latency_s=0.003, bytes_per_s=100e6),))),
        ),
        ("info", files(50_000, 500 * KIB)),
        ("info", files(50_000, 20 * KIB, stations=busy("CPU"))),
        ("info", files(1, 3 * GIB)),
        ("", files(16, 20 * KIB)),  # a small dataset
        ("", files(1, 20 * MIB)),
        ("", files(5_000, 2 * MIB)),
        ("", files(1, 3 * GIB, is_sharded=True, plan=make_plan(input_workers=8))),  # CSI301 tells
        ("", make_case(pipeline=make_graph(files=None))),
    ],
    # A small buffer is as bad as reading is slow; a better one covers twice the latency, 2 x 20 ms x 100 MB/s.
    read_buffer_size: [
        (buffered("warning", 256 * KIB), reading(buffer=256)),
        (buffered("warning", 256 * KIB), reading(buffer=0)),
        (buffered("info", 256 * KIB), reading(buffer=16 * KIB)),
        (buffered("warning", 256 * KIB), reading(buffer=16 * KIB, stations=busy("readers"))),
        (buffered("warning", 4 * MIB), reading(buffer=256 * KIB, **WAITING)),
        (buffered("warning", 4 * MIB), reading(**WAITING)),
        (says(after=READ.replace("4096", "4 << 20")), reading(buffer=4096, code=READ, **WAITING)),
        (says(after=READ.replace("4096", "256 << 10")), reading(buffer=4096, code=READ)),
        ("", reading(buffer=64 * KIB)),
        ("", reading(buffer=8 * MIB, **WAITING)),
        ("", reading(storage=SLOW, stations=busy("CPU"))),
        ("", reading(storage=make_storage(), stations=busy("readers"))),
        ("", case_of(NAMES, make_op("prefetch", parameters={"buffer_size": 1}))),
        ("", reading(stations=busy("readers"))),  # latency unknown
        ("", reading(files=SMALL_FILES, **WAITING)),
        ("", reading(buffer=2 * MIB, storage=SLOW_AND_NARROW, stations=busy("storage latency"))),
    ],
    # A pool is compared with the CPUs of a task and with the calls that the code asks for.
    starved_threads: [
        (says("warning", edits=(Edit(kind="use-private-threads", op="with_options", value=4),)), threads(POOL, 1, tasks="2x16x4")),
        (  # the plan has tasks of one CPU because one thread cannot use more: for them the pool is large enough
            says("info", edits=(), message="4 CPUs"),
            threads(POOL, 1, tasks="2x16x1", measurements=(make_measurement("1x1x1"), make_measurement("1x1x4"))),
        ),
        (says("warning", edits=(), evidence={"parallel_calls": 8}), threads(POOL, 2, with_calls(8), measurements=())),
        ("info", one_thread(3.0)),
        ("", one_thread(0.4)),
        ("", threads(POOL, 0, tasks="2x16x4")),  # TensorFlow chooses
        ("", threads(POOL, 2, with_calls(2), measurements=())),
        ("", case_of(NAMES, BATCH, measurements=(make_measurement("1x1x16"),))),
    ],
    # An array in the graph is as bad as the part of a node that it takes, times the tasks.
    arrays_in_graph: [
        ("info", holding(40 * MIB)),
        ("warning", holding(40 * MIB, "2x4x1")),
        ("", holding(31 * MIB, "2x16x1")),
        ("", replace(holding(GIB), pipeline=replace(make_graph(), ops=()))),
    ],
}


@judged(ROWS)
def test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent(rule: Rule, case: Case, expected: Expected) -> None:
    check(rule, case, expected)
