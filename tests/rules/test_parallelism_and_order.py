"""Rules of parallelism and order: when each fires, how loud, what it proposes, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer.planning.evidence import busy_ratio
from cs_input_analyzer.records import Case, Edit, Op, Station
from cs_input_analyzer.rules.maps import (
    keras_layers_in_map,
    map_before_batch,
    parallelism_far_off,
    random_calls_in_parallel,
    serial_map,
    tiny_maps,
)
from cs_input_analyzer.rules.order import late_filter, order_forced
from cs_input_analyzer.rules.readers import flat_map_over_files, sequential_reads, short_cycle
from tests.builders import make_files, make_measurement, make_plan, make_read_rate, make_station, make_storage
from tests.rules.lines import (
    CAST,
    JPEG,
    PARSE,
    RANDOM,
    Rule,
    batch,
    cache,
    case_of,
    cost,
    found,
    mapped,
    measured,
    op,
    options,
    prefetch,
    reading,
    repeat,
    severities,
    shuffle,
    with_files,
)

TAIL = (batch(), prefetch())


def serial(functions: tuple[str, ...] = RANDOM, code: str | None = None) -> Op:
    return mapped(functions, kind="Map", code=code)


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        ((serial(),), "it draws random numbers"),
        ((serial(("RngReadAndSkip", "StatelessRandomUniformV2")),), "it draws random numbers"),
        ((serial(("LookupTableFindV2",)),), "its function has state"),
        ((serial(("AddV2", "ReadVariableOp")),), "its function has state"),
        ((serial(CAST), options(autotune__enabled=False)), "autotuning is switched off"),
        ((serial(CAST), options(optimization__map_parallelization=False)), "`map_parallelization` is switched off"),
        ((serial(CAST), options(optimization__apply_default_optimizations=False)), "`apply_default_optimizations` is switched off"),
    ],
)
def test_a_map_that_tensorflow_leaves_serial_is_told_with_the_reason(ops: tuple[Op, ...], reason: str) -> None:
    (finding,) = found(serial_map, case_of(*reading(), *ops, *TAIL))
    assert finding.severity == "info"
    assert reason in finding.message
    assert finding.edits == (Edit(kind="parallelize", op="map"),)


def test_a_serial_map_over_file_names_inside_a_parallel_op_or_on_one_cpu_is_not_told() -> None:
    inner = replace(serial(), within="interleave")
    assert found(serial_map, case_of(op("TensorSlice", "names"), serial(("LookupTableFindV2",)), *reading()[1:], *TAIL)) == []
    assert found(serial_map, case_of(*reading()[:3], inner, reading()[3], *TAIL)) == []
    assert found(serial_map, case_of(*reading(), serial(), *TAIL, measurements=(make_measurement("1x1x1"),))) == []


def test_a_serial_map_inside_a_serial_op_is_told() -> None:
    inner = replace(serial(), within="flat_map")
    (finding,) = found(serial_map, case_of(*reading("FlatMap")[:3], inner, reading("FlatMap")[3], *TAIL))
    assert finding.edits == (Edit(kind="parallelize", op="map"),)
    assert "inside another op" in finding.message


@pytest.mark.parametrize(
    ("share", "station", "utilization", "expected"),
    [
        (0.5, "serial op", 0.97, ["warning"]),
        (0.5, "serial op", 0.5, ["info"]),
        (0.5, "CPU", 0.97, ["info"]),
        (0.95, "CPU", 0.97, ["warning"]),
        (0.01, "CPU", 0.97, []),
    ],
)
def test_a_serial_map_is_a_warning_only_where_its_thread_is_the_bottleneck(
    share: float, station: str, utilization: float, expected: list[str]
) -> None:
    stations = (make_station(station, op="map" if station != "CPU" else None, utilization_ratio=utilization),)
    case = measured(case_of(*reading(), serial(), *TAIL), cost("map", share), stations=stations)
    assert severities(serial_map, case) == expected


def test_another_op_on_the_serial_thread_does_not_make_the_map_a_warning() -> None:
    stations = (make_station("serial op", op="batch", utilization_ratio=0.97),)
    assert severities(serial_map, measured(case_of(*reading(), serial(), *TAIL), cost("map", 0.3), stations=stations)) == ["info"]


def test_a_python_map_is_told_only_where_it_waits() -> None:
    case = case_of(*reading(), serial(("PyFunc",)), *TAIL)
    assert severities(serial_map, measured(case, cost("map", 0.2, wait_s_per_sample=0.01))) == ["info"]
    assert severities(serial_map, measured(case, cost("map", 0.2, wait_s_per_sample=0.0))) == []


def test_a_map_that_hardly_runs_is_not_told_though_it_waits_longer_than_it_computes() -> None:
    case = case_of(*reading(), serial(("PyFunc",)), *TAIL)
    assert severities(serial_map, measured(case, cost("map", 0.0, self_cpu_s_per_sample=0.0, wait_s_per_sample=1e-6))) == []


def test_a_map_that_ran_in_parallel_after_all_is_not_told() -> None:
    case = case_of(*reading(), serial(), *TAIL)
    assert severities(serial_map, measured(case, cost("map", 0.8, parallelism=2.0))) == []


@pytest.mark.parametrize(
    ("calls", "functions", "expected"),
    [
        (1, JPEG, ["info"]),
        (1, CAST, []),
        (2, JPEG, []),
        (16, JPEG, []),
        (17, JPEG, ["info"]),
        ("AUTOTUNE", JPEG, []),
        (64, CAST, ["info"]),
    ],
)
def test_a_number_of_calls_is_judged_by_the_cpus_of_the_task(
    calls: int | str, functions: tuple[str, ...], expected: list[str]
) -> None:
    case = case_of(*reading(), mapped(functions, num_parallel_calls=calls), *TAIL)
    assert severities(parallelism_far_off, case) == expected


def test_many_calls_are_few_on_a_task_with_many_cpus() -> None:
    case = case_of(*reading(), mapped(JPEG, num_parallel_calls=17), *TAIL, plan=make_plan("2x1x16"))
    assert severities(parallelism_far_off, case) == []


@pytest.mark.parametrize(
    ("kind", "name", "busy", "expected"),
    [
        ("fixed parallelism", "map", 0.5, ["warning"]),
        ("fixed parallelism", "interleave", 0.5, []),
        ("CPU", None, 0.5, []),
        ("CPU", None, 0.95, ["warning"]),
    ],
)
def test_too_few_calls_are_told_only_where_they_hold_the_worker_back(
    kind: str, name: str | None, busy: float, expected: list[str]
) -> None:
    """A worker does 1,000 samples a second, so a call of `busy` ms is busy for that share of the time."""
    stations = (make_station(kind, op=name, utilization_ratio=0.95),)
    case = measured(case_of(*reading(), mapped(JPEG, num_parallel_calls=1), *TAIL), cost("map", busy), stations=stations)
    assert severities(parallelism_far_off, case) == expected


@pytest.mark.parametrize(
    ("size", "wait_s", "expected"), [(100e3, 0.0, ["info"]), (100e6, 0.0, ["warning"]), (100e6, 1.0, []), (100e3, 1.0, [])]
)
def test_too_many_calls_are_a_warning_where_they_hold_much_memory_and_nothing_where_they_wait(
    size: float, wait_s: float, expected: list[str]
) -> None:
    case = case_of(*reading(), mapped(JPEG, num_parallel_calls=100), *TAIL)
    row = cost("map", 0.8, bytes_out_per_sample=size, wait_s_per_sample=wait_s)
    assert severities(parallelism_far_off, measured(case, row)) == expected


@pytest.mark.parametrize(
    ("cycle", "seed", "is_shown"), [("", 0, True), ("", 7, False), (", cycle_length=2", 7, True), (", cycle_length=None", 7, False)]
)
def test_the_calls_of_an_interleave_decide_its_cycle_where_none_is_written(cycle: str, seed: int, is_shown: bool) -> None:
    code = f"ds = files.interleave(read{cycle}, num_parallel_calls=64)"
    ops = (*reading(cycle_length=2, num_parallel_calls=64, code=code), shuffle(seed=seed), *TAIL)
    (finding,) = found(parallelism_far_off, case_of(*ops))
    assert (finding.after is not None) is is_shown
    assert ("cycle_length" in finding.fix) is not is_shown
    assert finding.edits == (Edit(kind="set-parallelism", op="interleave"),)


FIXED = "ds = files.interleave(read, cycle_length=2, num_parallel_calls=tf.data.AUTOTUNE)"


def storage(**drawn: float) -> object:
    reads = tuple(make_read_rate(int(streams[1:]), bytes_per_s=rate * 1e6) for streams, rate in drawn.items())
    return make_storage(reads=reads)


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [({"x1": 10, "x2": 20, "x8": 80}, 8), ({"x1": 10, "x2": 20, "x8": 22}, None), ({"x1": 10, "x2": 20, "x8": 15}, None)],
)
def test_a_cycle_is_as_long_as_the_storage_rewards(drawn: dict[str, float], expected: int | None) -> None:
    case = case_of(*reading(cycle_length=2, code=FIXED), *TAIL, storage=storage(**drawn))
    case = replace(case, stations=(make_station("storage latency", op="interleave", utilization_ratio=0.9),))
    findings = found(short_cycle, case)
    assert [edit.value for finding in findings for edit in finding.edits] == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("cycle", "code", "files", "expected"),
    [
        (1, FIXED, 1024, 4),
        (2, FIXED, 3, 3),
        (4, FIXED, 1024, None),
        (1, FIXED, 1, None),
        (1, None, 1024, None),  # the graph alone does not tell a written 1 from TensorFlow's own
        (1, "ds = files.interleave(read, num_parallel_calls=4)", 1024, None),
        (1, "ds = files.interleave(read, cycle_length=n or tf.data.AUTOTUNE)", 1024, None),
    ],
)
def test_without_a_measurement_a_short_written_cycle_is_told(
    cycle: int, code: str | None, files: int, expected: int | None
) -> None:
    case = with_files(case_of(*reading(cycle_length=cycle, code=code), *TAIL), files)
    findings = found(short_cycle, case)
    assert [finding.severity for finding in findings] == ([] if expected is None else ["info"])
    assert [edit.value for finding in findings for edit in finding.edits] == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("cycle", "calls", "edits", "after"),
    [
        (2, 2, ["set-cycle-length", "set-parallelism"], "files.interleave(read, cycle_length=4, num_parallel_calls=4)"),
        (2, "AUTOTUNE", ["set-cycle-length"], "files.interleave(read, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)"),
        (8, 1, ["set-parallelism"], "files.interleave(read, cycle_length=8, num_parallel_calls=4)"),
        (8, 4, [], None),
        (4, "AUTOTUNE", [], None),
    ],
)
def test_a_longer_cycle_brings_as_many_calls(cycle: int, calls: int | str, edits: list[str], after: str | None) -> None:
    """Files that are open and that nobody reads draw nothing: the fewer of the two numbers counts."""
    written = "tf.data.AUTOTUNE" if calls == "AUTOTUNE" else calls
    code = f"files.interleave(read, cycle_length={cycle}, num_parallel_calls={written})"
    findings = found(short_cycle, case_of(*reading(cycle_length=cycle, num_parallel_calls=calls, code=code), *TAIL))
    assert [(edit.kind, edit.value) for finding in findings for edit in finding.edits] == [(kind, 4) for kind in edits]
    assert [finding.after for finding in findings] == ([after] if after else [])


def test_a_cycle_is_left_alone_where_something_else_holds_the_worker_back() -> None:
    case = replace(case_of(*reading(cycle_length=2, code=FIXED), *TAIL), stations=(make_station("CPU", utilization_ratio=0.99),))
    assert found(short_cycle, case) == []


def test_a_cycle_over_something_that_is_no_file_is_left_alone() -> None:
    ops = (op("Range", "range"), op("Range", "range_2", within="interleave"), reading(cycle_length=1, code=FIXED)[-1])
    assert found(short_cycle, case_of(*ops, *TAIL)) == []


def test_the_cycle_of_a_large_task_is_a_third_of_its_cpus() -> None:
    case = case_of(*reading(cycle_length=4, code=FIXED), *TAIL, plan=make_plan("1x1x64"))
    (finding,) = found(short_cycle, case)
    assert finding.after == FIXED.replace("cycle_length=2", "cycle_length=22")


def waiting(op_name: str, drawn: float = 200.0, cpus: float = 2_000.0) -> tuple[Station, ...]:
    """Reads that wait for their storage, far below what the CPUs would take."""
    return (
        make_station("storage latency", op=op_name, samples_per_s=drawn, utilization_ratio=0.95),
        make_station("CPU", op=None, samples_per_s=cpus, utilization_ratio=drawn / cpus),
    )


AUTO = "ds = files.interleave(read, num_parallel_calls=tf.data.AUTOTUNE)"


@pytest.mark.parametrize(
    ("code", "calls", "tail", "expected"),
    [
        # Two reads at once draw 200 of 2,000: twenty would keep the CPUs busy, and as many again are to spare.
        (FIXED, "AUTOTUNE", shuffle(seed=0), "ds = files.interleave(read, cycle_length=40, num_parallel_calls=40)"),
        (AUTO, "AUTOTUNE", shuffle(seed=0), "ds = files.interleave(read, num_parallel_calls=40, cycle_length=40)"),
        (FIXED, 1, shuffle(seed=0), "ds = files.interleave(read, cycle_length=20, num_parallel_calls=20)"),
        (AUTO, "AUTOTUNE", shuffle(seed=7), None),  # the order counts, and TensorFlow chose the cycle
        (AUTO, "AUTOTUNE", op("Take", "take", count=9), None),
    ],
)
def test_reads_of_an_interleave_that_only_wait_get_more_company(
    code: str, calls: int | str, tail: Op, expected: str | None
) -> None:
    case = with_files(case_of(*reading(cycle_length=2, num_parallel_calls=calls, code=code), tail, *TAIL), 1000)
    findings = found(short_cycle, replace(case, stations=waiting("interleave")))
    assert [(finding.severity, finding.after) for finding in findings] == ([] if expected is None else [("warning", expected)])
    for finding in findings:
        assert [edit.kind for edit in finding.edits] == ["set-cycle-length", "set-parallelism"]


def test_reads_that_nearly_keep_the_cpus_busy_are_left_alone() -> None:
    case = with_files(case_of(*reading(cycle_length=8, num_parallel_calls=8, code=AUTO), shuffle(seed=0), *TAIL), 9)
    assert found(short_cycle, replace(case, stations=waiting("interleave"))) == []


def list_reader(code: str | None = "ds = tf.data.TFRecordDataset(files)") -> tuple[Op, ...]:
    """What `TFRecordDataset(files)` becomes: a flat_map that nobody wrote."""
    return (
        op("TensorSlice", "from_tensor_slices"),
        op("TFRecord", "TFRecordDataset", within="flat_map"),
        op("FlatMap", "flat_map", code=code),
    )


FLAT = "ds = files.flat_map(tf.data.TFRecordDataset)"


NAMES_SHUFFLED = (op("TensorSlice", "names"), shuffle(seed=0))


@pytest.mark.parametrize(
    ("before", "behind", "is_moot"),
    [
        ((), (shuffle(seed=0),), True),
        ((), (shuffle(seed=7),), False),
        (NAMES_SHUFFLED, (), False),  # which file comes first is open, which record in it is not
        ((), (batch(), shuffle(seed=0)), False),
        ((), (op("Take", "take", count=9), shuffle(seed=0)), False),
        ((), (op("Window", "window", size=9), shuffle(seed=0)), False),
        ((), (shuffle(seed=0), op("Take", "take", count=9)), False),
    ],
)
def test_a_flat_map_over_files_becomes_an_interleave_that_keeps_the_order_unless_it_is_moot(
    before: tuple[Op, ...], behind: tuple[Op, ...], is_moot: bool
) -> None:
    ops = (*(before or reading()[:1]), *reading("FlatMap", code=FLAT)[1:], *behind, *TAIL)
    (finding,) = found(flat_map_over_files, case_of(*ops))
    cycle = "" if is_moot else "cycle_length=1, "
    assert finding.after == f"ds = files.interleave(tf.data.TFRecordDataset, {cycle}num_parallel_calls=tf.data.AUTOTUNE)"
    assert ("cycle_length=1" in finding.fix) is not is_moot
    assert finding.edits == (Edit(kind="interleave", op="flat_map"),)
    assert finding.severity == "info"


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("serial op", "flat_map", "warning"),
        ("serial op", "TFRecordDataset", "warning"),
        ("storage latency", "flat_map", "warning"),
        ("storage bandwidth", None, "warning"),
        ("serial op", "batch", "info"),
        ("CPU", None, "info"),
    ],
)
def test_one_file_after_the_other_is_a_warning_where_reading_holds_the_worker_back(
    kind: str, name: str | None, expected: str
) -> None:
    stations = (make_station(kind, op=name, utilization_ratio=0.95),)
    for rule, ops in ((flat_map_over_files, reading("FlatMap", code=FLAT)), (sequential_reads, list_reader())):
        assert severities(rule, replace(case_of(*ops, *TAIL), stations=stations)) == [expected]


@pytest.mark.parametrize(("ceiling", "number"), [(2_400.0, 24), (100_000.0, 64), (150.0, 3)])
def test_reads_that_only_wait_get_as_many_at_once_as_keep_the_cpus_busy(ceiling: float, number: int) -> None:
    stations = (
        make_station("storage latency", op="flat_map", samples_per_s=200.0 if ceiling > 200 else 100.0, utilization_ratio=0.95),
        make_station("CPU", op=None, samples_per_s=ceiling, utilization_ratio=0.1),
    )
    many = make_files(count=1000)

    def edit_of(rule: object, *ops: Op) -> Edit:
        case = case_of(*ops)
        (finding,) = found(rule, replace(case, stations=stations, pipeline=replace(case.pipeline, files=many)))
        assert finding.after is not None
        assert (str(number) in finding.after) == (finding.edits[0].value is not None)
        return finding.edits[0]

    mixed, kept = shuffle(seed=0), shuffle(seed=7)
    assert edit_of(flat_map_over_files, *reading("FlatMap", code=FLAT), mixed, *TAIL).value == number
    assert edit_of(sequential_reads, *list_reader(), mixed, *TAIL).value == number
    # The order is promised: no more than one file at a time gives elements.
    assert edit_of(flat_map_over_files, *reading("FlatMap", code=FLAT), kept, *TAIL).value is None


def test_each_of_the_two_leaves_to_the_other_what_is_the_others() -> None:
    written, made = case_of(*reading("FlatMap", code=FLAT), *TAIL), case_of(*list_reader(), *TAIL)
    assert (severities(flat_map_over_files, written), severities(sequential_reads, written)) == (["info"], [])
    assert (severities(flat_map_over_files, made), severities(sequential_reads, made)) == ([], ["info"])


def test_without_code_the_graph_tells_a_written_flat_map_from_one_that_was_made() -> None:
    written, made = case_of(*reading("FlatMap"), *TAIL), case_of(*list_reader(None), *TAIL)
    assert (severities(flat_map_over_files, written), severities(sequential_reads, written)) == (["info"], [])
    assert (severities(flat_map_over_files, made), severities(sequential_reads, made)) == ([], ["info"])


@pytest.mark.parametrize("rule", [flat_map_over_files, sequential_reads])
def test_a_single_file_an_interleave_and_a_flat_map_of_no_files_are_not_told(rule: object) -> None:
    no_files = (op("Range", "range"), op("Range", "range_2", within="flat_map"), op("FlatMap", "flat_map", code=FLAT))
    for ops in (reading("FlatMap", code=FLAT), list_reader()):
        assert found(rule, with_files(case_of(*ops, *TAIL), 1)) == []  # type: ignore[arg-type]
    assert found(rule, case_of(*reading(), *TAIL)) == []  # type: ignore[arg-type]
    assert found(rule, case_of(*no_files, *TAIL)) == []  # type: ignore[arg-type]


def test_a_flat_map_that_follows_a_reader_of_many_files_is_not_the_readers() -> None:
    """TensorFlow's own flat_map has the statement, and the name, of the one that the user wrote behind it."""
    code = "ds = tf.data.TFRecordDataset(files).flat_map(split_record)"
    written = (op("TensorSlice", "parts", within="flat_map_2"), op("FlatMap", "flat_map", code=code))
    case = case_of(*list_reader(code), *written, shuffle(seed=0), *TAIL)
    assert found(flat_map_over_files, case) == []
    (finding,) = found(sequential_reads, case)
    assert finding.op == "flat_map"
    assert finding.after == code.replace("(files)", "(files, num_parallel_reads=tf.data.AUTOTUNE)")


