"""The benchmark on public pipelines: its pure parts, and that its list is whole. Needs no network and no public code."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.public_pipelines import judging, synthetic, targets
from benchmarks.public_pipelines.__main__ import JUDGED
from benchmarks.public_pipelines.drawn import DRAWN, PASSED_OVER
from benchmarks.public_pipelines.listed import LISTED
from benchmarks.public_pipelines.table import COLUMNS, Judgement, cells
from cs_input_analyzer.records import Op
from tests.builders import make_finding, make_op_cost

RATES = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=30)


# --- the list ----------------------------------------------------------------------------------------------------------------


def test_each_pipeline_has_a_target_and_data_and_is_judged_with_a_reason() -> None:
    names = {one.name for one in (*LISTED, *DRAWN)}
    assert len(LISTED) + len(DRAWN) == len(names)
    assert len(LISTED) >= 12
    assert len({one.repository for one in LISTED}) >= 8
    assert set(synthetic.WRITERS) == names
    assert all(callable(getattr(targets, name)) for name in names)
    by_hand = json.loads(JUDGED.read_text(encoding="utf-8"))
    assert set(by_hand) <= names
    assert all(isinstance(one["true"], bool) and one["why"] for of_one in by_hand.values() for one in of_one.values())


def test_ten_are_drawn_of_as_many_repositories_two_of_them_scripts_and_none_is_listed_or_passed_over() -> None:
    repositories = {one.repository for one in DRAWN}
    assert len(DRAWN) == len(repositories) == 10
    assert sum(one.script for one in DRAWN) == 2
    assert not repositories & {one.repository for one in LISTED}
    assert not repositories & {passed.partition(",")[0] for passed in PASSED_OVER}


# --- ratios -------------------------------------------------------------------------------------------------------------------


@given(RATES, st.floats(0.1, 10.0))
def test_a_pipeline_that_is_faster_by_a_factor_throughout_has_that_ratio_and_no_interval(rates: list[float], factor: float) -> None:
    found = judging.ratio_of_medians([factor * rate for rate in rates], rates)
    assert found.ratio == pytest.approx(factor)
    assert (found.low, found.high) == pytest.approx((factor, factor))


@given(RATES)
def test_the_interval_holds_the_extremes_of_no_more_than_all_pairs(rates: list[float]) -> None:
    found = judging.ratio_of_medians(rates, [1.0] * len(rates))
    assert min(rates) - 1e-9 <= found.low <= found.high <= max(rates) + 1e-9
    assert found.pairs == len(rates)
    with pytest.raises(ValueError, match="are no pairs"):
        judging.ratio_of_medians(rates, [])


@pytest.mark.parametrize(("ratio", "low", "high", "verdict"), [
    (1.049, 0.5, 1.5, "met"),
    (0.951, 0.94, 0.96, "met"),
    (1.2, 1.06, 1.3, "missed"),
    (0.8, 0.7, 0.94, "missed"),
    (1.2, 1.04, 1.3, "undecided"),
    (0.8, 0.7, 0.96, "undecided"),
])  # fmt: skip
def test_within_five_percent(ratio: float, low: float, high: float, verdict: str) -> None:
    found = judging.Ratio(ratio=ratio, low=low, high=high, pairs=10)
    assert judging.verdict(found) == verdict
    assert judging.gains_gone({"a fix": found}) == ([] if low > 1 else ["a fix"])


# --- counting, costs -----------------------------------------------------------------------------------------------------------


def test_rows_inside_a_function_count_for_the_op_that_calls_it() -> None:
    ops = [
        Op(name="reader", kind="TFRecord", parameters={}, within="interleave"),
        Op(name="map", kind="Map", parameters={}, within="reader_map"),
        Op(name="reader_map", kind="FlatMap", parameters={}, within="interleave"),
        Op(name="interleave", kind="ParallelInterleave", parameters={}),
    ]
    costs = {"reader": 1.0, "map": 1.0, "reader_map": None, "runtime": 1.0}
    rows = [make_op_cost(name, self_cpu_s_per_sample=cost_s) for name, cost_s in costs.items()]
    assert judging.folded(rows, ops) == {"interleave": 2.0, "runtime": 1.0}


def test_the_dearest_is_that_of_the_largest_median_and_those_that_rounds_do_not_tell_from_it() -> None:
    savings = {"map": [9.0, 10.0, 11.0, 10.0, 10.0], "batch": [1.0, 1.0, 1.0, 50.0, 50.0], "shuffle": [1.0, 2.0, 1.0, 2.0, 50.0]}
    assert judging.dearest(savings) == ("map", "batch")
    assert judging.dearest({}) == ()
    assert judging.dearest({"map": [-1.0]}) == ("map",)
    found = Judgement(name="one", repository="a/b", commit="0", function="f", rows={"map": 3.0, "runtime": 1.0}, dearest=("map",))
    assert found.is_dearest_right
    assert not replace(found, rows={"map": 3.0, "runtime": 4.0}).is_dearest_right


OPS = [
    Op(name="map", kind="Map", parameters={}, within="flat_map"),
    Op(name="flat_map", kind="FlatMap", parameters={}),
    Op(name="shuffle", kind="Shuffle", parameters={}),
    Op(name="batch", kind="Batch", parameters={}),
]


def _costs(*rows: tuple[str, float | None, str | None]) -> dict[tuple[str, ...], float]:
    made = [make_op_cost(name, self_cpu_s_per_sample=cost_s, merged_into=into) for name, cost_s, into in rows]
    return judging.groups(made, OPS)


def test_a_row_names_its_op_at_the_top_and_what_is_merged_into_it() -> None:
    assert _costs(("map", 1.0, None), ("shuffle", 2.0, None), ("batch", None, "shuffle")) == {
        ("flat_map",): 1.0,
        ("shuffle", "batch"): 2.0,
    }


@pytest.mark.parametrize("name", ["unattributed", "runtime", "restart"])
def test_what_is_no_op_is_not_attributed_whatever_is_merged_into_it(name: str) -> None:
    costs = _costs(("map", 1.0, None), (name, 3.0, None), ("shuffle", None, name))
    assert judging.attributed_ratio(costs) == pytest.approx(0.25)
    assert judging.right_ratio(costs, {"flat_map": 0.9, "shuffle": 0.1}) == pytest.approx(0.25)


def test_a_row_of_four_ops_is_not_attributed() -> None:
    assert judging.attributed_ratio({("a", "b", "c"): 1.0, ("a", "b", "c", "d"): 1.0}) == pytest.approx(0.5)
    assert judging.attributed_ratio({}) is None
    assert judging.right_ratio({}, {}) is None


def test_cpu_at_the_wrong_op_is_attributed_and_not_right() -> None:
    costs: dict[tuple[str, ...], float] = {("map",): 6.0, ("shuffle",): 4.0}
    assert judging.attributed_ratio(costs) == pytest.approx(1.0)
    assert judging.right_ratio(costs, {"map": 0.6, "shuffle": 0.4}) == pytest.approx(1.0)
    assert judging.right_ratio(costs, {"map": 0.1, "shuffle": 0.1, "flat_map": 0.8}) == pytest.approx(0.2)


def test_true_shares_are_medians_over_the_whole_and_never_below_zero() -> None:
    assert judging.shares({"map": [1.0, 3.0, 2.0], "batch": [-1.0]}, [4.0, 4.0, 9.0]) == {"map": 0.5, "batch": 0.0}
    assert judging.shares({"map": [1.0]}, []) == {}
    assert judging.shares({"map": [4.0], "batch": [4.0]}, [4.0]) == {}


@pytest.mark.parametrize(("said", "in_each", "sizes", "is_right"), [
    (16, True, [16, 16, 3], True),
    (16, False, [16, 16, 3], True),
    (1, False, [8192, 8192], False),
    (None, True, [45, 54, 65], True),
    (65, False, [45, 54, 65], False),
    (None, False, [45, 54], False),
])  # fmt: skip
def test_samples_are_right_where_they_are_those_of_the_first_elements(
    said: int | None, in_each: bool, sizes: list[int], is_right: bool
) -> None:
    assert judging.samples_verdict(said, in_each, sizes).startswith("right" if is_right else "WRONG")


# --- lines ------------------------------------------------------------------------------------------------------------------------

TEXT = """\
d = tf.data.Dataset.list_files(pattern)
d = d.apply(
    tf.data.experimental.parallel_interleave(
        fetch, cycle_length=4))
