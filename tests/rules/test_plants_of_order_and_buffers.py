"""What is planted in order, parallelism, buffers and caches is found in TensorFlow's own graph, and nothing else of it is told."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from cs_input_analyzer import rules
from cs_input_analyzer.records import Case, Finding, PipelineGraph
from sample_pipelines import SAMPLES, write_sample
from sample_pipelines.pathologies import PATHOLOGIES, write_pathology
from tests.builders import make_case, make_cluster, make_measurement, make_station, make_worker
from tests.rules.lines import cost, measured

OURS = tuple(rule for rule in rules.RULES if rule.CODE < "CSI3")
SCALE = {"fc_mnist": 0.02, "bert_pretrain": 0.01, "gpt2": 0.02, "resnet50": 0.05, "unet": 0.07}

pytestmark = pytest.mark.tf


@pytest.fixture(scope="module")
def graph_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], PipelineGraph]:
    """The graph of an input function, as a worker builds it that runs alone; the data of a sample are written once."""
    folder = tmp_path_factory.mktemp("data")

    @cache
    def params_of(sample: str) -> Path:
        return write_sample(sample, folder / sample, scale=SCALE[sample])

    def build(module: str, sample: str) -> PipelineGraph:
        from cs_input_analyzer.pipeline.graph import read_graph, recorded_sources

        imported: Any = importlib.import_module(module)
        own = hasattr(imported, "write_dataset") and ".pathologies." in module
        name = module.rpartition(".")[2]
        path = write_pathology(name, folder / name) if own else params_of(sample)
        with recorded_sources() as log:
            dataset = imported.train_input_fn(yaml.safe_load(path.read_text()))
        return read_graph(dataset, log, target=f"{module}:train_input_fn")

    return build


def of_plant(name: str, graph_of: Callable[[str, str], PipelineGraph]) -> tuple[str, PipelineGraph]:
    """The code that a plant promises, and its graph."""
    module = importlib.import_module(f"sample_pipelines.pathologies.{name}")
    return module.RAISES, graph_of(module.__name__, getattr(module, "SAMPLE", "fc_mnist"))


def unmeasured(pipeline: PipelineGraph) -> Case:
    """Nothing but the graph is known, and that a task had two CPUs."""
    worker = make_worker(bytes_read_per_sample=None, first_batch_s=None, steady_state=None)
    launch = replace(make_measurement("1x1x2"), workers=(worker,))
    return make_case(pipeline=pipeline, measurements=(launch,), profile=None, plan=None, cluster=make_cluster())


def with_worker(case: Case, **known: Any) -> Case:
    """The case with more known of its one worker."""
    (launch,) = case.measurements
    return replace(case, measurements=(replace(launch, workers=(replace(launch.workers[0], **known),)),))


def with_what_it_takes(code: str, case: Case) -> Case:
    """What three of the rules must have measured, as the tool measured it on these plants."""
    if code == "CSI202":
        row = cost("map", 0.9, bytes_in_per_sample=22e3, bytes_out_per_sample=262e3, parallelism=2.0)
        return measured(with_worker(case, bytes_read_per_sample=22e3), row)
    if code == "CSI207":
        return with_worker(case, bytes_read_per_sample=801.0)
    return with_worker(case, first_batch_s=2.8, batches_per_s=1 / 0.032) if code == "CSI211" else case


def ours(case: Case) -> list[Finding]:
    return [finding for rule in OURS for finding in rules.findings_of(rule, case)]


@pytest.mark.parametrize("name", PATHOLOGIES)
def test_each_plant_raises_its_own_finding_and_no_other_of_these(name: str, graph_of: Callable[[str, str], PipelineGraph]) -> None:
    code, pipeline = of_plant(name, graph_of)
    findings = ours(with_what_it_takes(code, unmeasured(pipeline)))
    assert [finding.code for finding in findings] == ([code] if code < "CSI3" else [])
    for finding in findings:
        assert finding.source is not None
        assert f"{name}.py:" in finding.source
        assert finding.after is None or finding.after != finding.before


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_clean_sample_raises_none_of_these(sample: Any, graph_of: Callable[[str, str], PipelineGraph]) -> None:
    assert ours(unmeasured(graph_of(sample.module, sample.name))) == []


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("serial_augmentation", ".map(parse, num_parallel_calls=tf.data.AUTOTUNE)"),
        ("one_call", ".map(parse, num_parallel_calls=tf.data.AUTOTUNE)"),
        ("one_file_cycle", "cycle_length=4,"),
        ("flat_map_files", ".interleave(tf.data.TFRecordDataset, cycle_length=1, num_parallel_calls=tf.data.AUTOTUNE)"),
        ("forced_order", "deterministic=False,"),
        ("prefetch_upstream", '.batch(section["batch_size"], drop_remainder=True).prefetch(tf.data.AUTOTUNE)'),
        ("decode_every_pass", ".map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()"),
        ("partial_cache", "dataset.take(24).cache()"),
        ("short_shuffle", ".shuffle(2560, seed="),
        ("repeat_then_shuffle", '.shuffle(section["shuffle_buffer"], seed=section["shuffle_seed"]).repeat()'),
    ],
)
def test_the_users_own_statement_is_shown_changed(name: str, changed: str, graph_of: Callable[[str, str], PipelineGraph]) -> None:
    code, pipeline = of_plant(name, graph_of)
    (finding,) = ours(with_what_it_takes(code, unmeasured(pipeline)))
    assert finding.before is not None
    assert finding.after is not None
    assert changed in finding.after
    assert changed not in finding.before


def test_a_reader_whose_records_are_shuffled_by_seed_is_not_shown_mixing_its_files(
    graph_of: Callable[[str, str], PipelineGraph],
) -> None:
    code, pipeline = of_plant("one_reader", graph_of)
    (finding,) = ours(with_what_it_takes(code, unmeasured(pipeline)))
    assert finding.after is None
    assert "cycle_length=1" in finding.fix


# --- what the rules propose for readers of real files ---------------------------------------------------------------------------

STATEMENT = "ds = tf.data.TFRecordDataset(files, num_parallel_reads=2)"


@pytest.fixture(scope="module")
def record_files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of three to five records, each a text of its own."""
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("records")
    paths = [str(folder / f"part-{number}.tfrecord") for number in range(9)]
    for number, path in enumerate(paths):
        with tf.io.TFRecordWriter(path) as writer:
            for record in range(3 + number % 3):
                writer.write(f"{number}-{record}")
    return paths


