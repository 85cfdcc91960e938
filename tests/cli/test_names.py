"""Names that are no UTF-8: those of code are refused before anything is run, all others are carried."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cs_input_analyzer as csia
from cs_input_analyzer.cli import main, original
from cs_input_analyzer.engines import selection
from cs_input_analyzer.engines.collecting import temporary_scratch
from cs_input_analyzer.errors import TargetError, UsageError
from cs_input_analyzer.report.to_json import load, to_json
from cs_input_analyzer.workflows import launched
from tests.builders import make_analysis

ODD = os.fsdecode(b"b\xff\xfe")
CODE = "def input_fn():\n    raise AssertionError('it was run')\n"


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose name is no UTF-8, with code; the current folder holds it. Whatever would run code fails the test."""

    def fails(*_: Any, **__: Any) -> None:
        raise AssertionError("code would be run")

    monkeypatch.setattr(selection, "open_engine", fails)
    monkeypatch.setattr(original, "_places", fails)
    folder = tmp_path / ODD
    folder.mkdir()
    (tmp_path / "plain").mkdir()
    for name in (folder / "d.py", folder / "run.py", tmp_path / "plain" / "d.py", tmp_path / "plain" / "run.py"):
        name.write_text(CODE)
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "run.json").write_text(to_json(make_analysis()))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", f"{ODD}/d.py:input_fn"],
        ["analyze", "link/d.py:input_fn"],  # that is where it lies
        ["analyze", "plain/d.py:input_fn", "--set", f"folder={ODD}"],
        ["analyze", "plain/d.py:input_fn", "--cluster", f"{ODD}/cluster.yaml"],
        ["tune", f"{ODD}/d.py:input_fn"],
        ["python", f"{ODD}/run.py"],
        ["python", "link/run.py"],
        ["python", "plain/run.py", f"--data={ODD}"],
        ["--list-captures", "python", "plain/run.py", ODD],
    ],
)
def test_code_under_such_a_name_is_refused_in_one_line(arguments: list[str], odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "-q"] if arguments[0] in ("analyze", "tune") else arguments) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1, said
    assert "is not UTF-8" in said[0]
    assert "rename" in said[0]


@pytest.mark.parametrize("arguments", [["analyze", "d.py:input_fn"], ["analyze", "json.tool:main"], ["python", "run.py"]])
def test_so_is_code_that_is_run_in_such_a_folder(
    arguments: list[str], odd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(odd)
    assert main(arguments) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1, said
    assert "is not UTF-8" in said[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: csia.analyze(f"{ODD}/d.py:input_fn"),
        lambda: csia.analyze("plain/d.py:input_fn", shared_dir=ODD, launcher="slurm"),
        lambda: csia.analyze("plain/d.py:input_fn", train_command=f"python {ODD}"),
    ],
)
def test_so_it_is_from_python(call: Callable[[], object], odd: Path) -> None:
    with pytest.raises(UsageError, match="is not UTF-8"):
        call()
    with pytest.raises(TargetError, match="is not UTF-8"):
        csia.analyze(f"{ODD}/d.py:input_fn")


def test_so_is_such_a_folder_for_temporary_files(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    before = list(odd.iterdir())
    with pytest.raises(UsageError, match=r"TMPDIR.*is not UTF-8"):
        temporary_scratch()
    assert list(odd.iterdir()) == before


def test_files_of_such_names_are_read_and_written(
    odd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(launched, "analyze", lambda request, **_: seen.append(request.options.params_json) or make_analysis())
    names = {form: os.fsdecode(b"run\xff.%s" % form.encode()) for form in ("json", "html", "csv", "yaml")}
    Path(names["yaml"]).write_text("size: 3\n")
    files = ("--json", names["json"], "--html", names["html"], "--csv", names["csv"], "--params", names["yaml"])
    assert main(["analyze", "plain/d.py:input_fn", *files]) == 0
    assert seen == ['{"size": 3}']
    for form in ("json", "html", "csv"):
        assert Path(names[form]).stat().st_size > 0
    for words in (
        ["report", names["json"], "-o", os.fsdecode(b"other\xff.html")],
        ["report", names["html"], "--full"],
        ["report", "run.json", "-o", f"{ODD}/run.sbatch"],
        ["plan", names["json"], "--json", f"{ODD}/plan.json"],
        ["compare", names["json"], names["html"], "--html", f"{ODD}/compare.html"],
    ):
        assert main(words) == 0, capsys.readouterr().err
    assert load(f"{ODD}/plan.json").parent is not None
    assert "Traceback" not in capsys.readouterr().err


def test_a_run_below_such_a_folder_is_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / ODD
    folder.mkdir()
    line = "INFO:root:| Train Device=xla:0, Step={}, Loss=9.5, Rate=4700.00 samples/sec, GlobalRate=4700.00 samples/sec\n"
    (folder / os.fsdecode(b"run\xfe.log")).write_text("".join(line.format(step) for step in range(100, 3000, 100)))
    for path in (folder, folder / os.fsdecode(b"run\xfe.log")):
        assert main(["inspect-run", str(path), "--json", str(tmp_path / "found.json")]) == 0, capsys.readouterr().err
    assert main(["inspect-run", str(tmp_path / os.fsdecode(b"none\xff"))]) == 2