d = d.map(parse).batch(8)
d = (
    d.padded_batch(4)
)
d = builder.as_dataset(split="train")
d = tf.data.experimental.make_csv_dataset(pattern, 32)
""".splitlines()


@pytest.mark.parametrize(("kind", "number", "is_right"), [
    ("MatchingFiles", 1, True),
    ("LegacyParallelInterleave", 2, True),
    ("ParallelInterleave", 2, True),
    ("ParallelInterleave", 5, False),
    ("ParallelMap", 5, True),
    ("PaddedBatch", 7, True),
    ("Shuffle", 9, False),
    ("Shuffle", 10, True),
    ("Map", 0, False),
    ("Map", 99, False),
])  # fmt: skip
def test_whether_the_call_stands_at_the_line(kind: str, number: int, is_right: bool) -> None:
    assert judging.line_is_right(kind, TEXT, number) is is_right


def test_ops_with_a_wrong_line_or_none_are_named() -> None:
    ops = [
        Op(name="map", kind="Map", parameters={}, source="here.py:5"),
        Op(name="shuffle", kind="Shuffle", parameters={}, source="here.py:5"),
        Op(name="prefetch", kind="Prefetch", parameters={}),
    ]
    wrong = judging.wrong_lines(ops, {"here.py": TEXT})
    assert len(wrong) == 2
    assert wrong[0].startswith("shuffle (Shuffle): here.py:5: d = d.map")
    assert wrong[1].startswith("prefetch (Prefetch): no line")


# --- findings -----------------------------------------------------------------------------------------------------------------


def test_findings_are_true_false_or_not_judged_by_their_code_and_op() -> None:
    names = [judging.finding_name(make_finding(code, op=op)) for code, op in (("CSI1", "map"), ("CSI2", None), ("CSI3", None))]
    by_hand = {"CSI1 map": (True, "it is so"), "CSI2": (False, "it is not")}
    assert judging.judged(names, by_hand) == (["CSI1 map"], ["CSI2"], ["CSI3"])


def test_a_pipeline_that_could_not_be_run_is_a_row_that_says_why() -> None:
    shown = cells(Judgement(name="one", repository="a/b", commit="0", function="f", problem="there is no clone"))
    assert shown[2] == "there is no clone"
    assert len(shown) == len(COLUMNS) == len(cells(Judgement(name="two", repository="a/b", commit="0", function="f")))
