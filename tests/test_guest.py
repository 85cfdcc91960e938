"""A guest in the user's environment: what is not there costs one thing alone, with the line that installs it."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest
from builders import make_analysis

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from cs_input_analyzer import InputMonitor
from cs_input_analyzer.cli import main
from cs_input_analyzer.host import machine
from cs_input_analyzer.report import render
from cs_input_analyzer.runs import event_files, outputs

NEEDS_TENSORFLOW = {
    "demo": ("demo",),
    "analyze": ("analyze", "sample_pipelines.bert_pretrain:train_input_fn"),
    "tune": ("tune", "sample_pipelines.bert_pretrain:train_input_fn"),
    "a script": ("python", "train.py"),
}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(arguments)
    return status, capsys.readouterr().err


@pytest.mark.parametrize("arguments", NEEDS_TENSORFLOW.values(), ids=NEEDS_TENSORFLOW)
def test_without_tensorflow_the_line_that_installs_it(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    monkeypatch.setattr(machine, "tensorflow_version", lambda: None)
    status, error = said(capsys, *arguments)
    assert status == 2
    assert "pip install 'cs_input_analyzer[tensorflow]'" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("version", "is_refused"), [("2.11.1", True), ("1.15", True), ("2.12.0", False), ("3.0.0-rc0", False), ("built-here", False)]
)
def test_a_tensorflow_out_of_the_range_is_not_the_users_fault(
    version: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.metadata, "version", lambda name: version)
    if is_refused:
        with pytest.raises(machine.UsageError, match=f"TensorFlow {version} is too old to be measured: TensorFlow 2.12 or newer"):
            machine.check_tensorflow()
    else:
        machine.check_tensorflow()


def test_any_provider_of_the_module_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name != "vendors-tensorflow":
            raise machine.metadata.PackageNotFoundError(name)
        return "2.13.1+vendor"

    monkeypatch.setattr(machine.metadata, "version", version)
    monkeypatch.setattr(machine.metadata, "packages_distributions", lambda: {"tensorflow": ["vendors-tensorflow"]})
    assert machine.tensorflow_version() == "2.13.1+vendor"
    monkeypatch.setattr(machine.metadata, "packages_distributions", dict)
    assert machine.tensorflow_version() is None


def test_without_pandas_csv_alone_is_lost(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    Path("run.json").write_text(render(make_analysis(), "json"))
    assert said(capsys, "report", "run.json", "--format", "csv") == (
        2,
        "cs_input_analyzer: the format csv needs pandas: pip install pandas\n",
    )
    assert said(capsys, "report", "run.json", "--format", "md")[0] == 0


def test_without_tensorboard_events_alone_are_lost(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with_events = list(InputMonitor([[1, 2]] * 300, 2, log_dir="with"))
    monkeypatch.setattr(outputs, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    with caplog.at_level(logging.WARNING):
        assert list(InputMonitor([[1, 2]] * 300, 2, log_dir="without")) == with_events
    assert "tensorboard is not installed" in caplog.text
    assert list(Path("with").glob("events*"))
    assert not list(Path("without").glob("events*"))
    assert json.loads((Path("without") / "steps.jsonl").read_text().splitlines()[0])
    (events,) = Path("with").glob("events*")
    found = event_files.EventScalars(events)
    assert list(found.lines()) == []
    assert found.trouble is not None
    assert "pip install tensorboard" in found.trouble


def test_nothing_that_the_user_has_must_be_newer_or_older(root: Path) -> None:
    """Of SciPy and pandas the newest releases ask for a newer NumPy, which pip would install."""
    requirements = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert [text for text in requirements if "<" in text or "==" in text or "~=" in text] == []
    assert {"pandas", "scipy", "tensorflow", "pydantic"}.isdisjoint(text.partition(">")[0] for text in requirements)