@pytest.mark.parametrize("functions", [CAST, ("DecodeRaw", "Cast"), PARSE, (*PARSE, "Cast")])
def test_a_map_that_could_take_a_batch_is_told(functions: tuple[str, ...]) -> None:
    (finding,) = found(map_before_batch, case_of(*reading(), mapped(functions), *TAIL))
    assert finding.severity == "info"
    assert finding.edits == (Edit(kind="vectorize", op="map"),)
    assert finding.evidence["batch_size"] == 256


@pytest.mark.parametrize(
    ("share", "kind", "each_s", "expected"),
    [
        (0.6, "CPU", 5e-6, ["warning"]),
        (0.6, "serial op", 5e-6, ["warning"]),
        (0.6, "storage bandwidth", 5e-6, ["info"]),
        (0.6, "CPU", 5e-3, ["info"]),
        (0.1, "CPU", 5e-6, ["info"]),
        (0.01, "CPU", 5e-6, []),
    ],
)
def test_batching_first_is_a_warning_where_short_calls_fill_the_cpus(
    share: float, kind: str, each_s: float, expected: list[str]
) -> None:
    stations = (make_station(kind, utilization_ratio=0.95),)
    case = case_of(*reading(), mapped(), *TAIL)
    assert (
        severities(map_before_batch, measured(case, cost("map", share, self_cpu_s_per_sample=each_s), stations=stations))
        == expected
    )


