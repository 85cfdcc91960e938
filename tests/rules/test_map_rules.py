"""Rules of `map`: when each fires, how loud, what it proposes, and when it is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cs_input_analyzer.model.evidence import busy_ratio
from cs_input_analyzer.records import Case, Op
from tests.builders import make_measurement, make_plan
from tests.rules.lines import (
    CAST,
    JPEG,
    NAMES,
    PARSE,
    RANDOM,
    READ,
    Rows,
    batch,
    batched,
    cache,
    case_of,
    cost,
    edits,
    found,
    judged,
    mapped,
    only,
    op,
    options,
    prefetch,
    reading,
    repeat,
    says,
    shuffle,
    stations,
    take,
)

PYTHON = ("EagerPyFunc",)


def serial(functions: tuple[str, ...] = RANDOM, **more: Any) -> Op:
    """A `map` without parallel calls."""
    return mapped(functions, kind="Map", **more)


def waiting(kind: str = "fixed parallelism", op: str = "map") -> dict[str, Any]:
    """Calls that wait most of the time, on a worker whose CPUs could do twice as much."""
    ceilings = ((kind, op, 500.0, 0.9), ("CPU", None, 1_000.0, 0.45), ("Python (GIL)", "map", 2_000.0, 0.2))
    return {"costs": cost("map", 0.1, wait_s_per_sample=0.01), "stations": stations(*ceilings)}


def interleaved(cycle: str, seed: int) -> Case:
    """An interleave with 64 calls; `cycle`: its `cycle_length` as it is written."""
    code = f"ds = files.interleave(read{cycle}, num_parallel_calls=64)"
    readers = reading(cycle_length=2, num_parallel_calls=64, code=code)
    return case_of(*readers, shuffle(seed=seed), batch(), costs=cost("interleave", 0.1))


def one_statement(function: str, *called: str) -> Case:
    """A map of this function, and a batch, in one statement."""
    code = f"ds = ds.map({function}).batch(256)"
    return case_of(*reading(), mapped((*CAST, *called), code=code), batch(code=code), costs=cost("map", 0.6))


PADDED = op("PaddedBatch", "padded_batch", batch_size=256)

ROWS: Rows = {
    # A map that TensorFlow leaves serial is told with the reason.
    "serial-map": [
        *(
            (says("info", message=reason, edits=edits(("parallelize", "map"))), batched(*ops))
            for reason, *ops in [
                ("its function has state", serial(("LookupTableFindV2",))),
                ("autotuning is switched off", serial(CAST), options(autotune__enabled=False)),
                ("`map_parallelization` is", serial(CAST), options(optimization__map_parallelization=False)),
                ("`apply_default_optimizations` is", serial(CAST), options(optimization__apply_default_optimizations=False)),
            ]
        ),
        (
            says(message="inside another op"),
            case_of(*reading("FlatMap")[:3], replace(serial(), within="flat_map"), reading("FlatMap")[3]),
        ),
        ("", batched(serial(CAST), options(autotune__enabled=True))),
        ("", case_of(NAMES, serial(("LookupTableFindV2",)), *READ, batch())),  # over file names
        ("", case_of(*reading()[:3], replace(serial(), within="interleave"), reading()[3], batch())),  # called in parallel
        ("", batched(serial(), measurements=(make_measurement("1x1x1"),))),  # on one CPU
        ("", batched(serial(PYTHON))),  # the lock, not the map, is what holds it back
        # Two draws by one seed fall out of step in parallel calls, so the map is not made parallel as it is.
        (says("info", edits=(), fix="draw once"), batched(replace(serial(), is_seeded=True, draws_alike=True))),
        # It is a warning where its own thread is the bottleneck.
        ("warning", batched(serial(), costs=cost("map", 0.5), bottleneck=("serial op", "map"))),
        ("warning", batched(serial(), costs=cost("map", 0.95), bottleneck="CPU")),
        ("", batched(serial(), costs=cost("map", 0.01), bottleneck="CPU")),
        ("info", batched(serial(("PyFunc",)), costs=cost("map", 0.2, wait_s_per_sample=0.01))),
        ("", batched(serial(("PyFunc",)), costs=cost("map", 0.0, wait_s_per_sample=1e-6))),  # it hardly runs
        ("", batched(serial(), costs=cost("map", 0.8, parallelism=2.0))),  # it ran in parallel after all
        # Calls that mostly wait, and hold the worker back, get a number and as many threads.
        (
            says("warning", edits=edits(("parallelize", "map", 4), ("use-private-threads", "map", 4)), lacks=["AUTOTUNE"]),
            batched(serial(PYTHON), **waiting("serial op")),
        ),
        # What it costs is in a row with others, or it never ran.
        ("info", batched(serial(), costs=cost("map", 0.5, share_ratio=None, merged_into="unattributed"))),
        ("", batched(serial(), costs=cost("map", 0.5, share_ratio=None))),
        (
            "",
            batched(serial(), costs=cost("map", 0.5, share_ratio=None, merged_into="unattributed", elements_per_sample=0.0)),
        ),
        # One call of the user is one finding, however many ops it makes.
        (
            says(message="map (and 1 more of this call)", edits=edits(("parallelize", "map"), ("parallelize", "map_2"))),
            batched(*[serial(code="ds = ds.map(augment)")] * 2),
        ),
        # A map that a library made cannot be changed.
        ("", batched(serial(code="ds = ds.rejection_resample(class_of, [0.5, 0.5])"))),
        ("", batched(replace(serial(), library_source="/site-packages/reader.py:7"))),
    ],
    # A number of calls is judged by the CPUs of the task: few where they hold the worker back, many by what they hold.
    "parallelism-far-off": [
        ("info", batched(mapped(JPEG, num_parallel_calls=1))),
        ("", batched(mapped(CAST, num_parallel_calls=1))),
        ("", batched(mapped(JPEG, num_parallel_calls=2))),
        ("", batched(mapped(JPEG, num_parallel_calls="AUTOTUNE"))),
        ("warning", batched(mapped(JPEG, num_parallel_calls=1), costs=cost("map", 0.5), bottleneck=("fixed parallelism", "map"))),
        ("", batched(mapped(JPEG, num_parallel_calls=1), costs=cost("map", 0.5), bottleneck=("fixed parallelism", "batch"))),
        # A worker does 1,000 samples a second, so a call of 0.95 ms is busy for 95 % of the time.
        ("warning", batched(mapped(JPEG, num_parallel_calls=1), costs=cost("map", 0.95), bottleneck="CPU")),
        ("info", batched(mapped(JPEG, num_parallel_calls=17), costs=cost("map", 0.8))),
        ("", batched(mapped(JPEG, num_parallel_calls=16), costs=cost("map", 0.8))),
        ("", batched(mapped(JPEG, num_parallel_calls=17), costs=cost("map", 0.8), plan=make_plan("2x1x16"))),
        ("", batched(mapped(JPEG, num_parallel_calls=17))),  # whether they wait was not measured
        ("", batched(mapped(JPEG, num_parallel_calls=17), costs=cost("map", 0.8, self_cpu_s_per_sample=None))),
        ("", batched(mapped(JPEG, num_parallel_calls=100), costs=cost("map", 0.8, wait_s_per_sample=1.0))),
        # Calls that wait and hold the worker back get company, and threads; never fewer.
        *(
            (
                says("warning", edits=edits(("set-parallelism", "map", more), ("use-private-threads", "map", more))),
                batched(mapped(PYTHON, num_parallel_calls=calls), **waiting()),
            )
            for calls, more in [(8, 32), (1, 4)]
        ),
        ("", batched(mapped(PYTHON, num_parallel_calls=8), **waiting() | {"costs": cost("map", 0.1)})),
        ("", batched(mapped(PYTHON, num_parallel_calls=8), **waiting(op="batch"))),
        ("", batched(mapped(PYTHON, num_parallel_calls=8), **waiting("storage latency"))),
        # Half of two CPUs are too few here, and half of more on a larger node.
        (
            says("warning", edits=edits(("set-parallelism", "map"))),
            batched(
                replace(mapped(JPEG, num_parallel_calls=1), by_cpus={"num_parallel_calls": 512}),
                costs=cost("map", 0.95),
                bottleneck=("fixed parallelism", "map"),
            ),
        ),
        # The calls of an interleave decide its cycle where none is written.
        (
            says(lacks=["cycle_length"], after="ds = files.interleave(read, num_parallel_calls=tf.data.AUTOTUNE)"),
            interleaved("", 0),
        ),
        (says(fix="cycle_length", after=None), interleaved("", 7)),
        (says(lacks=["cycle_length"]), interleaved(", cycle_length=2", 7)),
    ],
    # A map that could take a batch is told, a warning where short calls fill the CPUs.
    "map-before-batch": [
        *(
            (severity, batched(mapped(), costs=cost("map", share), bottleneck=kind))
            for severity, share, kind in [
                ("warning", 0.6, "CPU"),
                ("warning", 0.6, "serial op"),
                ("info", 0.6, "readers"),
                ("info", 0.1, "CPU"),
                ("", 0.01, "CPU"),
            ]
        ),
        # Map and batch change places where the function has no eye for shapes.
        (
            says(after="ds = ds.batch(256).map(lambda x: tf.cast(x, tf.float32) / 255)", edits=edits(("vectorize", "map"))),
            one_statement("lambda x: tf.cast(x, tf.float32) / 255"),
        ),
        (says(after=None), one_statement("lambda x: scale(x)")),
        (says(after=None), one_statement("lambda x: tf.cast(x, tf.float32)[:6]", "StridedSlice")),
        (says(fix="x[:, :6]"), batched(mapped((*CAST, "DecodeRaw", "StridedSlice")), costs=cost("map", 0.6))),
        (says(fix="every tf.stack (axis=1)", lacks=["x[:, :6]"]), batched(mapped(("DecodeCSV", "Pack")), costs=cost("map", 0.6))),
        (says(fix="tf.io.parse_example"), batched(mapped((*PARSE, "SerializeSparse")), costs=cost("map", 0.6))),
        (
            says(evidence={"call_cpu_s": pytest.approx(3e-4)}),
            batched(mapped(), shuffle(), take(), repeat(), costs=cost("map", 0.6, elements_per_sample=2.0)),
        ),
        ("", batched(replace(mapped(), library_source="library.py:3"), costs=cost("map", 0.6))),
        ("", batched(mapped())),  # not measured
        *(
            ("", case_of(*reading(), *ops, prefetch(), costs=cost("map", 0.6)))
            for ops in [
                (mapped(JPEG), batch()),
                (mapped((*CAST, "RandomUniform")), batch()),
                (mapped(), batch(4)),
                (batch(), mapped()),
                (mapped(), cache(), batch()),
                (mapped(), mapped(JPEG), batch()),
                (mapped(), shuffle(), PADDED),
                (mapped((*PARSE, "SparseToDense")), batch()),
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
        ("", batched(replace(serial(), is_seeded=True, draws_alike=True))),
        ("", batched(mapped(RANDOM))),
    ],
}

test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)


def test_a_map_and_a_batch_of_a_loop_are_not_changed_for_all_its_rounds() -> None:
    code = "ds = ds.map(lambda x: x + 1).batch(256)"
    twice = (mapped(code=code), batch(code=code)) * 2
    case = case_of(*reading(), *twice, costs=(cost("map", 0.3), cost("map_2", 0.3)))
    assert [finding.after for finding in found("map-before-batch", case)] == [None, None]


def test_an_op_is_busy_for_its_cpu_time_by_the_rate_on_workers_that_have_more_cpus_than_calls() -> None:
    one, two = make_measurement("1x1x1", (500.0,)), make_measurement("1x1x2", (900.0,))
    case = batched(serial(), measurements=(one, two), costs=cost("map", 0.8))
    assert busy_ratio(case, serial()) == pytest.approx(900 * 0.8e-3)
    assert busy_ratio(case, serial(), 2) is None
    assert busy_ratio(replace(case, measurements=(one,)), serial()) is None
    assert busy_ratio(replace(case, profile=None), serial()) is None


def test_a_serial_map_says_where_more_tasks_of_one_cpu_do_the_same() -> None:
    """The fix is shown all the same: such a plan is the price of the map."""

    def said(plan: str, rate: float) -> Any:
        launches = (make_measurement("1x1x1", [rate]), make_measurement("1x1x2"))
        return only("serial-map", case_of(serial(JPEG + RANDOM), plan=make_plan(plan), measurements=launches))

    told = "tasks of one CPU instead"
    assert told in said("1x2x1", 500.0).message
    assert said("1x2x1", 500.0).edits
    assert told not in said("1x2x1", 100.0).message  # that worker mostly waits
    assert told not in said("1x1x2", 500.0).message
