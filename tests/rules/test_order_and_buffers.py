"""Rules of parallelism, order, buffers and caches: when each fires, how loud, what it proposes, and when it keeps quiet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer.planning.evidence import busy_ratio
from cs_input_analyzer.records import Case, Component, Edit, Estimate, Measurement, Op, OpCost
from tests.builders import (
    GIB,
    make_case,
    make_cluster,
    make_graph,
    make_measurement,
    make_plan,
    make_station,
    make_steady_state,
)
from tests.rules.lines import (
    CAST,
    GENERATOR,
    JPEG,
    NAMES,
    PARSE,
    RANDOM,
    READ,
    Expected,
    Rows,
    alone,
    batch,
    cache,
    case_of,
    check,
    cost,
    found,
    judged,
    line,
    mapped,
    measured,
    op,
    options,
    prefetch,
    reading,
    repeat,
    says,
    shuffle,
    with_files,
)
from tests.worker.ops import concatenated

# --- buffers and caches ------------------------------------------------------------------------------------------------------

OFF = options(autotune__enabled=False)
BY_SEED = ("StatelessRandomGetKeyCounter", "StatelessRandomUniformV2")
TAKE, TAKE_ALL, TAKE_WHILE = op("Take", "take", count=100), op("Take", "take", count=-1), op("TakeWhile", "take_while")


def read(*ops: Op, **overrides: Any) -> Case:
    """What follows the readers, up to a prefetch at the end."""
    return case_of(*reading(), *ops, prefetch(), **overrides)


def batched(*ops: Op, **overrides: Any) -> Case:
    return read(*ops, batch(), **overrides)


def held_back(case: Case, kind: str = "CPU", op: str | None = None, utilization: float = 0.95) -> Case:
    """By a station of this kind."""
    return replace(case, stations=(make_station(kind, op=op, utilization_ratio=utilization),))


def ending(*ops: Op) -> Case:
    return case_of(*reading(), *ops)


def no_prefetch(kind: Any, name: str) -> Expected:
    return says("info", edits=(Edit(kind=kind, op=name),))


def decoding(*ops: Op, share: float = 0.8, bytes_out: float = 1e6, **overrides: Any) -> Case:
    """Pictures of 100 kB in 1 GiB of files that become `bytes_out` each; workers read those 100 kB for a sample."""
    pictures = ops or (*reading(), mapped(JPEG), shuffle(), repeat(), batch(), prefetch())
    case = case_of(*pictures, measurements=alone(bytes_read_per_sample=100e3), **overrides)
    kept = [cost(name, 0.1, bytes_out_per_sample=1e6) for name in ("take", "skip")]
    return measured(case, cost("interleave", 0.05), cost("map", share, bytes_out_per_sample=bytes_out), *kept)


def cached_at(place: str, *ops: Op, size: float = GIB / 100e3 * 1e6) -> tuple[Expected, Case]:
    """A cache is proposed at this op, of so many bytes."""
    said = says("warning", edits=(Edit(kind="insert-cache", op=place),), evidence={"cache_bytes_per_node": round(size)})
    return said, decoding(*reading(), mapped(JPEG), *ops)


MERGED = cost("batch", 0.0, bytes_out_per_sample=None, self_cpu_s_per_sample=None, share_ratio=None, merged_into="map")


def merged(*after: Op, rows: tuple[OpCost, ...] = (), sent: float | None = None, **overrides: Any) -> Case:
    """Pictures of 100 kB, decoded and put into batches by one op of TensorFlow, of which no bytes are known."""
    launches = alone(bytes_read_per_sample=100e3, bytes_out_per_sample=sent)
    ops = (*reading(), mapped(JPEG), batch(), *after, prefetch())
    return measured(case_of(*ops, measurements=launches, **overrides), cost("interleave", 0.05), cost("map", 0.8), MERGED, *rows)


def repeated_inside(count: int) -> Case:
    inner = replace(repeat(count), name="inner", within="interleave")
    return decoding(*reading()[:3], inner, reading()[3], mapped(JPEG), shuffle(), batch())


def on_nodes(size: float, **overrides: Any) -> tuple[Expected, Case]:
    """Of 2 nodes with 8 tasks each; the memory that caches take there is that of all workers."""
    plan, cluster = make_plan("2x8x2", input_workers=16), make_cluster(memory_bytes_per_node=512 * GIB)
    return says(evidence={"cache_bytes_per_node": round(size)}), decoding(plan=plan, cluster=cluster, **overrides)


def only_read(kind: str) -> Case:
    return held_back(measured(decoding(*reading(), shuffle(), repeat(), batch(), prefetch()), cost("interleave", 0.9)), kind)


def frozen(*functions: tuple[str, ...], **overrides: Any) -> Case:
    """Maps before a cache, of which the last stands in its statement."""
    code = "ds = ds.map(f).cache()"
    *first, last = (mapped(one, code=code) for one in functions)
    apart = [replace(one, code="ds = ds.map(augment)") for one in first]
    return case_of(*reading(), *apart, last, cache(code=code), batch(), **overrides)


def moved(*ops: Op, swaps: int = 1) -> tuple[Expected, Case]:
    edits = (Edit(kind="swap", op="shuffle"),) * swaps
    return says(edits=edits, evidence={"bytes_per_element": 224 * 224 * 3 * 2 + 4}), batched(*ops)


def growing(functions: tuple[str, ...], given: float, memory: int) -> Case:
    """Elements of 100 kB that become `given` bytes, and a shuffle of a thousand of them."""
    case = batched(mapped(functions), shuffle(1000), cluster=make_cluster(memory_bytes_per_node=memory))
    return measured(case, cost("map", 0.5, bytes_in_per_sample=100e3, bytes_out_per_sample=given))


def of_unknown_size() -> Case:
    case = batched(mapped(JPEG), shuffle(1000))
    spec = (Component(name="image", shape=(256, None, None, 3), dtype="float16"),)
    return replace(case, pipeline=replace(case.pipeline, element_spec=spec))


def of_shards(*ops: Op, gap_s: float | None = None, source: tuple[Op, ...] = (), **overrides: Any) -> Case:
    """1 GiB of records of 1 KiB."""
    launches = alone(bytes_read_per_sample=1024.0, steady_state=make_steady_state(epochs=3, epoch_gap_s=gap_s))
    return case_of(*(source or reading()), *ops, batch(), **({"measurements": launches} | overrides))


READING_COSTS = tuple(cost(name, 0.0) for name in ("TFRecordDataset", "flat_map", "interleave"))
BEFORE = (*READING_COSTS, cost("map", 1.0))


def launch(first_s: float | None, gap_s: float | None = 0.1) -> Measurement:
    (found,) = alone(first_batch_s=first_s, batches_per_s=1 / gap_s if gap_s is not None else None)
    return found


def starting(*launches: Measurement, buffer_size: int = 10_000, size: int = 256, before: tuple[OpCost, ...] | None = None) -> Case:
    """`before`: rows of the ops before the shuffle; each of its elements costs 1 ms where nothing else is said."""
    case = case_of(*reading(), mapped(JPEG), shuffle(buffer_size), batch(size), measurements=launches)
    return measured(case, *(BEFORE if before is None else before), cost("shuffle", 0.0))


def passing(*ops: Op, buffer_size: int = 10_000, window_s: float = 39.0, **overrides: Any) -> Case:
    """A worker of the plan reads 40,000 samples in a pass, 1,000 in a second; its first batch, within a second, is no slow one."""
    known = {"bytes_read_per_sample": GIB / 40_000, "steady_state": make_steady_state(window_s=window_s)}
    given = {
        "measurements": alone(first_batch_s=10.0, batches_per_s=0.2, **known),
        "plan": make_plan(input_workers=1, predicted_samples_per_s=Estimate.exact(1000.0)),
    }
    return measured(case_of(*reading(), mapped(JPEG), shuffle(buffer_size), *ops, **(given | overrides)), *BEFORE)


TAIL = (batch(), prefetch())
MIXED = shuffle(seed=0)


def edited(*edits: tuple[Any, ...], severity: str | None = None, **wanted: Any) -> Expected:
    """Proposes these: kind, op, value."""
    return says(severity, edits=tuple(Edit(kind=kind, op=name, value=(*value, None)[0]) for kind, name, *value in edits), **wanted)


# --- maps --------------------------------------------------------------------------------------------------------------------


def serial(functions: tuple[str, ...] = RANDOM, **more: Any) -> Op:
    return mapped(functions, kind="Map", **more)


def left_serial(reason: str, *ops: Op) -> tuple[Expected, Case]:
    return edited(("parallelize", "map"), severity="info", message=reason), batched(*ops)


def taking(*ops: Op) -> Case:
    """A cache of 10,738 samples and what takes from it: 1 GiB in samples of 100 kB."""
    case = batched(mapped(CAST), cache(), *ops, measurements=alone(bytes_read_per_sample=100e3))
    return measured(case, cost("map", 0.1))


def costing(share: float, *ops: Op, **row: Any) -> Case:
    return measured(batched(*ops), cost("map", share, **row))


def calls(number: int | str, functions: tuple[str, ...] = JPEG, **overrides: Any) -> Case:
    return batched(mapped(functions, num_parallel_calls=number), **overrides)


def too_few(kind: str, name: str | None, busy: float) -> Case:
    """A worker does 1,000 samples a second, so a call of `busy` ms is busy for that share of the time."""
    return held_back(measured(calls(1), cost("map", busy)), kind, name)


def calls_of_interleave(cycle: str, seed: int, is_shown: bool) -> tuple[Expected, Case]:
    """The calls of an interleave decide its cycle where none is written."""
    code = f"ds = files.interleave(read{cycle}, num_parallel_calls=64)"
    ops = (*reading(cycle_length=2, num_parallel_calls=64, code=code), shuffle(seed=seed), *TAIL)
    shown = code.replace("64", "tf.data.AUTOTUNE") if is_shown else None
    hidden = {"lacks": ["cycle_length"]} if is_shown else {"fix": "cycle_length"}
    return edited(("set-parallelism", "interleave"), after=shown, **hidden), measured(case_of(*ops), cost("interleave", 0.1))


def batchable(share: float, kind: str) -> Case:
    return held_back(measured(batched(mapped()), cost("map", share)), kind)


def of_one_statement(function: str, is_shown: bool, *called: str) -> tuple[Expected, Case]:
    """Map and batch change places where the function has no eye for shapes."""
    code = f"ds = ds.map({function}).batch(256)"
    case = case_of(*reading(), mapped((*CAST, *called), code=code), batch(code=code), prefetch())
    shown = f"ds = ds.batch(256).map({function})" if is_shown else None
    return edited(("vectorize", "map"), after=shown), measured(case, cost("map", 0.6))


def test_a_map_and_a_batch_of_a_loop_are_not_changed_for_all_its_rounds() -> None:
    code = "ds = ds.map(lambda x: x + 1).batch(256)"
    twice = (mapped(code=code), batch(code=code), mapped(code=code), batch(code=code))
    case = measured(case_of(*reading(), *twice), cost("map", 0.3), cost("map_2", 0.3))
    assert [finding.after for finding in found("map-before-batch", case)] == [None, None]


def test_an_op_is_busy_for_its_cpu_time_by_the_rate_on_workers_that_have_more_cpus_than_calls() -> None:
    one, two = make_measurement("1x1x1", (500.0,)), make_measurement("1x1x2", (900.0,))
    case = measured(batched(serial(), measurements=(one, two)), cost("map", 0.8))
    assert busy_ratio(case, serial()) == pytest.approx(900 * 0.8e-3)
    assert busy_ratio(case, serial(), 2) is None
    assert busy_ratio(replace(case, measurements=(one,)), serial()) is None
    assert busy_ratio(replace(case, profile=None), serial()) is None


# --- filters and order -------------------------------------------------------------------------------------------------------

JPEG_AND_DRAW = (*JPEG, *RANDOM)
FILTER = op("Filter", "filter", ("Less",))
PICTURE = ("ReadFile", "DecodeJpeg")


def unknown_of(case: Case, name: str, **changed: Any) -> Case:
    """The case with another row of an op in its table of costs."""
    assert case.profile is not None
    rows = tuple(replace(row, **changed) if row.name == name else row for row in case.profile.ops)
    return replace(case, profile=replace(case.profile, ops=rows))


def disagreeing(*sizes: float) -> tuple[Measurement, ...]:
    """Launches that read so many bytes for a sample."""
    return tuple(one for size in sizes for one in alone(bytes_read_per_sample=size))


def waiting_calls(number: int, *, wait_s: float = 0.01, op_name: str = "map", kind: str = "fixed parallelism", **more: Any) -> Case:
    """So many calls (0: a serial map) that wait on a worker of two CPUs, which could do twice as much."""
    python = calls(number, ("EagerPyFunc",), **more) if number else batched(serial(("EagerPyFunc",)), **more)
    case = measured(python, cost("map", 0.1, wait_s_per_sample=wait_s))
    stations = (
        make_station(kind, op=op_name, samples_per_s=500.0, utilization_ratio=0.9),
        make_station("CPU", op=None, samples_per_s=1_000.0, utilization_ratio=0.45),
        make_station("Python (GIL)", op="map", samples_per_s=2_000.0, utilization_ratio=0.2),
    )
    return replace(case, stations=stations)


def wasting(share: float, kept: float) -> Case:
    case = batched(mapped(JPEG), FILTER)
    return measured(case, cost("map", share, elements_per_sample=1 / kept), cost("filter", 0.01, elements_per_sample=1.0))


RESAMPLE = "ds = ds.rejection_resample(class_of, [0.5, 0.5])"


def zipped(share: float, given: float | None, code: str | None = None) -> Case:
    """A filter behind a zip, as `rejection_resample` makes it; its map there takes what the user's leaves."""
    made = [replace(one, code=code) for one in (op("Zip", "zip"), mapped(CAST), FILTER)]
    ops = line(*reading(), mapped(JPEG), op("Random", "random"), *made, batch())
    ops = tuple(replace(one, inputs={"random": (), "zip": ("map", "random")}.get(one.name, one.inputs)) for one in ops)
    case = batched()
    case = replace(case, pipeline=replace(case.pipeline, ops=ops))
    rows = [cost("map", share, elements_per_sample=given)]
    rows.append(cost("map_2", 0.9 - share if code else 0.01, elements_per_sample=given))
    return measured(case, *rows, cost("filter", 0.01))


