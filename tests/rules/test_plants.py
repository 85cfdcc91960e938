"""What is planted is found in the graph that TensorFlow builds, and nothing else of its kind; in a clean sample nothing is."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from cs_input_analyzer import rules
from cs_input_analyzer.records import Case, Finding, PipelineGraph, Training
from cs_input_analyzer.tfdata.lineage import deals_out_files
from sample_pipelines import SAMPLES, find, write_sample
from sample_pipelines.pathologies import PATHOLOGIES, target_of, write_pathology
from tests.builders import (
    make_case,
    make_cluster,
    make_measurement,
    make_plan,
    make_station,
    make_steady_state,
    make_storage,
    make_worker,
)
from tests.rules.lines import cost, measured, unmeasured, with_worker

OURS = tuple(rule for rule in rules.RULES if rule.code < "CSI3")
WORKERS = 4
# Small, but a batch and more in every file.
SCALE = {"fc_mnist": 0.02, "bert_pretrain": 0.01, "gpt2": 0.02, "resnet50": 0.05, "unet": 0.07, "vit": 0.3, "vit_slow": 0.3}

pytestmark = pytest.mark.tf
GraphOf = Callable[[str], PipelineGraph]


@pytest.fixture(scope="module")
def graph_of(tmp_path_factory: pytest.TempPathFactory) -> GraphOf:
    """The graph of a plant or a sample, as the first of several workers builds it; the data of a sample are written once."""
    folder = tmp_path_factory.mktemp("data")

    @cache
    def params_of(name: str) -> Path:
        if name in PATHOLOGIES:
            return write_pathology(name, folder / name)
        return write_sample(name, folder / name, scale=SCALE[name])

    @cache
    def build(name: str) -> PipelineGraph:
        from cs_input_analyzer.tfdata.graph import read_graph, recorded_sources

        plant = PATHOLOGIES.get(name)
        target = target_of(name) if plant else find(name).target
        params = yaml.safe_load(params_of(plant.sample if plant and not plant.records else name).read_text())
        hosts = [f"node-{number}:23111" for number in range(WORKERS)]
        config = {"cluster": {"chief": ["node-c:23111"], "worker": hosts}, "task": {"type": "worker", "index": 0}}
        module, _, function = target.partition(":")
        with pytest.MonkeyPatch.context() as patch, recorded_sources() as log:
            patch.setenv("TF_CONFIG", json.dumps(config))
            dataset = getattr(importlib.import_module(module), function)(params["train_input"] if plant else params)
        return read_graph(dataset, log, target=target)

    return build


def planned(pipeline: PipelineGraph) -> Case:
    """A launch of several workers that measured rates and nothing else, for a plan of as many, on files that all nodes see."""
    count = pipeline.files.count if pipeline.files else None
    state = make_steady_state(epochs=0 if any(op.kind == "Repeat" for op in pipeline.ops) else 2)
    unknown = dict.fromkeys(
        ("bytes_read_per_sample", "bytes_out_per_sample", "cpu_s_per_sample", "buffered_bytes", "first_batch_s")
    )
    paths = tuple(str(op.parameters["filename"]) for op in pipeline.ops if op.kind == "Cache" and op.parameters.get("filename"))
    known = {"file_count": count, "writes": paths, "tuned": (), "steady_state": state}
    workers = tuple(make_worker(index=n, **known, **unknown) for n in range(WORKERS))
    return make_case(
        pipeline=pipeline,
        is_sharded=deals_out_files(pipeline.ops),
        measurements=(make_measurement(f"1x{WORKERS}x2", workers=workers),),
        profile=None,
        plan=make_plan("3x2x2", input_workers=WORKERS, alternatives=()),
        cluster=make_cluster(source="this host, with nodes from flags"),
        training=Training(steps=100_000, half="float16"),
        storage=make_storage(is_shared=True, file_system="nfs4", reads=(), source_samples_per_s=None),
    )


def with_what_it_takes(code: str, case: Case) -> Case:
    """What some of the rules must have measured, as the tool measured it on these plants."""
    if code == "CSI106":
        return measured(case, *(cost(op.name, 0.2) for op in case.pipeline.ops if op.kind in ("Map", "ParallelMap")))
    if code == "CSI108":
        return measured(case, cost("map", 0.8, elements_per_sample=2.0), cost("filter", 0.01))
    if code == "CSI202":
        row = cost("map", 0.9, bytes_in_per_sample=22e3, bytes_out_per_sample=262e3, parallelism=2.0)
        return measured(with_worker(case, bytes_read_per_sample=22e3), row)
    if code == "CSI207":
        return with_worker(case, bytes_read_per_sample=801.0)
    if code == "CSI404":
        return measured(case, cost("TFRecordDataset", 0.4))
    if code == "CSI211":
        small = {"bytes_in_per_sample": 22e3, "bytes_out_per_sample": 3_458.0}
        rows = (cost(op.name, 0.9 if op.kind == "ParallelMap" else 0.0, **small) for op in case.pipeline.ops)
        return measured(with_worker(case, first_batch_s=2.8, batches_per_s=1 / 0.032), *rows)
    return case


def ours(case: Case) -> list[Finding]:
    return [finding for rule in OURS for finding in rules.findings_of(rule, case)]


# What the user's own statement is shown with.
CHANGED = {
    "serial_augmentation": ".map(parse, num_parallel_calls=tf.data.AUTOTUNE)",
    "one_call": ".map(parse, num_parallel_calls=tf.data.AUTOTUNE)",
    "one_file_cycle": "cycle_length=4,",
    "flat_map_files": ".interleave(tf.data.TFRecordDataset, cycle_length=1, num_parallel_calls=tf.data.AUTOTUNE)",
    "forced_order": "deterministic=False",
    "prefetch_upstream": '.batch(train_input["batch_size"], drop_remainder=True).prefetch(tf.data.AUTOTUNE)',
    "decode_every_pass": ".map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()",
    "partial_cache": "dataset.take(24).cache()",
    "short_shuffle": ".shuffle(2560, seed=",
    "repeat_then_shuffle": '.shuffle(train_input["shuffle_buffer"], seed=train_input["shuffle_seed"]).repeat()',
}


@pytest.mark.parametrize("name", PATHOLOGIES)
def test_each_plant_raises_its_own_finding_and_no_other_of_order_and_buffers(name: str, graph_of: GraphOf) -> None:
    code = PATHOLOGIES[name].raises
    findings = ours(with_what_it_takes(code, unmeasured(graph_of(name))))
    assert [finding.code for finding in findings] == ([code] if code < "CSI3" else [])
    for finding in findings:
        assert "pathologies/" in finding.source
        assert finding.after is None or finding.after != finding.before
        assert CHANGED.get(name, "") in (finding.after or "")
        assert name not in CHANGED or CHANGED[name] not in (finding.before or "")


@pytest.mark.parametrize("name", [name for name, plant in PATHOLOGIES.items() if plant.raises >= "CSI3"])
def test_what_is_planted_is_found_with_no_more_costs_than_it_takes(name: str, graph_of: GraphOf) -> None:
    code = PATHOLOGIES[name].raises
    found = rules.sift(with_what_it_takes(code, planned(graph_of(name)))).findings
    assert code in {finding.code for finding in found}
    assert len([finding for finding in found if finding.severity != "info"]) <= 2, found
    assert all(finding.source for finding in found if finding.op), "every op of these is the user's own"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "vit_slow",
            {
                "CSI101": "dataset = dataset.map(augment, num_parallel_calls=tf.data.AUTOTUNE)",
                "CSI202": "dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE).cache()",
            },
        ),
        ("vit", {}),
    ],
)
def test_the_slow_sample_raises_its_two_faults_and_the_repaired_one_none(
    name: str, expected: dict[str, str], graph_of: GraphOf
) -> None:
    case = unmeasured(graph_of(name))
    maps = [op.name for op in case.pipeline.ops if op.kind in ("Map", "ParallelMap")]
    rows = (cost(op, 0.45, bytes_in_per_sample=24e3, bytes_out_per_sample=151e3) for op in maps)
    findings = ours(measured(with_worker(case, bytes_read_per_sample=24e3), *rows))
    assert {finding.code: (finding.after or "").strip() for finding in findings} == expected
    assert all("vit_slow.py" in (finding.source or "") for finding in findings)


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.name != "vit_slow"], ids=lambda sample: sample.name)
def test_a_clean_sample_raises_nothing(sample: Any, graph_of: GraphOf) -> None:
    assert ours(unmeasured(graph_of(sample.name))) == []
    assert [finding for finding in rules.sift(planned(graph_of(sample.name))).findings if finding.severity != "info"] == []


def test_plants_are_listed_by_code_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    codes = [plant.raises for plant in PATHOLOGIES.values()]
    assert codes == sorted(codes)
    assert set(codes) <= {rule.code for rule in rules.RULES}
    with pytest.raises(LookupError, match=next(iter(PATHOLOGIES))):
        write_pathology("nothing_wrong", tmp_path)


def test_a_reader_whose_records_are_shuffled_by_seed_is_not_shown_mixing_its_files(graph_of: GraphOf) -> None:
    (finding,) = ours(unmeasured(graph_of("one_reader")))
    assert finding.after is None
    assert "cycle_length=1" in finding.fix


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
    from cs_input_analyzer.tfdata.graph import SourceLog, read_graph

    pipeline = read_graph(dataset, SourceLog(), target="x")
    ops = tuple(replace(op, code=code if op.name not in ("shuffle", "batch", "map") else None) for op in pipeline.ops)
    stations = (
        make_station("storage latency", op=None, samples_per_s=200.0, utilization_ratio=0.95),
        make_station("CPU", op=None, samples_per_s=2_000.0, utilization_ratio=0.1),
    )
    return replace(unmeasured(replace(pipeline, ops=ops)), stations=stations)


READERS: dict[str, tuple[str, Callable[[Any, Any], Any], str]] = {
    "many files": ("CSI105", lambda tf, files: tf.data.TFRecordDataset(files), "ds = tf.data.TFRecordDataset(files)"),
    "tuned reads": (
        "CSI103",
        lambda tf, files: tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE),
        "ds = tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE)",
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

    from cs_input_analyzer.tfdata.edits import apply
    from cs_input_analyzer.trial.equality import prove

    dataset = read(tf, record_files).map(tf.strings.length, num_parallel_calls=2).shuffle(64).repeat().batch(4, drop_remainder=True)
    (finding,) = [one for one in ours(waiting_for_reads(dataset, statement)) if one.code in ("CSI103", "CSI104", "CSI105")]
    assert finding.code == code
    assert "9" in finding.after
    assert {edit.value for edit in finding.edits} == {9}  # all there are
    found = prove(dataset, apply(dataset, finding.edits), seconds=20)
    assert found.status == "proven", found
    assert "in any order" in found.reason
    assert found.elements == sum(3 + number % 3 for number in range(9))
