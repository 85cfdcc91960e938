"""Where the demand comes from: one source of several, each checked."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cs_input_analyzer.cli import analyze, cli, main
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.recommend import single_task_nodes
from cs_input_analyzer.records import Consumption, Options, SamplesPerElement
from cs_input_analyzer.request.demand import resolved, with_pipelines_batch
from cs_input_analyzer.request.options import current_from
from tests.builders import make_options
from wafer_model.published import published_runs


def demanded(options: Options) -> Consumption | None:
    return resolved(options)[1]


def test_a_model_of_the_wafer_is_a_demand_with_an_interval() -> None:
    found = demanded(make_options(wafer="BERT-large", batch_size=1024, sequence_length=128))
    assert (found.source, found.system, found.mode) == ("model", "CS-2", "pipelined")
    assert found.samples_per_s.low < found.samples_per_s.estimate < found.samples_per_s.high
    streamed = demanded(make_options(wafer="bert_large", batch_size=1024, wafer_mode="weight_streaming"))
    assert streamed.mode == "weight_streaming"
    assert streamed.samples_per_s.estimate < found.samples_per_s.estimate
    assert any("tokens" in note for note in streamed.notes)  # what the model assumed goes with the demand


def test_a_finished_run_is_a_demand(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    path.write_text(json.dumps({"samples_per_sec": 1000.0, "est_samples_per_sec": 4000.0, "suspected_input_bottleneck": True}))
    found = demanded(make_options(performance_json=str(path)))
    assert found.source == "performance_json"
    assert found.samples_per_s.estimate == 4000.0  # the run was held down by its input


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        *(({"step_time": step, "batch_size": 256}, "positive number") for step in (0.0, math.nan)),
        ({"step_time": 1e-30, "batch_size": 256}, "beyond any"),
        ({"compile_report": "a", "performance_json": "b"}, "--compile-report and --performance-json"),
        ({"wafer": "bert_large", "batch_size": 8, "system": "CS-9"}, "CS-9"),
        ({"wafer": "gptj_6b", "batch_size": 8, "wafer_mode": "pipelined"}, "use weight streaming"),
        ({"wafer": "gpt2", "batch_size": 8}, "gpt2_small, gpt2_medium"),
    ],
)
def test_a_source_that_cannot_be_is_named(choices: dict[str, Any], words: str) -> None:
    """Beside those of `cli/test_wrong_calls.py`."""
    with pytest.raises(UsageError, match=words):
        demanded(make_options(**choices))


def test_a_model_without_a_batch_size_takes_the_pipelines() -> None:
    options = make_options(wafer="bert_large", sequence_length=128)
    assert demanded(options) is None
    _, found = with_pipelines_batch(options, SamplesPerElement(value=256, source="batch(256)"))
    stated = demanded(replace(options, batch_size=256))
    assert (found.samples_per_s, found.batch_size) == (stated.samples_per_s, 256)
    assert "batch size 256" in found.notes[-1]
    with pytest.raises(UsageError, match="needs --batch-size"):
        with_pipelines_batch(options, SamplesPerElement(value=None, source="buckets", counted_in=0))


def test_the_wafer_command_prints_what_limits_and_writes_it_down(tmp_path: Path) -> None:
    path = tmp_path / "wafer.json"
    done = CliRunner().invoke(cli, ["wafer", "bert_large", "--batch-size", "1024", "--json", str(path)])
    assert done.exit_code == 0
    assert "consumes" in done.output
    assert "block*.ffn1" in done.output
    assert max(map(len, done.output.splitlines())) <= 80
    written = json.loads(path.read_text())
    assert written["samples_per_s"]["low"] < written["samples_per_s"]["estimate"]
    assert (written["source"], written["system"], written["mode"]) == ("model", "CS-2", "pipelined")
    assert len(written["rows"]) > 100


def test_the_wafer_command_takes_a_measured_rate(tmp_path: Path) -> None:
    words = ("bert_base", "--batch-size", "64", "--mode", "weight_streaming", "--calibrate", "30")
    done = CliRunner().invoke(cli, ["wafer", *words, "--json", str(tmp_path / "wafer.json")])
    assert done.exit_code == 0
    assert json.loads((tmp_path / "wafer.json").read_text())["samples_per_s"]["estimate"] == pytest.approx(30.0, rel=0.05)


# --- the launch in use today ----------------------------------------------------------------------------------------------------


def test_the_sites_defaults_are_a_launch_where_all_are_set() -> None:
    environ = {"DEF_NODES": "4", "DEF_TASKS": " 8", "DEF_CPUS": "16"}
    assert str(current_from(environ)) == "4x8x16"
    for name in environ:
        assert current_from({**environ, name: ""}) is None
    assert current_from({}) is None


def test_a_launch_that_is_given_asks_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEF_CPUS", "many")
    assert str(make_options(current="2x3x4").current) == "2x3x4"
    with pytest.raises(UsageError, match="DEF_CPUS=many: must be a whole number"):
        make_options()


SOURCES: list[dict[str, Any]] = [
    {"demand": 500.0},
    {"step_time": 0.1, "batch_size": 50},
    {"performance_json": "performance.json"},
    {"wafer": "bert_large", "batch_size": 1024},
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: next(iter(source)))
def test_a_mode_is_one_word_however_it_is_written_and_none_where_nobody_says_one(
    source: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "performance.json").write_text('{"samples_per_sec": 1000.0}')
    for word in ("weight-streaming", "weight_streaming"):
        options, found = resolved(make_options(**source, wafer_mode=word))
        assert found.mode == "weight_streaming"
        assert single_task_nodes(8, found, options) == 2
    assert demanded(make_options(**source)).mode == ("pipelined" if "wafer" in source else None)


# --- demo ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "demand", "cluster"),
    [
        ([], 3500.0, "alcf-cs2-01"),
        (["--sample", "vit"], 3500.0, "alcf-cs2-01"),
        (["--sample", "bert_pretrain"], 7022.97, "alcf-cs2-01"),
        (["--demand", "9"], 9.0, "alcf-cs2-01"),
        (["--wafer", "bert_large", "--batch-size", "1024"], None, "alcf-cs2-01"),
        (["--performance-json", "run.json"], None, "alcf-cs2-01"),
        (["--sample", "gpt2", "--cluster", "local"], None, "local"),
        (["--sample", "fc_mnist"], None, "alcf-cs2-01"),
        (["--launcher", "slurm"], 3500.0, None),
    ],
)
def test_the_demo_has_a_demand_where_none_is_named(
    arguments: list[str], demand: float | None, cluster: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(analyze, "_write_sample", lambda sample, folder, progress: tmp_path / "params.yaml")
    monkeypatch.setattr(analyze, "_analyze", lambda target, params, overrides, choices, known: asked.append(choices) or 0)
    assert main(["demo", "-q", *arguments]) == 0
    assert (asked[0]["demand"], asked[0]["cluster"]) == (demand, cluster)


@pytest.mark.parametrize(
    ("arguments", "current"),
    [
        ([], "1x2x32"),
        (["--sample", "vit"], "1x2x32"),
        (["--current", "2x2x8"], "2x2x8"),
        (["--sample", "gpt2"], None),
        (["--cluster", "local"], None),
    ],
)
def test_the_demo_judges_a_stated_launch_of_its_own_cluster_alone(
    arguments: list[str], current: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(analyze, "_write_sample", lambda sample, folder, progress: tmp_path / "params.yaml")
    monkeypatch.setattr(analyze, "_analyze", lambda target, params, overrides, choices, known: asked.append(choices) or 0)
    assert main(["demo", *arguments]) == 0
    launch = asked[0]["current"]
    assert (None if launch is None else str(launch)) == current
    assert ("demo --sample vit" in capsys.readouterr().err) is ("--sample" not in arguments)


def test_the_demos_wafer_was_seen_to_take_that_much_when_it_was_fed() -> None:
    """A run that waited for its input says what its input gave: its rate while it was fed is stated beside it."""
    runs = {run.id: run for run in published_runs()}
    for sample, (name, fed_per_s) in analyze.PUBLIC_RUNS.items():
        run, known = runs[name], analyze.public_demand(sample)
        assert known is not None
        assert (run.bound == "compute") is (fed_per_s is None)
        assert fed_per_s is None or f"{fed_per_s:,.0f} in bursts" in run.source
        assert (known.samples_per_s.estimate, known.system) == (fed_per_s or run.samples_per_s, run.system)
        assert name in known.notes[0]
    assert analyze.public_demand("gpt2") is None
