"""Rules of what comes in which order, and when: the order kept, the first batch, the end of a pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cs_input_analyzer.records import Case, Estimate, Measurement, Op, Training
from tests.builders import GIB, make_files, make_plan, make_steady_state
from tests.rules.lines import (
    CAST,
    JPEG,
    NAMES,
    PARSE,
    READ,
    Rows,
    alone,
    batch,
    batched,
    case_of,
    cost,
    edits,
    filtered,
    judged,
    line,
    mapped,
    op,
    options,
    prefetch,
    reading,
    repeat,
    says,
    shard,
    shuffle,
    take,
)

UNSEEDED = shuffle(seed=0)
OFF = options(autotune__enabled=False)


# --- order -------------------------------------------------------------------------------------------------------------------


def interleaved(deterministic: str, *behind: Op, code: str | None = None, **known: Any) -> Case:
    return case_of(*reading(deterministic=deterministic, code=code), *behind, batch(), **known)


ORDERED = "ds = files.interleave(read, deterministic=True)"


# --- filters -----------------------------------------------------------------------------------------------------------------

DROPPED = cost("filter", 0.01)
RESAMPLE = "ds = ds.rejection_resample(class_of, [0.5, 0.5])"


def decoded(share: float, each: float | None) -> dict[str, Any]:
    """A map that takes this share of the CPU time, and gives so many elements for one that the filter leaves."""
    return {"costs": (cost("map", share, elements_per_sample=each), DROPPED)}


def zipped(share: float, each: float | None, code: str | None = None) -> Case:
    """A filter behind a zip, as `rejection_resample` makes it; its map there takes what the user's leaves."""
    made = [replace(one, code=code) for one in (op("Zip", "zip"), mapped(CAST), filtered())]
    ops = line(*reading(), mapped(JPEG), op("Random", "random"), *made, batch())
    ops = tuple(replace(one, inputs={"random": (), "zip": ("map", "random")}.get(one.name, one.inputs)) for one in ops)
    rows = (cost("map", share, elements_per_sample=each), cost("map_2", 0.1, elements_per_sample=each), DROPPED)
    case = batched(costs=rows)
    return replace(case, pipeline=replace(case.pipeline, ops=ops))


def inside_interleave(share: float, each: float | None) -> Case:
    """The map and the filter are in the function of the interleave."""
    *readers, interleave = reading()
    held = [replace(mapped(PARSE), within="interleave", inputs=("flat_map",))]
    held += [replace(filtered(), within="interleave", inputs=("map",))]
    case = batched(**decoded(share, each))
    ops = (*line(*readers), *held, *line(interleave, batch()))
    return replace(case, pipeline=replace(case.pipeline, ops=ops))


# --- the first batch, and the end of a pass ----------------------------------------------------------------------------------

QUICK = tuple(cost(name, 0.0) for name in ("TFRecordDataset", "flat_map", "interleave"))
# A sample costs 1 ms before the shuffle.
BEFORE = (*QUICK, cost("map", 1.0))
UNKNOWN_MAP = (*QUICK, cost("map", 0.9, self_cpu_s_per_sample=None))


def launch(first_s: float | None, gap_s: float | None = 0.1) -> Measurement:
    (found,) = alone(first_batch_s=first_s, batches_per_s=1 / gap_s if gap_s is not None else None)
    return found


def starting(*launches: Measurement, buffer_size: int = 10_000, size: int = 256, costs: Any = BEFORE) -> Case:
    ops = (*reading(), mapped(JPEG), shuffle(buffer_size), batch(size))
    return case_of(*ops, measurements=launches, costs=(*costs, cost("shuffle", 0.0)))


def passing(*ops: Op, buffer_size: int = 10_000, window_s: float = 39.0, **known: Any) -> Case:
    """A worker of the plan reads 40,000 samples in a pass, 1,000 in a second; its first batch, within a second, is no slow one."""
    window = make_steady_state(window_s=window_s)
    seen = {"first_batch_s": 10.0, "batches_per_s": 0.2, "bytes_read_per_sample": GIB / 40_000, "steady_state": window}
    plan = make_plan(input_workers=1, predicted_samples_per_s=Estimate.exact(1000.0))
    settings = {"worker": seen, "plan": plan, "costs": BEFORE} | known
    return case_of(*reading(), mapped(JPEG), shuffle(buffer_size), *ops, **settings)


def training(batches: int | None, steps: int | None, *, epochs: int | None = None, **known: Any) -> Case:
    """Data of so many batches in each of 79 workers that share them, and a training of so many steps."""
    window = make_steady_state(epochs=0)
    case = case_of(
        *(NAMES, shard(1), *READ),
        batch(),
        is_infinite=False,
        files=make_files(bytes=64 * GIB),
        **{"training": Training(steps=steps, epochs=epochs), "plan": make_plan("5x16x2", input_workers=79)}
        | {"measurements": alone(layout="1x1x1", steady_state=window)}
        | known,
    )
    return replace(case, pipeline=replace(case.pipeline, cardinality=batches))


