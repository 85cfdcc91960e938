"""The marginal view of per-op cost: differences of pipelines cut after each op."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.worker.cuts import marginal_s_per_sample
from tests.worker.ops import CHAIN, op

costs = st.dictionaries(st.sampled_from(["range", "map", "batch"]), st.floats(0, 1e3))


@given(costs)
def test_differences_along_a_whole_chain_telescope_to_its_last_cut(cpu_s: dict[str, float]) -> None:
    found = marginal_s_per_sample(CHAIN[:3], cpu_s, {"range": 1.0, "map": 1.0, "batch": 1 / 32})
    if len(cpu_s) == 3:
        assert sum(found.values()) == pytest.approx(cpu_s["batch"] / 32, abs=1e-9)
    for name in found:
        (one,) = (one for one in CHAIN if one.name == name)
        assert {name, *one.inputs} <= set(cpu_s)  # a difference needs both of its cuts


def test_what_two_branches_cost_is_taken_off_the_op_that_joins_them() -> None:
    zipped = (*CHAIN[:2], op("other", "Range"), op("zip", "Zip", "map", "other"))
    found = marginal_s_per_sample(
        zipped, {"range": 1, "map": 3, "other": 5, "zip": 9}, dict.fromkeys(["range", "map", "other", "zip"], 1.0)
    )
    assert found == {"range": 1, "map": 2, "other": 5, "zip": 1}


def built() -> Any:
    tf = pytest.importorskip("tensorflow")
    dataset = tf.data.Dataset.range(1000).shuffle(16, seed=1, reshuffle_each_iteration=False)
    dataset = dataset.map(lambda value: {"value": value, "twice": 2 * value})
    return dataset.batch(8).prefetch(2)


@pytest.mark.tf
def test_a_cut_gives_what_the_pipeline_gives_there() -> None:
    from cs_input_analyzer.pipeline.edits import prefix
    from cs_input_analyzer.pipeline.graph import graph_def_of, top_nodes

    dataset = built()
    assert list(top_nodes(graph_def_of(dataset))) == ["range", "shuffle", "map", "batch", "prefetch"]
    assert [int(value) for value in prefix(dataset, "range")] == list(range(1000))
    assert sorted(int(value) for value in prefix(dataset, "shuffle")) == list(range(1000))
    whole = [batch["value"].numpy().tolist() for batch in dataset]
    for name in ("batch", "prefetch"):
        assert [batch[1].numpy().tolist() for batch in prefix(dataset, name)] == whole  # flat, keys in order: twice, value
    assert prefix(dataset, "nothing") is None
    tf = pytest.importorskip("tensorflow")
    nested = tf.data.Dataset.range(4).interleave(lambda value: tf.data.Dataset.from_tensors(value).repeat(3), cycle_length=2)
    assert [prefix(nested, name) is None for name in ("repeat", "interleave")] == [True, False]  # one is inside a function


@pytest.mark.tf
def test_every_op_of_the_top_gets_a_cost_and_a_budget_of_nothing_measures_nothing() -> None:
    from cs_input_analyzer.pipeline.graph import graph_def_of, ops_of
    from cs_input_analyzer.worker.cuts import cpu_s_per_element

    dataset = built()
    ops = ops_of(graph_def_of(dataset))
    found = dict(cpu_s_per_element(dataset, ops, budget_s=20, harness_s=0.0))
    assert set(found) == {op.name for op in ops}
    assert all(math.isfinite(cost_s) and cost_s > 0 for cost_s in found.values())
    assert dict(cpu_s_per_element(dataset, ops, budget_s=0.0, harness_s=0.0)) == {}


@pytest.mark.tf
def test_a_cut_that_cannot_run_leaves_the_others() -> None:
    tf = pytest.importorskip("tensorflow")
    from cs_input_analyzer.pipeline.graph import graph_def_of, ops_of
    from cs_input_analyzer.worker.cuts import cpu_s_per_element

    def broken(value: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(value, tf.constant(0, tf.int64))]):
            return tf.identity(value)

    dataset = tf.data.Dataset.range(100).map(broken).batch(4)
    ops = ops_of(graph_def_of(dataset))
    assert set(dict(cpu_s_per_element(dataset, ops, budget_s=20, harness_s=0.0))) == {"range"}