@pytest.mark.parametrize(
    ("function", "called", "is_shown"),
    [
        ("lambda x: tf.cast(x, tf.float32) / 255", CAST, True),
        ("scale", CAST, False),  # may set_shape, or ask for x.shape, of which the graph shows nothing
        ("lambda x: scale(x)", CAST, False),
        ("lambda x: tf.cast(x, tf.float32) / x.shape[0]", CAST, False),
        ("lambda x: tf.cast(x, tf.float32) / tf.size(x)", CAST, False),
        ("lambda x: tf.cast(x, tf.float32) / len(x)", CAST, False),
        ("lambda x: tf.ensure_shape(x, [28])", (*CAST, "EnsureShape"), False),
        ("lambda x: tf.io.decode_raw(x, tf.uint8) / 255", (*CAST, "EnsureShape"), False),
    ],
)
def test_map_and_batch_of_one_statement_change_places_where_the_function_has_no_eye_for_shapes(
    function: str, called: tuple[str, ...], is_shown: bool
) -> None:
    code = f"ds = ds.map({function}).batch(256)"
    (finding,) = found(map_before_batch, case_of(*reading(), mapped(called, code=code), batch(code=code), prefetch()))
    assert finding.after == (f"ds = ds.batch(256).map({function})" if is_shown else None)
    assert finding.edits == (Edit(kind="vectorize", op="map"),)


