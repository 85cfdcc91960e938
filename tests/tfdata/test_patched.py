"""A patch, tried on modules that stay as they are on disk."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.errors import TargetError
from cs_input_analyzer.tfdata.load import find_object, parse_target
from cs_input_analyzer.tfdata.patched import patched_sources

SECOND = "NUMBER = 1\n\n\ndef number():\n    return NUMBER\n"
FIRST = "import json\nfrom csia_second import number\n\n\ndef input_fn():\n    return number() * 10\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "csia_first.py").write_text(FIRST)
    (tmp_path / "csia_second.py").write_text(SECOND)
    before, path = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load(folder: Path) -> Any:
    return find_object(parse_target(f"{folder}/csia_first.py:input_fn"))


def test_the_changed_text_is_loaded_and_the_file_is_not_touched(folder: Path) -> None:
    original = load(folder)
    with patched_sources({f"{folder}/csia_first.py": FIRST.replace("* 10", "* 70")}):
        patched = load(folder)
        assert "* 70" in inspect.getsource(patched)
    assert (original(), patched(), load(folder)()) == (10, 70, 10)
    assert "* 10" in inspect.getsource(load(folder))
    assert (folder / "csia_first.py").read_text() == FIRST


def test_a_module_that_imports_the_changed_one_is_loaded_anew(folder: Path) -> None:
    original = load(folder)
    json, second = sys.modules["json"], sys.modules["csia_second"]
    with patched_sources({f"{folder}/csia_second.py": SECOND.replace("1", "3")}):
        assert load(folder)() == 30
        assert sys.modules["json"] is json
        assert sys.modules["csia_second"] is not second
    assert original() == 10
    assert sys.modules["csia_second"] is second


def test_it_follows_links_and_takes_no_stale_bytecode_for_it(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    load(folder)  # writes __pycache__
    link = tmp_path_factory.mktemp("linked") / "here"
    link.symlink_to(folder)
    for number in (20, 30):
        with patched_sources({f"{folder}/csia_first.py": FIRST.replace("* 10", f"* {number}")}):
            assert load(folder)() == load(link)() == number


def test_what_the_patched_module_raises_passes_and_all_is_as_before(folder: Path) -> None:
    load(folder)
    modules = dict(sys.modules)
    with pytest.raises(ZeroDivisionError), patched_sources({f"{folder}/csia_first.py": "1 / 0"}):
        load(folder)
    assert sys.modules == modules
    assert load(folder)() == 10


def test_a_change_that_nobody_loads_is_no_trial(folder: Path) -> None:
    """What was handed over as a function, or is imported from elsewhere, would be the original once more."""
    original = load(folder)
    with pytest.raises(TargetError, match="not loaded anew"), patched_sources({f"{folder}/csia_first.py": FIRST}):
        pass
    assert original() == 10
    assert load(folder)() == 10
