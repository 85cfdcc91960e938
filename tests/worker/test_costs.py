"""Where the CPU goes: the identity that nothing is lost, nodes of TensorFlow's model against the user's ops, and real pipelines."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import RESTART, RUNTIME, UNATTRIBUTED, Layout, Op, OpCost, Profile, TunedParameter
from cs_input_analyzer.worker.costs import CostMeter, profile_of
from cs_input_analyzer.worker.matching import match_nodes
from cs_input_analyzer.worker.visits import PerSample
from tests.builders import make_graph

LAYOUT = Layout.parse("1x1x1")
NAMES = ("range", "map", "batch", "prefetch")

seconds = st.floats(min_value=0, max_value=1e3, allow_subnormal=False)
walls = st.dictionaries(st.sampled_from([*NAMES, None]), seconds)


def op(name: str, kind: str, *inputs: str, within: str | None = None, **parameters: Any) -> Op:
    return Op(name=name, kind=kind, source=f"data.py:{len(name)}", inputs=inputs, parameters=parameters, within=within)


CHAIN = (op("range", "Range"), op("map", "Map", "range"), op("batch", "Batch", "map"), op("prefetch", "Prefetch", "batch"))


def profiled(wall_s: Mapping[str | None, float], cpu_s: float, tuned: tuple[TunedParameter, ...] = ()) -> Profile:
    return profile_of(LAYOUT, CHAIN, spent(wall_s), cpu_s, tuned, harness_us=30.0)


def spent(wall_s: Mapping[str | None, float]) -> dict[str, PerSample]:
    return {
        name: PerSample(wall_s=wall, elements=1.0, bytes_in=None, bytes_out=None)
        for name, wall in wall_s.items()
        if name is not None
    }


def walls_of(meter: CostMeter) -> dict[str | None, float]:
    return {name: seen.wall_s for name, seen in meter.seen.items()}


def costed(profile: Profile) -> list[OpCost]:
    """The rows that have a cost: of the others nothing was seen."""
    return [row for row in profile.ops if row.self_cpu_s_per_sample is not None]


def cpu_of(row: OpCost) -> float:
    assert row.self_cpu_s_per_sample is not None
    return row.self_cpu_s_per_sample


# --- laws, without TensorFlow ------------------------------------------------------------------------------------------------


@given(walls, seconds)
def test_the_rows_add_up_to_the_process_cpu(wall_s: dict[str | None, float], cpu_s: float) -> None:
    profile = profiled(wall_s, cpu_s)
    assert sum(map(cpu_of, costed(profile))) == pytest.approx(cpu_s, rel=1e-9, abs=1e-12)
    assert all(cpu_of(row) >= 0 for row in costed(profile))
    assert [row.kind for row in profile.ops].count(RUNTIME) == 1
    assert profile.ops[-1].kind == RUNTIME


@given(walls, st.floats(min_value=1e-6, max_value=1e3))
def test_shares_add_up_to_one(wall_s: dict[str | None, float], cpu_s: float) -> None:
    shares = [row.share_ratio for row in costed(profiled(wall_s, cpu_s))]
    assert sum(share for share in shares if share is not None) == pytest.approx(1)
    assert all(share is not None and 0 <= share <= 1 + 1e-9 for share in shares)


@given(walls, seconds)
def test_cpu_and_wait_are_the_wall_time(wall_s: dict[str | None, float], cpu_s: float) -> None:
    for row in costed(profiled(wall_s, cpu_s))[:-1]:
        assert row.wait_s_per_sample is not None
        assert row.wait_s_per_sample >= -1e-12
        assert cpu_of(row) + row.wait_s_per_sample == pytest.approx(wall_s[row.name], abs=1e-12)


@given(walls, seconds, st.floats(min_value=1e-3, max_value=1e3))
def test_scaling_all_times_scales_all_rows(wall_s: dict[str | None, float], cpu_s: float, factor: float) -> None:
    scaled = profiled({name: wall * factor for name, wall in wall_s.items()}, cpu_s * factor)
    for before, after in zip(costed(profiled(wall_s, cpu_s)), costed(scaled), strict=True):
        assert cpu_of(after) == pytest.approx(cpu_of(before) * factor, rel=1e-6, abs=1e-9)


def test_below_the_process_cpu_wall_time_is_cpu_and_the_rest_is_the_runtimes() -> None:
    rows = {row.name: row for row in costed(profiled({"map": 3.0, "batch": 1.0, None: 1.0}, 10.0))}
    assert (cpu_of(rows["map"]), cpu_of(rows["batch"]), cpu_of(rows[RUNTIME])) == (3.0, 1.0, 6.0)
    assert rows["map"].wait_s_per_sample == 0
    assert rows["map"].source == "data.py:3"
    assert rows[RUNTIME].source is None


def test_above_it_each_keeps_its_share_and_the_rest_is_waiting() -> None:
    rows = {row.name: row for row in costed(profiled({"range": 6.0, "map": 2.0}, 4.0))}
    assert (cpu_of(rows["range"]), cpu_of(rows["map"]), cpu_of(rows[RUNTIME])) == (3.0, 1.0, 0.0)
    assert (rows["range"].wait_s_per_sample, rows["map"].wait_s_per_sample) == (3.0, 1.0)


def test_rows_scaled_to_the_whole_leave_no_crumbs_for_the_runtime() -> None:
    profile = profiled({"range": 0.1, "map": 0.1, "batch": 0.7, "prefetch": 1.3}, 2.2 * 0.55)
    assert profile.ops[-1].kind == RUNTIME
    assert cpu_of(profile.ops[-1]) == 0.0


@given(walls, seconds, st.floats(0, 10))
def test_lost_cpus_keep_the_identity_and_never_raise_an_ops_share(
    wall_s: dict[str | None, float], cpu_s: float, preempted: float
) -> None:
    two = Layout.parse("1x1x2")
    profile = profile_of(two, CHAIN, spent(wall_s), cpu_s, (), harness_us=30.0, preempted_ratio=preempted)
    plain = profile_of(two, CHAIN, spent(wall_s), cpu_s, (), harness_us=30.0)
    assert sum(map(cpu_of, costed(profile))) == pytest.approx(cpu_s, rel=1e-9, abs=1e-12)
    for row, other in zip(costed(profile)[:-1], costed(plain)[:-1], strict=True):
        assert cpu_of(row) <= cpu_of(other) * (1 + 1e-9)


def test_time_without_the_cpu_is_waiting_on_several_cpus_and_the_runtimes_own_on_one() -> None:
    def map_row(layout: str) -> OpCost:
        walls_s = spent({"map": 1.5})
        profile = profile_of(Layout.parse(layout), CHAIN, walls_s, 4.0, (), harness_us=30.0, preempted_ratio=0.5)
        return next(row for row in profile.ops if row.name == "map")

    assert cpu_of(map_row("1x1x2")) == pytest.approx(1.0)
    assert map_row("1x1x2").wait_s_per_sample == pytest.approx(0.5)
    assert cpu_of(map_row("1x1x1")) == pytest.approx(1.5)


def test_without_a_model_all_cpu_is_the_runtimes() -> None:
    (row,) = costed(profiled({}, 2.0))
    assert (row.name, cpu_of(row), row.share_ratio) == (RUNTIME, 2.0, 1.0)


def test_an_idle_process_has_no_shares() -> None:
    assert [row.share_ratio for row in costed(profiled({"map": 1.0}, 0.0))] == [None, None]


def test_parallelism_is_what_autotune_chose_else_what_the_user_wrote() -> None:
    ops = (op("map", "ParallelMap", num_parallel_calls=8), op("map_2", "ParallelMap", "map", num_parallel_calls="AUTOTUNE"))
    tuned = (TunedParameter(op="map_2", parameter="parallelism", value=3.0),)
    profile = profile_of(LAYOUT, ops, spent({"map": 1.0, "map_2": 1.0}), 4.0, tuned, None)
    assert [row.parallelism for row in profile.ops] == [8.0, 3.0, None]


# --- ops whose cost stands elsewhere -----------------------------------------------------------------------------------------


def of_elements(elements: Mapping[str, float], wall_s: Mapping[str | None, float]) -> dict[str, PerSample]:
    unseen = {name: PerSample(wall_s=None, elements=count, bytes_in=None, bytes_out=None) for name, count in elements.items()}
    return unseen | spent(wall_s)


def rows_of(profile: Profile) -> dict[str, OpCost]:
    return {row.name: row for row in profile.ops}


def test_every_op_has_a_row_with_its_line() -> None:
    rows = rows_of(profiled({"map": 1.0}, 4.0))
    assert list(rows) == [*NAMES, RUNTIME]
    assert all(rows[op.name].source == op.source for op in CHAIN)
    assert (rows["batch"].self_cpu_s_per_sample, rows["batch"].merged_into) == (None, None)


def test_what_worked_unseen_is_unattributed_and_not_the_runtimes() -> None:
    found = of_elements({"map": 1.0, "batch": 0.25}, {"range": 1.0, "prefetch": 1.0, "batch": 0.5})
    rows = rows_of(profile_of(LAYOUT, CHAIN, found, 10.0, (), None))
    assert rows["map"].merged_into == UNATTRIBUTED
    assert rows["map"].share_ratio is None
    assert cpu_of(rows[UNATTRIBUTED]) == pytest.approx(7.5)
    assert RUNTIME not in rows


@pytest.mark.parametrize("elements", [{"map": 0.0}, {}, {"range": 1.0, "map": 0.0}])
def test_an_op_that_did_not_run_or_does_nothing_leaves_the_rest_to_the_runtime(elements: dict[str, float]) -> None:
    rows = rows_of(profile_of(LAYOUT, CHAIN, of_elements(elements, {"batch": 1.0}), 10.0, (), None))
    assert UNATTRIBUTED not in rows
    assert cpu_of(rows[RUNTIME]) == pytest.approx(9.0)
    assert rows["map"].merged_into is None


def test_an_unseen_op_gets_what_it_adds_to_the_cut_pipeline_and_no_more_than_there_is() -> None:
    found = of_elements({"map": 1.0}, {"batch": 1.0})
    rows = rows_of(profile_of(LAYOUT, CHAIN, found, 10.0, (), None, prefixes={"map": 6.0, "batch": 3.0}))
    assert (cpu_of(rows["map"]), rows["map"].is_marginal, rows["map"].wait_s_per_sample) == (6.0, True, None)
    assert (cpu_of(rows["batch"]), rows["batch"].is_marginal) == (1.0, False)
    assert cpu_of(rows[RUNTIME]) == pytest.approx(3.0)
    rows = rows_of(profile_of(LAYOUT, CHAIN, found, 4.0, (), None, prefixes={"map": 6.0}))
    assert (cpu_of(rows["map"]), cpu_of(rows[RUNTIME])) == (3.0, 0.0)


def of_function(op_count: int) -> tuple[Op, ...]:
    return tuple(replace(one, function_op_count=op_count) if one.name == "map" else one for one in CHAIN)


@pytest.mark.parametrize(
    ("op_count", "adds_s", "row_s"),
    [
        (200, 1e-4, 1e-4),  # the executor between tiny ops is theirs
        (200, 6e-5, 7e-5),  # it was seen at more
        (200, 9e-4, 2e-4),  # there is no more CPU than the process has
        (20, 1e-4, 7e-5),  # ops of 3.5 µs: the difference is noise
        (0, 1e-4, 7e-5),
        (200, None, 7e-5),
    ],
)
def test_functions_of_tiny_ops_are_charged_for_the_executor_between_them(op_count: int, adds_s: float | None, row_s: float) -> None:
    prefixes = {} if adds_s is None else {"map": adds_s, "batch": 1.0}
    found = spent({"map": 7e-5, "batch": 1e-5})
    profile = profile_of(LAYOUT, of_function(op_count), found, 2.1e-4, (), None, prefixes=prefixes)
    rows = rows_of(profile)
    assert cpu_of(rows["map"]) == pytest.approx(row_s)
    assert rows["map"].is_marginal == (row_s > 7e-5)
    assert rows["map"].wait_s_per_sample == 0
    assert cpu_of(rows["batch"]) == pytest.approx(1e-5)
    assert sum(map(cpu_of, costed(profile))) == pytest.approx(2.1e-4)


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 10), st.floats(-5, 10), st.floats(0, 5))
def test_the_rows_add_up_whatever_was_seen(cpu_s: float, batch_s: float, range_s: float, added_s: float, restart_s: float) -> None:
    found = of_elements({"map": 1.0, "prefetch": 1.0}, {"batch": batch_s, "range": range_s})
    for prefixes in ({}, {"map": added_s}, {"map": added_s, "prefetch": added_s}):
        profile = profile_of(LAYOUT, CHAIN, found, cpu_s, (), None, prefixes=prefixes, restart_cpu_s_per_sample=restart_s)
        assert sum(map(cpu_of, costed(profile))) == pytest.approx(cpu_s, rel=1e-9, abs=1e-9)
        assert all(cpu_of(row) >= -1e-12 for row in costed(profile))
        assert profile.ops[-1].kind == (RUNTIME if len(prefixes) == 2 else UNATTRIBUTED)


def test_beginning_anew_has_a_row_of_its_own() -> None:
    rows = rows_of(profile_of(LAYOUT, CHAIN, spent({"map": 1.0}), 10.0, (), None, restart_cpu_s_per_sample=6.0))
    assert (cpu_of(rows[RESTART]), cpu_of(rows[RUNTIME])) == (6.0, 3.0)
    assert not rows[RESTART].is_op
    assert RESTART not in rows_of(profiled({"map": 1.0}, 10.0))


def test_an_op_that_was_merged_names_the_row_that_holds_its_cost() -> None:
    found = of_elements({"map": 1.0, "batch": 0.1}, {"map": 2.0})
    rows = rows_of(profile_of(LAYOUT, CHAIN, found, 4.0, (), None, merged={"batch": "map"}))
    assert (rows["batch"].merged_into, rows["batch"].self_cpu_s_per_sample) == ("map", None)


def test_what_a_maps_function_iterates_itself_is_part_of_the_map() -> None:
    ops = (op("range", "Range"), op("map", "Map", within="map_2"), op("reduce", "Reduce", "map", within="map_2"))
    ops += (op("map_2", "Map", "range"),)
    rows = rows_of(profile_of(LAYOUT, ops, of_elements({"map": 1.0, "reduce": 1.0}, {"map_2": 1.0}), 4.0, (), None))
    assert (rows["map"].merged_into, rows["reduce"].merged_into) == ("map_2", "map_2")
    assert RUNTIME in rows


# --- nodes against ops, without TensorFlow -----------------------------------------------------------------------------------


def model(*nodes: tuple[str, list[int]]) -> Any:
    """Nodes numbered from 1, the first one last in the pipeline: (name, numbers of its inputs)."""
    return SimpleNamespace(
        output=1, nodes={number: SimpleNamespace(name=name, inputs=inputs) for number, (name, inputs) in enumerate(nodes, start=1)}
    )


def owners(model: Any, *ops: Op) -> dict[str, str]:
    """`Name#number` -> op."""
    return {f"{model.nodes[number].name}#{number}": match.owner for number, match in match_nodes(model, ops).items()}


def test_a_fused_map_and_batch_is_the_users_map() -> None:
    found = owners(model(("Root", [2]), ("Prefetch", [3]), ("MapAndBatch", [4]), ("Range", [])), *CHAIN)
    assert found == {"Prefetch#2": "prefetch", "MapAndBatch#3": "map", "Range#4": "range"}


def test_below_a_fused_node_the_search_goes_on_below_both() -> None:
    ops = (op("range", "Range"), op("map", "Map", "range"), op("map_2", "Map", "map"), op("batch", "Batch", "map_2"))
    found = owners(model(("MapAndBatch", [2]), ("ParallelMapV2", [3]), ("Range", [])), *ops)
    assert found == {"MapAndBatch#1": "map_2", "ParallelMapV2#2": "map", "Range#3": "range"}


def test_an_injected_prefetch_belongs_to_nobody() -> None:
    found = owners(model(("Root", [2]), ("Prefetch", [3]), ("BatchV2", [4]), ("Map", [5]), ("Range", [])), *CHAIN[:-1])
    assert found == {"BatchV2#3": "batch", "Map#4": "map", "Range#5": "range"}


def test_an_injected_prefetch_does_not_take_the_place_of_the_users() -> None:
    ops = (op("range", "Range"), op("map", "Map", "range"), op("prefetch", "Prefetch", "map"), op("map_2", "Map", "prefetch"))
    found = owners(model(("Root", [2]), ("Prefetch", [3]), ("Map", [4]), ("Prefetch", [5]), ("Map", [6]), ("Range", [])), *ops)
    assert found == {"Map#3": "map_2", "Prefetch#4": "prefetch", "Map#5": "map", "Range#6": "range"}


@pytest.mark.parametrize("after", [("ParallelMapV2", [2]), None])
def test_a_legacy_map_and_batch_keeps_its_cost_from_the_map_behind_it(after: tuple[str, list[int]] | None) -> None:
    """Also where TensorFlow left that one out."""
    ops = (op("range", "Range"), op("map", "Map", "range"), op("map_and_batch", "MapAndBatch", "map"))
    ops += (op("map_2", "Map", "map_and_batch"),)
    first = 2 if after else 1
    nodes = [("MapAndBatch", [first + 1]), ("ParallelMapV2", [first + 2]), ("Range", [])]
    found = owners(model(*([after] if after else []), *nodes), *ops)
    assert found[f"MapAndBatch#{first}"] == "map_and_batch"
    assert found[f"ParallelMapV2#{first + 1}"] == "map"
    assert found.get("ParallelMapV2#1") == ("map_2" if after else None)


def test_legacy_ops_are_found_by_the_names_of_their_nodes() -> None:
    ops = (op("files", "TensorSlice"), op("read", "CSV", within="interleave"), op("interleave", "ParallelInterleave", "files"))
    ops += (op("shuffle_and_repeat", "ShuffleAndRepeat", "interleave"),)
    found = owners(model(("ShuffleAndRepeat", [2]), ("LegacyParallelInterleaveV2", [3]), ("CSV", [])), *ops)
    assert found == {"ShuffleAndRepeat#1": "shuffle_and_repeat", "LegacyParallelInterleaveV2#2": "interleave", "CSV#3": "read"}


def merged_in(model: Any, *ops: Op) -> dict[str, tuple[str, ...]]:
    return {match.owner: match.merged for match in match_nodes(model, ops).values() if match.merged}


def test_ops_that_tensorflow_made_one_are_named_where_their_cost_is() -> None:
    maps = (op("map", "Map", "range"), op("map_2", "ParallelMap", "map"), op("filter", "Filter", "map_2"))
    ops = (op("range", "Range"), *maps, op("repeat", "Repeat", "filter"), op("batch", "Batch", "repeat"))
    chain = model(("BatchV2", [2]), ("ForeverRepeat", [3]), ("Filter", [4]), ("ParallelMapV2", [5]), ("Range", []))
    assert merged_in(chain, *ops) == {"map_2": ("map",)}
    assert merged_in(model(("MapAndBatch", [2]), ("Range", [])), *CHAIN) == {"map": ("batch",)}


def test_an_op_that_tensorflow_left_out_is_absent_and_its_work_is_nobodys() -> None:
    found = match_nodes(model(("Prefetch", [2]), ("BatchV2", [3]), ("Range", [])), CHAIN)
    assert {match.owner: match.absent for match in found.values() if match.absent} == {"batch": ("map",)}
    unknown = match_nodes(model(("Prefetch", [2]), ("BatchV2", [3]), ("Strange", [4]), ("Range", [])), CHAIN)
    assert not any(match.absent for match in unknown.values())
    rows = rows_of(profile_of(LAYOUT, CHAIN, of_elements({"map": 1.0}, {"batch": 1.0}), 4.0, (), None, absent={"map"}))
    assert rows["map"].merged_into is None
    assert UNATTRIBUTED not in rows


def test_ops_below_the_last_node_are_not_taken_for_merged() -> None:
    """A buffer that has read its input to the end lets go of it."""
    ops = (op("range", "Range"), op("map", "Map", "range"), op("map_2", "Map", "map"), op("shuffle", "Shuffle", "map_2"))
    assert merged_in(model(("Shuffle", [])), *ops) == {}
    assert merged_in(model(("Shuffle", [2]), ("Map", [])), *ops) == {}


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
    ops = (op("range", "Range"), op(method, method.title(), "range"))
    assert owners(model((node, [2]), ("Range", [])), *ops) == {f"{node}#1": method, "Range#2": "range"}


@pytest.mark.parametrize("kind", ["Zip", "Concatenate"])
def test_each_input_of_a_join_is_matched_in_its_own_branch(kind: str) -> None:
    ops = (
        op("range", "Range"),
        op("map", "Map", "range"),
        op("range_2", "Range"),
        op("map_2", "Map", "range_2"),
        op("join", kind, "map", "map_2"),
    )
    found = owners(model((kind, [2, 4]), ("Map", [3]), ("Range", []), ("ParallelMapV2", [5]), ("Range", [])), *ops)
    assert found == {f"{kind}#1": "join", "Map#2": "map", "Range#3": "range", "ParallelMapV2#4": "map_2", "Range#5": "range_2"}


def test_iterators_inside_an_interleave_are_its_functions_ops() -> None:
    ops = (
        op("files", "TensorSlice"),
        op("read", "TFRecord", within="interleave"),
        op("map", "Map", "read", within="interleave"),
        op("interleave", "ParallelInterleave", "files"),
        op("map_2", "Map", "interleave"),
    )
    nodes = [("Map", [2]), ("ParallelInterleaveV4", [3, 4, 6]), ("TensorSlice", [])]
    nodes += [("Map", [5]), ("TFRecord", []), ("Map", [7]), ("TFRecord", [])]
    found = owners(model(*nodes), *ops)
    assert found["Map#1"] == "map_2"
    assert found["TensorSlice#3"] == "files"
    assert [found[name] for name in ("Map#4", "Map#6", "TFRecord#5", "TFRecord#7")] == ["map", "map", "read", "read"]


def test_a_model_that_names_nodes_it_lacks_and_a_graph_without_ops() -> None:
    assert owners(model(("Map", [99])), *CHAIN[:2]) == {"Map#1": "map"}
    assert owners(model(("Map", [])), *()) == {}


@given(st.lists(st.sampled_from(["Map", "Range", "Prefetch", "Nobody", "Zip"]), max_size=8), st.data())
def test_no_model_makes_it_fail_and_every_owner_is_an_op(names: list[str], data: st.DataObject) -> None:
    """Trees of any shape: inputs have higher numbers than their consumers."""
    numbers = st.integers(min_value=1, max_value=len(names) + 1)
    nodes = [(name, [n for n in data.draw(st.lists(numbers, max_size=3)) if n > at]) for at, name in enumerate(names, start=1)]
    ops = make_graph("tensor_slices > interleave > map > batch > prefetch").ops
    assert {match.owner for match in match_nodes(model(*nodes), ops).values()} <= {found.name for found in ops}


# --- real pipelines ----------------------------------------------------------------------------------------------------------


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

    from cs_input_analyzer.pipeline import graph
    from cs_input_analyzer.worker.sampling import sampling_loop

    with graph.recorded_sources() as log:
        dataset = build(tf.data.Dataset)
    meter = CostMeter(ops=graph.read_graph(dataset, log, target="t").ops)
    loop = sampling_loop(dataset.element_spec, count_samples=False)
    iterator = iter(dataset)
    loop(iterator, 1)
    meter.poll(iterator)
    for number in range(passes):
        iterator = iter(dataset) if number else iterator
        for _ in range(batches // 5):
            ended = loop(iterator, 5).ended
            meter.poll(iterator)
            if ended:
                break
    return meter


def dearest(meter: CostMeter) -> str | None:
    walls = walls_of(meter)
    return max(walls, key=lambda name: walls[name])


AUTOTUNE = -1


@pytest.mark.tf
@pytest.mark.parametrize(
    ("build", "owner"),
    [
        (lambda D: D.range(10**6).map(light).map(heavy).batch(4).prefetch(2), "map_2"),
        (lambda D: D.range(10**6).map(heavy).map(light).shuffle(8).batch(4), "map"),
        (lambda D: D.range(10**6).map(heavy, num_parallel_calls=AUTOTUNE).batch(4), "map"),  # fused to MapAndBatch
        (lambda D: D.zip((D.range(10**6).map(light), D.range(10**6).map(heavy))).batch(4), "map_2"),
        (lambda D: D.zip((D.range(10**6).map(heavy), D.range(10**6).map(light))).batch(4), "map"),
        (lambda D: D.range(8).map(light).concatenate(D.range(10**6).map(heavy)).batch(4), "map_2"),
        (lambda D: D.range(10**6).interleave(lambda _: D.range(40).map(heavy), cycle_length=2).map(light).batch(4), "map"),
        (lambda D: D.range(10**6).map(light).repeat().map(heavy, num_parallel_calls=2).batch(4), "map_2"),
    ],
)
def test_the_heavy_op_has_the_largest_cost(build: Callable[[Any], Any], owner: str) -> None:
    meter = metered(build)
    assert dearest(meter) == owner


@pytest.mark.tf
def test_a_real_profile_adds_up_to_the_process_cpu() -> None:
    def cpu_s() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    before_s = cpu_s()
    meter = metered(lambda D: D.range(10**6).map(light).map(heavy).batch(4))
    spent_s = cpu_s() - before_s
    profile = profile_of(LAYOUT, meter.ops, spent(walls_of(meter)), spent_s, meter.parameters(), None)
    assert sum(map(cpu_of, costed(profile))) == pytest.approx(spent_s, rel=1e-9)
    rows = {row.name: row for row in profile.ops}
    assert rows.keys() == {"range", "map", "map_2", "batch", RUNTIME}
    assert rows["map_2"].source is not None
    assert rows["map_2"].source.startswith(__file__)


@pytest.mark.tf
def test_every_pass_over_the_data_counts() -> None:
    """A new pass is a new iterator, whose nodes have the same numbers and count from zero."""

    def build(D: Any) -> Any:
        return D.range(80).map(heavy).batch(4)

    once, often = metered(build, batches=15), metered(build, batches=15, passes=6)
    assert often.seen["map"].wall_s > 3 * once.seen["map"].wall_s


@pytest.mark.tf
def test_without_autotune_there_is_no_model_and_no_failure() -> None:
    import tensorflow as tf

    def build(D: Any) -> Any:
        options = tf.data.Options()
        options.autotune.enabled = False
        return D.range(10**6).map(light).batch(4).with_options(options)

    meter = metered(build, batches=10)
    assert meter.seen == {}
    assert meter.parameters() == ()
    assert len(costed(profile_of(LAYOUT, meter.ops, {}, 1.0, (), None))) == 1


@pytest.mark.tf
def test_tuned_parameters_are_named_by_the_users_op() -> None:
    meter = metered(lambda D: D.range(10**6).map(heavy, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE))
    values = {(tuned.op, tuned.parameter): tuned.value for tuned in meter.parameters()}
    assert values["map", "parallelism"] >= 1
    assert ("prefetch", "buffer_size") in values
