"""Nodes of TensorFlow's model of a running iterator against the user's ops, and what is counted of real pipelines."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Op
from cs_input_analyzer.tfdata.matching import match_nodes
from cs_input_analyzer.worker.meter import CostMeter, model_of
from tests.builders import make_graph
from tests.tf_versions import needs_costs
from tests.worker.ops import CHAIN, op


def model(*nodes: tuple[str, list[int]] | str) -> Any:
    """Nodes numbered from 1, the first one last in the pipeline: (name, numbers of its inputs), or a name alone in a chain."""
    given = {at: (node, [at + 1] if at < len(nodes) else []) if isinstance(node, str) else node for at, node in enumerate(nodes, 1)}
    return SimpleNamespace(output=1, nodes={at: SimpleNamespace(name=name, inputs=inputs) for at, (name, inputs) in given.items()})


def owners(model: Any, *ops: Op) -> dict[int, str]:
    """Node number -> op."""
    return {number: match.owner for number, match in match_nodes(model, ops).items()}


def chain(*ops: tuple[str, str]) -> tuple[Op, ...]:
    """Names and kinds, each op the input of the next."""
    names = [name for name, _ in ops]
    return tuple(op(name, kind, *names[max(0, at - 1) : at]) for at, (name, kind) in enumerate(ops))


RANGE = ("range", "Range")
MAPPED_BATCH = (RANGE, ("map", "Map"), ("map_and_batch", "MapAndBatch"), ("map_2", "Map"))


@pytest.mark.parametrize(
    ("nodes", "ops", "found"),
    [
        # a fused map-and-batch is the user's map
        (["Root", "Prefetch", "MapAndBatch", "Range"], CHAIN, {2: "prefetch", 3: "map", 4: "range"}),
        # below a fused node the search goes on below both
        (
            ["MapAndBatch", "ParallelMapV2", "Range"],
            chain(RANGE, ("map", "Map"), ("map_2", "Map"), ("batch", "Batch")),
            {1: "map_2", 2: "map", 3: "range"},
        ),
        # a map that does nothing is left out behind it, as the one of `rebatch`
        (
            ["Rebatch", "MapAndBatch", "Range"],
            chain(RANGE, ("map", "Map"), ("batch", "Batch"), ("map_2", "Map"), ("rebatch", "Rebatch")),
            {1: "rebatch", 2: "map", 3: "range"},
        ),
        # an injected prefetch belongs to nobody, and does not take the place of the user's
        (["Root", "Prefetch", "BatchV2", "Map", "Range"], CHAIN[:-1], {3: "batch", 4: "map", 5: "range"}),
        (
            ["Root", "Prefetch", "Map", "Prefetch", "Map", "Range"],
            chain(RANGE, ("map", "Map"), ("prefetch", "Prefetch"), ("map_2", "Map")),
            {3: "map_2", 4: "prefetch", 5: "map", 6: "range"},
        ),
        # a legacy map-and-batch keeps its cost from the map behind it, also where TensorFlow left that one out
        (
            ["ParallelMapV2", "MapAndBatch", "ParallelMapV2", "Range"],
            chain(*MAPPED_BATCH),
            {1: "map_2", 2: "map_and_batch", 3: "map"},
        ),
        (["MapAndBatch", "ParallelMapV2", "Range"], chain(*MAPPED_BATCH), {1: "map_and_batch", 2: "map"}),
        # legacy ops
        (
            ["ShuffleAndRepeat", "LegacyParallelInterleaveV2", "CSV"],
            (
                op("files", "TensorSlice"),
                op("read", "CSV", within="interleave"),
                op("interleave", "ParallelInterleave", "files"),
                op("shuffle_and_repeat", "ShuffleAndRepeat", "interleave"),
            ),
            {1: "shuffle_and_repeat", 2: "interleave", 3: "read"},
        ),
        # a model that names nodes it lacks, and a graph without ops
        ([("Map", [99])], CHAIN[:2], {1: "map"}),
        (["Map"], (), {}),
    ],
)
def test_each_node_is_laid_to_its_op(nodes: list[Any], ops: tuple[Op, ...], found: dict[int, str]) -> None:
    matched = owners(model(*nodes), *ops)
    assert {number: matched.get(number) for number in found} == found
    assert matched.keys() <= found.keys() | {len(nodes)}


@pytest.mark.parametrize(
    ("node", "method"),
    [
        ("ForeverRepeat", "repeat"),
        ("FiniteRepeat", "repeat"),
        ("MemoryCacheImpl", "cache"),
        ("FileReader", "cache"),
        ("FileWriter", "cache"),
        ("FiniteTake", "take"),
        ("FiniteSkip", "skip"),
        ("ShuffleAndRepeat", "shuffle"),
        ("ParallelFilter", "filter"),
    ],
)
def test_names_that_tensorflow_gives_its_nodes(node: str, method: str) -> None:
    assert owners(model(node, "Range"), *chain(RANGE, (method, method.title()))) == {1: method, 2: "range"}


@pytest.mark.parametrize("kind", ["Zip", "Concatenate"])
def test_each_input_of_a_join_is_matched_in_its_own_branch(kind: str) -> None:
    ops = (*chain(RANGE, ("map", "Map")), *chain(("range_2", "Range"), ("map_2", "Map")), op("join", kind, "map", "map_2"))
    found = owners(model((kind, [2, 4]), ("Map", [3]), ("Range", []), ("ParallelMapV2", [5]), ("Range", [])), *ops)
    assert found == {1: "join", 2: "map", 3: "range", 4: "map_2", 5: "range_2"}


def test_iterators_inside_an_interleave_are_its_functions_ops() -> None:
    ops = (
        op("files", "TensorSlice"),
        op("read", "TFRecord", within="interleave"),
        op("map", "Map", "read", within="interleave"),
        op("interleave", "ParallelInterleave", "files"),
        op("map_2", "Map", "interleave"),
    )
    nodes: list[tuple[str, list[int]]] = [("Map", [2]), ("ParallelInterleaveV4", [3, 4, 6]), ("TensorSlice", [])]
    nodes += [("Map", [5]), ("TFRecord", []), ("Map", [7]), ("TFRecord", [])]
    found = owners(model(*nodes), *ops)
    assert [found[number] for number in (1, 3, 4, 6, 5, 7)] == ["map_2", "files", "map", "map", "read", "read"]


def merged_in(model: Any, *ops: Op) -> dict[str, tuple[str, ...]]:
    return {match.owner: match.merged for match in match_nodes(model, ops).values() if match.merged}


def test_ops_that_tensorflow_made_one_are_named_where_their_cost_is() -> None:
    ops = chain(RANGE, ("map", "Map"), ("map_2", "ParallelMap"), ("filter", "Filter"), ("repeat", "Repeat"), ("batch", "Batch"))
    assert merged_in(model("BatchV2", "ForeverRepeat", "Filter", "ParallelMapV2", "Range"), *ops) == {"map_2": ("map",)}
    assert merged_in(model("MapAndBatch", "Range"), *CHAIN) == {"map": ("batch",)}
    # A buffer that has read its input to the end lets go of it: ops below the last node are not taken for merged.
    below = chain(RANGE, ("map", "Map"), ("map_2", "Map"), ("shuffle", "Shuffle"))
    assert merged_in(model("Shuffle"), *below) == merged_in(model("Shuffle", "Map"), *below) == {}


def test_an_op_that_tensorflow_left_out_is_absent_and_its_work_is_nobodys() -> None:
    found = match_nodes(model("Prefetch", "BatchV2", "Range"), CHAIN)
    assert {match.owner: match.absent for match in found.values() if match.absent} == {"batch": ("map",)}
    unknown = match_nodes(model("Prefetch", "BatchV2", "Strange", "Range"), CHAIN)
    assert not any(match.absent for match in unknown.values())


@given(st.lists(st.sampled_from(["Map", "Range", "Prefetch", "Nobody", "Zip"]), max_size=8), st.data())
def test_no_model_makes_it_fail_and_every_owner_is_an_op(names: list[str], data: st.DataObject) -> None:
    """Trees of any shape: inputs have higher numbers than their consumers."""
    numbers = st.integers(min_value=1, max_value=len(names) + 1)
    nodes = [(name, [n for n in data.draw(st.lists(numbers, max_size=3)) if n > at]) for at, name in enumerate(names, start=1)]
    ops = make_graph("tensor_slices > interleave > map > batch > prefetch").ops
    assert set(owners(model(*nodes), *ops).values()) <= {found.name for found in ops}


def heavy(x: Any) -> Any:
    """About a millisecond of one CPU."""
    import tensorflow as tf

    square = tf.random.stateless_uniform([160, 160], [1, 2]) + tf.cast(x, tf.float32) * 0
    for _ in range(4):
        square = tf.linalg.matmul(square, square) * 1e-3
    return x + tf.cast(tf.reduce_sum(square) * 0, x.dtype)


def light(x: Any) -> Any:
    return x + 1


def metered(build: Callable[[Any], Any], batches: int = 60, passes: int = 1) -> CostMeter:
    """Builds under the recorder, samples with polls in between; `build` gets `tf.data.Dataset`."""
    import tensorflow as tf

    from cs_input_analyzer.tfdata import graph
    from cs_input_analyzer.worker.sampling import SamplingLoop

    with graph.recorded_sources() as log:
        dataset = build(tf.data.Dataset)
    meter = CostMeter(ops=graph.read_graph(dataset, log, target="t").ops)
    loop = SamplingLoop()
    iterator = iter(dataset)

    def poll(number: int) -> None:
        if (snapshot := model_of(iterator)) is not None:
            meter.add(snapshot, number)

    loop(iterator, 1)
    poll(0)
    for number in range(passes):
        iterator = iter(dataset) if number else iterator
        for _ in range(batches // 5):
            ended = loop(iterator, 5).ended
            poll(number)
            if ended:
                break
    return meter


AUTOTUNE = -1


@pytest.mark.tf
@pytest.mark.parametrize(
    ("build", "owner"),
    [
        (lambda D: D.range(10**6).map(light).map(heavy).batch(4).prefetch(2), "map_2"),
        (lambda D: D.range(10**6).map(heavy, num_parallel_calls=AUTOTUNE).batch(4), "map"),  # fused to MapAndBatch
        (lambda D: D.zip((D.range(10**6).map(light), D.range(10**6).map(heavy))).batch(4), "map_2"),
        (lambda D: D.range(10**6).interleave(lambda _: D.range(40).map(heavy), cycle_length=2).map(light).batch(4), "map"),
        (lambda D: D.range(10**6).map(light).repeat().map(heavy, num_parallel_calls=2).batch(4), "map_2"),
    ],
)
@needs_costs
def test_the_heavy_op_has_the_largest_cost(build: Callable[[Any], Any], owner: str) -> None:
    seen = metered(build).seen
    assert max(seen, key=lambda name: seen[name].wall_s) == owner


@pytest.mark.tf
@needs_costs
def test_every_pass_over_the_data_counts() -> None:
    """A new pass is a new iterator, whose nodes have the same numbers and count from zero."""
    once, often = (metered(lambda D: D.range(80).map(heavy).batch(4), batches=15, passes=passes) for passes in (1, 6))
    assert often.seen["map"].elements == 6 * once.seen["map"].elements


@pytest.mark.tf
def test_the_start_of_its_input_is_no_work_of_a_shuffle() -> None:
    """In each pass it starts its input and takes the first elements before a snapshot tells the two apart."""
    from tensorflow.core.framework import model_pb2

    def snapshot(wall_s: float, taken: int, given: int) -> bytes:
        told = model_pb2.ModelProto(output=1)
        for identity, (name, ms) in enumerate((("Shuffle", wall_s * 1e9), ("TFRecord", 1e6 * taken)), 1):
            node = told.nodes[identity]
            node.id, node.name, node.processing_time, node.num_elements = identity, name, int(ms), given if identity == 1 else taken
            node.bytes_consumed, node.bytes_produced = 100 * taken, 100 * given
        told.nodes[1].inputs.append(2)
        return told.SerializeToString()

    meter = CostMeter(ops=chain(("read", "TFRecord"), ("shuffle", "Shuffle")))
    for number in range(3):
        for counts in ((0.100, 0, 0), (0.101, 50, 0), (0.103, 100, 10)):
            meter.add(snapshot(*counts), number)
    assert meter.seen["shuffle"].wall_s == pytest.approx(3 * 0.002)
    assert meter.start_s == pytest.approx(0.001 + 2 * 0.101)  # the first snapshot of all counts nothing
    assert (meter.seen["shuffle"].elements, meter.passed["shuffle"].elements) == (3 * 10, 3 * 10)
    assert meter.seen["read"].elements == 3 * 100


@pytest.mark.tf
def test_without_autotune_there_is_no_model_and_no_failure() -> None:
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    meter = metered(lambda D: D.range(10**6).map(light).batch(4).with_options(options), batches=10)
    assert (meter.seen, meter.parameters()) == ({}, ())


@pytest.mark.tf
@needs_costs
def test_tuned_parameters_are_named_by_the_users_op() -> None:
    meter = metered(lambda D: D.range(10**6).map(heavy, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE))
    values = {(tuned.op, tuned.parameter): tuned.value for tuned in meter.parameters()}
    assert values["map", "parallelism"] >= 1
    assert ("prefetch", "buffer_size") in values
