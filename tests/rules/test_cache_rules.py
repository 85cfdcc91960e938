"""Rules of `cache`: when each fires, how loud, what it proposes, and when it is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cs_input_analyzer.records import Case, Component, Measurement, Op
from tests.builders import GIB, make_cluster, make_measurement, make_plan, make_worker
from tests.rules.lines import (
    CAST,
    JPEG,
    NAMES,
    RANDOM,
    READ,
    Rows,
    alone,
    batch,
    batched,
    cache,
    case_of,
    cost,
    edits,
    filtered,
    judged,
    mapped,
    op,
    prefetch,
    reading,
    repeat,
    says,
    shuffle,
    skip,
    take,
)

WHOLE_FILE = ("ReadFile", "DecodeJpeg")
BY_SEED = ("StatelessRandomGetKeyCounter", "StatelessRandomUniformV2")
# Pictures of 100 kB in 1 GiB of files: 10,738 of them.
PICTURES = {"worker": {"bytes_read_per_sample": 100e3}}
SAMPLES = GIB / 100e3
TAIL = (shuffle(), repeat(), batch())


def decoding(*ops: Op, share: float = 0.8, decoded: float = 1e6, **known: Any) -> Case:
    """Pictures whose map takes this share of the CPU time and makes so many bytes of each."""
    rows = (cost("interleave", 0.05), cost("map", share, bytes_out_per_sample=decoded))
    rows += tuple(cost(name, 0.1, bytes_out_per_sample=1e6) for name in ("take", "skip"))
    return case_of(*(ops or (*reading(), mapped(JPEG), *TAIL)), **({"costs": rows} | PICTURES | known))


def repeated_inside(count: int) -> Case:
    """The function of the interleave repeats each file."""
    *readers, interleave = reading()
    return decoding(
        *readers, replace(repeat(count), name="inner", within="interleave"), interleave, mapped(JPEG), shuffle(), batch()
    )


def merged(*after: Op, rows: Any = (), sent: float | None = None, **known: Any) -> Case:
    """Pictures whose map and batch TensorFlow merged into one op, of which no bytes are known. `sent`: bytes that workers sent."""
    unknown = {"bytes_out_per_sample": None, "self_cpu_s_per_sample": None, "share_ratio": None, "merged_into": "map"}
    costs = (cost("interleave", 0.05), cost("map", 0.8), cost("batch", 0.0, **unknown), *rows)
    worker = {"bytes_read_per_sample": 100e3, "bytes_out_per_sample": sent}
    return case_of(*reading(), mapped(JPEG), batch(), *after, prefetch(), costs=costs, worker=worker, **known)


def cached(*after: Op, **row: Any) -> Case:
    """A cache of 10,738 samples, and what takes from it."""
    return batched(mapped(CAST), cache(), *after, costs=cost("map", 0.1, **row), **PICTURES)


CACHED = "ds = ds.map(f).cache()"


def one_statement(functions: tuple[str, ...], **known: Any) -> Case:
    return case_of(*reading(), mapped(functions, code=CACHED), cache(code=CACHED), batch(), **known)


def two_launches(*sizes: float) -> tuple[Measurement, ...]:
    """Launches that read so many bytes for a sample."""
    return tuple(one for size in sizes for one in alone(bytes_read_per_sample=size))


def shared(*paths: str, plan: str | None = "3x4x2", workers: int | None = None) -> Case:
    """A file cache, for which each worker of a launch named this path of its own."""
    written = op("Cache", "cache", filename=f"/private/1-{paths[0].rsplit('/')[-1]}")
    seen = tuple(make_worker(index=number, writes=(path,)) for number, path in enumerate(paths))
    launch = make_measurement(f"1x{len(paths)}x1", workers=seen)
    counted = {} if workers is None else {"input_workers": workers}
    return case_of(*reading(), written, measurements=(launch,), plan=make_plan(plan, **counted) if plan else None)


OPEN_SHAPE = (Component(name="image", shape=(256, None, None, 3), dtype="uint8"),)
IN_MEMORY = {"cache_bytes_per_node": round(SAMPLES * 1e6)}

ROWS: Rows = {
    # A cache is asked for where it becomes complete, fits and helps, with the memory that it takes.
    "cache-missing": [
        (says("warning", edits=edits(("insert-cache", "map")), evidence=IN_MEMORY), decoding()),
        ("info", decoding(share=0.3)),
        ("", decoding(share=0.1)),
        (  # before the take it would never be complete
            says("warning", edits=edits(("insert-cache", "take")), evidence={"cache_bytes_per_node": 100e6}),
            decoding(*reading(), mapped(JPEG), take(), *TAIL),
        ),
        (says(edits=edits(("insert-cache", "skip")), evidence=IN_MEMORY), decoding(*reading(), mapped(JPEG), skip(100), *TAIL)),
        ("", decoding(*reading(), mapped(JPEG), shuffle(), take(), repeat(), batch())),
        ("", decoding(*reading(), mapped(JPEG), shuffle(), op("TakeWhile", "take_while"), repeat(), batch())),
        ("", decoding(*reading(), mapped(JPEG), shuffle(), op("Zip", "zip"), repeat(), batch())),
        ("", decoding(*reading(), mapped(JPEG), mapped(RANDOM), take(), repeat(), batch())),
        ("warning", decoding(*reading(), mapped(JPEG), shuffle(), repeat(), take(), batch())),
        ("", decoding(NAMES, repeat(), *READ, mapped(JPEG), shuffle(), batch())),  # nothing says where a pass ends
        ("warning", repeated_inside(2)),
        ("", repeated_inside(-1)),
        # Of 2 nodes with 8 tasks each, on each of which the caches of all its workers are.
        (
            says(evidence={"cache_bytes_per_node": round(SAMPLES * 1e6 * 8)}),
            decoding(
                plan=make_plan("2x8x2", input_workers=16),
                cluster=make_cluster(memory_bytes_per_node=512 * GIB),
                is_sharded=False,
            ),
        ),
        ("", decoding(decoded=7e6)),
        # The bytes of a batch that was merged into its map are those of what follows, of what was sent, or of the spec.
        (says(evidence=IN_MEMORY), merged(repeat(), rows=(cost("repeat", 0.0, bytes_out_per_sample=1e6),))),
        (says(op="batch", evidence=IN_MEMORY), merged(repeat(), sent=1e6)),
        ("warning", merged(repeat())),
        ("", merged(repeat(), sent=7e6)),
        ("", merged(repeat(), element_spec=OPEN_SHAPE)),
        ("", merged(repeat(), filtered(), sent=1e6)),  # what was dropped is not in them
        ("", merged(repeat(), op("Zip", "zip"), sent=1e6)),  # another dataset's bytes are in them
        ("", merged(is_infinite=False)),
        *(
            (severity, decoding(*reading(), mapped(JPEG), shuffle(), repeat(count), batch(), is_infinite=False))
            for severity, count in [("warning", 2), ("", 1), ("", 0)]
        ),
        (  # where workers do not agree on the samples, it must hold the most of them
            says("warning", evidence={"cache_bytes_per_node": round(GIB / 10e3 * 1e5)}),
            decoding(decoded=1e5, worker=None, measurements=two_launches(10e3, 100e3)),
        ),
        ("", decoding(mode="eval")),
        ("", decoding(files=None)),
        ("", decoding(*reading(), mapped((*JPEG, *BY_SEED)), *TAIL)),
        ("", decoding(*reading(), mapped((*JPEG, *RANDOM)), *TAIL)),
        ("", decoding(*reading(), cache(), mapped(JPEG), *TAIL)),
        # Reading alone is worth one only where the storage is the bottleneck.
        *(
            (severity, case_of(*reading(), *TAIL, costs=cost("interleave", 0.9), bottleneck=kind, **PICTURES))
            for severity, kind in [("warning", "storage bandwidth"), ("warning", "storage latency"), ("", "CPU")]
        ),
    ],
    # The cache goes before what is random only where nothing lies between: it is never edited, and no matter in evaluation.
    "cache-after-randomness": [
        (says("warning", edits=(), after="ds = ds.cache().map(f)"), one_statement(RANDOM)),
        (says("info", after="ds = ds.cache().map(f)"), one_statement(BY_SEED)),
        (
            says("warning", after=None),
            case_of(
                *reading(), mapped(RANDOM, code="ds = ds.map(augment)"), mapped(CAST, code=CACHED), cache(code=CACHED), batch()
            ),
        ),
        ("", one_statement(CAST)),
        ("", one_statement(RANDOM, mode="eval")),
        ("", case_of(NAMES, shuffle(), *READ, cache(), batch())),
        # A file is a sample: a shuffle of all names is one of samples, until a cache keeps its first order.
        (says("info", fix="batch after that, not in batch"), case_of(NAMES, shuffle(), mapped(WHOLE_FILE), batch(), cache())),
        (says("info", fix="put the cache before shuffle"), case_of(NAMES, shuffle(), cache(), mapped(WHOLE_FILE), batch())),
        ("", case_of(NAMES, shuffle(), mapped(WHOLE_FILE), cache(), replace(shuffle(), name="shuffle_2"), batch())),
        ("info", batched(shuffle(), cache(), repeat())),
        ("", batched(shuffle(), cache(), shuffle(), repeat())),
    ],
    # A cache that is not complete or too early is told, by what was measured where it was; a zip ends with its shorter input.
    "cache-misplaced": [
        (says("warning", edits=()), batched(repeat(), mapped(CAST), cache())),
        (says("info", edits=edits(("swap", "map"))), batched(cache(), mapped(JPEG), repeat())),
        (says("info", edits=()), batched(cache(), mapped((*JPEG, *RANDOM)), repeat())),
        ("warning", decoding(*reading(), cache(), mapped(JPEG), *TAIL)),
        ("", decoding(*reading(), cache(), mapped(JPEG), *TAIL, share=0.1)),
        ("", decoding(*reading(), cache(), mapped(JPEG), *TAIL, decoded=7e6)),
        ("", batched(mapped(JPEG), cache(), mapped(RANDOM), repeat())),
        ("", batched(mapped(JPEG), cache(), repeat())),
        ("", batched(cache(), take(-1), repeat())),
        # A take behind the cache stops it, unless it takes all, or a shuffle or a filter between them may do so.
        (says("warning", op="cache", message="take stops before"), cached(batch(100), take())),
        ("", cached(shuffle(2560), take())),
        ("", cached(batch(256), take())),
        ("", cached(shuffle(2560), filtered(), take())),
        # A pass was seen in which the map did not run: the cache is complete.
        ("", cached(take(), elements_per_sample=0.0, self_cpu_s_per_sample=None)),
        ("warning", cached(take(), elements_per_sample=0.0)),  # it took CPU
        ("warning", cached(take(), elements_per_sample=None, self_cpu_s_per_sample=None)),
    ],
    # A cache of each worker's own, or of one worker, is right.
    "cache-path-shared": [
        ("error", shared("/tmp/c", "/tmp/c")),  # several tasks of a node
        ("error", shared("/data/c", "/data/c", plan="3x1x2")),
        ("", shared("/tmp/c", "/tmp/c", plan="3x1x2")),
        ("", shared("/data/c", "/data/d")),
        ("", shared("/data/c")),  # no launch of several was measured
        ("", shared("/data/c", "/data/c", workers=1)),
        ("", shared("/data/c", "/data/c", plan=None)),
    ],
}

test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)
