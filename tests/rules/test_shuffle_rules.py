"""Rules of `shuffle`: when each fires, how loud, what it proposes, and when it is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cs_input_analyzer.records import Case, Component, Op, SamplesPerElement
from tests.builders import GIB, make_cluster, make_plan, make_steady_state
from tests.rules.lines import (
    CAST,
    GENERATOR,
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
    judged,
    mapped,
    op,
    reading,
    repeat,
    says,
    shuffle,
)

WHOLE_FILE = mapped(("ReadFile", "DecodeJpeg"))
PAIRS = replace(NAMES, parameters={"elements": 50_000})
TWO_EACH: dict[str, Any] = {"files": 100_000, "is_sharded": False}
LONG = shuffle(2_000_000)


def decoded(functions: tuple[str, ...], size: float, memory: int) -> Case:
    """Elements of 100 kB that a map makes as large as this, and a shuffle of a thousand of them."""
    row = cost("map", 0.5, bytes_in_per_sample=100e3, bytes_out_per_sample=size)
    return batched(mapped(functions), shuffle(1000), costs=row, cluster=make_cluster(memory_bytes_per_node=memory))


def of_kibibytes(*ops: Op, gap_s: float | None = None, **known: Any) -> Case:
    """1 GiB of records of 1 KiB. `gap_s`: between two passes."""
    worker = {"bytes_read_per_sample": 1024.0, "steady_state": make_steady_state(epochs=3, epoch_gap_s=gap_s)}
    return case_of(*ops, batch(), **({"worker": worker} | known))


def launches(*sizes: float) -> dict[str, Any]:
    """Launches whose workers read so many bytes for a sample."""
    return {"worker": None, "measurements": tuple(one for size in sizes for one in alone(bytes_read_per_sample=size))}


def open_ended(case: Case) -> Case:
    """The last batch may hold fewer than 256 samples: they are counted in each element."""
    counted = SamplesPerElement(value=256, source="batch(256)", counted_in=0)
    return replace(case, pipeline=replace(case.pipeline, batch_size=None, samples_per_element=counted))


def zipped(length: int, *between: Op) -> Case:
    """Pictures and their masks, of two lists, before these ops and a shuffle of this length."""
    case = case_of(PAIRS, WHOLE_FILE, *between, shuffle(length), batch(), **TWO_EACH)
    names, read, *later = case.pipeline.ops
    masks = (replace(names, name="masks"), replace(read, name="read_masks", inputs=("masks",)))
    both = op("Zip", "zip")
    first = replace(later[0], inputs=("zip",))
    ops = (names, read, *masks, replace(both, inputs=(read.name, "read_masks")), first, *later[1:])
    return replace(case, pipeline=replace(case.pipeline, ops=ops))


PICTURE_BYTES = {"bytes_per_element": 224 * 224 * 3 * 2 + 4}
OPEN_SHAPE = (Component(name="image", shape=(256, None, None, 3), dtype="float16"),)

ROWS: Rows = {
    # A shuffle of pictures is told and moved before their decoding; its memory is measured.
    "shuffle-of-decoded": [
        (
            says(edits=edits(("swap", "shuffle"), ("swap", "shuffle")), evidence=PICTURE_BYTES),
            batched(mapped(JPEG), mapped(RANDOM), shuffle(1000)),
        ),
        (says(edits=edits(("swap", "shuffle"))), batched(mapped(CAST), mapped(JPEG), shuffle(1000))),
        ("info", decoded(JPEG, 600e3, 128 * GIB)),
        ("warning", decoded(CAST, 600e3, 4 * GIB)),
        ("", decoded(CAST, 150e3, 4 * GIB)),
        (says("info", evidence={"buffer_bytes": None}), batched(mapped(JPEG), shuffle(1000), element_spec=OPEN_SHAPE)),
        ("", batched(shuffle(1000), mapped(JPEG))),
        ("", batched(mapped(CAST), shuffle(1000))),
        ("", batched(mapped(JPEG), shuffle(10))),
        ("", batched(mapped(JPEG), cache(), shuffle(1000))),
        # Behind a zip it is told, and the user's to move.
        (says(edits=(), fix="zip and shuffle before map, while", evidence=PICTURE_BYTES), zipped(1000)),
        (says(edits=(), fix="zip and shuffle before map, while"), zipped(1000, mapped(RANDOM))),
        (says(edits=edits(("swap", "shuffle"))), zipped(1000, mapped(JPEG))),
        ("", zipped(1000, cache())),
        ("", zipped(10)),
        # The buffer holds no more than there is: here files, each a sample.
        (
            says(message="keeps 1,024 decoded", evidence={"buffer_bytes": 1024 * 100e3}),
            case_of(NAMES, WHOLE_FILE, shuffle(5000), batch(), costs=cost("map", 0.5)),
        ),
    ],
    # A buffer is compared with what one worker has; a warning where it delays each pass.
    "shuffle-exceeds-shard": [
        *(
            (severity, of_kibibytes(*reading(), LONG, repeat(), gap_s=gap_s))
            for severity, gap_s in [("info", None), ("info", 2.0), ("warning", 500.0)]
        ),
        ("", of_kibibytes(*reading(), shuffle(1_000_000), repeat())),
        # Behind a cache, file names are shuffled once.
        (says(fix="shuffle the file names, and give the buffer"), of_kibibytes(*reading(), LONG, cache(), repeat())),
        (says(fix="give the buffer", lacks=["file names"]), of_kibibytes(*reading(), cache(), LONG, repeat())),
        ("", of_kibibytes(*reading(), cache(), shuffle(1_000_000), repeat())),
        # A worker has no more than ten batches.
        ("", of_kibibytes(*reading(), shuffle(2560), plan=make_plan("1x2000x1", input_workers=2000), is_sharded=True)),
        ("", of_kibibytes(*reading(), repeat(), LONG)),  # filled once
        ("", of_kibibytes(*reading(), batch(), LONG)),
        ("", of_kibibytes(NAMES, LONG, *READ)),
        ("", of_kibibytes(*reading(), LONG, **launches(7_809.0, 126_720.0))),
        ("info", of_kibibytes(*reading(), LONG, **launches(1_000.0, 1_400.0))),
        (  # counted, whatever was read for a sample
            says(message="only about 1,024", evidence={"samples_of_a_worker": 1024}),
            of_kibibytes(NAMES, WHOLE_FILE, shuffle(5000), **launches(7_809.0, 126_720.0)),
        ),
        # A picture and its mask are two files of one sample, in one list or in a zip of two. A list of folders tells no
        # samples. One that Python code dealt out may be that of one worker.
        (says(message="only about 50,000"), case_of(PAIRS, WHOLE_FILE, shuffle(60_000), batch(), **TWO_EACH)),
        ("", case_of(PAIRS, WHOLE_FILE, shuffle(50_000), batch(), **TWO_EACH)),
        ("", case_of(PAIRS, op("FlatMap", "flat_map"), WHOLE_FILE, shuffle(60_000), batch(), **TWO_EACH)),
        ("", case_of(PAIRS, WHOLE_FILE, shuffle(60_000), batch(), files=100_000, is_sharded=True)),
        (says(message="only about 50,000"), zipped(60_000)),
        ("", zipped(50_000)),
        ("", of_kibibytes(*reading(), LONG, worker={"bytes_read_per_sample": None})),
        # Files that are read in slices.
        ("", of_kibibytes(*reading(), op("Skip", "skip", within="flat_map"), op("FlatMap", "flat_map"), LONG)),
    ],
    # A buffer shorter than a batch is told, or under a hundredth of a shard unless the names are shuffled.
    "shuffle-too-small": [
        ("", batched(shuffle(256))),
        ("", batched(shuffle(16), mode="eval")),
        ("info", of_kibibytes(*reading(), shuffle(5_000))),
        ("", of_kibibytes(*reading(), shuffle(20_000))),
        ("", of_kibibytes(NAMES, shuffle(1024), *READ, shuffle(5_000))),
        (says(fix=("give it a buffer of 2,560", "and shuffle the file names")), batched(shuffle(16))),
        # Names that are shuffled, and names that are not there, need no shuffle.
        (says(fix="give it a buffer of 2,560", lacks=["names"]), case_of(NAMES, shuffle(64), *READ, shuffle(16), batch())),
        (says(fix="give it a buffer of 2,560", lacks=["names"]), case_of(*GENERATOR, shuffle(16), batch())),
        (says(fix="give it a buffer of 2,560", lacks=["names"]), batched(cache(), shuffle(16))),
        ("", batched(shuffle(16), batch(1), shuffle(2560))),
        (says(fix="give it a buffer of 2,560"), open_ended(batched(shuffle(16)))),
    ],
    "shuffle-after-batch": [
        ("warning", batched(batch(), shuffle(20))),
        ("", batched(batch(), shuffle(20), mode="eval")),
        ("", batched(shuffle(), batch(), shuffle(20))),
        ("", case_of(NAMES, shuffle(1024), WHOLE_FILE, batch(), shuffle(20))),
        ("warning", case_of(NAMES, WHOLE_FILE, batch(), shuffle(20))),
    ],
    "repeat-before-shuffle": [
        ("info", batched(repeat(), shuffle())),
        ("info", batched(repeat(3), mapped(), shuffle())),
        ("", batched(repeat(1), shuffle())),
        ("", batched(repeat(), shuffle(), mode="eval")),
        ("", case_of(NAMES, repeat(), *READ, shuffle(), batch())),
        ("", batched(shuffle(), repeat(), shuffle())),
        ("", batched(shuffle(), repeat())),
    ],
    # Samples that nothing mixes are told, once.
    "shuffle-missing": [
        (says("info", op="batch"), batched()),
        (says(fix="put .shuffle(2,560) before batch"), open_ended(batched())),
        ("info", case_of(NAMES, shuffle(), *reading("FlatMap")[1:], batch())),  # one file after the other
        ("", batched(mode="eval")),
        ("", case_of(NAMES, shuffle(), *READ, batch())),
        ("", case_of(*reading())),
        ("", case_of(op("Range", "range"), mapped(CAST), batch())),
        ("", case_of(op("TextLine", "lines"), NAMES, batch())),
        # A file is a sample: a shuffle of all names mixes all samples, and holds no picture.
        ("", case_of(NAMES, shuffle(1024), WHOLE_FILE, batch())),
        (says("info", fix="names, with a buffer of all 1,024", lacks=["stand together"]), case_of(NAMES, WHOLE_FILE, batch())),
        ("info", case_of(NAMES, shuffle(1024), WHOLE_FILE, op("Unbatch", "unbatch"), batch())),  # of many samples
        ("", case_of(NAMES, shuffle(1024), WHOLE_FILE, batch(32), op("Unbatch", "unbatch"), replace(batch(), name="batch_2"))),
    ],
}

test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)
