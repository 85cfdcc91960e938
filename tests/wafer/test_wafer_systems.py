"""Systems as data: every number with a source, unknown ones None, and a user's own box."""

from __future__ import annotations

from pathlib import Path

import pytest

from wafer_model import WaferModelError
from wafer_model.systems import FIELDS, REQUIRED, find_system, load_systems

OWN = "MyBox:\n" + "".join(f"  {field}: 1000\n" for field in REQUIRED)


@pytest.mark.parametrize("name", ["CS-1", "CS-2", "CS-3"])
def test_every_number_of_a_system_has_a_source(name: str) -> None:
    system = find_system(name)
    assert system.sources
    assert all(len(source) > 10 for source in system.sources.values())
    assert system.io_bytes_per_s == 150e9  # 1.2 Tb/s
    assert system.usable_cores < system.cores
    assert "peak_flops_per_s_fp16" in system.derived


def test_a_user_adds_a_system_by_yaml(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(OWN + "  peak_flops_per_s_fp16: 7.5e15\n", encoding="utf-8")
    mine = load_systems(file)
    assert find_system("mybox", mine).peak("fp16") == 7.5e15
    assert mine["MyBox"].sources["cores"] == "given by the user"


@pytest.mark.parametrize("value", ["0", "-1", ".nan", ".inf", "true", "many", "[1]"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_number_that_cannot_be_is_named_with_its_file(tmp_path: Path, field: str, value: str) -> None:
    file = tmp_path / "mine.yaml"
    rest = OWN.replace(f"  {field}: 1000\n", "")
    wrong = [(rest + f"  {field}: {value}\n", "")] + [(rest, " is missing")] * (field in REQUIRED)
    for text, message in wrong:
        file.write_text(text, encoding="utf-8")
        with pytest.raises(WaferModelError, match=rf"mine\.yaml: MyBox\.{field}{message}"):
            load_systems(file)


@pytest.mark.parametrize("text", ["", "[]", "a: 1", "a: {wings: 2}", "{", "\x00", OWN + "  usable_cores: 2000\n"])
def test_a_file_that_is_no_system_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(WaferModelError, match=r"mine\.yaml"):
        load_systems(file)
    with pytest.raises(WaferModelError, match=r"absent\.yaml"):
        load_systems(tmp_path / "absent.yaml")
