"""Rules of buffers and caches: when each fires, how loud, what it proposes, and when it keeps quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cs_input_analyzer.records import Case, Component, Edit, Estimate, Measurement, Op
from tests.builders import GIB, make_cluster, make_plan, make_station, make_steady_state
from tests.rules.lines import (
    CAST,
    GENERATOR,
    JPEG,
    NAMES,
    RANDOM,
    READ,
    Expected,
    Rows,
    alone,
    batch,
    cache,
    case_of,
    cost,
    judged,
    mapped,
    measured,
    op,
    options,
    prefetch,
    reading,
    repeat,
    says,
    shuffle,
)

OFF = options(autotune__enabled=False)
BY_SEED = ("StatelessRandomGetKeyCounter", "StatelessRandomUniformV2")
TAKE, TAKE_ALL, TAKE_WHILE = op("Take", "take", count=100), op("Take", "take", count=-1), op("TakeWhile", "take_while")


def read(*ops: Op, **overrides: Any) -> Case:
    """What follows the readers, up to a prefetch at the end."""
    return case_of(*reading(), *ops, prefetch(), **overrides)


def batched(*ops: Op, **overrides: Any) -> Case:
    return read(*ops, batch(), **overrides)


def ending(*ops: Op, station: str | None = None) -> Case:
    """A pipeline that ends so, on a worker that the thread of an op holds back."""
    stations = (make_station("serial op", op=station, utilization_ratio=0.95),) if station else ()
    return replace(case_of(*reading(), *ops), stations=stations)


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


def repeated_inside(count: int) -> Case:
    inner = replace(repeat(count), name="inner", within="interleave")
    return decoding(*reading()[:3], inner, reading()[3], mapped(JPEG), shuffle(), batch())


def on_nodes(size: float, **overrides: Any) -> tuple[Expected, Case]:
    """Of 2 nodes with 8 tasks each; the memory that caches take there is that of all workers."""
    plan, cluster = make_plan("2x8x2", input_workers=16), make_cluster(memory_bytes_per_node=512 * GIB)
    return says(evidence={"cache_bytes_per_node": round(size)}), decoding(plan=plan, cluster=cluster, **overrides)


def only_read(kind: str) -> Case:
    case = measured(decoding(*reading(), shuffle(), repeat(), batch(), prefetch()), cost("interleave", 0.9))
    return replace(case, stations=(make_station(kind, utilization_ratio=0.95),))


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


def launch(first_s: float | None, gap_s: float | None = 0.1) -> Measurement:
    (found,) = alone(first_batch_s=first_s, batches_per_s=1 / gap_s if gap_s is not None else None)
    return found


def starting(*launches: Measurement, buffer_size: int = 10_000, size: int = 256) -> Case:
    return case_of(*reading(), mapped(JPEG), shuffle(buffer_size), batch(size), measurements=launches)


def passing(*ops: Op, buffer_size: int = 10_000, window_s: float = 39.0, **overrides: Any) -> Case:
    """A worker of the plan reads 40,000 samples in a pass, 1,000 in a second; its first batch, within a second, is no slow one."""
    known = {"bytes_read_per_sample": GIB / 40_000, "steady_state": make_steady_state(window_s=window_s)}
    given = {
        "measurements": alone(first_batch_s=10.0, batches_per_s=0.2, **known),
        "plan": make_plan(input_workers=1, predicted_samples_per_s=Estimate.exact(1000.0)),
    }
    return case_of(*reading(), mapped(JPEG), shuffle(buffer_size), *ops, **(given | overrides))


ROWS: Rows = {
    # A prefetch that is there, or that TensorFlow adds, is not asked for.
    "prefetch-missing": [
        (no_prefetch("set-buffer", "prefetch"), ending(batch(), prefetch(0), repeat())),
        (no_prefetch("insert-prefetch", "batch"), ending(batch(), repeat(), OFF)),
        (no_prefetch("insert-prefetch", "batch"), ending(batch(), options(optimization__inject_prefetch=False))),
        ("warning", ending(batch(), OFF, station="batch")),
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
        (says("info", op="shuffle"), starting(launch(10.0))),
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
    ],
}


test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)
