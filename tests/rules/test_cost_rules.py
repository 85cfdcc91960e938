"""Cost of ops and bytes: when each rule fires, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import (
    make_case,
    make_cluster,
    make_files,
    make_graph,
    make_measurement,
    make_op,
    make_op_cost,
    make_plan,
    make_profile,
    make_read_rate,
    make_serial_station,
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
from tests.rules.lines import Rule, found, line, only, severities

KIB, MIB, GIB = 2**10, 2**20, 2**30


def case_of(*ops: Op, **overrides: Any) -> Case:
    """Each op reads from the one before it, nested ones (`within`) left out; nothing is measured."""
    pipeline = {name: overrides.pop(name) for name in ("files", "element_spec") if name in overrides}
    return make_case(pipeline=make_graph(ops=line(*ops), **pipeline), **({"profile": None, "plan": None} | overrides))


def profile_with(name: str, share: float) -> Any:
    return make_profile(ops=(make_op_cost(name, share_ratio=share),), serial=None)


NAMES = make_op("from_tensor_slices", kind="TensorSlice", parameters={})
INTERLEAVE = make_op("interleave", function_ops=("TFRecordDataset",))
BATCH = make_op("batch")
PYTHON = make_op("map", function_ops=("EagerPyFunc", "Reshape"))


def reader(compression: str = "", buffer: int | str = "AUTOTUNE", **overrides: Any) -> Op:
    parameters = {"compression_type": compression, "buffer_size": buffer}
    return make_op("TFRecordDataset", kind="TFRecord", within="interleave", parameters=parameters, **overrides)


def busy(kind: str, utilization: float = 0.97, **overrides: Any) -> tuple[Any, ...]:
    return (make_station(kind, utilization_ratio=utilization, **overrides),)


@pytest.mark.parametrize(
    ("evidence", "severity"),
    [
        ({}, "warning"),  # for every sample, cost unknown
        ({"profile": profile_with("map", 0.5)}, "warning"),
        ({"profile": profile_with("map", 0.05)}, "info"),
        ({"profile": profile_with("map", 0.05), "stations": busy("Python (GIL)")}, "warning"),
        ({"profile": replace(profile_with("map", 0.05), serial=make_serial_station(op="GIL"))}, "warning"),
    ],
)
def test_python_is_as_bad_as_it_costs(evidence: dict[str, Any], severity: str) -> None:
    finding = only(python_in_pipeline, case_of(NAMES, reader(), INTERLEAVE, PYTHON, BATCH, **evidence))
    assert (finding.severity, finding.op) == (severity, "map")
    assert "sample" in finding.message


def test_the_ceiling_of_the_lock_is_told() -> None:
    case = case_of(NAMES, PYTHON, stations=busy("Python (GIL)", samples_per_s=1_234.0))
    finding = only(python_in_pipeline, case)
    assert finding.evidence["ceiling_samples_per_s"] == 1_234.0
    assert "1,234" in finding.message


@pytest.mark.parametrize("measured", [{"share_ratio": 0.005}, {"share_ratio": None, "elements_per_sample": 0.0}])
def test_python_that_hardly_runs_is_right(measured: dict[str, Any]) -> None:
    """Before a full cache, for instance."""
    profile = profile_with("map", 0.005)
    rows = tuple(replace(row, **measured) if row.name == "map" else row for row in profile.ops)
    assert severities(python_in_pipeline, case_of(NAMES, PYTHON, BATCH, profile=replace(profile, ops=rows))) == []


@pytest.mark.parametrize(("elements", "word"), [(1.0, "sample"), (1 / 35, "batch"), (35.0, "sample")])
def test_how_often_python_is_called_is_what_was_measured(elements: float, word: str) -> None:
    """A file of 35 samples may be one call, though nothing was batched."""
    profile = profile_with("map", 0.5)
    rows = tuple(replace(row, elements_per_sample=elements) for row in profile.ops)
    finding = only(python_in_pipeline, case_of(NAMES, PYTHON, BATCH, profile=replace(profile, ops=rows)))
    assert f"for every {word}," in finding.message


@pytest.mark.parametrize("kind", ["PyFunc", "EagerPyFunc", "PyFuncStateless"])
def test_all_ways_into_python_are_one_finding(kind: str) -> None:
    second = make_op("map", name="map_2", function_ops=(kind,))
    assert only(python_in_pipeline, case_of(NAMES, PYTHON, second)).evidence["python_ops"] == 2


def test_a_generator_is_python() -> None:
    generator = make_op("from_generator", kind="Generator", within="flat_map", parameters={}, function_ops=("PyFunc",))
    flat = make_op("flat_map", kind="FlatMap", parameters={}, function_ops=("GeneratorDataset", "PyFunc"))
    assert only(python_in_pipeline, case_of(NAMES, generator, flat, BATCH)).op == "from_generator"


def part(dtype: str, *shape: int | None, name: str = "x", kind: str = "tensor") -> Component:
    return Component(name=name, shape=shape, dtype=dtype, kind=kind)


def test_bytes_saved_are_counted_for_a_sample_and_a_second() -> None:
    spec = (part("float64", 32, 100, name="image"), part("int64", 32, name="label"))
    finding = only(wide_dtypes, case_of(NAMES, make_op("map"), BATCH, element_spec=spec, plan=make_plan()))
    assert finding.severity == "warning"
    assert finding.evidence["saved_bytes_per_sample"] == 100 * 6 + 4
    assert finding.evidence["bytes_per_sample"] == 100 * 8 + 8
    assert finding.evidence["saved_bytes_per_s"] == pytest.approx(604 * 14_500.0)


def test_a_wide_label_beside_an_image_is_for_information() -> None:
    spec = (part("float16", 32, 10, 10), part("int64", 32, name="label"))
    finding = only(wide_dtypes, case_of(NAMES, BATCH, element_spec=spec))
    assert (finding.severity, finding.evidence["saved_bytes_per_sample"]) == ("info", 4)
    photographs = (part("float16", 32, 224, 224, 3), part("int64", 32, name="label"))
    assert severities(wide_dtypes, case_of(NAMES, BATCH, element_spec=photographs)) == []


@pytest.mark.parametrize("kind", ["ragged", "sparse"])
def test_sizes_that_nobody_knows_are_not_made_up(kind: str) -> None:
    spec = (part("int64", 32, None, kind=kind),)
    finding = only(wide_dtypes, case_of(NAMES, BATCH, element_spec=spec))
    assert finding.severity == "info"
    assert finding.evidence["saved_bytes_per_sample"] is None
    assert finding.evidence["saved_bytes_per_s"] is None


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


def decoder(*called: str, name: str = "map") -> Op:
    return make_op("map", name=name, function_ops=called)


@pytest.mark.parametrize(
    "ops",
    [
        (NAMES, decoder("DecodeJpeg", "Slice", "Cast"), BATCH),
        (NAMES, decoder("DecodeJpeg", "CropAndResize"), BATCH),
        (NAMES, decoder("DecodeJpeg"), decoder("Slice", "RandomUniformInt", name="map_2"), BATCH),
    ],
)
def test_an_image_decoded_whole_and_cropped_is_told(ops: tuple[Op, ...]) -> None:
    finding = only(decode_then_crop, case_of(*ops))
    assert (finding.severity, finding.op) == ("info", "map")


@pytest.mark.parametrize(("share", "severity"), [(0.6, "warning"), (0.3, "info")])
def test_decoding_is_as_bad_as_it_costs(share: float, severity: str) -> None:
    case = case_of(NAMES, decoder("DecodeJpeg", "Slice"), BATCH, profile=profile_with("map", share))
    assert severities(decode_then_crop, case) == [severity]


def test_what_an_interleave_calls_is_told_once() -> None:
    inner = make_op("map", within="interleave", function_ops=("DecodeJpeg", "Slice"))
    outer = make_op("interleave", function_ops=("DecodeJpeg", "MapDataset", "Slice"))
    assert only(decode_then_crop, case_of(NAMES, inner, outer, BATCH)).op == "map"


CPU_BOUND = {"stations": busy("CPU"), "profile": profile_with("TFRecordDataset", 0.4)}
DECODE = make_op("map", function_ops=("DecodeJpeg",))


@pytest.mark.parametrize("kind", ["GZIP", "ZLIB"])
def test_unpacking_that_takes_the_scarce_cpu_is_told(kind: str) -> None:
    finding = only(compression_tradeoff, case_of(NAMES, reader(kind), INTERLEAVE, **CPU_BOUND))
    assert (finding.severity, finding.evidence["compression_type"]) == ("warning", kind)


def test_images_packed_twice_are_told_even_where_it_costs_little() -> None:
    case = case_of(NAMES, reader("GZIP"), INTERLEAVE, DECODE, profile=profile_with("TFRecordDataset", 0.05))
    assert severities(compression_tradeoff, case) == ["info"]


def test_plain_records_before_a_slow_storage_are_told() -> None:
    finding = only(compression_tradeoff, case_of(NAMES, reader(), INTERLEAVE, stations=busy("storage bandwidth")))
    assert (finding.severity, finding.evidence["is_storage_the_bottleneck"]) == ("info", True)


def files(count: int, mean: float, **overrides: Any) -> Case:
    held = make_files(count=count, bytes=int(count * mean), largest_bytes=int(mean), smallest_bytes=int(mean))
    return case_of(NAMES, reader(), INTERLEAVE, files=held, **({"is_sharded": False} | overrides))


def test_thousands_of_tiny_files_are_told_with_a_better_number() -> None:
    finding = only(file_count_extreme, files(50_000, 20 * KIB))
    assert finding.severity == "warning"
    assert finding.fix is not None
    assert f"{-(-50_000 * 20 * KIB // (128 * MIB))} files" in finding.fix


def test_waiting_for_files_is_counted_from_the_storage() -> None:
    storage = make_storage(reads=(make_read_rate(1, latency_s=0.003, bytes_per_s=100e6),))
    finding = only(file_count_extreme, files(5_000, 100_000.0, storage=storage))
    assert finding.evidence["waiting_ratio"] == pytest.approx(0.75)  # 3 ms for the first byte, 1 ms for the rest


SLOW = make_storage(reads=(make_read_rate(1, latency_s=0.02, bytes_per_s=100e6),))
WAITING = {"storage": SLOW, "stations": busy("storage latency")}
SLOW_AND_NARROW = make_storage(reads=(make_read_rate(1, latency_s=0.02, bytes_per_s=10e6),))  # 1 MiB would do
SMALL_FILES = make_files(count=100, bytes=100 * 200 * KIB)  # each in one read


@pytest.mark.parametrize(
    ("buffer", "evidence", "severity"),
    [
        (256, {}, "warning"),
        (0, {}, "warning"),
        (16 * KIB, {}, "info"),
        (16 * KIB, {"stations": busy("readers")}, "warning"),
        (256 * KIB, WAITING, "warning"),
        ("AUTOTUNE", WAITING, "warning"),
    ],
)
def test_a_small_read_buffer_is_as_bad_as_reading_is_slow(buffer: int | str, evidence: dict[str, Any], severity: str) -> None:
    finding = only(read_buffer_size, case_of(NAMES, reader(buffer=buffer), INTERLEAVE, **evidence))
    assert finding.severity == severity
    (edit,) = finding.edits
    assert (edit.kind, edit.op) == ("set-buffer", "TFRecordDataset")


def test_on_a_slow_file_system_the_buffer_covers_twice_the_latency() -> None:
    code = "ds = names.interleave(lambda n: tf.data.TFRecordDataset(n, buffer_size=4096))"
    finding = only(read_buffer_size, case_of(NAMES, reader(buffer=4096, code=code), INTERLEAVE, **WAITING))
    assert finding.edits == (Edit(kind="set-buffer", op="TFRecordDataset", value=4 * MIB),)  # 2 x 20 ms x 100 MB/s
    assert finding.after == code.replace("4096", "4 << 20")


def test_on_a_fast_one_tensorflows_own_is_enough() -> None:
    code = "ds = tf.data.TFRecordDataset(names, buffer_size=512)"
    finding = only(read_buffer_size, case_of(NAMES, reader(buffer=512, code=code), INTERLEAVE))
    assert finding.after == code.replace("512", "256 << 10")
    assert finding.edits[0].value == 256 * KIB


POOL, INTRA_OP = "threading.private_threadpool_size", "threading.max_intra_op_parallelism"


def pool(threads: int) -> Op:
    return make_op("with_options", kind="Options", parameters={POOL: threads})


def test_a_pool_smaller_than_the_tasks_cpus_is_told() -> None:
    finding = only(starved_threads, case_of(NAMES, pool(1), plan=make_plan("2x16x4")))
    assert finding.severity == "warning"
    assert finding.edits == (Edit(kind="use-private-threads", op="with_options", value=4),)


def test_a_pool_that_only_wider_tasks_would_miss_is_for_information() -> None:
    """The plan has tasks of one CPU because one thread cannot use more: for them the pool is large enough."""
    measured = (make_measurement("1x1x1"), make_measurement("1x1x4"))
    finding = only(starved_threads, case_of(NAMES, pool(1), plan=make_plan("2x16x1"), measurements=measured))
    assert finding.severity == "info"
    assert finding.edits == ()
    assert "4 CPUs" in finding.message


def test_a_pool_smaller_than_the_calls_that_the_code_asks_for_is_told() -> None:
    mapped = make_op("map", parameters={"num_parallel_calls": 8})
    finding = only(starved_threads, case_of(NAMES, mapped, pool(2), measurements=()))
    assert finding.evidence["parallel_calls"] == 8
    assert finding.edits == ()  # how many CPUs there are is unknown


def test_one_thread_for_an_op_that_does_all_the_work_is_for_information() -> None:
    limited = make_op("with_options", kind="Options", parameters={INTRA_OP: 1})
    profile = make_profile(serial=make_serial_station(op="map", idle_cpus=3.0))
    assert severities(starved_threads, case_of(NAMES, make_op("map"), limited, profile=profile)) == ["info"]


HALVES = {"float16": "float16", "cbfloat16": "float16", "bfloat16": "bfloat16"}


@pytest.mark.parametrize("half", HALVES)
def test_single_precision_is_told_where_the_model_works_in_16_bits(half: str) -> None:
    spec = (part("float32", 32, 100, name="image"), part("int32", 32, name="label"))
    finding = only(wide_dtypes, case_of(NAMES, BATCH, element_spec=spec, training=Training(half=half)))
    assert (finding.severity, finding.edits, finding.after) == ("warning", (), None)
    assert f"image to {HALVES[half]}" in (finding.fix or "")
    assert ("loss scaling" in (finding.fix or "")) is (half != "bfloat16")
    assert finding.evidence["network_samples_per_s"] == pytest.approx(12.5e9 / 404)
    assert finding.evidence["network_samples_per_s_after"] == pytest.approx(12.5e9 / 204)
    assert "404 B a sample, 204 B after the cast" in finding.message


def holding(size: int, layout: str = "1x1x1", **of_op: Any) -> Case:
    source = replace(NAMES, constant_bytes=size, **of_op)
    return case_of(source, BATCH, plan=make_plan(layout), cluster=make_cluster(memory_bytes_per_node=GIB))


JUDGED = (
    # An array in the graph is as bad as the part of a node that it takes, times the tasks.
    *(
        (arrays_in_graph, case, expected)
        for case, expected in [
            (holding(40 * MIB), ["info"]),
            (holding(40 * MIB, "2x4x1"), ["warning"]),
            (holding(200 * MIB), ["warning"]),
            (holding(31 * MIB, "2x16x1"), []),
            (holding(0), []),
            (replace(holding(GIB), pipeline=replace(make_graph(), ops=())), []),
        ]
    ),
    # Where the model works in 16 bits, these are right.
    *(
        (wide_dtypes, case_of(NAMES, BATCH, element_spec=(part(dtype, 32, 100),), training=Training(half="float16")), [])
        for dtype in ["float16", "bfloat16", "int32", "uint8"]
    ),
    # Python for whole batches costs less.
    (python_in_pipeline, case_of(NAMES, BATCH, PYTHON), ["info"]),
    # Functions of tensorflow alone are right.
    *(
        (python_in_pipeline, case_of(*ops), [])
        for ops in [(NAMES, reader(), INTERLEAVE, BATCH), (NAMES, make_op("map", function_ops=("DecodeJpeg", "Cast")), BATCH), ()]
    ),
    # Types of up to 32 bits are right.
    *(
        (wide_dtypes, case_of(NAMES, BATCH, element_spec=(part(dtype, 32, 100),)), [])
        for dtype in ["float16", "bfloat16", "float32", "int32", "uint8", "bool", "string"]
    ),
    # Images that keep their pixels are right.
    *(
        (decode_then_crop, case_of(*ops), [])
        for ops in [
            (NAMES, decoder("DecodeAndCropJpeg", "Slice"), BATCH),
            (NAMES, decoder("DecodeJpeg", "ResizeBilinear", "StridedSlice"), BATCH),
            (NAMES, decoder("DecodePng", "Slice"), BATCH),
            (NAMES, decoder("DecodeImage", "CropAndResize"), BATCH),  # it may be PNG
            (NAMES, decoder("Slice"), decoder("DecodeJpeg", name="map_2"), BATCH),
            (NAMES, decoder("DecodeJpeg"), decoder("Cast", name="map_2"), decoder("Slice", name="map_3")),
            (NAMES, BATCH),
        ]
    ),
    # Compression that was not measured or does not hurt is for information.
    *(
        (compression_tradeoff, case_of(NAMES, reader("GZIP"), INTERLEAVE, **evidence), ["info"])
        for evidence in [{}, CPU_BOUND | {"stations": busy("CPU", 0.5)}]
    ),
    # Compression that pays is right.
    *(
        (compression_tradeoff, case, [])
        for case in [
            case_of(NAMES, reader(), INTERLEAVE),
            case_of(NAMES, reader(), INTERLEAVE, **CPU_BOUND),
            case_of(NAMES, reader(), INTERLEAVE, DECODE, stations=busy("storage bandwidth")),
            case_of(NAMES, reader(), INTERLEAVE, stations=busy("storage bandwidth", 0.5)),
            case_of(
                NAMES, reader("GZIP"), INTERLEAVE, stations=busy("storage bandwidth"), profile=profile_with("TFRecordDataset", 0.4)
            ),
            case_of(NAMES, reader("GZIP"), INTERLEAVE, stations=busy("CPU"), profile=profile_with("TFRecordDataset", 0.1)),
            case_of(NAMES, BATCH),
        ]
    ),
    # Files are as bad as reading was measured to be.
    *(
        (file_count_extreme, case, [severity])
        for case, severity in [
            (files(50_000, 500 * KIB), "info"),
            (files(50_000, 500 * KIB, stations=busy("readers")), "warning"),
            (files(50_000, 20 * KIB, stations=busy("CPU")), "info"),
            (files(1, 3 * GIB), "info"),
            (files(1, 3 * GIB, stations=busy("readers")), "warning"),
        ]
    ),
    # Files of a good size are right.
    *(
        (file_count_extreme, case, [])
        for case in [
            files(1024, 140 * MIB),
            files(16, 20 * KIB),  # a small dataset
            files(1, 20 * MIB),
            files(5_000, 2 * MIB),
            files(1, 3 * GIB, is_sharded=True, plan=make_plan(input_workers=8)),  # CSI301 tells
            make_case(pipeline=make_graph(files=None)),
        ]
    ),
    # A read buffer that suits the storage is right.
    *(
        (read_buffer_size, case, [])
        for case in [
            case_of(NAMES, reader(), INTERLEAVE),
            case_of(NAMES, reader(buffer=64 * KIB), INTERLEAVE),
            case_of(NAMES, reader(buffer=8 * MIB), INTERLEAVE, **WAITING),
            case_of(NAMES, reader(), INTERLEAVE, storage=SLOW, stations=busy("CPU")),
            case_of(NAMES, reader(), INTERLEAVE, storage=make_storage(), stations=busy("readers")),
            case_of(NAMES, make_op("prefetch", parameters={"buffer_size": 1})),
            case_of(NAMES, reader(), INTERLEAVE, stations=busy("readers")),  # latency unknown
            case_of(NAMES, reader(), INTERLEAVE, files=SMALL_FILES, **WAITING),
            case_of(NAMES, reader(buffer=2 * MIB), INTERLEAVE, storage=SLOW_AND_NARROW, stations=busy("storage latency")),
        ]
    ),
    # Threads for all cpus are right.
    *(
        (starved_threads, case, [])
        for case in [
            case_of(NAMES, pool(4), plan=make_plan("2x16x4")),
            case_of(NAMES, pool(48), plan=make_plan("2x16x4")),
            case_of(NAMES, pool(0), plan=make_plan("2x16x4")),  # TensorFlow chooses
            case_of(NAMES, make_op("with_options", kind="Options", parameters={"deterministic": False})),
            case_of(NAMES, make_op("map", parameters={"num_parallel_calls": 2}), pool(2), measurements=()),
            case_of(NAMES, make_op("with_options", kind="Options", parameters={INTRA_OP: 1})),
            case_of(
                *(NAMES, make_op("map"), make_op("with_options", kind="Options", parameters={INTRA_OP: 1})),
                profile=make_profile(serial=make_serial_station(op="map", idle_cpus=0.4)),
            ),
            case_of(NAMES, BATCH, measurements=(make_measurement("1x1x16"),)),
        ]
    ),
)


@pytest.mark.parametrize(("rule", "case", "expected"), JUDGED)
def test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent(rule: Rule, case: Case, expected: list[str]) -> None:
    assert severities(rule, case) == expected
