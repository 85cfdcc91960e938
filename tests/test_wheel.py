"""The wheel carries everything that runs: templates, presets and sample parameters lie beside code that looks for them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from builders import make_analysis

from cs_input_analyzer.report import render

pytestmark = [pytest.mark.long, pytest.mark.slow]


def built(what: str, source: Path, folder: Path) -> Path:
    """The wheel or sdist of a source tree. The build backend is one of the test extras, so no network is needed."""
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SOURCE_DATE_EPOCH")}
    code = f"import hatchling.build as b; b.build_{what}({str(folder)!r})"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=source, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", root, tmp_path_factory.mktemp("wheel") / "built")


def test_a_second_build_and_one_from_the_sdist_give_the_same_bytes(wheel: Path, root: Path, tmp_path: Path) -> None:
    sdist = built("sdist", root, tmp_path / "sdist")
    assert built("sdist", root, tmp_path / "again").read_bytes() == sdist.read_bytes()
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert built("wheel", source, tmp_path / "wheel").read_bytes() == wheel.read_bytes()


def shipped(root: Path, folder: str) -> set[str]:
    """Every file in a folder of the checkout that is not a build product."""
    paths = (path for path in (root / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(root).as_posix() for path in paths}


def test_the_wheel_holds_all_of_the_packages_the_templates_where_the_report_looks_and_nothing_else(root: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    templates = shipped(root, "reports/templates")
    wanted = {name.replace("reports/", "cs_input_analyzer/report/", 1) for name in templates}.union(
        *(shipped(root, package) for package in ("cs_input_analyzer", "wafer_model", "sample_pipelines"))
    )
    assert "cs_input_analyzer/__init__.py" in wanted
    assert templates
    assert held == wanted


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        fields = Parser().parsestr(archive.read(metadata).decode())
        entry_points = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
        licences = [name for name in archive.namelist() if "/licenses/" in name]
    assert any(name.endswith("/licenses/LICENSE") for name in licences)
    assert fields["License-Expression"] == "Apache-2.0"
    assert "cs_input_analyzer = cs_input_analyzer.__main__:main" in entry_points
    assert "cs-input-analyzer = cs_input_analyzer.__main__:main" in entry_points


# Run in an empty folder, so that nothing is found by accident; {site} comes before all else where it is given.
RENDER = """
import sys
sys.path[:0] = {site!r}
import cs_input_analyzer, sample_pipelines, wafer_model
for module in (cs_input_analyzer, sample_pipelines, wafer_model):
    assert module.__file__.startswith({home!r}), module.__file__
from cs_input_analyzer.cli import main
from cs_input_analyzer.host.cluster import preset_names
assert preset_names()
assert all(sample.params_path.is_file() for sample in sample_pipelines.SAMPLES)
sys.exit(main(["report", {run!r}, "-o", "report.html"]))
"""


@pytest.mark.parametrize("how", ["wheel", "checkout"])
def test_data_files_are_found_however_it_is_installed(how: str, wheel: Path, root: Path, tmp_path: Path) -> None:
    site, home = [str(root)], root
    if how == "wheel":
        home = tmp_path / "site"
        site = [str(home)]
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(home)
    folder = tmp_path / "empty"
    folder.mkdir()
    run_file = tmp_path / "run.json"
    run_file.write_text(render(make_analysis(), "json"), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = RENDER.format(site=site, home=str(home), run=str(run_file))
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "</html>" in page
    assert 'data-chart="pipeline"' in page


# --- beside packages of the user's ---------------------------------------------------------------------------------------------

# The vendor's pins of R2.x, and older releases that other packages of users ask for.
OF_THE_USER = (
    "numpy==1.25.0",
    "tensorboard==2.17.1",
    "pydantic==1.10.*",
    "click==8.0.*",
    "protobuf==3.20.*",
    "jinja2==3.0.*",
    "rich==12.*",
)
WITHOUT_TENSORFLOW = {
    "--version": "cs_input_analyzer",
    "report run.json": "Launch",
    "report run.json --format md": "# ",
    "report run.json -o page.html": "",
    "plan run.json --demand 1000": "Launch",
    "wafer bert_base --batch-size 256": "samples/s",
    "inspect-run watched": "samples/s",
    "rules": "CSI101",
}
WATCH = "import cs_input_analyzer as csia; list(csia.InputMonitor([[0] * 8] * 500, 8, log_dir='watched'))"


def environment(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    return folder


def pip(environment: Path, *arguments: str) -> str:
    """Return what pip prints. Skip the test where the package index does not answer."""
    command = [str(environment / "bin/python"), "-m", "pip", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    if run.returncode and re.search("ConnectionError|NewConnectionError|No matching distribution", run.stderr):
        pytest.skip(f"the package index does not answer: {run.stderr.splitlines()[-1]}")
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_an_index_would_take_wheel_and_sdist(wheel: Path, root: Path, tmp_path: Path) -> None:
    tools = environment(tmp_path / "tools")
    pip(tools, "install", "--quiet", "twine")
    sdist = built("sdist", root, tmp_path / "sdist")
    command = [str(tools / "bin/python"), "-m", "twine", "check", "--strict", str(wheel), str(sdist)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture(scope="module")
def guest(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of the user's, with the wheel installed. Installing it has replaced nothing there."""
    if sys.version_info >= (3, 12):
        pytest.skip("these releases have no wheels for this Python")
    folder = environment(tmp_path_factory.mktemp("guest") / "venv")

    def there() -> set[tuple[str, str]]:
        return {(one["name"], one["version"]) for one in json.loads(pip(folder, "list", "--format", "json"))}

    pip(folder, "install", "--quiet", "--only-binary", ":all:", *OF_THE_USER)
    before = there()
    pip(folder, "install", "--quiet", "--only-binary", ":all:", str(wheel))
    assert before - there() == set(), "an installation replaced these"
    return folder


def in_guest(guest: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(guest / "bin/python"), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_beside_older_packages_all_that_needs_no_tensorflow_works(guest: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(render(make_analysis(), "json"), encoding="utf-8")
    run = in_guest(guest, tmp_path, "-c", WATCH)
    assert run.returncode == 0, run.stderr
    for words, expected in WITHOUT_TENSORFLOW.items():
        run = in_guest(guest, tmp_path, "-m", "cs_input_analyzer", *words.split())
        assert run.returncode == 0, (words, run.stderr)
        assert expected in run.stdout, words
    for words in ("demo", "analyze sample_pipelines.bert_pretrain:train_input_fn"):
        run = in_guest(guest, tmp_path, "-m", "cs_input_analyzer", *words.split())
        assert run.returncode == 2
        assert "pip install 'cs_input_analyzer[tensorflow]'" in run.stderr
    run = in_guest(guest, tmp_path, "-m", "cs_input_analyzer", "report", "run.json", "--format", "csv")
    assert (run.returncode, run.stdout) == (2, "")
    assert "pip install pandas" in run.stderr
