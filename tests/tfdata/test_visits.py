"""Visit ratios and costs per sample: what was thrown away between polls must not be missing from the result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.visits import OpCounts, per_sample, records_per_sample, visit_ratios, well_seen
from tests.worker.ops import op

CHAIN = (
    op("files", "TensorSlice"),
    op("records", "TFRecord", within="interleave"),
    op("interleave", "ParallelInterleave", "files"),
    op("shuffle", "Shuffle", "interleave"),
    op("map", "ParallelMap", "shuffle"),
    op("batch", "Batch", "map", batch_size=32),
    op("repeat", "Repeat", "batch"),
    op("prefetch", "Prefetch", "repeat"),
)


FILTERED = (op("range", "Range"), op("filter", "Filter", "range"), op("batch", "Batch", "filter", batch_size=10))
CACHED = (op("read", "TFRecord"), op("cache", "Cache", "read"), op("batch", "Batch", "cache", batch_size=32))
REBATCHED = (
    op("range", "Range"),
    op("batch", "Batch", "range", batch_size=32),
    op("dense", "Map", "batch"),  # `rebatch` adds it, and TensorFlow leaves it out
    op("rebatch", "Rebatch", "dense"),
)
WHOLE = (op("read", "TFRecord"), op("whole", "IgnoreErrors", "read"))
ZIPPED = (op("a", "Range"), op("b", "Range"), op("zip", "Zip", "a", "b"))
EACH = dict.fromkeys(("map", "shuffle", "interleave", "records"), 1.0)


@pytest.mark.parametrize(
    ("ops", "elements", "per_sample_of_last", "ratios"),
    [
        # what the kinds of ops tell needs no counting; an interleave takes few files
        (CHAIN, {}, 1 / 32, {"prefetch": 1 / 32, "batch": 1 / 32, "files": 0.0} | EACH),
        (CHAIN, {"interleave": 1000, "files": 4}, 1 / 32, {"files": 0.004}),
        (FILTERED, {"filter": 50, "range": 200}, 0.1, {"filter": 1.0, "range": 4.0}),
        (REBATCHED, {"batch": 100, "rebatch": 400}, 1 / 8, {"batch": 1 / 32, "range": 1.0}),
        (WHOLE, {"read": 100, "whole": 50}, 1.0, {"read": 2.0}),  # half of the records were broken
        (ZIPPED, {}, 1.0, {"a": 1.0, "b": 1.0, "zip": 1.0}),
        # the model of the iterator shows neither a full cache nor what came before it
        (CACHED, {"batch": 10}, 1 / 32, {"read": 0.0}),
        (CACHED, {"read": 320, "cache": 320}, 1 / 32, {"read": 1.0}),
    ],
)
def test_how_many_elements_of_each_op_make_a_sample(
    ops: tuple[Op, ...], elements: dict[str, int], per_sample_of_last: float, ratios: dict[str, float]
) -> None:
    seen = {name: OpCounts(name, elements=count) for name, count in elements.items()}
    found = visit_ratios(ops, seen, per_sample_of_last)
    assert {name: found[name] for name in ratios} == pytest.approx(ratios)


@given(full=st.integers(1, 512), samples=st.integers(1, 10_000))
def test_a_last_batch_takes_what_it_holds(full: int, samples: int) -> None:
    chain = (op("range", "Range"), op("map", "Map", "range"), op("batch", "Batch", "map", batch_size=full, drop_remainder=False))
    batch = samples / -(-samples // full)
    ratios = visit_ratios(chain, {}, 1 / batch, fill_ratio=batch / full)
    assert ratios["map"] == ratios["range"] == pytest.approx(1)


@given(st.floats(1e-6, 1e-2), st.integers(1, 10**6), st.floats(0.01, 1.0))
def test_losing_iterators_with_their_counts_loses_nothing(cost_s: float, elements: int, caught_ratio: float) -> None:
    """Whatever part of the map's elements the polls caught, time and count shrink together."""
    caught = max(1, int(elements * caught_ratio))
    whole = {"map": OpCounts("map", wall_s=cost_s * elements, elements=elements, bytes_out=8 * elements)}
    part = {"map": OpCounts("map", wall_s=cost_s * caught, elements=caught, bytes_out=8 * caught)}
    for seen in (whole, part):
        found = per_sample(seen, visit_ratios(CHAIN, seen, 1 / 32))["map"]
        assert found.wall_s == pytest.approx(cost_s)
        assert found.bytes_out == pytest.approx(8)
        assert found.elements == 1


