"""The project itself: what importing it costs, which way imports point, and whether its pages say what its code does."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

from tests.functional.running import loaded_after

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT_LINE = re.compile(r"^\| `([A-Za-z0-9_.-]+)` \|", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def pyproject(root: Path) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def commands() -> dict[str, click.Command]:
    return import_module("cs_input_analyzer.cli").cli.commands


# --- how long functions are --------------------------------------------------------------------------------------------------

LONGEST_FUNCTION_LINES = 60


def test_no_function_is_too_long(root: Path) -> None:
    found = set()
    for package in ("cs_input_analyzer", "wafer_model", "sample_pipelines"):
        for path in sorted((root / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION_LINES:
                    found.add(f"{path.relative_to(root)}: {node.name}")
    assert found == set()


# --- what importing costs --------------------------------------------------------------------------------------------------

HEAVY = ("tensorflow", "keras", "scipy", "pandas")
# What a command may load to say how it is used.
OF_A_HELP = {"click", "cs_input_analyzer", "wafer_model", "sample_pipelines"}
LOADED = "import sys; print({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names - {'__main__'})"


@pytest.fixture(scope="module")
def bare() -> set[str]:
    """What a site puts into every Python: editable installations, coverage."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    return set(ast.literal_eval(done.stdout))


@pytest.mark.parametrize("words", ["", "--help", "--version", "analyze --help", "demo --help", "report --help"])
def test_importing_and_asking_for_help_load_what_is_listed(words: str, bare: set[str]) -> None:
    arguments, allowed = words.split(), OF_A_HELP if words else {"cs_input_analyzer"}
    call = "import cs_input_analyzer"
    if arguments:
        call = f"import sys; from cs_input_analyzer.cli import main; sys.argv[1:] = {arguments!r}; main()"
    done = subprocess.run([sys.executable, "-c", f"{call}\n{LOADED}"], capture_output=True, text=True, check=True, timeout=60)
    loaded = ast.literal_eval(done.stdout.splitlines()[-1])
    assert loaded - bare - allowed == set()


def test_import_and_watching_a_list_load_nothing_heavy() -> None:
    """And what is loaded is seen."""
    call = "import cs_input_analyzer as csia, wafer_model, sample_pipelines.sharding; list(csia.InputMonitor([[1, 2]] * 300, 2))"
    assert loaded_after(f"{call}; sys.modules['keras.seen'] = None", *HEAVY) == {"keras"}


def test_every_public_name_is_there_and_explained() -> None:
    package = import_module("cs_input_analyzer")
    assert {"analyze", "load_analysis", "Cluster", "__version__"} <= set(package.__all__)
    for name in package.__all__:
        assert name.startswith("__") or (getattr(package, name).__doc__ or "").strip(), name


# --- dependencies ----------------------------------------------------------------------------------------------------------


def test_every_dependency_has_its_line_and_every_line_its_dependency(root: Path, pyproject: dict) -> None:
    explained = [name.lower() for name in PROJECT_LINE.findall((root / "docs/dependencies.md").read_text(encoding="utf-8"))]
    assert len(explained) == len(set(explained))
    project = pyproject["project"]
    requirements = [*pyproject["build-system"]["requires"], *project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        requirements += extra
    names = {re.split(r"[<>=!~;\[ ]", requirement, maxsplit=1)[0].lower() for requirement in requirements}
    assert set(explained) == names - {project["name"].lower()}


def test_every_runtime_dependency_is_imported_somewhere(root: Path, pyproject: dict) -> None:
    module_of = {"pyyaml": "yaml"}
    sources = [
        path.read_text(encoding="utf-8")
        for folder in ("cs_input_analyzer", "wafer_model", "sample_pipelines")
        for path in (root / folder).rglob("*.py")
    ]
    text = "\n".join(sources)
    extras = pyproject["project"]["optional-dependencies"]
    for requirement in (*pyproject["project"]["dependencies"], *extras["tensorflow"], *extras["csv"]):
        name = re.split(r"[<>=!~;\[ ]", requirement, maxsplit=1)[0].lower()
        module = module_of.get(name, name)
        assert re.search(rf"^\s*(import|from) {module}\b", text, re.MULTILINE), f"{name} is declared and never imported"


def test_the_versions_agree(root: Path, pyproject: dict) -> None:
    version = import_module("cs_input_analyzer").__version__
    assert pyproject["project"]["dynamic"] == ["version"]
    assert f"\nversion: {version}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## [{version}]" in (root / "CHANGELOG.md").read_text(encoding="utf-8")


# --- pages -----------------------------------------------------------------------------------------------------------------


def test_every_command_is_in_the_readme_and_in_the_interface_page(root: Path) -> None:
    assert {"analyze", "demo", "report", "tf-config"} <= set(commands())
    for page in ("README.md", "docs/interfaces.md"):
        text = (root / page).read_text(encoding="utf-8")
        assert [name for name in commands() if f"`{name}" not in text and f"cs_input_analyzer {name}" not in text] == [], page


def test_the_interface_page_has_every_option_and_preset_and_no_option_that_is_not_there(root: Path) -> None:
    text = (root / "docs/interfaces.md").read_text(encoding="utf-8")
    promised = set(re.findall(r"`(--[a-z][a-z-]*)[ `/=]", text))
    options = [option for command in commands().values() for option in command.params]
    flags = {flag for option in options for flag in option.opts if flag.startswith("--")}
    assert len(flags) > 20
    assert flags - promised == set()
    options += import_module("cs_input_analyzer.cli.original").original.params
    there = {flag for option in options for flag in (*option.opts, *option.secondary_opts)}
    assert promised - there - {"--help", "--version"} == set()
    presets = import_module("cs_input_analyzer.host.cluster").preset_names()
    assert presets
    assert [name for name in presets if f"`{name}`" not in text] == []


def test_every_command_and_option_explains_itself() -> None:
    for name, command in commands().items():
        assert (command.help or "").strip(), name
        for option in command.params:
            if isinstance(option, click.Option):
                assert (option.help or "").strip(), f"{name} {option.opts}"


def test_no_relative_link_is_broken(root: Path) -> None:
    broken = []
    checked = 0
    folders = ("*.md", "docs/**/*.md", "benchmarks/**/*.md", "sample_pipelines/**/*.md")
    for page in (page for pattern in folders for page in root.glob(pattern)):
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for match in LINK.finditer(text):
            target = match[1] or match[2]
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = page.parent / unquote(path) if path else page
            checked += 1
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in heading_anchors(file)):
                broken.append(f"{page.relative_to(root)}: {target}")
    assert broken == []
    assert checked > 5