def test_a_map_and_a_batch_of_a_loop_are_not_changed_for_all_its_rounds() -> None:
    code = "ds = ds.map(lambda x: x + 1).batch(256)"
    twice = (mapped(code=code), batch(code=code), mapped(code=code), batch(code=code))
    findings = found(map_before_batch, case_of(*reading(), *twice))
    assert [finding.after for finding in findings] == [None, None]


def ordered(said: str = "true", code: str | None = None) -> tuple[Op, ...]:
    return reading(deterministic=said, code=code)


def test_an_order_that_nobody_asked_for_is_told_only_where_the_op_waits() -> None:
    case = case_of(*ordered("default"), shuffle(seed=0), *TAIL)
    assert severities(order_forced, measured(case, cost("interleave", 0.1, wait_s_per_sample=1.0))) == ["info"]
    assert severities(order_forced, measured(case, cost("interleave", 0.1, wait_s_per_sample=0.0))) == []


def test_the_order_is_never_given_up_by_an_edit() -> None:
    code = "ds = files.interleave(read, deterministic=True)"
    (finding,) = found(order_forced, case_of(*ordered(code=code), shuffle(seed=0), *TAIL))
    assert finding.edits == ()
    assert finding.after == "ds = files.interleave(read, deterministic=False)"


FILTER = op("Filter", "filter", ("Less",))


