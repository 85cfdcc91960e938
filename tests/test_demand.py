"""Where the demand comes from: one source of several, each checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cs_input_analyzer.api import make_options
from cs_input_analyzer.cli import analyze, cli, main
from cs_input_analyzer.demand import consumption_of
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.recommend import single_task_nodes
from cs_input_analyzer.records import Options


def test_without_a_source_there_is_no_demand() -> None:
    assert consumption_of(make_options()) is None


def test_a_model_of_the_wafer_is_a_demand_with_an_interval() -> None:
    found = consumption_of(make_options(wafer="bert_large", batch_size=1024, sequence_length=128))
    assert found is not None
    assert (found.source, found.system, found.mode) == ("model", "CS-2", "pipelined")
    assert found.samples_per_s.low < found.samples_per_s.estimate < found.samples_per_s.high
    streamed = consumption_of(make_options(wafer="bert_large", batch_size=1024, wafer_mode="weight_streaming"))
    assert streamed is not None
    assert streamed.mode == "weight_streaming"
    assert streamed.samples_per_s.estimate < found.samples_per_s.estimate


def test_a_calibration_point_is_met() -> None:
    found = consumption_of(make_options(wafer="gptj_6b", batch_size=120, calibrate_samples_per_s=30.0))
    assert found is not None
    assert found.samples_per_s.estimate == pytest.approx(30.0, rel=0.05)


def test_a_finished_run_is_a_demand(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    path.write_text(json.dumps({"samples_per_sec": 1000.0, "est_samples_per_sec": 4000.0, "suspected_input_bottleneck": True}))
    found = consumption_of(make_options(performance_json=str(path)))
    assert found is not None
    assert found.source == "performance_json"
    assert found.samples_per_s.estimate == 4000.0  # the run was held down by its input


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"demand": 5.0, "wafer": "bert_large"}, "--demand and --wafer"),
        ({"demand": 5.0, "step_time": 1.0, "batch_size": 4}, "--demand and --step-time"),
        ({"compile_report": "a", "performance_json": "b"}, "--compile-report and --performance-json"),
        ({"step_time": 1.0}, "--batch-size"),
        ({"sequence_length": 128}, "--wafer"),
        ({"wafer": "bert_large", "batch_size": 8, "systems": 0}, "--systems 0"),
    ],
)
def test_sources_that_contradict_or_lack_something_are_refused(choices: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_options(**choices)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"wafer": "no_such_net", "batch_size": 8}, "no_such_net"),
        ({"wafer": "bert_large"}, "batch size"),
        ({"wafer": "bert_large", "batch_size": 8, "system": "CS-9"}, "CS-9"),
        ({"wafer": "gptj_6b", "batch_size": 8, "wafer_mode": "pipelined"}, "use weight streaming"),
        ({"compile_report": "/nowhere/compile_report.txt"}, "/nowhere/compile_report.txt"),
        ({"performance_json": "/nowhere/performance.json"}, "/nowhere/performance.json"),
        ({"demand": float("nan")}, "demand"),
    ],
)
def test_a_source_that_cannot_be_is_named(choices: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        consumption_of(make_options(**choices))  # type: ignore[arg-type]


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


def test_a_network_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wafer", "no_such_net", "--batch-size", "8"]) == 2
    assert "no_such_net" in capsys.readouterr().err


@pytest.mark.parametrize("choices", [{"demand": 500.0}, {"step_time": 0.1, "batch_size": 50}])
def test_a_declared_demand_says_how_the_wafer_runs_where_that_is_told(choices: dict[str, float]) -> None:
    found = consumption_of(make_options(**choices, wafer_mode="weight_streaming"))  # type: ignore[arg-type]
    assert found is not None
    assert found.mode == "weight_streaming"
    plain = consumption_of(make_options(**choices))  # type: ignore[arg-type]
    assert plain is not None
    assert plain.mode is None


SOURCES: list[dict[str, object]] = [
    {"demand": 500.0},
    {"step_time": 0.1, "batch_size": 50},
    {"performance_json": "performance.json"},
    {"wafer": "bert_large", "batch_size": 1024},
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: next(iter(source)))
@pytest.mark.parametrize("word", ["weight-streaming", "weight_streaming"])
def test_a_mode_is_one_word_however_it_is_written(
    source: dict[str, object], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "performance.json").write_text('{"samples_per_sec": 1000.0}')
    options = make_options(**source, wafer_mode=word)  # type: ignore[arg-type]
    found = consumption_of(options)
    assert found is not None
    assert found.mode == "weight_streaming"
    assert single_task_nodes(8, found, options) == 2


@pytest.mark.parametrize("word", ["streaming", "Weight-Streaming", "", "pipelined "])
def test_another_word_for_the_mode_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="modes are pipelined and weight_streaming"):
        make_options(wafer_mode=word)
    with pytest.raises(UsageError, match="modes are pipelined and weight_streaming"):
        consumption_of(Options(demand_samples_per_s=5.0, wafer_mode=word))


# --- demo ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "demand", "cluster"),
    [
        ([], 479_188.55, "alcf-cs2-01"),
        (["--demand", "9"], 9.0, "alcf-cs2-01"),
        (["--wafer", "bert_large", "--batch-size", "1024"], None, "alcf-cs2-01"),
        (["--performance-json", "run.json"], None, "alcf-cs2-01"),
        (["--sample", "gpt2", "--cluster", "local"], None, "local"),
        (["--launcher", "slurm"], 479_188.55, None),
    ],
)
def test_the_demo_has_a_demand_where_none_is_named(
    arguments: list[str], demand: float | None, cluster: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(analyze, "_write_sample", lambda sample, folder, progress: tmp_path / "params.yaml")
    monkeypatch.setattr(analyze, "_analyze", lambda target, params, overrides, choices: asked.append(choices) or 0)
    assert main(["demo", "-q", *arguments]) == 0
    assert (asked[0]["demand"], asked[0]["cluster"]) == (demand, cluster)


def test_a_sample_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--sample", "nosuch"]) == 2
    assert "there are fc_mnist" in capsys.readouterr().err