def test_the_page_on_reliability_names_tests_that_are_there(root: Path) -> None:
    missing = []
    for row in (root / "docs" / "reliability.md").read_text(encoding="utf-8").splitlines():
        files = [root / name for name in re.findall(r"`(tests/[\w/]+\.py)`", row)]
        missing += [str(file) for file in files if not file.is_file()]
        texts = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
        missing += [name for name in re.findall(r"`(test_\w+)`", row) if not any(f"def {name}(" in text for text in texts)]
    assert missing == []


def heading_anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to headings: lower case, punctuation dropped, blanks to hyphens."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


# --- the Makefile finds a Python, or says what to do -----------------------------------------------------------------------


def fake_python(folder: Path, name: str, *, fits: bool, has_ensurepip: bool) -> None:
    """An interpreter that answers the Makefile's two questions, and refuses everything else."""
    answers = f'case "$*" in *sys.exit*) exit {int(not fits)};; *"import ensurepip"*) exit {int(not has_ensurepip)};; esac'
    program = folder / name
    program.write_text(f'#!/bin/sh\n{answers}\necho "asked: $*" >&2\nexit 9\n', encoding="utf-8")
    program.chmod(0o755)


NEEDED, NO_ENSUREPIP = "Python 3.10, 3.11, 3.12 or 3.13 is needed", "sudo apt-get install python3-venv"
# By the name of an interpreter, whether its version fits and whether it has ensurepip; the last of these is what is wanted.
SEVERAL = {"python3": (False, True), "python3.13": (True, False), "python3.12": (True, True)}


@pytest.mark.parametrize(
    ("pythons", "arguments", "said"),
    [
        ({}, [], [NEEDED]),
        ({"python3": (False, True)}, [], [NEEDED]),
        ({"python3": (True, False)}, [], [NO_ENSUREPIP]),
        (SEVERAL, [], ["(python3.12)", "asked: -m venv --clear"]),
        (SEVERAL, ["PYTHON=python3.12"], ["(python3.12)", "asked: -m venv --clear"]),
    ],
    ids=["none", "unfit", "no ensurepip", "found", "named"],
)
def test_make_takes_a_python_that_can_or_says_what_to_install(
    root: Path, tmp_path: Path, pythons: dict[str, tuple[bool, bool]], arguments: list[str], said: list[str]
) -> None:
    make, venv = shutil.which("make"), tmp_path / "env"
    if make is None:
        pytest.skip("make is not installed here")
    (tmp_path / "bin").mkdir()
    for name, (fits, has_ensurepip) in pythons.items():
        fake_python(tmp_path / "bin", name, fits=fits, has_ensurepip=has_ensurepip)
    run = subprocess.run(
        [make, "--no-print-directory", f"VENV={venv}", f"{venv}/.made-for", *arguments],
        cwd=root,
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode != 0  # the fake refuses to make an environment, too
    assert all(words in run.stdout + run.stderr for words in said)


def test_make_help_names_every_target(root: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed here")
    targets = re.findall(r"^\.PHONY: (?!stale)([a-z]+)$", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    run = subprocess.run([make, "help"], cwd=root, capture_output=True, text=True, timeout=60, check=True)
    assert {"demo", "test", "check", "clean"} <= set(targets)
    assert [name for name in targets if not re.search(rf"^  {name} ", run.stdout, re.MULTILINE)] == []