def in_interleave(share: float, given: float | None) -> Case:
    held = [
        replace(one, within="interleave", inputs=inputs) for one, inputs in [(mapped(PARSE), ("flat_map",)), (FILTER, ("map",))]
    ]
    case = case_of(*reading()[:3], *held, reading()[3], batch())
    ops = [*line(*reading()[:3]), *held, *line(reading()[3], batch())]
    return measured(
        replace(case, pipeline=replace(case.pipeline, ops=tuple(ops))),
        cost("map", share, elements_per_sample=given),
        cost("filter", 0.01),
    )


def filtered_twice() -> Case:
    """The first filter leaves two of 20, the second one of two."""
    rows = (cost("map", 0.8, elements_per_sample=20.0), cost("filter", 0.01, elements_per_sample=2.0), cost("filter_2", 0.01))
    return measured(batched(mapped(JPEG), FILTER, FILTER), *rows)


def ordered(said: str = "true", *ops: Op, code: str | None = None, wait_s: float | None = None) -> Case:
    case = case_of(*reading(deterministic=said, code=code), *ops, *TAIL)
    return case if wait_s is None else measured(case, cost("interleave", 0.1, wait_s_per_sample=wait_s))


ORDERED = "ds = files.interleave(read, deterministic=True)"

# --- readers -----------------------------------------------------------------------------------------------------------------