def waiting_for_reads(dataset: Any, code: str | None) -> Case:
    """Reads that wait, far below what the CPUs would take; the ops of the reader have this statement."""
    from cs_input_analyzer.pipeline.graph import SourceLog, read_graph

    pipeline = read_graph(dataset, SourceLog(), target="x")
    ops = tuple(replace(op, code=code if op.name not in ("shuffle", "batch", "map") else None) for op in pipeline.ops)
    stations = (
        make_station("storage latency", op=None, samples_per_s=200.0, utilization_ratio=0.95),
        make_station("CPU", op=None, samples_per_s=2_000.0, utilization_ratio=0.1),
    )
    return replace(unmeasured(replace(pipeline, ops=ops)), stations=stations)


READERS: dict[str, tuple[str, Callable[[Any, Any], Any], str]] = {
    "many files": ("CSI105", lambda tf, files: tf.data.TFRecordDataset(files), "ds = tf.data.TFRecordDataset(files)"),
    "parallel reads": ("CSI103", lambda tf, files: tf.data.TFRecordDataset(files, num_parallel_reads=2), STATEMENT),
    "tuned reads": (
        "CSI103",
        lambda tf, files: tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE),
        "ds = tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE)",
    ),
    "flat_map": (
        "CSI104",
        lambda tf, files: tf.data.Dataset.list_files(files).flat_map(tf.data.TFRecordDataset),
        "ds = files.flat_map(tf.data.TFRecordDataset)",
    ),
    "interleave": (
        "CSI105",
        lambda tf, files: tf.data.Dataset.list_files(files).interleave(tf.data.TFRecordDataset, cycle_length=1),
        "ds = files.interleave(tf.data.TFRecordDataset, cycle_length=1)",
    ),
}


@pytest.mark.parametrize(("code", "read", "statement"), READERS.values(), ids=READERS)
def test_what_is_proposed_for_reads_that_wait_is_carried_out_and_proven(
    code: str, read: Callable[[Any, Any], Any], statement: str, record_files: list[str]
) -> None:
    import tensorflow as tf

    from cs_input_analyzer.pipeline.edits import apply
    from cs_input_analyzer.worker.equality import prove

    dataset = read(tf, record_files).map(tf.strings.length, num_parallel_calls=2).shuffle(64).repeat().batch(4, drop_remainder=True)
    (finding,) = [one for one in ours(waiting_for_reads(dataset, statement)) if one.code in ("CSI103", "CSI104", "CSI105")]
    assert finding.code == code
    assert finding.after is not None
    assert "9" in finding.after
    assert {edit.value for edit in finding.edits} == {9}  # all there are
    found = prove(dataset, apply(dataset, finding.edits), seconds=20)
    assert found.status == "proven", found
    assert "in any order" in found.reason
    assert found.elements == sum(3 + number % 3 for number in range(9))


@pytest.mark.parametrize(("code", "read", "statement"), READERS.values(), ids=READERS)
def test_what_is_proposed_where_the_order_counts_keeps_it(
    code: str, read: Callable[[Any, Any], Any], statement: str, record_files: list[str]
) -> None:
    """Windows of neighbours, of files in any order: nothing that reorders records is applied, or shown."""
    import tensorflow as tf

    from cs_input_analyzer.pipeline.edits import EditError, apply
    from cs_input_analyzer.worker.equality import prove

    dataset = read(tf, record_files).window(4, drop_remainder=True).flat_map(lambda window: window.batch(4))
    for finding in ours(waiting_for_reads(dataset, statement)):
        assert finding.after is None or "cycle_length=1" in finding.after, finding
        try:
            edited = apply(dataset, finding.edits)
        except EditError:
            continue
        found = prove(dataset, edited, seconds=20)
        assert found.status == "refused" or found.reason.endswith("in order"), found
