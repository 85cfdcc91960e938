"""Where the demand comes from: one source of several, each checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cs_input_analyzer.api import make_options
from cs_input_analyzer.cli import cli, main
from cs_input_analyzer.demand import consumption_of
from cs_input_analyzer.errors import UsageError


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