@pytest.mark.parametrize(
    ("ops", "fires"),
    [
        ((mapped(JPEG), FILTER), True),
        ((mapped(JPEG), mapped(), FILTER), True),
        ((mapped(CAST), FILTER), False),
        ((FILTER, mapped(JPEG)), False),
        ((FILTER,), False),
        ((mapped(JPEG), batch(), FILTER), False),
        ((mapped(JPEG),), False),
    ],
)
def test_a_filter_after_decoding_is_told(ops: tuple[Op, ...], fires: bool) -> None:
    findings = found(late_filter, case_of(*reading(), *ops, prefetch()))
    assert [finding.severity for finding in findings] == (["info"] if fires else [])
    maps = [one for one in ops if one.kind == "ParallelMap"]
    assert all(finding.edits == (Edit(kind="swap", op="filter"),) * len(maps) for finding in findings)


@pytest.mark.parametrize(
    ("code", "is_shown"),
    [
        ("ds = ds.map(lambda image, label: (tf.io.decode_jpeg(image), label)).filter(lambda image, label: label < 5)", True),
        ("ds = ds.map(lambda image, label: (tf.io.decode_jpeg(image), label)).filter(lambda _, number: number < 5)", True),
        ("ds = ds.map(lambda image, label: (label, tf.io.decode_jpeg(image))).filter(lambda label, image: label < 5)", False),
        ("ds = ds.map(lambda record: (decode(record), 3)).filter(lambda image, label: label < 5)", False),
        ("ds = ds.map(lambda image, label: (image, label, 3)).filter(lambda image, label, more: label < 5)", False),
        ("ds = ds.map(lambda image, label: (image, label + 1)).filter(lambda image, label: label < 5)", False),
        ("ds = ds.map(lambda image, label: (image, label)).filter(lambda *parts: parts[1] < 5)", False),
        ("ds = ds.map(parse).filter(lambda image, label: label < 5)", False),
        ("ds = ds.map(lambda image, label: (image, label)).filter(is_wanted)", False),
        ("ds = ds.map(lambda row: decode(row)).filter(lambda row: row['label'] < 5)", False),
    ],
)
def test_map_and_filter_change_places_where_the_condition_finds_the_same_in_the_same_place(code: str, is_shown: bool) -> None:
    (finding,) = found(late_filter, case_of(*reading(), mapped(JPEG, code=code), replace(FILTER, code=code), prefetch()))
    swapped = None
    if is_shown:
        begin, end = code.index(".map("), code.index(".filter(")
        swapped = code[:begin] + code[end:] + code[begin:end]
    assert finding.after == swapped
    assert finding.edits == (Edit(kind="swap", op="filter"),)


