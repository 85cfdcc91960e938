"""What a worker builds from its order."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.worker import stages
from cs_input_analyzer.worker.journal import JournalWriter, Order, read_journal
from tests.builders import make_work_plan

pytestmark = pytest.mark.tf

FILES = [f"part-{number}" for number in range(10)]
HALVES = [*FILES[5:], *FILES[:5]]
CODE = """
import tensorflow as tf

def train_input_fn():
    names = tf.data.Dataset.list_files({folder!r} + "/part-*", shuffle=False)
    return names{ops}.interleave(tf.data.TextLineDataset, cycle_length=1)
"""


@pytest.mark.parametrize(
    ("ops", "read"),
    [
        ("", HALVES),
        (".take(4)", FILES[:4]),  # the user's files, wherever a pipeline is to begin
        (".skip(7).repeat(1)", FILES[7:]),
        (".take(-1)", HALVES),
        (".skip(0)", HALVES),
        (".interleave(tf.data.TextLineDataset, cycle_length=1).take(3)", HALVES[:3]),  # records, of which it may be any
    ],
)
def test_a_pipeline_begins_elsewhere_in_its_files_and_reads_no_others(
    ops: str, read: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in FILES:
        (tmp_path / name).write_text(f"{tmp_path}/{name}\n")
    (tmp_path / "begins_elsewhere.py").write_text(CODE.format(folder=str(tmp_path), ops=ops))
    plan = make_work_plan(f"{tmp_path}/begins_elsewhere.py:train_input_fn", 1, begin_ratio=0.5, deadline_s=0.0)
    order = Order(plan=plan, worker_index=0, tf_config="{}", is_first=True, is_alone=True, left_s=60.0)
    built: Any = stages._build(JournalWriter(tmp_path), order, tmp_path, [])
    assert [Path(text.decode()).name for text in built.dataset.as_numpy_iterator()] == read


EMPTY = {
    ".batch(8, drop_remainder=True).prefetch(1)": r"batch in empty.py:5 got elements and gave none: fewer than a batch, .*",
    ".shuffle(3).filter(lambda n: n > 9).repeat().batch(2)": r"filter in empty.py:5 got elements and gave none",
    ".map(lambda n: n).flat_map(lambda n: tf.data.Dataset.range(0))": r"flat_map in empty.py:5 got elements and gave none",
    ".take(0)": r"take in empty.py:5 got elements and gave none",
    ".skip(5).concatenate(tf.data.Dataset.range(0)).batch(2)": r"skip in empty.py:5 got elements and gave none",
}


@pytest.mark.parametrize(
    ("made", "says"),
    [
        *((f"tf.data.Dataset.range(5){ops}", says) for ops, says in EMPTY.items()),
        ("tf.data.Dataset.range(0).filter(lambda n: n > 9).batch(2)", "its file list or generator is empty, .*"),
        # The first pass took all: nothing tells which op dropped them.
        (
            "tf.data.Dataset.from_generator(lambda: once, tf.int64).filter(lambda n: n > 9)",
            "its file list or generator is empty, .*",
        ),
    ],
)
def test_the_op_that_drops_every_element_is_named(made: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    text = f"import tensorflow as tf\n\nonce = iter(range(5))\ndef train_input_fn():\n    return {made}\n"
    (tmp_path / "empty.py").write_text(text)
    plan = make_work_plan(f"{tmp_path}/empty.py:train_input_fn", 1, deadline_s=0.0)
    order = Order(plan=plan, worker_index=0, tf_config="{}", is_first=True, is_alone=True, left_s=60.0)
    journal = JournalWriter(tmp_path)
    built: Any = stages._build(journal, order, tmp_path, [])
    assert stages._first_batch(journal, built) is None
    failed: Any = read_journal(tmp_path).last("failed")
    assert re.fullmatch(f"the dataset gave no element: {says}", failed["message"])