@given(st.integers(1, 10_000), st.floats(0.0, 1.0))
def test_too_few_elements_are_no_fair_sample(elements: int, caught_ratio: float) -> None:
    caught = int(elements * caught_ratio)
    seen = {"map": OpCounts("map", wall_s=1.0, elements=caught)}
    fair = well_seen(seen, visit_ratios(CHAIN, seen, 1 / 32), float(elements))
    assert ("map" in fair) == (caught > 0.01 * elements)
    found = per_sample(fair, visit_ratios(CHAIN, fair, 1 / 32))["map"]
    assert (found.wall_s is None) == ("map" not in fair)


JOINED = (
    op("a", "TFRecord"),
    op("b", "TFRecord"),
    op("c", "TFRecord"),
    op("concatenate", "Concatenate", "a", "b"),
    op("concatenate_2", "Concatenate", "concatenate", "c"),
    op("batch", "Batch", "concatenate_2", batch_size=10),
)
ROWS = (op("read", "TFRecord"), op("unbatch", "Unbatch", "read"), op("batch", "Batch", "unbatch", batch_size=10))
PAIRS = (op("a", "TFRecord"), op("b", "TFRecord"), op("zip", "Zip", "a", "b"), op("batch", "Batch", "zip", batch_size=10))
SHARDED = (
    op("read", "TFRecord", within="flat_map"),
    op("flat_map", "FlatMap"),
    op("shard", "Shard", "flat_map", num_shards=8),
    op("batch", "Batch", "shard", batch_size=10),
)
LINES = (op("names", "TextLine"), op("read", "TFRecord", "names"), op("batch", "Batch", "read", batch_size=10))


@pytest.mark.parametrize(
    ("ops", "elements", "records"),
    [
        (JOINED, {}, 1.0),  # each sample comes from one of them
        (JOINED, {"concatenate_2": 30, "concatenate": 10, "c": 20}, 1.0),
        (ROWS, {"unbatch": 6400, "read": 100}, 1 / 64),
        (ROWS, {"unbatch": 9, "read": 1}, None),  # a part of one record
        (ROWS, {}, None),
        (FILTERED, {"filter": 50, "range": 200}, 4.0),
        (FILTERED, {"filter": 5, "range": 200}, None),
        (PAIRS, {}, 1.0),  # the readers alone give pairs
        (SHARDED, {"shard": 100, "flat_map": 100, "read": 100}, 8.0),  # what is skipped is not counted
        (SHARDED, {"shard": 100, "flat_map": 800, "read": 800}, 8.0),  # by a version that counts it
        (SHARDED, {}, None),
        (LINES, {}, 1.0),  # a reader before another one is not what runs alone
        (ZIPPED, {}, None),  # nothing is read
    ],
)
def test_records_of_the_readers_for_a_sample_are_counted_or_not_told(
    ops: tuple[Op, ...], elements: dict[str, int], records: float | None
) -> None:
    seen = {name: OpCounts(name, elements=count) for name, count in elements.items()}
    readers = [one for one in ops if one.kind in ("TFRecord", "TextLine") or (ops is FILTERED and one.name == "range")]
    found = records_per_sample(ops, seen, visit_ratios(ops, seen, 0.1), readers)
    assert found == (None if records is None else pytest.approx(records))


def test_a_fused_node_counts_the_batches_it_gives() -> None:
    seen = {"map": OpCounts("batch", wall_s=6.4, elements=100)}
    found = per_sample(seen, visit_ratios(CHAIN, seen, 1 / 32))["map"]
    assert found.wall_s == pytest.approx(6.4 / 100 / 32)
    assert found.elements == 1


def test_an_op_of_which_nothing_was_seen_is_unknown_and_not_free() -> None:
    found = per_sample({"map": OpCounts("map")}, visit_ratios(CHAIN, {}, 1 / 32))
    assert found["map"].wall_s is found["map"].bytes_in is None
    assert (found["batch"].wall_s, found["batch"].elements) == (None, 1 / 32)