@pytest.mark.parametrize(
    ("share", "kept", "expected"), [(0.8, 0.5, ["warning"]), (0.3, 0.8, ["info"]), (0.8, 0.99, []), (0.1, 0.5, []), (0.8, 1.0, [])]
)
def test_what_a_filter_wastes_is_the_cost_of_what_it_drops(share: float, kept: float, expected: list[str]) -> None:
    case = case_of(*reading(), mapped(JPEG), FILTER, *TAIL)
    case = measured(case, cost("map", share, elements_per_sample=1 / kept), cost("filter", 0.01, elements_per_sample=1.0))
    assert severities(late_filter, case) == expected


@pytest.mark.parametrize(("share", "each_s", "expected"), [(0.2, 3e-6, ["warning"]), (0.01, 3e-6, ["info"]), (0.2, 1e-3, [])])
def test_small_is_what_was_measured_so(share: float, each_s: float, expected: list[str]) -> None:
    case = case_of(*reading(), mapped(JPEG), mapped(), mapped(), *TAIL)
    rows = [cost(name, share, self_cpu_s_per_sample=each_s) for name in ("map", "map_2", "map_3")]
    assert severities(tiny_maps, measured(case, *rows)) == expected


def test_an_op_is_busy_for_its_cpu_time_by_the_rate_on_workers_that_have_more_cpus_than_calls() -> None:
    one, two = make_measurement("1x1x1", (500.0,)), make_measurement("1x1x2", (900.0,))
    case = measured(case_of(*reading(), serial(), *TAIL, measurements=(one, two)), cost("map", 0.8))
    assert busy_ratio(case, serial()) == pytest.approx(900 * 0.8e-3)
    assert busy_ratio(case, serial(), 2) is None
    assert busy_ratio(replace(case, measurements=(one,)), serial()) is None
    assert busy_ratio(replace(case, profile=None), serial()) is None


