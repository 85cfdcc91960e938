"""`tune` in a training script: the whole dataset, equal and faster, or the very same one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cs_input_analyzer as csia
from cs_input_analyzer.records import Edit, Finding
from cs_input_analyzer.workflows import tune as tuning
from tests.builders import make_finding
from tests.tfdata import written

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

Dataset = tf.data.Dataset


def costly(value: Any) -> Any:
    return tf.reduce_sum(tf.linalg.matmul(tf.fill([160, 160], tf.cast(value, tf.float32)), tf.ones([160, 160])))


def slow() -> Any:
    options = tf.data.Options()
    options.autotune.enabled = False  # else TensorFlow makes the map parallel by itself
    return Dataset.range(48).map(costly).repeat(3).batch(4).with_options(options)


@pytest.fixture
def propose(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets the rules propose these edits, whatever the dataset."""

    def proposing(*edits: Edit) -> None:
        found: tuple[Finding, ...] = tuple(
            make_finding("CSI202", edits=(edit,), measured_gain=None, proven=False) for edit in edits
        )
        sifted = tuning.rules.Sifted(findings=found, ignored_count=0)
        monkeypatch.setattr(tuning.rules, "sift", lambda case, select, ignore: sifted)

    return proposing


@pytest.mark.long  # a gain is measured: the fewer tests beside it the better
def test_what_gains_comes_back_whole_and_equal(propose: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    propose(Edit(kind="insert-cache", op="map"), Edit(kind="set-buffer", op="map"))
    dataset = slow()
    before = [batch.numpy().tolist() for batch in dataset]
    capfd.readouterr()
    tuned = csia.tuning(dataset, seconds=60)  # patience for a busy host: it ends once the gain is clear
    assert capfd.readouterr().out == ""
    assert tuned.fixes.codes == ("CSI202",)
    assert tuned.fixes.measured_gain.low > 1
    assert tuned.isolation == "none"
    assert tuned.dataset is not dataset
    assert tuned.dataset.element_spec == dataset.element_spec
    assert int(tuned.dataset.cardinality()) == int(dataset.cardinality())
    assert [batch.numpy().tolist() for batch in tuned.dataset] == before
    assert tuned.findings[0].proven
    assert "is no prefetch" in tuned.findings[1].unproven_because


def test_a_refused_fix_changes_nothing(propose: Callable[..., None]) -> None:
    propose(Edit(kind="insert-cache", op="batch"))
    dataset = slow()
    tuned = csia.tuning(dataset, seconds=5)
    assert tuned.dataset is dataset
    assert not tuned.findings[0].proven
    assert "is repeated" in tuned.findings[0].unproven_because


LEFT: dict[str, tuple[Callable[[], Any], str]] = {
    "python": (lambda: written.built("Dataset.range(9).map(python)", vars(written)), "it calls Python"),
    "generator": (written.generated, "it calls Python"),
    "variable": (written.with_variable, "stateful op|holds a variable"),
    "datasets": (lambda: Dataset.range(4).window(2), "its elements are datasets"),
    "printing": (lambda: written.built("Dataset.range(9).map(printed)", vars(written)), "stateful op"),
    "snapshot": (lambda: Dataset.range(4).snapshot("/nowhere/at/all"), "writes files"),
}


@pytest.mark.parametrize(("build", "phrase"), LEFT.values(), ids=LEFT)
def test_a_pipeline_that_reaches_outside_is_left_alone(build: Callable[[], Any], phrase: str, propose: Callable[..., None]) -> None:
    import re

    propose(Edit(kind="insert-prefetch", op="map"))
    dataset = build()
    tuned = csia.tuning(dataset, seconds=5)
    assert tuned.dataset is dataset
    assert re.search(phrase, tuned.why), tuned.why
    assert tuned.findings[0].unproven_because == tuned.why


def test_a_cache_in_a_file_is_neither_made_nor_locked(propose: Callable[..., None], tmp_path: Path) -> None:
    propose(Edit(kind="insert-prefetch", op="batch"))
    dataset = Dataset.range(40).map(costly).cache(str(tmp_path / "cache")).batch(4)
    csia.tune(dataset, seconds=4)
    assert list(tmp_path.iterdir()) == []


def test_a_seeded_dataset_is_not_moved_by_tuning_it(propose: Callable[..., None]) -> None:
    def build() -> Any:
        return Dataset.range(40).shuffle(40, seed=4).batch(4)

    propose(Edit(kind="insert-prefetch", op="batch"))
    dataset, fresh = build(), build()
    tuned = csia.tune(dataset, seconds=4)
    first = [batch.numpy().tolist() for batch in fresh]
    assert [batch.numpy().tolist() for batch in tuned] == first
    assert [batch.numpy().tolist() for batch in dataset] == (
        first if tuned is not dataset else [batch.numpy().tolist() for batch in fresh]
    )


@pytest.mark.parametrize("wrong", [[1, 2], None, iter(Dataset.range(3))])
def test_anything_but_a_dataset_is_refused(wrong: object) -> None:
    with pytest.raises(csia.UsageError, match=r"takes a tf\.data\.Dataset"):
        csia.tune(wrong)


def test_inside_a_function_nothing_can_be_measured() -> None:
    @tf.function
    def traced() -> Any:
        csia.tune(Dataset.range(3))
        return tf.constant(0)

    with pytest.raises(csia.UsageError, match=r"tf\.function"):
        traced()


def test_the_rules_are_asked_for_a_dataset_of_which_nothing_was_measured() -> None:
    """With the real rules: whatever they say of a bare graph, what comes back is whole."""
    dataset = Dataset.range(64).map(costly).batch(8)
    tuned = csia.tuning(dataset, seconds=6, ignore=("CSI3",))
    assert not any(finding.code.startswith("CSI3") for finding in tuned.findings)
    assert [batch.numpy().tolist() for batch in tuned.dataset] == [batch.numpy().tolist() for batch in dataset]
