"""What is planted is found: the graph that TensorFlow builds of each pathology raises its finding, that of a clean sample none."""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import make_case, make_cluster, make_measurement, make_plan, make_steady_state, make_storage, make_worker

import sample_pipelines
from cs_input_analyzer import rules
from cs_input_analyzer.records import Case, Finding, PipelineGraph
from sample_pipelines import SAMPLES, Sample, write_sample
from sample_pipelines.pathologies import PATHOLOGIES, write_pathology

FOLDER = Path(sample_pipelines.__file__).parent / "pathologies"
WORKERS = 4
# Small, but a batch and more in every file.
SCALE = {"fc_mnist": 0.02, "bert_pretrain": 0.01, "gpt2": 0.02, "resnet50": 0.05, "unet": 0.07}


def planted(name: str) -> str:
    """The code that a pathology promises, without importing TensorFlow."""
    for node in ast.parse((FOLDER / f"{name}.py").read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "RAISES":
            return str(ast.literal_eval(node.value))
    raise LookupError(f"{name} does not say what it raises")


# --- the list ----------------------------------------------------------------------------------------------------------------


def test_the_list_is_the_folder_by_code() -> None:
    assert set(PATHOLOGIES) == {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert list(PATHOLOGIES) == sorted(PATHOLOGIES, key=lambda name: (planted(name), PATHOLOGIES.index(name)))


def test_every_pathology_plants_what_a_rule_finds() -> None:
    known = {rule.CODE for rule in rules.RULES}
    assert {planted(name) for name in PATHOLOGIES} <= known


def test_an_unknown_pathology_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=PATHOLOGIES[0]):
        write_pathology("nothing_wrong", tmp_path)


# Of the rules that need no measured costs; the others have tests of their own.
FROM_THE_GRAPH = [name for name in PATHOLOGIES if planted(name)[:4] in ("CSI3", "CSI4", "CSI5")]


# --- with TensorFlow ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any, str], PipelineGraph]:
    """The graph of an input function as the first of several workers builds it."""
    folder = tmp_path_factory.mktemp("data")

    @cache
    def params_of(name: str) -> Path:
        return (
            write_pathology(name, folder / name, scale=0.02)
            if name in PATHOLOGIES
            else write_sample(name, folder / name, scale=SCALE[name])
        )

    def build(module: str, name: str) -> PipelineGraph:
        from cs_input_analyzer.pipeline.graph import read_graph, recorded_sources

        params = yaml.safe_load(params_of(name).read_text())
        hosts = [f"node-{number}:23111" for number in range(WORKERS)]
        config = {"cluster": {"chief": ["node-c:23111"], "worker": hosts}, "task": {"type": "worker", "index": 0}}
        with pytest.MonkeyPatch.context() as patch, recorded_sources() as log:
            patch.setenv("TF_CONFIG", json.dumps(config))
            dataset = importlib.import_module(module).train_input_fn(params)
        return read_graph(dataset, log, target=f"{module}:train_input_fn")

    return build


def seen(pipeline: PipelineGraph) -> Case:
    """A launch of several workers that measured rates and nothing else, for a plan of as many, on files that all nodes see."""
    count = pipeline.files.count if pipeline.files else None
    epochs = 0 if any(op.kind == "Repeat" for op in pipeline.ops) else 2
    unknown = dict.fromkeys(
        ("bytes_read_per_sample", "bytes_out_per_sample", "cpu_s_per_sample", "buffered_bytes", "first_batch_s")
    )
    state = make_steady_state(epochs=epochs)
    workers = tuple(make_worker(index=n, file_count=count, tuned=(), steady_state=state, **unknown) for n in range(WORKERS))
    return make_case(
        pipeline=pipeline,
        is_sharded=pipeline.is_sharded,
        measurements=(replace(make_measurement(f"1x{WORKERS}x2"), workers=workers),),
        profile=None,
        plan=make_plan("3x2x2", input_workers=WORKERS, alternatives=()),
        cluster=make_cluster(source="this host, with nodes from flags"),
        storage=make_storage(is_shared=True, file_system="nfs4", reads=(), source_samples_per_s=None),
    )


def told(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{finding.severity} {finding.code}: {finding.message}" for finding in findings]


@pytest.mark.tf
@pytest.mark.parametrize("name", FROM_THE_GRAPH)
def test_what_is_planted_is_found(name: str, graph_of: Callable[[Any, str], PipelineGraph]) -> None:
    found = rules.find(seen(graph_of(f"sample_pipelines.pathologies.{name}", name)))
    assert planted(name) in {finding.code for finding in found}, told(found)
    loud = [finding for finding in found if finding.severity != "info"]
    assert len(loud) <= 2, told(found)
    assert all(finding.source for finding in found if finding.op), "every op of these is the user's own"


@pytest.mark.tf
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_clean_sample_raises_no_warning(sample: Sample, graph_of: Callable[[Any, str], PipelineGraph]) -> None:
    found = rules.find(seen(graph_of(sample.module, sample.name)))
    assert [line for line in told(found) if not line.startswith("info")] == []


@pytest.mark.tf
def test_the_recipe_for_more_files_keeps_every_record(graph_of: Callable[[Any, str], PipelineGraph], tmp_path: Path) -> None:
    import tensorflow as tf

    from cs_input_analyzer.rules import fewer_files_than_workers

    case = seen(graph_of("sample_pipelines.pathologies.too_few_files", "too_few_files"))
    (finding,) = fewer_files_than_workers.find(case)
    assert finding.after is not None
    assert case.pipeline.files is not None
    (tmp_path / "new").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        exec(compile(finding.after, "recipe", "exec"), {})

    def records(folder: str) -> list[bytes]:
        return sorted(tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"{folder}/*.tfrecord"))).as_numpy_iterator())

    assert case.pipeline.files.directory is not None
    assert records(str(tmp_path / "new")) == records(case.pipeline.files.directory)
    sizes = [path.stat().st_size for path in (tmp_path / "new").iterdir()]
    assert len(sizes) == finding.evidence["files_wanted"]
    assert max(sizes) - min(sizes) <= max(sizes) / 100