def ending(*ops: Op) -> Case:
    """Records of files whose names are shuffled, which ended twice in a window."""
    window = make_steady_state(epochs=2)
    return case_of(NAMES, shuffle(64), *reading("FlatMap")[1:], *ops, is_infinite=False, worker={"steady_state": window})


def read_again(kind: str = "TensorSlice", *, ends: bool = False, cardinality: int | None = None, **seen: Any) -> Case:
    """A source of this kind that gave 12 elements, and nothing when it was read again."""
    mode = seen.pop("mode", "train")
    state = make_steady_state(**({"epochs": 2, "pass_elements": 12, "stopped_by": "data_end"} | seen))
    case = case_of(op(kind, "source"), batch(), is_infinite=not ends, mode=mode, worker={"steady_state": state})
    return replace(case, pipeline=replace(case.pipeline, cardinality=cardinality))


ENDED = case_of(NAMES, shard(1), *READ, repeat(), batch(), take(), is_infinite=False, files=make_files(bytes=64 * GIB))


ROWS: Rows = {
    # A forced order is told where a seedless shuffle follows, and never given up by an edit.
    "order-forced": [
        (says("info", edits=(), after=ORDERED.replace("True", "False")), interleaved("true", UNSEEDED, code=ORDERED)),
        ("info", interleaved("default", UNSEEDED, options(deterministic=True))),
        (
            says("info", op="interleave", message="interleave, map keep", evidence={"ops": 2}),
            interleaved("true", mapped(deterministic="true"), UNSEEDED),
        ),
        # Nobody asked for it: only an op that waits for its calls is held up.
        ("info", interleaved("default", UNSEEDED, costs=cost("interleave", 0.1, wait_s_per_sample=1.0))),
        ("", interleaved("default", UNSEEDED, costs=cost("interleave", 0.1))),
        ("", interleaved("false", UNSEEDED)),
        ("", interleaved("true", batch(), UNSEEDED)),
        ("", interleaved("true", UNSEEDED, take())),
        ("info", batched(batch(), mapped(deterministic="true"), UNSEEDED)),  # of batches, whose order is random then
    ],
    # A filter after decoding wastes the cost of what it drops.
    "late-filter": [
        ("warning", batched(mapped(JPEG), filtered(), **decoded(0.8, 2.0))),
        ("info", batched(mapped(JPEG), filtered(), **decoded(0.3, 1.25))),
        ("", batched(mapped(JPEG), filtered(), **decoded(0.1, 2.0))),
        ("", batched(mapped(JPEG), filtered(), **decoded(0.8, 1.01))),
        ("", batched(mapped(JPEG), filtered())),  # nobody knows what it drops
        ("", batched(mapped(JPEG), filtered(), **decoded(0.8, None))),
        ("", batched(mapped(JPEG), filtered(), costs=(cost("map", 0.8), cost("filter", 0.01, elements_per_sample=None)))),
        ("", batched(mapped(JPEG), filtered(), **decoded(0.8, 0.0))),  # before a complete cache
        ("", batched(mapped(JPEG), filtered(), costs=(cost("map", 0.8, share_ratio=None, elements_per_sample=2.0), DROPPED))),
        ("", batched(mapped(JPEG), batch(), filtered(), **decoded(0.8, 2.0))),
        # Behind a zip the maps of all inputs count; a library's filter is not the user's to move.
        (says("warning", op="filter", message=("drops 95 %", "after map and map_2"), lacks=["resample"]), zipped(0.8, 20.0)),
        ("", zipped(0.8, 20.0, RESAMPLE)),
        # Inside an interleave it is the same, and a filter before it has its own drop.
        (says("warning", op="filter", message="drops 95 %"), inside_interleave(0.8, 20.0)),
        (
            "warning warning",
            batched(
                mapped(JPEG),
                filtered(),
                filtered(),
                costs=(
                    cost("map", 0.8, elements_per_sample=20.0),
                    cost("filter", 0.01, elements_per_sample=2.0),
                    cost("filter_2", 0.01),
                ),
            ),
        ),
    ],
    # A prefetch that is there, or that TensorFlow adds, is not asked for.
    "prefetch-missing": [
        (says("info", edits=edits(("set-buffer", "prefetch"))), case_of(*reading(), batch(), prefetch(0), repeat())),
        (says("info", edits=edits(("insert-prefetch", "batch"))), case_of(*reading(), batch(), repeat(), OFF)),
        ("warning", case_of(*reading(), batch(), OFF, bottleneck=("serial op", "batch"))),
        ("info", case_of(*reading(), batch(), OFF, bottleneck=("serial op", "interleave"))),
        ("", case_of(*reading(), batch())),  # TensorFlow appends one
        ("", case_of(*reading(), batch(), prefetch(1), repeat(), take(), OFF)),
        ("", case_of(*reading(), batch(), mapped(), OFF)),  # works ahead by itself
    ],
    # A drained buffer does not make a first batch slow, nor does one slow start of many; the shuffle is named where it explains it.
    "slow-first-batch": [
        (says("info", op="shuffle", evidence={"fill_s": 10.0}), starting(launch(10.0))),
        (says("warning"), starting(launch(70.0))),
        # A fill is priced by what is before the shuffle, and by nothing where that is not known.
        (says("info", op=None, evidence={"fill_s": 0.1}), starting(launch(10.0), costs=(*QUICK, cost("map", 0.01)))),
        (
            says("info", op="shuffle", lacks=["fills"], fix="was not measured", evidence={"fill_s": None}),
            starting(launch(10.0), costs=UNKNOWN_MAP),
        ),
        ("", starting(launch(None))),
        ("", starting(launch(10.0, None))),
        ("", starting(launch(10.0), launch(0.5), launch(0.6))),
        # At each pass again, unless the next pass can fill it while the last one drains.
        (says("warning", op="shuffle", evidence={"refill_ratio": 0.2}), passing(batch(), repeat())),
        (says("warning", evidence={"refill_ratio": 1 / 9}), passing(batch(), repeat(), demand_samples_per_s=500.0)),
        (says(evidence={"refill_ratio": 0.2}), passing(batch(), repeat(), buffer_size=10**6)),  # no more than a start took
        ("", passing(batch(), repeat(), window_s=41.0)),  # the rate holds it
        ("", passing(repeat(), batch())),
        ("", passing(batch(), repeat(), mode="eval")),
        ("", passing(batch())),
        ("", passing(batch(), repeat(), costs=UNKNOWN_MAP)),
        ("", passing(batch(), repeat(), costs=(*QUICK, cost("map", 0.01)))),  # encoded records fill it, before what is costly
    ],
    # Data that ended in a window, or that end before the steps do.
    "dataset-ends": [
        ("warning", training(100, None, measurements=alone(layout="1x1x1", steady_state=make_steady_state(epochs=2)))),
        ("", case_of(*reading(), batch(), is_infinite=False, mode="eval", worker={"steady_state": make_steady_state(epochs=2)})),
        # The finding names only ops that the pipeline has.
        (says(fix="add .repeat() after shuffle_2 and before prefetch, and"), ending(shuffle(), batch(), prefetch())),
        (says(fix="add .repeat() before prefetch, and", lacks=["after"]), ending(batch(), prefetch())),
        (says(fix="add .repeat(), and"), ending(batch())),
        ("", case_of(*reading(), batch(), worker={"steady_state": make_steady_state(epochs=2)})),
        (
            "",
            replace(
                training(100, None, measurements=alone(layout="1x1x1", steady_state=make_steady_state(epochs=2))), ends_epochs=True
            ),
        ),
        (says("warning", evidence={"batches": 100 * 79}), training(100, 10_000, is_sharded=False)),  # each worker has all of them
        (says("warning", evidence={"batches": 10}), training(10, 1000)),  # the first launch had one worker
        (says("warning", evidence={"batches": 64 * GIB / 146_800 / 256 / 0.8}), training(None, 10_000)),
        ("", training(10, 1000, epochs=100)),
        ("", training(None, 1000, measurements=())),
        # The names of the files are repeated without end; TensorFlow does not know of the records in them.
        ("", replace(training(None, 10_000), pipeline=case_of(NAMES, repeat(), *READ, batch(), is_infinite=False).pipeline)),
        ("", replace(training(None, 10_000), pipeline=ENDED.pipeline)),  # repeated without end, and ended later
        # Of data that ended for good the first thing to say is that.
        (
            says("error", message=["claims to be endless", "12 elements", "read again"], fix="from_generator"),
            read_again("Generator"),
        ),
        (says("error", message="claims to be endless", fix="read again"), read_again(stopped_by="budget")),
        (says("error", message="gave 12 elements, and none", lacks=["claims"]), read_again(ends=True)),
        (says("error", message="claims to have 40 elements"), read_again(ends=True, cardinality=40)),
        (says("error", message="endless"), read_again(mode="eval")),
        ("", read_again(ends=True, mode="eval")),
        ("", read_again(epochs=0, pass_elements=None, stopped_by="budget")),
    ],
}

test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)