FIXED = "ds = files.interleave(read, cycle_length=2, num_parallel_calls=tf.data.AUTOTUNE)"
AUTO = "ds = files.interleave(read, num_parallel_calls=tf.data.AUTOTUNE)"
LIST = "ds = tf.data.TFRecordDataset(files)"


def cycled(cycle: int, code: str | None = FIXED, files: int = 1024, calls: int | str = "AUTOTUNE", **overrides: Any) -> Case:
    return with_files(case_of(*reading(cycle_length=cycle, num_parallel_calls=calls, code=code), *TAIL, **overrides), files)


def waiting(case: Case, drawn: float = 200.0, cpus: float = 2_000.0, files: int = 1000) -> Case:
    """Reads that wait for their storage, far below what the CPUs would take."""
    stations = (
        make_station("storage latency", op="interleave", samples_per_s=drawn, utilization_ratio=0.95),
        make_station("CPU", op=None, samples_per_s=cpus, utilization_ratio=drawn / cpus),
    )
    return replace(with_files(case, files), stations=stations)


def interleaved(code: str, calls: int | str, tail: Op, cycle: int = 2) -> Case:
    return case_of(*reading(cycle_length=cycle, num_parallel_calls=calls, code=code), tail, *TAIL)


def more_company(number: int, code: str, calls: int | str, after: str) -> tuple[Expected, Case]:
    """Two reads at once draw 200 of 2,000: twenty would keep the CPUs busy, and as many again are to spare."""
    kinds = [("set-cycle-length", "interleave", number), ("set-parallelism", "interleave", number)]
    said = edited(*kinds, severity="warning", after=f"ds = files.interleave(read, {after})")
    return said, waiting(interleaved(code, calls, MIXED))


def flat(*behind: Op) -> Case:
    """A flat_map that the user wrote."""
    return case_of(NAMES, *reading("FlatMap", code="ds = files.flat_map(tf.data.TFRecordDataset)")[1:], *behind, *TAIL)


def list_reader(*behind: Op, code: str | None = LIST) -> Case:
    """What `TFRecordDataset(files)` becomes: a flat_map that nobody wrote."""
    return case_of(
        NAMES, op("TFRecord", "TFRecordDataset", within="flat_map"), op("FlatMap", "flat_map", code=code), *behind, *TAIL
    )


def opened_ahead(is_moot: bool, case: Case) -> tuple[Expected, Case]:
    """A flat_map over files becomes an interleave that keeps the order unless it is moot."""
    cycle = "" if is_moot else "cycle_length=1, "
    said = edited(("interleave", "flat_map"), severity="info", fix=f"interleave(…, {cycle}num_parallel_calls")
    return said | says(after=f"ds = files.interleave(tf.data.TFRecordDataset, {cycle}num_parallel_calls=tf.data.AUTOTUNE)"), case


