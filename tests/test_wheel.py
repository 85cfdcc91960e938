"""The wheel carries everything that runs: templates, presets and sample parameters lie beside code that looks for them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PACKAGES = ("cs_input_analyzer", "wafer_model", "sample_pipelines")


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation: the build backend is one of the test extras, so this needs no network.
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(root),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def shipped(root: Path, package: str) -> set[str]:
    """Every file of a package in the checkout that is not a build product."""
    paths = (path for path in (root / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(root).as_posix() for path in paths}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_of_the_package_is_in_the_wheel(root: Path, names: set[str], package: str) -> None:
    expected = shipped(root, package)
    assert f"{package}/__init__.py" in expected
    assert expected - names == set()


def test_the_data_files_are_in_the_wheel(names: set[str]) -> None:
    assert "cs_input_analyzer/cluster/presets.yaml" in names
    assert any(name.startswith("sample_pipelines/") and name.endswith(".yaml") for name in names)
    assert {f"{package}/py.typed" for package in PACKAGES[:2]} <= names


def test_every_template_is_in_the_wheel_where_the_report_looks(root: Path, names: set[str]) -> None:
    templates = {
        path.relative_to(root / "reports/templates").as_posix()
        for path in (root / "reports/templates").rglob("*")
        if path.is_file()
    }
    assert templates
    assert {f"cs_input_analyzer/report/templates/{name}" for name in templates} - names == set()


def test_nothing_else_is_in_the_wheel(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".tfrecord"))] == []


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        fields = Parser().parsestr(archive.read(metadata).decode())
        entry_points = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
        assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())
    assert fields["License-Expression"] == "Apache-2.0"
    assert "cs_input_analyzer = cs_input_analyzer.cli:main" in entry_points
    assert "cs-input-analyzer = cs_input_analyzer.cli:main" in entry_points


def test_the_unpacked_wheel_runs_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    # -P is newer than 3.10: the working folder is an empty one instead, and the unpacked wheel comes before site-packages.
    (tmp_path / "empty").mkdir()
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path / "site")!r})
import cs_input_analyzer, cs_input_analyzer.cluster, sample_pipelines, wafer_model
from cs_input_analyzer.cli import main
for module in (cs_input_analyzer, sample_pipelines, wafer_model):
    assert module.__file__.startswith({str(tmp_path)!r}), module.__file__
main(["analyze", "--help"])
"""
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "empty", capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "--demand" in run.stdout
