"""Visit ratios and costs per sample: what was thrown away between polls must not be missing from the result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.worker.visits import OpCounts, per_sample, visit_ratios, well_seen
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


def test_what_the_kinds_of_ops_tell_needs_no_counting() -> None:
    ratios = visit_ratios(CHAIN, {}, 1 / 32)
    assert ratios["prefetch"] == ratios["batch"] == 1 / 32
    assert ratios["map"] == ratios["shuffle"] == ratios["interleave"] == ratios["records"] == 1
    assert ratios["files"] == 0  # nothing counted: an interleave takes few files


def test_files_are_taken_from_the_counts() -> None:
    seen = {"interleave": OpCounts("interleave", elements=1000), "files": OpCounts("files", elements=4)}
    assert visit_ratios(CHAIN, seen, 1 / 32)["files"] == pytest.approx(0.004)


@given(full=st.integers(1, 512), samples=st.integers(1, 10_000))
def test_a_last_batch_takes_what_it_holds(full: int, samples: int) -> None:
    chain = (op("range", "Range"), op("map", "Map", "range"), op("batch", "Batch", "map", batch_size=full, drop_remainder=False))
    batch = samples / -(-samples // full)
    ratios = visit_ratios(chain, {}, 1 / batch, fill_ratio=batch / full)
    assert ratios["map"] == ratios["range"] == pytest.approx(1)


def test_a_filter_is_taken_from_the_counts() -> None:
    chain = (op("range", "Range"), op("filter", "Filter", "range"), op("batch", "Batch", "filter", batch_size=10))
    seen = {"filter": OpCounts("filter", elements=50), "range": OpCounts("range", elements=200)}
    ratios = visit_ratios(chain, seen, 0.1)
    assert ratios["filter"] == 1
    assert ratios["range"] == 4


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


def test_a_fused_node_counts_the_batches_it_gives() -> None:
    seen = {"map": OpCounts("batch", wall_s=6.4, elements=100)}
    found = per_sample(seen, visit_ratios(CHAIN, seen, 1 / 32))["map"]
    assert found.wall_s == pytest.approx(6.4 / 100 / 32)
    assert found.elements == 1


def test_an_op_of_which_nothing_was_seen_is_unknown_and_not_free() -> None:
    found = per_sample({"map": OpCounts("map")}, visit_ratios(CHAIN, {}, 1 / 32))["map"]
    assert found.wall_s is None
    assert found.bytes_in is None
    unseen = per_sample({"map": OpCounts("map")}, visit_ratios(CHAIN, {}, 1 / 32))["batch"]
    assert (unseen.wall_s, unseen.elements) == (None, 1 / 32)


def test_two_inputs_both_give_one_element_for_a_zip() -> None:
    chain = (op("a", "Range"), op("b", "Range"), op("zip", "Zip", "a", "b"))
    assert visit_ratios(chain, {}, 1.0) == {"a": 1, "b": 1, "zip": 1}


def test_a_graph_without_ops_has_no_ratios() -> None:
    assert visit_ratios((), {}, 1.0) == {}


def test_before_a_full_cache_nothing_runs() -> None:
    """The model of the iterator shows neither a full cache nor what came before it."""
    chain = (op("read", "TFRecord"), op("cache", "Cache", "read"), op("batch", "Batch", "cache", batch_size=32))
    assert visit_ratios(chain, {"batch": OpCounts("batch", elements=10)}, 1 / 32)["read"] == 0
    filling = {"read": OpCounts("read", elements=320), "cache": OpCounts("cache", elements=320)}
    assert visit_ratios(chain, filling, 1 / 32)["read"] == 1