@pytest.mark.parametrize(("drawn", "ceiling", "number"), [(200, 2_400, 24), (200, 100_000, 64), (100, 150, 3)])
def test_reads_that_only_wait_get_as_many_at_once_as_keep_the_cpus_busy(drawn: float, ceiling: float, number: int) -> None:
    for rule, case in (("flat-map-over-files", flat(MIXED)), ("sequential-reads", list_reader(MIXED))):
        (finding,) = found(rule, waiting(case, drawn, ceiling))
        assert finding.edits == (Edit(kind="interleave", op="flat_map", value=number),)
        assert str(number) in (finding.after or "")
    # Where the order is promised, no more than one file at a time gives elements.
    check("flat-map-over-files", waiting(flat(shuffle(seed=7)), drawn, ceiling), edited(("interleave", "flat_map")))


def after_a_reader() -> Case:
    """TensorFlow's own flat_map has the statement, and the name, of the one that the user wrote behind it."""
    code = f"{LIST}.flat_map(split_record)"
    written = (op("TensorSlice", "parts", within="flat_map_2"), op("FlatMap", "flat_map", code=code))
    return list_reader(*written, MIXED, code=code)


HOLDS = "holds the worker back"


def looped(count: int, files: int = 1) -> Case:
    """Return datasets of a file each, or of several, that a loop with `concatenate` puts together."""
    return make_case(pipeline=make_graph(ops=concatenated(count, files=files)), profile=None, plan=None)


def looped_in_order(count: int) -> Case:
    return make_case(pipeline=make_graph(ops=concatenated(count)[:-2]), profile=None, plan=None)


def with_each(change: Callable[[Op], Op]) -> Case:
    case = looped(20)
    return replace(case, pipeline=replace(case.pipeline, ops=tuple(map(change, case.pipeline.ops))))


def of_different_pipelines() -> Case:
    return with_each(lambda one: replace(one, source="data.py:9") if one.name == "map_7" else one)


def without_named_files() -> Case:
    return with_each(lambda one: replace(one, files=None))


BY_READING = [
    ("warning", ("serial op", "flat_map")),
    ("warning", ("serial op", "TFRecordDataset")),
    ("warning", ("storage latency", "flat_map")),
    ("warning", ("storage bandwidth", None)),
    ("info", ("serial op", "batch")),
    ("info", ("CPU", None)),
]

