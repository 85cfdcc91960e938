"""The benchmark on public pipelines: its pure parts, and that its list is whole. Needs no network and no public code."""

from __future__ import annotations

import json

import pytest
import yaml

from benchmarks.public_pipelines import judging, synthetic, targets
from benchmarks.public_pipelines.__main__ import JUDGED
from benchmarks.public_pipelines.listed import LIST, LISTED
from benchmarks.public_pipelines.table import COLUMNS, Judgement, cells
from cs_input_analyzer.records import Op
from tests.builders import make_finding

# --- the list ----------------------------------------------------------------------------------------------------------------


def test_each_pipeline_has_a_target_and_data_and_is_judged_with_a_reason() -> None:
    names = {one.name for one in LISTED}
    assert len(LISTED) == len(names) == 22
    assert all(callable(getattr(module, name)) for module in (targets, synthetic) for name in names)
    by_hand = json.loads(JUDGED.read_text(encoding="utf-8"))
    assert set(by_hand) <= names
    assert all(isinstance(one["true"], bool) and one["why"] for of_one in by_hand.values() for one in of_one.values())


def test_those_that_were_drawn_are_of_as_many_repositories_and_none_is_listed_or_passed_over() -> None:
    content = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    drawn = {one["repository"] for one in content["drawn"]}
    assert len(drawn) == len(content["drawn"]) == 10
    assert not drawn & {one["repository"] for one in content["listed"]}
    assert not drawn & {passed.partition(",")[0] for passed in content["passed_over"]}


# --- counting -------------------------------------------------------------------------------------------------------------


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


def test_findings_are_false_or_not_judged_by_their_code_and_op() -> None:
    names = [judging.finding_name(make_finding(code, op=op)) for code, op in (("CSI1", "map"), ("CSI2", None), ("CSI3", None))]
    by_hand = {"CSI1 map": (True, "it is so"), "CSI2": (False, "it is not")}
    assert judging.judged(names, by_hand) == (["CSI2"], ["CSI3"])


def test_a_pipeline_that_could_not_be_run_is_a_row_that_says_why() -> None:
    shown = cells(Judgement(name="one", repository="a/b", commit="0", function="f", problem="there is no clone"))
    assert shown[2] == "there is no clone"
    assert len(shown) == len(COLUMNS) == len(cells(Judgement(name="two", repository="a/b", commit="0", function="f")))
