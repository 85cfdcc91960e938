"""A run that version 0.1.0 saved is read, shown, planned again and compared; what it lacks is missing, and made up nowhere."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import cs_input_analyzer as csia
from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.report import FORMATS, render
from cs_input_analyzer.report.to_json import from_json
from tests.builders import make_analysis, make_capacity_model

# Written by the code of 2026-11-21 before there were a capacity model, stations and samples per element; traces cut to be short.
FILE = Path(__file__).with_name("run_0.1.0.json")


def lacking(record: Any, saved: Any, place: str = "") -> dict[str, object]:
    """What the record holds at places that the file does not have."""
    found: dict[str, object] = {}
    if dataclasses.is_dataclass(record) and isinstance(saved, dict):
        for field in dataclasses.fields(record):
            value = getattr(record, field.name)
            if field.name not in saved:
                found[f"{place}{field.name}"] = value
            else:
                found |= lacking(value, saved[field.name], f"{place}{field.name}.")
    elif isinstance(record, tuple) and isinstance(saved, list):
        for value, item in zip(record, saved, strict=True):
            found |= lacking(value, item, place)
    return found


def test_what_it_lacks_is_missing() -> None:
    run = csia.load_analysis(FILE)
    lacks = lacking(run, json.loads(FILE.read_text()))
    for name in ("capacity", "pipeline.samples_per_element", "fixes", "scaling", "parent"):
        assert lacks[name] is None, name
    seen = ("measurements.", "profile.", "storage.", "budget.")
    made_up = {name for name, value in lacks.items() if name.startswith(seen) and value not in (None, (), "", False)}
    assert made_up == set()


# Fields that runs of version 0.2 have, by their place.
GONE: dict[tuple[str, ...], Any] = {
    ("soak",): {"asked_s": 600.0, "seconds": 600.0, "points": [], "grown": "shuffle"},
    ("options", "soak_s"): 600.0,
    ("options", "egress"): "measure",
    ("budget", "soak_s"): 600.0,
    ("capacity", "sending_cpu_s_per_sample"): 1e-6,
    ("storage", "fsspec"): {"files": None, "wait_s_per_sample": 0.005, "latency_s": 0.03, "read_bytes": 2**20},
}


def test_fields_that_are_gone_are_ignored(tmp_path: Path) -> None:
    text = render(make_analysis(capacity=make_capacity_model()), "json")
    (tmp_path / "run.json").write_text(text)
    saved = json.loads(text)
    for (*parents, name), value in GONE.items():
        place = saved
        for parent in parents:
            place = place[parent]
        assert name not in place
        place[name] = value
    (tmp_path / "older.json").write_text(json.dumps(saved))
    assert csia.load_analysis(tmp_path / "older.json") == csia.load_analysis(tmp_path / "run.json")


@pytest.mark.parametrize("form", FORMATS)
def test_it_is_shown_in_every_format(form: Any) -> None:
    assert render(csia.load_analysis(FILE), form)


def test_it_is_planned_again_on_what_it_measured() -> None:
    run = csia.load_analysis(FILE)
    found = run.plan(demand="100k", nodes=16)
    assert found.recommendation.layout.cpus > run.recommendation.layout.cpus


def test_options_that_are_gone_are_passed_over_and_a_speed_keeps_its_basis() -> None:
    run = json.loads(FILE.read_text())
    gone = {"node_reference": "10234567+-1.5%@3.11", "host_history": False, "threads_per_core": 2, "systems": 4, "dtype": "fp32"}
    run["options"] |= gone
    run["cluster"] |= {"speed_ratio": {"estimate": 1.2, "low": 1.1, "high": 1.3}, "speed_basis": "CPU models"}
    found = from_json(json.dumps(run), origin="run.json")
    assert found.options == csia.load_analysis(FILE).options
    assert found.cluster.speed_basis == "CPU models"
    assert "by published scores of both CPU models" in " ".join(render(found, "console", full=True).split())


def test_it_is_compared_with_one_of_today(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    csia.load_analysis(FILE).plan().to_json(tmp_path / "new.json")
    assert main(["compare", str(FILE), str(tmp_path / "new.json")]) == 0
    assert "NO DIFFERENCE SEEN" in capsys.readouterr().out


def test_what_needs_more_than_it_holds_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.py").write_text("")
    with pytest.raises(UsageError, match="written by an older version"):
        csia.load_analysis(FILE).validate(layouts=["1x1x1"], max_seconds=5)