ROWS: Rows = {
    # A map that TensorFlow leaves serial is told with the reason; not over file names, inside a parallel op, on one CPU.
    "serial-map": [
        (
            edited(("parallelize", "map"), message="inside another op"),
            case_of(*reading("FlatMap")[:3], replace(serial(), within="flat_map"), reading("FlatMap")[3], *TAIL),
        ),
        left_serial("its function has state", serial(("LookupTableFindV2",))),
        left_serial("its function has state", serial(("AddV2", "ReadVariableOp"))),
        left_serial("autotuning is switched off", serial(CAST), options(autotune__enabled=False)),
        *(
            left_serial(f"`{name}` is switched off", serial(CAST), options(**{f"optimization__{name}": False}))
            for name in ("map_parallelization", "apply_default_optimizations")
        ),
        ("", case_of(NAMES, serial(("LookupTableFindV2",)), *READ, *TAIL)),
        ("", case_of(*reading()[:3], replace(serial(), within="interleave"), reading()[3], *TAIL)),
        ("", batched(serial(), measurements=(make_measurement("1x1x1"),))),
        ("", batched(serial(CAST), options(autotune__enabled=True))),
        ("", batched(serial(("EagerPyFunc",)))),  # the lock, not the map, is what holds it back
        # Two draws by one seed fall out of step in parallel calls, so the map is not made parallel as it is.
        (says("info", edits=(), fix="draw once"), batched(replace(serial(), is_seeded=True, draws_alike=True))),
        (edited(("parallelize", "map"), lacks=["draw once"]), batched(replace(serial(), is_seeded=True))),
        # A warning only where its own thread is the bottleneck; Python only where it waits.
        ("warning", held_back(costing(0.5, serial()), "serial op", "map")),
        ("warning", held_back(costing(0.95, serial()))),
        ("", held_back(costing(0.01, serial()))),
        ("info", costing(0.2, serial(("PyFunc",)), wait_s_per_sample=0.01)),
        ("", costing(0.0, serial(("PyFunc",)), self_cpu_s_per_sample=0.0, wait_s_per_sample=1e-6)),  # it hardly runs
        ("", costing(0.8, serial(), parallelism=2.0)),  # it ran in parallel after all
        # Calls that mostly wait, and hold the worker back, get a number and as many threads.
        (
            edited(("parallelize", "map", 4), ("use-private-threads", "map", 4), severity="warning", lacks=["AUTOTUNE"]),
            waiting_calls(0, kind="serial op"),
        ),
        # What it costs is in a row with others, or it never ran.
        ("info", unknown_of(costing(0.5, serial()), "map", share_ratio=None, merged_into="unattributed")),
        ("", unknown_of(costing(0.5, serial()), "map", share_ratio=None, elements_per_sample=0.0)),
        ("", unknown_of(costing(0.5, serial()), "map", share_ratio=None, merged_into="unattributed", elements_per_sample=0.0)),
        # One call of the user is one finding, however many ops it makes.
        (
            edited(("parallelize", "map"), ("parallelize", "map_2"), message="map (and 1 more of this call)"),
            batched(serial(code="ds = ds.map(augment)"), serial(code="ds = ds.map(augment)")),
        ),
        ("info info", batched(serial(code="ds = ds.map(augment)"), serial(JPEG_AND_DRAW, code="ds = ds.map(augment)"))),
        # A map that a library made cannot be changed.
        ("", batched(serial(code="ds = ds.rejection_resample(class_of, [0.5, 0.5])"))),
        ("", batched(replace(serial(), library_source="/site-packages/reader.py:7"))),
        ("info", batched(serial(code="ds = ds.map(augment).apply(rest)"))),
    ],
    # A number of calls is judged by the CPUs of the task: few where they hold the worker back, many by what they hold.
    "parallelism-far-off": [
        ("info", calls(1)),
        ("", calls(1, CAST)),
        ("", calls(2)),
        ("", calls(16)),
        ("", calls(17)),  # whether they wait was not measured
        ("", unknown_of(measured(calls(17), cost("map", 0.8)), "map", self_cpu_s_per_sample=None, wait_s_per_sample=None)),
        ("info", measured(calls(17), cost("map", 0.8))),
        ("", calls("AUTOTUNE")),
        ("", calls(17, plan=make_plan("2x1x16"))),
        ("warning", too_few("fixed parallelism", "map", 0.5)),
        ("", too_few("fixed parallelism", "interleave", 0.5)),
        ("", too_few("CPU", None, 0.5)),
        ("warning", too_few("CPU", None, 0.95)),
        # Calls that wait and hold the worker back get company, and threads; never fewer.
        (
            edited(("set-parallelism", "map", 32), ("use-private-threads", "map", 32), severity="warning", lacks=["AUTOTUNE"]),
            waiting_calls(8),
        ),
        (edited(("set-parallelism", "map", 4), ("use-private-threads", "map", 4), severity="warning"), waiting_calls(1)),
        ("", waiting_calls(8, wait_s=0.0)),
        ("", waiting_calls(8, op_name="batch")),
        ("", waiting_calls(8, kind="storage latency")),
        ("", replace(waiting_calls(8), profile=None)),
        ("", replace(waiting_calls(8), stations=())),
        ("info", measured(calls(100), cost("map", 0.8))),
        ("", measured(calls(100), cost("map", 0.8, wait_s_per_sample=1.0))),
        calls_of_interleave("", 0, True),
        calls_of_interleave("", 7, False),
        calls_of_interleave(", cycle_length=2", 7, True),
        calls_of_interleave(", cycle_length=None", 7, False),
    ],
    # A map that could take a batch is told, a warning where short calls fill the CPUs.
    "map-before-batch": [
        of_one_statement("lambda x: scale(x)", False),
        of_one_statement("lambda x: tf.cast(x, tf.float32) / x.shape[0]", False),
        of_one_statement("lambda x: tf.add(*x)", False),
        ("warning", batchable(0.6, "CPU")),
        ("warning", batchable(0.6, "serial op")),
        ("info", batchable(0.6, "readers")),
        ("info", batchable(0.1, "CPU")),
        ("", batchable(0.01, "CPU")),
        of_one_statement("lambda x: tf.cast(x, tf.float32) / 255", True),
        of_one_statement("lambda x: tf.cast(x, tf.float32)[:6]", False, "StridedSlice"),
        of_one_statement("lambda x: tf.stack([x, x])", False, "Pack"),
        (says(fix="x[:, :6]"), costing(0.6, mapped((*CAST, "DecodeRaw", "StridedSlice")))),
        (says(fix="every tf.stack (axis=1)", lacks=["x[:, :6]"]), costing(0.6, mapped(("DecodeCSV", "Pack")))),
        (says(fix="tf.io.parse_example"), costing(0.6, mapped((*PARSE, "SerializeSparse")))),
        (
            edited(("vectorize", "map"), evidence={"call_cpu_s": pytest.approx(3e-4)}),
            costing(0.6, mapped(), shuffle(), TAKE, repeat(), elements_per_sample=2.0),
        ),
        ("", costing(0.01, mapped(), shuffle())),
        ("", costing(0.6, mapped(code="ds = ds.apply(rejection_resample(one))"))),
        ("", costing(0.6, replace(mapped(), library_source="library.py:3"))),
        ("", batched(mapped())),  # not measured
        *(
            ("", measured(case_of(*reading(), *ops, prefetch()), cost("map", 0.6)))
            for ops in [
                (mapped(JPEG), batch()),
                (mapped((*CAST, "RandomUniform")), batch()),
                (mapped(), batch(4)),
                (mapped(), op("PaddedBatch", "padded_batch", batch_size=256)),
                (batch(), mapped()),
                (mapped(), cache(), batch()),
                (mapped(), FILTER, batch()),
                (mapped(), mapped(JPEG), batch()),
                (mapped(), shuffle(), op("PaddedBatch", "padded_batch", batch_size=256)),
                (mapped((*CAST, "EagerPyFunc")), shuffle(), batch()),
                (mapped((*PARSE, "SparseToDense")), batch()),
                (mapped((*PARSE, "DecodeJpeg")), batch()),
            ]
        ),
    ],
    # A seed asks for the same numbers again, which parallel calls do not give.
    "random-calls-in-parallel": [
        ("info", batched(replace(mapped(RANDOM), is_seeded=True))),
        ("", batched(replace(mapped(RANDOM, num_parallel_calls=1), is_seeded=True))),
        # One seed for a picture and its mask: parallel calls mix the two draws.
        (
            says("warning", message="no longer fits", fix="draw once"),
            batched(replace(mapped(RANDOM), is_seeded=True, draws_alike=True)),
        ),
        ("", batched(replace(mapped(RANDOM, num_parallel_calls=1), is_seeded=True, draws_alike=True))),
        ("", batched(replace(mapped(RANDOM, kind="Map"), is_seeded=True, draws_alike=True))),
    ],
    # A filter after decoding wastes the cost of what it drops.
    "late-filter": [
        ("", wasting(0.8, 0.99)),
        ("", case_of(*reading(), mapped(JPEG), FILTER, prefetch())),  # nobody knows what it drops
        ("", unknown_of(wasting(0.8, 0.5), "filter", elements_per_sample=None)),
        ("", unknown_of(wasting(0.8, 0.5), "map", elements_per_sample=0.0)),  # before a complete cache
        ("", unknown_of(wasting(0.8, 0.5), "map", share_ratio=None)),
        ("", batched(mapped(CAST), FILTER)),
        ("", batched(mapped(JPEG), batch(), FILTER)),
        ("warning", wasting(0.8, 0.5)),
        ("info", wasting(0.3, 0.8)),
        ("", wasting(0.1, 0.5)),
        # Behind a zip the maps of all inputs count; of a library's filter your own alone.
        (says("warning", op="filter", message=("drops 95%", "after map and map_2"), lacks=["resample"]), zipped(0.8, 20.0)),
        ("", zipped(0.1, 20.0)),
        ("", zipped(0.8, 1.0)),
        ("", zipped(0.8, None)),
        (
            says("warning", op="filter", message=("which rejection_resample makes", "after map worked"), fix="rejection_resample"),
            zipped(0.8, 20.0, RESAMPLE),
        ),
        ("", zipped(0.1, 20.0, RESAMPLE)),  # the map of the library, which takes most, cannot be moved
        ("", zipped(0.8, None, RESAMPLE)),
        # Inside an interleave it is the same, and a filter before it has its own drop.
        (says("warning", op="filter", message="drops 95%"), in_interleave(0.8, 20.0)),
        ("", in_interleave(0.8, None)),
        ("", in_interleave(0.01, 20.0)),
        ("warning warning", filtered_twice()),
    ],
    # A forced order is told where a seedless shuffle follows, and never given up by an edit.
    "order-forced": [
        (says("info", edits=(), after=ORDERED.replace("True", "False")), ordered("true", MIXED, code=ORDERED)),
        ("info", ordered("default", MIXED, options(deterministic=True))),
        (
            says("info", op="interleave", message="interleave, map keep", evidence={"ops": 2}),
            ordered("true", mapped(deterministic="true"), MIXED),
        ),
        ("info", ordered("default", MIXED, wait_s=1.0)),  # nobody asked for it, but the op waits
        ("", ordered("default", MIXED, wait_s=0.0)),
        ("", case_of(NAMES, MIXED, *reading(deterministic="true")[1:], *TAIL)),
        ("", ordered("true", batch(), MIXED)),
        ("", ordered("true", MIXED, TAKE)),
        ("info", batched(batch(), mapped(deterministic="true"), MIXED)),  # of batches, whose order is random then
    ],
    # A short cycle that the user wrote is told where reading holds the worker back, and without a measurement.
    "short-cycle": [
        ("", case_of(op("Range", "range"), reading(cycle_length=1, code=FIXED)[-1], *TAIL)),
        (edited(("set-cycle-length", "interleave", 4)), held_back(cycled(2), "storage latency", "interleave")),
        (edited(("set-cycle-length", "interleave", 3), severity="info"), cycled(1, files=3)),
        ("", cycled(2, files=3)),  # whether reading holds it back was not measured
        ("", held_back(cycled(1, files=3))),
        ("", cycled(4)),
        ("", cycled(1, files=1)),
        ("", cycled(1, "ds = files.interleave(read, cycle_length=n or tf.data.AUTOTUNE)")),
        ("", held_back(cycled(2), utilization=0.99)),
        (
            says(after=FIXED.replace("cycle_length=2", "cycle_length=22")),
            held_back(cycled(4, plan=make_plan("1x1x64")), "readers", "interleave"),
        ),  # a third of the CPUs
        (  # files that are open and that nobody reads draw nothing
            edited(("set-parallelism", "interleave", 4), after="ds.interleave(f, cycle_length=8, num_parallel_calls=4)"),
            cycled(8, "ds.interleave(f, cycle_length=8, num_parallel_calls=1)", calls=1),
        ),
        # Reads that only wait get more company.
        more_company(40, AUTO, "AUTOTUNE", "num_parallel_calls=40, cycle_length=40"),
        more_company(20, FIXED, 1, "cycle_length=20, num_parallel_calls=20"),
        ("", waiting(interleaved(AUTO, "AUTOTUNE", shuffle(seed=7)))),  # the order counts, and TensorFlow chose the cycle
        ("", waiting(interleaved(AUTO, 8, MIXED, cycle=8), files=9)),  # they nearly keep the CPUs busy
    ],
    # Of these two each leaves to the other what is the other's; a warning where reading holds the worker back.
    "flat-map-over-files": [
        ("", measured(flat(), cost("flat_map", 0.0, elements_per_sample=0.0))),  # before a full cache
        ("info", measured(flat(), cost("flat_map", 0.1))),
        *((severity, held_back(flat(), *station)) for severity, station in BY_READING),
        opened_ahead(True, flat(MIXED)),
        opened_ahead(False, flat(shuffle(seed=7))),
        ("", with_files(flat(), 1)),
        ("", case_of(*flat().pipeline.ops, op("TextLine", "lines"), op("Zip", "zip"))),  # whose files are whose is not known
        ("", batched()),
        ("", after_a_reader()),
    ],
    "sequential-reads": [
        *((severity, held_back(list_reader(), *station)) for severity, station in BY_READING),
        (says(op="flat_map", after=f"{LIST[:-1]}, num_parallel_reads=tf.data.AUTOTUNE).flat_map(split_record)"), after_a_reader()),
        ("", flat()),
        ("", with_files(list_reader(), 1)),
        ("", measured(list_reader(), cost("flat_map", 0.0, elements_per_sample=0.0))),  # before a full cache
        ("info", measured(list_reader(), cost("flat_map", 0.1))),
        # A loop that puts datasets of one file each together is one finding; the order is kept unless a shuffle makes it moot.
        (says("info", op="concatenate_149", message="149 in a row, which join 150 datasets", lacks=["cycle_length"]), looped(150)),
        (says("warning", evidence={"datasets": 150}, message=HOLDS), held_back(looped(150), "serial op", "map_7")),
        (says("warning", edits=()), held_back(looped(150), "storage latency", None)),
        ("info", held_back(looped(150), "serial op", "batch")),
        (says("info", fix=["cycle_length=1", "keeps the order"]), looped_in_order(150)),
        *(("", looped(count)) for count in (2, 3, 8)),
        (says("info", message="(and 149 more of this call)"), looped(150, files=2)),  # each reads its own two in sequence
        ("", of_different_pipelines()),
        ("", without_named_files()),
    ],
    # A prefetch that is there, or that TensorFlow adds, is not asked for.
    "prefetch-missing": [
        (no_prefetch("set-buffer", "prefetch"), ending(batch(), prefetch(0), repeat())),
        (no_prefetch("insert-prefetch", "batch"), ending(batch(), repeat(), OFF)),
        (no_prefetch("insert-prefetch", "batch"), ending(batch(), options(optimization__inject_prefetch=False))),
        ("warning", held_back(ending(batch(), OFF), "serial op", "batch")),
        ("", ending(batch())),  # TensorFlow appends one
        ("", ending(batch(), prefetch(1), repeat(), TAKE, OFF)),
        ("", ending(batch(), mapped(), OFF)),  # works ahead by itself
    ],
    # A cache is asked for where it becomes complete, fits and helps, with the memory that it takes.
    "cache-missing": [
        ("", decoding(NAMES, repeat(), *READ, mapped(JPEG), shuffle(), batch())),
        cached_at("take", TAKE, shuffle(), repeat(), batch(), size=100e6),  # before it a cache would never be complete
        cached_at("skip", op("Skip", "skip", count=100), shuffle(), repeat(), batch()),
        ("", decoding(*reading(), mapped(JPEG), shuffle(), TAKE, repeat(), batch())),
        ("", decoding(*reading(), mapped(JPEG), shuffle(), TAKE_WHILE, repeat(), batch())),
        ("warning", repeated_inside(2)),
        ("", repeated_inside(-1)),
        on_nodes(GIB * 10 * 8, is_sharded=False),
        ("", decoding(bytes_out=7e6)),
        # The bytes of a batch that was merged into its map are those of what follows, of what was sent, or of the spec.
        (cached_at("batch")[0], merged(repeat(), rows=(cost("repeat", 0.0, bytes_out_per_sample=1e6),))),
        (cached_at("batch")[0], merged(repeat(), sent=1e6)),
        ("warning", merged(repeat())),
        ("", merged(repeat(), sent=7e6)),
        ("", merged(repeat(), element_spec=(Component(name="image", shape=(256, None, None, 3), dtype="uint8"),))),
        ("", merged(repeat(), op("Filter", "filter"), sent=1e6)),  # what was dropped is not in them
        ("", merged(repeat(), mapped(CAST), sent=1e6)),
        ("", merged(repeat(), op("Zip", "zip"), sent=1e6)),  # another dataset's bytes are in them
        ("", merged(is_infinite=False)),
        (  # where workers do not agree on the samples, it must hold the most of them
            says("warning", evidence={"cache_bytes_per_node": round(GIB / 10e3 * 1e5)}),
            replace(decoding(bytes_out=1e5), measurements=disagreeing(10e3, 100e3)),
        ),
        ("", decoding(mode="eval")),
        ("", replace(decoding(), pipeline=replace(decoding().pipeline, files=None))),
        ("", decoding(*reading(), mapped((*JPEG, *BY_SEED)), shuffle(), repeat(), batch())),
        ("", decoding(*reading(), cache(), mapped(JPEG), shuffle(), repeat(), batch())),
        # Reading alone is worth one only where the storage is the bottleneck.
        ("warning", only_read("storage bandwidth")),
        ("warning", only_read("storage latency")),
    ],
    # The cache goes before what is random only where nothing lies between: it is never edited, and no matter in evaluation.
    "cache-after-randomness": [
        ("", frozen(RANDOM, mode="eval")),
        (says("warning", edits=(), after="ds = ds.cache().map(f)"), frozen(RANDOM)),
        (says(after=None), frozen(BY_SEED, CAST)),
        ("", case_of(NAMES, shuffle(), *READ, cache(), batch())),
        ("info", batched(shuffle(), cache(), repeat())),
        ("", batched(shuffle(), cache(), shuffle(), repeat())),
    ],
    # A cache that is not complete or too early is told, by what was measured where it was; a zip ends with its shorter input.
    "cache-misplaced": [
        (says("warning", edits=()), batched(repeat(), mapped(CAST), cache())),
        (says("info", edits=(Edit(kind="swap", op="map"),)), batched(cache(), mapped(JPEG), repeat())),
        (says("info", edits=()), batched(cache(), mapped((*JPEG, *RANDOM)), repeat())),
        ("warning", decoding(*reading(), cache(), mapped(JPEG), shuffle(), repeat(), batch())),
        ("", decoding(*reading(), cache(), mapped(JPEG), shuffle(), repeat(), batch(), share=0.1)),
        ("", batched(mapped(JPEG), cache(), mapped(RANDOM), repeat())),
        ("", batched(mapped(JPEG), cache(), repeat())),
        ("", batched(cache(), TAKE_ALL, repeat())),
        # A take behind the cache: whether a shuffle or a filter takes the whole pass first is known by its samples.
        (says("warning", op="cache", message="take stops before"), batched(mapped(CAST), cache(), TAKE)),
        (says("warning", op="cache", message="take stops before"), taking(shuffle(2560), TAKE)),
        ("", taking(shuffle(20_000), TAKE)),
        ("", taking(shuffle(10_700), TAKE)),  # 10,738 samples: buffer and take together are more
        ("", taking(op("Take", "take", count=11_000))),
        (says("warning", message="take stops before"), taking(batch(100), TAKE)),
        ("", taking(batch(256), TAKE)),
        ("", taking(shuffle(2560), FILTER, TAKE)),
        ("", taking(FILTER, TAKE)),
        # How many samples there are is not known.
        ("", batched(mapped(CAST), cache(), shuffle(2560), TAKE, measurements=alone(bytes_read_per_sample=None))),
        ("", case_of(op("Range", "range"), mapped(CAST), cache(), shuffle(10_000), TAKE, batch(16), files=None)),
        # A pass was seen in which the map did not run: the cache is complete.
        ("", unknown_of(taking(TAKE), "map", elements_per_sample=0.0, self_cpu_s_per_sample=None)),
        ("warning", unknown_of(taking(TAKE), "map", elements_per_sample=0.0)),  # it took CPU
        ("warning", unknown_of(taking(TAKE), "map", elements_per_sample=None, self_cpu_s_per_sample=None)),
    ],
    # A shuffle of pictures is told and moved before their decoding; its memory is measured.
    "shuffle-of-decoded": [
        moved(mapped(JPEG), mapped(RANDOM), shuffle(1000), swaps=2),
        moved(mapped(CAST), mapped(JPEG), shuffle(1000)),
        ("info", growing(JPEG, 600e3, 128 * GIB)),
        ("warning", growing(CAST, 600e3, 4 * GIB)),
        ("", growing(CAST, 150e3, 4 * GIB)),
        (says("info", evidence={"buffer_bytes": None}), of_unknown_size()),
        ("", batched(shuffle(1000), mapped(JPEG))),
        ("", batched(mapped(CAST), shuffle(1000))),
        ("", batched(mapped(JPEG), shuffle(10))),
        ("", batched(mapped(JPEG), cache(), shuffle(1000))),
        # The buffer holds no more than there is: here files, each a sample.
        (
            says(message="keeps 1,024 decoded", evidence={"buffer_bytes": 1024 * 100e3}),
            measured(case_of(NAMES, mapped(PICTURE), shuffle(5000), batch()), cost("map", 0.5)),
        ),
    ],
    # A buffer is compared with what one worker has; a warning where it delays each pass.
    "shuffle-exceeds-shard": [
        ("", of_shards(shuffle(2560), repeat(), plan=make_plan("1x2000x1", input_workers=2000), is_sharded=True)),  # ten batches
        *(
            (severity, of_shards(shuffle(2_000_000), repeat(), gap_s=gap_s))
            for gap_s, severity in [(None, "info"), (2.0, "info"), (500.0, "warning")]
        ),
        ("", of_shards(repeat(), shuffle(2_000_000))),  # filled once
        ("", of_shards(batch(), shuffle(2_000_000), repeat())),
        ("", of_shards(shuffle(2_000_000), repeat(), measurements=disagreeing(7_809.0, 126_720.0))),
        ("info", of_shards(shuffle(2_000_000), repeat(), measurements=disagreeing(1_000.0, 1_400.0))),
        (  # counted, whatever was read for a sample
            says(message="only about 1,024", evidence={"samples_of_a_worker": 1024}),
            case_of(NAMES, mapped(PICTURE), shuffle(5000), batch(), measurements=disagreeing(7_809.0, 126_720.0)),
        ),
        ("", of_shards(shuffle(2_000_000), repeat(), measurements=alone(bytes_read_per_sample=None))),
        ("", of_shards(source=(NAMES, shuffle(2_000_000), *READ))),
        # Nor are files that are read in slices.
        ("", of_shards(op("Skip", "skip", within="flat_map"), op("FlatMap", "flat_map"), shuffle(2_000_000))),
    ],
    # A buffer shorter than a batch is told, or under a hundredth of a shard unless the names are shuffled.
    "shuffle-too-small": [
        ("", read(shuffle(256), batch())),
        ("", read(shuffle(16), batch(), mode="eval")),
        ("info", of_shards(shuffle(5_000), repeat())),
        ("", of_shards(shuffle(5_000), repeat(), source=(NAMES, shuffle(1024), *READ))),
        # Names that are shuffled, and names that are not there, need no shuffle.
        (says(fix="give it a buffer of 2,560", lacks=["names"]), case_of(NAMES, shuffle(64), *READ, shuffle(16), batch())),
        (says(fix="give it a buffer of 2,560", lacks=["names"]), case_of(*GENERATOR, shuffle(16), batch())),
    ],
    "shuffle-after-batch": [
        ("", read(batch(), shuffle(20), mode="eval")),
        ("warning", read(batch(), shuffle(20))),
        ("", read(shuffle(), batch(), shuffle(20))),
        ("info", read(shuffle(), batch(), shuffle(100_000))),
        ("", case_of(NAMES, shuffle(1024), mapped(PICTURE), batch(), shuffle(20))),
        ("warning", case_of(NAMES, mapped(PICTURE), batch(), shuffle(20))),
    ],
    "repeat-before-shuffle": [
        ("", batched(repeat(), shuffle(), mode="eval")),
        ("info", batched(repeat(), shuffle())),
        ("info", batched(repeat(3), mapped(), shuffle())),
        ("", case_of(NAMES, repeat(), *READ, shuffle(), batch())),
        ("", batched(shuffle(), repeat(), shuffle())),
    ],
    # A drained buffer does not make a first batch slow, nor does one slow start of many; the shuffle is named where it explains it.
    "slow-first-batch": [
        (says("info", op="shuffle", evidence={"fill_s": 10.0}), starting(launch(10.0))),
        # A fill is priced by what is before the shuffle, and by nothing where that is not known.
        (says("info", op=None, evidence={"fill_s": 0.1}), starting(launch(10.0), before=(*READING_COSTS, cost("map", 0.01)))),
        (
            says("info", op="shuffle", lacks=["fills"], fix="was not measured", evidence={"fill_s": None}),
            starting(launch(10.0), before=(*READING_COSTS, cost("map", 0.9, self_cpu_s_per_sample=None))),
        ),
        ("info", starting(launch(10.0), before=())),
        (says(op=None), starting(launch(10.0), buffer_size=100, size=64)),
        ("", starting(launch(None))),
        ("", starting(launch(10.0, None))),
        ("", starting(launch(10.0), launch(0.5), launch(0.6))),
        # At each pass again, unless the next pass can fill it while the last one drains.
        (says("warning", op="shuffle", evidence={"refill_ratio": 0.2}), passing(batch(), repeat())),
        (says("warning", op="shuffle", evidence={"refill_ratio": 1 / 9}), passing(batch(), repeat(), demand_samples_per_s=500.0)),
        (says(evidence={"refill_ratio": 0.2}), passing(batch(), repeat(), buffer_size=10**6)),  # no more than a start took
        (says(evidence={"refill_ratio": 1 / 9}), passing(batch(), repeat(), buffer_size=5_000)),
        ("", passing(batch(), repeat(), window_s=41.0)),  # the rate holds it
        ("", passing(repeat(), batch())),
        ("", passing(batch(), repeat(), mode="eval")),
        ("", passing(batch())),
        ("", unknown_of(passing(batch(), repeat()), "map", self_cpu_s_per_sample=None)),
        (
            "",
            unknown_of(passing(batch(), repeat()), "map", self_cpu_s_per_sample=1e-5),
        ),  # encoded records fill it, before what is costly
    ],
    # Samples that nothing mixes are told, once.
    "shuffle-missing": [
        ("info", read(batch())),
        ("info", case_of(NAMES, shuffle(), *reading("FlatMap")[1:], batch())),  # one file after the other
        ("", read(batch(), mode="eval")),
        ("", case_of(NAMES, shuffle(), *READ, batch())),
        ("", read()),
        ("", case_of(op("Range", "range"), mapped(CAST), batch())),
        ("", case_of(op("TextLine", "lines"), NAMES, batch())),
        # A file is a sample: a shuffle of all names mixes all samples, and holds no picture.
        ("", case_of(NAMES, shuffle(1024), mapped(PICTURE), batch())),
        (says("info", fix="names, with a buffer of all 1,024", lacks=["stand together"]), case_of(NAMES, mapped(PICTURE), batch())),
        ("info", case_of(NAMES, shuffle(1024), mapped(PICTURE), op("Unbatch", "unbatch"), batch())),  # of many samples
    ],
}


test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)