def drawing(**more: Any) -> Op:
    return replace(mapped(RANDOM, **more), is_seeded=True)


def layered(*names: str) -> Op:
    return replace(mapped(CAST), layers=names or ("random_flip", "rescaling"))


BUSY = (make_station(utilization_ratio=0.97),)


JUDGED = (
    # A seed asks for the same numbers again, which parallel calls do not give.
    *(
        (random_calls_in_parallel, case_of(*reading(), *ops, *TAIL), expected)
        for ops, expected in [
            ((drawing(),), ["info"]),
            ((drawing(num_parallel_calls=8),), ["info"]),
            ((drawing(num_parallel_calls=1),), []),
            ((replace(drawing(), kind="Map"),), []),
            ((mapped(RANDOM),), []),  # no seed: nothing is to repeat
            ((replace(drawing(), function_ops=("StatelessRandomUniformV2",), is_seeded=False),), []),
            ((replace(drawing(), within="interleave"),), ["info"]),
        ]
    ),
    # Layers of Keras for each sample are as bad as they cost.
    *(
        (keras_layers_in_map, measured(case_of(*reading(), *ops), *rows, stations=stations), expected)
        for ops, rows, stations, expected in [
            ((layered(), *TAIL), (), (), ["info"]),
            ((layered(), *TAIL), (cost("map", 0.5),), BUSY, ["warning"]),
            ((layered(), *TAIL), (cost("map", 0.5),), (), ["info"]),
            ((layered(), *TAIL), (cost("map", 0.1),), BUSY, ["info"]),
            ((layered(), *TAIL), (cost("map", 0.01),), BUSY, []),
            ((batch(), layered()), (cost("map", 0.5),), BUSY, []),
            ((mapped(RANDOM), *TAIL), (cost("map", 0.5),), BUSY, []),
        ]
    ),
    # A map that is parallel or python is not told.
    *(
        (serial_map, case_of(*reading(), *ops, *TAIL), [])
        for ops in [
            (serial(CAST),),  # TensorFlow makes it parallel
            (serial(("StatelessRandomGetKeyCounter", "StatelessRandomUniformV2")),),  # by seed: no state
            (serial(CAST), options(autotune__enabled=True)),
            (serial(CAST), options(deterministic=False)),
            (mapped(RANDOM),),  # the user made it parallel
            (serial(("EagerPyFunc",)),),  # the lock, not the map, is what holds it back
        ]
    ),
    # A map that needs its samples one by one is not told.
    *(
        (map_before_batch, case_of(*reading(), *ops, prefetch()), [])
        for ops in [
            (mapped(JPEG), batch()),
            (mapped((*CAST, "RandomUniform")), batch()),
            (mapped((*CAST, "StridedSlice")), batch()),
            (mapped(("PyFunc",)), batch()),
            (mapped(()), batch()),
            (mapped(), batch(4)),
            (mapped(), op("PaddedBatch", "padded_batch", batch_size=256)),
            (batch(), mapped()),
            (mapped(), shuffle(), batch()),
            (mapped((*PARSE, "DecodeJpeg")), batch()),
        ]
    ),
    # A forced order is told where a seedless shuffle follows.
    *(
        (order_forced, case_of(*ops, *TAIL), ["info"] if fires else [])
        for ops, fires in [
            ((*ordered(), shuffle(seed=0)), True),
            ((*ordered("default"), shuffle(seed=0), options(deterministic=True)), True),
            ((*ordered(), shuffle(seed=7)), False),
            ((*ordered(),), False),
            ((*ordered("false"), shuffle(seed=0)), False),
            ((*ordered("default"), shuffle(seed=0)), False),
            ((*ordered("default"), shuffle(seed=0), options(deterministic=False)), False),
            ((*ordered(code="ds = tf.data.TFRecordDataset(files, num_parallel_reads=4)"), shuffle(seed=0)), False),
            ((op("TensorSlice", "names"), shuffle(seed=0), *ordered()[1:]), False),
            ((*ordered(), batch(), shuffle(seed=0)), False),
            ((*ordered(), shuffle(seed=0), op("Take", "take", count=9)), False),
            ((*reading(), batch(), mapped(deterministic="true"), shuffle(seed=0)), True),  # of batches, whose order is random then
        ]
    ),
    # Three small maps in a row are told once.
    *(
        (tiny_maps, case_of(*reading(), *ops, prefetch()), ["info"] if fires else [])
        for ops, fires in [
            ((mapped(), mapped(), mapped(), shuffle(), batch()), True),
            ((mapped(), mapped(), mapped(), mapped(), batch()), True),
            ((mapped(), mapped(), batch()), False),
            ((mapped(), mapped(), shuffle(), mapped(), batch()), False),
            ((mapped(JPEG), mapped(), mapped(), batch()), False),
            ((batch(), mapped(), mapped(), mapped()), False),
            ((mapped(), cache(), mapped(), mapped(), repeat(), batch()), False),
        ]
    ),
)


@pytest.mark.parametrize(("rule", "case", "expected"), JUDGED)
def test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent(rule: Rule, case: Case, expected: list[str]) -> None:
    assert severities(rule, case) == expected
